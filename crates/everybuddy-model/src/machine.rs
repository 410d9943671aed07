//! A system on a modelled machine, and the programs of its CPUs.
//!
//! Why it exists: a model should read as what its CPUs do. Building the system, tokens, threads and the
//! checking of every answer are the same for all.
//!
//! Invariant: a CPU is acted as by one thread at a time: [`Machine::on`] and [`Machine::at_once`] end
//! before they return.

use core::mem::MaybeUninit;

use everybuddy::{
    AllocateError, Block, Counts, CpuId, CpuToken, FrameAllocator, FrameRange, Hint, Order, Pfn,
    Platform, Progress, Release, Request, Setup, SystemSpec, metadata_layout, with_any_system,
};

use crate::ModelCpu;
use crate::ledger::Ledger;

/// What one thread runs.
pub type Thread<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What one CPU does.
pub type Program<'a, P> = dyn Fn(&mut Worker<'_, P>) + Sync + 'a;

/// A platform whose schedules a model checker picks.
pub trait Checker: Platform<Cpu = ModelCpu, Probe = Counts> {
    /// Runs all threads at once; returns when all have ended.
    fn run(threads: Vec<Thread<'_>>);
}

/// A system on a machine of a few CPUs, with the ledger of who holds what.
pub struct Machine<'s, P: Checker> {
    system: &'s dyn FrameAllocator<P>,
    ledger: Ledger,
}

impl<P: Checker> Machine<'_, P> {
    /// Builds a system of `frames` frames and runs `model` on it.
    ///
    /// # Panics
    /// If `spec` names no system, or can't be built; and whenever something is wrong with its answers.
    pub fn build(spec: &str, frames: u64, cpus: u16, model: impl FnOnce(&Machine<'_, P>)) {
        let spec: SystemSpec = spec
            .parse()
            .unwrap_or_else(|error| panic!("{spec}: {error}"));
        let ranges = [FrameRange::new(0, frames)];
        let setup = Setup::new(&ranges, cpus);
        // Models are so small that all of it is one space, unless spaces are made small too.
        let in_spaces = spec.to_string().contains("+space=");
        let layout = metadata_layout::<P>(&spec, &setup).expect("the system can be built");
        let mut memory = vec![MaybeUninit::uninit(); layout.size() + layout.align()];
        let mut model = Some(model);
        let visitor = &mut |system: &dyn FrameAllocator<P>| {
            let frames = system.span().frames() as usize;
            let model = model.take().expect("it is built once");
            model(&Machine {
                system,
                ledger: Ledger::new(frames, cpus, in_spaces),
            });
        };
        with_any_system::<P>(&spec, &setup, &mut memory, visitor).expect("the system can be built");
    }

    /// Acts as a CPU on this thread.
    pub fn on<T>(&self, cpu: u16, program: impl FnOnce(&mut Worker<'_, P>) -> T) -> T {
        let mut cpu = ModelCpu::new(cpu);
        program(&mut Worker {
            system: self.system,
            ledger: &self.ledger,
            cpu: &mut cpu,
            hint: Hint::NONE,
        })
    }

    /// Runs a program on each CPU from zero on, all at once.
    pub fn at_once(&self, programs: &[&Program<'_, P>]) {
        let threads = programs.iter().zip(0..).map(|(program, cpu)| {
            let thread: Thread<'_> = Box::new(move || self.on(cpu, |worker| program(worker)));
            thread
        });
        P::run(threads.collect());
    }

    /// Checks what must hold when every CPU is parked and holds nothing: every invariant, before and after
    /// all frames came home; then every frame is free, and coalesced as far as it can be.
    pub fn settle(&self) {
        self.on(0, |worker| {
            assert_eq!(
                self.ledger.held(),
                0,
                "the model's programs give everything back"
            );
            let frames = u64::from(self.system.span().frames());
            let census = worker.check();
            // With `check=off` lists leave what they keep tagged as allocated.
            let all = census.free + census.buffered + census.queued + census.allocated;
            assert_eq!(all, frames, "{census:?}");
            worker.quiesce();
            let census = worker.check();
            let kept = census.buffered + census.queued;
            assert_eq!((census.free, kept), (frames, 0), "{census:?}");
            let snapshot = self.system.snapshot(worker.cpu);
            let largest = self.system.max_order();
            let mut whole = [0; Order::LIMIT.index() + 1];
            for block in Block::cover(Pfn(0), frames as u32, largest) {
                whole[block.order.index()] += 1;
            }
            assert_eq!(snapshot.free_blocks, whole, "free blocks are not coalesced");
        });
    }
}

/// A CPU at work: calls the system, and checks each answer against the ledger.
pub struct Worker<'w, P: Checker> {
    system: &'w dyn FrameAllocator<P>,
    ledger: &'w Ledger,
    cpu: &'w mut ModelCpu,
    hint: Hint,
}

impl<P: Checker> Worker<'_, P> {
    /// Says for which region it works from now on: lists that predict notice that a run has ended.
    pub fn work_for(&mut self, region: u32) {
        self.hint.region = region;
    }

    /// Asks for a block; nothing when the request failed rightly.
    pub fn try_allocate(&mut self, order: u8) -> Option<Block> {
        let order = Order::new(order).expect("an order");
        let request = Request::order(order);
        self.request(request, order.frames())
            .map(|start| Block::new(start, order))
    }

    /// Asks for a block that must be had.
    ///
    /// # Panics
    /// If it can't.
    pub fn allocate(&mut self, order: u8) -> Block {
        self.try_allocate(order)
            .expect("enough is free for this request")
    }

    /// Asks for a run of frames; nothing when the request failed rightly.
    pub fn try_allocate_frames(&mut self, frames: u32) -> Option<Pfn> {
        self.request(Request::frames(frames), frames)
    }

    fn request(&mut self, request: Request, frames: u32) -> Option<Pfn> {
        let id = self.cpu.id();
        self.ledger.asks(id, frames);
        match self.system.allocate(self.cpu, request.with_hint(self.hint)) {
            Ok(start) => {
                self.ledger.gets(id, start, frames);
                Some(start)
            }
            Err(AllocateError::Exhausted | AllocateError::TooLarge { .. }) => {
                let rightly = self.ledger.may_fail(id);
                assert!(
                    rightly || frames > 1,
                    "{id:?}: exhausted, but a frame was free throughout"
                );
                None
            }
            Err(error) => panic!("{id:?}: {error}"),
        }
    }

    /// Gives a block back.
    pub fn free(&mut self, block: Block) {
        self.release(Release::block(block), block.start, block.order.frames());
    }

    /// Gives a run of frames back.
    pub fn free_frames(&mut self, start: Pfn, frames: u32) {
        self.release(Release::frames(start, frames), start, frames);
    }

    fn release(&mut self, release: Release, start: Pfn, frames: u32) {
        let id = self.cpu.id();
        self.ledger.gives_back(id, start, frames);
        if let Err(error) = self.system.free(self.cpu, release.with_hint(self.hint)) {
            panic!("{id:?}, {release:?}: {error}");
        }
        self.ledger.is_back(start, frames);
    }

    /// Hands a block over to another CPU, which will give it back.
    pub fn hand(&self, block: Block, to: u16) {
        let frames = block.order.frames();
        let (from, to) = (self.cpu.id(), CpuId(to));
        self.ledger.is_handed(block.start, frames, from, to);
    }

    /// Gets every frame there is, one by one, and gives them back, while nobody else holds or keeps any.
    ///
    /// # Panics
    /// If one can't be had.
    pub fn has_all(&mut self) {
        let frames = self.system.span().frames();
        let blocks: Vec<_> = (0..frames).map(|_| self.allocate(0)).collect();
        assert!(self.try_allocate(0).is_none(), "all frames are held");
        blocks.into_iter().for_each(|block| self.free(block));
    }

    /// Gets a block and gives it back: it stays in this CPU's list if the list is open.
    pub fn churn(&mut self, order: u8) {
        let block = self.allocate(order);
        self.free(block);
    }

    /// Says that this CPU won't call for a while.
    pub fn park(&mut self) {
        self.system.park(self.cpu);
    }

    /// Gives this CPU's list back.
    pub fn drain(&mut self) {
        self.system.drain(self.cpu);
    }

    /// Brings home what all CPUs keep.
    pub fn quiesce(&mut self) {
        self.system
            .quiesce(self.cpu)
            .expect("every CPU parks or answers");
    }

    /// Does steps of a service, at most so many; tells whether there was enough to do.
    pub fn serve(&mut self, service: usize, steps: u32) -> bool {
        self.system.serve(self.cpu, service, steps) == Progress::More
    }

    /// Checks every invariant, while no other CPU works.
    pub fn check(&mut self) -> everybuddy::Census {
        self.system
            .check(self.cpu)
            .unwrap_or_else(|violation| panic!("{violation}"))
    }

    /// Returns the system and the token, to do what the ledger doesn't follow.
    pub fn raw(&mut self) -> (&dyn FrameAllocator<P>, &mut ModelCpu) {
        (self.system, self.cpu)
    }

    /// Returns what was counted on this CPU in this program.
    pub fn counts(&self) -> &Counts {
        self.cpu.counts()
    }
}
