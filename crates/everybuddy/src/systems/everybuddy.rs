//! Everybuddy: trees that CPUs own, two bits a frame.

use super::options::Options;
use super::values::ZoneKind;
use super::{Row, System};
use crate::everybuddy::OwnedTrees;
use crate::platform::Platform;
use crate::structure::StructureKind;

/// Trees of frames that CPUs own, without layers.
pub type EverybuddyTrees<'m, P> = OwnedTrees<'m, P>;

/// `everybuddy`: the allocator of this library.
#[derive(Debug)]
pub struct Everybuddy;

impl System for Everybuddy {
    type Built<'m, P: Platform> = EverybuddyTrees<'m, P>;
    const ROW: &'static Row = &Row {
        name: "everybuddy",
        summary: "Trees of frames that CPUs own, with two bits per frame; hits without atomic exchanges.",
        source: "none",
        faithful: "-",
        deviates: "-",
        preset: Options {
            zone: Some(ZoneKind::Owned),
            structure: Some(StructureKind::Planes),
            ..Options::NONE
        },
        ..Row::BLANK
    };
}
