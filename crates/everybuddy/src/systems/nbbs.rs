//! NBBS: a tree of status words, without locks.
//!
//! # Source
//! \[NBBS\]: the authors' papers. Their program was not read.

use super::options::Options;
use super::values::ZoneKind;
use crate::nbbs::Nbbs as Words;
use crate::structure::StructureKind;

/// NBBS: a system of its own, without layers.
pub type StatusWords<'m, P> = Words<'m, P>;

systems! {
    /// `nbbs`: a non-blocking buddy system.
    Nbbs: StatusWords {
        name: "nbbs",
        summary: "NBBS: the tree of all blocks as status bits, changed by single exchanges; no lock at all.",
        source: "[NBBS]",
        faithful: "The tree of all possible blocks exists as status bits, several levels in one word. A block is \
            allocated by one exchange of its word, and marks tell each larger block that a part of it is \
            occupied. A free clears the marks of what it empties, which is all that coalescing takes. A \
            request searches the blocks of its size by address, from a place of its CPU, and the places of the \
            CPUs are far apart. No operation waits for another CPU.",
        deviates: "Written from the papers' descriptions. The authors' program was not read. The lowest words have \
            six levels, since frames have no parts, and the others four. A request marks the larger blocks \
            before it takes its block, not afterwards, so it has nothing to undo. Only the first block of a \
            word marks, and only the last one clears. Instead of the bits that announce coalescing, words have \
            versions of 32 bits: with one bit, a free that is late can clear the mark of a newer block. The \
            bits record the order of an allocation, so no array does. A part of a block can be freed: the \
            block is divided step by step, and a CPU that finds a step undone does it. Memory is several \
            trees, whose roots are the blocks of the largest order. Two more bits per frame mark holes and \
            reserved frames. A CPU continues where it found a frame or a block last, and goes back when it \
            frees a lower one. A block is refused as exhausted only if no CPU finished a free during a search \
            of all words. For larger blocks only those frees count that empty a word. If CPUs freed during \
            each of 256 searches, the request fails as busy. A CPU that stops inside a call can leave a mark, \
            which keeps the larger block from being allocated until a free in the marked word clears it. An \
            `allocate_at` that is refused may hold some frames of its range meanwhile, and a request of \
            another CPU may be refused because of them. A snapshot reads all words. If two CPUs free the same \
            frames simultaneously, which is misuse, a call may free some of them and return an error.",
        preset: Options {
            zone: Some(ZoneKind::Shared),
            structure: Some(StructureKind::Words),
            ..Options::NONE
        },
    }
}
