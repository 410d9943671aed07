//! Matches every free with its allocation, and prepares a trace for replay.
//!
//! An allocator under test hands out its own frames, so a replay identifies blocks by number, never by recorded
//! frames. Hints (task, region, pages left) are looked up here once, so that the replay loop only reads them.
//!
//! # Invariants
//! Step `i` is event `i` of the trace. Blocks are numbered from 0 by order of allocation, so each allocating step has
//! the next number.

use std::path::Path;

use crate::check::{Broken, Ledger};
use crate::error::TraceError;
use crate::model::{Context, Op, Trace};

/// A trace ready for replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// One step per event, in the same order.
    pub steps: Vec<Step>,
    /// The number of blocks, that is, of allocations.
    pub blocks: u32,
    /// The maximum number of frames in use.
    pub peak_frames: u64,
    /// The maximum number of blocks with at least one frame in use.
    pub peak_blocks: u32,
    /// The number of frames in use after the last step.
    pub final_frames: u64,
    /// The number of blocks with at least one frame in use after the last step.
    pub final_blocks: u32,
    /// The largest order of an allocation.
    pub largest_order: u8,
    /// The highest CPU number, plus one.
    pub cpus: u32,
}

/// One call to replay: 32 bytes with everything that a replay loop needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Nanoseconds since the recording started.
    pub time_ns: u64,
    /// The number of the block; below [`Resolved::blocks`].
    pub block: u32,
    /// The calling thread.
    pub task: u32,
    /// The address region of the block: [`RegionId::get`](crate::RegionId::get), or 0 if unknown. A free has the
    /// region of its allocation.
    pub region: u32,
    /// The number of pages from the faulting page to the end of that region, including that page; 0 if unknown. A
    /// free has the value of its allocation.
    pub left: u32,
    /// For frees the offset, for allocations the mobility and the context: see [`offset`](Self::offset),
    /// [`migratetype`](Self::migratetype) and [`context`](Self::context).
    pub operand: u32,
    /// CPU on which the call ran.
    pub cpu: u16,
    /// The order that is allocated or freed; less than the block's order if a part is freed.
    pub order: u8,
    /// The kind of the step.
    pub kind: StepKind,
}

/// The effect of a step on its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StepKind {
    /// Allocates the block.
    Allocate,
    /// Frees the whole block in one step.
    Free,
    /// Frees a part of the block; some frames stay in use.
    FreePart,
    /// Frees the last part of the block.
    FreeLastPart,
}

impl StepKind {
    /// Returns `true` if the step allocates.
    pub const fn is_allocation(self) -> bool {
        matches!(self, StepKind::Allocate)
    }

    /// Returns `true` if the step frees all frames of its block.
    pub const fn is_whole_free(self) -> bool {
        matches!(self, StepKind::Free)
    }

    /// Returns `true` if no frame of the block is in use after the step.
    pub const fn is_last_free(self) -> bool {
        matches!(self, StepKind::Free | StepKind::FreeLastPart)
    }
}

impl Step {
    /// Returns the first frame that is freed, relative to the block; 0 for allocations.
    pub const fn offset(&self) -> u32 {
        match self.kind {
            StepKind::Allocate => 0,
            _ => self.operand,
        }
    }

    /// Returns the mobility of the block that is allocated, [`Event::migratetype`](crate::Event::migratetype); -1 for
    /// frees.
    pub const fn migratetype(&self) -> i8 {
        match self.kind {
            StepKind::Allocate => self.operand as i8,
            _ => -1,
        }
    }

    /// Returns the activity of the thread that allocates; unknown for frees.
    pub fn context(&self) -> Context {
        match self.kind {
            StepKind::Allocate => Context::from_value((self.operand >> 8) as u8),
            _ => Context::Unknown,
        }
    }

    /// Returns the number of frames that are allocated or freed.
    pub const fn frames(&self) -> u64 {
        1 << self.order
    }
}

/// Matches every free of a trace with its allocation.
///
/// # Complexity
///
/// Linear in the number of events: about 50 ns and 32 bytes each.
///
/// # Errors
///
/// Returns the first event that breaks a rule, like strict reading; the file of the error is the trace's name. Never
/// fails for a trace from [`read`](crate::read()).
pub fn resolve(trace: &Trace) -> Result<Resolved, TraceError> {
    let broken =
        |(row, problem): Broken| TraceError::new(Path::new(&trace.name), Some(row as u64), problem);
    let mut ledger = Ledger::new(&trace.events).map_err(broken)?;
    let mut resolved = Resolved::default();
    let mut frames = 0u64;
    let mut blocks = 0u32;
    let mut faults = trace.faults.iter().peekable();

    resolved.steps.reserve_exact(trace.events.len());
    for (row, event) in trace.events.iter().enumerate() {
        let applied = ledger
            .apply(row, event)
            .map_err(|problem| broken((row, problem)))?;
        let mut left = 0;
        while let Some(fault) = faults.next_if(|fault| fault.row as usize <= row) {
            if fault.row as usize == row {
                let region = fault.region.and_then(|id| trace.region(id));
                left = region.map_or(0, |region| region.pages_left(fault.vpn));
            }
        }
        let mut region = event.region.map_or(0, |id| id.get());
        let kind = match (event.op, applied.whole, applied.last) {
            (Op::Allocate, ..) => StepKind::Allocate,
            (Op::Free, true, _) => StepKind::Free,
            (Op::Free, false, true) => StepKind::FreeLastPart,
            (Op::Free, false, false) => StepKind::FreePart,
        };
        if kind.is_allocation() {
            frames += event.frames();
            blocks += 1;
            resolved.blocks += 1;
            resolved.largest_order = resolved.largest_order.max(event.order);
        } else {
            frames -= event.frames();
            blocks -= u32::from(applied.last);
            let allocation = ledger.blocks()[applied.block as usize].row as usize;
            Step { region, left, .. } = resolved.steps[allocation];
        }
        resolved.peak_frames = resolved.peak_frames.max(frames);
        resolved.peak_blocks = resolved.peak_blocks.max(blocks);
        resolved.cpus = resolved.cpus.max(u32::from(event.cpu) + 1);
        resolved.steps.push(Step {
            time_ns: event.time_ns,
            block: applied.block,
            task: event.pid,
            region,
            left,
            operand: if kind.is_allocation() {
                u32::from(event.migratetype as u8) | u32::from(event.context) << 8
            } else {
                applied.offset
            },
            cpu: event.cpu,
            order: event.order,
            kind,
        });
    }
    resolved.final_frames = frames;
    resolved.final_blocks = blocks;
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Event;

    #[test]
    fn two_steps_share_a_cache_line() {
        assert_eq!(size_of::<Step>(), 32);
    }

    #[test]
    fn a_step_says_what_its_call_says() {
        let mut trace = Trace::default();
        for (at, migratetype) in (0..).zip([0i8, 1, 2, -1]) {
            let mut event = Event::new(at, 0, 1, Op::Allocate, at * 8, 3);
            event.migratetype = migratetype;
            event.context = at as u8;
            trace.events.push(event);
        }
        trace.events.push(Event::new(9, 0, 1, Op::Free, 12, 2));
        let resolved = resolve(&trace).unwrap();
        let said: Vec<_> = resolved
            .steps
            .iter()
            .map(|step| (step.offset(), step.migratetype(), step.context()))
            .collect();
        use Context::{KernelFault, SystemCall, Unknown, UserFault};
        let expected = [
            (0, 0, Unknown),
            (0, 1, UserFault),
            (0, 2, SystemCall),
            (0, -1, KernelFault),
            (4, -1, Unknown),
        ];
        assert_eq!(said, expected);
    }
}
