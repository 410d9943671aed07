//! The blocks of one zone, order by order: how many are free, can become free, may become free, or cannot.
//!
//! A *window* is the place of a block: 2^order frames at a multiple of 2^order, wholly inside of a zone, without a
//! hole.
//!
//! # Invariants
//! Each window belongs to exactly one of four groups: open (all frames free or movable), drainable (some are on
//! CPUs' lists), unsure (some have no flags), and blocked (a frame is pinned). A window that is free now is open.
//!
//! # Design decisions
//! A window is summarised by the set of classes that it contains, and the sets of two halves give that of the whole.
//! All counts are sums over the number of windows with each set: one pass over the frames serves all orders.
//!
//! # Complexity
//! Linear in the frames. The sets of an order take 128 KiB, and nothing is stored per frame.

use std::collections::BTreeMap;

use super::flags::Kind;
use super::snapshot::ZoneFrames;

/// The classes that matter for a window; all movable ones are one, and so are all that are absent.
const FREE: u16 = 1;
const MOVABLE: u16 = 1 << 1;
const ABSENT: u16 = 1 << 2;
const UNKNOWN: u16 = 1 << 3;
const ON_LIST: u16 = 1 << 4;
/// The first of the pinned classes.
const FIRST_PINNED: u32 = 5;
const PINNED: [Kind; 9] = [
    Kind::HugePool,
    Kind::Slab,
    Kind::PageTable,
    Kind::Reserved,
    Kind::Offline,
    Kind::Compound,
    Kind::Kernel,
    Kind::Poisoned,
    Kind::Pinned,
];
const SETS: usize = 1 << (FIRST_PINNED as usize + PINNED.len());

/// The order of the blocks that are summarised together.
const CHUNK_ORDER: u32 = 9;
const CHUNK: usize = 1 << CHUNK_ORDER;

/// Returns the set with this class alone.
fn set_of(kind: Kind) -> u16 {
    match kind {
        Kind::Free => FREE,
        Kind::Anonymous | Kind::FileHeld | Kind::Cache | Kind::Unevictable => MOVABLE,
        Kind::NotStarted | Kind::Hole => ABSENT,
        Kind::Unknown => UNKNOWN,
        Kind::OnList => ON_LIST,
        Kind::HugePool => 1 << FIRST_PINNED,
        Kind::Slab => 1 << (FIRST_PINNED + 1),
        Kind::PageTable => 1 << (FIRST_PINNED + 2),
        Kind::Reserved => 1 << (FIRST_PINNED + 3),
        Kind::Offline => 1 << (FIRST_PINNED + 4),
        Kind::Compound => 1 << (FIRST_PINNED + 5),
        Kind::Kernel => 1 << (FIRST_PINNED + 6),
        Kind::Poisoned => 1 << (FIRST_PINNED + 7),
        Kind::Pinned => 1 << (FIRST_PINNED + 8),
    }
}

/// A class of pages that blocks windows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Holder {
    /// The class.
    pub kind: Kind,
    /// Its frames in the zone.
    pub frames: u64,
    /// The windows in which it is.
    pub blocks: u64,
    /// The windows in which all other frames are free or movable.
    pub alone: u64,
}

/// A number that the input gives as an interval only.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Between {
    /// If all frames without flags are pages of the kernel.
    pub least: u64,
    /// If the frames on the CPUs' lists stand where they block the most, and the lists are drained.
    pub most: u64,
}

/// The windows of one order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OrderWindows {
    /// The order.
    pub order: u32,
    /// All windows.
    pub windows: u64,
    /// Those whose frames are all free.
    pub free: u64,
    /// Those whose frames are all free or movable. These include the free ones.
    pub open: u64,
    /// Those whose frames are all free, movable or free on the CPUs' lists, at least one of these.
    pub drainable: u64,
    /// Those in which only frames without flags stand in the way, counted by the number of these frames.
    pub unsure: BTreeMap<u32, u64>,
    /// Those that contain a pinned frame.
    pub blocked: u64,
    /// The pinned classes, the worst first: alone in most windows, then in most windows.
    pub holders: Vec<Holder>,
    /// The free frames of the zone.
    free_frames: u64,
    /// The frames of the page cache that can be dropped.
    cache_frames: u64,
    /// The frames that are known to be on the CPUs' lists.
    listed: u64,
    /// The frames on the CPUs' lists, without those that are known.
    on_lists: u64,
}

impl OrderWindows {
    /// Returns the number of blocks that are free after all movable pages have been moved as well as possible.
    ///
    /// The pages need room: all blocks together cannot contain more frames than are free in the zone now, without the
    /// `kept` frames that the kernel never gives away (its watermark). Pages are assumed not to be pinned, and to fit
    /// into any free frame of the zone.
    #[must_use]
    pub fn by_moving(&self, kept: u64) -> Between {
        self.with_room(self.free_frames, kept)
    }

    /// Returns the same if the page cache is dropped first: it makes room.
    #[must_use]
    pub fn by_dropping(&self, kept: u64) -> Between {
        self.with_room(self.free_frames + self.cache_frames, kept)
    }

    /// Returns the number of windows in which only frames without flags stand in the way.
    #[must_use]
    pub fn unsure_windows(&self) -> u64 {
        self.unsure.values().sum()
    }

    /// Returns the number of unsure windows that open if as many frames as are on the CPUs' lists become free: those
    /// that need the fewest first.
    #[must_use]
    pub fn perhaps(&self) -> u64 {
        let mut left = self.on_lists;
        let mut opened = 0;
        for (frames, windows) in &self.unsure {
            let enough = (left / u64::from(*frames).max(1)).min(*windows);
            opened += enough;
            left -= enough * u64::from(*frames);
            if enough < *windows {
                break;
            }
        }
        opened
    }

    fn with_room(&self, room: u64, kept: u64) -> Between {
        let blocks = |room: u64| room.saturating_sub(kept) >> self.order;
        let unknown: u64 = self
            .unsure
            .iter()
            .map(|(n, windows)| u64::from(*n) * windows)
            .sum();
        let drained = self.on_lists.min(unknown);
        // Requests for large blocks drain the lists first.
        let (open, room) = (self.open + self.drainable, room + self.listed);
        Between {
            least: open.min(blocks(room)),
            most: (open + self.perhaps()).min(blocks(room + drained)),
        }
    }
}

/// The windows of one zone, for all orders.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ZoneWindows {
    /// One element per order, from 0 on.
    pub orders: Vec<OrderWindows>,
}

impl ZoneWindows {
    /// Counts the windows of a zone up to an order.
    #[must_use]
    pub fn of(zone: &ZoneFrames, largest_order: u32) -> Self {
        let mut tallies: Vec<Tally> = (0..=largest_order).map(|_| Tally::default()).collect();
        // The chunks of the zone, then each level above.
        let mut level = chunks(zone, &mut tallies);
        for order in CHUNK_ORDER..=largest_order {
            if order > CHUNK_ORDER {
                level = halve(&level);
            }
            tallies[order as usize].add_all(&level);
        }
        let orders = tallies
            .into_iter()
            .zip(0..)
            .map(|(tally, order)| tally.windows(order, zone));
        Self {
            orders: orders.collect(),
        }
    }

    /// Returns the number of free blocks of each order, as the buddy allocator stores them: each free run in as large
    /// blocks as its alignment permits, up to `largest` (the last column of `/proc/buddyinfo`).
    #[must_use]
    pub fn free_blocks(&self, largest: u32) -> Vec<u64> {
        let free = |order: u32| {
            self.orders
                .get(order as usize)
                .map_or(0, |windows| windows.free)
        };
        // Each free window of the next order contains two of this order.
        let below = (0..largest).map(|order| free(order) - 2 * free(order + 1));
        below.chain([free(largest)]).collect()
    }
}

/// What a window contains.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    set: u16,
    /// The frames without flags.
    unknown: u32,
}

impl Summary {
    fn absent() -> Self {
        Self {
            set: ABSENT,
            unknown: 0,
        }
    }

    fn of(kind: Kind) -> Self {
        Self {
            set: set_of(kind),
            unknown: u32::from(kind == Kind::Unknown),
        }
    }

    fn join(self, other: Self) -> Self {
        Self {
            set: self.set | other.set,
            unknown: self.unknown + other.unknown,
        }
    }
}

/// Returns the windows of the next order, from those of this one; an odd last one has no buddy inside of the zone.
fn halve(level: &[Summary]) -> Vec<Summary> {
    level
        .chunks_exact(2)
        .map(|pair| pair[0].join(pair[1]))
        .collect()
}

/// Counts the windows below the chunks' order, and returns a summary per chunk. The first chunk begins at a multiple
/// of the largest window below the zone's first frame, so that the levels above are aligned.
fn chunks(zone: &ZoneFrames, tallies: &mut [Tally]) -> Vec<Summary> {
    let largest = tallies.len().saturating_sub(1) as u32;
    let align = 1u64 << largest.max(CHUNK_ORDER);
    let lead = (zone.start() % align) as usize;
    let mut level = vec![Summary::absent(); lead / CHUNK];
    let mut rest = zone.kinds.as_slice();
    let mut skipped = lead % CHUNK;
    let mut buffer = [Summary::default(); CHUNK];
    while !rest.is_empty() {
        let (now, later) = rest.split_at((CHUNK - skipped).min(rest.len()));
        rest = later;
        let first = now[0];
        if now.len() == CHUNK && first != Kind::Unknown && now.iter().all(|kind| *kind == first) {
            let summary = Summary::of(first);
            for (tally, order) in tallies.iter_mut().zip(0..CHUNK_ORDER) {
                tally.add(summary, (CHUNK >> order) as u64);
            }
            level.push(summary);
            continue;
        }
        buffer.fill(Summary::absent());
        for (summary, kind) in buffer[skipped..].iter_mut().zip(now) {
            *summary = Summary::of(*kind);
        }
        skipped = 0;
        let mut length = CHUNK;
        for order in 0..CHUNK_ORDER as usize {
            if let Some(tally) = tallies.get_mut(order) {
                tally.add_all(&buffer[..length]);
            }
            length /= 2;
            for at in 0..length {
                buffer[at] = buffer[2 * at].join(buffer[2 * at + 1]);
            }
        }
        level.push(buffer[0]);
    }
    level
}

/// The windows of an order, by the set of classes that they contain.
struct Tally {
    sets: Vec<u64>,
    unsure: BTreeMap<u32, u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            sets: vec![0; SETS],
            unsure: BTreeMap::new(),
        }
    }
}

impl Tally {
    fn add(&mut self, window: Summary, times: u64) {
        self.sets[usize::from(window.set)] += times;
        if window.set & UNKNOWN != 0 && window.set & !(FREE | MOVABLE | ON_LIST | UNKNOWN) == 0 {
            *self.unsure.entry(window.unknown).or_default() += times;
        }
    }

    fn add_all(&mut self, windows: &[Summary]) {
        for window in windows {
            self.add(*window, 1);
        }
    }

    fn windows(self, order: u32, zone: &ZoneFrames) -> OrderWindows {
        let mut holders = PINNED.map(|kind| Holder {
            kind,
            frames: zone.count(kind),
            blocks: 0,
            alone: 0,
        });
        let (mut windows, mut open, mut drainable, mut blocked) = (0, 0, 0, 0);
        for (set, count) in self.sets.iter().enumerate() {
            let set = set as u16;
            if *count == 0 || set & ABSENT != 0 {
                continue;
            }
            windows += count;
            let pinned = set >> FIRST_PINNED;
            if set & !(FREE | MOVABLE) == 0 {
                open += count;
            } else if set & !(FREE | MOVABLE | ON_LIST) == 0 {
                drainable += count;
            }
            blocked += if pinned != 0 { *count } else { 0 };
            for (at, holder) in holders.iter_mut().enumerate() {
                holder.blocks += if pinned >> at & 1 == 1 { *count } else { 0 };
                holder.alone += if pinned == 1 << at && set & (UNKNOWN | ON_LIST) == 0 {
                    *count
                } else {
                    0
                };
            }
        }
        let mut holders: Vec<Holder> = holders
            .into_iter()
            .filter(|holder| holder.blocks > 0)
            .collect();
        holders
            .sort_by_key(|holder| std::cmp::Reverse((holder.alone, holder.blocks, holder.frames)));
        OrderWindows {
            order,
            windows,
            free: self.sets[usize::from(FREE)],
            open,
            drainable,
            unsure: self.unsure,
            blocked,
            holders,
            free_frames: zone.count(Kind::Free),
            cache_frames: zone.count(Kind::Cache),
            listed: zone.count(Kind::OnList),
            on_lists: zone.on_lists.saturating_sub(zone.count(Kind::OnList)),
        }
    }
}
