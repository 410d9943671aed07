//! Today's Linux: the standard buddy behind the per-CPU lists of 6.12.
//!
//! # Source
//! Linux 6.12, mm/page_alloc.c.

use super::options::Options;
use super::standard::StandardZone;
use super::values::ListKind;
use super::{Row, System};
use crate::layered::Layered;
use crate::percpu::access::{Locked, Token};
use crate::percpu::buffered::Buffered;
use crate::percpu::linux6::Linux6List;
use crate::platform::Platform;

/// The standard buddy behind Linux 6.12's lists.
pub type Pcp<'m, P> =
    Layered<P, Buffered<'m, P, Linux6List<'m, P, true>, Token>, StandardZone<'m, P>>;
/// The same, hits unchecked.
pub type PcpUnchecked<'m, P> =
    Layered<P, Buffered<'m, P, Linux6List<'m, P, false>, Token>, StandardZone<'m, P>>;
/// The same, the lists of each CPU under a lock.
pub type PcpLocked<'m, P> =
    Layered<P, Buffered<'m, P, Linux6List<'m, P, true>, Locked>, StandardZone<'m, P>>;
/// The same, the lists of each CPU under a lock, hits unchecked.
pub type PcpLockedUnchecked<'m, P> =
    Layered<P, Buffered<'m, P, Linux6List<'m, P, false>, Locked>, StandardZone<'m, P>>;

/// `linux-6`: today's Linux lists.
#[derive(Debug)]
pub struct Linux6;

impl System for Linux6 {
    type Built<'m, P: Platform> = Pcp<'m, P>;
    const ROW: &'static Row = &Row {
        name: "linux-6",
        summary: "Today's Linux lists: orders 0 to 3 and huge pages, a high watermark that tunes itself.",
        source: "Linux 6.12, mm/page_alloc.c",
        faithful: "Batch and watermarks from the zone's size, doubling refills, drains as long as the run of \
            frees, the limit on blocks of orders 1 to 3.",
        deviates: "No migrate types, no decay of the high watermark over time, no reaction to reclaim, no zone \
            watermarks. The lists have no locks (+percpu=locked is Linux's way).",
        preset: Options {
            list: Some(ListKind::Linux6),
            ..Options::NONE
        },
        ..Row::BLANK
    };
}
