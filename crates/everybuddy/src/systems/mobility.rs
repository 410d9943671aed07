//! The standard buddy with free lists by mobility.
//!
//! # Source
//! Linux 6.12, mm/page_alloc.c; the second rule is ours.

use super::options::Options;
use crate::coalesce::ByMobility;
use crate::layered::Layered;
use crate::percpu::NoList;
use crate::structure::{MobilityLists, StructureKind};
use crate::zone::OneZone;

/// The standard buddy, with free lists by mobility.
pub type MobilityBuddy<'m, P> =
    Layered<P, NoList, OneZone<'m, P, MobilityLists<'m, P>, ByMobility>>;

systems! {
    /// `mobility`: free lists by the class of requests.
    Mobility: MobilityBuddy {
        name: "mobility",
        summary: "The standard buddy with free lists by mobility: unmovable frames lie in separate page blocks.",
        source: "Linux 6.12, mm/page_alloc.c",
        faithful: "Free lists by type and order; the types of page blocks; the order in which other types are tried; \
            when a page block changes its type, and when a movable request takes the smallest block instead.",
        deviates: "A page block is a largest block (4 MiB). In Linux it is a huge page (2 MiB), so a largest block \
            contains two of them. Before a page block changes its type, Linux also counts its allocated frames of \
            the request's class; here only free frames count. The free blocks of a page block that changes its type \
            come first in their new lists; in Linux they come last. Frames that are never freed count as unmovable. \
            Atomic requests have no reserve, page blocks cannot be isolated, and Linux's per-CPU lists by type are \
            missing. With steal=mixed, page blocks that serve several classes have a type of their own, which Linux \
            does not have.",
        preset: Options { structure: Some(StructureKind::MobilityLists), ..Options::NONE },
    }
}
