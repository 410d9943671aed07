//! iBuddy, bare and behind Linux 2.6.32's per-CPU list.
//!
//! # Source
//! \[iBuddy\] sections 3 to 6.

use super::options::Options;
use super::standard::LinuxLists;
use super::values::{ListKind, ZoneKind};
use crate::coalesce::Ascend;
use crate::layered::Layered;
use crate::percpu::NoList;
use crate::structure::{Inverse, StructureKind};
use crate::zone::{OneZone, Spaces};

/// Buddy spaces of single frames.
pub type InverseSpaces<'m, P> = Spaces<'m, P, Inverse<'m, P>, Ascend>;
/// One zone of single frames.
pub type InverseZone<'m, P> = OneZone<'m, P, Inverse<'m, P>, Ascend>;

/// iBuddy.
pub type IBuddy<'m, P> = Layered<P, NoList, InverseSpaces<'m, P>>;
/// iBuddy behind Linux 2.6.32's list.
pub type Lis<'m, P> = Layered<P, LinuxLists<'m, P>, InverseSpaces<'m, P>>;
/// iBuddy in one zone.
pub type IBuddyInOneZone<'m, P> = Layered<P, NoList, InverseZone<'m, P>>;
/// iBuddy in one zone, behind Linux 2.6.32's list.
pub type LisInOneZone<'m, P> = Layered<P, LinuxLists<'m, P>, InverseZone<'m, P>>;

const FAITHFUL: &str = "Every free frame linked on its own, one bitmap whose bits represent the group and \
    its representative, next_allocation_level; spaces of 4 MiB, one assigned to each CPU, partly used ones \
    before free ones.";
const DEVIATES: &str = "A block is the one that holds its group's representative. A space is tried \
    under its lock and exchanged in the same critical section. The lists of unassigned spaces, one of the \
    partly used and one of the free, are last in, first out, under one lock. A request for several frames \
    looks at eight partly used spaces before it takes a free one, and at all if none is free. When no \
    unassigned space suffices, the spaces of other CPUs are tried in turn. The paper specifies none of this.";

/// The preset of iBuddy.
const PRESET: Options = Options {
    zone: Some(ZoneKind::Spaces),
    structure: Some(StructureKind::Frames),
    ..Options::NONE
};

systems! {
    /// `is`: iBuddy.
    Is: IBuddy {
        name: "is",
        summary: "iBuddy: every free frame on its own, a space of 4 MiB for each CPU, no per-CPU list.",
        source: "[iBuddy] 3 and 5, figures 5c and 8b",
        faithful: FAITHFUL,
        deviates: DEVIATES,
        preset: PRESET,
    }

    /// `lis-1`: lazy iBuddy with bypass.
    Lis1: Lis {
        name: "lis-1",
        summary: "Lazy iBuddy with bypass: at its watermarks, frames bypass the list one at a time.",
        source: "[iBuddy] 3 to 5, algorithms 1 and 2",
        faithful: FAITHFUL,
        deviates: DEVIATES,
        list: ListKind::Bypass,
        preset: PRESET,
    }

    /// `lis-31`: lazy iBuddy with batches of 31.
    Lis31: Lis {
        name: "lis-31",
        summary: "Lazy iBuddy with batches of 31.",
        source: "[iBuddy] 4 and 6.3.3",
        faithful: FAITHFUL,
        deviates: DEVIATES,
        list: ListKind::Linux,
        preset: PRESET,
    }
}
