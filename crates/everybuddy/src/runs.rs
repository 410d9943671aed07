//! Many frames in few runs.
//!
//! A buffer that a device reads by a table of runs, or a mapping of a process, need not be contiguous. It needs few
//! runs, because each costs an entry of the table.
//!
//! # Invariants
//! An allocation that fails frees what it had taken.

use crate::error::AllocateError;
use crate::frame::{Index, Order};
use crate::request::{Flags, Release, Request};

/// Frames that follow each other. An array of them can be shared with C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Run {
    /// The first frame.
    pub start: Index,
    /// The number of frames.
    pub frames: u32,
}

impl Run {
    /// Returns the release of all its frames.
    pub const fn release(self) -> Release {
        Release::frames(self.start, self.frames)
    }
}

/// A call of the system.
pub(crate) enum RunCall {
    Allocate(Request),
    Free(Run),
}

/// An allocation of runs: what it asks of the system.
pub(crate) struct Runs<'s> {
    pub(crate) max_order: Order,
    pub(crate) call: &'s mut dyn FnMut(RunCall) -> Result<Index, AllocateError>,
}

impl Runs<'_> {
    /// Allocates `frames` frames in as few runs as possible.
    pub(crate) fn allocate(
        mut self,
        frames: u32,
        least: Order,
        out: &mut [Run],
    ) -> Result<usize, AllocateError> {
        let mut taken = 0;
        let result = self.fill(frames, least, out, &mut taken);
        if result.is_err() {
            for run in out.iter().take(taken) {
                let _ = (self.call)(RunCall::Free(*run));
            }
        }
        result.map(|()| taken)
    }

    /// Fills `out` and counts what was allocated.
    fn fill(
        &mut self,
        frames: u32,
        least: Order,
        out: &mut [Run],
        taken: &mut usize,
    ) -> Result<(), AllocateError> {
        if frames == 0 {
            return Err(AllocateError::ZeroFrames);
        }
        if least > self.max_order {
            return Err(AllocateError::TooLarge {
                largest: self.max_order,
            });
        }
        let mut left = frames;
        // The largest order that has not failed yet. Larger orders are not tried again.
        let mut most = self.max_order;
        // What the failed requests mean together: if one may succeed later, so may all of them.
        let mut failure = AllocateError::Exhausted;
        loop {
            let place = out.get_mut(*taken).ok_or(failure)?;
            let most_frames = most.frames();
            // What is left, as one run; or the largest block that is not larger than what is left.
            let whole = left <= most_frames;
            let request = if whole {
                Request::frames(left)
            } else {
                Request::order(most)
            };
            // The call has waited for the other CPUs already. It does not wait again for each smaller block.
            let request = match failure {
                AllocateError::Busy => request.with_flags(Flags::NO_WAIT),
                _ => request,
            };
            let asked = if whole { left } else { most_frames };
            match (self.call)(RunCall::Allocate(request)) {
                Ok(start) => {
                    *place = Run {
                        start,
                        frames: asked,
                    };
                    *taken += 1;
                    left -= asked;
                    if left == 0 {
                        return Ok(());
                    }
                }
                Err(error @ (AllocateError::Exhausted | AllocateError::Busy)) => {
                    // Another CPU may have the block, and smaller ones may be free all the same.
                    if error == AllocateError::Busy {
                        failure = error;
                    }
                    // A run of this length needs a block of the order that covers it.
                    let failed = Order::covering(asked).unwrap_or(most).min(most);
                    if failed <= least {
                        return Err(failure);
                    }
                    most = failed.down();
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Allocates runs from a system that has `blocks[order]` free blocks of each order and never splits a block.
    fn allocate(
        blocks: &mut [u32],
        frames: u32,
        least: u8,
        room: usize,
    ) -> Result<Vec<u32>, AllocateError> {
        let before = blocks.to_vec();
        let mut out = std::vec![Run::default(); room];
        let largest = Order::new(blocks.len() as u8 - 1).unwrap();
        let order_of = |frames| Order::covering(frames).unwrap().index();
        let result = Runs {
            max_order: largest,
            call: &mut |call| match call {
                RunCall::Allocate(request) => {
                    let asked = request.size.extent().frames();
                    let found = (order_of(asked)..blocks.len()).find(|order| blocks[*order] > 0);
                    let found = found.ok_or(AllocateError::Exhausted)?;
                    blocks[found] -= 1;
                    Ok(Index(found as u32))
                }
                RunCall::Free(run) => {
                    blocks[run.start.as_usize()] += 1;
                    Ok(run.start)
                }
            },
        }
        .allocate(frames, Order::new(least).unwrap(), &mut out);
        if result.is_err() {
            assert_eq!(blocks, before, "all is free again");
        }
        result.map(|runs| out[..runs].iter().map(|run| run.frames).collect())
    }

    #[test]
    fn one_run_if_there_is_one_otherwise_the_largest_blocks_first() {
        for (mut blocks, frames, runs) in [
            ([0, 0, 0, 1], 7, &[7][..]),
            // 7 frames would need a block of 8.
            ([4, 2, 1, 0], 7, &[4, 2, 1]),
            ([9, 0, 1, 0], 7, &[4, 1, 1, 1]),
            // More than a largest block: two of them, and the rest in one run.
            ([0, 0, 0, 3], 21, &[8, 8, 5]),
        ] {
            assert_eq!(allocate(&mut blocks, frames, 0, 4), Ok(runs.to_vec()));
        }
    }

    /// Allocates 7 frames from a system in which blocks of more than `free` frames are busy, and others of less than
    /// `least` frames exhausted, in up to `places` runs. Checks that only one request that waits is busy.
    fn allocate_busy(free: u32, least: u32, places: usize) -> Result<Vec<u32>, AllocateError> {
        let mut out = [Run::default(); 9];
        let mut waits = 0;
        let result = Runs {
            max_order: Order::new(3).unwrap(),
            call: &mut |call| match call {
                RunCall::Allocate(request) => match request.size.extent().frames() {
                    frames if frames > free => {
                        waits += u32::from(!request.flags.contains(Flags::NO_WAIT));
                        Err(AllocateError::Busy)
                    }
                    frames if frames < least => Err(AllocateError::Exhausted),
                    _ => Ok(Index(0)),
                },
                RunCall::Free(run) => Ok(run.start),
            },
        }
        .allocate(7, Order::ZERO, &mut out[..places]);
        assert_eq!(waits, u32::from(free < 7), "{free} {least}");
        result.map(|runs| out[..runs].iter().map(|run| run.frames).collect())
    }

    #[test]
    fn smaller_blocks_serve_while_larger_ones_are_busy() {
        assert_eq!(allocate_busy(2, 1, 9), Ok(std::vec![2, 2, 2, 1]));
        assert_eq!(allocate_busy(0, 1, 9), Err(AllocateError::Busy));
        let error = Err(AllocateError::Busy);
        assert_eq!(
            allocate_busy(2, 2, 9),
            error,
            "the larger blocks may be free later"
        );
        assert_eq!(allocate_busy(2, 1, 3), error, "a larger block would fit");
        assert_eq!(allocate_busy(7, 8, 9), Err(AllocateError::Exhausted));
    }

    #[test]
    fn each_request_is_for_less_than_the_one_that_failed() {
        let mut asked = Vec::new();
        let result = Runs {
            max_order: Order::TEN,
            call: &mut |call| {
                if let RunCall::Allocate(request) = call {
                    asked.push(request.size.extent().frames());
                }
                Err(AllocateError::Exhausted)
            },
        }
        .allocate(21, Order::ZERO, &mut [Run::default()]);
        assert_eq!(result, Err(AllocateError::Exhausted));
        assert_eq!(asked, [21, 16, 8, 4, 2, 1]);
    }

    #[test]
    fn a_failed_allocation_changes_nothing() {
        for (mut blocks, (frames, least, places), why) in [
            ([9, 0, 1, 0], (7, 0, 3), "no room"),
            ([9, 0, 1, 0], (7, 1, 9), "pieces too small"),
            (
                [9, 9, 0, 0],
                (3, 2, 9),
                "the rest, too, is part of no smaller block",
            ),
            ([2, 0, 1, 0], (7, 0, 9), "memory"),
        ] {
            let refused = allocate(&mut blocks, frames, least, places);
            assert_eq!(refused, Err(AllocateError::Exhausted), "{why}");
        }
        let largest = Order::new(3).unwrap();
        let refused = allocate(&mut [0, 0, 0, 1], 7, 4, 9);
        assert_eq!(refused, Err(AllocateError::TooLarge { largest }));
    }
}
