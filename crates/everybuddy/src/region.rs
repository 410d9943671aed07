//! Physical memory: ranges with holes, at any start, of any size.
//!
//! # Purpose
//!
//! Physical memory begins anywhere and has holes, while buddies are found by arithmetic on frame numbers. A [`Span`]
//! maps physical frames ([`Pfn`]) to the small numbers ([`Index`]) that the layers use.
//!
//! # Invariants
//!
//! The base of a span is a multiple of the largest block, so a block that is aligned relatively is aligned
//! physically.

use crate::error::{BuildError, RangeError, RegionError};
use crate::frame::{Index, Order, Pfn};

/// A run of physical frames. An array of them can be shared with C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FrameRange {
    /// The first frame.
    pub start: Pfn,
    /// The number of frames.
    pub frames: u64,
}

impl FrameRange {
    /// Creates a run of `frames` frames from `start`.
    pub const fn new(start: Pfn, frames: u64) -> Self {
        Self { start, frames }
    }

    /// Returns the frame after the last. Returns `None` if that is beyond the largest number.
    pub const fn end(&self) -> Option<Pfn> {
        self.start.checked_add(self.frames)
    }
}

/// The part of physical memory that a system is built for, holes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    base: Pfn,
    frames: u32,
}

impl Span {
    /// The maximum number of frames of a span. The largest 2^24 frame numbers are reserved for other uses.
    pub const LARGEST: u32 = u32::MAX - (1 << 24);

    /// Creates the span that covers all `ranges` (ascending, not overlapping), for blocks up to `largest`.
    ///
    /// The base is the first frame rounded down to a multiple of the largest block. O(ranges).
    pub fn covering(ranges: &[FrameRange], largest: Order) -> Result<Span, BuildError> {
        let mut first = None;
        let mut end = Pfn(0);
        for (index, range) in ranges.iter().enumerate() {
            if range.frames == 0 {
                continue;
            }
            if first.is_some() && range.start < end {
                return Err(BuildError::UnorderedRanges { index });
            }
            first.get_or_insert(range.start);
            end = range.end().ok_or(Self::too_large(first, Pfn(u64::MAX)))?;
        }
        let first = first.ok_or(BuildError::NoMemory)?;
        let base = Pfn(first.0 & !(u64::from(largest.frames()) - 1));
        match u32::try_from(end.0 - base.0) {
            Ok(frames) if frames <= Self::LARGEST => Ok(Span { base, frames }),
            _ => Err(Self::too_large(Some(first), Pfn(end.0 - 1))),
        }
    }

    /// Returns the error of a map from `first` to `last`.
    fn too_large(first: Option<Pfn>, last: Pfn) -> BuildError {
        BuildError::SpanTooLarge {
            first: first.unwrap_or_default(),
            last,
            most: Self::LARGEST,
        }
    }

    /// Returns the physical frame whose index is 0.
    pub const fn base(&self) -> Pfn {
        self.base
    }

    /// Returns the number of frames from the base to the end, holes included.
    pub const fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the index of a physical frame. Returns `None` outside the span. O(1).
    pub const fn index(&self, frame: Pfn) -> Option<Index> {
        if frame.0 >= self.base.0 && frame.0 - self.base.0 < self.frames as u64 {
            Some(Index((frame.0 - self.base.0) as u32))
        } else {
            None
        }
    }

    /// Returns the physical frame of an index. O(1).
    pub const fn physical(&self, index: Index) -> Pfn {
        Pfn(self.base.0 + index.0 as u64)
    }

    /// Returns the index of a range's first frame, and the range's length. The range must lie in the span. O(1).
    pub fn relative(&self, range: FrameRange) -> Result<(Index, u32), RegionError> {
        if range.frames == 0 {
            return Err(RegionError::Empty);
        }
        let last = range.start.checked_add(range.frames - 1);
        let last = last.ok_or(RegionError::OutsideSpan)?;
        match (self.index(range.start), self.index(last)) {
            (Some(start), Some(_)) => Ok((start, range.frames as u32)),
            _ => Err(RegionError::OutsideSpan),
        }
    }

    /// Runs the work of layers on a range, which knows frames by their indexes, and names the frame of its error by its
    /// physical number.
    pub(crate) fn on<T>(
        &self,
        range: FrameRange,
        work: impl FnOnce(Index, u32) -> Result<T, RangeError>,
    ) -> Result<T, RegionError> {
        let (start, frames) = self.relative(range)?;
        work(start, frames).map_err(|error| error.physical(|index| self.physical(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_odd_maps() {
        let ranges = [
            FrameRange::new(Pfn(1_000_003), 7),
            FrameRange::new(Pfn(1_000_100), 1),
        ];
        let span = Span::covering(&ranges, Order::TEN).unwrap();
        assert_eq!(span.base().0 % u64::from(Order::TEN.frames()), 0);
        assert_eq!(
            span.physical(span.index(Pfn(1_000_003)).unwrap()),
            Pfn(1_000_003)
        );
        assert_eq!(span.index(Pfn(1_000_101)), None);
        assert_eq!(span.index(Pfn(span.base().0 - 1)), None);
        assert_eq!(Span::covering(&[], Order::TEN), Err(BuildError::NoMemory));
        assert_eq!(
            Span::covering(&[FrameRange::new(Pfn(3), 0)], Order::TEN),
            Err(BuildError::NoMemory)
        );
        let swapped = [ranges[1], ranges[0]];
        assert_eq!(
            Span::covering(&swapped, Order::TEN),
            Err(BuildError::UnorderedRanges { index: 1 })
        );
        assert_eq!(
            Span::covering(&[FrameRange::new(Pfn(5), u64::MAX)], Order::TEN),
            Err(Span::too_large(Some(Pfn(5)), Pfn(u64::MAX)))
        );
        assert_eq!(
            Span::covering(&[FrameRange::new(Pfn(0), 1 << 32)], Order::TEN),
            Err(Span::too_large(Some(Pfn(0)), Pfn((1 << 32) - 1)))
        );
        assert_eq!(
            span.relative(FrameRange::new(Pfn(1_000_100), 2)),
            Err(RegionError::OutsideSpan)
        );
    }
}
