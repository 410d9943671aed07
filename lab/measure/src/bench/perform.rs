//! The loops: run the sections of a program on a contender, with a timestamp every few hundred calls.
//!
//! The loops exist once for all contenders, and are compiled for each. A call is surrounded only by an index, a store
//! and a count.
//!
//! # Invariants
//! Between two timestamps nothing is allocated, printed or dispatched dynamically.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use everybuddy::platform::Waiting;
use everybuddy::{Order, Size};
use everybuddy_workload::{Body, READS, Step, Use, deal};

use super::caller::Caller;
use crate::refusals::ByOrder;
use crate::replay::adapter::REFUSED;
use crate::replay::clock::Timer;
use crate::replay::host::Yielding;
use crate::replay::placement::Frames;
use crate::touched::{self, Touched};

/// Items between two timestamps: enough to make a timestamp cheap, few enough to observe the overlap of threads.
const CHUNK: usize = 512;

/// The value of an empty slot of the belt.
const VACANT: u32 = u32::MAX;
/// The value that is passed on for a request that failed.
const NOTHING: u32 = u32::MAX - 1;

/// Slots of a belt: the contents of a few lists.
const BELT: usize = 1024;

/// The belt that passes blocks from one thread to the next.
pub(crate) struct Belt(Vec<AtomicU32>);

impl Belt {
    /// Creates an empty belt.
    pub(crate) fn new() -> Belt {
        Belt((0..BELT).map(|_| AtomicU32::new(VACANT)).collect())
    }
}

/// The pot from which blocks are dealt out to all threads.
pub(crate) type Pot = Mutex<Vec<u64>>;

/// The timestamps of a section, each with the number of items since the previous one.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// Ticks and numbers of items.
    pub(crate) marks: Vec<(u64, u32)>,
    /// The regions of 2 MiB that a working set spans, over the fewest.
    pub(crate) spread: Option<f64>,
}

/// The tools of the loops besides a contender.
#[derive(Clone, Copy)]
pub struct Tools<'w> {
    pub(crate) timer: &'w Timer,
    pub(crate) belt: &'w Belt,
    pub(crate) pot: &'w Pot,
    /// The memory behind the frames, if they are used.
    pub(crate) touched: Option<&'w Touched>,
}

/// A running thread on any contender, called once per section of a program.
pub trait Work {
    /// Runs a section; a section that can end anywhere ends after `budget` ticks.
    fn perform(&mut self, body: &Body, budget: u64) -> Stamps;

    /// Returns the number of requests, and those that failed, since the last call.
    fn take_counts(&mut self) -> (u64, ByOrder);

    /// Frees everything.
    fn clear(&mut self);

    /// Returns the number of blocks of an order that can be allocated now, and frees them again.
    fn count_large_blocks(&mut self, order: Order) -> u64;

    /// Allocates a single frame, and returns its place with the ticks of the call alone.
    fn allocate_apart(&mut self) -> (u32, u32);

    /// Frees a single frame, and returns the ticks of the call alone.
    fn free_apart(&mut self, place: u32) -> u32;

    /// Like [`Caller::park`].
    fn park(&mut self);

    /// Like [`Caller::watch`].
    fn watch(&mut self, counts: bool);

    /// Like [`Caller::finish`].
    fn finish(self: Box<Self>) -> u64;
}

/// A running thread.
// Workers of two threads never share a cache line, wherever they are allocated.
#[repr(align(128))]
pub(crate) struct Worker<'w, L> {
    /// The thread's access to the contender.
    local: L,
    /// The contents of each slot: order and place, or [`EMPTY`].
    held: Vec<u64>,
    timer: &'w Timer,
    /// Ticks after which a section that can end anywhere is ended.
    budget: u64,
    stamps: Stamps,
    belt: &'w Belt,
    pot: &'w Pot,
    touched: Option<&'w Touched>,
    /// Ticks that were spent on making caches cold: they belong to no section.
    swept: u64,
    /// The state of the random choices of what is read.
    choices: u64,
    /// The next slot of the belt.
    at: usize,
    /// The number of requests, and those that failed, since the last query.
    requests: u64,
    refused: ByOrder,
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
    /// Creates a thread with `slots` empty slots.
    pub(crate) fn boxed(
        local: L,
        slots: u32,
        Tools {
            timer,
            belt,
            pot,
            touched,
        }: Tools<'w>,
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
            pot,
            touched,
            swept: 0,
            choices: 1,
            at: 0,
            requests: 0,
            refused: ByOrder::default(),
        })
    }

    #[inline(always)]
    fn mark(&mut self, items: usize) {
        let now = self.timer.now() - self.swept;
        self.stamps.marks.push((now, items as u32));
    }

    fn is_over(&self) -> bool {
        match (self.stamps.marks.first(), self.stamps.marks.last()) {
            (Some(first), Some(last)) => last.0.saturating_sub(first.0) > self.budget,
            _ => false,
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, order: Order) {
        self.refused.add(order, 1);
    }

    #[inline(always)]
    fn fill(&mut self, slot: usize, order: Order) {
        self.requests += 1;
        let place = self.local.allocate(order);
        self.held[slot] = if place == REFUSED {
            self.refuse(order);
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
            // A caller that requests single frames uses a constant order.
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
                // Otherwise a compiler could remove pairs without an effect. The place itself stays in a register, as
                // in any caller: a round trip through memory would cost nanoseconds.
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
            let refused = match order {
                Order::ZERO => some(&mut self.local, Order::ZERO, pairs),
                order => some(&mut self.local, order, pairs),
            };
            self.refused.add(order, refused);
            self.requests += pairs as u64;
            self.mark(pairs);
            left -= pairs;
        }
    }

    fn batches(&mut self, order: Order, slots: std::ops::Range<usize>, count: u32) {
        // Several short batches share one timestamp.
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
                        self.fill(slot as usize, order_of(size));
                    }
                    Step::Free { slot } => self.empty(slot as usize),
                    Step::Hand { slot } => {
                        let held = std::mem::replace(&mut self.held[slot as usize], EMPTY);
                        self.pass(held as u32);
                    }
                    // Only the loops of whole sections know the order.
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

    fn touch(&mut self, steps: &[Step], used: Use, own: std::ops::Range<usize>) {
        for chunk in steps.chunks(CHUNK) {
            let mut frames = 0;
            for step in chunk {
                if self.touched.is_some_and(Touched::is_cold) {
                    self.sweep();
                }
                match *step {
                    Step::Allocate { slot, .. } => {
                        self.fill(slot as usize, Order::ZERO);
                        if let (Some(memory), false) = (self.touched, used == Use::Nothing) {
                            let held = self.held[slot as usize];
                            user(
                                memory,
                                held,
                                used,
                                &self.held[own.clone()],
                                &mut self.choices,
                            );
                        }
                        frames += 1;
                    }
                    Step::Free { slot } => self.empty(slot as usize),
                    Step::Hand { .. } | Step::Receive { .. } => {}
                }
            }
            self.mark(frames);
        }
    }

    /// Makes caches cold. The time of a section stands still meanwhile.
    #[cold]
    #[inline(never)]
    fn sweep(&mut self) {
        let start = self.timer.now();
        self.touched.iter().for_each(|memory| memory.sweep());
        // One reading of the clock is inside of the section.
        self.swept += self.timer.now() - start + self.timer.ticks(self.timer.mean());
    }

    fn hand(&mut self, order: Order, count: u32) {
        for start in (0..count as usize).step_by(CHUNK) {
            let blocks = CHUNK.min(count as usize - start);
            for _ in 0..blocks {
                self.requests += 1;
                let place = self.local.allocate(order);
                if place == REFUSED {
                    self.refuse(order);
                }
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

    /// Puts a block on the belt.
    #[inline(always)]
    fn pass(&mut self, place: u32) {
        let slot = &self.belt.0[self.at % BELT];
        self.at += 1;
        let mut attempt = 0;
        // Acquire: pairs with the release in `get`: the receiver has read the previous value.
        while slot.load(Ordering::Acquire) != VACANT {
            wait(&mut self.local, &mut attempt);
        }
        // Release: pairs with the acquire in `get`: this thread's accesses to the block come first.
        slot.store(place, Ordering::Release);
    }

    /// Takes a block from the belt.
    #[inline(always)]
    fn get(&mut self) -> u32 {
        let slot = &self.belt.0[self.at % BELT];
        self.at += 1;
        let mut attempt = 0;
        loop {
            // Acquire: pairs with the release in `pass`: the sender's accesses to the block are visible.
            match slot.load(Ordering::Acquire) {
                VACANT => wait(&mut self.local, &mut attempt),
                place => {
                    // Release: pairs with the acquire in `pass`: the slot is read before it is reused.
                    slot.store(VACANT, Ordering::Release);
                    return place;
                }
            }
        }
    }
}

/// Does with the frame in a slot what its user does. Compiled once, and called for each frame of every contender.
#[inline(never)]
fn user(memory: &Touched, held: u64, used: Use, own: &[u64], choices: &mut u64) {
    if held == EMPTY {
        return;
    }
    let (place, _) = unpack(held);
    match used {
        Use::Nothing => {}
        Use::Line => memory.write_line(place),
        Use::Zeroed => memory.zero(place),
        Use::Read => {
            memory.zero(place);
            let mut sum = 0;
            for _ in 0..READS {
                let (other, line) = chosen(choices, own.len(), sum);
                if own[other] != EMPTY {
                    sum = memory.read_line(unpack(own[other]).0, line);
                }
            }
            black_box(sum);
        }
    }
}

/// Chooses one of `all` and a line at random. Which one depends on what was read before, so that reads do not overlap.
#[inline(always)]
fn chosen(choices: &mut u64, all: usize, read: u64) -> (usize, u32) {
    // Knuth's generator for MMIX.
    let next = choices.wrapping_mul(6_364_136_223_846_793_005);
    *choices = next
        .wrapping_add(1_442_695_040_888_963_407)
        .wrapping_add(read & 1);
    let one = ((*choices >> 32) * all as u64) >> 32;
    (one as usize, (*choices >> 24) as u32 & 63)
}

/// Reads lines of these frames at random.
#[inline(never)]
fn scan(memory: &Touched, places: &[u32], count: u32, choices: &mut u64) {
    let mut sum = 0;
    for _ in 0..count {
        let (at, line) = chosen(choices, places.len(), sum);
        sum = memory.read_line(places[at], line);
    }
    black_box(sum);
}

/// Returns the regions of 2 MiB that these frames span, over the fewest that could hold them.
fn spread(places: &[u32]) -> f64 {
    let regions: BTreeSet<usize> = places
        .iter()
        .map(|own| *own as usize / Frames::REGION)
        .collect();
    regions.len() as f64 / places.len().div_ceil(Frames::REGION).max(1) as f64
}

/// Returns the requests of a section by order, as far as it was performed.
pub(crate) fn requests(body: &Body, stamps: &Stamps) -> ByOrder {
    let done: u64 = stamps.marks.iter().map(|mark| u64::from(mark.1)).sum();
    let mut requests = ByOrder::default();
    match body {
        Body::Allocate { order, .. }
        | Body::Pairs { order, .. }
        | Body::Batches { order, .. }
        | Body::Hand { order, .. } => requests.add(*order, done),
        Body::Replace { entries } => {
            let entries = entries.iter().take(done as usize);
            entries.for_each(|(_, order)| requests.add(*order, 1));
        }
        Body::Steps(steps) => {
            for step in steps {
                if let Step::Allocate { size, .. } = step {
                    requests.add(order_of(*size), 1);
                }
            }
        }
        Body::Touch { .. } => requests.add(Order::ZERO, done),
        Body::Free { .. }
        | Body::Scan { .. }
        | Body::Receive { .. }
        | Body::Arrange { .. }
        | Body::Give { .. }
        | Body::Take { .. } => {}
    }
    requests
}

/// Returns the order of the block that contains the requested frames.
#[inline(always)]
fn order_of(size: Size) -> Order {
    match size {
        Size::Order(order) => order,
        Size::Frames(frames) => Order::covering(frames.0).unwrap_or(Order::ZERO),
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
            Body::Touch { steps, used, own } => {
                self.touch(steps, *used, own.start as usize..own.end as usize);
            }
            Body::Scan { slots, count } => {
                let own = &self.held[slots.start as usize..slots.end as usize];
                let own = own.iter().filter(|held| **held != EMPTY);
                let places: Vec<u32> = own.map(|held| unpack(*held).0).collect();
                self.stamps.spread = (!places.is_empty()).then(|| spread(&places));
                if let (Some(memory), false) = (self.touched, places.is_empty()) {
                    self.stamps.marks.clear();
                    self.mark(0);
                    scan(memory, &places, *count, &mut self.choices);
                    self.mark(*count as usize);
                }
            }
            Body::Arrange { slots } => {
                self.held[slots.start as usize..slots.end as usize].sort_unstable();
            }
            Body::Give { slots } => {
                let own = &mut self.held[slots.start as usize..slots.end as usize];
                let own = own.iter_mut().map(|held| std::mem::replace(held, EMPTY));
                let mut pot = self.pot.lock().unwrap_or_else(PoisonError::into_inner);
                pot.extend(own.filter(|held| *held != EMPTY));
                // In a defined order, whichever thread gives first.
                pot.sort_unstable();
            }
            Body::Take {
                slots,
                thread,
                threads,
                seed,
            } => {
                let pot = self.pot.lock().unwrap_or_else(PoisonError::into_inner);
                let own = deal(&pot, *thread, *threads, *seed);
                let places = &mut self.held[slots.start as usize..slots.end as usize];
                places
                    .iter_mut()
                    .zip(own)
                    .for_each(|(place, held)| *place = held);
            }
        }
        std::mem::take(&mut self.stamps)
    }

    fn take_counts(&mut self) -> (u64, ByOrder) {
        let counts = (self.requests, self.refused);
        (self.requests, self.refused) = (0, ByOrder::default());
        counts
    }

    fn clear(&mut self) {
        for slot in 0..self.held.len() {
            self.empty(slot);
        }
    }

    fn count_large_blocks(&mut self, order: Order) -> u64 {
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

    fn allocate_apart(&mut self) -> (u32, u32) {
        touched::load(&mut self.local);
        self.timer.prepare();
        let start = self.timer.start();
        let place = self.local.allocate(Order::ZERO);
        (place, self.timer.stop(start))
    }

    fn free_apart(&mut self, place: u32) -> u32 {
        touched::load(&mut self.local);
        self.timer.prepare();
        let start = self.timer.start();
        self.local.free(place, Order::ZERO);
        self.timer.stop(start)
    }

    fn park(&mut self) {
        self.local.park();
    }

    fn watch(&mut self, counts: bool) {
        self.local.watch(counts);
    }

    fn finish(self: Box<Self>) -> u64 {
        Box::new(self.local).finish()
    }
}

/// Waits briefly for the other thread. A thread that waits for long parks, so that other threads can drain its list.
#[cold]
fn wait<L: Caller>(local: &mut L, attempt: &mut u32) {
    if *attempt == 64 {
        local.park();
    }
    Yielding::pause(*attempt);
    *attempt += 1;
}
