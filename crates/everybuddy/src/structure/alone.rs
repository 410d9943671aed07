//! A structure by itself: no zone around it, no lock, no policy.
//!
//! Why it exists: a program that compares structures, and has its own idea of when to split and to coalesce, needs the
//! structure and nothing else. What the numbers stand for is the program's: frames, or units of a few bytes.
//!
//! Invariant: what is asked for is tested before the structure sees it, so that a wrong call changes nothing.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::{BitScan, Bits, Ordered, Placed, Trees};
use crate::arena::{Arena, ArenaPlan, LINE};
use crate::error::BuildError;
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, FrameTable, Record, Tag};
use crate::lock::{Line, LockKind};
use crate::platform::Platform;
use crate::snapshot::Violation;
use crate::zone::memory::Shape;

/// A structure that keeps blocks by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Balanced trees: [`tree`](super::tree).
    Tree,
    /// Bits with summaries: [`bit_scan`](super::bit_scan).
    BitScan,
}

/// Free blocks by order and address. Used by one thread at a time.
pub trait FreeBlocks {
    /// Puts in a block. Returns false, and does nothing, if it doesn't lie in the memory, isn't aligned or is in
    /// already. That it overlaps no other block is the caller's business. Costs what the structure says, as all do.
    fn insert(&self, head: Pfn, order: Order) -> bool;

    /// Takes out a block. Returns false, and does nothing, if it isn't in.
    fn remove(&self, head: Pfn, order: Order) -> bool;

    /// Takes out the block of this order with the lowest address.
    fn take(&self, order: Order) -> Option<Pfn>;

    /// Tells whether a block is in. O(1).
    fn contains(&self, head: Pfn, order: Order) -> bool;

    /// Returns the head of the lower one of the lowest two buddies of this order, which are both in, from an address
    /// on.
    fn pair(&self, order: Order, from: Pfn) -> Option<Pfn>;

    /// Returns how many blocks of this order are in. O(1).
    fn blocks(&self, order: Order) -> u32;

    /// Checks the structure's invariants. O(frames).
    ///
    /// # Errors
    /// The first one that doesn't hold.
    fn check(&self) -> Result<(), Violation>;
}

/// What runs on a structure of any kind.
pub trait WithFreeBlocks {
    /// What it returns.
    type Output;

    /// Runs. Compiled once for each kind.
    fn call<B: FreeBlocks>(self, blocks: &B) -> Self::Output;
}

/// A structure, and what it is for.
struct Alone<P, S> {
    structure: S,
    frames: u32,
    max_order: Order,
    platform: PhantomData<P>,
}

/// Returns the locks, lists and bits of a zone of such a structure.
fn shape(bits: Bits, frames: u32, max_order: Order) -> Shape {
    Shape {
        frames,
        part: frames,
        max_order,
        lock: LockKind::Spin,
        line: Line::Own,
        bits,
        classes: false,
    }
}

fn plan<P: Platform>(bits: Bits, frames: u32, max_order: Order) -> ArenaPlan {
    let plan = ArenaPlan::default().slice::<Record<P>>(frames as usize);
    shape(bits, frames, max_order).plan::<P>(plan)
}

/// Returns the memory that [`with_free_blocks`] needs. Memory that is not aligned so must be larger by the alignment.
///
/// # Errors
/// [`BuildError::SpanTooLarge`] if no memory is large enough.
pub fn layout<P: Platform>(
    kind: Kind,
    frames: u32,
    max_order: Order,
) -> Result<Layout, BuildError> {
    let bits = match kind {
        Kind::Tree => Trees::<P>::BITS,
        Kind::BitScan => BitScan::<P>::BITS,
    };
    let bytes = plan::<P>(bits, frames, max_order).bytes();
    Layout::from_size_align(bytes, LINE).map_err(|_| BuildError::SpanTooLarge)
}

/// Makes an empty structure for the blocks of so many frames, and runs `visitor` on it. O(frames) to build.
///
/// ```
/// use everybuddy::structure::alone::{FreeBlocks, Kind, WithFreeBlocks, layout, with_free_blocks};
/// use everybuddy::{Native, Order, Pfn};
///
/// struct LowestFirst;
/// impl WithFreeBlocks for LowestFirst {
///     type Output = Option<Pfn>;
///     fn call<B: FreeBlocks>(self, blocks: &B) -> Option<Pfn> {
///         assert!(blocks.insert(Pfn(7), Order::ZERO) && blocks.insert(Pfn(6), Order::ZERO));
///         assert!(!blocks.insert(Pfn(6), Order::ZERO), "it is in");
///         assert_eq!(blocks.pair(Order::ZERO, Pfn(0)), Some(Pfn(6)));
///         blocks.take(Order::ZERO)
///     }
/// }
///
/// let bytes = layout::<Native>(Kind::Tree, 1024, Order::TEN).expect("a small one");
/// let mut memory = vec![core::mem::MaybeUninit::uninit(); bytes.size() + bytes.align()];
/// let lowest = with_free_blocks::<Native, _>(Kind::Tree, 1024, Order::TEN, &mut memory, LowestFirst);
/// assert_eq!(lowest, Ok(Some(Pfn(6))));
/// ```
///
/// # Errors
/// [`BuildError::SpanTooLarge`] for more frames than the structure can keep, [`BuildError::NoMemory`] for none, and
/// [`BuildError::MetadataTooSmall`]; the visitor is not run then.
pub fn with_free_blocks<P: Platform, V: WithFreeBlocks>(
    kind: Kind,
    frames: u32,
    max_order: Order,
    memory: &mut [MaybeUninit<u8>],
    visitor: V,
) -> Result<V::Output, BuildError> {
    let arena = Arena::new(crate::arena::Memory::new(memory));
    match kind {
        Kind::Tree => run::<P, Trees<'_, P>, V>(arena, frames, max_order, visitor),
        Kind::BitScan => run::<P, BitScan<'_, P>, V>(arena, frames, max_order, visitor),
    }
}

fn run<'a, P: Platform, S: Placed<'a, P> + Ordered<P>, V: WithFreeBlocks>(
    mut arena: Arena<'a>,
    frames: u32,
    max_order: Order,
    visitor: V,
) -> Result<V::Output, BuildError> {
    if frames == 0 {
        return Err(BuildError::NoMemory);
    }
    if u64::from(frames) > S::MOST_FRAMES {
        return Err(BuildError::SpanTooLarge);
    }
    let records = arena.slice(frames as usize, |_| Record::<P>::new(Tag::INTERIOR))?;
    let part = shape(S::BITS, frames, max_order).make(&mut arena, FrameTable::new(records))?;
    let alone = Alone::<P, S> {
        structure: S::new(part(0).1),
        frames,
        max_order,
        platform: PhantomData,
    };
    Ok(visitor.call(&alone))
}

impl<P: Platform, S: Ordered<P>> Alone<P, S> {
    /// Returns the frame where a block may start.
    #[inline]
    fn head(&self, head: Pfn, order: Order) -> Option<Frame> {
        let end = u64::from(head.0) + u64::from(order.frames());
        let fits =
            order <= self.max_order && head.is_aligned(order) && end <= u64::from(self.frames);
        self.structure.table().frame(head).filter(|_| fits)
    }
}

impl<P: Platform, S: Ordered<P>> FreeBlocks for Alone<P, S> {
    #[inline]
    fn insert(&self, head: Pfn, order: Order) -> bool {
        let structure = &self.structure;
        let Some(head) = self.head(head, order) else {
            return false;
        };
        let new = !structure.contains(head, order);
        if new {
            structure.insert(head, order);
        }
        new
    }

    #[inline]
    fn remove(&self, head: Pfn, order: Order) -> bool {
        let structure = &self.structure;
        let Some(head) = self.head(head, order) else {
            return false;
        };
        let known = structure.contains(head, order);
        if known {
            structure.remove(head, order);
            structure.table().set_tag(head, Tag::INTERIOR);
        }
        known
    }

    #[inline]
    fn take(&self, order: Order) -> Option<Pfn> {
        if order > self.max_order {
            return None;
        }
        let head = self.structure.take(order)?;
        self.structure.table().set_tag(head, Tag::INTERIOR);
        Some(head.pfn())
    }

    #[inline]
    fn contains(&self, head: Pfn, order: Order) -> bool {
        let head = self.head(head, order);
        head.is_some_and(|head| self.structure.contains(head, order))
    }

    #[inline]
    fn pair(&self, order: Order, from: Pfn) -> Option<Pfn> {
        if order > self.max_order || from.0 >= self.frames {
            return None;
        }
        self.structure.pair(order, from).map(Frame::pfn)
    }

    fn blocks(&self, order: Order) -> u32 {
        self.structure.blocks(order)
    }

    fn check(&self) -> Result<(), Violation> {
        self.structure.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;
    use std::vec;

    /// Asks for what can't be, in between two blocks that are in.
    struct Wrong;

    impl WithFreeBlocks for Wrong {
        type Output = ();

        fn call<B: FreeBlocks>(self, blocks: &B) {
            let [one, four] = [1, 4].map(|order| Order::new(order).unwrap());
            assert!(blocks.insert(Pfn(2), one) && blocks.insert(Pfn(96), Order::ZERO));
            for (head, order) in [
                (Pfn(2), one),
                (Pfn(3), one),
                (Pfn(100), Order::ZERO),
                (Pfn(96), four),
                (Pfn(u32::MAX), Order::ZERO),
                (Pfn(0), Order::TEN),
            ] {
                assert!(!blocks.insert(head, order), "{head} {order}");
            }
            for (head, order) in [(Pfn(2), Order::ZERO), (Pfn(3), one), (Pfn(101), one)] {
                assert!(!blocks.remove(head, order), "{head} {order}");
                assert!(!blocks.contains(head, order), "{head} {order}");
            }
            assert_eq!(blocks.take(Order::TEN), None);
            assert_eq!(blocks.pair(Order::TEN, Pfn(0)), None);
            assert_eq!(blocks.pair(Order::ZERO, Pfn(u32::MAX)), None);
            blocks.check().unwrap();
            assert!(blocks.remove(Pfn(2), one));
            assert_eq!(blocks.take(Order::ZERO), Some(Pfn(96)));
            assert_eq!(blocks.take(Order::ZERO), None);
        }
    }

    #[test]
    fn a_wrong_call_changes_nothing() {
        let order = Order::new(4).unwrap();
        for kind in [Kind::Tree, Kind::BitScan] {
            let bytes = layout::<Native>(kind, 100, order).unwrap();
            let mut memory = vec![MaybeUninit::uninit(); bytes.size() + bytes.align()];
            with_free_blocks::<Native, _>(kind, 100, order, &mut memory, Wrong).unwrap();
        }
    }

    #[test]
    fn what_a_structure_cannot_keep_is_refused_before_memory_is_touched() {
        let make =
            |kind, frames| with_free_blocks::<Native, _>(kind, frames, Order::TEN, &mut [], Wrong);
        assert_eq!(make(Kind::Tree, 0), Err(BuildError::NoMemory));
        assert_eq!(
            make(Kind::Tree, (1 << 30) + 1),
            Err(BuildError::SpanTooLarge)
        );
        for (kind, frames) in [(Kind::Tree, 1 << 30), (Kind::BitScan, u32::MAX - (1 << 24))] {
            let small = make(kind, frames);
            assert!(matches!(small, Err(BuildError::MetadataTooSmall { .. })));
        }
    }
}
