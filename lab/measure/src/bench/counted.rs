//! A system on a workload, with its events counted instead of timed.
//!
//! Counters show interactions between threads that would distort a timed run. Each thread runs the same program as in
//! a benchmark, without preparation and cleanup.
//!
//! Each thread is one task with one address region, and its requests carry both as hints.
//!
//! # Invariants
//! The counters of a thread are added to the common sum once, when it finishes.

use std::sync::{Mutex, PoisonError};

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{Block, CpuId, Hint, Index, Order, Release, Request};

use super::contender::{Caller, Contender};
use super::perform::{Tools, Work, Worker};
use crate::replay::adapter::REFUSED;
use crate::replay::host::AnySystem;
use crate::replay::observe::Tally;
use crate::replay::retry::{MAX_RETRIES, retry};
use crate::replay::watch::Watch;

/// The counters of all threads: of allocations, of frees.
pub(crate) type Sums = Mutex<[Tally; 2]>;

/// A system whose operations are counted.
pub(crate) struct Counted<'s> {
    pub(crate) system: &'s AnySystem<'s, Watch>,
    pub(crate) cpus: NativeCpus,
    pub(crate) sums: &'s Sums,
}

/// A thread's access to the system.
pub(crate) struct CountedCaller<'c> {
    system: &'c AnySystem<'c, Watch>,
    cpus: &'c NativeCpus,
    cpu: NativeCpu<Watch>,
    hint: Hint,
    /// Whether the current operations count.
    counts: bool,
    tallies: [Tally; 2],
    failed: u64,
    sums: &'c Sums,
}

impl Counted<'_> {
    fn local(&self, thread: u16) -> Option<CountedCaller<'_>> {
        let number = u32::from(thread) + 1;
        Some(CountedCaller {
            system: self.system,
            cpus: &self.cpus,
            cpu: self.cpus.claim_probed(CpuId(thread)).ok()?,
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
}

impl Contender for Counted<'_> {
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
        self.system.max_order()
    }

    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.system.metadata_bytes())
    }
}

impl Caller for CountedCaller<'_> {
    fn allocate(&mut self, order: Order) -> u32 {
        let before = self.cpu.probe().counts;
        let request = Request::order(order).with_hint(self.hint);
        let first = self.system.allocate(&mut self.cpu, request);
        let served = first.or_else(|error| {
            let again = || ();
            retry(
                self.system,
                &mut self.cpu,
                request,
                error,
                MAX_RETRIES,
                again,
            )
        });
        let place = served.map_or(REFUSED, |frame| frame.0);
        if self.counts {
            self.tallies[0].note(order, &before, &self.cpu.probe().counts);
        }
        place
    }

    fn free(&mut self, place: u32, order: Order) {
        let before = self.cpu.probe().counts;
        let start = Index(place);
        let release = Release::block(Block { start, order }).with_hint(self.hint);
        let freed = self.system.free(&mut self.cpu, release);
        self.failed += u64::from(freed.is_err());
        if self.counts {
            self.tallies[1].note(order, &before, &self.cpu.probe().counts);
        }
    }

    fn park(&mut self) {
        self.system.park(&mut self.cpu);
    }

    fn watch(&mut self, counts: bool) {
        self.counts = counts;
    }

    fn finish(mut self: Box<Self>) -> u64 {
        self.park();
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        for (sum, own) in sums.iter_mut().zip(&self.tallies) {
            sum.add(own);
        }
        self.cpus.release(self.cpu);
        self.failed
    }
}
