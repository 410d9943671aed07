//! A platform that lends the token of a CPU between two of its operations.
//!
//! A CPU that never calls again keeps trees or a list. Where its token can be borrowed, no request may fail as busy
//! because of that, and none may wait for an operation that does not end.
//!
//! # Invariants
//! A token of this platform exists during one operation only.

use std::cell::Cell;

use everybuddy::platform::{Bare, Call, Calls, Waiting};
use everybuddy::systems::{Everybuddy, Lbs31, Options, layout};
use everybuddy::{
    AllocateError, CpuId, CpuToken, Flags, FrameAllocator, FrameRange, Index, Memory, Pfn, Release,
    Request, Setup, System, build,
};

/// The CPUs of each test have numbers of their own, since the tests run simultaneously.
const CPUS: u16 = 16;

static CALLS: Calls<{ CPUS as usize }> = Calls::new();

/// The right to act as a CPU, during one operation.
struct Lent(Call);

impl Lent {
    fn new(cpu: u16) -> Self {
        Self(CALLS.begin(CpuId(cpu)))
    }
}

impl CpuToken for Lent {
    fn id(&self) -> CpuId {
        self.0.cpu()
    }

    fn exclude(&self, cpu: CpuId) -> Option<Self> {
        CALLS.try_begin(cpu).map(Self)
    }
}

/// What passes while a CPU waits once, in nanoseconds.
const PAUSE: u64 = 10_000;

thread_local! {
    /// How often this thread waited.
    static PAUSES: Cell<u64> = const { Cell::new(0) };
}

/// Waits as a thread does that can be stopped in an operation, on a clock of its own.
struct Yield;

impl Waiting for Yield {
    fn pause(_: u32) {
        PAUSES.set(PAUSES.get() + 1);
        std::thread::yield_now();
    }

    fn now() -> Option<u64> {
        Some(PAUSES.get() * PAUSE)
    }
}

type Host = Bare<Lent, Yield>;

const FRAMES: u32 = 256;

fn with_built<S: System>(frames: u32, body: impl FnOnce(&S::Built<'_, Host>)) {
    let ranges = [FrameRange::new(Pfn(0), frames.into())];
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
    with_built::<Everybuddy>(FRAMES, |system| takes_all(system, 0, 1));
}

#[test]
fn the_list_of_a_cpu_that_calls_no_more_is_drained() {
    with_built::<Lbs31>(FRAMES, |system| takes_all(system, 2, 3));
}

/// CPUs 9 to 15 are stopped in an operation. A request of CPU 8 does not wait for each of them.
fn waits_briefly(system: &impl FrameAllocator<Host>) {
    let stopped: Vec<_> = (9..CPUS)
        .map(|cpu| {
            let frame = system.allocate(&mut Lent::new(cpu), Request::FRAME);
            let freed = system.free(&mut Lent::new(cpu), Release::frame(frame.unwrap()));
            freed.unwrap();
            Lent::new(cpu)
        })
        .collect();
    let mut own = Lent::new(8);
    let no_wait = Request::FRAME.with_flags(Flags::NO_WAIT);
    while system.allocate(&mut own, no_wait).is_ok() {}
    assert_eq!(PAUSES.get(), 0);
    let refused = system.allocate(&mut own, Request::FRAME);
    assert_eq!(refused, Err(AllocateError::Busy));
    let waited = PAUSES.replace(0) * PAUSE;
    assert!((1_000_000..=3_000_000).contains(&waited), "{waited} ns");
    drop(stopped);
    // They are idle now: it does not wait at all.
    let served = system.allocate(&mut own, Request::FRAME);
    assert_eq!((served.is_ok(), PAUSES.get()), (true, 0));
}

#[test]
fn a_request_beside_stopped_cpus_is_refused_within_milliseconds() {
    with_built::<Everybuddy>(1 << 14, |system| waits_briefly(system));
    with_built::<Lbs31>(1 << 14, |system| waits_briefly(system));
}

#[test]
fn cpus_exclude_each_other() {
    with_built::<Everybuddy>(FRAMES, |system| {
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
