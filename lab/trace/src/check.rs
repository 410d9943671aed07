//! The rules of a trace, one event at a time.
//!
//! Reading, repairing and resolving share one definition of "this trace replays by itself". A [`Ledger`] follows the
//! events and knows every block. It rejects the first event that breaks a rule, without changing its state, so that a
//! repair can continue from there.
//!
//! # Invariants
//! A block's count of live frames equals the number of frames that the map records as live for it.

use crate::error::Problem;
use crate::live::{FrameMap, Owner};
use crate::model::{Event, LARGEST_ORDER, Op};

/// The largest span of frames of a trace. A frame number relative to the lowest must fit into 32 bits, with room for
/// holes and alignment.
pub const LARGEST_SPAN: u64 = (1 << 32) - (1 << 24);

/// The maximum number of events: blocks are numbered with 31 bits.
const MOST_EVENTS: usize = (1 << 31) - 2;

/// A broken rule: the row of the event and the problem.
pub type Broken = (usize, Problem);

/// The effect of an event on its block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    /// The number of the block, by order of allocation.
    pub(crate) block: u32,
    /// The first frame of the event, relative to its block.
    pub(crate) offset: u32,
    /// Whether the event covers all frames of the block.
    pub(crate) whole: bool,
    /// Whether no frame of the block is live after the event.
    pub(crate) last: bool,
}

/// A block that a trace allocated.
pub(crate) struct Block {
    /// The row of the allocation.
    pub(crate) row: u32,
    /// The row of the last free, if any.
    freed: u32,
    /// Frames not yet freed.
    live: u32,
    /// Order of the allocation.
    order: u8,
}

/// Follows the events of a trace and knows every block.
pub(crate) struct Ledger {
    frames: FrameMap,
    blocks: Vec<Block>,
    time_ns: u64,
}

impl Ledger {
    /// Creates a ledger for events whose frames are in the span of `events`.
    pub(crate) fn new(events: &[Event]) -> Result<Ledger, Broken> {
        let mut span = Span::default();
        for (row, event) in events.iter().enumerate() {
            span.add(row, event.pfn, event.order);
        }
        Ledger::in_span(events.len(), &span)
    }

    /// Creates a ledger for a number of events whose frames are in `span`.
    pub(crate) fn in_span(events: usize, span: &Span) -> Result<Ledger, Broken> {
        if events > MOST_EVENTS {
            return Err((MOST_EVENTS, Problem::TooManyRows));
        }
        let (first, last) = span.frames()?;
        Ok(Ledger {
            frames: FrameMap::new(first, last),
            blocks: Vec::new(),
            time_ns: 0,
        })
    }

    /// Returns every block so far.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Applies one event, in `row`, or returns the rule that it breaks.
    pub(crate) fn apply(&mut self, row: usize, event: &Event) -> Result<Applied, Problem> {
        check_shape(event)?;
        if event.time_ns < self.time_ns {
            let (time_ns, before_ns) = (event.time_ns, self.time_ns);
            return Err(Problem::TimeRunsBack { time_ns, before_ns });
        }
        let applied = match event.op {
            Op::Allocate => self.allocate(row, event)?,
            Op::Free => self.free(row, event)?,
        };
        self.time_ns = event.time_ns;
        Ok(applied)
    }

    fn allocate(&mut self, row: usize, event: &Event) -> Result<Applied, Problem> {
        if let Some((pfn, block)) = self.find_live(event.pfn, last_frame(event.pfn, event.order)) {
            let earlier = u64::from(self.blocks[block as usize].row);
            return Err(Problem::DoubleAllocation { pfn, earlier });
        }
        let block = self.blocks.len() as u32;
        self.frames.set(event.pfn, event.order, Owner::Live(block));
        let (row, live, order) = (row as u32, 1 << event.order, event.order);
        self.blocks.push(Block {
            row,
            freed: 0,
            live,
            order,
        });
        Ok(Applied {
            block,
            offset: 0,
            whole: true,
            last: false,
        })
    }

    fn free(&mut self, row: usize, event: &Event) -> Result<Applied, Problem> {
        let pfn = event.pfn;
        let number = match self.frames.get(pfn) {
            Owner::Live(number) => number,
            Owner::Dead(number) => return Err(self.double_free(pfn, number)),
            Owner::Nobody => return Err(Problem::FreeWithoutAllocation { pfn }),
        };
        let block = &self.blocks[number as usize];
        let (order, block_order) = (event.order, block.order);
        if order > block_order {
            let allocated = u64::from(block.row);
            return Err(Problem::FreeLargerThanBlock {
                pfn,
                order,
                block_order,
                allocated,
            });
        }
        // Both are aligned, so the range is inside the block. Parts of it may have been freed.
        let foreign = |owner| owner != Owner::Live(number);
        if let Some((dead, _)) = self.frames.find(pfn, last_frame(pfn, order), foreign) {
            return Err(self.double_free(dead, number));
        }
        self.frames.set(pfn, order, Owner::Dead(number));
        let block = &mut self.blocks[number as usize];
        block.live -= 1 << order;
        block.freed = row as u32;
        let offset = (pfn & ((1 << block_order) - 1)) as u32;
        let (whole, last) = (order == block_order, block.live == 0);
        Ok(Applied {
            block: number,
            offset,
            whole,
            last,
        })
    }

    /// Returns the live rest of the block that contains the live frame `pfn`, as the largest possible aligned blocks,
    /// each with its first frame and order.
    pub(crate) fn live_pieces(&self, pfn: u64) -> Vec<(u64, u8)> {
        let mut pieces = Vec::new();
        if let Owner::Live(number) = self.frames.get(pfn) {
            let order = self.blocks[number as usize].order;
            self.collect_pieces(pfn >> order << order, order, number, &mut pieces);
        }
        pieces
    }

    /// Finds the first live frame at or after `first` inside the block of `event`.
    pub(crate) fn next_live(&self, first: u64, event: &Event) -> Option<u64> {
        Some(self.find_live(first, last_frame(event.pfn, event.order))?.0)
    }

    /// Finds the first live frame from `first` to `last`, and the number of its block.
    fn find_live(&self, first: u64, last: u64) -> Option<(u64, u32)> {
        match self
            .frames
            .find(first, last, |owner| matches!(owner, Owner::Live(_)))
        {
            Some((pfn, Owner::Live(block))) => Some((pfn, block)),
            _ => None,
        }
    }

    fn collect_pieces(&self, pfn: u64, order: u8, block: u32, pieces: &mut Vec<(u64, u8)>) {
        let foreign = |owner| owner != Owner::Live(block);
        if self
            .frames
            .find(pfn, last_frame(pfn, order), foreign)
            .is_none()
        {
            pieces.push((pfn, order));
        } else if order > 0 {
            self.collect_pieces(pfn, order - 1, block, pieces);
            self.collect_pieces(pfn + (1 << (order - 1)), order - 1, block, pieces);
        }
    }

    fn double_free(&self, pfn: u64, number: u32) -> Problem {
        let block = &self.blocks[number as usize];
        let (allocated, freed) = (u64::from(block.row), u64::from(block.freed));
        Problem::DoubleFree {
            pfn,
            allocated,
            freed,
        }
    }
}

/// Returns the last frame of an aligned block. An aligned block never exceeds the last frame number.
fn last_frame(pfn: u64, order: u8) -> u64 {
    pfn + ((1 << order) - 1)
}

/// Checks an event by itself: a known order, and a frame aligned to it.
pub(crate) fn check_shape(event: &Event) -> Result<(), Problem> {
    let (pfn, order) = (event.pfn, event.order);
    if order > LARGEST_ORDER {
        return Err(Problem::UnknownOrder(order));
    }
    if pfn & ((1 << order) - 1) != 0 {
        return Err(Problem::Misaligned { pfn, order });
    }
    Ok(())
}

/// The lowest and the highest frame of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The first frame of the first event.
    begin: Option<u64>,
    /// Each with its row.
    low: (u64, usize),
    high: (u64, usize),
}

impl Default for Span {
    fn default() -> Span {
        Span {
            begin: None,
            low: (u64::MAX, 0),
            high: (0, 0),
        }
    }
}

impl Span {
    /// Includes the frames of an event.
    pub(crate) fn add(&mut self, row: usize, pfn: u64, order: u8) {
        // Rows with other errors are rejected later, each by itself, and must not overflow here.
        let frames = 1u64 << order.min(LARGEST_ORDER);
        self.begin.get_or_insert(pfn);
        self.low = self.low.min((pfn, row));
        self.high = self.high.max((pfn.saturating_add(frames - 1), row));
    }

    /// Returns the lowest and the highest frame, or the row that is too far from the others.
    pub(crate) fn frames(&self) -> Result<(u64, u64), Broken> {
        let (first, last) = (self.low.0.min(self.high.0), self.high.0);
        if last - first >= LARGEST_SPAN {
            // The outlier is the frame farther from the start of the trace.
            let begin = self.begin.unwrap_or(first);
            let row = if begin - first > last.saturating_sub(begin) {
                self.low.1
            } else {
                self.high.1
            };
            return Err((row, Problem::Span { first, last }));
        }
        Ok((first, last))
    }
}

/// Checks all rules. Returns, for each event, the row that allocated its block.
///
/// # Complexity
///
/// Linear in the number of events and of lower tables that the blocks cover.
pub(crate) fn check(events: &[Event]) -> Result<Vec<u32>, Broken> {
    let mut ledger = Ledger::new(events)?;
    let mut allocations = Vec::with_capacity(events.len());
    for (row, event) in events.iter().enumerate() {
        let applied = ledger.apply(row, event).map_err(|problem| (row, problem))?;
        allocations.push(ledger.blocks()[applied.block as usize].row);
    }
    Ok(allocations)
}
