//! Serewa's manager on a thread, which stops in the middle of a request until its caller has left.
//!
//! What the manager allocated for that caller belongs to no CPU. Whether other CPUs find it must not depend on the
//! caller, which may never call again.
//!
//! # Invariants
//! While the manager has the block, no request fails as exhausted. Afterwards every frame is free. Nothing is timed:
//! the manager waits for the caller's error, and its probe says when it stops.

use std::sync::atomic::{AtomicBool, Ordering};

use everybuddy::platform::{NativeCpus, Spin, Waiting};
use everybuddy::{AllocateError, CpuId, Event, FrameRange, Pfn, Progress, Release, Request, Setup};
use everybuddy_suite::platform::waiting_by;
use everybuddy_suite::{System, claim, on};

use crate::two_cpus::{allocate, free};

const FRAMES: u64 = 64;
const MANAGER: usize = 2;

/// Waits briefly, for a thread that has stopped or is about to stop.
fn briefly(attempt: u32) {
    Spin::pause(attempt.min(1));
}

/// The moments of the program.
#[derive(Default)]
struct Moments {
    /// The manager has allocated the block.
    has_block: AtomicBool,
    /// The caller has left, and another CPU has seen that.
    may_go_on: AtomicBool,
}

/// Lets the manager go on at the end, also after a failed assertion.
struct End(&'static Moments);

impl Drop for End {
    fn drop(&mut self) {
        self.0.may_go_on.store(true, Ordering::Release);
    }
}

fn wait_for(moment: &AtomicBool) {
    while !moment.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// Serves one request, and stops after its allocation until it may go on.
fn manage(system: &System<'_>, cpus: &NativeCpus, moments: &'static Moments) {
    let mut cpu = claim(cpus, 2);
    system.serve(&mut cpu, MANAGER, 1);
    cpu.probe().listener = Some(Box::new(move |event| {
        if event == Event::Unlock && !moments.has_block.swap(true, Ordering::AcqRel) {
            wait_for(&moments.may_go_on);
        }
    }));
    while system.serve(&mut cpu, MANAGER, 1) == Progress::Idle {
        std::thread::yield_now();
    }
}

#[test]
fn frames_of_a_late_answer_are_free_once_the_manager_has_finished() {
    let ranges = [FrameRange::new(Pfn(0), FRAMES)];
    let spec = "serewa+order=4+queue=8+manager=thread";
    on(spec, &Setup::new(&ranges, 2), |system| {
        let cpus = &NativeCpus::new(3);
        let moments: &'static Moments = Box::leak(Box::default());
        std::thread::scope(|scope| {
            let manager = scope.spawn(move || manage(system, cpus, moments));
            let end = End(moments);
            let (mut caller, mut other) = (claim(cpus, 0), claim(cpus, 1));
            waiting_by(briefly, || {
                // Until the manager is seen, requests are served here.
                let left = loop {
                    match system.allocate(&mut caller, Request::frames(3)) {
                        Ok(run) => {
                            system.free(&mut caller, Release::frames(run, 3)).unwrap();
                            // Whole blocks again: the manager finds one at its first look.
                            system.quiesce(&mut caller).unwrap();
                        }
                        Err(error) => break error,
                    }
                };
                assert_eq!(left, AllocateError::Busy);
                assert!(moments.has_block.load(Ordering::Acquire));
                system.park(&mut caller);
                // The manager has three frames and may still free them. A nested request does not wait for that.
                let taken = allocate(system, &mut other, FRAMES - 3);
                let nested = system.allocate_nested(CpuId(1), Request::FRAME);
                assert_eq!(nested, Err(AllocateError::Busy));
                free(system, &mut other, &taken);
            });
            drop(end);
            manager.join().unwrap();
            // The first CPU never calls again.
            assert_eq!(system.quiesce(&mut other), Ok(()));
            let census = system.check(&mut other).unwrap();
            assert_eq!((census.free, census.allocated), (FRAMES, 0));
            let taken = allocate(system, &mut other, FRAMES);
            let error = system.allocate(&mut other, Request::FRAME);
            assert_eq!(error, Err(AllocateError::Exhausted));
            free(system, &mut other, &taken);
            system.remove(&mut other, ranges[0]).unwrap();
        });
        assert_eq!(system.buffered_frames(CpuId(0)), 0);
    });
}
