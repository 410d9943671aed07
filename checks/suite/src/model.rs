//! A plain model: the set of free frames, and the definition of a buddy.
//!
//! It says which requests *can* be served: one of order j exactly when some aligned run of 2^j frames is wholly free. A
//! system that coalesces immediately, and looks into all lists before it fails, serves exactly these.

use alloc::vec;
use alloc::vec::Vec;

use everybuddy::{FrameRange, Index, Order, Place, Span};

/// Which frames are free.
pub struct Model {
    free: Vec<bool>,
}

impl Model {
    /// Creates the model of memory that is all free.
    ///
    /// # Panics
    /// If a range lies outside the span.
    pub fn new(span: &Span, ranges: &[FrameRange]) -> Self {
        let mut free = vec![false; span.frames() as usize];
        for range in ranges {
            let (start, frames) = span.relative(*range).unwrap();
            free[start.as_usize()..][..frames as usize].fill(true);
        }
        Self { free }
    }

    /// Returns `true` if a request of this order can be served.
    pub fn can_serve(&self, order: Order) -> bool {
        self.free
            .chunks_exact(order.frames() as usize)
            .any(|block| block.iter().all(|free| *free))
    }

    /// Returns `true` if a request for `frames` frames can be served in a place, from a block that is wholly free.
    pub fn can_serve_in(&self, span: &Span, frames: u32, place: &Place) -> bool {
        let block = frames.next_power_of_two();
        let mut starts = (0..span.frames()).step_by(block as usize);
        starts.any(|start| {
            place.holds(span.physical(Index(start)), frames)
                && (start..start + block).all(|frame| self.is_free(Index(frame)))
        })
    }

    /// Returns `true` if this frame is free.
    pub fn is_free(&self, frame: Index) -> bool {
        self.free.get(frame.as_usize()).is_some_and(|free| *free)
    }

    /// Notes that frames were allocated.
    ///
    /// # Panics
    /// If any of them is not free.
    pub fn take(&mut self, start: Index, frames: u32) {
        for free in &mut self.free[start.as_usize()..][..frames as usize] {
            assert!(
                core::mem::replace(free, false),
                "a frame was given that is not free"
            );
        }
    }

    /// Notes that frames were freed.
    ///
    /// # Panics
    /// If any of them is free already.
    pub fn give(&mut self, start: Index, frames: u32) {
        for free in &mut self.free[start.as_usize()..][..frames as usize] {
            assert!(!core::mem::replace(free, true), "a free frame was freed");
        }
    }

    /// Returns the number of free frames.
    pub fn free_frames(&self) -> u64 {
        self.free.iter().filter(|free| **free).count() as u64
    }

    /// The blocks of a standard buddy in which these frames are free, by order.
    pub fn coalesced(&self, max_order: Order) -> Vec<u32> {
        let mut left = self.free.clone();
        let mut blocks = vec![0; max_order.index() + 1];
        for order in Order::up_to(max_order).rev() {
            for block in left.chunks_exact_mut(order.frames() as usize) {
                if block.iter().all(|free| *free) {
                    block.fill(false);
                    blocks[order.index()] += 1;
                }
            }
        }
        blocks
    }
}
