//! A platform that lends the token of a CPU between two of its operations.
//!
//! A CPU that never calls again keeps trees or a list. Where its token can be borrowed, no request may fail as busy
//! because of that, and none may wait for an operation that does not end.
//!
//! # Invariants
//! A token of this platform exists during one operation only. Exchanges that acquire and release take it
//! and put it back.

use std::sync::atomic::{AtomicBool, Ordering};

use everybuddy::platform::{Bare, Waiting};
use everybuddy::systems::{Everybuddy, Lbs31, Options, layout};
use everybuddy::{
    AllocateError, CpuId, CpuToken, FrameAllocator, FrameRange, Index, Memory, Pfn, Release,
    Request, Setup, System, build,
};

/// The CPUs of each test have numbers of their own, since the tests run simultaneously.
const CPUS: u16 = 8;

/// Whether the token of a CPU is in use.
static IN_USE: [AtomicBool; CPUS as usize] = [const { AtomicBool::new(false) }; CPUS as usize];

/// The right to act as a CPU, during one operation.
struct Lent(CpuId);

impl Lent {
    fn try_new(cpu: CpuId) -> Option<Self> {
        let was_in_use = IN_USE[cpu.index()].swap(true, Ordering::AcqRel);
        // Not `then_some`: a token that is not returned must not exist, since its end gives the CPU back.
        (!was_in_use).then(|| Self(cpu))
    }

    fn new(cpu: u16) -> Self {
        loop {
            if let Some(token) = Self::try_new(CpuId(cpu)) {
                return token;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        IN_USE[self.0.index()].store(false, Ordering::Release);
    }
}

impl CpuToken for Lent {
    fn id(&self) -> CpuId {
        self.0
    }

    fn exclude(cpu: CpuId) -> Option<Self> {
        Self::try_new(cpu)
    }
}

/// Waits as a thread does that can be stopped in an operation.
struct Yield;

impl Waiting for Yield {
    fn pause(_: u32) {
        std::thread::yield_now();
    }
}

type Host = Bare<Lent, Yield>;

const FRAMES: u32 = 256;

fn with_built<S: System>(body: impl FnOnce(&S::Built<'_, Host>)) {
    let ranges = [FrameRange::new(Pfn(0), FRAMES.into())];
    let setup = Setup::new(&ranges, CPUS);
    let layout = layout::<S, Host>(&Options::NONE, &setup).unwrap();
    let mut memory = vec![core::mem::MaybeUninit::uninit(); Memory::room(layout)];
    let memory = Memory::new(&mut memory);
    body(build::<S, Host>(&Options::NONE, &setup, memory).unwrap());
}

/// CPU `idle` allocates and frees a frame, and calls no more. CPU `asks` allocates all memory.
fn takes_all(system: &impl FrameAllocator<Host>, asks: u16, idle: u16) {
    let frame = system.allocate(&mut Lent::new(idle), Request::FRAME);
    let freed = system.free(&mut Lent::new(idle), Release::frame(frame.unwrap()));
    freed.unwrap();
    // In the middle of an operation it is not excluded, and the request gives up.
    let in_operation = Lent::new(idle);
    let mut frames = Vec::new();
    let refused = loop {
        match system.allocate(&mut Lent::new(asks), Request::FRAME) {
            Ok(frame) => frames.push(frame),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AllocateError::Busy);
    assert!(frames.len() < FRAMES as usize);
    drop(in_operation);
    while frames.len() < FRAMES as usize {
        let frame = system.allocate(&mut Lent::new(asks), Request::FRAME);
        frames.push(frame.unwrap());
    }
    let refused = system.allocate(&mut Lent::new(asks), Request::FRAME);
    assert_eq!(refused, Err(AllocateError::Exhausted));
    // The other CPU calls again after all.
    for frame in frames {
        let freed = system.free(&mut Lent::new(idle), Release::frame(frame));
        freed.unwrap();
    }
    system.quiesce(&mut Lent::new(asks)).unwrap();
    let census = system.check(&mut Lent::new(asks)).unwrap();
    assert_eq!(census.free, u64::from(FRAMES));
}

#[test]
fn trees_of_a_cpu_that_calls_no_more_are_released() {
    with_built::<Everybuddy>(|system| takes_all(system, 0, 1));
}

#[test]
fn the_list_of_a_cpu_that_calls_no_more_is_drained() {
    with_built::<Lbs31>(|system| takes_all(system, 2, 3));
}

#[test]
fn cpus_exclude_each_other() {
    with_built::<Everybuddy>(|system| {
        std::thread::scope(|threads| {
            for cpu in 4..8 {
                threads.spawn(move || {
                    let free = |frame: Index| {
                        let freed = system.free(&mut Lent::new(cpu), Release::frame(frame));
                        freed.unwrap();
                    };
                    let mut frames = Vec::new();
                    for step in 0..400 {
                        // Together they want more than there is. The token ends before the frees begin.
                        let result = system.allocate(&mut Lent::new(cpu), Request::FRAME);
                        match result {
                            Ok(frame) => frames.push(frame),
                            Err(_) => {
                                let left = frames.len().saturating_sub(step % 50);
                                frames.drain(left..).for_each(free);
                            }
                        }
                    }
                    frames.into_iter().for_each(free);
                });
            }
        });
        system.quiesce(&mut Lent::new(4)).unwrap();
        let census = system.check(&mut Lent::new(4)).unwrap();
        assert_eq!(census.free, u64::from(FRAMES));
    });
}
