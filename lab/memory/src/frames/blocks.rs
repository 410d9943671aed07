//! The blocks of one order, one by one: what can become of each, and what it holds.
//!
//! # Invariants
//! A block that crosses the end of its zone, or a hole, is [`Verdict::Absent`]: the allocator never has it. Counts of
//! verdicts equal those of [`OrderWindows`](super::OrderWindows) of the same order.

use super::flags::{KINDS, Kind};
use super::snapshot::{Snapshot, ZoneFrames};

/// What can become of a block; of two, the greater one is worse.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verdict {
    /// All its frames are free.
    Free,
    /// All its frames are free or page cache that can be dropped.
    Dropping,
    /// All its frames are free or movable.
    Moving,
    /// All its frames are free, movable, or free on the CPUs' lists.
    Draining,
    /// Only frames without flags stand in the way.
    Perhaps,
    /// It contains pinned pages; the class with the most frames.
    Held(Kind),
    /// It is not wholly memory of its zone.
    Absent,
}

impl Verdict {
    /// Returns the name for a legend.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free now",
            Self::Dropping => "by dropping page cache",
            Self::Moving => "by moving pages",
            Self::Draining => "by draining the CPUs' lists",
            Self::Perhaps => "perhaps, by draining the CPUs' lists",
            Self::Held(kind) => kind.name(),
            Self::Absent => "not memory, or not initialised yet",
        }
    }

    /// Returns `true` if neither moving nor dropping pages frees the block for certain.
    pub(super) fn is_blocked(self) -> bool {
        matches!(self, Self::Held(_) | Self::Perhaps)
    }
}

/// The blocks of a zone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ZoneBlocks {
    /// The first frame of the first block: a multiple of the block's size, at or below the zone's first frame.
    pub first: u64,
    /// All blocks that the zone touches.
    pub blocks: Vec<Verdict>,
}

/// The blocks of all zones.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Blocks {
    /// The order of the blocks.
    pub order: u32,
    /// The zones of the snapshot, in its order.
    pub zones: Vec<ZoneBlocks>,
}

impl Blocks {
    /// Judges all blocks of an order.
    #[must_use]
    pub fn of(snapshot: &Snapshot, order: u32) -> Self {
        let zones = snapshot.zones.iter().map(|zone| of_zone(zone, order));
        Self {
            order,
            zones: zones.collect(),
        }
    }

    /// Returns the position of a frame's block in its zone.
    #[must_use]
    pub fn position(&self, zone: usize, frame: u64) -> Option<usize> {
        let blocks = self.zones.get(zone)?;
        let at = usize::try_from(frame.checked_sub(blocks.first)? >> self.order).ok()?;
        (at < blocks.blocks.len()).then_some(at)
    }
}

fn of_zone(zone: &ZoneFrames, order: u32) -> ZoneBlocks {
    let size = 1u64 << order;
    let first = zone.start() & !(size - 1);
    let mut rest = zone.kinds.as_slice();
    let mut skipped = (zone.start() - first) as usize;
    let mut blocks = Vec::with_capacity((skipped + rest.len()).div_ceil(size as usize));
    while !rest.is_empty() {
        let (now, later) = rest.split_at((size as usize - skipped).min(rest.len()));
        let mut counts = [0u32; KINDS];
        for kind in now {
            counts[*kind as usize] += 1;
        }
        blocks.push(judge(&counts, now.len() == size as usize));
        skipped = 0;
        rest = later;
    }
    ZoneBlocks { first, blocks }
}

/// Judges a block by the number of its frames of each class.
fn judge(counts: &[u32; KINDS], is_whole: bool) -> Verdict {
    let count = |kind: Kind| counts[kind as usize];
    let has = |is: &dyn Fn(Kind) -> bool| {
        let mut kinds = Kind::ALL.into_iter();
        kinds.any(|kind| count(kind) > 0 && is(kind))
    };
    let has_only = |kinds: &[Kind]| !has(&|kind| !kinds.contains(&kind));
    let pinned = Kind::ALL.into_iter().rev().filter(|kind| kind.is_pinned());
    if !is_whole || has(&Kind::is_absent) {
        Verdict::Absent
    } else if has(&Kind::is_pinned) {
        let most = pinned.max_by_key(|kind| count(*kind));
        Verdict::Held(most.unwrap_or(Kind::Kernel))
    } else if count(Kind::Unknown) > 0 {
        Verdict::Perhaps
    } else if count(Kind::OnList) > 0 {
        Verdict::Draining
    } else if has_only(&[Kind::Free]) {
        Verdict::Free
    } else if has_only(&[Kind::Free, Kind::Cache]) {
        Verdict::Dropping
    } else {
        Verdict::Moving
    }
}
