//! A system, described.
//!
//! SYSTEMS.md, `everybuddy systems`, the conformance suite and the laboratory go over these descriptions.
//!
//! # Invariants
//! What a row's layers are is said by its list and its preset alone; the text about them is made from them.

use core::fmt;

use super::options::{Layers, OPTIONS, OptionRow, Options};
use super::values::{ListKind, ZoneKind};
use crate::coalesce::PolicyKind;
use crate::coalesce::delay::Rule;
use crate::structure::StructureKind;

/// A system, described.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// What is as in the source.
    pub faithful: &'static str,
    /// What differs from the source, or was decided where it is silent.
    pub deviates: &'static str,
    /// The list that each CPU keeps.
    pub list: ListKind,
    /// The options that make this row what it is.
    pub preset: Options,
    /// When buddies are coalesced.
    pub rule: Rule,
    /// The coalescing policy of its composition.
    pub(super) policy: PolicyKind,
    /// The name of its composition in the list of all.
    pub(super) built: &'static str,
}

impl Row {
    /// A row without texts: a bare system of free blocks, coalesced at each free.
    pub(super) const BLANK: Row = Row {
        name: "",
        summary: "",
        source: "",
        faithful: "",
        deviates: "",
        list: ListKind::None,
        preset: Options::NONE,
        rule: Rule::AT_ONCE,
        policy: PolicyKind::Eager,
        built: "",
    };

    /// Returns the layers.
    fn layers(&self) -> Layers<'_> {
        Layers {
            list: self.list,
            preset: &self.preset,
            rule: self.rule,
        }
    }

    /// Returns the layers, from the request downwards, as text.
    pub fn composition(&self) -> impl fmt::Display {
        self.layers()
    }

    /// Returns the options that the system takes.
    pub fn options(&self) -> impl Iterator<Item = &'static OptionRow> {
        OPTIONS.iter().filter(|option| option.applies(self))
    }

    /// Returns `true` if the system takes this option.
    pub fn takes(&self, key: &str) -> bool {
        self.options().any(|option| option.key == key)
    }

    /// Returns what makes other CPUs wait for ever if a CPU stops for ever inside a call. A CPU that stops and holds
    /// none of it makes no other wait for ever.
    pub fn obstacles(&self) -> impl Iterator<Item = Obstacle> {
        let zone = match self.zone() {
            ZoneKind::One if self.list == ListKind::Magazines => Some(Obstacle::Depot),
            ZoneKind::One | ZoneKind::Separated => Some(Obstacle::Zone),
            ZoneKind::Spaces => Some(Obstacle::Space),
            ZoneKind::Domains => Some(Obstacle::Domain),
            ZoneKind::Reserved | ZoneKind::Shared | ZoneKind::Owned => None,
        };
        let list = (self.list != ListKind::None).then_some(Obstacle::List);
        [zone, list].into_iter().flatten()
    }

    /// Returns who owns free frames, unless an option chooses something else.
    pub fn zone(&self) -> ZoneKind {
        self.layers().zone()
    }

    /// Returns `true` if the system knows with which block a frame was allocated. Otherwise a free by a wrong order
    /// frees exactly the frames that it names, and each allocated frame counts as a block.
    pub fn knows_orders(&self) -> bool {
        self.structure() != StructureKind::Fields
    }

    /// Returns how free memory is kept, unless an option chooses something else.
    pub fn structure(&self) -> StructureKind {
        self.layers().structure()
    }
}

/// What a CPU that stops for ever inside a call may hold, so that others wait for it for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// The zone's lock.
    Zone,
    /// The lock of the zone, or that of the depot.
    Depot,
    /// The lock of a buddy space, or of their pool.
    Space,
    /// A domain, or a lock of the spring.
    Domain,
    /// The list of a parked CPU, which the CPU that stops is draining; with locks on lists, the lock of any list.
    List,
}

impl Obstacle {
    /// All of them.
    pub const ALL: [Obstacle; 5] = [
        Obstacle::Zone,
        Obstacle::Depot,
        Obstacle::Space,
        Obstacle::Domain,
        Obstacle::List,
    ];

    /// Returns what the CPU holds.
    pub const fn held(self) -> &'static str {
        match self {
            Obstacle::Zone => "the zone's lock",
            Obstacle::Depot => "the lock of the zone or of the depot",
            Obstacle::Space => "the lock of a buddy space or of the pool of spaces",
            Obstacle::Domain => "a domain or a lock of the spring",
            Obstacle::List => "the list of a parked CPU",
        }
    }

    /// Returns which CPUs wait.
    pub const fn waiting(self) -> &'static str {
        match self {
            Obstacle::Zone => "each CPU that needs the zone; hits of lists go on",
            Obstacle::Depot | Obstacle::Space => {
                "each CPU that needs the same lock; hits of lists go on"
            }
            Obstacle::Domain => {
                "each CPU that finds no other domain, or needs the same lock; hits of lists go on"
            }
            Obstacle::List => {
                "the owner of the list that is being drained, when it calls again. With `percpu=locked`, and in \
                 `pcp-buddy`, the obstacle is the lock of any list: each CPU that drains all lists waits"
            }
        }
    }
}

impl OptionRow {
    /// Returns `true` if a system takes the option.
    pub fn applies(&self, row: &Row) -> bool {
        (self.applies)(&row.layers())
    }
}

impl fmt::Display for Layers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { batch, high, .. } = *self.preset;
        f.write_str(match self.list {
            ListKind::None if self.zone() == ZoneKind::Owned => "one list per CPU",
            ListKind::None => "no per-CPU list",
            ListKind::Linux => "one list per CPU, refilled and drained by batches",
            ListKind::Bypass => "one list per CPU, bypassed at its watermarks",
            ListKind::Linux6 => {
                "lists per CPU for orders 0 to 3 and huge pages, high watermark tunes itself"
            }
            ListKind::Predictive => "one list per CPU, its length predicted",
            ListKind::Magazines => "two magazines per CPU, exchanged in a depot",
            ListKind::PcpBuddy => {
                "per-CPU lists by order, with blocks of page blocks that the CPU owns, under a lock"
            }
        })?;
        if let Some(high) = high {
            write!(f, ", high watermark {}", high.get())?;
        }
        if let Some(batch) = batch {
            write!(f, ", batch {}", batch.get())?;
        }
        f.write_str(match self.zone() {
            ZoneKind::One => " > one zone, one lock",
            ZoneKind::Spaces => " > buddy spaces, a lock for each",
            ZoneKind::Domains => " > elastic domains in a spring",
            ZoneKind::Separated => " > one zone, one lock, dividing and linking queues",
            ZoneKind::Reserved => " > trees that CPUs reserve, no lock",
            ZoneKind::Shared => " > one memory, no lock",
            ZoneKind::Owned => " > trees that CPUs own, no lock",
        })?;
        let is_elastic = self.zone() == ZoneKind::Domains;
        f.write_str(match self.structure() {
            StructureKind::Lists if is_elastic => " > free lists and a domain tag per frame",
            StructureKind::Lists => " > free lists and bitmap",
            StructureKind::Records => " > free lists",
            StructureKind::Trees => " > balanced trees by address and bitmap",
            StructureKind::Bits => " > bitmaps with summaries",
            StructureKind::Frames => return f.write_str(" > single frames by level and bitmap"),
            StructureKind::LocalLists => " > lists of locally and globally free blocks",
            StructureKind::MobilityLists => " > free lists by mobility and bitmap",
            StructureKind::Fields => " > bit fields and counters",
            StructureKind::Words => " > the tree of all blocks in status words",
            StructureKind::Planes => " > two bits and a byte per frame, and masks",
        })?;
        match self.zone() {
            ZoneKind::Separated => f.write_str(", coalesced by a service"),
            ZoneKind::Reserved | ZoneKind::Shared | ZoneKind::Owned => {
                f.write_str(", in which free buddies count as one block")
            }
            _ => write!(f, ", coalesced {}", self.rule.describe()),
        }
    }
}
