//! Physical memory: ranges with holes, at any start, however far apart.
//!
//! Physical memory begins anywhere and has holes, while buddies are found by arithmetic on frame numbers. A [`Span`]
//! maps physical frames ([`Pfn`]) to the small numbers ([`Index`]) that the layers use, without the large holes.
//!
//! # Invariants
//! Each part of a span starts at a multiple of the largest block, by physical number and by index. So a block that is
//! aligned by its index is aligned physically, and lies in one part.
//!
//! # Design decisions
//! The metadata of all systems are arrays over indexes, so they grow with the holes that have indexes. A hole below
//! [`Span::HOLE`] keeps its indexes, which costs little: then nearly all machines have few parts, and a conversion
//! reads one or two of them.

use core::fmt;

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

/// The physical frames that a system is built for, small holes included. It consists of parts, between which there are
/// large holes.
///
/// # Examples
/// ```
/// use everybuddy::{FrameRange, Index, Order, Pfn, Span};
///
/// // 2 GiB from 2 GiB on, and 4 GiB from 512 GiB on, in frames of 4 KiB.
/// let ranges = [FrameRange::new(Pfn(0x8_0000), 0x8_0000), FrameRange::new(Pfn(0x800_0000), 0x10_0000)];
/// let span = Span::covering(&ranges, Order::TEN)?;
/// assert_eq!(span.frames(), 0x18_0000);
/// assert_eq!(span.physical(Index(0)), Pfn(0x8_0000));
/// assert_eq!(span.physical(Index(0x8_0001)), Pfn(0x800_0001));
/// assert_eq!(span.index(Pfn(0x800_0001)), Some(Index(0x8_0001)));
/// assert_eq!(span.index(Pfn(0x10_0000)), None);
/// # Ok::<(), everybuddy::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// In ascending order. Those that are not used have no frames, and follow all indexes.
    parts: [SpanPart; Span::PARTS],
    frames: u32,
}

/// Physical frames whose indexes follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SpanPart {
    base: Pfn,
    /// The index of the base.
    first: u32,
    frames: u32,
}

impl SpanPart {
    const UNUSED: SpanPart = SpanPart {
        base: Pfn(u64::MAX),
        first: u32::MAX,
        frames: 0,
    };

    #[inline]
    fn index(&self, frame: Pfn) -> Option<Index> {
        let at = frame.0.wrapping_sub(self.base.0);
        (at < u64::from(self.frames)).then(|| Index(self.first + at as u32))
    }

    /// Beyond the part, the number means nothing.
    #[inline]
    fn physical(&self, index: Index) -> Pfn {
        Pfn(self.base.0.wrapping_add(u64::from(index.0 - self.first)))
    }
}

/// Out of line, since most machines have one part, and a loop in each caller would be long.
#[inline(never)]
fn index_in(parts: &[SpanPart], frame: Pfn) -> Option<Index> {
    parts.iter().find_map(|part| part.index(frame))
}

/// As [`index_in`]. The first part starts at the index or before it.
#[inline(never)]
fn physical_in(parts: &[SpanPart], index: Index) -> Pfn {
    let mut starts = parts.iter().rev();
    let part = starts.find(|part| part.first <= index.0);
    part.unwrap_or(&SpanPart::UNUSED).physical(index)
}

impl Span {
    /// The maximum number of frames of a span. The largest 2^24 frame numbers are reserved for other uses.
    pub const LARGEST: u32 = u32::MAX - (1 << 24);

    /// The maximum number of parts, which the text of [`BuildError::SpanTooLarge`] names.
    pub const PARTS: usize = 16;

    /// The frames of the smallest hole that has no indexes: 1 GiB of 4 KiB frames. It is larger if there would be more
    /// than [`PARTS`](Self::PARTS) parts.
    pub const HOLE: u64 = 1 << 18;

    /// Creates the span that covers all `ranges` (ascending, not overlapping), for blocks up to `largest`.
    ///
    /// The base of each part is rounded down to a multiple of the largest block, and the end of each part but the last
    /// is rounded up to one. O(ranges).
    ///
    /// # Errors
    /// [`NoMemory`](BuildError::NoMemory) if the ranges have no frames;
    /// [`UnorderedRanges`](BuildError::UnorderedRanges); [`SpanTooLarge`](BuildError::SpanTooLarge).
    pub fn covering(ranges: &[FrameRange], largest: Order) -> Result<Span, BuildError> {
        Self::with_reach(ranges, None, largest)
    }

    /// Does the same, and covers all of `reach`, which may overlap the ranges.
    pub(crate) fn with_reach(
        ranges: &[FrameRange],
        reach: Option<FrameRange>,
        largest: Order,
    ) -> Result<Span, BuildError> {
        let mut end = Pfn(0);
        for (index, range) in ranges.iter().enumerate() {
            if range.frames > 0 {
                if range.start < end {
                    return Err(BuildError::UnorderedRanges { index });
                }
                // A range that has no end is refused below.
                end = range.end().unwrap_or(range.start);
            }
        }
        let reach = reach.unwrap_or(FrameRange::new(Pfn(0), 0));
        let before = ranges.iter().filter(|range| range.start < reach.start);
        let after = ranges.iter().filter(|range| range.start >= reach.start);
        Self::joining(before.chain([&reach]).chain(after).copied(), largest)
    }

    /// Creates the span that covers ranges whose starts ascend.
    pub(crate) fn joining(
        ranges: impl Iterator<Item = FrameRange> + Clone,
        largest: Order,
    ) -> Result<Span, BuildError> {
        let ranges = ranges.filter(|range| range.frames > 0);
        let first = ranges.clone().next().ok_or(BuildError::NoMemory)?.start;
        let last = |range: FrameRange| range.start.0.saturating_add(range.frames - 1);
        let last = Pfn(ranges.clone().map(last).max().unwrap_or(first.0));
        let too_large = BuildError::SpanTooLarge {
            first,
            last,
            most: Self::LARGEST,
        };
        let is_endless = |range: FrameRange| range.end().is_none();
        if ranges.clone().any(is_endless) {
            return Err(too_large);
        }
        let mut hole = Self::HOLE;
        loop {
            if let Some(span) = Self::cut(ranges.clone(), largest, hole) {
                let fits = span.frames <= Self::LARGEST;
                return if fits { Ok(span) } else { Err(too_large) };
            }
            hole = hole.saturating_mul(2);
        }
    }

    /// Cuts ranges into parts at the holes of at least `hole` frames. Returns `None` if there are too many parts.
    fn cut(ranges: impl Iterator<Item = FrameRange>, largest: Order, hole: u64) -> Option<Span> {
        let block = u64::from(largest.frames());
        // Too many frames become the largest number, which is refused.
        let saturating = |frames: u64| u32::try_from(frames).unwrap_or(u32::MAX);
        let mut parts = [SpanPart::UNUSED; Self::PARTS];
        let mut places = parts.iter_mut();
        let mut frames = 0u64;
        let mut close = |(base, end): (u64, u64)| {
            *places.next()? = SpanPart {
                base: Pfn(base),
                first: saturating(frames),
                frames: saturating(end - base),
            };
            frames = frames.saturating_add(end - base);
            Some(frames)
        };
        // The part that is not complete yet.
        let mut open = None;
        for range in ranges {
            let (start, end) = (range.start.0 & !(block - 1), range.start.0 + range.frames);
            let Some((base, last)) = open else {
                open = Some((start, end));
                continue;
            };
            let whole = u64::checked_next_multiple_of(last, block).unwrap_or(last);
            open = Some(if start >= whole && start - whole >= hole {
                close((base, whole))?;
                (start, end)
            } else {
                (base, end.max(last))
            });
        }
        let frames = saturating(close(open?)?);
        Some(Span { parts, frames })
    }

    /// Returns the first physical frame, whose index is 0.
    #[inline]
    pub fn base(&self) -> Pfn {
        let [first, ..] = &self.parts;
        first.base
    }

    /// Returns the number of frames of all parts, small holes included.
    #[inline]
    pub const fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the parts as runs of physical frames, ascending.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = FrameRange> + Clone + '_ {
        let used = self.parts.iter().filter(|part| part.frames > 0);
        used.map(|part| FrameRange::new(part.base, part.frames.into()))
    }

    /// Returns the index of a physical frame. Returns `None` outside the parts. O(parts).
    #[inline]
    pub fn index(&self, frame: Pfn) -> Option<Index> {
        let [first, rest @ ..] = &self.parts;
        first.index(frame).or_else(|| index_in(rest, frame))
    }

    /// Returns the physical frame of an index, which must be below [`frames`](Self::frames). O(parts).
    #[inline]
    pub fn physical(&self, index: Index) -> Pfn {
        let [first, rest @ ..] = &self.parts;
        let [second, ..] = rest;
        if index.0 < second.first {
            first.physical(index)
        } else {
            physical_in(rest, index)
        }
    }

    /// Returns the index of a range's first frame, and the range's length. The range must lie in one part. O(parts).
    pub fn relative(&self, range: FrameRange) -> Result<(Index, u32), RegionError> {
        if range.frames == 0 {
            return Err(RegionError::Empty);
        }
        let last = range.start.checked_add(range.frames - 1);
        let last = last.ok_or(RegionError::OutsideSpan)?;
        match (self.index(range.start), self.index(last)) {
            (Some(start), Some(end)) if u64::from(end.0 - start.0) == range.frames - 1 => {
                Ok((start, range.frames as u32))
            }
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

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Order = Order::TEN;

    /// Creates ranges by first frame and frames.
    fn ranges(all: &[(u64, u64)]) -> std::vec::Vec<FrameRange> {
        let range = |(start, frames): &(u64, u64)| FrameRange::new(Pfn(*start), *frames);
        all.iter().map(range).collect()
    }

    #[test]
    fn spans_of_odd_maps() {
        let map = ranges(&[(1_000_003, 7), (1_000_100, 1)]);
        let span = Span::covering(&map, TEN).unwrap();
        assert_eq!(span.base().0 % u64::from(TEN.frames()), 0);
        let first = span.index(Pfn(1_000_003)).unwrap();
        assert_eq!(span.physical(first), Pfn(1_000_003));
        assert_eq!(span.index(Pfn(1_000_101)), None);
        assert_eq!(span.index(Pfn(span.base().0 - 1)), None);
        let refused = |all: &[(u64, u64)]| Span::covering(&ranges(all), TEN).unwrap_err();
        assert_eq!(refused(&[]), BuildError::NoMemory);
        assert_eq!(refused(&[(3, 0)]), BuildError::NoMemory);
        let unordered = BuildError::UnorderedRanges { index: 1 };
        assert_eq!(refused(&[(1_000_100, 1), (1_000_003, 7)]), unordered);
        let too_large = |first, last| BuildError::SpanTooLarge {
            first: Pfn(first),
            last: Pfn(last),
            most: Span::LARGEST,
        };
        assert_eq!(refused(&[(5, u64::MAX)]), too_large(5, u64::MAX));
        assert_eq!(refused(&[(0, 1 << 32)]), too_large(0, (1 << 32) - 1));
        let halves = [(0, 1 << 31), (1 << 40, 1 << 31)];
        assert_eq!(refused(&halves), too_large(0, (1 << 40) + (1 << 31) - 1));
        let crossing = FrameRange::new(Pfn(1_000_100), 2);
        assert_eq!(span.relative(crossing), Err(RegionError::OutsideSpan));
    }

    /// Every frame of a map has an index, and every index a frame; the parts are aligned in both numbers.
    fn is_a_bijection(map: &[(u64, u64)], reach: Option<(u64, u64)>, largest: Order) -> Span {
        let block = u64::from(largest.frames());
        let reach = reach.map(|(start, frames)| FrameRange::new(Pfn(start), frames));
        let span = Span::with_reach(&ranges(map), reach, largest).unwrap();
        let mut index = 0u64;
        for part in span.parts() {
            assert_eq!((part.start.0 % block, index % block), (0, 0));
            for at in [0, 1, part.frames / 2, part.frames - 1] {
                let (frame, here) = (Pfn(part.start.0 + at), Index((index + at) as u32));
                assert_eq!(span.index(frame), Some(here));
                assert_eq!(span.physical(here), frame);
            }
            assert_eq!(span.index(part.end().unwrap()), None);
            assert!(part.start.0 == 0 || span.index(Pfn(part.start.0 - 1)).is_none());
            index += part.frames;
        }
        assert_eq!(u64::from(span.frames()), index);
        for range in ranges(map).into_iter().chain(reach) {
            if range.frames > 0 {
                let (start, frames) = span.relative(range).unwrap();
                assert_eq!(span.physical(start), range.start);
                assert_eq!(u64::from(frames), range.frames);
            }
        }
        span
    }

    #[test]
    fn large_holes_have_no_indexes_and_small_ones_have() {
        let hole = Span::HOLE;
        // The base of the second part is rounded down to 5 + 1024 * n, and the end of the first one up.
        let at = |hole| [(5, 10), (1024 + hole, 7)];
        let cut = is_a_bijection(&at(hole), None, TEN);
        assert_eq!((cut.parts().count(), cut.frames()), (2, 1024 + 7));
        let kept = is_a_bijection(&at(hole - 1024), None, TEN);
        assert_eq!(kept.parts().count(), 1);
        let crossing = FrameRange::new(Pfn(5), 1024 + hole + 2);
        assert_eq!(cut.relative(crossing), Err(RegionError::OutsideSpan));
        // A range that is as long as its ends are apart by index.
        let crossing = FrameRange::new(Pfn(1023), hole + 2);
        assert_eq!(cut.relative(crossing), Err(RegionError::OutsideSpan));
        let largest = Order::LIMIT;
        is_a_bijection(
            &[(7, 1), (3 << 40, 5), ((3 << 40) + (1 << 20), 9)],
            None,
            largest,
        );
        is_a_bijection(&[(u64::MAX - 4096, 4000)], None, TEN);
    }

    #[test]
    fn only_the_largest_holes_are_cut_where_there_are_too_many() {
        // Holes of 1, 2, 4 … times the smallest one, in descending order.
        let mut map = std::vec![(0, 1024)];
        for step in (0..20).rev() {
            let (last, frames) = map[map.len() - 1];
            map.push((last + frames + (Span::HOLE << step), 1024));
        }
        let span = is_a_bijection(&map, None, TEN);
        assert_eq!(span.parts().count(), Span::PARTS);
        // The five smallest holes, and all memory.
        let kept = Span::HOLE * (1 + 2 + 4 + 8 + 16);
        assert_eq!(u64::from(span.frames()), 21 * 1024 + kept);
    }

    #[test]
    fn a_reach_is_covered_wherever_it_lies() {
        let map = [(1 << 30, 4096), (1 << 32, 4096)];
        for (reach, parts, frames) in [
            ((0, 100), 3, 1024 + 8192),
            ((1 << 31, 10_000), 3, 8192 + 10 * 1024),
            ((1 << 40, 1 << 28), 3, 8192 + (1 << 28)),
            (((1 << 30) + 4000, 8192), 2, 12 * 1024 + 4096),
            ((1 << 29, 1 << 31), 2, (1 << 31) + 4096),
            (
                (1 << 30, (1 << 32) - (1 << 30) + 4096),
                1,
                (1 << 32) - (1 << 30) + 4096,
            ),
        ] {
            let span = is_a_bijection(&map, Some(reach), TEN);
            assert_eq!(span.parts().count(), parts, "{reach:?}");
            assert_eq!(u64::from(span.frames()), frames, "{reach:?}");
        }
        is_a_bijection(&[], Some((77, 1 << 28)), TEN);
    }
}
