//! One of our systems on a workload, counted instead of timed.
//!
//! Exists because what threads do to each other shows in counts that a timed run may not take. The program of
//! each thread is the same as in benchmarks; preparation and clearing up are left out.
//!
//! Each thread is a task with one address region, and its requests say so.
//!
//! Invariant: what a thread counts goes to the common sum once, when it leaves.

use std::sync::{Mutex, PoisonError};

use everybuddy::platform::{NativeCpu, NativeCpus, Waiting};
use everybuddy::{
    AllocateError, Block, Counts, CpuId, CpuToken, FrameAllocator, Hint, Order, Pfn, Release,
    Request, WithSystem,
};

use super::contender::{Contender, Local, WithContender};
use crate::run::host::{Machine, Yielding};
use crate::run::observe::Tally;
use crate::run::port::REFUSED;

/// What all threads counted: allocations, frees.
pub(crate) type Sums = Mutex<[Tally; 2]>;

/// A visitor of a system whose operations are counted.
pub(crate) struct Counting<'s, V> {
    pub(crate) threads: u16,
    pub(crate) visitor: V,
    pub(crate) sums: &'s Sums,
}

impl<V: WithContender> WithSystem<Machine<Counts>> for Counting<'_, V> {
    type Output = V::Output;

    fn call<A: FrameAllocator<Machine<Counts>>>(self, _: &'static str, system: &A) -> V::Output {
        let cpus = NativeCpus::new(self.threads);
        let sums = self.sums;
        self.visitor.call(&Counted { system, cpus, sums })
    }
}

/// A system whose operations are counted.
struct Counted<'s, A> {
    system: &'s A,
    cpus: NativeCpus,
    sums: &'s Sums,
}

/// A thread's access to it.
struct CountedLocal<'c, A> {
    system: &'c A,
    cpus: &'c NativeCpus,
    cpu: NativeCpu<Counts>,
    hint: Hint,
    /// Whether what is done now counts.
    counts: bool,
    tallies: [Tally; 2],
    failed: u64,
    sums: &'c Sums,
}

impl<A: FrameAllocator<Machine<Counts>>> Contender for Counted<'_, A> {
    type Local<'c>
        = CountedLocal<'c, A>
    where
        Self: 'c;

    fn local(&self, thread: u16) -> Option<CountedLocal<'_, A>> {
        let number = u32::from(thread) + 1;
        Some(CountedLocal {
            system: self.system,
            cpus: &self.cpus,
            cpu: self.cpus.claim(CpuId(thread))?,
            hint: Hint {
                task: number,
                region: number,
                left: Hint::UNKNOWN,
            },
            counts: false,
            tallies: [Tally::default(); 2],
            failed: 0,
            sums: self.sums,
        })
    }

    fn max_order(&self) -> Order {
        self.system.max_order()
    }

    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.system.metadata_bytes())
    }
}

impl<A: FrameAllocator<Machine<Counts>>> CountedLocal<'_, A> {
    fn insist(&mut self, request: Request) -> u32 {
        /// How often a request is repeated that another CPU kept busy.
        const PATIENCE: u32 = 64;
        for attempt in 0..PATIENCE {
            match self.system.allocate(&mut self.cpu, request) {
                Ok(pfn) => return pfn.0,
                Err(AllocateError::Busy) => Yielding::pause(attempt),
                Err(_) => break,
            }
        }
        REFUSED
    }
}

impl<A: FrameAllocator<Machine<Counts>>> Local for CountedLocal<'_, A> {
    fn allocate(&mut self, order: Order) -> u32 {
        let before = *self.cpu.probe();
        let place = self.insist(Request::order(order).with_hint(self.hint));
        if self.counts {
            self.tallies[0].note(order, &before, self.cpu.probe());
        }
        place
    }

    fn free(&mut self, place: u32, order: Order) {
        let before = *self.cpu.probe();
        let start = Pfn(place);
        let release = Release::block(Block { start, order }).with_hint(self.hint);
        let freed = self.system.free(&mut self.cpu, release);
        self.failed += u64::from(freed.is_err());
        if self.counts {
            self.tallies[1].note(order, &before, self.cpu.probe());
        }
    }

    fn park(&mut self) {
        self.system.park(&mut self.cpu);
    }

    fn watch(&mut self, counts: bool) {
        self.counts = counts;
    }

    fn leave(mut self) -> u64 {
        self.park();
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        for (sum, own) in sums.iter_mut().zip(&self.tallies) {
            sum.add(own);
        }
        self.cpus.surrender(self.cpu);
        self.failed
    }
}
