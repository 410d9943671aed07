//! Everybuddy: trees that CPUs own, two bits per frame.

use super::options::Options;
use super::values::ZoneKind;
use super::{Row, System};
use crate::everybuddy::{AT_BORDER, BY_HEADS, BY_PLANES, OwnedTrees};
use crate::platform::Platform;
use crate::structure::StructureKind;

/// Trees of frames that CPUs own, without layers.
pub type EverybuddyTrees<'m, P> = OwnedTrees<'m, P, BY_PLANES>;
/// The same, where listed frames are checked when they leave the list for their tree.
pub type EverybuddyListed<'m, P> = OwnedTrees<'m, P, AT_BORDER>;
/// The same, where each free is checked by the byte of its first frame.
pub type EverybuddyHeads<'m, P> = OwnedTrees<'m, P, BY_HEADS>;

/// `everybuddy`: the allocator of this library.
#[derive(Debug)]
pub struct Everybuddy;

impl System for Everybuddy {
    type Built<'m, P: Platform> = EverybuddyTrees<'m, P>;
    const ROW: &'static Row = &Row {
        name: "everybuddy",
        summary: "Trees of frames that CPUs own, with two bits per frame; hits in own trees without atomic exchanges.",
        source: "none",
        faithful: "It follows no paper. Two bits per frame distinguish free, allocated, returned and absent frames. \
            A tree is up to 4,096 frames with a header of masks, and a CPU that owns it changes it by plain reads and \
            writes. A CPU owns the trees that it uses, at most its share of memory; one exchange claims a tree \
            without an owner. A tree that is not whole is for requests of the class movable or for those of the other \
            classes, and serves the others only if no tree of theirs and no whole tree can be claimed. A frame of a \
            tree with another owner is freed by one exchange of a word, and the owner collects it later. Frames that \
            a CPU freed last are allocated first, if they lie at or below the place where the CPU allocated last; \
            otherwise the first free frame of its tree is. When the list is full, or when as many frames in blocks of \
            less than 64 were freed below that place without entering the list, the CPU searches from the start of \
            memory again; it prefers a lower tree without an owner to its own trees, unless another CPU kept that \
            tree last. After a request for at most 32 frames was refused, or when a CPU estimates that few words are \
            wholly free, blocks of up to 32 frames are parts of the smallest free block that suffices, until there is \
            room again. A request that finds nothing asks all CPUs to release their trees. A request that may wait is \
            refused only after a search in which its CPU owned all trees. Until something is freed, requests for as \
            many frames or more are then refused without a search.",
        deviates: "The order of an allocation is not recorded, as in `llfree`: a free with a wrong order frees \
            exactly the frames that it names, unless one of them is not allocated. An exact request takes the frames \
            that it needs and no others. A block that is larger than a tree consists of whole trees. Small requests \
            claim a tree with many partly free words before one with wholly free words, and that before any other. \
            Where several of a sort serve, a tree in use that another CPU kept last is taken only after the others, \
            but not with `check=border`. Each group of eight CPUs searches from a window of its own, if memory has 64 \
            trees for each group. Blocks of more than 32 frames come from another tree of the CPU than smaller ones, \
            as long as such a tree can be claimed. A word with both holes and reserved frames has an entry in a table \
            of 256; if the table is full, a range that would need another entry is refused. A nested request uses \
            only trees without an owner and otherwise fails as busy; a nested free never waits. A parked CPU owns \
            nothing. Single frames that a CPU frees in one word of another CPU's tree are announced to the tree's \
            owner together, when the CPU that freed them returns a frame of another word, needs frames, parks, or is \
            asked. A CPU that neither calls nor parks, and whose token the platform cannot lend, keeps its trees, at \
            most its share of memory, but only few of which less than an eighth is in use. With `check=border`, it \
            also keeps up to 896 frames in lists. A request that finds nothing then fails as busy, and so do all \
            removals and reservations of frames, which need empty lists. The frames of owned trees and the kept \
            frames count as free. If two CPUs free the same frame simultaneously, or if a frame is freed again while \
            the owner of its tree collects it, which is misuse, both frees may succeed; the frame may then be lost, \
            or be allocated twice. With `check=border`, listed frames are allocated in the planes, and a free that \
            enters the list is not checked: a frame that was freed twice, or a free frame, hole or reserved frame at \
            or below that place, may be given to a request, whatever the kind of its tree is by then. If it leaves \
            the list for its tree instead, and is not allocated then, it is dropped, and `check` reports it from then \
            on. If it has been allocated again meanwhile, it is freed although it is held, and nothing reports that.",
        preset: Options {
            zone: Some(ZoneKind::Owned),
            structure: Some(StructureKind::Planes),
            ..Options::NONE
        },
        ..Row::BLANK
    };
}
