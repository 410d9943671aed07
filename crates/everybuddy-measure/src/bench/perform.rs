//! The loops: performs the pieces of a program on a contender, with a timestamp every few hundred calls.
//!
//! Exists once for all contenders, and is compiled for each: around a call there is an index, a store and
//! a count, nothing else.
//!
//! Invariant: between two timestamps nothing is allocated, printed or dispatched.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use everybuddy::platform::Waiting;
use everybuddy::{Order, Size};
use everybuddy_workload::{Body, Step};

use super::contender::Caller;
use crate::replay::clock::Timer;
use crate::replay::host::Yielding;
use crate::replay::port::REFUSED;

/// Items between two timestamps: enough to make a timestamp cheap, few enough to see where threads overlap.
const CHUNK: usize = 512;

/// What is in a slot of the belt while nothing is.
const VACANT: u32 = u32::MAX;
/// What is handed over for a block that was refused.
const NOTHING: u32 = u32::MAX - 1;

/// Slots of a belt: a few lists full.
const BELT: usize = 1024;

/// What carries blocks from one thread to the next.
pub(crate) struct Belt(Vec<AtomicU32>);

impl Belt {
    /// Makes an empty belt.
    pub(crate) fn new() -> Belt {
        Belt((0..BELT).map(|_| AtomicU32::new(VACANT)).collect())
    }
}

/// When things happened in a section: each timestamp with the items done since the one before.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// Ticks and items.
    pub(crate) marks: Vec<(u64, u32)>,
}

/// What the loops need beside a contender.
#[derive(Clone, Copy)]
pub struct Tools<'w> {
    pub(crate) timer: &'w Timer,
    pub(crate) belt: &'w Belt,
}

/// A thread at work on any contender: a call for each piece of a program.
pub trait Work {
    /// Performs a piece; a section that can end anywhere ends after `budget` ticks.
    fn perform(&mut self, body: &Body, budget: u64) -> Stamps;

    /// Returns requests and refusals since the last call.
    fn take_counts(&mut self) -> (u64, u64);

    /// Frees everything.
    fn clear(&mut self);

    /// Returns how many blocks of an order can be had now, and gives them back.
    fn harvest(&mut self, order: Order) -> u64;

    /// As [`Caller::park`].
    fn park(&mut self);

    /// As [`Caller::watch`].
    fn watch(&mut self, counts: bool);

    /// As [`Caller::leave`].
    fn leave(self: Box<Self>) -> u64;
}

/// A thread at work.
// Two threads' workers never share a line, wherever they are allocated.
#[repr(align(128))]
pub(crate) struct Worker<'w, L> {
    /// The thread's access to the contender.
    local: L,
    /// What each slot holds: order and place, or [`EMPTY`].
    held: Vec<u64>,
    timer: &'w Timer,
    /// Ticks after which a section that can be ended anywhere ends.
    budget: u64,
    stamps: Stamps,
    belt: &'w Belt,
    /// The next slot of the belt.
    at: usize,
    /// Requests, and those that were refused, since they were last asked for.
    requests: u64,
    refused: u64,
}

/// An empty slot.
const EMPTY: u64 = u64::MAX;

#[inline(always)]
fn pack(place: u32, order: Order) -> u64 {
    u64::from(order.get()) << 32 | u64::from(place)
}

#[inline(always)]
fn unpack(held: u64) -> (u32, Order) {
    let order = Order::new((held >> 32) as u8).unwrap_or(Order::ZERO);
    (held as u32, order)
}

impl<'w, L: Caller> Worker<'w, L> {
    /// Makes a thread ready with so many empty slots.
    pub(crate) fn boxed(
        local: L,
        slots: u32,
        Tools { timer, belt }: Tools<'w>,
    ) -> Box<dyn Work + 'w>
    where
        L: 'w,
    {
        Box::new(Self {
            local,
            held: vec![EMPTY; slots as usize],
            timer,
            budget: u64::MAX,
            stamps: Stamps::default(),
            belt,
            at: 0,
            requests: 0,
            refused: 0,
        })
    }

    #[inline(always)]
    fn mark(&mut self, items: usize) {
        let now = self.timer.now();
        self.stamps.marks.push((now, items as u32));
    }

    fn is_over(&self) -> bool {
        match (self.stamps.marks.first(), self.stamps.marks.last()) {
            (Some(first), Some(last)) => last.0.saturating_sub(first.0) > self.budget,
            _ => false,
        }
    }

    #[inline(always)]
    fn fill(&mut self, slot: usize, order: Order) {
        self.requests += 1;
        let place = self.local.allocate(order);
        self.held[slot] = if place == REFUSED {
            self.refused += 1;
            EMPTY
        } else {
            pack(place, order)
        };
    }

    #[inline(always)]
    fn empty(&mut self, slot: usize) {
        let held = std::mem::replace(&mut self.held[slot], EMPTY);
        if held != EMPTY {
            let (place, order) = unpack(held);
            self.local.free(place, order);
        }
    }

    fn allocate(&mut self, order: Order, slots: std::ops::Range<usize>) {
        for start in slots.clone().step_by(CHUNK) {
            let end = (start + CHUNK).min(slots.end);
            // A constant order is what a caller of single frames writes.
            if order == Order::ZERO {
                (start..end).for_each(|slot| self.fill(slot, Order::ZERO));
            } else {
                (start..end).for_each(|slot| self.fill(slot, order));
            }
            self.mark(end - start);
        }
    }

    fn free(&mut self, slots: &[u32]) {
        for chunk in slots.chunks(CHUNK) {
            for slot in chunk {
                self.empty(*slot as usize);
            }
            self.mark(chunk.len());
        }
    }

    fn pairs(&mut self, order: Order, count: u32) {
        #[inline(always)]
        fn some<L: Caller>(local: &mut L, order: Order, pairs: usize) -> u64 {
            let mut refused = 0;
            for _ in 0..pairs {
                let place = local.allocate(order);
                // Or a compiler could remove pairs that leave no trace. The place itself stays in a
                // register, as with any caller: on its way through memory it would lose nanoseconds.
                black_box(&mut *local);
                if place == REFUSED {
                    refused += 1;
                } else {
                    local.free(place, order);
                }
            }
            refused
        }
        let mut left = count as usize;
        while left > 0 && !self.is_over() {
            let pairs = left.min(CHUNK);
            self.refused += match order {
                Order::ZERO => some(&mut self.local, Order::ZERO, pairs),
                order => some(&mut self.local, order, pairs),
            };
            self.requests += pairs as u64;
            self.mark(pairs);
            left -= pairs;
        }
    }

    fn batches(&mut self, order: Order, slots: std::ops::Range<usize>, count: u32) {
        // Several short batches share a timestamp.
        let together = (CHUNK / slots.len().max(1)).max(1);
        let mut done = 0;
        while done < count as usize && !self.is_over() {
            let batches = together.min(count as usize - done);
            for _ in 0..batches {
                slots.clone().for_each(|slot| self.fill(slot, order));
                slots.clone().for_each(|slot| self.empty(slot));
            }
            self.mark(batches * slots.len());
            done += batches;
        }
    }

    fn replace(&mut self, entries: &[(u32, Order)]) {
        for chunk in entries.chunks(CHUNK) {
            if self.is_over() {
                return;
            }
            for (slot, order) in chunk {
                self.empty(*slot as usize);
                self.fill(*slot as usize, *order);
            }
            self.mark(chunk.len());
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for chunk in steps.chunks(CHUNK) {
            for step in chunk {
                match *step {
                    Step::Allocate { slot, size } => {
                        let order = match size {
                            Size::Order(order) => order,
                            Size::Frames(frames) => {
                                Order::covering(frames.0).unwrap_or(Order::ZERO)
                            }
                        };
                        self.fill(slot as usize, order);
                    }
                    Step::Free { slot } => self.empty(slot as usize),
                    Step::Hand { slot } => {
                        let held = std::mem::replace(&mut self.held[slot as usize], EMPTY);
                        self.pass(held as u32);
                    }
                    // The order is known to the loops of whole sections only.
                    Step::Receive { slot } => {
                        let place = self.get();
                        self.held[slot as usize] = match place {
                            NOTHING => EMPTY,
                            place => pack(place, Order::ZERO),
                        };
                    }
                }
            }
            self.mark(chunk.len());
        }
    }

    fn hand(&mut self, order: Order, count: u32) {
        for start in (0..count as usize).step_by(CHUNK) {
            let blocks = CHUNK.min(count as usize - start);
            for _ in 0..blocks {
                self.requests += 1;
                let place = self.local.allocate(order);
                self.refused += u64::from(place == REFUSED);
                self.pass(if place == REFUSED { NOTHING } else { place });
            }
            self.mark(blocks);
        }
    }

    fn receive(&mut self, order: Order, count: u32) {
        for start in (0..count as usize).step_by(CHUNK) {
            let blocks = CHUNK.min(count as usize - start);
            for _ in 0..blocks {
                let place = self.get();
                if place != NOTHING {
                    self.local.free(place, order);
                }
            }
            self.mark(blocks);
        }
    }

    /// Puts a block onto the belt.
    #[inline(always)]
    fn pass(&mut self, place: u32) {
        let slot = &self.belt.0[self.at % BELT];
        self.at += 1;
        let mut attempt = 0;
        // Acquire: pairs with the release in `get`: the receiver has read what was there.
        while slot.load(Ordering::Acquire) != VACANT {
            wait(&mut self.local, &mut attempt);
        }
        // Release: pairs with the acquire in `get`: what this thread did to the block comes first.
        slot.store(place, Ordering::Release);
    }

    /// Takes a block from the belt.
    #[inline(always)]
    fn get(&mut self) -> u32 {
        let slot = &self.belt.0[self.at % BELT];
        self.at += 1;
        let mut attempt = 0;
        loop {
            // Acquire: pairs with the release in `pass`: what the sender did to the block is seen.
            match slot.load(Ordering::Acquire) {
                VACANT => wait(&mut self.local, &mut attempt),
                place => {
                    // Release: pairs with the acquire in `pass`: the slot is read before it is used again.
                    slot.store(VACANT, Ordering::Release);
                    return place;
                }
            }
        }
    }
}

impl<L: Caller> Work for Worker<'_, L> {
    fn perform(&mut self, body: &Body, budget: u64) -> Stamps {
        self.budget = budget;
        self.stamps.marks = Vec::with_capacity(body.operations() as usize / CHUNK + 2);
        self.mark(0);
        match body {
            Body::Allocate { order, slots } => {
                let slots = slots.start as usize..slots.end as usize;
                self.allocate(*order, slots);
            }
            Body::Free { slots } => self.free(slots),
            Body::Pairs { order, count, .. } => self.pairs(*order, *count),
            Body::Batches {
                order,
                slots,
                count,
            } => self.batches(*order, slots.start as usize..slots.end as usize, *count),
            Body::Replace { entries } => self.replace(entries),
            Body::Hand { order, count } => self.hand(*order, *count),
            Body::Receive { order, count } => self.receive(*order, *count),
            Body::Steps(steps) => self.steps(steps),
            Body::Arrange { slots } => {
                self.held[slots.start as usize..slots.end as usize].sort_unstable();
            }
        }
        std::mem::take(&mut self.stamps)
    }

    fn take_counts(&mut self) -> (u64, u64) {
        let counts = (self.requests, self.refused);
        (self.requests, self.refused) = (0, 0);
        counts
    }

    fn clear(&mut self) {
        for slot in 0..self.held.len() {
            self.empty(slot);
        }
    }

    fn harvest(&mut self, order: Order) -> u64 {
        let mut got = Vec::new();
        loop {
            match self.local.allocate(order) {
                REFUSED => break,
                place => got.push(place),
            }
        }
        for place in &got {
            self.local.free(*place, order);
        }
        got.len() as u64
    }

    fn park(&mut self) {
        self.local.park();
    }

    fn watch(&mut self, counts: bool) {
        self.local.watch(counts);
    }

    fn leave(self: Box<Self>) -> u64 {
        Box::new(self.local).leave()
    }
}

/// Waits a moment for the other thread; a thread that waits long lets others fetch what it keeps.
#[cold]
fn wait<L: Caller>(local: &mut L, attempt: &mut u32) {
    if *attempt == 64 {
        local.park();
    }
    Yielding::pause(*attempt);
    *attempt += 1;
}
