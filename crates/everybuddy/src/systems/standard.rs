//! The standard buddy, bare and behind Linux 2.6.32's per-CPU list.
//!
//! # Source
//! \[iBuddy\] sections 2 to 4; \[BL89\] section 3; \[Spring\] section IV for the lists of fixed length.

use super::numbers::Count;
use super::options::Options;
use super::values::ListKind;
use crate::coalesce::Eager;
use crate::layered::Layered;
use crate::percpu::NoList;
use crate::percpu::access::{Locked, Token};
use crate::percpu::buffered::Buffered;
use crate::percpu::linux::LinuxList;
use crate::percpu::predictive::PredictiveList;
use crate::structure::{FreeLists, RecordLists};
use crate::zone::{OneZone, Spaces};

/// One zone of free blocks, coalesced at each free.
pub type StandardZone<'m, P> = OneZone<'m, P, FreeLists<'m, P>, Eager>;
/// Buddy spaces of free blocks, coalesced at each free.
pub type StandardSpaces<'m, P> = Spaces<'m, P, FreeLists<'m, P>, Eager>;
/// One zone of free blocks whose states are in records, coalesced at each free.
pub type RecordZone<'m, P> = OneZone<'m, P, RecordLists<'m, P>, Eager>;
/// Buddy spaces of such blocks.
pub type RecordSpaces<'m, P> = Spaces<'m, P, RecordLists<'m, P>, Eager>;
/// Linux 2.6.32's list for each CPU.
pub type LinuxLists<'m, P> = Buffered<'m, P, LinuxList<'m, P>, Token>;
/// Spring Buddy's list for each CPU.
pub type PredictiveLists<'m, P> = Buffered<'m, P, PredictiveList<'m, P>, Token>;

/// The standard buddy.
pub type Buddy<'m, P> = Layered<P, NoList, StandardZone<'m, P>>;
/// The standard buddy behind Linux 2.6.32's list.
pub type Lbs<'m, P> = Layered<P, LinuxLists<'m, P>, StandardZone<'m, P>>;
/// The same, each list under a lock.
pub type LbsLocked<'m, P> =
    Layered<P, Buffered<'m, P, LinuxList<'m, P>, Locked>, StandardZone<'m, P>>;
/// The standard buddy in buddy spaces.
pub type BuddyInSpaces<'m, P> = Layered<P, NoList, StandardSpaces<'m, P>>;
/// The standard buddy in buddy spaces, behind Linux 2.6.32's list.
pub type LbsInSpaces<'m, P> = Layered<P, LinuxLists<'m, P>, StandardSpaces<'m, P>>;
/// The standard buddy without a bitmap.
pub type RecordBuddy<'m, P> = Layered<P, NoList, RecordZone<'m, P>>;
/// The standard buddy without a bitmap, behind Linux 2.6.32's list.
pub type RecordLbs<'m, P> = Layered<P, LinuxLists<'m, P>, RecordZone<'m, P>>;
/// The standard buddy without a bitmap, in buddy spaces.
pub type RecordBuddyInSpaces<'m, P> = Layered<P, NoList, RecordSpaces<'m, P>>;
/// The standard buddy without a bitmap, in buddy spaces, behind Linux 2.6.32's list.
pub type RecordLbsInSpaces<'m, P> = Layered<P, LinuxLists<'m, P>, RecordSpaces<'m, P>>;

const FIXED_FAITHFUL: &str =
    "One list per CPU for single frames, of fixed length, in front of one zone.";
const FIXED_DEVIATES: &str = "Linux scales the batch with memory; the length here is the paper's, whatever the \
    memory, and the batch is a sixth of it (31, 62 or 124 frames). With 128 MiB and more, a list of 186 frames \
    is the list of lbs-31. The zone's lock is that of lbs-31, not Linux's queued one: +lock=queued.";
const LINUX_DEVIATES: &str = "The list is an array in the order of Linux's linked list. The batch is \
    min(memory / 4 MiB - 1, 31), so a machine below 128 MiB has a smaller one, which tables show. \
    Before a request fails, frames \
    are taken from other CPUs' lists by the protocol of percpu/drain.rs; Linux 2.6.32 drains all CPUs only on \
    direct reclaim. A CPU has one list, that of Linux one for each migrate type, with cold frames at its end. The \
    zone's lock is unfair and has a cache line of its own; that of Linux 2.6.32 was a fair ticket lock on the line \
    of free_area: +lock=ticket+line=beside. A bitmap has the states of free blocks, as in figure 5b of [iBuddy]; Linux \
    2.6.32 has them in struct page: +state=record.";

systems! {
    /// `bs`: the standard buddy.
    Bs: Buddy {
        name: "bs",
        summary: "The standard buddy: every request takes the zone's lock, splits, and coalesces.",
        source: "[iBuddy] 3.1 and figure 5b; [BL89] 3",
        faithful: "Search upwards from the requested order, recursive split, recursive coalescing while the \
            buddy's bit is set; bitmap and lists by level.",
        deviates: "Orders 0 to 10 as in the papers, up to 18 by option. The lists are last in, first out; a \
            split allocates the lower half. The papers specify neither. The zone's lock is unfair and has a cache line \
            of its own; that of Linux 2.6.32, in which [iBuddy] measures, was a fair ticket lock on the line of \
            free_area: +lock=ticket+line=beside. Linux 2.6.32 has no bitmap, which figure 5b shows: +state=record.",
    }

    /// `lbs-1`: Linux's list with bypass.
    Lbs1: Lbs {
        name: "lbs-1",
        summary: "Linux's list with bypass: at its watermarks, frames bypass it one at a time.",
        source: "[iBuddy] 2.4 and 4",
        faithful: "Watermarks as in lbs-31, batch 1: an empty list sends the request, a full one the free, \
            directly to the buddy layer.",
        deviates: LINUX_DEVIATES,
        list: ListKind::Bypass,
    }

    /// `lbs-31`: Linux 2.6.32's lazy buddy.
    Lbs31: Lbs {
        name: "lbs-31",
        summary: "Linux's lazy buddy of 2.6.32: a list per CPU, refilled and drained by batches of 31.",
        source: "[iBuddy] 2.1, 2.4 and 4",
        faithful: "Batch, high watermark (6 x batch), low watermark (0); larger orders go straight through; a batch is \
            moved under one acquisition of the zone's lock.",
        deviates: LINUX_DEVIATES,
        list: ListKind::Linux,
    }

    /// `fixlazy-186`: Linux's list with a high watermark of 186 frames.
    Fixlazy186: Lbs {
        name: "fixlazy-186",
        summary: "Linux's list with a high watermark of 186 frames, whatever the memory.",
        source: "[Spring] IV",
        faithful: FIXED_FAITHFUL,
        deviates: FIXED_DEVIATES,
        preset: Options { high: Some(Count::preset(186)), ..Options::NONE },
        list: ListKind::Linux,
    }

    /// `fixlazy-372`: Linux's list with a high watermark of 372 frames.
    Fixlazy372: Lbs {
        name: "fixlazy-372",
        summary: "Linux's list with a high watermark of 372 frames.",
        source: "[Spring] IV",
        faithful: FIXED_FAITHFUL,
        deviates: FIXED_DEVIATES,
        preset: Options { high: Some(Count::preset(372)), ..Options::NONE },
        list: ListKind::Linux,
    }

    /// `fixlazy-744`: Linux's list with a high watermark of 744 frames.
    Fixlazy744: Lbs {
        name: "fixlazy-744",
        summary: "Linux's list with a high watermark of 744 frames.",
        source: "[Spring] IV",
        faithful: FIXED_FAITHFUL,
        deviates: FIXED_DEVIATES,
        preset: Options { high: Some(Count::preset(744)), ..Options::NONE },
        list: ListKind::Linux,
    }
}
