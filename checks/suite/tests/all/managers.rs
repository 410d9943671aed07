//! Serewa's services: what each does, and two managers, both of which serve a CPU that no longer waits.
//!
//! A manager that finds nothing waits as long as another one may still free the block of a late answer. Two managers
//! in this state must not wait for each other.
//!
//! # Invariants
//! Memory is exhausted, so neither manager can answer. One of them finishes without waiting while the other is
//! stopped. Nothing is timed: a manager stops when its probe says that it has looked for a block.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everybuddy::platform::{NativeCpus, Spin, Waiting};
use everybuddy::{AllocateError, CpuId, Event, FrameRange, Pfn, Progress, Release, Request, Setup};
use everybuddy_suite::platform::waiting_by;
use everybuddy_suite::{System, claim, free_frames, on, on_cpus};

const FRAMES: u64 = 16;
const MANAGER: usize = 2;

/// The moments of one manager.
#[derive(Default)]
struct Moments {
    /// It has a request, and has found no block.
    stops: AtomicBool,
    /// The caller has left.
    may_go_on: AtomicBool,
}

/// Lets the managers go on at the end, also after a failed assertion.
struct End(Vec<Arc<Moments>>);

impl Drop for End {
    fn drop(&mut self) {
        for moments in &self.0 {
            moments.may_go_on.store(true, Ordering::Release);
        }
    }
}

thread_local! {
    /// Whether the manager of this thread has stopped: from then on it must not wait.
    static HAS_STOPPED: Cell<bool> = const { Cell::new(false) };
}

/// Lets a manager take a request that waits. Most waits here end only after thousands of polls, so these are short.
fn give_way(attempt: u32) {
    match attempt {
        0..16 => std::thread::yield_now(),
        _ => Spin::pause(0),
    }
}

/// What a manager does while it waits.
fn before_the_stop(attempt: u32) {
    let waits = HAS_STOPPED.get();
    assert!(!waits, "a manager waits, although its caller has left");
    give_way(attempt);
}

/// Serves one request, and stops once it has found no block. Afterwards it must not wait.
fn manage(system: &System<'_>, cpus: &NativeCpus, id: u16, moments: &Arc<Moments>) {
    let mut cpu = claim(cpus, id);
    let own = Arc::clone(moments);
    cpu.probe().listener = Some(Box::new(move |event| {
        if event == Event::Unlock && !own.stops.swap(true, Ordering::AcqRel) {
            while !own.may_go_on.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            HAS_STOPPED.set(true);
        }
    }));
    waiting_by(before_the_stop, || {
        while system.serve(&mut cpu, MANAGER, 1) == Progress::Idle {
            std::thread::yield_now();
        }
    });
}

/// Requests a frame until the manager has the request, and leaves it.
fn leave(system: &System<'_>, cpus: &NativeCpus, id: u16, moments: &Moments) {
    let mut cpu = claim(cpus, id);
    waiting_by(give_way, || {
        // A request that the manager does not take in time is served here.
        while !moments.stops.load(Ordering::Acquire) {
            let error = system.allocate(&mut cpu, Request::FRAME).unwrap_err();
            assert!(
                matches!(error, AllocateError::Exhausted | AllocateError::Busy),
                "{error}"
            );
        }
    });
    system.park(&mut cpu);
}

#[test]
fn a_manager_whose_caller_has_left_does_not_wait_for_another_one() {
    let ranges = [FrameRange::new(Pfn(0), FRAMES)];
    let spec = "serewa+order=4+queue=8+manager=thread";
    on(spec, &Setup::new(&ranges, 3), |system| {
        let cpus = &NativeCpus::new(5);
        let mut owner = claim(cpus, 2);
        let one = |_| system.allocate(&mut owner, Request::FRAME).unwrap();
        let taken: Vec<_> = (0..FRAMES).map(one).collect();
        assert_eq!(system.quiesce(&mut owner), Ok(()));
        let moments = [Arc::<Moments>::default(), Arc::default()];
        std::thread::scope(|scope| {
            let _end = End(moments.to_vec());
            // Each manager is there for the caller of the same index, which leaves before the next pair begins.
            let managers = [(0, 3), (1, 4)].map(|(caller, manager)| {
                let own = &moments[usize::from(caller)];
                let manager = scope.spawn(move || manage(system, cpus, manager, own));
                leave(system, cpus, caller, own);
                manager
            });
            for (own, manager) in moments.iter().zip(managers) {
                own.may_go_on.store(true, Ordering::Release);
                manager.join().unwrap();
            }
        });
        free_frames(system, &mut owner, taken);
        assert_eq!(system.quiesce(&mut owner), Ok(()));
        let census = system.check(&mut owner).unwrap();
        assert_eq!((census.free, census.allocated), (FRAMES, 0));
        assert_eq!(system.buffered_frames(CpuId(0)), 0);
    });
}

#[test]
fn with_remnants_first_a_request_uses_what_the_last_one_left() {
    for (option, same) in [("", false), ("+remnants=first", true)] {
        let spec = format!("serewa+order=3{option}");
        let ranges = [FrameRange::new(Pfn(0), 64)];
        on_cpus(&spec, &ranges, |system, [cpu]| {
            let [first, second] =
                [(); 2].map(|()| system.allocate(cpu, Request::FRAME).unwrap().0 / 8);
            assert_eq!(first == second, same, "{spec}");
        });
    }
}

#[test]
fn each_service_does_its_own_work() {
    const DIVIDING: usize = 0;
    const LINKING: usize = 1;
    on_cpus(
        "serewa+order=3",
        &[FrameRange::new(Pfn(0), 8)],
        |system, [cpu]| {
            let waiting = |cpu: &mut _| system.snapshot(cpu).buffered_frames;
            let frame = system.allocate(cpu, Request::FRAME).unwrap();
            assert_eq!(waiting(cpu), 7);
            assert_eq!(system.serve(cpu, LINKING, 1), Progress::Idle);
            assert_eq!(system.serve(cpu, DIVIDING, 1), Progress::More);
            assert_eq!(waiting(cpu), 0);
            system.free(cpu, Release::frame(frame)).unwrap();
            assert_eq!(waiting(cpu), 1);
            assert_eq!(system.serve(cpu, DIVIDING, 1), Progress::Idle);
            assert_eq!(system.serve(cpu, LINKING, 1), Progress::More);
            assert_eq!(waiting(cpu), 0);
        },
    );
}

/// A nested caller cannot wait for the lock of a queue: what it frees is linked by itself, or not at all.
#[test]
fn only_a_queue_without_a_lock_takes_what_a_nested_caller_frees() {
    for (sync, waits) in [("ring", 1), ("lock", 0)] {
        let spec = format!("serewa+order=3+sync={sync}");
        let ranges = [FrameRange::new(Pfn(0), 8)];
        on_cpus(&spec, &ranges, |system, [cpu]| {
            let frame = system.allocate(cpu, Request::FRAME).unwrap();
            assert_eq!(system.quiesce(cpu), Ok(()));
            system.free_nested(CpuId(0), Release::frame(frame)).unwrap();
            assert_eq!(system.snapshot(cpu).buffered_frames, waits, "{spec}");
        });
    }
}
