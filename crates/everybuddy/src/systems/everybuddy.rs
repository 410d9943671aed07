//! Everybuddy: trees that CPUs own, two bits per frame.

use super::options::Options;
use super::values::ZoneKind;
use crate::arena::LINE;
use crate::everybuddy::OwnedTrees;
use crate::frame::Order;
use crate::platform::Native;
use crate::structure::StructureKind;

/// Trees of frames that CPUs own, without layers.
pub type EverybuddyTrees<'m, P> = OwnedTrees<'m, P>;

impl Everybuddy {
    /// Returns how many bytes suffice for each memory map with at most `frames` frames from the first to the last,
    /// holes included, and for at most `cpus` CPUs, wherever the bytes begin: the size of a static. For the system
    /// without options, on [`Native`] and each other [`Bare`](crate::platform::Bare) platform. O(1).
    ///
    /// [`System::room`](super::System::room) is the number for one map. From 128 MiB of memory for each CPU on, this
    /// one is at most 7 % more.
    pub const fn room_for(frames: u32, cpus: u16) -> usize {
        Self::room_with_options(frames, cpus, &Options::NONE)
    }

    /// Does the same for a system with options: `order`, the largest block, and `tree` decide. O(1).
    ///
    /// ```
    /// use everybuddy::prelude::*;
    ///
    /// // Blocks of up to 1 GiB.
    /// const OPTIONS: Options = Options { order: Order::new(18), ..Options::NONE };
    /// const ROOM: usize = Everybuddy::room_with_options(1 << 22, 8, &OPTIONS);
    /// type Frames = <Everybuddy as System>::Built<'static, Native>;
    /// static FRAMES: Boot<Frames, ROOM> = Boot::new();
    ///
    /// let map = [FrameRange::new(Pfn(0x2_0000), 1 << 22)];
    /// let frames = FRAMES.start::<Everybuddy, Native>(&OPTIONS, &Setup::new(&map, 8))?;
    /// assert_eq!(frames.max_order().get(), 18);
    /// # Ok::<(), BootError>(())
    /// ```
    pub const fn room_with_options(frames: u32, cpus: u16, options: &Options) -> usize {
        let order = match options.order {
            Some(order) => order,
            None => Order::TEN,
        };
        let tree = match options.tree {
            Some(tree) => Some(tree.get()),
            None => None,
        };
        // The span begins at a multiple of the largest block.
        let frames = frames.saturating_add(order.frames() - 1);
        let cpus = if cpus == 0 { 1 } else { cpus };
        let bytes = EverybuddyTrees::<'static, Native>::bytes_up_to(frames, cpus, tree);
        bytes.saturating_add(LINE - 1)
    }
}

systems! {
    /// `everybuddy`: the allocator of this library.
    Everybuddy: EverybuddyTrees {
        name: "everybuddy",
        summary: "Trees of frames that CPUs own, with two bits and a byte per frame; hits without atomic exchanges.",
        source: "none",
        faithful: "It follows no paper. Two bits per frame distinguish free, allocated, returned and absent frames. \
            The first frame of each allocated block has a byte with its order; each free looks at one. A tree is up to \
            4,096 frames with a header of masks, and a CPU that owns it changes it by plain reads and writes. A CPU \
            owns the trees that it uses, at most its share of memory; one exchange claims a tree without an owner. A \
            tree that is not whole is for requests of the class movable or for those of the other classes, and serves \
            the others only if no tree of theirs and no whole tree can be claimed. A frame of a tree with another \
            owner is freed by one exchange of a word, and the owner collects it later. A block that a CPU frees enters \
            the CPU's list of its order and kind, whatever its tree, if it lies at or below the place where the CPU \
            last allocated such a block by address. Listed blocks are allocated first; if there are none, the free \
            blocks of a word of the CPU's tree enter the list. When a list is full, or when as many frames in blocks \
            of less than 64 were freed below the place for single frames without entering a list, the CPU searches \
            from the start of memory again; it prefers a lower tree without an owner to its own trees. After a request \
            for at most 32 frames was refused, or when a CPU estimates that few words are wholly free, blocks of up to \
            32 frames are parts of the smallest free block that suffices, until there is room again; meanwhile such a \
            block enters its list wherever it lies, unless its buddy is free. A request that finds nothing asks all \
            CPUs to release their trees. It is refused as exhausted only after a search in which its CPU owned all \
            trees, or in which nothing was freed if it is for a block of 64 frames to a tree; a request that must not \
            wait fails as busy unless all other CPUs are parked. Until such a block may be free, or more frees than \
            there are trees, requests for as many frames or more are then refused without a search.",
        deviates: "A run by count is recorded as few blocks of powers of two; a part of an allocation can be freed by \
            count. One CPU at a time divides blocks for that: such a free waits for another one, or fails as busy \
            after a bound if that CPU stopped; a nested one fails as busy immediately. An exact request takes the \
            frames that it needs and no others. A block that is larger than a tree consists of whole trees. Small \
            requests claim a tree with many partly free words before one with wholly free words, and that before any \
            other. Each group of eight CPUs searches from a window of its own, if memory has 64 trees for each group. \
            Blocks of more than 32 frames come from another tree of the CPU than smaller ones, as long as such a tree \
            can be claimed. A nested request uses only trees without an owner and otherwise fails as busy; no nested \
            free waits. A parked CPU owns nothing. Small blocks of one word that enter no list and are freed one after \
            the other are gathered, all but the first: they are freed together when the CPU frees such a block of \
            another word, needs frames, parks, or is asked. A CPU that neither calls nor parks, and whose token the \
            platform cannot lend, keeps its trees, at most its share of memory, but only few of which less than an \
            eighth is in use, and in lists up to 896 frames or, if that is more, one frame in 256, at most 16,384; \
            with more than eight CPUs it is less. Each list of a larger order, up to 9, has at most 16 blocks. A \
            request that finds nothing then fails as busy, and so do all removals and reservations of frames, which \
            need empty lists. The frames \
            of owned trees and gathered frames count as free. Two simultaneous frees of one block are misuse. If it \
            has 64 frames or more, one of them is refused. If it has fewer, both may succeed; its frames may then be \
            lost, as may a run that contains them, or be allocated twice, alone or in other blocks. The kind of a \
             listed frame is that of its tree when the frame left it, or movable if it fills a fragment between \
             frames that stay.",
        preset: Options {
            zone: Some(ZoneKind::Owned),
            structure: Some(StructureKind::Planes),
            ..Options::NONE
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Setup, SpaceFrames, layout};
    use super::*;
    use crate::arena::Memory;
    use crate::frame::Pfn;
    use crate::platform::{Bare, CpuId, CpuToken, Platform};
    use crate::region::{FrameRange, Span};
    use proptest::prelude::*;

    /// A token of a kernel.
    struct Token;

    impl CpuToken for Token {
        fn id(&self) -> CpuId {
            CpuId(0)
        }
    }

    /// Numbers up to `most`, of each magnitude.
    fn magnitudes(most: u32) -> impl Strategy<Value = u32> {
        (0..32 - most.leading_zeros(), any::<u32>())
            .prop_map(move |(bits, low)| ((1 << bits) | low & ((1 << bits) - 1)).min(most))
    }

    fn room<P: Platform>(options: &Options, start: u64, frames: u32, cpus: u16) -> usize {
        let ranges = [FrameRange::new(Pfn(start), frames.into())];
        let setup = Setup::new(&ranges, cpus);
        Memory::room(layout::<Everybuddy, P>(options, &setup).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_static_suffices_for_every_map_and_number_of_cpus_up_to_its_bounds(
            frames in magnitudes(Span::LARGEST - (1 << 18)),
            cpus in magnitudes(65_534),
            parts in (any::<u32>(), any::<u16>(), any::<bool>()),
            start in 0..1_000_000_u64,
            choices in (proptest::option::of(0..=18_u8), proptest::option::of(6..=12_u32)),
        ) {
            let options = &Options {
                order: choices.0.and_then(Order::new),
                tree: choices.1.and_then(|order| SpaceFrames::new(1 << order).ok()),
                ..Options::NONE
            };
            let most = Everybuddy::room_with_options(frames, cpus as u16, options);
            // Any smaller map, or one that is nearly as large.
            let less = parts.0 % if parts.2 { frames } else { (frames / 16).max(1) };
            let fewer = u32::from(parts.1) % cpus;
            let used = room::<Native>(options, start, frames - less, (cpus - fewer) as u16);
            prop_assert!(used <= most, "{} > {}", used, most);
            let kernel = room::<Bare<Token>>(options, start, frames - less, (cpus - fewer) as u16);
            prop_assert_eq!(kernel, used);
        }

        #[test]
        fn a_static_is_little_larger_than_what_is_used(
            frames in magnitudes(Span::LARGEST - 1023).prop_map(|frames| frames.max(1 << 15)),
            cpus in magnitudes(65_534),
        ) {
            // 128 MiB for each CPU: trees have their full size.
            let cpus = cpus.min(frames >> 15);
            let most = Everybuddy::room_for(frames, cpus as u16);
            let used = room::<Native>(&Options::NONE, 0, frames, cpus as u16);
            prop_assert!(most - used <= used * 7 / 100, "{} > {} + 7 %", most, used);
        }
    }
}
