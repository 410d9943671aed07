//! The standard buddy with free lists by mobility.
//!
//! # Source
//! Linux 6.12, mm/page_alloc.c; the second rule is ours.

use super::options::Options;
use super::{Row, System};
use crate::coalesce::ByMobility;
use crate::layered::Layered;
use crate::percpu::NoList;
use crate::platform::Platform;
use crate::structure::{MobilityLists, StructureKind};
use crate::zone::OneZone;

/// The standard buddy, with free lists by mobility.
pub type MobilityBuddy<'m, P> =
    Layered<P, NoList, OneZone<'m, P, MobilityLists<'m, P>, ByMobility>>;

/// `mobility`: free lists by the class of requests.
#[derive(Debug)]
pub struct Mobility;

impl System for Mobility {
    type Built<'m, P: Platform> = MobilityBuddy<'m, P>;
    const ROW: &'static Row = &Row {
        name: "mobility",
        summary: "The standard buddy with free lists by mobility: frames that stay lie in page blocks of their own.",
        source: "Linux 6.12, mm/page_alloc.c",
        faithful: "Free lists by type and order; the types of page blocks; the order in which other types are tried; \
            when a page block changes its type, and when a movable request takes the smallest block instead.",
        deviates: "A page block is a largest block (4 MiB); in Linux it is a huge page (2 MiB), and two of different \
            types are not merged. The frames in use that are of the request's class are not counted when a page \
            block is about to change its type. Frames that are never freed count as unmovable. No reserve for \
            atomic requests, no isolation, and no per-CPU lists, which Linux keeps by type. With steal=mixed, page \
            blocks that serve several classes are a type of their own: not a design of Linux.",
        preset: Options {
            structure: Some(StructureKind::MobilityLists),
            ..Options::NONE
        },
        ..Row::BLANK
    };
}
