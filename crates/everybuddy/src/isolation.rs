//! A range that will be removed: what is free of it is reserved, one run after the other.
//!
//! # Invariants
//! A call that fails has reserved nothing.

use crate::error::{AllocateError, RegionError};
use crate::frame::Index;
use crate::region::{FrameRange, Span};
use crate::snapshot::FrameState;

/// An isolation: what it asks of the system.
pub(crate) struct Isolation<'s> {
    pub(crate) span: &'s Span,
    pub(crate) state: &'s dyn Fn(Index) -> Option<FrameState>,
    pub(crate) reserve: &'s mut dyn FnMut(FrameRange) -> Result<(), RegionError>,
}

/// Returns the outcome of emptying the lists, which comes first, as that of an operation on a range.
pub(crate) fn settled(quiesced: Result<(), AllocateError>) -> Result<(), RegionError> {
    quiesced.map_err(|error| match error {
        AllocateError::NoSuchCpu => RegionError::NoSuchCpu,
        _ => RegionError::Busy,
    })
}

impl Isolation<'_> {
    /// Reserves what is free of a range, and returns how many frames of it are neither reserved nor holes then.
    pub(crate) fn run(self, range: FrameRange) -> Result<u64, RegionError> {
        let (start, frames) = self.span.relative(range)?;
        let (mut at, end) = (start.0, start.0 + frames);
        let is_free = |at: &u32| matches!((self.state)(Index(*at)), Some(FrameState::Free { .. }));
        let is_left = |at: &u32| {
            let state = (self.state)(Index(*at));
            !matches!(state, Some(FrameState::Hole | FrameState::Reserved))
        };
        let (mut left, mut has_reserved) = (0, false);
        while at < end {
            let run = (at..end).take_while(is_free).count() as u32;
            let free = FrameRange::new(self.span.physical(Index(at)), run.into());
            let reserved = match run {
                0 => Err(RegionError::NotFree(free.start)),
                _ => (self.reserve)(free),
            };
            match reserved {
                Ok(()) => {
                    at += run;
                    has_reserved = true;
                }
                // If the run was free, another CPU allocated a frame of it meanwhile. The next turn finds the others.
                Err(RegionError::NotFree(_)) => {
                    left += u64::from(is_left(&at));
                    at += 1;
                }
                // Another CPU did not answer. What was reserved stays so, so this is not an error.
                Err(_) if has_reserved => {
                    return Ok(left + (at..end).filter(is_left).count() as u64);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Order, Pfn};
    use std::cell::RefCell;

    /// Isolates 16 frames, of which the fourth is allocated. The first `answers` attempts to reserve succeed.
    fn isolate(answers: usize) -> (Result<u64, RegionError>, std::vec::Vec<FrameState>) {
        let range = FrameRange::new(Pfn(0), 16);
        let span = Span::joining([range].into_iter(), Order::TEN).unwrap();
        let free = FrameState::Free { head: Index(0) };
        let states = RefCell::new(std::vec![free; 16]);
        states.borrow_mut()[3] = FrameState::Allocated {
            head: Index(3),
            order: Order::ZERO,
        };
        let mut attempts = 0;
        let result = Isolation {
            span: &span,
            state: &|index| states.borrow().get(index.0 as usize).copied(),
            reserve: &mut |range| {
                attempts += 1;
                if attempts > answers {
                    return Err(RegionError::Busy);
                }
                let (start, frames) = span.relative(range)?;
                for at in start.0..start.0 + frames {
                    states.borrow_mut()[at as usize] = FrameState::Reserved;
                }
                Ok(())
            },
        }
        .run(range);
        (result, states.into_inner())
    }

    #[test]
    fn a_call_that_has_reserved_a_run_does_not_fail() {
        let reserved = |states: &[FrameState]| {
            let reserved = states
                .iter()
                .filter(|state| **state == FrameState::Reserved);
            reserved.count()
        };
        let (result, states) = isolate(0);
        assert_eq!((result, reserved(&states)), (Err(RegionError::Busy), 0));
        let (result, states) = isolate(1);
        assert_eq!((result, reserved(&states)), (Ok(13), 3));
        let (result, states) = isolate(2);
        assert_eq!((result, reserved(&states)), (Ok(1), 15));
    }
}
