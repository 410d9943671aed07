//! Answers: which blocks a zone has, and which requests may use them.
//!
//! The kernel counts free blocks by their own order. Users need the number of blocks of a size,
//! those inside larger blocks included, and only those that their request may use.
//!
//! # Invariants
//! A [`Range`] contains the true number. Its upper end is `None` if the input bounds it only from below.

use crate::frames::OrderWindows;
use crate::frames::windows::Between;
use crate::request::Request;
use crate::state::{Blocks, Count, MigrateType, State, Types, Zone, ZoneKind};

/// The size of the largest blocks that are answered for.
pub const LARGEST: u64 = 1 << 30;

/// A number that is known only within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// At least this many.
    pub low: u64,
    /// At most this many.
    pub high: Option<u64>,
}

impl Range {
    fn between(low: u64, high: Option<u64>) -> Range {
        Range { low, high }
    }

    /// An exact number.
    #[must_use]
    pub fn exact(value: u64) -> Range {
        Range::between(value, Some(value))
    }

    /// Returns the number if it is exact.
    #[must_use]
    pub fn value(self) -> Option<u64> {
        (self.high == Some(self.low)).then_some(self.low)
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Range) -> Range {
        Range {
            low: self.low.saturating_add(other.low),
            high: self
                .high
                .zip(other.high)
                .map(|(one, other)| one.saturating_add(other)),
        }
    }

    /// Returns the range, but at most a limit.
    #[must_use]
    pub fn at_most(self, limit: u64) -> Range {
        Range::between(
            self.low.min(limit),
            Some(self.high.map_or(limit, |high| high.min(limit))),
        )
    }

    /// Returns the range without a part of it that is known within bounds.
    #[must_use]
    pub fn without(self, part: Range) -> Range {
        Range::between(
            part.high.map_or(0, |high| self.low.saturating_sub(high)),
            self.high.map(|high| high.saturating_sub(part.low)),
        )
    }

    /// Returns the range, whose ends are at least those of another one.
    fn at_least(self, other: Range) -> Range {
        Range::between(
            self.low.max(other.low),
            self.high.zip(other.high).map(|(one, other)| one.max(other)),
        )
    }

    fn times(self, factor: u64) -> Range {
        Range::between(
            self.low.saturating_mul(factor),
            self.high.map(|high| high.saturating_mul(factor)),
        )
    }
}

impl From<Count> for Range {
    fn from(count: Count) -> Range {
        Range::between(count.value, (!count.at_least).then_some(count.value))
    }
}

/// The blocks of one order. All numbers are blocks of this order, parts of larger blocks included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The order.
    pub order: u32,
    /// The size in bytes.
    pub bytes: u64,
    /// Free now.
    pub free: Range,
    /// Of those: free and usable by an ordinary request. Without the zone's watermark and reserve, none is certain.
    pub usable: Range,
    /// Of those: blocks of classes that serve only some requests.
    pub special: Vec<(MigrateType, Range)>,
    /// Of those: blocks that the zone's watermark and its reserve withhold. `None` if they are unknown.
    pub withheld: Option<u64>,
    /// Usable after pages have been moved, the usable ones included. `None` if the input cannot tell. The upper end
    /// needs the lists of the CPUs to be drained.
    pub moving: Option<Range>,
    /// The same after the page cache has been dropped as well.
    pub dropping: Option<Range>,
    /// Blocks that contain a page that can be neither moved nor dropped.
    pub never: Option<u64>,
    /// Blocks of this order in the zone. `None` if the input cannot tell.
    pub total: Option<u64>,
}

/// The answers for one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneAnswer {
    /// A row for each order up to [`LARGEST`].
    pub rows: Vec<Row>,
    /// Whether the input names the classes of free blocks. Otherwise all count as usable.
    pub knows_types: bool,
    /// Whether the zone serves only movable memory or a device.
    pub is_restricted: bool,
    /// The frames that an ordinary request may take before the watermark stops it.
    pub above_watermark: Option<u64>,
    /// The frames that the zone keeps from the request because a higher zone could serve it.
    pub reserve: Option<u64>,
}

impl ZoneAnswer {
    /// Returns `true` if any block is available, now or by any means.
    #[must_use]
    pub fn is_obtainable(&self) -> bool {
        let most = |row: &Row| {
            row.usable
                .high
                .max(row.dropping.and_then(|range| range.high))
        };
        self.rows.iter().any(|row| most(row) != Some(0))
    }
}

/// Returns `true` if a zone serves only some requests.
#[must_use]
pub fn is_restricted(zone: &Zone) -> bool {
    zone.kind() > Some(ZoneKind::Normal)
}

/// Computes the answers for a zone. A zone without a table has none.
#[must_use]
pub fn of_zone(state: &State, zone: &Zone, request: Request) -> Option<ZoneAnswer> {
    let blocks = zone.blocks.as_deref().unwrap_or_default();
    let windows = zone.windows.as_ref().map(|windows| &windows.orders);
    if blocks.is_empty() && windows.is_none() {
        return None;
    }
    let has_no_special = zone.free_cma == Some(0)
        && (zone.free_high_atomic == Some(0) || zone.reserved_high_atomic == Some(0));
    let used: Vec<&Blocks> = blocks
        .iter()
        .filter(|blocks| blocks.count.value > 0)
        .collect();
    let are_named = used.iter().all(|blocks| blocks.types != Types::Unknown);
    let knows_types = has_no_special || !blocks.is_empty() && are_named;
    let special = special_types(blocks, request);
    let special_at = |order: u32, name: &MigrateType| {
        let range = at_order(blocks, order, |blocks| of_type(blocks, name));
        bounded(zone, name, order, range)
    };
    let frames = special.iter().map(|name| special_at(0, name));
    let special_frames = frames.fold(Range::exact(0), Range::plus);
    let restricted = !request.may_use(zone);
    let reserve = request.reserve(state, zone);
    let kept = kept(zone, special_frames, reserve, request);
    let free_frames = match windows.and_then(|orders| orders.first()) {
        Some(frames) => Some(frames.free),
        // Both are of different moments: what either one refuses is not certain.
        None => zone.free_frames().into_iter().chain(zone.free).min(),
    };
    let above_watermark = free_frames
        .zip(kept)
        .map(|(free, kept)| free.saturating_sub(kept));
    let cma = zone.free_cma.filter(|_| !request.is_movable).unwrap_or(0);
    let hidden_frames =
        (!knows_types).then(|| cma.saturating_add(zone.free_high_atomic.unwrap_or(0)));
    let mut rows = Vec::new();
    for order in 0..40u32 {
        let Some(bytes) = state
            .frame
            .bytes
            .checked_shl(order)
            .filter(|bytes| *bytes <= LARGEST)
        else {
            break;
        };
        let counted = windows.and_then(|orders| orders.get(order as usize));
        let listed = at_order(blocks, order, |blocks| blocks.count.into());
        let free = counted.map_or(listed, |windows| Range::exact(windows.free));
        let kinds = special
            .iter()
            .map(|name| (name.clone(), special_at(order, name)));
        let kinds: Vec<(MigrateType, Range)> =
            kinds.filter(|(_, range)| range.high != Some(0)).collect();
        let special = kinds
            .iter()
            .map(|(_, range)| *range)
            .fold(Range::exact(0), Range::plus);
        let mut general = free.without(special);
        // With frames, the table is of another moment.
        if counted.is_none() {
            let listed = at_order(blocks, order, |blocks| self::general(blocks, request));
            general.high = listed.high.into_iter().chain(general.high).min();
            let most = general.high.unwrap_or(u64::MAX);
            general.low = general.low.max(listed.low).min(most);
        }
        // These frames are free, but the table does not show in which blocks.
        let hidden = hidden_frames.map_or(0, |frames| frames >> order);
        let general = Range {
            low: general.low.saturating_sub(hidden),
            ..general
        };
        let general = if restricted { Range::exact(0) } else { general };
        let limit = above_watermark.map(|frames| frames >> order);
        let usable = match limit {
            Some(limit) => general.at_most(limit),
            None => Range { low: 0, ..general },
        };
        let withheld = limit.map(|limit| general.low.saturating_sub(limit));
        let total = counted
            .map(|windows| windows.windows)
            .or(zone.extent.managed.map(|frames| frames >> order));
        let after = |between: fn(&OrderWindows, u64) -> Between| {
            let between = between(counted?, kept.unwrap_or(0));
            let range = Range::between(between.least, Some(between.most)).without(special);
            Some(match () {
                () if restricted => Range::exact(0),
                // The input does not show which blocks are those of CMA, and kernel memory cannot use them.
                () if cma > 0 => Range {
                    low: usable.low,
                    ..range.at_least(usable)
                },
                () => range.at_least(usable),
            })
        };
        rows.push(Row {
            order,
            bytes,
            free,
            usable,
            special: kinds,
            withheld,
            moving: after(OrderWindows::by_moving),
            dropping: after(OrderWindows::by_dropping),
            never: counted.map(|windows| windows.blocked),
            total,
        });
    }
    Some(ZoneAnswer {
        rows,
        knows_types,
        is_restricted: is_restricted(zone),
        above_watermark,
        reserve,
    })
}

/// Returns the number of blocks of an order, parts of larger ones included.
///
/// Above the largest order of the kernel only neighbours form a block, and the table does not show which blocks are
/// neighbours.
fn at_order(blocks: &[Blocks], order: u32, of: impl Fn(&Blocks) -> Range) -> Range {
    let order = order as usize;
    let Some(top) = blocks.len().checked_sub(1) else {
        return Range::exact(0);
    };
    if order > top {
        let high = of(&blocks[top]).high.map(|high| high >> (order - top));
        return Range { low: 0, high };
    }
    let parts = blocks[order..].iter().enumerate();
    parts
        .map(|(above, blocks)| of(blocks).times(1 << above))
        .fold(Range::exact(0), Range::plus)
}

/// The classes in a table that do not serve a request.
fn special_types(blocks: &[Blocks], request: Request) -> Vec<MigrateType> {
    let mut names: Vec<MigrateType> = Vec::new();
    for blocks in blocks {
        match &blocks.types {
            Types::Unknown => {}
            Types::Present(types) => names.extend(types.iter().cloned()),
            Types::Counts(types) => {
                let used = types.iter().filter(|(_, count)| count.value > 0);
                names.extend(used.map(|(name, _)| name.clone()));
            }
        }
    }
    names.retain(|name| !request.may_use_class(name));
    names.sort();
    names.dedup();
    names
}

/// Returns the number of blocks of a class within the bounds of the zone's counters, which are exact for frames.
fn bounded(zone: &Zone, name: &MigrateType, order: u32, range: Range) -> Range {
    let exact = match name {
        MigrateType::HighAtomic => zone.free_high_atomic,
        MigrateType::Cma => zone.free_cma,
        _ => None,
    };
    let reserved = zone.reserved_high_atomic;
    let reserved = reserved.filter(|_| *name == MigrateType::HighAtomic);
    let Some(frames) = exact.or(reserved) else {
        return range;
    };
    // The table is of another moment.
    let high = (frames >> order).min(range.high.unwrap_or(u64::MAX));
    let high = high.max(range.low);
    let is_exact = order == 0 && exact == Some(high);
    Range::between(if is_exact { high } else { range.low }, Some(high))
}

/// Returns the number of blocks of one class.
fn of_type(blocks: &Blocks, name: &MigrateType) -> Range {
    let count = Range::from(blocks.count);
    match &blocks.types {
        Types::Unknown => Range::exact(0),
        Types::Counts(types) => {
            let own = types.iter().filter(|(other, _)| other == name);
            own.map(|(_, count)| Range::from(*count))
                .fold(Range::exact(0), Range::plus)
        }
        Types::Present(types) if !types.contains(name) => Range::exact(0),
        Types::Present(types) => {
            let others = types.len() as u64 - 1;
            let low = if others == 0 { count.low } else { 1 };
            Range {
                low,
                high: count.high.map(|high| high.saturating_sub(others)),
            }
        }
    }
}

/// Returns the number of blocks that serve a request.
#[must_use]
pub fn general(blocks: &Blocks, request: Request) -> Range {
    let count = Range::from(blocks.count);
    match &blocks.types {
        Types::Unknown => count,
        Types::Counts(types) => {
            let other = types
                .iter()
                .filter(|(name, _)| !request.may_use_class(name));
            let other = other.fold(Count::default(), |sum, (_, count)| sum.plus(*count));
            let low = if other.at_least {
                0
            } else {
                count.low.saturating_sub(other.value)
            };
            Range {
                low,
                high: count.high.map(|high| high.saturating_sub(other.value)),
            }
        }
        Types::Present(types) => {
            let own = types
                .iter()
                .filter(|name| request.may_use_class(name))
                .count() as u64;
            let other = types.len() as u64 - own;
            match (own, other) {
                (_, 0) => count,
                (0, _) => Range::exact(0),
                _ => Range::between(own, count.high.map(|high| high.saturating_sub(other))),
            }
        }
    }
}

/// Returns the number of free frames that a request must leave: the zone's watermark, its reserve for requests that
/// could use a higher zone, and classes that do not serve it.
fn kept(zone: &Zone, special: Range, reserve: Option<u64>, request: Request) -> Option<u64> {
    // The reserve for urgent requests counts as taken, even where parts of it are in use.
    let urgent = zone.free_high_atomic.or(zone.reserved_high_atomic);
    let urgent = urgent.filter(|_| !request.is_high_atomic).unwrap_or(0);
    let cma = zone.free_cma.filter(|_| !request.is_movable).unwrap_or(0);
    let special = special.low.max(urgent.saturating_add(cma));
    let watermark = request.watermark(zone.min?);
    Some(watermark.saturating_add(reserve?).saturating_add(special))
}
