//! What a system's name, its options and the machine's memory decide together.
//!
//! Why it exists: building, planning and printing a system start from the same numbers.
//!
//! Invariant: options that contradict each other never become parameters.

use core::fmt;

use super::options::{self, ListKind, ZoneKind};
use super::rows::Kind;
use super::spec::SystemSpec;
use super::{Bound, Options, Rule, Setup, Tuning, Watermarks};
use crate::error::BuildError;
use crate::frame::Order;
use crate::lock::{Hold, Line, LockKind};
use crate::serewa::{self, Manager, Remnants, Separation};
use crate::structure::Kept;
use crate::zone::{Bulk, PATIENCE, Select};

/// The per-CPU layer of a system, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// None.
    None,
    /// Linux 2.6.32's list.
    Linux(Watermarks),
    /// Linux 6.12's lists.
    Linux6(Tuning),
    /// Spring Buddy's list, which predicts.
    Predictive(Bound),
}

/// What free memory is kept as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Free blocks, split and coalesced.
    Blocks,
    /// Single frames: iBuddy.
    Frames,
    /// Locally and globally free blocks, coalesced late.
    Delayed(Rule),
}

/// The size of buddy spaces, and which are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceSize {
    /// Frames of a space, a power of two.
    pub frames: u32,
    /// Which unassigned space is preferred.
    pub select: Select,
}

/// Who owns free frames, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// One zone under one lock.
    One,
    /// iBuddy's spaces.
    Spaces(SpaceSize),
    /// Spring Buddy's domains.
    Domains {
        /// After how many blocks that it moved, times the number of domains, a CPU looks for idle ones.
        idle: u32,
    },
    /// One zone, whose blocks are divided and linked by services: Serewa.
    Separated(Separation),
}

/// A system's parameters on a machine: what its options and the machine's memory decide together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The largest order.
    pub max_order: Order,
    /// What free memory is kept as.
    pub area: Area,
    /// Who owns free frames.
    pub zone: Zone,
    /// The kind of the zone's lock, of each space's, or of the spring's.
    pub lock: LockKind,
    /// Where it lies.
    pub line: Line,
    /// How batches move.
    pub bulk: Bulk,
    /// How the free blocks of an order are kept.
    pub structure: Kept,
    /// Whether memory is divided in the beginning as the setup says.
    pub division: bool,
    /// Whether delayed coalescing is done before a request is refused.
    pub reclaim: bool,
    /// The per-CPU layer.
    pub front: Front,
    /// Whether per-CPU lists have locks (`percpu=locked`) rather than ask their owners.
    pub locked: bool,
    /// Whether hits notice misuse (`check=on`, the default).
    pub check: bool,
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.front {
            Front::None => write!(f, "no per-CPU list")?,
            Front::Linux(Watermarks {
                batch,
                high,
                bypass: false,
            }) => {
                write!(f, "batch {batch}, high mark {high}")?;
            }
            Front::Linux(Watermarks { high, .. }) => write!(f, "bypass, high mark {high}")?,
            Front::Linux6(Tuning {
                batch,
                high_min,
                high_max,
            }) => {
                write!(f, "batch {batch}, high mark {high_min} to {high_max}")?;
            }
            Front::Predictive(Bound { most }) => write!(f, "predicted, up to {most}")?,
        }
        if self.max_order != Order::TEN {
            write!(f, ", orders to {}", self.max_order)?;
        }
        if let Area::Delayed(Rule::Watermarks { lazy, speedup }) = self.area {
            let ratio = |thousandths: u32| f64::from(thousandths) / 1000.0;
            write!(
                f,
                ", lazy ratio {}, speedup ratio {}",
                ratio(lazy),
                ratio(speedup)
            )?;
        }
        if self.area == Area::Delayed(Rule::Debt) {
            f.write_str(", a call coalesces two of a class")?;
        }
        if self.reclaim {
            f.write_str(", coalesces before it refuses")?;
        }
        match self.zone {
            Zone::One => {}
            Zone::Spaces(SpaceSize { frames, select }) => {
                f.write_str(", spaces of ")?;
                options::write_space(f, frames)?;
                if select == Select::Fresh {
                    f.write_str(", fresh ones first")?;
                }
            }
            Zone::Domains { idle: PATIENCE } => f.write_str(", elastic domains")?,
            Zone::Domains { idle } => {
                write!(f, ", elastic domains, looks after {idle} blocks for each")?
            }
            Zone::Separated(Separation {
                slots,
                semaphore,
                manager,
                remnants,
            }) => {
                write!(f, ", queues of {slots} areas")?;
                if semaphore {
                    f.write_str(" under semaphores")?;
                }
                if manager == Manager::Thread {
                    f.write_str(", requests answered by a thread")?;
                }
                if remnants == Remnants::First {
                    f.write_str(", remnants first")?;
                }
            }
        }
        match self.structure {
            Kept::List => {}
            Kept::Tree => f.write_str(", balanced trees")?,
            Kept::Bitmap => f.write_str(", bit scans")?,
        }
        if self.lock == LockKind::Ticket {
            f.write_str(", ticket lock")?;
        }
        match self.bulk.hold {
            Hold::Batch => {}
            Hold::Iteration => f.write_str(", lock let go after each block")?,
            Hold::WhenContended => f.write_str(", lock let go when contended")?,
        }
        if self.line == Line::Beside {
            f.write_str(", lock beside the lists")?;
        }
        if self.bulk.rows {
            f.write_str(", batches in rows")?;
        }
        if self.locked {
            write!(f, ", locked lists")?;
        }
        if !self.check {
            write!(f, ", hits unchecked")?;
        }
        Ok(())
    }
}

/// Frames of a space when nothing else is asked for: 4 MiB, as in the paper.
const SPACE: u32 = 1 << 10;

impl SystemSpec {
    /// Returns the parameters on a machine.
    ///
    /// # Errors
    /// [`BuildError::BadCpuCount`], or [`BuildError::BadOption`] where two options don't fit each other.
    pub fn parameters(&self, setup: &Setup<'_>) -> Result<Parameters, BuildError> {
        if setup.cpus == 0 || setup.cpus == u16::MAX {
            return Err(BuildError::BadCpuCount);
        }
        let preset = &self.row.preset;
        let kind = self.options.list.map_or(self.row.kind, ListKind::kind);
        let batch = self.options.batch.or(preset.batch);
        let high = self.options.high.or(preset.high);
        let by_memory = Watermarks::linux_batch(setup.frames());
        let watermarks = match kind {
            Kind::Bare | Kind::Linux6 | Kind::Predictive => None,
            Kind::LinuxBatch => {
                let batch = batch.unwrap_or(by_memory);
                Some(Watermarks {
                    batch,
                    high: high.unwrap_or(6 * batch),
                    bypass: false,
                })
            }
            Kind::LinuxBypass => {
                let high = high.unwrap_or(6 * by_memory);
                Some(Watermarks {
                    batch: 1,
                    high,
                    bypass: true,
                })
            }
            Kind::LinuxFixed => {
                let high = high.unwrap_or(6 * by_memory);
                Some(Watermarks {
                    batch: batch.unwrap_or((high / 6).max(1)),
                    high,
                    bypass: false,
                })
            }
        };
        if watermarks.is_some_and(|marks| marks.high < marks.batch) {
            return Err(BuildError::BadOption("high"));
        }
        let front = match (kind, watermarks) {
            (_, Some(watermarks)) => Front::Linux(watermarks),
            (Kind::Linux6, _) => Front::Linux6(Tuning::linux(setup.frames(), setup.cpus)),
            (Kind::Predictive, _) => Front::Predictive(match high {
                Some(most) => Bound { most },
                None => Bound::by_memory(setup.frames(), setup.cpus),
            }),
            (_, None) => Front::None,
        };
        let max_order = self.options.order.unwrap_or(Order::TEN);
        let locked = self.options.locked.unwrap_or(false);
        let check = self.options.check.unwrap_or(true);
        let zone = self.zone(max_order)?;
        let bulk = Bulk {
            hold: self.options.hold.unwrap_or_default(),
            rows: self.options.rows.unwrap_or(false),
        };
        let lock = self.options.lock.unwrap_or_default();
        // A lock that doesn't know whether anybody waits would never be let go; rows need it throughout.
        if bulk.hold == Hold::WhenContended && lock != LockKind::Ticket
            || bulk.hold != Hold::Batch && bulk.rows
        {
            return Err(BuildError::BadOption("hold"));
        }
        // A domain is held without a lock, and knows of free blocks only.
        if matches!(zone, Zone::Domains { .. }) {
            if bulk.hold != Hold::Batch {
                return Err(BuildError::BadOption("hold"));
            }
            if self.options.line.is_some() {
                return Err(BuildError::BadOption("line"));
            }
            if self.row.area != Area::Blocks {
                return Err(BuildError::BadOption("zone"));
            }
        }
        let structure = self.options.structure.or(preset.structure);
        let division = self.options.division.or(preset.division).unwrap_or(false);
        // What coalesces at once would undo it.
        let division = match (zone, self.options.division) {
            (Zone::Separated(_), _) => division,
            (_, Some(true)) => return Err(BuildError::BadOption("division")),
            _ => false,
        };
        let area = match self.row.area {
            Area::Delayed(Rule::Watermarks { lazy, speedup }) => {
                let lazy = self.options.lazy.unwrap_or(lazy);
                let speedup = self.options.speedup.unwrap_or(speedup);
                if lazy > speedup {
                    return Err(BuildError::BadOption("lazy"));
                }
                Area::Delayed(Rule::Watermarks { lazy, speedup })
            }
            Area::Delayed(Rule::Slack) if self.options.debt == Some(true) => {
                Area::Delayed(Rule::Debt)
            }
            area => area,
        };
        // What experiments on hits need is not compiled for every zone layer.
        if (zone != Zone::One || area != Area::Blocks) && (locked || !check) {
            return Err(BuildError::BadOption(if locked {
                "percpu"
            } else {
                "check"
            }));
        }
        Ok(Parameters {
            max_order,
            area,
            structure: structure.unwrap_or_default(),
            division,
            reclaim: self.options.reclaim.unwrap_or(false),
            zone,
            lock,
            line: self.options.line.unwrap_or_default(),
            bulk,
            front,
            locked,
            check,
        })
    }

    /// Returns who owns free frames.
    fn zone(&self, max_order: Order) -> Result<Zone, BuildError> {
        let kind = self
            .options
            .zone
            .or(self.row.preset.zone)
            .unwrap_or_default();
        let Options {
            space,
            select,
            idle,
            manager,
            remnants,
            queue,
            semaphore,
            ..
        } = self.options;
        let kind = match self.options.separate {
            Some(false) if manager.is_some() => return Err(BuildError::BadOption("manager")),
            Some(false) if remnants.is_some() => return Err(BuildError::BadOption("remnants")),
            Some(false) if queue.is_some() => return Err(BuildError::BadOption("queue")),
            Some(false) if semaphore.is_some() => return Err(BuildError::BadOption("sync")),
            Some(false) => ZoneKind::One,
            Some(true) => ZoneKind::Separated,
            None => kind,
        };
        if kind != ZoneKind::Spaces && (space.is_some() || select.is_some()) {
            return Err(BuildError::BadOption("space"));
        }
        if kind != ZoneKind::Domains && idle.is_some() {
            return Err(BuildError::BadOption("idle"));
        }
        let frames = space.unwrap_or(max_order.frames().max(SPACE));
        if frames < max_order.frames() {
            return Err(BuildError::BadOption("space"));
        }
        let select = select.unwrap_or_default();
        Ok(match kind {
            ZoneKind::One => Zone::One,
            ZoneKind::Spaces => Zone::Spaces(SpaceSize { frames, select }),
            ZoneKind::Domains => Zone::Domains {
                idle: idle.unwrap_or(PATIENCE),
            },
            ZoneKind::Separated => Zone::Separated(Separation {
                slots: queue.unwrap_or(serewa::SLOTS),
                semaphore: semaphore.unwrap_or(false),
                manager: manager.unwrap_or_default(),
                remnants: remnants.unwrap_or_default(),
            }),
        })
    }
}
