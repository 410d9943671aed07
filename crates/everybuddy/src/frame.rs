//! The vocabulary: frames, orders, blocks.
//!
//! A frame number, an order and a count of frames are different things that all fit an integer, and a frame has two
//! numbers. As types they cannot be swapped by accident.
//!
//! | type | counts from | used by |
//! |---|---|---|
//! | [`Pfn`] | physical address 0 | everything that names memory: maps, ranges, limits, colours, errors of ranges |
//! | [`Index`] | the start of a system's memory | requests and releases; 32 bits, so that a hit stays small |
//!
//! A system's [`Span`](crate::Span) translates one to the other.
//!
//! # Invariants
//! An [`Order`] is never above [`Order::LIMIT`].

use core::fmt;

/// A physical frame number: an address divided by the size of a frame.
///
/// Any 64-bit number is one, so all memory that addresses of 52 bits reach has frame numbers at any size of frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Pfn(pub u64);

impl Pfn {
    /// Returns the frame that holds the byte at a physical address. A frame has 2^`shift` bytes.
    ///
    /// ```
    /// use everybuddy::Pfn;
    ///
    /// // Frames of 4 KiB.
    /// let frame = Pfn::containing(0x1_0000_0fff, 12);
    /// assert_eq!(frame, Pfn(0x10_0000));
    /// assert_eq!(frame.address(12), Some(0x1_0000_0000));
    /// assert_eq!(Pfn(1 << 52).address(12), None);
    /// ```
    #[inline]
    pub const fn containing(address: u64, shift: u32) -> Pfn {
        Pfn(address >> (shift & 63))
    }

    /// Returns the address of the first byte of a frame that has 2^`shift` bytes. Returns `None` if the address has
    /// more than 64 bits.
    #[inline]
    pub const fn address(self, shift: u32) -> Option<u64> {
        let shift = shift & 63;
        let address = self.0 << shift;
        if address >> shift == self.0 {
            Some(address)
        } else {
            None
        }
    }

    /// Returns the frame that lies `frames` further on. Returns `None` beyond the largest number.
    #[inline]
    pub const fn checked_add(self, frames: u64) -> Option<Pfn> {
        match self.0.checked_add(frames) {
            Some(frame) => Some(Pfn(frame)),
            None => None,
        }
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {:#x}", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {:#x}", self.0)
    }
}

/// The number of a frame within a system's memory, which counts from the start of its [`Span`](crate::region::Span).
///
/// [`Span::physical`](crate::region::Span::physical) returns the physical number, and
/// [`Span::index`](crate::region::Span::index) does the reverse.
///
/// 32 bits reach 16 TiB of 4 KiB frames ([`Span::LARGEST`](crate::region::Span::LARGEST)), and let a result with an
/// error fit into 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Index(pub u32);

impl Index {
    /// Returns the number as an index of a slice.
    #[inline]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// Returns `true` if a block of `order` may start here.
    #[inline]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.frames() - 1) == 0
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {:#x}", self.0)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {:#x}", self.0)
    }
}

/// The size of a block: 2^order frames.
///
/// It is a whole word, although a byte would hold it. A [`Size`](crate::Size), which is an order or a count, and a
/// result with an error are then passed in two registers. With a byte they were passed through memory, written in
/// pieces and read as one word, which a processor cannot forward. That doubled the time of a hit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Order(u32);

impl Order {
    /// A single frame.
    pub const ZERO: Order = Order(0);
    /// The largest order of Linux and of the papers: 4 MiB of 4 KiB frames.
    pub const TEN: Order = Order(10);
    /// The largest order that any system can be built with: 1 GiB of 4 KiB frames.
    pub const LIMIT: Order = Order(18);

    /// Creates an order. Returns `None` above [`LIMIT`](Self::LIMIT).
    #[inline]
    pub const fn new(order: u8) -> Option<Order> {
        if order as u32 <= Self::LIMIT.0 {
            Some(Order(order as u32))
        } else {
            None
        }
    }

    /// Creates an order from a number that the caller knows to be within the limit. A larger number becomes the limit.
    #[inline]
    pub(crate) const fn saturating(order: u32) -> Order {
        if order <= Self::LIMIT.0 {
            Order(order)
        } else {
            Self::LIMIT
        }
    }

    /// Returns the smallest order whose block contains `frames` frames. Returns `None` if there is none.
    ///
    /// ```
    /// use everybuddy::Order;
    ///
    /// assert_eq!(Order::covering(5), Order::new(3));
    /// assert_eq!(Order::covering(0), None);
    /// ```
    #[inline]
    pub const fn covering(frames: u32) -> Option<Order> {
        if frames == 0 || frames > Self::LIMIT.frames() {
            return None;
        }
        Some(Order(frames.next_power_of_two().trailing_zeros()))
    }

    /// Returns the order as a number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0 as u8
    }

    /// Returns the order as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of frames in a block of this order.
    #[inline]
    pub const fn frames(self) -> u32 {
        // The mask does not change an order, and tells the compiler that the shift cannot overflow.
        1 << (self.0 & 31)
    }

    /// Returns the next larger order; the limit stays the limit.
    #[inline]
    pub(crate) const fn up(self) -> Order {
        Self::saturating(self.0 + 1)
    }

    /// Returns the next smaller order; zero stays zero.
    #[inline]
    pub(crate) const fn down(self) -> Order {
        Order(self.0.saturating_sub(1))
    }

    /// Returns all orders from zero to `last`.
    pub fn up_to(last: Order) -> impl DoubleEndedIterator<Item = Order> + ExactSizeIterator {
        (0..last.0 + 1).map(Order)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A number of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Frames(pub u32);

/// 2^order frames that start at a multiple of 2^order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Block {
    /// The first frame.
    pub start: Index,
    /// The size.
    pub order: Order,
}

impl Block {
    /// Creates a block. Alignment is checked where the block is used.
    #[inline]
    pub const fn new(start: Index, order: Order) -> Block {
        Block { start, order }
    }

    /// Returns the other half of the block of the next order that contains this one.
    ///
    /// ```
    /// use everybuddy::{Block, Order, Index};
    ///
    /// let block = Block::new(Index(8), Order::new(1).unwrap());
    /// assert_eq!(block.buddy().start, Index(10));
    /// assert_eq!(block.buddy().buddy(), block);
    /// ```
    #[inline]
    pub const fn buddy(self) -> Block {
        Block {
            start: Index(self.start.0 ^ self.order.frames()),
            order: self.order,
        }
    }

    /// Splits a run of frames into the fewest aligned blocks of at most `largest`, lowest address first.
    ///
    /// ```
    /// use everybuddy::{Block, Order, Index};
    ///
    /// let sizes: Vec<u32> = Block::cover(Index(3), 9, Order::TEN).map(|b| b.order.frames()).collect();
    /// assert_eq!(sizes, [1, 4, 4]);
    /// ```
    #[inline]
    pub fn cover(start: Index, frames: u32, largest: Order) -> impl Iterator<Item = Block> {
        let mut at = u64::from(start.0);
        let end = at + u64::from(frames);
        core::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let by_place = (at as u32).trailing_zeros();
            let by_size = 63 - (end - at).leading_zeros();
            let order = Order::saturating(by_place.min(by_size).min(largest.0));
            let block = Block {
                start: Index(at as u32),
                order,
            };
            at += u64::from(order.frames());
            Some(block)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_numbers_of_a_frame_look_different() {
        assert_eq!(std::format!("{}", Pfn(0x10_0000)), "frame 0x100000");
        assert_eq!(std::format!("{:?}", Pfn(0x10_0000)), "frame 0x100000");
        assert_eq!(std::format!("{}", Index(0x100)), "index 0x100");
        assert_eq!(std::format!("{:?}", Index(0x100)), "index 0x100");
    }

    #[test]
    fn an_address_that_does_not_fit_is_none() {
        for shift in [12, 14, 16] {
            let last = Pfn::containing(u64::MAX, shift);
            assert_eq!(last.address(shift), Some(u64::MAX << shift));
            assert_eq!(Pfn(last.0 + 1).address(shift), None);
        }
        assert_eq!(Pfn(u64::MAX).checked_add(1), None);
    }

    #[test]
    fn covering_rounds_up() {
        for frames in 1..5000u32 {
            let order = Order::covering(frames).unwrap();
            assert!(order.frames() >= frames);
            assert!(order == Order::ZERO || order.down().frames() < frames);
        }
        assert_eq!(Order::covering(Order::LIMIT.frames() + 1), None);
    }

    #[test]
    fn cover_is_exact_aligned_and_bounded() {
        for start in 0..40u32 {
            for frames in 0..70u32 {
                let mut at = start;
                for block in Block::cover(Index(start), frames, Order(3)) {
                    assert_eq!(block.start.0, at);
                    assert!(block.start.is_aligned(block.order) && block.order <= Order(3));
                    at += block.order.frames();
                }
                assert_eq!(at, start + frames);
            }
        }
    }
}
