//! The operations that a benchmark needs of an allocator.
//!
//! Our systems and third-party allocators are measured by the same loops. The loops are compiled for each allocator,
//! so that nothing is dispatched dynamically while time is measured. The code around the loops is compiled once, for
//! `dyn` [`Contender`], because every line of the loops is compiled about twenty times.

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{
    AllocateError, Block, CpuId, FrameAllocator, Index, NoProbe, Order, Release, Request,
    WithSystem,
};

pub use super::caller::Caller;
use super::perform::{Tools, Work, Worker};
use crate::replay::adapter::REFUSED;
use crate::replay::calls::Calls;
use crate::replay::host::ReplayPlatform;
use crate::replay::retry::{MAX_RETRIES, retry};
use crate::replay::services;

/// An allocator that threads can call.
pub trait Contender: Sync {
    /// Returns a thread's access for single calls, which are dispatched dynamically. Returns `None` if another thread
    /// uses that number.
    fn caller(&self, thread: u16) -> Option<Box<dyn Caller + '_>>;

    /// Returns a thread that runs programs, with the given number of empty slots. Returns `None` if another thread uses
    /// that number. Its loops are compiled for the caller, and dispatch nothing dynamically.
    fn worker<'c>(
        &'c self,
        thread: u16,
        slots: u32,
        tools: Tools<'c>,
    ) -> Option<Box<dyn Work + 'c>>;

    /// Returns the order of the largest block.
    fn max_order(&self) -> Order;

    /// Returns the bytes of metadata, if known.
    fn metadata_bytes(&self) -> Option<usize>;
}

/// A function that is called with a contender.
pub(crate) type Visitor<'v> = &'v mut dyn FnMut(&dyn Contender);

/// One of our systems.
pub struct System<'s> {
    system: &'s dyn BenchSystem,
    cpus: NativeCpus,
}

/// A thread's access to one of our systems.
pub struct SystemCaller<'c, A> {
    system: &'c A,
    cpus: &'c NativeCpus,
    cpu: NativeCpu<NoProbe>,
    failed: u64,
}

impl<'c, A: FrameAllocator<ReplayPlatform<NoProbe>>> SystemCaller<'c, A> {
    /// Claims the token of a thread. Returns `None` if it is taken.
    pub fn claim(system: &'c A, cpus: &'c NativeCpus, thread: u16) -> Option<Self> {
        Some(Self {
            system,
            cpus,
            cpu: cpus.claim(CpuId(thread)).ok()?,
            failed: 0,
        })
    }
}

impl Contender for System<'_> {
    fn caller(&self, thread: u16) -> Option<Box<dyn Caller + '_>> {
        self.system.caller(&self.cpus, thread)
    }

    fn worker<'c>(
        &'c self,
        thread: u16,
        slots: u32,
        tools: Tools<'c>,
    ) -> Option<Box<dyn Work + 'c>> {
        self.system.worker(&self.cpus, thread, slots, tools)
    }

    fn max_order(&self) -> Order {
        self.system.max_order()
    }

    fn metadata_bytes(&self) -> Option<usize> {
        Some(self.system.metadata_bytes())
    }
}

impl<A: FrameAllocator<ReplayPlatform<NoProbe>>> SystemCaller<'_, A> {
    /// Retries a request that failed because another CPU was busy.
    #[cold]
    #[inline(never)]
    fn retry_until_served(&mut self, order: Order, error: AllocateError) -> u32 {
        let request = Request::order(order);
        let again = retry(
            self.system,
            &mut self.cpu,
            request,
            error,
            MAX_RETRIES,
            || (),
        );
        again.map_or(REFUSED, |frame| frame.0)
    }
}

impl<A: FrameAllocator<ReplayPlatform<NoProbe>>> Caller for SystemCaller<'_, A> {
    #[inline(always)]
    fn allocate(&mut self, order: Order) -> u32 {
        match self.system.allocate(&mut self.cpu, Request::order(order)) {
            Ok(pfn) => pfn.0,
            Err(error) => self.retry_until_served(order, error),
        }
    }

    #[inline(always)]
    fn free(&mut self, place: u32, order: Order) {
        let block = Block {
            start: Index(place),
            order,
        };
        if self
            .system
            .free(&mut self.cpu, Release::block(block))
            .is_err()
        {
            self.failed += 1;
        }
    }

    fn park(&mut self) {
        self.system.park(&mut self.cpu);
    }

    fn finish(mut self: Box<Self>) -> u64 {
        self.park();
        self.cpus.release(self.cpu);
        self.failed
    }
}

/// One of our systems, as the benchmark needs it: what is compiled for each composition.
trait BenchSystem: Calls<NoProbe> {
    fn caller<'s>(&'s self, cpus: &'s NativeCpus, thread: u16) -> Option<Box<dyn Caller + 's>>;

    fn worker<'s>(
        &'s self,
        cpus: &'s NativeCpus,
        thread: u16,
        slots: u32,
        tools: Tools<'s>,
    ) -> Option<Box<dyn Work + 's>>;

    fn max_order(&self) -> Order;

    fn metadata_bytes(&self) -> usize;
}

impl<A: FrameAllocator<ReplayPlatform<NoProbe>>> BenchSystem for A {
    fn caller<'s>(&'s self, cpus: &'s NativeCpus, thread: u16) -> Option<Box<dyn Caller + 's>> {
        Some(Box::new(SystemCaller::claim(self, cpus, thread)?))
    }

    fn worker<'s>(
        &'s self,
        cpus: &'s NativeCpus,
        thread: u16,
        slots: u32,
        tools: Tools<'s>,
    ) -> Option<Box<dyn Work + 's>> {
        let local = SystemCaller::claim(self, cpus, thread)?;
        Some(Worker::boxed(local, slots, tools))
    }

    fn max_order(&self) -> Order {
        FrameAllocator::max_order(self)
    }

    fn metadata_bytes(&self) -> usize {
        FrameAllocator::metadata_bytes(self)
    }
}

/// Converts a system to a contender.
pub(crate) struct OfSystem<'v> {
    pub(crate) threads: u16,
    pub(crate) visitor: Visitor<'v>,
}

impl WithSystem<ReplayPlatform<NoProbe>> for OfSystem<'_> {
    type Output = ();

    fn call<A: FrameAllocator<ReplayPlatform<NoProbe>>>(self, _: &'static str, system: &A) {
        pass_on(system, self.threads, self.visitor);
    }
}

/// Passes a system on as a contender, while its services run.
fn pass_on(system: &dyn BenchSystem, threads: u16, visitor: Visitor<'_>) {
    let cpus = NativeCpus::new(threads);
    services::alongside(system, threads, &NoProbe::default, || {
        visitor(&System { system, cpus });
    });
}
