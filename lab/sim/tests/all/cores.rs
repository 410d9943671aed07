//! Virtual CPUs that share cores: slices, queues and waiters, computed by hand.

use everybuddy::platform::AtomicWord;
use everybuddy::{CpuToken, Platform, RawLock, SpinLock};
use everybuddy_sim::{Cores, Flat, Machine, Region, Report, Sim, SimAtomicU32, SimCpu, SimError};

use crate::common::with_memory;

type Here = Sim;

fn run<T>(cpus: u16, cores: Cores, body: impl Fn(&mut SimCpu) -> T) -> Result<Report<T>, SimError> {
    let mut machine = Machine::new(cpus).cost(Flat::new(10)).limit(1 << 30);
    machine = machine.cores(cores);
    machine.run(Region::NONE, body)
}

#[test]
fn two_cpus_alternate_by_slices_to_the_cycle() {
    // Slices of 100 cycles; a switch takes 7. Each CPU works in pieces of 30 cycles.
    let cores = Cores::new(1).slice(100).switch_cost(7);
    let report = run(2, cores, |cpu: &mut SimCpu| {
        let times = (0..10).map(|_| {
            cpu.work(30);
            cpu.now()
        });
        times.collect::<Vec<u64>>()
    })
    .unwrap();
    // CPU 0 runs in 0..100, 214..314 and 428..528; CPU 1 in 107..207, 321..421 and 535..635.
    let first = [30, 60, 90, 234, 264, 294, 438, 468, 498];
    assert_eq!(report.results[0][..9], first);
    let second = [137, 167, 197, 341, 371, 401, 545, 575, 605];
    assert_eq!(report.results[1][..9], second);
    // The tenth piece fills the third slice of each, so both notice its end in their next slice: CPU 0 at 642 after a
    // switch. It ends, and CPU 1 follows after another switch.
    assert_eq!((report.results[0][9], report.results[1][9]), (642, 649));
    assert_eq!(report.cpus[0].preemptions, 3);
    assert_eq!(report.cpus[1].preemptions, 3);
}

#[test]
fn cpus_on_their_own_cores_run_as_without_cores() {
    let body = |cpu: &mut SimCpu| {
        cpu.work(u32::from(cpu.id().0) * 10);
        cpu.barrier();
        cpu.work(55);
        cpu.now()
    };
    let shared = run(4, Cores::new(4).slice(7), body).unwrap();
    let mut machine = Machine::new(4).cost(Flat::new(10));
    let alone = machine.run(Region::NONE, body).unwrap();
    assert_eq!(shared.results, alone.results);
    assert_eq!(shared.cpus, alone.cpus);
}

#[test]
fn work_is_preempted_inside_and_shared_fairly() {
    // Three CPUs with 10, 20 and 30 slices of work in one call.
    let report = run(3, Cores::new(1).slice(1000), |cpu: &mut SimCpu| {
        cpu.work(10_000 * u32::from(cpu.id().0 + 1));
        cpu.now()
    })
    .unwrap();
    // Ten turns of three slices, then ten of two, then ten slices. A CPU whose work is done with its slice notices that
    // in its next turn.
    assert_eq!(report.results, [30_000, 50_000, 60_000]);
    let queued: Vec<u64> = report.cpus.iter().map(|cpu| cpu.queued_cycles).collect();
    assert_eq!(queued, [20_000, 30_000, 30_000]);
}

#[test]
fn a_preempted_holder_delays_a_waiter_on_another_core() {
    // CPUs 0 and 2 share core 0, CPU 1 has core 1. CPU 0 takes the lock immediately and holds it for 150 cycles of its
    // own, in slices of 100: it is preempted once, while CPU 2 runs for 100 cycles.
    let lock = SpinLock::<Here>::new();
    let cores = Cores::new(2).slice(100).switch_cost(3);
    let report = run(3, cores, |cpu: &mut SimCpu| match cpu.id().0 {
        2 => {
            cpu.work(1000);
            cpu.now()
        }
        id => {
            cpu.work(20 * u32::from(id));
            let (state, _) = lock.lock();
            let now = cpu.now();
            cpu.work(150);
            lock.unlock(&state);
            now
        }
    })
    .unwrap();
    // It locks until 10 and works until 100, then from 206 to 266, where it unlocks.
    assert_eq!(report.results[0], 10);
    // The waiter sees that immediately. Its wake-up, load and exchange take 10 cycles each.
    assert_eq!(report.results[1], 266 + 10 + 10 + 10);
    assert_eq!(report.cpus[1].parks, 1);
}

#[test]
fn a_holder_that_disables_preemption_is_preempted_when_it_enables_it() {
    // As above. CPU 0 holds the lock beyond the end of its slice, and then has 500 cycles of work left.
    let lock = SpinLock::<Here>::new();
    let report = run(3, Cores::new(2).slice(100).switch_cost(3), |cpu| {
        match cpu.id().0 {
            2 => cpu.work(1000),
            id => {
                cpu.work(20 * u32::from(id));
                cpu.disable_preemption();
                let (state, _) = lock.lock();
                cpu.work(150);
                lock.unlock(&state);
                cpu.enable_preemption();
                cpu.work(500 * u32::from(1 - id));
            }
        }
        cpu.now()
    })
    .unwrap();
    // It unlocks until 170, and CPU 2 runs from 173 to 273. The two take turns: CPU 0 runs from 276, 482, 688, 894 and
    // 1100 for 100 cycles each, and ends in its next turn, at 1306. CPU 2 has run for 600 cycles then, and has 400
    // left.
    assert_eq!(report.results[0], 1306);
    assert_eq!(report.results[2], 1309 + 400);
    // The lock is released from 160 on. The waiter's wake-up, load and exchange take 10 cycles each; it works and
    // unlocks.
    assert_eq!(report.results[1], 160 + 10 + 10 + 10 + 150 + 10);
    assert_eq!(report.cpus[0].preemptions, 6);
}

#[test]
fn preemption_that_is_enabled_between_two_calls_is_enough() {
    // Each call takes longer than a slice, and nothing happens between two calls.
    let report = run(2, Cores::new(1).slice(100), |cpu| {
        let mut ends = Vec::new();
        for _ in 0..3 {
            cpu.disable_preemption();
            cpu.work(150);
            ends.push(cpu.now());
            cpu.enable_preemption();
        }
        ends
    })
    .unwrap();
    let ends: [Vec<u64>; 2] = [vec![150, 450, 750], vec![300, 600, 900]];
    assert_eq!(report.results, ends);
}

#[test]
fn a_waiter_that_disables_preemption_keeps_its_core() {
    // CPU 0 and CPU 2 share a core, and CPU 1 holds the lock for longer than a slice. CPU 2 waits until CPU 0 has the
    // lock and enables preemption.
    let lock = SpinLock::<Here>::new();
    let report = run(3, Cores::new(2).slice(100), |cpu| {
        if cpu.id().0 == 2 {
            return cpu.now();
        }
        cpu.work(20 * u32::from(1 - cpu.id().0));
        cpu.disable_preemption();
        let (state, _) = lock.lock();
        cpu.work(400 * u32::from(cpu.id().0));
        lock.unlock(&state);
        cpu.enable_preemption();
        cpu.work(0);
        cpu.now()
    })
    .unwrap();
    // CPU 1 unlocks from 410 to 420. CPU 0 is woken, loads, exchanges and unlocks.
    let unlocks = 410 + 10 + 10 + 10 + 10;
    assert_eq!(report.results[1], 420);
    assert_eq!(report.results[2], unlocks);
    assert_eq!(report.cpus[0].preemptions, 1);
    assert_eq!(report.results[0], unlocks);
}

#[test]
fn a_waiter_spins_until_its_slice_ends() {
    // The waiter and the holder share a core.
    let lock = SpinLock::<Here>::new();
    let spinning = run(2, Cores::new(1).slice(100), |cpu: &mut SimCpu| {
        if cpu.id().0 == 1 {
            let (state, _) = lock.lock();
            lock.unlock(&state);
            return cpu.now();
        }
        let (state, _) = lock.lock();
        cpu.work(190);
        lock.unlock(&state);
        cpu.now()
    })
    .unwrap();
    // CPU 0 runs in 0..100 and holds for 100 cycles more. CPU 1 tries in 100..130 and spins until 200. CPU 0 works
    // until its slice ends at 300, CPU 1 spins until 400. CPU 0 unlocks until 410 and ends. CPU 1 loads, locks and
    // unlocks.
    assert_eq!(spinning.cpus[1].preemptions, 2);
    assert_eq!(spinning.results, [410, 440]);
}

#[test]
fn deadlocks_and_endless_loops_end() {
    let word = SimAtomicU32::new(0);
    let wait = |_: &mut SimCpu| Here::wait(&word, 0, 0);
    let error = run(2, Cores::new(2), wait);
    assert!(matches!(error, Err(SimError::Deadlock { .. })), "{error:?}");
    // Two that spin on one core take turns for ever.
    let error = run(2, Cores::new(1), wait).unwrap_err();
    assert!(matches!(error, SimError::TimeLimit { ref waiting, .. } if waiting.len() == 2));
}

#[test]
fn systems_run_on_shared_cores_and_repeat() {
    use everybuddy::{Release, Request};
    for system in ["lbs-31", "is", "spring", "serewa"] {
        let run = || {
            with_memory(system, 6, 4096, 0, |region, built| {
                let cores = Cores::new(2).slice(700).switch_cost(50);
                let mut machine = Machine::new(6).jitter(5).cores(cores).limit(1 << 30);
                let body = |cpu: &mut SimCpu| {
                    for _ in 0..20 {
                        let frames: Vec<_> = (0..10)
                            .map(|_| built.allocate(cpu, Request::FRAME).unwrap())
                            .collect();
                        for frame in frames {
                            built.free(cpu, Release::frame(frame)).unwrap();
                        }
                    }
                    built.park(cpu);
                };
                let report = machine.run(region, body).unwrap();
                machine.outside(|cpus: &mut [SimCpu]| {
                    built.quiesce(&mut cpus[0]).unwrap();
                    assert_eq!(built.check(&mut cpus[0]).unwrap().free, 4096);
                });
                report
            })
        };
        let report = run();
        assert_eq!(report, run(), "{system}");
        assert!(report.cpus.iter().all(|cpu| cpu.preemptions > 0));
    }
}
