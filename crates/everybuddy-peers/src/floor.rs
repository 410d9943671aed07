//! The floor: arrays of frame numbers, private to a thread.
//!
//! Why it exists: it does the least that handing out frame numbers takes: a pop and a push. The distance of an
//! allocator from it is the price of all it does beyond.
//!
//! Each thread has one array an order, and a share of the frames, from which an empty array is served. A block
//! freed by another thread enters that thread's array. An array that is half a share long passes half of itself
//! through a locked pool, so that a thread that only allocates can live on what another only frees; nothing
//! else is shared.
//!
//! Invariant: a free block is in exactly one array, in the pool, or in the rest of one share.

use core::fmt;
use core::marker::PhantomData;

use everybuddy::{Block, Order, Pfn};
use spin::Mutex;

use crate::Peer;

const ORDERS: usize = Order::TEN.index() + 1;

/// The arrays of all threads.
pub(crate) struct Floor {
    threads: Vec<Mutex<Arrays>>,
    /// What arrays passed on, by order.
    pool: Mutex<[Vec<Vec<u32>>; ORDERS]>,
    bytes: usize,
}

/// What a thread holds.
#[derive(Default)]
pub(crate) struct Arrays {
    free: [Vec<u32>; ORDERS],
    /// The rest of its share: never handed out.
    next: u32,
    end: u32,
}

/// A thread's access: its arrays themselves, so that no operation looks them up. Dropping it returns them.
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

impl Peer for Floor {
    type Local<'p> = FloorLocal<'p>;

    fn new(frames: u32, threads: u16) -> Self {
        // Shares start aligned, so that any order can be cut from the front of one.
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

    fn local(&self, thread: u16) -> FloorLocal<'_> {
        let home = &self.threads[usize::from(thread)];
        let arrays = core::mem::take(&mut *home.lock());
        FloorLocal {
            home,
            arrays,
            not_send: PhantomData,
        }
    }

    #[inline]
    fn allocate(&self, local: &mut FloorLocal<'_>, order: Order) -> Option<Pfn> {
        match local.arrays.free.get_mut(order.index())?.pop() {
            Some(frame) => Some(Pfn(frame)),
            None => self.refill(&mut local.arrays, order),
        }
    }

    #[inline]
    fn free(&self, local: &mut FloorLocal<'_>, block: Block) {
        let Some(free) = local.arrays.free.get_mut(block.order.index()) else {
            return;
        };
        if free.len() == free.capacity() {
            self.pass_on(free, block.order);
        }
        free.push(block.start.0);
    }

    /// The arrays' capacities; what the pool holds comes on top.
    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.bytes)
    }
}

impl Floor {
    /// Serves a thread whose array is empty: from the rest of its share, else with what another passed on.
    #[cold]
    fn refill(&self, arrays: &mut Arrays, order: Order) -> Option<Pfn> {
        let start = arrays.next.next_multiple_of(order.frames());
        if let Some(end) = start
            .checked_add(order.frames())
            .filter(|end| *end <= arrays.end)
        {
            // What alignment skips isn't lost: it enters the arrays of smaller orders.
            for skipped in Block::cover(Pfn(arrays.next), start - arrays.next, Order::TEN) {
                arrays.free[skipped.order.index()].push(skipped.start.0);
            }
            arrays.next = end;
            return Some(Pfn(start));
        }
        let batch = self.pool.lock()[order.index()].pop()?;
        let free = &mut arrays.free[order.index()];
        free.extend_from_slice(&batch);
        free.pop().map(Pfn)
    }

    #[cold]
    fn pass_on(&self, free: &mut Vec<u32>, order: Order) {
        let batch = free.split_off(free.len() / 2);
        self.pool.lock()[order.index()].push(batch);
    }
}
