//! Delayed coalescing: the lazy buddy by watermarks and by slack.
//!
//! # Source
//! \[BL89\] sections 3 and 4.

use super::Rule;
use super::options::Options;
use super::values::Switch;
use crate::coalesce::Delay;
use crate::layered::Layered;
use crate::percpu::NoList;
use crate::structure::{LocalLists, StructureKind};
use crate::zone::OneZone;

/// Delayed coalescing in one zone.
pub type Delayed<'m, P> = Layered<P, NoList, OneZone<'m, P, LocalLists<'m, P>, Delay>>;

const DEVIATES: &str = "Memory need not be a power of two. A part of an allocation can be freed; the whole \
    is a split block then. Before memory is taken out of service, everything is coalesced. With +reclaim=on \
    it is also coalesced before a request is refused, which is what a kernel wants; without it, as in the paper, a \
    request may be refused while locally free buddies could be coalesced. The bound of two delays holds for a free \
    into a class, so one call may cause more; with +debt=on a call coalesces two blocks of each class at most, and \
    leaves the rest to later calls.";

/// The preset of all these systems.
const LOCAL_LISTS: Options = Options {
    structure: Some(StructureKind::LocalLists),
    ..Options::NONE
};

systems! {
    /// `watermark`: the lazy buddy by watermarks.
    Watermark: Delayed {
        name: "watermark",
        summary: "The lazy buddy by watermarks: a class coalesces only when much of it is free.",
        source: "[BL89] 3.1",
        faithful: "Lazy, reclaiming and accelerated mode by the usage of a class; a coalesced block is freed into \
            the next class by that class's mode.",
        deviates: "The usage counts the block that is being freed: without it not everything coalesces eventually. \
            Memory need not be a power of two. +reclaim=on coalesces everything before a request is refused.",
        preset: LOCAL_LISTS,
        rule: Rule::Watermarks { lazy: 500, speedup: 500 },
    }

    /// `delay-2`: the lazy buddy of UNIX System V.
    Delay2: Delayed {
        name: "delay-2",
        summary: "The lazy buddy of UNIX System V: at most two coalescing delays for a free into a class.",
        source: "[BL89] 3.2 and 4, figures 1 and 3",
        faithful: "The slack variable of figure 3, with its recursive use on splits and coalescings; locally free \
            blocks at the head of a list, globally free ones at the tail, allocation from the head.",
        deviates: DEVIATES,
        preset: LOCAL_LISTS,
        rule: Rule::Slack,
    }

    /// `never`: coalescing on demand only.
    Never: Delayed {
        name: "never",
        summary: "The limiting case of delayed coalescing: blocks are coalesced only on demand, such as before a \
            request fails.",
        source: "the limit of [BL89] 3: an infinite slack",
        faithful: "Locally free blocks at the head of a list, allocation from the head, splits as in delay-2.",
        deviates: "Not a design of the paper. Everything is coalesced before a request is refused (+reclaim=off \
            refuses it), at quiesce, and before memory is taken out of service; otherwise a free merges nothing.",
        preset: Options { reclaim: Some(Switch::On), ..LOCAL_LISTS },
        rule: Rule::NEVER,
    }
}
