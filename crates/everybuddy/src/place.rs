//! Where frames may lie: nodes, address limits, alignment, colours.
//!
//! Some requests cannot use any frame: a device reaches only low addresses, a task stays on its node, a cache is
//! partitioned by colour. They are few. Such a request goes through a call of its own,
//! [`allocate_in`](crate::FrameAllocator::allocate_in), so that the code of an ordinary hit does not change.
//!
//! # Invariants
//! 1. A block that a search returns satisfies every restriction of its place.
//! 2. A search only goes upwards, so it ends.
//!
//! # Design decisions
//! A system without zones finds such a frame by looking at the candidates in ascending order, each in O(orders), and
//! by taking the first that is free. That is slow in memory without free candidates, but it needs nothing of the
//! system except [`allocate_at`](crate::FrameAllocator::allocate_at). Where limits are common, [`Nodes`](crate::Nodes)
//! keeps limited memory in zones of its own.

use crate::error::{AllocateError, RegionError};
use crate::frame::{Index, Order, Pfn};
use crate::region::{FrameRange, Span};
use crate::snapshot::FrameState;

/// The node that a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Node {
    /// The node of the calling CPU, then the others by distance.
    #[default]
    Home,
    /// This node, then the others by distance.
    Preferred(u8),
    /// Only this node.
    Only(u8),
}

/// A set of frame colours: classes of frames that share sets of a cache, or banks of memory.
///
/// # Examples
/// ```
/// use everybuddy::{Colours, Pfn};
///
/// // 16 colours by bits 2 to 5 of the frame number; two of them are allowed.
/// let colours = Colours::new(0b11_1100, 1 << 3 | 1 << 9).unwrap();
/// assert_eq!(colours.of(Pfn(0b10_0111)), 9);
/// assert!(colours.allow(Pfn(0b10_0111)) && !colours.allow(Pfn(0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colours {
    mask: u64,
    allowed: u64,
}

impl Colours {
    /// No restriction: all frames have colour 0, which is allowed.
    pub const ALL: Colours = Colours {
        mask: 0,
        allowed: 1,
    };

    /// Creates a set. The bits of `mask` select the bits of a physical frame number that make its colour, lowest bit
    /// first; bit c of `allowed` allows colour c. Returns `None` if the mask has more than 6 bits.
    pub const fn new(mask: u64, allowed: u64) -> Option<Colours> {
        match mask.count_ones() {
            0..=6 => Some(Colours { mask, allowed }),
            _ => None,
        }
    }

    /// Returns the colour of a physical frame. O(colour bits).
    pub const fn of(self, frame: Pfn) -> u8 {
        let (mut mask, mut colour, mut bit) = (self.mask, 0, 0);
        while mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            colour |= ((frame.0 & lowest != 0) as u8) << bit;
            mask &= mask - 1;
            bit += 1;
        }
        colour
    }

    /// Returns `true` if the colour of a physical frame is allowed.
    pub const fn allow(self, frame: Pfn) -> bool {
        self.allowed >> self.of(frame) & 1 == 1
    }
}

/// Where the frames of a request may lie.
///
/// # Examples
/// ```
/// use everybuddy::{Order, Pfn, Place};
///
/// // Frames of 4 KiB below 4 GiB, from a multiple of 64 KiB on.
/// let place = Place::ANYWHERE.below(Pfn(1 << 20)).aligned(Order::new(4).unwrap());
/// assert_ne!(place, Place::ANYWHERE);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: Node,
    /// All frames have physical numbers below this one: 2^20 for a device that reaches 4 GiB of 4 KiB frames.
    pub limit: Pfn,
    /// The first frame's physical number is a multiple of the number of frames of this order. A larger request is
    /// aligned to its own size in any case.
    pub alignment: Order,
    /// The colours of all frames.
    pub colours: Colours,
}

impl Place {
    /// No restriction.
    pub const ANYWHERE: Place = Place {
        node: Node::Home,
        limit: Pfn(u64::MAX),
        alignment: Order::ZERO,
        colours: Colours::ALL,
    };

    /// Sets the node.
    #[must_use]
    pub const fn on(self, node: Node) -> Place {
        Place { node, ..self }
    }

    /// Sets the limit: all frames have physical numbers below `limit`.
    #[must_use]
    pub const fn below(self, limit: Pfn) -> Place {
        Place { limit, ..self }
    }

    /// Sets the alignment.
    #[must_use]
    pub const fn aligned(self, alignment: Order) -> Place {
        Place { alignment, ..self }
    }

    /// Sets the colours.
    #[must_use]
    pub const fn coloured(self, colours: Colours) -> Place {
        Place { colours, ..self }
    }

    /// Returns `true` if a run of physical frames satisfies limit, alignment and colours.
    #[inline]
    pub fn holds(&self, start: Pfn, frames: u32) -> bool {
        let end = start.checked_add(u64::from(frames));
        start.0.is_multiple_of(u64::from(self.alignment.frames()))
            && end.is_some_and(|end| end <= self.limit && self.colours_hold(start, end))
    }

    #[inline]
    fn colours_hold(&self, start: Pfn, end: Pfn) -> bool {
        self.colours == Colours::ALL || (start.0..end.0).all(|frame| self.colours.allow(Pfn(frame)))
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::ANYWHERE
    }
}

/// A search for a free run in a place: what it asks of the system.
pub(crate) struct RunSearch<'s> {
    /// The system's frames.
    pub(crate) span: &'s Span,
    /// Returns the use of a frame.
    pub(crate) state: &'s dyn Fn(Index) -> Option<FrameState>,
    /// Allocates exactly the frames of a range.
    pub(crate) take: &'s mut dyn FnMut(FrameRange) -> Result<Index, RegionError>,
}

impl RunSearch<'_> {
    /// Takes the first free run, by address, that satisfies a place. The request is not larger than the largest block.
    ///
    /// Fails as busy if it took no run and an attempt failed although its frames seemed free.
    #[inline]
    pub(crate) fn run(&mut self, frames: u32, place: &Place) -> Result<Index, AllocateError> {
        let own = Order::covering(frames).ok_or(AllocateError::ZeroFrames)?;
        let step = u64::from(own.max(place.alignment).frames());
        let mut failure = AllocateError::Exhausted;
        for part in self.span.parts() {
            let end = (part.start.0 + part.frames).min(place.limit.0);
            let mut at = part.start.0;
            while let Some(start) = at.checked_next_multiple_of(step)
                && start <= end
                && end - start >= u64::from(frames)
            {
                at = start;
                let start = Pfn(at);
                let state = self.span.index(start).and_then(self.state);
                if let Some(FrameState::Allocated { head, order }) = state {
                    // No frame of the block is free.
                    at = (self.span.physical(head).0).saturating_add(u64::from(order.frames()));
                    continue;
                }
                if !matches!(state, Some(FrameState::Free { .. })) || !place.holds(start, frames) {
                    at += 1;
                    continue;
                }
                match (self.take)(FrameRange::new(start, u64::from(frames))) {
                    Ok(index) => return Ok(index),
                    Err(RegionError::NotFree(frame)) => at = frame.0.max(at) + 1,
                    Err(RegionError::NoSuchCpu) => return Err(AllocateError::NoSuchCpu),
                    Err(_) => {
                        failure = AllocateError::Busy;
                        at += 1;
                    }
                }
            }
        }
        Err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_the_selected_bits() {
        let colours = Colours::new(0b1010_0010, 0b1000_0001).unwrap();
        assert_eq!(colours.of(Pfn(0)), 0);
        assert_eq!(colours.of(Pfn(0b1010_0010)), 7);
        assert_eq!(colours.of(Pfn(0b0101_1101)), 0);
        assert_eq!(colours.of(Pfn(0b0010_0000)), 2);
        assert!(colours.allow(Pfn(0b1111_1111)) && !colours.allow(Pfn(0b0000_0010)));
        assert_eq!(Colours::new(0x7f, 1), None);
        assert!((0..100).all(|frame| Colours::ALL.allow(Pfn(frame))));
    }

    #[test]
    fn a_place_holds_what_satisfies_all_of_it() {
        let place = Place::ANYWHERE
            .below(Pfn(64))
            .aligned(Order::new(2).unwrap());
        assert!(place.holds(Pfn(60), 4) && !place.holds(Pfn(60), 5) && !place.holds(Pfn(62), 1));
        assert!(!place.holds(Pfn(u64::MAX - 3), 8));
        let even = place.coloured(Colours::new(1, 1).unwrap());
        assert!(even.holds(Pfn(8), 1) && !even.holds(Pfn(8), 2));
    }
}
