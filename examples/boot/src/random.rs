//! Random operations by all CPUs and by their timer interrupts, on frames that hold data.
//!
//! # Invariants
//! Every allocation is filled with a content of its own, and the content is checked before it is freed. At the end,
//! nothing is allocated any more.

use core::sync::atomic::{AtomicU32, Ordering};

use everybuddy::{AllocateError, Class, CpuId, Index, Order, Release, Request};
use everybuddy_suite::Random;
use spin::Mutex;

use crate::blocks::{Content, Held};
use crate::console::println;
use crate::cpus::{count, local, locals, run as run_on, with_token};
use crate::frames::{frames, free};
use crate::handler::{Handler, let_handlers_allocate};

/// Allocations that a CPU holds at most.
const HELD: usize = 512;
/// Frames of a request in bulk.
const BULK: usize = 48;

/// Allocations that any CPU may free.
static MAILBOX: [Mutex<Option<Held>>; 32] = [const { Mutex::new(None) }; 32];

#[derive(Default)]
struct Counts {
    allocated: AtomicU32,
    refused: AtomicU32,
    elsewhere: AtomicU32,
    bulks: AtomicU32,
}

/// Runs the test, and prints what it did.
pub(crate) fn run(operations: u32) {
    let counts = Counts::default();
    let_handlers_allocate(true);
    run_on(count(), &|cpu| Worker::new(cpu, &counts).work(operations));
    let_handlers_allocate(false);
    // The next job begins after the last handler.
    run_on(count(), &|cpu| {
        if let Some(frame) = local().handler.take() {
            Content::of_handler(cpu).check(frame, 1);
            free(Release::frame(frame));
        }
        with_token(|cpu| frames().park(cpu));
    });
    for slot in &MAILBOX {
        if let Some(held) = slot.lock().take() {
            held.content.check(held.start, held.frames);
            free(held.release());
        }
    }
    let counted = |count: &AtomicU32| count.load(Ordering::Relaxed);
    println!(
        "  {:<12} {} allocations, {} refused, {} freed by another CPU, {} bulks",
        "random",
        counted(&counts.allocated),
        counted(&counts.refused),
        counted(&counts.elsewhere),
        counted(&counts.bulks)
    );
    let sum = |count: fn(&Handler) -> &AtomicU32| -> u32 {
        let each = locals().iter().map(|local| counted(count(&local.handler)));
        each.sum()
    };
    let inside = sum(|handler| &handler.inside);
    let direct = sum(|handler| &handler.direct);
    println!(
        "  {:<12} {inside} calls inside operations, {} refused as busy, {direct} outside",
        "interrupts",
        sum(|handler| &handler.busy)
    );
    assert!(inside > 0, "no timer interrupt arrived inside an operation");
    assert!(
        count() == 1 || counted(&counts.elsewhere) > 0,
        "no CPU freed what another one allocated"
    );
}

/// What a CPU holds.
struct Worker<'a> {
    cpu: CpuId,
    random: Random,
    held: [Option<Held>; HELD],
    len: usize,
    /// Allocations until now, also in bulk.
    number: u32,
    counts: &'a Counts,
}

impl<'a> Worker<'a> {
    fn new(cpu: CpuId, counts: &'a Counts) -> Self {
        Self {
            cpu,
            random: Random(u64::from(cpu.0) + 1),
            held: [None; HELD],
            len: 0,
            number: 0,
            counts,
        }
    }

    fn work(mut self, operations: u32) {
        for step in 0..operations {
            // Phases of growth, until memory is exhausted, and of decline.
            let growth = if step / 2048 % 2 == 0 { 70 } else { 30 };
            match self.random.below(1000) {
                0..5 => with_token(|cpu| frames().park(cpu)),
                5..10 => with_token(|cpu| frames().drain(cpu)),
                10..40 => self.bulk(),
                40..100 => self.exchange(),
                _ if self.random.chance(growth) && self.len < HELD => self.allocate(),
                _ => self.free(),
            }
        }
        while self.len > 0 {
            self.free();
        }
        self.counts
            .allocated
            .fetch_add(self.number, Ordering::Relaxed);
    }

    /// Returns a content that no other allocation has.
    fn content(&mut self) -> Content {
        self.number += 1;
        Content::new(self.cpu, self.number)
    }

    fn push(&mut self, held: Held) {
        self.held[self.len] = Some(held);
        self.len += 1;
    }

    /// Takes one of the allocations that are held.
    fn pop(&mut self) -> Option<Held> {
        self.len.checked_sub(1).and_then(|last| {
            let index = self.random.below(self.len as u64) as usize;
            self.held.swap(index, last);
            self.len = last;
            self.held[last].take()
        })
    }

    fn count_refusal(&self, error: AllocateError) {
        match error {
            AllocateError::Exhausted | AllocateError::Busy => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            error => panic!("CPU {}: {error}", self.cpu.0),
        }
    }

    /// Allocates a block, small ones more often, or a run of any length.
    fn allocate(&mut self) {
        let largest = frames().max_order().get().min(10);
        let class = Class::ALL[self.random.below(Class::ALL.len() as u64) as usize];
        let (order, frames_wanted) = if self.random.chance(15) {
            let most = 1 << largest.min(6);
            (None, 1 + self.random.below(most) as u32)
        } else {
            let order = if self.random.chance(10) {
                self.random.below(u64::from(largest) + 1) as u8
            } else {
                (self.random.next() | 1 << largest).trailing_zeros() as u8
            };
            let order = Order::new(order).expect("an order");
            (Some(order), order.frames())
        };
        let request = match order {
            Some(order) => Request::order(order),
            None => Request::frames(frames_wanted),
        };
        match with_token(|cpu| frames().allocate(cpu, request.with_class(class))) {
            Ok(start) => {
                let content = self.content();
                content.fill(start, frames_wanted);
                self.push(Held {
                    start,
                    frames: frames_wanted,
                    order,
                    content,
                });
            }
            Err(error) => self.count_refusal(error),
        }
    }

    /// Frees an allocation, sometimes in two parts.
    fn free(&mut self) {
        let Some(held) = self.pop() else { return };
        held.content.check(held.start, held.frames);
        if held.frames > 1 && self.random.chance(20) {
            let first = 1 + self.random.below(u64::from(held.frames) - 1) as u32;
            free(Release::frames(held.start, first));
            let rest = Index(held.start.0 + first);
            held.content.check(rest, held.frames - first);
            free(Release::frames(rest, held.frames - first));
        } else {
            free(held.release());
        }
    }

    /// Leaves an allocation to other CPUs, and frees one that another CPU left.
    fn exchange(&mut self) {
        let own = self.pop();
        let slot = self.random.below(MAILBOX.len() as u64) as usize;
        let other = core::mem::replace(&mut *MAILBOX[slot].lock(), own);
        if let Some(held) = other {
            held.content.check(held.start, held.frames);
            free(held.release());
            let is_own = held.content.cpu() == self.cpu;
            self.counts
                .elsewhere
                .fetch_add(u32::from(!is_own), Ordering::Relaxed);
        }
    }

    /// Allocates frames in bulk and frees them in bulk.
    fn bulk(&mut self) {
        let mut starts = [Index(0); BULK];
        let wanted = 1 + self.random.below(BULK as u64) as usize;
        let result =
            with_token(|cpu| frames().allocate_bulk(cpu, Request::FRAME, &mut starts[..wanted]));
        let starts = match result {
            Ok(given) => &starts[..given],
            Err(error) => return self.count_refusal(error),
        };
        let content = self.content();
        starts.iter().for_each(|start| content.fill(*start, 1));
        starts.iter().for_each(|start| content.check(*start, 1));
        let releases = [Release::frame(Index(0)); BULK];
        let mut releases = releases;
        for (release, start) in releases.iter_mut().zip(starts) {
            *release = Release::frame(*start);
        }
        with_token(|cpu| frames().free_bulk(cpu, &releases[..starts.len()]))
            .unwrap_or_else(|error| panic!("CPU {}: {error}", self.cpu.0));
        self.counts.bulks.fetch_add(1, Ordering::Relaxed);
    }
}
