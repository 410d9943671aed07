//! The memory for metadata, provided by the caller.
//!
//! A kernel needs frames before it has a heap. A system says how much metadata it needs
//! ([`metadata_layout`](crate::metadata_layout)), the caller provides that memory, and everything shared lies in it, at
//! offsets that depend on the parameters alone: a simulator can name a cache line by its offset.
//!
//! # Invariants
//! 1. Every slice that [`Arena::slice`] returns lies inside the caller's memory, is aligned for its type,
//!    and overlaps no other.
//! 2. Every element was constructed in place before the slice is returned, or lies in zeroed bytes that the platform
//!    declares to be such an element (model checkers' cells can't be cast from zeroed bytes). Elements are never
//!    dropped.
//!
//! # Memory layout
//! The caller provides the memory for all shared state. Its parts are in this order:
//!
//! | part | size | contents |
//! |---|---|---|
//! | records | 8 bytes per frame | state of the frame, or of the block that it heads |
//! | bits of the structure | 2 bits per frame with free lists; 16 bits with domains | which blocks are free; the tag of order and domain |
//! | zone | one cache line for the lock | then heads and counts per order (`line=beside`: on the lock's line) |
//! | spaces, instead of the zone | the same per space; 16 bytes per space and a line per CPU in the pool | the pool's lock and lists, and a lock for ranges |
//! | domains, instead of the zone | 384 bytes per domain; a line per CPU to wait on | lists and owner |
//! | page blocks, with `pcp-buddy` only | 8 bytes per page block | the owner |
//! | per-CPU lists | the entries, and two lines per CPU (`pcp-buddy`: five) | line 1: watermarks and ends, all that a hit touches besides the record. Line 2: the state word that other CPUs write |
//! | system | a few cache lines | the system itself: references to the other parts, and its parameters |
//!
//! `bs` needs 8.25 bytes per frame and a constant, `spring-core` 10, `is` with spaces of 4 MiB 8.9 (0.29 for bits, 0.25
//! for lists, 0.3 for lock, counts and place in the pool). Without records, `llfree` needs 0.38 (three bits, words per
//! pair of children and tree), `nbbs` 0.52 (four bits, a word per 512 frames), `everybuddy` 1.27 (a byte, two bits, a
//! line per tree).
#![allow(unsafe_code)]

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use crate::error::BuildError;
use crate::platform::{CellValue, Platform, SharedCell};

/// The size of a cache line, and the alignment of everything that must not share one.
pub const LINE: usize = 64;

/// Adds up what a system will ask of an [`Arena`], in the same order.
///
/// It counts in 64 bits on every target, since thousands of long lists need more than a 32-bit target can address.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArenaPlan {
    bytes: u64,
}

impl ArenaPlan {
    /// Nothing is planned.
    pub(crate) const EMPTY: Self = Self { bytes: 0 };

    /// Plans a slice of `length` elements, aligned to a cache line.
    #[must_use]
    pub(crate) const fn slice<T>(self, length: usize) -> Self {
        self.slices::<T>(length, 1)
    }

    /// Plans a slice of `count` times `length` elements, aligned to a cache line.
    #[must_use]
    pub(crate) const fn slices<T>(self, length: usize, count: usize) -> Self {
        let start = round_up(self.bytes, alignment_of::<T>() as u64);
        let elements = (length as u64).saturating_mul(count as u64);
        Self {
            bytes: start.saturating_add(elements.saturating_mul(size_of::<T>() as u64)),
        }
    }

    /// Returns the bytes planned so far, a multiple of the cache line.
    ///
    /// # Errors
    /// [`BuildError::MetadataTooLarge`] if no memory can have that many.
    pub(crate) const fn bytes(self) -> Result<usize, BuildError> {
        self.bytes_up_to(isize::MAX as u64)
    }

    /// Returns the bytes, if there are at most `limit`.
    pub(crate) const fn bytes_up_to(self, limit: u64) -> Result<usize, BuildError> {
        let bytes = round_up(self.bytes, LINE as u64);
        if bytes <= limit && bytes <= usize::MAX as u64 {
            Ok(bytes as usize)
        } else {
            Err(BuildError::MetadataTooLarge)
        }
    }
}

/// Rounds up to a multiple of a power of two, or returns a number that no memory has.
const fn round_up(bytes: u64, alignment: u64) -> u64 {
    match bytes.checked_next_multiple_of(alignment) {
        Some(bytes) => bytes,
        None => u64::MAX,
    }
}

const fn alignment_of<T>() -> usize {
    if align_of::<T>() > LINE {
        align_of::<T>()
    } else {
        LINE
    }
}

/// Memory for a system's metadata, provided by the caller.
///
/// A system that is built in it lives as long as it: `'static` memory gives a `'static` system. The bytes before the
/// first multiple of [`LINE`] are skipped.
pub struct Memory<'m> {
    bytes: &'m mut [MaybeUninit<u8>],
    is_zeroed: bool,
    listener: Option<&'m mut dyn FnMut(MetadataPart)>,
}

/// A part of the metadata: elements of one kind, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataPart {
    /// What an element holds, in the singular.
    pub what: &'static str,
    /// The first byte, counted from the first multiple of [`LINE`] in the memory.
    pub start: usize,
    /// The bytes of an element.
    pub size: usize,
    /// The number of elements.
    pub length: usize,
}

impl<'m> Memory<'m> {
    /// Returns how many bytes suffice for a layout, wherever they begin.
    pub const fn room(layout: Layout) -> usize {
        layout.size().saturating_add(layout.align() - 1)
    }

    /// Lends memory with any content.
    pub fn new(bytes: &'m mut [MaybeUninit<u8>]) -> Self {
        Self {
            bytes,
            is_zeroed: false,
            listener: None,
        }
    }

    /// Lends memory that is all zero, such as fresh pages of an operating system or a `static` in `.bss`. What a
    /// system initialises to zero is not written then, and its pages are not touched.
    ///
    /// # Safety
    /// Every byte is zero. Memory in which a system was built before is not.
    pub unsafe fn zeroed(bytes: &'m mut [MaybeUninit<u8>]) -> Self {
        Self {
            bytes,
            is_zeroed: true,
            listener: None,
        }
    }

    /// Takes the first bytes, or all if there are fewer.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let all = core::mem::take(&mut self.bytes);
        let (first, rest) = all.split_at_mut(bytes.min(all.len()));
        self.bytes = rest;
        Self {
            bytes: first,
            is_zeroed: self.is_zeroed,
            listener: None,
        }
    }

    /// Calls `listener` with each part of the metadata while a system is built, in the order of their places. So a
    /// tool can tell what an address holds.
    #[must_use]
    pub fn describe(self, listener: &'m mut dyn FnMut(MetadataPart)) -> Self {
        Self {
            listener: Some(listener),
            ..self
        }
    }
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("bytes", &self.bytes.len())
            .field("is_zeroed", &self.is_zeroed)
            .finish_non_exhaustive()
    }
}

impl<'m> From<&'m mut [MaybeUninit<u8>]> for Memory<'m> {
    fn from(bytes: &'m mut [MaybeUninit<u8>]) -> Self {
        Self::new(bytes)
    }
}

/// A region of the caller's memory that is handed out from its start.
pub(crate) struct Arena<'a> {
    start: *mut u8,
    length: usize,
    used: usize,
    is_zeroed: bool,
    listener: Option<&'a mut dyn FnMut(MetadataPart)>,
    memory: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

impl<'a> Arena<'a> {
    /// Takes over the caller's memory; its first bytes are skipped up to a cache line.
    pub(crate) fn new(memory: Memory<'a>) -> Self {
        let Memory {
            bytes,
            is_zeroed,
            listener,
        } = memory;
        let length = bytes.len();
        let start = bytes.as_mut_ptr().cast::<u8>();
        let skip = start.align_offset(LINE).min(length);
        // SAFETY: `skip` is at most the length of the memory, so the result stays within it.
        let start = unsafe { start.add(skip) };
        Self {
            start,
            length: length - skip,
            used: 0,
            is_zeroed,
            listener,
            memory: PhantomData,
        }
    }

    /// Returns the bytes of the whole arena, after alignment.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Reserves the place of `length` elements, uninitialised.
    #[inline]
    fn place<T>(&mut self, what: &'static str, length: usize) -> Result<*mut T, BuildError> {
        let start = self.reserve(what, Layout::new::<T>(), length)?;
        Ok(start.cast::<T>())
    }

    /// Reserves the place of `length` elements of a size and an alignment. Compiled once for all types.
    #[inline(never)]
    fn reserve(
        &mut self,
        what: &'static str,
        element: Layout,
        length: usize,
    ) -> Result<*mut u8, BuildError> {
        let start = self.used.next_multiple_of(element.align().max(LINE));
        let end = start.saturating_add(length.saturating_mul(element.size()));
        if end > self.length || element.align() > LINE {
            return Err(BuildError::MetadataTooSmall {
                needed: end,
                given: self.length,
            });
        }
        self.used = end;
        if let Some(listener) = &mut self.listener
            && end > start
        {
            listener(MetadataPart {
                what,
                start,
                size: element.size(),
                length,
            });
        }
        // SAFETY: `start <= end <= length` by the test above.
        Ok(unsafe { self.start.add(start) })
    }

    /// Constructs `count` times `length` cells that hold zero, and returns an error if that product wraps around.
    pub(crate) fn zeros_of_all<P: Platform, T: CellValue>(
        &mut self,
        what: &'static str,
        length: usize,
        count: usize,
    ) -> Result<&'a [P::Cell<T>], BuildError> {
        let elements = length.checked_mul(count);
        self.zeros::<P, T>(what, elements.ok_or(BuildError::MetadataTooLarge)?)
    }

    /// Constructs `length` cells that hold zero; `what` is what one of them holds. O(length), or O(1) in zeroed memory
    /// where zero bytes are such cells.
    pub(crate) fn zeros<P: Platform, T: CellValue>(
        &mut self,
        what: &'static str,
        length: usize,
    ) -> Result<&'a [P::Cell<T>], BuildError> {
        if !(self.is_zeroed && P::ZERO_BYTES_ARE_ZERO_CELLS) {
            return self.slice(what, length, |_| P::Cell::new(T::default()));
        }
        let first = self.place::<P::Cell<T>>(what, length)?;
        // SAFETY: the place holds `length` elements, is aligned, and nothing else refers to it (invariant 1). Its bytes
        // are zero by the contract of `Memory::zeroed`, since nothing was written there yet; by the contract of
        // `Platform` they are valid cells that hold zero.
        Ok(unsafe { core::slice::from_raw_parts(first, length) })
    }

    /// Constructs `length` elements whose cells and words hold zero. O(length), or O(1) in zeroed memory where zero
    /// bytes are such elements.
    pub(crate) fn zeroed<P: Platform, T: ZeroCells<P>>(
        &mut self,
        what: &'static str,
        length: usize,
    ) -> Result<&'a [T], BuildError> {
        if !(self.is_zeroed && P::ZERO_BYTES_ARE_ZERO_CELLS) {
            return self.slice(what, length, |_| T::zero());
        }
        let first = self.place::<T>(what, length)?;
        // SAFETY: as in `zeros`; that zero bytes are valid elements is the contract of `ZeroCells`.
        Ok(unsafe { core::slice::from_raw_parts(first, length) })
    }

    /// Constructs `length` elements in place; `what` is what one of them holds. O(length).
    ///
    /// Fails when the memory doesn't suffice; nothing is handed out then.
    pub(crate) fn slice<T>(
        &mut self,
        what: &'static str,
        length: usize,
        mut element: impl FnMut(usize) -> T,
    ) -> Result<&'a [T], BuildError> {
        let first = self.place::<T>(what, length)?;
        for index in 0..length {
            // SAFETY: element `index` lies in the place of `length` elements, so inside the arena.
            let place = unsafe { first.add(index) };
            // SAFETY: the place is inside the arena and aligned (the arena's start and `start` are
            // multiples of `LINE`, which is at least the type's alignment), and by invariant 1 nothing else
            // refers to it.
            unsafe { place.write(element(index)) };
        }
        // SAFETY: all `length` elements were written above; the memory is borrowed for 'a and `used` moved
        // past it, so no other slice will contain it (invariants 1 and 2).
        Ok(unsafe { core::slice::from_raw_parts(first, length) })
    }

    /// Constructs one element in place, on cache lines of its own if its type is aligned so. O(1).
    pub(crate) fn one<T>(&mut self, what: &'static str, element: T) -> Result<&'a T, BuildError> {
        let place = self.place::<T>(what, 1)?;
        // SAFETY: the place is that of one element, aligned, and by invariant 1 nothing else refers to it.
        unsafe { place.write(element) };
        // SAFETY: the element was written above, and the memory is borrowed for 'a, as in `slice`.
        Ok(unsafe { &*place })
    }
}

/// A structure of cells and words that can start as zero. Implemented by [`zero_cells!`](zero_cells) only.
///
/// # Safety
/// If [`Platform::ZERO_BYTES_ARE_ZERO_CELLS`], all-zero bytes are a valid value, equal to [`zero`](Self::zero).
pub(crate) unsafe trait ZeroCells<P: Platform> {
    /// Creates a value of which every cell and word holds zero.
    fn zero() -> Self;
}

/// Defines a structure of a platform's cells and atomic words, which an [`Arena`] need not write in zeroed memory.
macro_rules! zero_cells {
    (
        $(#[$doc:meta])*
        struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ident<$value:ident>,)* }
    ) => {
        $(#[$doc])*
        pub(crate) struct $name<P: $crate::platform::Platform> {
            $($(#[$field_doc])* pub(crate) $field: $crate::arena::zero_cells!(@type $kind $value),)*
        }

        // SAFETY: every field is a cell or an atomic word of the platform, whose contract says that zero bytes are
        // such a cell or word. Padding may hold anything.
        #[allow(unsafe_code)]
        unsafe impl<P: $crate::platform::Platform> $crate::arena::ZeroCells<P> for $name<P> {
            fn zero() -> Self {
                Self { $($field: $crate::arena::zero_cells!(@new $kind $value),)* }
            }
        }
    };
    (@type Cell $value:ident) => { P::Cell<$value> };
    (@type Word u32) => { P::AtomicU32 };
    (@type Word u64) => { P::AtomicU64 };
    (@new Cell $value:ident) => { $crate::platform::SharedCell::new(0) };
    (@new Word $value:ident) => { $crate::platform::AtomicWord::new(0) };
}
pub(crate) use zero_cells;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn plan_and_arena_agree_wherever_the_memory_lies() {
        for shift in 0..LINE {
            let plan = ArenaPlan::default()
                .slice::<u64>(3)
                .slice::<u8>(5)
                .slice::<u32>(1);
            let mut memory = vec![MaybeUninit::<u8>::uninit(); plan.bytes().unwrap() + 2 * LINE];
            let mut arena = Arena::new(Memory::new(&mut memory[shift..]));
            let a = arena.slice("a", 3, |i| i as u64).unwrap();
            let b = arena.slice("b", 5, |i| i as u8).unwrap();
            let c = arena.one("c", 7u32).unwrap();
            assert_eq!((a, b, *c), (&[0u64, 1, 2][..], &[0u8, 1, 2, 3, 4][..], 7));
            assert!(arena.used <= plan.bytes().unwrap());
            assert_eq!(a.as_ptr() as usize % LINE, 0);
        }
    }

    #[test]
    fn a_plan_beyond_what_a_target_can_address_is_refused() {
        let target = i32::MAX as u64;
        let plan = |length, count| ArenaPlan::default().slices::<u32>(length, count);
        let most = (target as usize + 1) / 4 - LINE;
        assert_eq!(plan(most, 1).bytes_up_to(target), Ok(4 * most));
        // The product is 2^34 elements, and 0 modulo 2^32.
        for (length, count) in [
            (1 << 18, 1 << 16),
            (most + LINE, 1),
            (2, most),
            (1 << 31, 2),
        ] {
            let refused = plan(length, count).bytes_up_to(target);
            assert_eq!(
                refused,
                Err(BuildError::MetadataTooLarge),
                "{length} x {count}"
            );
        }
        // What comes after it makes it no smaller, and the sum does not wrap around either.
        let plan = plan(usize::MAX, usize::MAX)
            .slice::<u64>(usize::MAX)
            .slice::<u8>(1);
        assert_eq!(plan.bytes(), Err(BuildError::MetadataTooLarge));
    }

    #[test]
    fn zeroed_memory_is_not_written() {
        let mut memory = [MaybeUninit::new(0u8); 4 * LINE];
        // SAFETY: all bytes were just written as zero.
        let zeroed = unsafe { Memory::zeroed(&mut memory) };
        let mut arena = Arena::new(zeroed);
        let cells = arena.zeros::<crate::Native, u64>("cell", 8).unwrap();
        assert!(cells.iter().all(|cell| cell.get() == 0));
        cells[7].set(7);
        let more = arena.zeros::<crate::Native, u32>("cell", 3).unwrap();
        assert!(more.iter().all(|cell| cell.get() == 0) && cells[7].get() == 7);
        // Zeroed or not, the bytes stay as they are.
        let mut memory = [MaybeUninit::new(0xffu8); 4 * LINE];
        let mut arena = Arena::new(Memory::new(&mut memory));
        arena.is_zeroed = true;
        let cells = arena.zeros::<crate::Native, u64>("cell", 8).unwrap();
        assert!(cells.iter().all(|cell| cell.get() == u64::MAX));
        // Without the promise they are written.
        let mut memory = [MaybeUninit::new(0xffu8); 4 * LINE];
        let mut arena = Arena::new(Memory::new(&mut memory));
        let cells = arena.zeros::<crate::Native, u64>("cell", 8).unwrap();
        assert!(cells.iter().all(|cell| cell.get() == 0));
    }

    #[test]
    fn too_small_is_an_error() {
        let mut memory = [MaybeUninit::<u8>::uninit(); 16];
        assert!(
            Arena::new(Memory::new(&mut memory))
                .slice("number", 1000, |i| i)
                .is_err()
        );
    }
}
