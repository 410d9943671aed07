//! Which frames of a real machine were free.
//!
//! What a program leaves of a machine's large blocks depends on what the machine had when it started. `--start STATE`
//! creates that memory: the free frames of a state are free, and all others do not exist for the system, so that they
//! stay as they are.
//!
//! Flags of frames name the free ones. Tables such as `/proc/buddyinfo` contain numbers of free blocks only. Each
//! arrangement with these numbers is then equally likely: from the largest order down, free blocks are drawn from those
//! places that are not in a larger free block, and never two buddies, which would be one block. Real free blocks are
//! not drawn: most of the small ones are close to others.
//!
//! # Invariants
//! Frame 0 is at a multiple of 1 GiB of the machine, so the alignment of every block is that of the machine. The same
//! state and seed give the same memory.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use everybuddy::{FrameRange, Order, Pfn, Span};

use crate::Error;
use crate::replay::random::Random;
use crate::size;

/// The free frames of a zone.
#[derive(Clone, PartialEq, Eq)]
pub struct FreeMap {
    label: String,
    ranges: Vec<FrameRange>,
    frames: u64,
    free: u64,
}

/// What labels of drawn arrangements begin with.
const RANDOM: &str = "random:";
/// Frames of 1 GiB: the largest blocks that are counted.
const ALIGNMENT: u64 = 1 << 18;
/// Zones of unknown size are this many times as large as their free memory.
const ASSUMED: u64 = 2;

/// Different for different maps, without their thousands of ranges: it is part of the identity of cells.
impl fmt::Debug for FreeMap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            label,
            ranges,
            frames,
            free,
        } = self;
        let mut hasher = DefaultHasher::new();
        for range in ranges {
            (range.start, range.frames).hash(&mut hasher);
        }
        let ranges = hasher.finish();
        write!(out, "{label}, {free} of {frames} free, {ranges:016x}")
    }
}

impl FreeMap {
    /// Creates the map of a zone whose free frames are known. `source` names the state and its zone in rows. `zone` has
    /// the zone's frames, and `free` the runs of those that are free, ascending.
    pub fn exact(
        source: &str,
        zone: Range<u64>,
        free: impl IntoIterator<Item = Range<u64>>,
    ) -> FreeMap {
        let base = zone.start / ALIGNMENT * ALIGNMENT;
        let ranges = free.into_iter().filter(|run| run.start < run.end);
        let ranges = ranges.map(|run| FrameRange::new(Pfn(run.start - base), run.end - run.start));
        FreeMap::new(label(source), ranges.collect(), zone.end - base)
    }

    /// Draws a map with these numbers of free blocks, from order 0 on. The zone has `frames` frames, rounded up to
    /// whole blocks of the largest order. Without them, it is twice as large as its free memory, or as large as the
    /// numbers demand.
    ///
    /// # Errors
    /// Returns a usage error that names the order of which a zone of this size cannot have as many free blocks.
    pub fn random(
        source: &str,
        counts: &[u64],
        frames: Option<u64>,
        seed: u64,
    ) -> Result<FreeMap, Error> {
        let refuse = |what: String| Error::usage(format!("--start: {source}: {what}"));
        let used = counts.iter().rposition(|count| *count > 0);
        let top = used.unwrap_or(0).max(Order::TEN.index());
        let mut counts = counts.to_vec();
        counts.resize(top + 1, 0);
        let sum = counts
            .iter()
            .zip(0u32..)
            .try_fold(0u64, |sum, (count, order)| {
                sum.checked_add(count.checked_mul(1 << order)?)
            });
        let most = u64::from(Span::LARGEST);
        let free = sum.filter(|free| *free <= most / 4);
        let free =
            free.ok_or_else(|| refuse("it has more free frames than can be managed".into()))?;
        let mut blocks = frames.unwrap_or(ASSUMED * free).div_ceil(1 << top).max(1);
        if blocks > most >> top {
            return Err(refuse(format!(
                "its zone has {}, and at most {} can be managed",
                size::frames(blocks.saturating_mul(1 << top)),
                size::frames(most)
            )));
        }
        while let Some((order, places)) = missing(&counts, blocks) {
            if frames.is_some() {
                return Err(refuse(format!(
                    "it has {} free blocks of order {order}, and a zone of {} has at most {places} places for them",
                    counts[order],
                    size::frames(blocks << top),
                )));
            }
            blocks *= 2;
        }
        let ranges = drawn(&counts, blocks as u32, &mut Random::new(seed));
        Ok(FreeMap::new(
            format!("{RANDOM}{}", label(source)),
            ranges,
            blocks << top,
        ))
    }

    /// Returns the map of which rows have kept the label only: all of `free` frames are free.
    pub fn labelled(label: &str, free: u64) -> FreeMap {
        FreeMap::new(label.to_string(), vec![FrameRange::new(Pfn(0), free)], free)
    }

    fn new(label: String, ranges: Vec<FrameRange>, frames: u64) -> FreeMap {
        FreeMap {
            label,
            free: ranges.iter().map(|range| range.frames).sum(),
            ranges,
            frames: frames.next_multiple_of(u64::from(Order::TEN.frames())),
        }
    }

    /// Returns the first part of the memory with this number of free frames, in whole blocks of order 10.
    ///
    /// # Errors
    /// Returns a usage error with both numbers if fewer are free.
    pub fn part(&self, free: u64) -> Result<FreeMap, Error> {
        if free == self.free {
            return Ok(self.clone());
        }
        let (mut sum, mut end) = (0, None);
        for range in &self.ranges {
            sum += range.frames;
            if sum >= free {
                end = Some(range.start.0 + range.frames - (sum - free));
                break;
            }
        }
        let Some(end) = end else {
            return Err(Error::usage(format!(
                "--memory {}: only {} are free in {}\nhelp: choose a smaller --memory, or leave it out",
                size::frames(free),
                size::frames(self.free),
                self.described(),
            )));
        };
        let end = end.next_multiple_of(u64::from(Order::TEN.frames()));
        let inside = self.ranges.iter().filter(|range| range.start.0 < end);
        let cut = |range: &FrameRange| {
            FrameRange::new(range.start, range.frames.min(end - range.start.0))
        };
        Ok(FreeMap::new(
            self.label.clone(),
            inside.map(cut).collect(),
            end,
        ))
    }

    /// Returns the runs of free frames, ascending.
    pub fn ranges(&self) -> &[FrameRange] {
        &self.ranges
    }

    /// Returns the number of frames from the first to the last one, free or not: whole blocks of order 10.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the number of free frames.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Returns its name in rows: one word.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Describes it, as in "memory as in kpageflags:Node-0-Normal".
    pub fn described(&self) -> String {
        match self.label.strip_prefix(RANDOM) {
            Some(source) => format!("random memory with the counts of {source}"),
            None => format!("memory as in {}", self.label),
        }
    }

    /// Returns the frames that are not free, in increasing order.
    pub fn taken(&self) -> impl Iterator<Item = u32> + '_ {
        let starts = self.ranges.iter().map(|range| range.start.0);
        let starts = starts.chain([self.frames]);
        let ends = self.ranges.iter().map(end_of);
        let gaps = [0].into_iter().chain(ends).zip(starts);
        gaps.flat_map(|(end, start)| end as u32..start as u32)
    }

    /// Returns the numbers of free blocks of each order up to `largest`, each as large as its place permits.
    pub fn blocks(&self, largest: Order) -> Vec<u64> {
        let mut counts = vec![0; largest.index() + 1];
        for range in &self.ranges {
            let (mut start, end) = (range.start.0, end_of(range));
            while start < end {
                let fits = (end - start).ilog2().min(largest.get().into());
                let order = fits.min(start.trailing_zeros());
                counts[order as usize] += 1;
                start += 1 << order;
            }
        }
        counts
    }
}

/// Returns the number of the frame after a range.
fn end_of(range: &FrameRange) -> u64 {
    range.start.0 + range.frames
}

/// Returns one word that names a state in rows.
fn label(source: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._:-".contains(c);
    let plain = |c: char| if is_plain(c) { c } else { '-' };
    source.chars().map(plain).collect()
}

/// Returns the largest order of which `blocks` blocks of the last order cannot have as many free blocks, and the most.
fn missing(counts: &[u64], blocks: u64) -> Option<(usize, u64)> {
    // The blocks of an order that are not free. Each has two halves, of which one may be free.
    let mut places = blocks;
    for (order, count) in counts.iter().enumerate().rev() {
        if *count > places {
            return Some((order, places));
        }
        let whole = if order + 1 == counts.len() {
            places
        } else {
            2 * places
        };
        places = whole - count;
    }
    None
}

/// Draws free blocks: every arrangement is equally likely, because the number of places of an order does not depend on
/// those of larger blocks.
fn drawn(counts: &[u64], blocks: u32, random: &mut Random) -> Vec<FrameRange> {
    let mut free = Vec::with_capacity(counts.iter().sum::<u64>() as usize);
    let mut places: Vec<u32> = (0..blocks).collect();
    for (order, count) in counts.iter().enumerate().rev() {
        let count = *count as usize;
        for at in 0..count {
            let other = at + random.below((places.len() - at) as u64) as usize;
            places.swap(at, other);
        }
        let mut add = |block: u32| {
            free.push(FrameRange::new(Pfn(u64::from(block) << order), 1 << order));
        };
        if order + 1 == counts.len() {
            places.drain(..count).for_each(add);
            continue;
        }
        // Of a chosen block one half is free. All other halves are places of smaller blocks.
        let mut halves = Vec::with_capacity(2 * places.len() - count);
        for (at, block) in places.iter().enumerate() {
            let half = random.below(2) as u32;
            halves.push(2 * block + 1 - half);
            if at < count {
                add(2 * block + half);
            } else {
                halves.push(2 * block + half);
            }
        }
        places = halves;
    }
    free.sort_unstable_by_key(|range| range.start);
    free
}
