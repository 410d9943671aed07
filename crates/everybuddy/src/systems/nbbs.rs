//! NBBS: a tree of status words, without locks.
//!
//! # Source
//! \[NBBS\]: the authors' papers. Their program was not read.

use super::options::Options;
use super::values::ZoneKind;
use super::{Row, System};
use crate::nbbs::Nbbs as Words;
use crate::platform::Platform;
use crate::structure::StructureKind;

/// NBBS: a system of its own, without layers.
pub type StatusWords<'m, P> = Words<'m, P>;

/// `nbbs`: a non-blocking buddy system.
#[derive(Debug)]
pub struct Nbbs;

impl System for Nbbs {
    type Built<'m, P: Platform> = StatusWords<'m, P>;
    const ROW: &'static Row = &Row {
        name: "nbbs",
        summary: "NBBS: the tree of all blocks as status bits, split and coalesced by single exchanges; no lock at all.",
        source: "[NBBS]",
        faithful: "TODO",
        deviates: "TODO",
        preset: Options {
            zone: Some(ZoneKind::Shared),
            structure: Some(StructureKind::Words),
            ..Options::NONE
        },
        ..Row::BLANK
    };
}
