//! The floor: arrays of frame numbers, private to each thread.
//!
//! The floor does the least work that is needed to hand out frame numbers: a pop and a push. The difference between
//! an allocator and the floor is the cost of everything else that the allocator does.
//!
//! Each thread has one array per order, and a share of the frames that refills an empty array. A block that another
//! thread frees enters the freeing thread's array. When an array reaches half the length of a share, it passes half
//! of its blocks to a locked pool, so that a thread that only allocates can reuse what another thread only frees.
//! Nothing else is shared.
//!
//! # Invariants
//! A free block is in exactly one array, in the pool, or in the unused rest of one share.

use core::fmt;
use core::marker::PhantomData;

use everybuddy::{Block, Index, Order};
use spin::Mutex;

use crate::Peer;

const ORDERS: usize = Order::TEN.index() + 1;

/// The arrays of all threads.
pub(crate) struct Floor {
    threads: Vec<Mutex<Arrays>>,
    /// Blocks that arrays have passed on, by order.
    pool: Mutex<[Vec<Vec<u32>>; ORDERS]>,
    bytes: usize,
}

/// The state of one thread.
#[derive(Default)]
pub(crate) struct Arrays {
    free: [Vec<u32>; ORDERS],
    /// The first frame of the share that was never handed out.
    next: u32,
    end: u32,
}

/// A thread's handle. It owns the thread's arrays, so that no operation has to look them up. Dropping it returns them.
pub(crate) struct FloorLocal<'p> {
    home: &'p Mutex<Arrays>,
    arrays: Arrays,
    not_send: PhantomData<*const ()>,
}

impl fmt::Debug for FloorLocal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FloorLocal").finish_non_exhaustive()
    }
}

impl Drop for FloorLocal<'_> {
    fn drop(&mut self) {
        *self.home.lock() = core::mem::take(&mut self.arrays);
    }
}

impl Floor {
    /// Creates an allocator of `frames` free frames.
    pub(crate) fn new(frames: u32, threads: u16) -> Self {
        // Shares start aligned, so that a block of any order can be taken from the front of one.
        let share = frames
            .div_ceil(u32::from(threads))
            .next_multiple_of(Order::TEN.frames());
        let mut bytes = 0;
        let threads = (0..u32::from(threads))
            .map(|thread| {
                let capacity = |order: usize| ((share >> order) / 2).max(16) as usize;
                bytes += (0..ORDERS).map(|o| 4 * capacity(o)).sum::<usize>();
                Mutex::new(Arrays {
                    free: core::array::from_fn(|order| Vec::with_capacity(capacity(order))),
                    next: thread.saturating_mul(share).min(frames),
                    end: (thread + 1).saturating_mul(share).min(frames),
                })
            })
            .collect();
        Self {
            threads,
            pool: Mutex::new(core::array::from_fn(|_| Vec::new())),
            bytes,
        }
    }
}

impl Peer for Floor {
    type Local<'p> = FloorLocal<'p>;

    fn local(&self, thread: u16) -> FloorLocal<'_> {
        FloorLocal {
            home: &self.threads[usize::from(thread)],
            arrays: self.take_arrays(thread),
            not_send: PhantomData,
        }
    }

    #[inline]
    fn allocate(&self, local: &mut FloorLocal<'_>, order: Order) -> Option<Index> {
        self.pop(&mut local.arrays, order)
    }

    #[inline]
    fn free(&self, local: &mut FloorLocal<'_>, block: Block) {
        self.push(&mut local.arrays, block);
    }

    /// Returns the capacities of the arrays, without the blocks in the pool.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.bytes())
    }
}

impl Floor {
    /// Takes the arrays of a thread out of their home.
    pub(crate) fn take_arrays(&self, thread: u16) -> Arrays {
        core::mem::take(&mut *self.threads[usize::from(thread)].lock())
    }

    /// Allocates a block from a thread's arrays.
    #[inline]
    pub(crate) fn pop(&self, arrays: &mut Arrays, order: Order) -> Option<Index> {
        match arrays.free.get_mut(order.index())?.pop() {
            Some(frame) => Some(Index(frame)),
            None => self.refill(arrays, order),
        }
    }

    /// Frees a block into a thread's arrays.
    #[inline]
    pub(crate) fn push(&self, arrays: &mut Arrays, block: Block) {
        let Some(free) = arrays.free.get_mut(block.order.index()) else {
            return;
        };
        if free.len() == free.capacity() {
            self.pass_on(free, block.order);
        }
        free.push(block.start.0);
    }

    /// Returns the capacities of the arrays.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Refills an empty array, from the rest of the thread's share or otherwise from the pool.
    #[cold]
    fn refill(&self, arrays: &mut Arrays, order: Order) -> Option<Index> {
        let start = arrays.next.next_multiple_of(order.frames());
        if let Some(end) = start
            .checked_add(order.frames())
            .filter(|end| *end <= arrays.end)
        {
            // Frames that alignment skips are not lost: they enter the arrays of smaller orders.
            for skipped in Block::cover(Index(arrays.next), start - arrays.next, Order::TEN) {
                arrays.free[skipped.order.index()].push(skipped.start.0);
            }
            arrays.next = end;
            return Some(Index(start));
        }
        let batch = self.pool.lock()[order.index()].pop()?;
        let free = &mut arrays.free[order.index()];
        free.extend_from_slice(&batch);
        free.pop().map(Index)
    }

    #[cold]
    fn pass_on(&self, free: &mut Vec<u32>, order: Order) {
        let batch = free.split_off(free.len() / 2);
        self.pool.lock()[order.index()].push(batch);
    }
}
