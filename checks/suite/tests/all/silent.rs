//! A CPU that neither calls nor parks: its frames are unavailable, and the lists of all other CPUs are still drained.
//! One that calls answers, even if all its operations hit.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, CpuId, Flags, FrameRange, Kept, Order, Pfn, Platform, Reason, RegionError,
    Release, Request, Setup,
};
use everybuddy_suite::platform::{timed_by, waiting_by};
use everybuddy_suite::{Cpu, Machine, System, allocate_frames, claim, free_frames, on, on_cpus};

/// Runs with CPU 1 silent.
fn silence(system: &System<'_>) {
    let set = NativeCpus::new(3);
    let mut cpus: Vec<Cpu> = (0..3).map(|id| claim(&set, id)).collect();
    // CPUs 1 and 2 keep four frames each. Only CPU 2 parks.
    for cpu in &mut cpus[1..] {
        let held: Vec<_> = allocate_frames(system, cpu, 4);
        held.iter()
            .for_each(|frame| system.free(cpu, Release::frame(*frame)).unwrap());
    }
    system.park(&mut cpus[2]);
    let kept = system.snapshot(&mut cpus[0]).buffered_frames;
    assert!(kept >= 8, "{kept}");

    let mut held = Vec::new();
    let error = loop {
        match system.allocate(&mut cpus[0], Request::FRAME) {
            Ok(frame) => held.push(frame),
            Err(error) => break error,
        }
    };
    assert_eq!(error, AllocateError::Busy, "frames may exist");
    let left = system.snapshot(&mut cpus[0]).buffered_frames;
    assert_eq!(
        held.len() as u64,
        64 - left,
        "all but what the silent CPU keeps"
    );
    assert!(left >= 4 && left < kept);
    let flags = Flags::NO_WAIT;
    let hasty = system.allocate(&mut cpus[0], Request::FRAME.with_flags(flags));
    assert_eq!(hasty, Err(AllocateError::Busy));
    let nested = system.allocate_nested(CpuId(0), Request::FRAME);
    assert_eq!(nested, Err(AllocateError::Busy));
    assert_eq!(system.quiesce(&mut cpus[0]), Err(AllocateError::Busy));
    let range = FrameRange::new(Pfn(0), 64);
    assert_eq!(system.remove(&mut cpus[0], range), Err(RegionError::Busy));
    // Whatever was busy, one call names the CPU.
    let shortage = system.shortage(&mut cpus[0], Request::FRAME);
    let silent = Some(Kept {
        cpu: CpuId(1),
        frames: left,
    });
    assert_eq!((shortage.kept, shortage.reason()), (silent, Reason::Lists));
    assert_eq!(system.kept_by_others(CpuId(0), Order::ZERO), silent);
    assert_eq!(system.kept_by_others(CpuId(1), Order::ZERO), None);

    // It parks: now the rest is found, and then memory is exhausted for good.
    system.park(&mut cpus[1]);
    while let Ok(frame) = system.allocate(&mut cpus[0], Request::FRAME) {
        held.push(frame);
    }
    assert_eq!(held.len(), 64);
    let error = system.allocate(&mut cpus[0], Request::FRAME).unwrap_err();
    assert_eq!(error, AllocateError::Exhausted);
}

/// Systems with lists that other CPUs ask for, and small marks.
const LISTS: [&str; 4] = [
    "lbs-31+batch=2+high=8",
    "lbs-1+high=6",
    "spring+high=16",
    "linux-6",
];

#[test]
fn a_silent_cpu_is_given_up_and_the_others_are_found() {
    let ranges = [FrameRange::new(Pfn(0), 64)];
    for name in LISTS {
        // It does not wait at all: no CPU here will answer.
        waiting_by(|_| (), || on(name, &Setup::new(&ranges, 3), silence));
    }
}

#[test]
fn the_first_operation_of_a_parked_cpu_ends_parking() {
    let ranges = [FrameRange::new(Pfn(0), 64)];
    for name in LISTS.into_iter().chain(["magazines+batch=4"]) {
        on_cpus(name, &ranges, |system, [own, other]| {
            let mut held = vec![system.allocate(own, Request::FRAME).unwrap()];
            for allocates in [true, false] {
                system.park(own);
                assert_eq!(system.drain_parked(other, CpuId(0)), Ok(()), "{name}");
                system.park(own);
                if allocates {
                    held.push(system.allocate(own, Request::FRAME).unwrap())
                } else {
                    let frame = held.swap_remove(0);
                    system.free(own, Release::frame(frame)).unwrap();
                }
                let refused = system.drain_parked(other, CpuId(0));
                assert_eq!(refused, Err(AllocateError::Busy), "{name}");
            }
        });
    }
}

/// The requester closes the list, so that the next operation of its owner misses.
#[test]
fn a_cpu_whose_operations_all_hit_answers() {
    let ranges = [FrameRange::new(Pfn(0), 4)];
    for name in [
        "lbs-31+batch=4+high=8",
        "spring+high=16",
        "magazines+batch=4",
    ] {
        on(name, &Setup::new(&ranges, 2), |system| {
            let set = &NativeCpus::new(2);
            let [keeps_all, is_served] = &[(); 2].map(|()| AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let mut cpu = claim(set, 1);
                    while !is_served.load(Ordering::Relaxed) {
                        if let Ok(frame) = system.allocate(&mut cpu, Request::FRAME) {
                            system.free(&mut cpu, Release::frame(frame)).unwrap();
                        }
                        keeps_all.store(true, Ordering::Relaxed);
                        std::thread::yield_now();
                    }
                });
                while !keeps_all.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                let served = system.allocate(&mut claim(set, 0), Request::FRAME);
                is_served.store(true, Ordering::Relaxed);
                assert!(served.is_ok(), "{name}: {served:?}");
            });
        });
    }
}

/// Returns how often a request that finds nothing waits if `silent` CPUs keep frames and do not answer.
fn waits(name: &str, silent: u16) -> u64 {
    static WAITS: AtomicU64 = AtomicU64::new(0);
    let ranges = [FrameRange::new(Pfn(0), 1024)];
    let setup = Setup::new(&ranges, silent + 1);
    let count = |system: &System<'_>| {
        let set = NativeCpus::new(silent + 1);
        let mut cpus: Vec<Cpu> = (0..=silent).map(|id| claim(&set, id)).collect();
        for cpu in &mut cpus[1..] {
            let frame = system.allocate(cpu, Request::FRAME).unwrap();
            system.free(cpu, Release::frame(frame)).unwrap();
        }
        let no_wait = Request::FRAME.with_flags(Flags::NO_WAIT);
        while system.allocate(&mut cpus[0], no_wait).is_ok() {}
        WAITS.store(0, Ordering::Relaxed);
        let refused = system.allocate(&mut cpus[0], Request::FRAME);
        assert_eq!(refused, Err(AllocateError::Busy));
        WAITS.load(Ordering::Relaxed)
    };
    waiting_by(
        |_| {
            WAITS.fetch_add(1, Ordering::Relaxed);
        },
        || on(name, &setup, count),
    )
}

#[test]
fn silent_cpus_are_waited_for_together() {
    for name in LISTS.into_iter().chain(["everybuddy", "magazines+batch=4"]) {
        let one = waits(name, 1);
        assert!(one > 1000, "{name}: {one}");
        assert_eq!(waits(name, 9), one, "{name}");
    }
}

thread_local! {
    /// What the clock shows, and how often it was read.
    static TIME: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// How often this thread waited.
    static PAUSES: Cell<u64> = const { Cell::new(0) };
    /// What passes while it waits.
    static PAUSE: Cell<u64> = const { Cell::new(0) };
}

/// What passes while a CPU waits: a yield on a loaded machine; a few instructions, so that there is time for twice
/// [`Platform::MAX_POLLS`] polls.
const PAUSES_OF: [u64; 2] = [
    4_000_000,
    Machine::MAX_WAIT / (2 * Machine::MAX_POLLS as u64),
];

/// Reads the clock of this thread.
fn now() -> Option<u64> {
    let (time, reads) = TIME.get();
    TIME.set((time, reads + 1));
    Some(time)
}

/// Returns how often requests of all kinds pause next to a CPU that neither parks nor calls, and read the clock.
fn pauses_and_reads(system: &System<'_>) -> (u64, u64) {
    TIME.set((0, 0));
    let set = NativeCpus::new(2);
    let mut cpus: Vec<Cpu> = (0..2).map(|id| claim(&set, id)).collect();
    let held: Vec<_> = allocate_frames(system, &mut cpus[1], 4);
    free_frames(system, &mut cpus[1], held);
    let no_wait = Request::FRAME.with_flags(Flags::NO_WAIT);
    while system.allocate(&mut cpus[0], no_wait).is_ok() {}
    assert_eq!(TIME.get().1, 0, "the clock is not read without a wait");
    let mut most = (0, 0);
    let range = FrameRange::new(Pfn(0), 64);
    let requests: [&dyn Fn(&mut Cpu) -> bool; 4] = [
        &|cpu| system.allocate(cpu, Request::FRAME) == Err(AllocateError::Busy),
        &|cpu| system.remove(cpu, range) == Err(RegionError::Busy),
        &|cpu| system.allocate_at(cpu, range) == Err(RegionError::Busy),
        &|cpu| system.quiesce(cpu) == Err(AllocateError::Busy),
    ];
    for request in requests {
        TIME.set((0, 0));
        PAUSES.set(0);
        let is_busy = request(&mut cpus[0]);
        // `everybuddy` has nothing to wait for when it becomes quiet.
        assert!(is_busy || PAUSES.get() == 0);
        most = most.max((PAUSES.get(), TIME.get().1));
    }
    most
}

#[test]
fn a_wait_ends_by_the_clock_where_there_is_one() {
    let pause = |_| {
        PAUSES.set(PAUSES.get() + 1);
        let (time, reads) = TIME.get();
        TIME.set((time + PAUSE.get(), reads));
    };
    let ranges = [FrameRange::new(Pfn(0), 64)];
    let setup = Setup::new(&ranges, 2);
    for name in LISTS.into_iter().chain(["everybuddy", "magazines+batch=4"]) {
        for nanoseconds in PAUSES_OF {
            PAUSE.set(nanoseconds);
            let timed = || on(name, &setup, pauses_and_reads);
            let (pauses, reads) = timed_by(now, || waiting_by(pause, timed));
            // 64 polls without the clock, and a second.
            let second = Machine::MAX_WAIT.div_ceil(nanoseconds);
            assert!(
                (second..=second + 65).contains(&pauses),
                "{name}: {pauses} pauses"
            );
            assert!(
                reads <= second + 2,
                "{name}: the clock was read {reads} times"
            );
        }
        let (pauses, _) = waiting_by(pause, || on(name, &setup, pauses_and_reads));
        let most = u64::from(Machine::MAX_POLLS);
        assert_eq!(pauses, most, "{name}");
    }
}
