//! LLFree: bit fields, counters and reserved trees, without locks.
//!
//! # Source
//! \[LLFree\] and the authors' descriptions of their programs.

use super::options::Options;
use super::values::ZoneKind;
use crate::llfree::LlFree as Trees;
use crate::structure::StructureKind;

/// LLFree: a system of its own, without layers.
pub type LlFreeTrees<'m, P> = Trees<'m, P>;

systems! {
    /// `llfree`: LLFree's allocator.
    LlFree: LlFreeTrees {
        name: "llfree",
        summary: "LLFree: a bit per frame, counters, and a reserved part of memory per CPU; no lock at all.",
        source: "[LLFree] 3 and 4",
        faithful: "Two levels. The lower level has 512 bits and an entry with a counter for each 2 MiB. The counter is \
            lowered before bits are taken, and raised after bits are freed. One exchange of the entry allocates a \
            huge frame, and one exchange of two adjacent entries allocates a block of order 10. The upper level has \
            trees of eight children, each with a counter and a flag. Each CPU reserves one tree and keeps the tree's \
            counter on a cache line of its own. Partly used trees are preferred. Four frees in a row into a tree \
            reserve it. No operation waits for another CPU.",
        deviates: "The order of an allocation is not recorded. A free with a wrong order therefore frees exactly the \
            frames that it names. It is refused only if one of them is free, a hole or reserved, or if no such block \
            can start there. Two more bits per frame mark holes and reserved frames. An exact request takes the \
            frames that it needs and no others. The entry of a huge frame inverts the meaning of the child's bits, so \
            a part of the huge frame can be freed without setting the other bits first. A tree is partly used if \
            between 1/16 and 15/16 of it is free. A request that finds no tree takes frames of any child, even in a \
            tree that another CPU has reserved. The tree's counter may then become negative, and a CPU that notices \
            this releases its reservation. Entries have versions: a request for a single frame is refused only if no \
            counter rose during its search. If a counter rose during each of 256 searches, the request fails as busy; \
            one for a larger block, after eight searches. A CPU has one reservation for all \
            sizes. If the CPU's tree cannot serve a huge frame, or lacks a block although it has enough free frames, \
            the request takes the block from an unreserved tree and reserves none: from the one that served the \
            previous such request, or, for a huge frame, from the next one that has one. The CPUs start their searches \
            far \
            apart. Nothing is persistent. A snapshot reads all bits. If two CPUs free the same frames simultaneously, \
            which is misuse, a call may free some of them and return an error.",
        preset: Options {
            zone: Some(ZoneKind::Reserved),
            structure: Some(StructureKind::Fields),
            ..Options::NONE
        },
    }
}
