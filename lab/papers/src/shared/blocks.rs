//! The blocks of a trace, while its steps are performed one by one.
//!
//! A method that looks at a system between the calls of a trace performs them itself.
//!
//! # Invariants
//! Only what was allocated is freed.

use everybuddy::{Block, FrameAllocator, Index, Order, Platform, Release, Request};
use everybuddy_measure::Error;
use everybuddy_trace::{Resolved, Step, StepKind};

/// The starts of the blocks that are allocated.
pub(crate) struct Blocks(Vec<Option<Index>>);

impl Blocks {
    /// No block of a trace is allocated.
    pub(crate) fn of(resolved: &Resolved) -> Blocks {
        Blocks(vec![None; resolved.blocks as usize])
    }

    /// Performs a step. Returns 0 for an allocation and 1 for a free; `None` if the request failed or there is nothing
    /// to free.
    ///
    /// # Errors
    /// Returns the problem with a free.
    pub(crate) fn perform<P: Platform>(
        &mut self,
        system: &(impl FrameAllocator<P> + ?Sized),
        cpu: &mut P::Cpu,
        step: &Step,
    ) -> Result<Option<usize>, Error> {
        let known = Order::new(step.order).zip(self.0.get_mut(step.block as usize));
        let Some((order, start)) = known else {
            return Ok(None);
        };
        if step.kind == StepKind::Allocate {
            *start = system.allocate(cpu, Request::order(order)).ok();
            return Ok(start.map(|_| 0));
        }
        let Some(head) = *start else {
            return Ok(None);
        };
        let at = Index(head.0 + step.offset());
        let release = match step.kind {
            StepKind::Free => Release::block(Block::new(at, order)),
            _ => Release::frames(at, order.frames()),
        };
        let freed = system.free(cpu, release);
        freed.map_err(|error| Error::Broken(format!("a release: {error}")))?;
        Ok(Some(1))
    }
}
