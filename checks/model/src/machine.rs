//! A system on a modelled machine, and the programs of its CPUs.
//!
//! A model should read as a description of what its CPUs do. Building the system, the tokens, the threads and the
//! checks of every result are shared by all models.
//!
//! # Invariants
//! One thread at a time acts as a given CPU: [`Machine::on`] and [`Machine::at_once`] wait for all their threads
//! before they return.

use core::mem::MaybeUninit;
use std::rc::Rc;

use everybuddy::{
    AllocateError, Block, BuildError, Counts, CpuId, CpuToken, FrameAllocator, FrameRange,
    FreeError, Hint, Index, Order, Pfn, Platform, Progress, Release, Request, Setup, SystemSpec,
    metadata_layout,
};

use everybuddy::platform::{AtomicWord, Ordering};

use crate::ledger::Ledger;
use crate::token::{Lender, leave, lend_by};
use crate::{ModelCpu, Visitor};

/// The program of one thread.
pub type Thread<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The program of one CPU.
pub type Program<'a, P> = dyn Fn(&mut Worker<'_, P>) + Sync + 'a;

/// A platform whose schedules are chosen by a model checker.
pub trait Checker: Platform<Cpu = ModelCpu, Probe = Counts> {
    /// The content of a frame, which its holder accesses.
    type Content: Default + Send + Sync;

    /// Accesses the content of a frame that the calling CPU holds. The checker reports an access that is not ordered
    /// after the accesses of the last holder, if it can.
    fn access(content: &Self::Content);

    /// Runs all threads concurrently; returns when all have ended.
    fn run(threads: Vec<Thread<'_>>);

    /// Builds a system and calls `visitor` with it.
    ///
    /// # Errors
    /// Any [`BuildError`].
    fn build(
        spec: &SystemSpec,
        setup: &Setup<'_>,
        memory: &mut [MaybeUninit<u8>],
        visitor: Visitor<'_, Self>,
    ) -> Result<(), BuildError>;
}

/// A system on a machine of a few CPUs, with the ledger of owners.
pub struct Machine<'s, P: Checker> {
    system: &'s dyn FrameAllocator<P>,
    ledger: Ledger,
    contents: Vec<P::Content>,
}

impl<P: Checker> Machine<'_, P> {
    /// Builds a system of `frames` frames and runs `model` on it.
    ///
    /// # Panics
    /// If `spec` names no system or cannot be built, and whenever a result is wrong.
    pub fn build(spec: &str, frames: u64, cpus: u16, model: impl FnOnce(&Machine<'_, P>)) {
        let spec: SystemSpec = spec
            .parse()
            .unwrap_or_else(|error| panic!("{spec}: {error}"));
        let ranges = [FrameRange::new(Pfn(0), frames)];
        let setup = Setup::new(&ranges, cpus);
        // Models are so small that all memory is one space, unless the spec makes spaces small too.
        let in_spaces = spec.to_string().contains("+space=");
        let layout = metadata_layout::<P>(&spec, &setup).expect("the system has a layout");
        let mut memory = vec![MaybeUninit::uninit(); everybuddy::Memory::room(layout)];
        let mut model = Some(model);
        let visitor = &mut |system: &dyn FrameAllocator<P>| {
            let frames = system.span().frames() as usize;
            let model = model.take().expect("the system is built once");
            model(&Machine {
                system,
                ledger: Ledger::new(frames, cpus, in_spaces),
                contents: (0..frames).map(|_| P::Content::default()).collect(),
            });
        };
        P::build(&spec, &setup, &mut memory, visitor).expect("the system can be built");
    }

    /// Calls `model` on this machine, while CPUs that [left](Worker::leave) lend their tokens.
    pub fn lending(&self, cpus: u16, model: impl FnOnce()) {
        let idle = (0..cpus).map(|_| P::AtomicU32::new(0)).collect();
        lend_by(Some(Rc::new(Idle::<P>(idle))));
        model();
        lend_by(None);
    }

    /// Runs a program as one CPU on this thread.
    pub fn on<T>(&self, cpu: u16, program: impl FnOnce(&mut Worker<'_, P>) -> T) -> T {
        let mut cpu = ModelCpu::new(cpu);
        program(&mut Worker {
            system: self.system,
            ledger: &self.ledger,
            contents: &self.contents,
            cpu: &mut cpu,
            hint: Hint::NONE,
            busy_from: u32::MAX,
        })
    }

    /// Runs a program on each CPU, starting at CPU 0, all concurrently.
    pub fn at_once(&self, programs: &[&Program<'_, P>]) {
        self.run(programs, |_| ());
    }

    /// Like [`at_once`](Self::at_once), but each CPU parks at the end of its program.
    pub fn park_after(&self, programs: &[&Program<'_, P>]) {
        self.run(programs, |worker| worker.park());
    }

    fn run(&self, programs: &[&Program<'_, P>], end: fn(&mut Worker<'_, P>)) {
        let threads = programs.iter().zip(0..).map(|(program, cpu)| {
            let thread: Thread<'_> = Box::new(move || {
                self.on(cpu, |worker| {
                    program(worker);
                    end(worker);
                });
            });
            thread
        });
        P::run(threads.collect());
    }

    /// Checks the final state, in which every CPU is parked and holds nothing: every invariant, before and after all
    /// lists are drained; then that every frame is free and fully coalesced.
    pub fn settle(&self) {
        self.on(0, |worker| {
            assert_eq!(
                self.ledger.held(),
                0,
                "the model's programs free everything"
            );
            let frames = u64::from(self.system.span().frames());
            let census = worker.check();
            let all = census.free + census.buffered + census.queued;
            assert_eq!(all, frames, "{census:?}");
            worker.quiesce();
            let census = worker.check();
            let kept = census.buffered + census.queued;
            assert_eq!((census.free, kept), (frames, 0), "{census:?}");
            let snapshot = self.system.snapshot(worker.cpu);
            let largest = self.system.max_order();
            let mut whole = [0; Order::LIMIT.index() + 1];
            for block in Block::cover(Index(0), frames as u32, largest) {
                whole[block.order.index()] += 1;
            }
            assert_eq!(snapshot.free_blocks, whole, "free blocks are not coalesced");
        });
    }
}

/// 1 for each CPU whose token can be borrowed.
struct Idle<P: Checker>(Vec<P::AtomicU32>);

impl<P: Checker> Lender for Idle<P> {
    fn try_borrow(&self, cpu: CpuId) -> bool {
        let idle = self.0.get(cpu.index());
        // Acquire: pairs with the release in `give_back`.
        idle.is_some_and(|idle| {
            let taken = idle.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        })
    }

    fn give_back(&self, cpu: CpuId) {
        if let Some(idle) = self.0.get(cpu.index()) {
            // Release: pairs with the acquire in `try_borrow`.
            idle.store(1, Ordering::Release);
        }
    }
}

/// A running CPU: calls the system and checks each result against the ledger.
pub struct Worker<'w, P: Checker> {
    system: &'w dyn FrameAllocator<P>,
    ledger: &'w Ledger,
    contents: &'w [P::Content],
    cpu: &'w mut ModelCpu,
    hint: Hint,
    /// Requests for as many frames or more may fail as busy.
    busy_from: u32,
}

impl<P: Checker> Worker<'_, P> {
    /// Sets the region of all following requests: predictive lists detect the end of a run.
    pub fn work_for(&mut self, region: u32) {
        self.hint.region = region;
    }

    /// Allows all following requests to fail as busy: a service that stops in the middle of a request leaves its
    /// caller without an answer.
    pub fn allow_busy(&mut self) {
        self.busy_from = 1;
    }

    /// Allows requests for several frames to fail as busy: `llfree` gives up after some searches during each of which
    /// others freed frames.
    pub fn allow_busy_blocks(&mut self) {
        self.busy_from = 2;
    }

    /// Requests a block. Returns `None` if the request failed and the failure is allowed.
    pub fn try_allocate(&mut self, order: u8) -> Option<Block> {
        let order = Order::new(order).expect("an order");
        let request = Request::order(order);
        self.request(request, order.frames())
            .map(|start| Block::new(start, order))
    }

    /// Requests a block; the request must succeed.
    ///
    /// # Panics
    /// If the request fails.
    pub fn allocate(&mut self, order: u8) -> Block {
        self.try_allocate(order)
            .expect("enough is free for this request")
    }

    /// Requests a run of frames. Returns `None` if the request failed and the failure is allowed.
    pub fn try_allocate_frames(&mut self, frames: u32) -> Option<Index> {
        self.request(Request::frames(frames), frames)
    }

    fn request(&mut self, request: Request, frames: u32) -> Option<Index> {
        let id = self.cpu.id();
        self.ledger.asks(id, frames);
        match self.system.allocate(self.cpu, request.with_hint(self.hint)) {
            Ok(start) => {
                self.ledger.gets(id, start, frames);
                self.access(start, frames);
                Some(start)
            }
            Err(AllocateError::Exhausted | AllocateError::TooLarge { .. }) => {
                let rightly = self.ledger.may_fail(id);
                assert!(
                    rightly || frames > 1,
                    "{id:?}: out of memory, but a frame was free throughout"
                );
                None
            }
            Err(AllocateError::Busy) if frames >= self.busy_from => {
                self.ledger.may_fail(id);
                None
            }
            Err(error) => panic!("{id:?}: {error}"),
        }
    }

    /// Frees a block.
    pub fn free(&mut self, block: Block) {
        self.release(Release::block(block), block.start, block.order.frames());
    }

    /// Frees a run of frames.
    pub fn free_frames(&mut self, start: Index, frames: u32) {
        self.release(Release::frames(start, frames), start, frames);
    }

    fn release(&mut self, release: Release, start: Index, frames: u32) {
        let id = self.cpu.id();
        self.access(start, frames);
        self.ledger.gives_back(id, start, frames);
        if let Err(error) = self.system.free(self.cpu, release.with_hint(self.hint)) {
            panic!("{id:?}, {release:?}: {error}");
        }
        self.ledger.is_back(start, frames);
    }

    /// Reserves frames, which this CPU holds from then on. Returns `false` if the system refuses.
    pub fn reserve(&mut self, start: Index, frames: u32) -> bool {
        let id = self.cpu.id();
        self.ledger.asks(id, frames);
        let range = FrameRange::new(Pfn(start.0.into()), frames.into());
        let is_reserved = self.system.reserve(self.cpu, range).is_ok();
        if is_reserved {
            self.ledger.gets(id, start, frames);
            self.access(start, frames);
        } else {
            self.ledger.may_fail(id);
        }
        is_reserved
    }

    /// Ends a reservation of this CPU.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn unreserve(&mut self, start: Index, frames: u32) {
        self.access(start, frames);
        self.ledger.gives_back(self.cpu.id(), start, frames);
        let range = FrameRange::new(Pfn(start.0.into()), frames.into());
        if let Err(error) = self.system.unreserve(self.cpu, range) {
            panic!("{:?}, {range:?}: {error}", self.cpu.id());
        }
        self.ledger.is_back(start, frames);
    }

    /// Accesses the contents of frames as their holder: calls that the ledger does not follow do not.
    pub fn access(&self, start: Index, frames: u32) {
        let contents = self.contents.iter().skip(start.0 as usize);
        contents.take(frames as usize).for_each(P::access);
    }

    /// Hands a block over to another CPU, which will free it. The model itself orders the two.
    pub fn hand(&self, block: Block, to: u16) {
        let frames = block.order.frames();
        let (from, to) = (self.cpu.id(), CpuId(to));
        self.ledger.is_handed(block.start, frames, from, to);
    }

    /// Allocates all frames one by one and frees them. No other CPU may hold or cache any.
    ///
    /// # Panics
    /// If a request fails.
    pub fn has_all(&mut self) {
        let frames = self.system.span().frames();
        let blocks: Vec<_> = (0..frames).map(|_| self.allocate(0)).collect();
        assert!(
            self.try_allocate(0).is_none(),
            "every frame is already held"
        );
        blocks.into_iter().for_each(|block| self.free(block));
    }

    /// Allocates a block and frees it. The block stays in this CPU's list if the list is open.
    pub fn churn(&mut self, order: u8) {
        let block = self.allocate(order);
        self.free(block);
    }

    /// Allocates a block if possible, and frees it.
    pub fn try_churn(&mut self, order: u8) {
        if let Some(block) = self.try_allocate(order) {
            self.free(block);
        }
    }

    /// Sends a request that the ledger does not follow: several CPUs may free its frames, or it may fail for a reason
    /// that the ledger does not know.
    ///
    /// # Errors
    /// Any [`AllocateError`].
    pub fn try_allocate_untracked(&mut self, request: Request) -> Result<Index, AllocateError> {
        self.system.allocate(self.cpu, request)
    }

    /// Sends a request that the ledger does not follow, and that must succeed.
    ///
    /// # Panics
    /// If the request fails.
    pub fn allocate_untracked(&mut self, request: Request) -> Index {
        self.try_allocate_untracked(request)
            .expect("enough is free for this request")
    }

    /// Frees what the ledger does not follow. Returns `false` if another CPU has freed it.
    ///
    /// # Panics
    /// If the free fails for another reason.
    pub fn try_free_untracked(&mut self, release: Release) -> bool {
        match self.system.free(self.cpu, release) {
            Ok(()) => true,
            Err(FreeError::NotAllocated) => false,
            Err(error) => panic!("{:?}, {release:?}: {error}", self.cpu.id()),
        }
    }

    /// Frees what the ledger does not follow and what no other CPU frees.
    ///
    /// # Panics
    /// If the free fails.
    pub fn free_untracked(&mut self, release: Release) {
        assert!(self.try_free_untracked(release), "{release:?} is allocated");
    }

    /// Allocates a block if possible, and frees it; the ledger follows neither.
    pub fn try_churn_untracked(&mut self, order: u8) {
        let order = Order::new(order).expect("an order");
        if let Ok(start) = self.try_allocate_untracked(Request::order(order)) {
            self.free_untracked(Release::block(Block::new(start, order)));
        }
    }

    /// Parks this CPU: it makes no calls until its next request.
    pub fn park(&mut self) {
        self.system.park(self.cpu);
    }

    /// Ends this CPU's program without parking. From now on other CPUs may borrow its token.
    pub fn leave(&mut self) {
        leave(self.cpu.id());
    }

    /// Drains this CPU's list.
    pub fn drain(&mut self) {
        self.system.drain(self.cpu);
    }

    /// Drains the list of another CPU, if that CPU is parked.
    pub fn drain_parked(&mut self, other: u16) {
        match self.system.drain_parked(self.cpu, CpuId(other)) {
            Ok(()) | Err(AllocateError::Busy) => {}
            Err(error) => panic!("CPU {other} exists: {error}"),
        }
    }

    /// Drains all per-CPU lists.
    pub fn quiesce(&mut self) {
        self.system
            .quiesce(self.cpu)
            .expect("every CPU parks or serves drain requests");
    }

    /// Runs at most `steps` steps of a service; returns `true` if it had that much work.
    pub fn serve(&mut self, service: usize, steps: u32) -> bool {
        self.system.serve(self.cpu, service, steps) == Progress::More
    }

    /// Checks every invariant while no other CPU runs.
    pub fn check(&mut self) -> everybuddy::Census {
        self.system
            .check(self.cpu)
            .unwrap_or_else(|violation| panic!("{violation}"))
    }

    /// Returns the system and the token, for calls that the ledger does not follow.
    pub fn raw(&mut self) -> (&dyn FrameAllocator<P>, &mut ModelCpu) {
        (self.system, self.cpu)
    }

    /// Returns the events counted on this CPU in this program.
    pub fn counts(&self) -> &Counts {
        self.cpu.counts()
    }
}
