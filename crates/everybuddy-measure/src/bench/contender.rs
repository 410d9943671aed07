//! What a benchmark asks of an allocator.
//!
//! Exists so that our systems and other people's allocators are measured by the very same loops, which
//! are compiled for each of them: nothing is dispatched while time is taken. What goes on around the loops is compiled
//! once, for [`Contender`]: each line of the loops is compiled some twenty times.
//!
//! Invariant: a local is used by one thread, the one that asked for it.

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{
    AllocateError, Block, CpuId, FrameAllocator, NoProbe, Order, Pfn, Release, Request, WithSystem,
};

use super::perform::{Tools, Work, Worker};
use crate::replay::host::Machine;
use crate::replay::port::REFUSED;
use crate::replay::retry::{MAX_RETRIES, retry};
use crate::replay::services;

/// An allocator that threads can call.
pub trait Contender: Sync {
    /// Returns a thread's access for single calls, which are dispatched one by one; `None` when another thread holds
    /// its place.
    fn caller(&self, thread: u16) -> Option<Box<dyn Caller + '_>>;

    /// Returns a thread that performs programs, with the given number of empty slots; `None` when another thread holds
    /// its place. Its loops are compiled for the caller, and dispatch nothing.
    fn worker<'c>(
        &'c self,
        thread: u16,
        slots: u32,
        tools: Tools<'c>,
    ) -> Option<Box<dyn Work + 'c>>;

    /// Returns the order of the largest block.
    fn max_order(&self) -> Order;

    /// Returns the bytes of metadata, if they are known.
    fn metadata_bytes(&self) -> Option<usize>;
}

/// A thread's access to an allocator.
pub trait Caller {
    /// Allocates a block; its first frame, or [`REFUSED`].
    fn allocate(&mut self, order: Order) -> u32;

    /// Frees a block that was allocated.
    fn free(&mut self, place: u32, order: Order);

    /// Says that this thread won't call for a while.
    fn park(&mut self) {}

    /// Says whether what comes now counts: preparation and clearing up do not.
    #[inline(always)]
    fn watch(&mut self, counts: bool) {
        let _ = counts;
    }

    /// Ends the use; returns how many releases were refused, which only a broken allocator does.
    fn leave(self: Box<Self>) -> u64;
}

/// What is done with a contender.
pub(crate) type Visitor<'v> = &'v mut dyn FnMut(&dyn Contender);

/// One of our systems.
pub struct System<'s, A> {
    system: &'s A,
    cpus: NativeCpus,
}

/// A thread's access to one of our systems.
pub struct SystemCaller<'c, A> {
    system: &'c A,
    cpus: &'c NativeCpus,
    cpu: NativeCpu<NoProbe>,
    failed: u64,
}

impl<A: FrameAllocator<Machine<NoProbe>>> System<'_, A> {
    fn local(&self, thread: u16) -> Option<SystemCaller<'_, A>> {
        Some(SystemCaller {
            system: self.system,
            cpus: &self.cpus,
            cpu: self.cpus.claim(CpuId(thread))?,
            failed: 0,
        })
    }
}

impl<A: FrameAllocator<Machine<NoProbe>>> Contender for System<'_, A> {
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

impl<A: FrameAllocator<Machine<NoProbe>>> SystemCaller<'_, A> {
    /// Tries again what found no frame at once.
    #[cold]
    #[inline(never)]
    fn insist(&mut self, order: Order, error: AllocateError) -> u32 {
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

impl<A: FrameAllocator<Machine<NoProbe>>> Caller for SystemCaller<'_, A> {
    #[inline(always)]
    fn allocate(&mut self, order: Order) -> u32 {
        match self.system.allocate(&mut self.cpu, Request::order(order)) {
            Ok(pfn) => pfn.0,
            Err(error) => self.insist(order, error),
        }
    }

    #[inline(always)]
    fn free(&mut self, place: u32, order: Order) {
        let block = Block {
            start: Pfn(place),
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

    fn leave(mut self: Box<Self>) -> u64 {
        self.park();
        self.cpus.surrender(self.cpu);
        self.failed
    }
}

/// Makes a contender of a system.
pub(crate) struct OfSystem<'v> {
    pub(crate) threads: u16,
    pub(crate) visitor: Visitor<'v>,
}

impl WithSystem<Machine<NoProbe>> for OfSystem<'_> {
    type Output = ();

    fn call<A: FrameAllocator<Machine<NoProbe>>>(self, _: &'static str, system: &A) {
        let cpus = NativeCpus::new(self.threads);
        services::beside(system, self.threads, &NoProbe::default, || {
            (self.visitor)(&System { system, cpus });
        });
    }
}
