//! Contenders checked against a shadow of memory.
//!
//! A fast allocator that hands out a frame twice is useless. Every allocation and free flips the bits of its frames
//! in a shadow; a bit in the wrong state is an error.
//!
//! # Invariants
//! The shadow changes before a block is freed and after it was allocated, so that a bit never belongs to two threads.

use std::sync::atomic::{AtomicU64, Ordering};

use everybuddy::Order;

use super::contender::{Caller, Contender};
use super::perform::{Tools, Work, Worker};
use crate::replay::adapter::REFUSED;

/// One bit per frame, set while the frame is allocated.
pub(crate) struct Shadow {
    words: Vec<AtomicU64>,
    frames: u32,
    faults: AtomicU64,
    checked: AtomicU64,
}

impl Shadow {
    /// Creates the shadow of free memory.
    pub(crate) fn new(frames: u32) -> Shadow {
        Shadow {
            words: (0..frames.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            frames,
            faults: AtomicU64::new(0),
            checked: AtomicU64::new(0),
        }
    }

    /// Returns the number of allocations and frees of blocks in the wrong state, and the total.
    pub(crate) fn faults(&self) -> (u64, u64) {
        (
            self.faults.load(Ordering::Relaxed),
            self.checked.load(Ordering::Relaxed),
        )
    }

    fn flip(&self, place: u32, order: Order, set: bool) {
        let frames = order.frames();
        self.checked.fetch_add(1, Ordering::Relaxed);
        let is_within = place
            .checked_add(frames)
            .is_some_and(|end| end <= self.frames);
        if !is_within || !place.is_multiple_of(frames) {
            self.faults.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut at = place;
        let mut is_right = true;
        while at < place + frames {
            let end = (place + frames).min((at | 63) + 1);
            let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
            let word = &self.words[at as usize / 64];
            is_right &= if set {
                word.fetch_or(mask, Ordering::Relaxed) & mask == 0
            } else {
                word.fetch_and(!mask, Ordering::Relaxed) & mask == mask
            };
            at = end;
        }
        if !is_right {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A contender with a shadow.
pub(crate) struct Checked<'c> {
    pub(crate) inner: &'c dyn Contender,
    pub(crate) shadow: &'c Shadow,
}

/// A thread's access to a contender with a shadow.
pub(crate) struct CheckedCaller<'c> {
    inner: Box<dyn Caller + 'c>,
    shadow: &'c Shadow,
}

impl Checked<'_> {
    fn local(&self, thread: u16) -> Option<CheckedCaller<'_>> {
        Some(CheckedCaller {
            inner: self.inner.caller(thread)?,
            shadow: self.shadow,
        })
    }
}

impl Contender for Checked<'_> {
    fn caller(&self, thread: u16) -> Option<Box<dyn Caller + '_>> {
        Some(Box::new(self.local(thread)?))
    }

    fn worker<'c>(
        &'c self,
        thread: u16,
        slots: u32,
        tools: Tools<'c>,
    ) -> Option<Box<dyn Work + 'c>> {
        Some(Worker::boxed(self.local(thread)?, slots, tools))
    }

    fn max_order(&self) -> Order {
        self.inner.max_order()
    }

    fn metadata_bytes(&self) -> Option<usize> {
        self.inner.metadata_bytes()
    }
}

impl Caller for CheckedCaller<'_> {
    fn allocate(&mut self, order: Order) -> u32 {
        let place = self.inner.allocate(order);
        if place != REFUSED {
            self.shadow.flip(place, order, true);
        }
        place
    }

    fn free(&mut self, place: u32, order: Order) {
        self.shadow.flip(place, order, false);
        self.inner.free(place, order);
    }

    fn park(&mut self) {
        self.inner.park();
    }

    fn finish(self: Box<Self>) -> u64 {
        self.inner.finish()
    }
}
