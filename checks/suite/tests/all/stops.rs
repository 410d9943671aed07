//! Serewa's system, with a thread that stops in the middle and never goes on.
//!
//! A service may be killed, or a CPU taken out, between any two operations of a queue. Then no frame may
//! be lost or be in two places: each is allocated, free, in the slot of the stopped thread or owned by it; and all
//! other threads continue.
//!
//! # Invariants
//! A program is run again and again, and stopped at its first, second, third ... operation of a queue, until
//! it runs to its end.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use everybuddy::platform::{NativeCpus, Spin, Waiting};
use everybuddy::{AllocateError, Event, FrameRange, Index, Pfn, Platform, Release, Request, Setup};
use everybuddy_suite::platform::{timed_by, waiting_by};
use everybuddy_suite::{Cpu, Machine, System, claim, free_frames, on};

const FRAMES: u64 = 64;

/// What a stopped thread unwinds with.
struct Stopped;

/// Returns a listener that stops its thread once, after `left` operations of a queue.
fn stops_after(mut left: u32) -> Box<dyn FnMut(Event)> {
    let mut stopped = false;
    Box::new(move |event| {
        if let (Event::Queue { .. }, false) = (event, stopped) {
            if left == 0 {
                stopped = true;
                panic_any(Stopped);
            }
            left -= 1;
        }
    })
}

/// Waits briefly: a stopped thread never answers.
fn briefly(attempt: u32) {
    Spin::pause(attempt.min(1));
}

/// What one run of the program came to.
struct Ran {
    finished: bool,
    waiting: u64,
}

/// Requests and releases of all kinds, services in between; `held` is what was given and not asked back.
fn program(system: &System<'_>, cpu: &mut Cpu, held: &mut HashSet<u32>) {
    let mut runs: Vec<(Index, u32)> = Vec::new();
    for (step, frames) in [1, 5, 2, 8, 3, 1, 1, 13].into_iter().enumerate() {
        if let Ok(start) = system.allocate(cpu, Request::frames(frames)) {
            for frame in start.0..start.0 + frames {
                assert!(held.insert(frame), "frame {frame:#x} was given twice");
            }
            runs.push((start, frames));
        }
        if step % 3 == 2 {
            let (start, frames) = runs.swap_remove(0);
            // In two parts; what is being freed belongs to no caller.
            let part = 1 + frames / 3;
            for (start, frames) in [(start, part), (Index(start.0 + part), frames - part)] {
                (start.0..start.0 + frames).for_each(|frame| {
                    held.remove(&frame);
                });
                if frames > 0 {
                    system.free(cpu, Release::frames(start, frames)).unwrap();
                }
            }
        }
        if step % 2 == 1 {
            system.serve(cpu, step / 2 % 2, 2);
        }
    }
    system.quiesce(cpu).unwrap();
}

/// Runs the program until it stops, then sees what is left.
fn run(name: &str, stop_after: u32, system: &System<'_>) -> Ran {
    let cpus = NativeCpus::new(2);
    let mut held = HashSet::new();
    let mut first = claim(&cpus, 0);
    first.probe().listener = Some(stops_after(stop_after));
    let program = AssertUnwindSafe(|| program(system, &mut first, &mut held));
    let finished = match catch_unwind(program) {
        Ok(()) => true,
        Err(panic) if panic.is::<Stopped>() => false,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    // The first CPU is never heard of again.
    let mut other = claim(&cpus, 1);
    let stop = stop_after;
    let sum = |cpu: &mut Cpu| {
        let census = system
            .check(cpu)
            .unwrap_or_else(|v| panic!("{name} at {stop}: {v}"));
        let sum = census.free + census.queued + census.allocated + census.buffered;
        assert_eq!(sum, FRAMES, "{name} at {stop}: {census:?}");
        assert!(census.allocated >= held.len() as u64, "{census:?}");
        census
    };
    let before = sum(&mut other);
    // Others get everything but what is allocated and what the first had in hand.
    let mut taken = Vec::new();
    let error = loop {
        match system.allocate(&mut other, Request::FRAME) {
            Ok(frame) => {
                assert!(!held.contains(&frame.0), "{name} at {stop}: given twice");
                taken.push(frame);
            }
            Err(error) => break error,
        }
    };
    let after = sum(&mut other);
    assert_eq!(after.free, 0, "{name} at {stop}: {after:?}");
    let lost = after.queued;
    assert!(
        lost < FRAMES,
        "{name} at {stop}: more than one block: {after:?}"
    );
    assert_eq!(taken.len() as u64 + before.allocated + lost, FRAMES);
    // What a slot accounts for may still become free; what the stopped thread owns never does.
    match error {
        AllocateError::Exhausted => {}
        AllocateError::Busy => assert!(lost > 0, "{name} at {stop}: nothing is in hand"),
        error => panic!("{name} at {stop}: {error}"),
    }
    free_frames(system, &mut other, taken);
    sum(&mut other);
    Ran {
        finished,
        waiting: lost,
    }
}

thread_local! {
    /// How often this thread waited.
    static WAITS: Cell<u64> = const { Cell::new(0) };
}

/// A clock by which every wait takes a hundredth of [`Platform::MAX_WAIT`].
fn now() -> Option<u64> {
    Some(WAITS.get() * (Machine::MAX_WAIT / 100))
}

/// Returns how a request is refused, after how many waits, next to a thread that stopped while it linked a frame.
fn refused(stop_after: u32, system: &System<'_>) -> (AllocateError, u64) {
    let cpus = NativeCpus::new(2);
    let mut first = claim(&cpus, 0);
    let frame = system.allocate(&mut first, Request::FRAME).unwrap();
    system.free(&mut first, Release::frame(frame)).unwrap();
    first.probe().listener = Some(stops_after(stop_after));
    let _ = catch_unwind(AssertUnwindSafe(|| system.quiesce(&mut first)));
    let mut other = claim(&cpus, 1);
    for _ in 0..=FRAMES {
        WAITS.set(0);
        if let Err(error) = system.allocate(&mut other, Request::FRAME) {
            return (error, WAITS.get());
        }
    }
    panic!("more frames are allocated than there are");
}

#[test]
fn a_request_beside_a_stopped_thread_is_refused_by_the_clock() {
    hide_stops();
    let ranges = [FrameRange::new(Pfn(0), FRAMES)];
    let setup = Setup::new(&ranges, 2);
    let count = |_| WAITS.set(WAITS.get() + 1);
    let mut busy = 0;
    for stop_after in 0..8 {
        let run = || {
            on("serewa+order=4+queue=8", &setup, |system| {
                refused(stop_after, system)
            })
        };
        let (error, waits) = timed_by(now, || waiting_by(count, run));
        // 64 polls without the clock, and a hundred.
        assert!(waits <= 165, "{waits}");
        if error == AllocateError::Busy {
            assert!(waits >= 100, "{waits}");
            busy += 1;
        }
    }
    assert!(busy > 0, "no thread stopped with the frame in hand");
}

/// Panics are how threads stop here; they are not failures.
fn hide_stops() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Stopped>() {
            hook(info);
        }
    }));
}

#[test]
fn a_thread_that_stops_at_any_operation_of_a_queue_leaves_every_frame_accounted_for() {
    hide_stops();
    let ranges = [FrameRange::new(Pfn(0), FRAMES)];
    let setup = Setup::new(&ranges, 2);
    for text in [
        "serewa+order=4+queue=8",
        "serewa+order=4+queue=1",
        "serewa+order=6+queue=64+structure=list",
        "serewa+order=4+queue=4+sync=lock+structure=bitmap",
    ] {
        let (mut stop_after, mut in_hand) = (0, 0);
        loop {
            let ran = waiting_by(briefly, || {
                on(text, &setup, |system| run(text, stop_after, system))
            });
            if ran.finished {
                break;
            }
            in_hand += u32::from(ran.waiting > 0);
            stop_after += 1;
        }
        assert!(
            stop_after > 20,
            "{text}: only {stop_after} operations of a queue"
        );
        assert!(
            in_hand > 0,
            "{text}: no thread stopped while it owned an area"
        );
        eprintln!("{text}: stopped at {stop_after} places, {in_hand} times with frames in hand");
    }
}
