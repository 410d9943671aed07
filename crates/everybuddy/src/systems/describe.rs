//! The parameters of a system in words.
//!
//! Tables and pages say under a result which system it belongs to: what differs from the plainest system.
//!
//! # Invariants
//! The text says what the system does on this machine, and not which options were given.

use core::fmt;

use super::numbers::SpaceFrames;
use super::parameters::{Composition, Parameters};
use super::values::{ListAccess, ListKind, OptionValue, ZoneKind};
use super::{Bound, Predict, Rule, Steal, Tuning, Watermarks};
use crate::frame::Order;
use crate::lock::{Hold, Line, LockKind};
use crate::serewa::{Linking, Manager, RemnantPolicy};
use crate::structure::StructureKind;
use crate::zone::{BLOCKS_PER_LOOK, Exchange, Select, SpringKind};

/// The parameters that differ from the plainest system's, for people.
impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Composition {
            list,
            access,
            zone,
            structure,
            policy: _,
        } = self.composition;
        match list {
            ListKind::None if zone == ZoneKind::Owned => f.write_str("a list per CPU")?,
            ListKind::None => f.write_str("no per-CPU list")?,
            ListKind::Linux | ListKind::Bypass | ListKind::PcpBuddy => {
                let Watermarks {
                    batch,
                    high,
                    bypass,
                    merged,
                } = self.watermarks;
                if bypass {
                    write!(f, "bypass, high mark {high}")?
                } else {
                    write!(f, "batch {batch}, high mark {high}")?
                }
                if merged {
                    f.write_str(", drains merged")?;
                }
            }
            ListKind::Magazines => write!(f, "magazines of {}", self.watermarks.batch)?,
            ListKind::Linux6 => {
                let Tuning {
                    batch,
                    high_min,
                    high_max,
                    ..
                } = self.tuning;
                write!(f, "batch {batch}, high mark {high_min} to {high_max}")?;
            }
            ListKind::Predictive => {
                let Bound { max, predict, .. } = self.bound;
                let by = match predict {
                    Predict::Both => "predicted",
                    Predict::Widen => "predicted, and widened in large regions",
                    Predict::Run => "predicted by the run alone",
                    Predict::Region => "predicted by the region alone",
                    Predict::None => "not predicted",
                };
                write!(f, "{by}, first refill {}, up to {max}", self.bound.first())?;
            }
        }
        if self.max_order != Order::TEN {
            write!(f, ", orders to {}", self.max_order)?;
        }
        if structure == StructureKind::LocalLists {
            self.fmt_rule(f)?;
        }
        match zone {
            ZoneKind::One | ZoneKind::Shared => {}
            ZoneKind::Spaces => {
                f.write_str(", spaces of ")?;
                if let Ok(frames) = SpaceFrames::new(self.space) {
                    frames.write(f)?;
                }
                if self.select == Select::Fresh {
                    f.write_str(", fresh ones first")?;
                }
                f.write_str(match self.exchange {
                    Exchange::Any => "",
                    Exchange::Single => ", exchanged for single frames only",
                    Exchange::Never => ", never exchanged",
                })?;
                if self.shards > 1 {
                    write!(f, ", a pool of {} shards", self.shards)?;
                }
            }
            ZoneKind::Domains if self.idle == BLOCKS_PER_LOOK => {
                f.write_str(", elastic domains")?
            }
            ZoneKind::Domains => {
                let idle = self.idle;
                write!(f, ", elastic domains, looks after {idle} blocks for each")?;
            }
            ZoneKind::Separated => self.fmt_queues(f)?,
            ZoneKind::Reserved | ZoneKind::Owned => {
                if let Some(Ok(frames)) = self.tree.map(SpaceFrames::new) {
                    f.write_str(", trees of ")?;
                    frames.write(f)?;
                }
            }
        }
        match structure {
            StructureKind::Records => f.write_str(", states in records")?,
            StructureKind::Trees => f.write_str(", balanced trees")?,
            StructureKind::Bits => f.write_str(", bit scans")?,
            StructureKind::MobilityLists => f.write_str(match self.steal {
                Steal::Linux => ", lists by mobility",
                Steal::Mixed => ", lists by mobility and of mixed blocks",
            })?,
            StructureKind::Lists
            | StructureKind::Frames
            | StructureKind::LocalLists
            | StructureKind::Fields
            | StructureKind::Words
            | StructureKind::Planes => {}
        }
        if self.spring == SpringKind::Locked {
            f.write_str(", locked spring")?;
        }
        f.write_str(match self.lock {
            LockKind::Spin => "",
            LockKind::Ticket => ", ticket lock",
            LockKind::Queued => ", queued lock",
        })?;
        match self.hold {
            Hold::Batch => {}
            Hold::Iteration => f.write_str(", lock released after each block")?,
            Hold::WhenContended => f.write_str(", lock released when contended")?,
        }
        if self.line == Line::Beside {
            f.write_str(", lock with the lists")?;
        }
        f.write_str(match access {
            ListAccess::Token => "",
            ListAccess::Locked => ", locked lists",
        })
    }
}

impl Parameters {
    fn fmt_rule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            Rule::Watermarks { lazy, speedup } if self.rule.has_ratios() => {
                let ratio = |thousandths: u32| f64::from(thousandths) / 1000.0;
                let (lazy, speedup) = (ratio(lazy), ratio(speedup));
                write!(f, ", lazy ratio {lazy}, speedup ratio {speedup}")?;
            }
            Rule::Debt => f.write_str(", a call coalesces two of a class")?,
            // The row says the others, which have no numbers.
            _ => {}
        }
        if self.reclaim {
            f.write_str(", coalesces before it refuses")
        } else {
            Ok(())
        }
    }

    fn fmt_queues(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", queues of {} areas", self.services.slots)?;
        if self.services.locked {
            f.write_str(" under locks")?;
        }
        if self.services.linking == Linking::Idle {
            f.write_str(", linked when idle")?;
        }
        if self.services.manager == Manager::Thread {
            f.write_str(", requests answered by a thread")?;
        }
        if self.services.remnants == RemnantPolicy::First {
            f.write_str(", remnants first")?;
        }
        Ok(())
    }
}
