//! Today's Linux: the standard buddy behind the per-CPU lists of 6.12; and in several instances of a zone.
//!
//! # Source
//! Linux 6.12, mm/page_alloc.c; for the instances the description in the RFC of 2023.

use super::options::Options;
use super::standard::{StandardSpaces, StandardZone};
use super::values::{ListKind, ZoneKind};
use crate::layered::Layered;
use crate::percpu::access::{Locked, Token};
use crate::percpu::buffered::Buffered;
use crate::percpu::linux6::Linux6List;
use crate::zone::Exchange;

/// The standard buddy behind Linux 6.12's lists.
pub type Pcp<'m, P> = Layered<P, Buffered<'m, P, Linux6List<'m, P>, Token>, StandardZone<'m, P>>;
/// The same, the lists of each CPU under a lock.
pub type PcpLocked<'m, P> =
    Layered<P, Buffered<'m, P, Linux6List<'m, P>, Locked>, StandardZone<'m, P>>;

/// Instances of the standard buddy behind Linux 6.12's lists.
pub type PcpInSpaces<'m, P> =
    Layered<P, Buffered<'m, P, Linux6List<'m, P>, Token>, StandardSpaces<'m, P>>;

systems! {
    /// `linux-6`: today's Linux lists.
    Linux6: Pcp {
        name: "linux-6",
        summary: "Today's Linux lists without locks: orders 0 to 3 and huge pages, a high watermark that tunes itself.",
        source: "Linux 6.12, mm/page_alloc.c",
        faithful: "Batch and watermarks from the zone's size, doubling refills, drains as long as the run of \
            frees, the limit on blocks of orders 1 to 3.",
        deviates: "No migrate types, no decay of the high watermark over time, no reaction to reclaim, no zone \
            watermarks. The lists have no locks: linux-6+percpu=locked, where each call takes the lock of its list, \
            stands for Linux.",
        list: ListKind::Linux6,
    }

    /// `zones-4`: four instances of the zone behind Linux's lists.
    Zones4: PcpInSpaces {
        name: "zones-4",
        summary: "Today's Linux lists over four instances of the zone; a CPU prefers the one with its number.",
        source: "RFC \"mm: improve page allocator scalability via splitting zones\" [linux-mm 2023]",
        faithful: "Memory is divided by address into instances of one zone, each with a lock and free lists of its \
            own. Different CPUs prefer different instances, by their number. A request that its instance cannot \
            serve goes to the others.",
        deviates: "The RFC makes an instance for each 256 GB of memory (+space=256GiB), and measures with four. Here \
            there are four by default, or fewer: the size of an instance is a power of two. The list of a CPU is \
            that of linux-6, not of Linux 6.3, so the two rows differ in the zone alone; and it is one list for all \
            instances, where each of Linux's zones has its own. The RFC's text does not say in which order the \
            other instances are tried: here by number, from the CPU's own on.",
        list: ListKind::Linux6,
        preset: Options {
            zone: Some(ZoneKind::Spaces),
            exchange: Some(Exchange::Never),
            ..Options::NONE
        },
    }
}
