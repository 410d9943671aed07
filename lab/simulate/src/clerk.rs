//! An allocator for tests: it gives each frame once and writes down what it is asked.
//!
//! Tests of loads check which calls are made, when, and by which CPU, without a system in between.

use std::collections::HashSet;
use std::sync::Mutex;

use everybuddy::platform::CpuToken;
use everybuddy::{
    AllocateError, Census, CpuId, FrameAllocator, FrameRange, FrameState, FreeError, Index, Order,
    Probe, Progress, RegionError, Release, Request, Service, Size, Snapshot, Span, Violation,
};
use everybuddy_sim::{Sim, SimCpu};

/// What an allocator is asked: the CPU, what it is, and the first frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Allocate(u16, Request, u32),
    Free(u16, Release),
}

/// Kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Allocate,
    Free,
    Park,
    Serve,
}

/// What a CPU does in a request.
type Doing = Box<dyn Fn(&mut SimCpu) + Send + Sync>;

/// The instructions of a unit of work.
pub(crate) const UNIT: u32 = 700;

/// An allocator that gives each frame once and writes down what it is asked.
#[derive(Default)]
pub(crate) struct Clerk {
    /// Whether every request is refused.
    refuses: bool,
    /// What happens in every call.
    tells: Option<everybuddy::Event>,
    /// What a CPU does in every request.
    does: Option<Doing>,
    /// Whether it has a service, which always has work.
    serves: bool,
    /// Each call, parking included: the CPU, when it began, and whether it is a request, a free or neither.
    pub(crate) times: Mutex<Vec<(u16, u64, Kind)>>,
    pub(crate) log: Mutex<Vec<Asked>>,
    pub(crate) next: Mutex<u32>,
    pub(crate) parked: Mutex<HashSet<u16>>,
}

impl Clerk {
    /// Creates one that refuses everything, and in whose calls something happens.
    pub(crate) fn refusing(what: everybuddy::Event) -> Self {
        Self {
            refuses: true,
            tells: Some(what),
            ..Self::default()
        }
    }

    /// Creates one that does something in every request.
    pub(crate) fn doing(does: Doing) -> Self {
        Self {
            does: Some(does),
            ..Self::default()
        }
    }

    /// Creates one with a service that always has work.
    pub(crate) fn serving() -> Self {
        Self {
            serves: true,
            ..Self::default()
        }
    }

    fn note(&self, cpu: &mut SimCpu, kind: Kind) {
        if let (Some(event), true) = (self.tells, kind != Kind::Park) {
            cpu.probe().record(event);
        }
        let call = (cpu.id().0, cpu.now(), kind);
        self.times.lock().expect("no CPU has panicked").push(call);
    }

    pub(crate) fn place(&self, size: Size) -> u32 {
        let order = match size {
            Size::Order(order) => order,
            Size::Frames(frames) => Order::covering(frames.0).expect("a block holds it"),
        };
        let mut next = self.next.lock().expect("no CPU has panicked");
        let start = next.next_multiple_of(order.frames());
        *next = start + order.frames();
        start
    }
}

impl FrameAllocator<Sim> for Clerk {
    fn allocate(&self, cpu: &mut SimCpu, request: Request) -> Result<Index, AllocateError> {
        self.note(cpu, Kind::Allocate);
        self.parked
            .lock()
            .expect("no CPU has panicked")
            .remove(&cpu.id().0);
        if let Some(does) = &self.does {
            does(cpu);
        }
        let start = self.place(request.size);
        // The call takes some time: other CPUs can run in between.
        cpu.work(50);
        if self.refuses {
            return Err(AllocateError::Exhausted);
        }
        let mut log = self.log.lock().expect("no CPU has panicked");
        log.push(Asked::Allocate(cpu.id().0, request, start));
        Ok(Index(start))
    }

    fn free(&self, cpu: &mut SimCpu, release: Release) -> Result<(), FreeError> {
        self.note(cpu, Kind::Free);
        self.parked
            .lock()
            .expect("no CPU has panicked")
            .remove(&cpu.id().0);
        cpu.work(50);
        self.log
            .lock()
            .expect("no CPU has panicked")
            .push(Asked::Free(cpu.id().0, release));
        Ok(())
    }

    fn park(&self, cpu: &mut SimCpu) {
        self.note(cpu, Kind::Park);
        self.parked
            .lock()
            .expect("no CPU has panicked")
            .insert(cpu.id().0);
    }

    fn allocate_nested(&self, _: CpuId, _: Request) -> Result<Index, AllocateError> {
        unreachable!()
    }
    fn free_nested(&self, _: CpuId, _: Release) -> Result<(), FreeError> {
        unreachable!()
    }
    fn drain(&self, _: &mut SimCpu) {}
    fn drain_parked(&self, _: &mut SimCpu, _: CpuId) -> Result<(), AllocateError> {
        unreachable!()
    }
    fn quiesce(&self, _: &mut SimCpu) -> Result<(), AllocateError> {
        unreachable!()
    }
    fn add(&self, _: &mut SimCpu, _: FrameRange) -> Result<(), RegionError> {
        unreachable!()
    }
    fn remove(&self, _: &mut SimCpu, _: FrameRange) -> Result<(), RegionError> {
        unreachable!()
    }
    fn reserve(&self, _: &mut SimCpu, _: FrameRange) -> Result<(), RegionError> {
        unreachable!()
    }
    fn unreserve(&self, _: &mut SimCpu, _: FrameRange) -> Result<(), RegionError> {
        unreachable!()
    }
    fn span(&self) -> &Span {
        unreachable!()
    }
    fn allocate_at(&self, _: &mut SimCpu, _: FrameRange) -> Result<Index, RegionError> {
        unreachable!()
    }
    fn free_frames(&self) -> u64 {
        unreachable!()
    }
    fn max_order(&self) -> Order {
        Order::TEN
    }
    fn cpus(&self) -> u16 {
        unreachable!()
    }
    fn metadata_bytes(&self) -> usize {
        0
    }
    fn snapshot(&self, _: &mut SimCpu) -> Snapshot {
        unreachable!()
    }
    fn frame_state(&self, _: Index) -> Option<FrameState> {
        None
    }
    fn services(&self) -> &'static [Service] {
        const WORK: [Service; 1] = [Service {
            name: "work",
            own_thread: false,
        }];
        &WORK[..usize::from(self.serves)]
    }
    fn serve(&self, cpu: &mut SimCpu, _: usize, budget: u32) -> Progress {
        assert_eq!(budget, 1, "one unit at a time");
        self.note(cpu, Kind::Serve);
        let parked = self.parked.lock().expect("no CPU has panicked");
        assert!(parked.contains(&cpu.id().0), "a CPU that serves is parked");
        drop(parked);
        cpu.work(UNIT);
        Progress::More
    }
    fn check(&self, _: &mut SimCpu) -> Result<Census, Violation> {
        unreachable!()
    }
}
