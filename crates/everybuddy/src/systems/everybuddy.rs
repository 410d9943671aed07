//! Everybuddy: trees that CPUs own, two bits per frame.

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
        summary: "Trees of frames that CPUs own, with two bits and a byte per frame; hits without atomic exchanges.",
        source: "none",
        faithful: "It follows no paper. Two bits per frame distinguish free, allocated, returned and absent frames. \
            The first frame of each allocated block has a byte with its order; each free looks at one. A tree is up \
            to 4,096 frames with a header of masks, and a CPU that owns it changes it by plain reads and writes. A \
            CPU owns the trees that it uses, at most its share of memory; one exchange claims a tree without an \
            owner. A tree that is not whole is for requests of the class movable or for those of the other classes, \
            and serves the others only if no tree of theirs and no whole tree can be claimed. A frame of a tree with \
            another owner is freed by one exchange of a word, and the owner collects it later. A frame that a CPU \
            frees enters its list, whatever its tree, if it lies at or below the place where the CPU allocated last. \
            Listed frames are allocated first; if there are none, the free frames of a word of the CPU's tree enter \
            the list. When the list is full, or when as many frames in blocks of less than 64 were freed below that \
            place without entering the list, the CPU searches from the start of memory again; it prefers a lower \
            tree without an owner to its own trees. After a request for at most 32 frames was refused, or when a CPU \
            estimates that few words are wholly free, blocks of up to 32 frames are parts of the smallest free block \
            that suffices, until there is room again. A request that finds nothing asks all CPUs to release their \
            trees. A request that may wait is refused only after a search in which its CPU owned all trees. Until \
            something is freed, requests for as many frames or more are then refused without a search.",
        deviates: "A run by count is recorded as few blocks of powers of two; a part of an allocation can be freed \
            by count. An exact request takes the frames that it needs and no others. A block that is larger than a \
            tree consists of whole trees. Small requests claim a tree with many partly free words before one with \
            wholly free words, and that before any other. Each group of eight CPUs searches from a window of its \
            own, if memory has 64 trees for each group. Blocks of more than 32 frames come from another tree of the \
            CPU than smaller ones, as long as such a tree can be claimed. A word with both holes and reserved frames \
            has an entry in a table of 256; if the table is full, a range that would need another entry is refused. \
            A nested request uses only trees without an owner and otherwise fails as busy; a nested free never \
            waits. A parked CPU owns nothing. Single frames that a CPU frees in one word of another CPU's tree are \
            announced to the tree's owner together, when the CPU that freed them returns a frame of another word, \
            needs frames, parks, or is asked. A CPU that neither calls nor parks, and whose token the platform \
            cannot lend, keeps its trees, at most its share of memory, but only few of which less than an eighth is \
            in use, and up to 896 frames in lists. A request that finds nothing then fails as busy, and so do all \
            removals and reservations of frames, which need empty lists. The frames of owned trees and the kept \
            frames count as free. If two CPUs free the same frame simultaneously, which is misuse, both frees may \
            succeed; the frame may then be lost, or be allocated twice. The kind of a listed frame is that of its \
            tree when the frame left it.",
        preset: Options {
            zone: Some(ZoneKind::Owned),
            structure: Some(StructureKind::Planes),
            ..Options::NONE
        },
        ..Row::BLANK
    };
}
