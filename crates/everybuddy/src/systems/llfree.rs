//! LLFree: bit fields, counters and reserved trees, without locks.
//!
//! # Source
//! \[LLFree\] and the authors' descriptions of their programs.

use super::options::Options;
use super::values::ZoneKind;
use super::{Row, System};
use crate::llfree::LlFree as Trees;
use crate::platform::Platform;
use crate::structure::StructureKind;

/// LLFree: a system of its own, without layers.
pub type LlFreeTrees<'m, P> = Trees<'m, P>;

/// `llfree`: LLFree's allocator.
#[derive(Debug)]
pub struct LlFree;

impl System for LlFree {
    type Built<'m, P: Platform> = LlFreeTrees<'m, P>;
    const ROW: &'static Row = &Row {
        name: "llfree",
        summary: "LLFree: a bit per frame, counters, and a reserved part of memory per CPU; no lock at all.",
        source: "[LLFree] 3 and 4",
        faithful: "Two levels. Below, 512 bits and an entry with a counter for each 2 MiB; the counter is lowered \
            before bits are taken, and raised after bits are freed; a huge frame is one exchange of its entry, a block \
            of order 10 one of two adjacent entries. Above, trees of eight children with a counter and a flag; each \
            CPU reserves one, and keeps its counter on a cache line of its own; partly used trees are preferred; four \
            frees in a row into a tree reserve it. No operation waits for another CPU.",
        deviates: "The order of an allocation is not recorded: a free by a wrong order frees exactly the frames that \
            it names, and is refused only if one of them is free, a hole or reserved, or if no such block can start \
            there. Two more bits per frame tell holes and reserved frames. An exact request takes the frames that it \
            needs and no others. The entry of a huge frame turns the meaning of its bits round, so a part of it is \
            freed without filling them. A tree is partly used between 1/16 and 15/16. A request that finds no tree \
            takes frames of any child, also where a CPU has reserved the tree; the tree's counter may then be \
            negative, and a CPU that notices gives its reservation up. Entries have versions: a request for a frame is \
            refused only if no counter rose during its search; if one rose at each of 256 searches it fails as busy. \
            A larger block is refused after at most eight searches. A CPU has one reservation for all sizes; a \
            request for a huge frame, or for a block that the CPU's tree lacks although frames are left, takes it from \
            an unreserved tree and reserves none. The CPUs start far from each other. Nothing is persistent. A \
            snapshot reads all bits. Two CPUs that free the same frames at the same time, a misuse, may free some of \
            them and fail.",
        preset: Options {
            zone: Some(ZoneKind::Reserved),
            structure: Some(StructureKind::Fields),
            ..Options::NONE
        },
        ..Row::BLANK
    };
}
