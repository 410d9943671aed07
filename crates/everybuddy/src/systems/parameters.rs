//! What a system's name, its options and the machine's memory decide together.
//!
//! Planning, building and describing a system start from the same numbers.

use super::values::{ListAccess, ListKind, ZoneKind};
use super::{Bound, Rule, Steal, Tuning, Watermarks};
use crate::coalesce::PolicyKind;
use crate::frame::Order;
use crate::lock::{Hold, Line, LockKind};
use crate::serewa::ServiceOptions;
use crate::structure::StructureKind;
use crate::zone::{Exchange, Select, SpringKind};

/// What decides the code of a system: one value for each choice of a layer.
///
/// Two systems with the same composition run the same code with other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composition {
    /// The list that each CPU keeps; `Bypass` is the code of `Linux`.
    pub list: ListKind,
    /// How other CPUs reach it.
    pub access: ListAccess,
    /// The owner of free frames.
    pub zone: ZoneKind,
    /// How free memory is kept.
    pub structure: StructureKind,
    /// When buddies are coalesced, and which block serves a request.
    pub policy: PolicyKind,
}

impl Composition {
    /// Returns `true` if two compositions are equal, also in a constant.
    pub(super) const fn is(&self, other: &Self) -> bool {
        self.list as u8 == other.list as u8
            && self.access as u8 == other.access as u8
            && self.zone as u8 == other.zone as u8
            && self.structure as u8 == other.structure as u8
            && self.policy as u8 == other.policy as u8
    }
}

/// A system's parameters on a machine: what its options and the machine's memory decide together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The code.
    pub composition: Composition,
    /// The largest order.
    pub max_order: Order,
    /// Batch and high watermark of Linux 2.6.32's list; magazines have as many frames as a batch.
    pub watermarks: Watermarks,
    /// Batch and high watermarks of Linux 6.12's lists.
    pub tuning: Tuning,
    /// The bound of Spring Buddy's list.
    pub bound: Bound,
    /// Frames of a buddy space.
    pub space: u32,
    /// Which unassigned buddy space is preferred.
    pub select: Select,
    /// Which requests exchange a CPU's buddy space.
    pub exchange: Exchange,
    /// The parts of the pool of unassigned buddy spaces.
    pub shards: u32,
    /// After how many blocks, times the number of domains, a CPU looks for idle domains.
    pub idle: u32,
    /// How CPUs acquire domains.
    pub spring: SpringKind,
    /// The queues between requests and services.
    pub services: ServiceOptions,
    /// The kind of the zone's lock, of each space's, or of the spring's.
    pub lock: LockKind,
    /// Where it lies.
    pub line: Line,
    /// How long it is held while a batch moves.
    pub hold: Hold,
    /// When blocks are freed locally, with delayed coalescing.
    pub rule: Rule,
    /// Whether memory is divided initially as the setup says.
    pub division: bool,
    /// Whether delayed coalescing is done before a request is refused.
    pub reclaim: bool,
    /// When page blocks change their type.
    pub steal: Steal,
    /// Frames of a tree that a CPU reserves or owns; `None` if memory and CPUs decide.
    pub tree: Option<u32>,
}
