//! Memory maps: from regions in bytes to ranges of frames.
//!
//! Maps of firmware and boot loaders are not sorted, their regions overlap, and they do not begin at frames. A system
//! needs ascending ranges of whole frames.
//!
//! # Invariants
//! A frame is used if all of its bytes are in usable regions, none is in a region of another kind, and its address has
//! at most [`ADDRESS_BITS`]. The ranges ascend, and between two of them is at least one frame.
//!
//! # Complexity
//! O(regions²) if few regions touch or overlap, and O(regions³) at worst: a map has at most a few hundred regions, and
//! no memory is available for sorting.

use core::fmt;

use everybuddy::{FrameRange, Pfn};

use crate::FRAME_BYTES;

/// The most bits of a physical address: those of x86-64 and ARM. RISC-V permits 56, which no machine has.
pub const ADDRESS_BITS: u32 = 52;

/// A region of a memory map, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one. A region that ends before it starts is empty.
    pub end: u64,
    /// Whether the kernel may use it. Where a usable region overlaps another one, the memory is not used.
    pub is_usable: bool,
}

impl Region {
    /// Creates a region of a number of bytes. If it reaches beyond 64 bits, its size is wrong: it is empty if it should
    /// be usable, and otherwise ends with the largest address.
    pub const fn of_bytes(start: u64, bytes: u64, is_usable: bool) -> Self {
        let end = match start.checked_add(bytes) {
            Some(end) => end,
            None if is_usable => start,
            None => u64::MAX,
        };
        Self {
            start,
            end,
            is_usable,
        }
    }
}

/// The reason why a memory map could not be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The map has more ranges than there is room for.
    TooManyRanges {
        /// The ranges of the map.
        needed: usize,
        /// The ranges for which there is room.
        room: usize,
    },
    /// The map has no usable frame.
    NoMemory,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRanges { needed, room } => write!(
                f,
                "the memory map has {needed} usable ranges, but there is room for {room}: pass a longer slice"
            ),
            Self::NoMemory => write!(f, "the memory map has no usable frame"),
        }
    }
}

impl core::error::Error for MapError {}

/// Writes the usable frames of a map to `out`, as ranges for [`Setup::new`](everybuddy::Setup::new), and returns them.
///
/// ```
/// use everybuddy::{FrameRange, Pfn};
/// use everybuddy_adapters::map::{Region, usable};
///
/// let region = |start, end, is_usable| Region { start, end, is_usable };
/// let map = [
///     region(0x10_0000, 0x800_0000, true),
///     region(0, 0x9_fc00, true),
///     region(0x40_0000, 0x50_0800, false),
/// ];
/// let mut room = [FrameRange::new(Pfn(0), 0); 8];
/// let ranges = usable(map.iter().copied(), &mut room)?;
/// assert_eq!(
///     ranges,
///     [FrameRange::new(Pfn(0), 0x9f), FrameRange::new(Pfn(0x100), 0x300), FrameRange::new(Pfn(0x501), 0x7aff)]
/// );
/// # Ok::<(), everybuddy_adapters::map::MapError>(())
/// ```
///
/// # Errors
/// [`TooManyRanges`](MapError::TooManyRanges), [`NoMemory`](MapError::NoMemory).
pub fn usable(
    regions: impl Iterator<Item = Region> + Clone,
    out: &mut [FrameRange],
) -> Result<&[FrameRange], MapError> {
    collect(Ranges { regions, at: 0 }, out)
}

/// Writes ranges to `out`, and returns them.
fn collect(
    ranges: impl Iterator<Item = FrameRange>,
    out: &mut [FrameRange],
) -> Result<&[FrameRange], MapError> {
    let mut needed = 0;
    for range in ranges {
        if let Some(place) = out.get_mut(needed) {
            *place = range;
        }
        needed += 1;
    }
    let room = out.len();
    match out.get(..needed) {
        Some([]) => Err(MapError::NoMemory),
        Some(ranges) => Ok(ranges),
        None => Err(MapError::TooManyRanges { needed, room }),
    }
}

/// Takes memory for metadata out of the first range that has enough, lowest frames first. Returns the frames that were
/// taken; the range begins behind them. So a kernel needs no static of the size of the largest machine.
///
/// `room` returns the bytes that a system needs for the ranges that it is given. It is called with what is left.
///
/// ```
/// use everybuddy::prelude::*;
/// use everybuddy_adapters::map::carve;
///
/// let mut ranges = [FrameRange::new(Pfn(1), 0x9e), FrameRange::new(Pfn(0x100), 0x1_0000)];
/// let metadata = carve(&mut ranges, |ranges| Everybuddy::room(&Setup::new(ranges, 4)))?.unwrap();
/// assert_eq!(metadata.start, Pfn(1));
/// assert_eq!(ranges[0], FrameRange::new(Pfn(1 + metadata.frames), 0x9e - metadata.frames));
/// # Ok::<(), everybuddy::BuildError>(())
/// ```
///
/// Returns `None` if no range has enough. Then nothing is taken. O(ranges) calls of `room`.
///
/// # Errors
/// Those of `room`.
pub fn carve<E>(
    ranges: &mut [FrameRange],
    room: impl Fn(&[FrameRange]) -> Result<usize, E>,
) -> Result<Option<FrameRange>, E> {
    // What is left may need more than all did, since it has another geometry.
    let mut frames = (room(ranges)? as u64).div_ceil(FRAME_BYTES);
    for at in 0..ranges.len() {
        let whole = ranges[at];
        while frames <= whole.frames {
            let taken = FrameRange::new(whole.start, frames);
            ranges[at] = FrameRange::new(Pfn(whole.start.0 + frames), whole.frames - frames);
            match room(ranges).map(|bytes| (bytes as u64).div_ceil(FRAME_BYTES)) {
                Ok(needed) if needed <= frames => return Ok(Some(taken)),
                Ok(needed) => frames = needed,
                Err(error) => {
                    ranges[at] = whole;
                    return Err(error);
                }
            }
        }
        ranges[at] = whole;
    }
    Ok(None)
}

/// Writes to `out` what lies in `part` of ascending ranges, and returns it: the memory of a zone that ends at a limit
/// of devices or at the border of a node.
///
/// ```
/// use everybuddy::{FrameRange, Pfn};
/// use everybuddy_adapters::map::clip;
///
/// let ranges = [FrameRange::new(Pfn(1), 0x9e), FrameRange::new(Pfn(0x100), 0x20_0000)];
/// let mut room = [FrameRange::new(Pfn(0), 0); 2];
/// let above = clip(&ranges, FrameRange::new(Pfn(1 << 20), 1 << 40), &mut room)?;
/// assert_eq!(above, [FrameRange::new(Pfn(1 << 20), 0x10_0100)]);
/// # Ok::<(), everybuddy_adapters::map::MapError>(())
/// ```
///
/// # Errors
/// [`TooManyRanges`](MapError::TooManyRanges), [`NoMemory`](MapError::NoMemory).
pub fn clip<'o>(
    ranges: &[FrameRange],
    part: FrameRange,
    out: &'o mut [FrameRange],
) -> Result<&'o [FrameRange], MapError> {
    let end = |range: &FrameRange| range.end().unwrap_or(Pfn(u64::MAX));
    let inside = ranges.iter().filter_map(|range| {
        let (from, to) = (range.start.max(part.start), end(range).min(end(&part)));
        (from < to).then(|| FrameRange::new(from, to.0 - from.0))
    });
    collect(inside, out)
}

/// What is irregular in a memory map. [`usable`] resolves all of it; a kernel prints it, since it explains a number of
/// frames that surprises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Irregular {
    /// All regions of the map.
    pub regions: usize,
    /// Regions that start before the one ahead of them.
    pub unsorted: usize,
    /// Pairs of usable regions that overlap.
    pub overlaps: usize,
    /// Pairs of a usable region and another one that overlap. Their common memory is not used.
    pub conflicts: usize,
    /// Usable regions that begin or end inside a frame.
    pub partial: usize,
    /// Usable regions that reach beyond [`ADDRESS_BITS`]. What lies there is not used.
    pub beyond: usize,
    /// Regions that end where they start, or before.
    pub empty: usize,
}

impl fmt::Display for Irregular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            regions,
            unsorted,
            overlaps,
            conflicts,
            partial,
            beyond,
            empty,
        } = self;
        write!(
            f,
            "{regions} regions: {unsorted} out of order, {overlaps} overlaps, {conflicts} overlaps with reserved \
             memory, {partial} not of whole frames, {beyond} beyond {ADDRESS_BITS} bits, {empty} empty"
        )
    }
}

/// Returns what is irregular in a memory map.
///
/// # Complexity
/// O(regions²).
pub fn irregular(regions: impl Iterator<Item = Region> + Clone) -> Irregular {
    let mut found = Irregular::default();
    let mut rest = regions.clone();
    let mut last = 0;
    while let Some(region) = rest.next() {
        found.regions += 1;
        found.unsorted += usize::from(region.start < last);
        last = region.start;
        if region.start >= region.end {
            found.empty += 1;
            continue;
        }
        let is_whole = |byte: u64| byte.is_multiple_of(FRAME_BYTES);
        let is_partial = !is_whole(region.start) || !is_whole(region.end);
        found.partial += usize::from(region.is_usable && is_partial);
        found.beyond += usize::from(region.is_usable && region.end > END);
        for other in rest.clone() {
            if region.start.max(other.start) < region.end.min(other.end) {
                found.overlaps += usize::from(region.is_usable && other.is_usable);
                found.conflicts += usize::from(region.is_usable != other.is_usable);
            }
        }
    }
    found
}

/// The byte after the last one that a machine can have.
const END: u64 = 1 << ADDRESS_BITS;

/// The ranges of usable frames, in ascending order.
struct Ranges<R> {
    regions: R,
    /// The first byte that was not looked at.
    at: u64,
}

impl<R: Iterator<Item = Region> + Clone> Ranges<R> {
    /// Returns the end of the memory from `at` on that regions of a kind cover, one after the other.
    fn covered(&self, at: u64, is_usable: bool) -> u64 {
        let mut end = at;
        while let Some(further) = self
            .kind(is_usable)
            .filter(|region| region.start <= end && region.end > end)
            .map(|region| region.end)
            .max()
        {
            end = further;
        }
        end
    }

    fn kind(&self, is_usable: bool) -> impl Iterator<Item = Region> {
        let possible = self.regions.clone().map(|region| Region {
            end: region.end.min(END),
            ..region
        });
        possible.filter(move |region| region.is_usable == is_usable && region.start < region.end)
    }

    /// Returns the next bytes that are usable, without those around them.
    fn next_bytes(&mut self) -> Option<(u64, u64)> {
        loop {
            // The next usable byte, whether or not another region has it.
            let ahead = self.kind(true).filter(|region| region.end > self.at);
            let start = ahead.map(|region| region.start.max(self.at)).min()?;
            let blocked = self.covered(start, false);
            if blocked > start {
                self.at = blocked;
                continue;
            }
            let end = self.covered(start, true);
            let next = self.kind(false).map(|region| region.start);
            let blocked = next.filter(|next| *next > start).min();
            self.at = blocked.unwrap_or(end).min(end);
            return Some((start, self.at));
        }
    }
}

impl<R: Iterator<Item = Region> + Clone> Iterator for Ranges<R> {
    type Item = FrameRange;

    fn next(&mut self) -> Option<FrameRange> {
        loop {
            let (start, end) = self.next_bytes()?;
            let (first, end) = (start.div_ceil(FRAME_BYTES), end / FRAME_BYTES);
            if first < end {
                return Some(FrameRange::new(Pfn(first), end - first));
            }
        }
    }
}
