//! Tests of the machine: order, waiting, errors and panics.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use everybuddy::platform::{AtomicWord, Ordering::Relaxed, SharedCell};
use everybuddy::{CpuId, CpuToken, Platform, RawLock, SpinLock};
use everybuddy_sim::{
    Cores, Flat, Line, Machine, Region, Sim, SimAtomicU32, SimAtomicU64, SimCell, SimCpu, SimError,
    Waiting,
};

use crate::common::{failed, ran};

type Here = Sim;

#[test]
fn accesses_are_counted_and_charged() {
    let (cell, word) = (SimCell::<u16>::new(1), SimAtomicU64::new(1));
    let report = ran(Machine::new(1).cost(Flat::new(7)), |cpu| {
        cell.set(cell.get() + 1);
        word.store(word.load(Relaxed) + 1, Relaxed);
        assert_eq!(word.swap(5, Relaxed), 2);
        assert_eq!(word.compare_exchange(4, 6, Relaxed, Relaxed), Err(5));
        assert_eq!(word.fetch_add(2, Relaxed), 5);
        assert_eq!(word.fetch_sub(1, Relaxed), 7);
        assert_eq!(cpu.now(), 8 * 7);
        cpu.work(44);
        cpu.now()
    });
    assert_eq!(report.results, [100]);
    let cpu = report.cpus[0];
    assert_eq!(
        (cpu.loads, cpu.stores, cpu.read_modify_writes, cpu.cycles),
        (2, 2, 4, 100)
    );
    assert_eq!(report.accesses(), 8);
    assert_eq!(report.switches, 0);
    assert_eq!(report.cycles(), 100);
    assert_eq!(
        (cell.get(), word.load(Relaxed)),
        (2, 6),
        "outside a run: not charged, but visible"
    );
}

#[test]
fn the_smallest_clock_runs_next() {
    let order = RefCell::new(Vec::new());
    let word = SimAtomicU32::new(0);
    ran(Machine::new(3).cost(Flat::new(10)), |cpu| {
        let id = cpu.id().0;
        cpu.work(100 - 30 * u32::from(id)); // CPUs start at 100, 70, 40.
        for _ in 0..4 {
            order.borrow_mut().push((cpu.now(), id));
            word.fetch_add(1, Relaxed);
        }
    });
    let order = order.into_inner();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(order.len(), 12);
    assert_eq!(order[0], (40, 2));
}

#[test]
fn a_lock_excludes_others_on_every_schedule() {
    for cpus in [4, 8] {
        for jitter in [0, 1, 50] {
            for seed in 0..20 {
                let lock = SpinLock::<Here>::new();
                let (a, b) = (SimCell::<u64>::new(0), SimCell::<u64>::new(0));
                let mut machine = Machine::new(cpus).jitter(jitter).seed(seed);
                let report = machine
                    .run(Region::NONE, |_: &mut SimCpu| {
                        for _ in 0..50 {
                            let ((), _) = lock.lock();
                            let value = a.get();
                            assert_eq!(value, b.get());
                            a.set(value + 1);
                            b.set(value + 1);
                            lock.unlock(&());
                        }
                    })
                    .unwrap();
                assert_eq!(a.get(), 50 * u64::from(cpus));
                assert!(
                    report.cpus.iter().any(|cpu| cpu.parks > 0),
                    "no CPU ever waited"
                );
            }
        }
    }
}

#[test]
fn without_a_lock_updates_get_lost() {
    let cell = SimCell::<u64>::new(0);
    let body = |_: &mut SimCpu| (0..50).for_each(|_| cell.set(cell.get() + 1));
    ran(Machine::new(4), body);
    assert!(cell.get() < 200, "accesses don't interleave");
}

#[test]
fn seeds_give_schedules() {
    let run = |seed| {
        let word = SimAtomicU32::new(0);
        let mut machine = Machine::new(4).jitter(20).seed(seed);
        let body = |_: &mut SimCpu| {
            (0..50).for_each(|_| {
                word.fetch_add(1, Relaxed);
            })
        };
        machine.run(Region::NONE, body).unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).hash, run(2).hash);
}

#[test]
fn a_waiter_sleeps_until_it_is_woken() {
    let (word, cell) = (SimAtomicU32::new(0), SimCell::<u32>::new(0));
    let report = ran(Machine::new(3).cost(Flat::new(10).with_wake(100)), |cpu| {
        if cpu.id() == CpuId(0) {
            cpu.work(100_000);
            cell.set(7);
            word.store(1, Relaxed);
            Here::wake(&word);
            return 0;
        }
        // Not in a loop: the wait never returns early here.
        Here::wait(&word, 0, 0);
        assert_eq!(word.load(Relaxed), 1);
        let now = cpu.now();
        Here::wait(&word, 0, 1);
        assert_eq!(
            cpu.now(),
            now + 10,
            "the word has changed already: one load"
        );
        cell.get()
    });
    assert_eq!(report.results, [0, 7, 7]);
    // Work, a store, a second store that is seen immediately, the wake-up, then a load, a check and a load.
    assert_eq!(report.cpus[1].cycles, 100_000 + 10 + 100 + 30);
    assert_eq!(report.cpus[1].parks, 1);
    assert_eq!(report.cpus[1].parked_cycles, 100_010 + 100 - 10);
    assert_eq!(
        report.accesses(),
        2 + 2 * 4,
        "a parked CPU makes no accesses"
    );
}

#[test]
fn a_wake_up_is_for_one_word() {
    let words = [SimAtomicU32::new(0), SimAtomicU32::new(0)];
    let error = failed(Machine::new(3), |cpu| match cpu.id().0 {
        0 => {
            cpu.work(1000);
            words[1].store(1, Relaxed);
            Here::wake(&words[1]);
        }
        n => Here::wait(&words[usize::from(n) - 1], 0, 0),
    });
    let waiting = vec![Waiting {
        cpu: CpuId(1),
        line: Line::OUTSIDE,
        since: 10,
        writer: None,
    }];
    assert_eq!(error, SimError::Deadlock { waiting });
}

/// A word on its own cache line.
#[repr(align(64))]
struct Apart(SimAtomicU32);

#[test]
fn deadlocks_are_named() {
    let words = [(); 3].map(|()| Apart(SimAtomicU32::new(0)));
    let region = Region::around(&words);
    let error = Machine::new(2)
        .cost(Flat::new(5))
        .run(region, |cpu: &mut SimCpu| {
            Here::wait(&words[2 * cpu.id().index()].0, 0, 0)
        })
        .unwrap_err();
    let waits = |(cpu, line)| Waiting {
        cpu: CpuId(cpu),
        line: Line(line),
        since: 5,
        writer: None,
    };
    let waiting = [(0, 0), (1, 2)].map(waits).to_vec();
    assert_eq!(error, SimError::Deadlock { waiting });
    let text = error.to_string();
    assert!(
        text.contains("CPU 1 waits for line 2 since cycle 5"),
        "{text}"
    );
}

#[test]
fn a_hung_run_is_given_up() {
    let word = SimAtomicU32::new(0);
    let mut machine = Machine::new(2).limit(100_000);
    let error = machine
        .run(Region::NONE, |cpu: &mut SimCpu| {
            while cpu.id().0 == 1 && word.load(Relaxed) == 0 {}
        })
        .unwrap_err();
    assert_eq!(
        error,
        SimError::TimeLimit {
            cpu: CpuId(1),
            limit: 100_000,
            waiting: vec![],
            stopped: vec![],
        }
    );
    // The limit also applies with free accesses, and with work alone.
    let body = |_: &mut SimCpu| while word.load(Relaxed) == 0 {};
    let error = Machine::new(1)
        .cost(Flat::new(0))
        .limit(1000)
        .run(Region::NONE, body);
    assert!(matches!(error, Err(SimError::TimeLimit { .. })));
    let error = Machine::new(1).run(Region::NONE, |cpu: &mut SimCpu| {
        loop {
            cpu.work(u32::MAX);
        }
    });
    let error: Result<everybuddy_sim::Report, _> = error;
    assert!(matches!(error, Err(SimError::TimeLimit { .. })));
}

/// Touches simulated memory when it is dropped, like a guard.
struct Noisy<'a>(&'a SimAtomicU32, Rc<Cell<u32>>);

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        for _ in 0..100 {
            self.0.fetch_add(1, Relaxed);
            Here::wake(self.0);
        }
        self.1.set(self.1.get() + 1);
    }
}

#[test]
fn a_panic_leaves_with_all_stacks_unwound() {
    for panicking in 0..5 {
        let dropped = Rc::new(Cell::new(0));
        let (word, never) = (SimAtomicU32::new(0), SimAtomicU32::new(0));
        let mut machine = Machine::new(5).cost(Flat::new(3));
        let result = catch_unwind(AssertUnwindSafe(|| {
            machine.run(Region::NONE, |cpu: &mut SimCpu| {
                let _noisy = Noisy(&word, Rc::clone(&dropped));
                for _ in 0..10 {
                    word.fetch_add(1, Relaxed);
                }
                if cpu.id().0 == panicking {
                    std::panic::resume_unwind(Box::new("CPU failed"));
                }
                if cpu.id().0 == 4 {
                    // Catches its unwinding and tries to continue.
                    for _ in 0..3 {
                        let touch = || loop {
                            word.fetch_add(1, Relaxed);
                        };
                        let _ = catch_unwind(AssertUnwindSafe(touch));
                    }
                }
                Here::wait(&never, 0, 0);
            })
        }));
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&"CPU failed"));
        assert_eq!(dropped.get(), 5, "every closure's values are dropped");
        let report = machine
            .run(Region::NONE, |cpu: &mut SimCpu| cpu.id().0)
            .unwrap();
        assert_eq!(report.results, [0, 1, 2, 3, 4], "the machine is reset");
    }
}

/// Calls itself, with an access at each depth. The sum depends on values of every frame.
fn descend(word: &SimAtomicU64, depth: u64, factor: f64) -> f64 {
    let before = word.fetch_add(depth, Relaxed) as f64;
    match depth {
        0 => before,
        _ => {
            let deeper = descend(word, depth - 1, factor + 1.0);
            word.load(Relaxed);
            deeper + factor * depth as f64
        }
    }
}

#[test]
fn every_cpu_keeps_its_stack_and_registers() {
    let words = [(); 40].map(|()| SimAtomicU64::new(0));
    let report = ran(Machine::new(40).jitter(7), |cpu| {
        let word = &words[cpu.id().index()];
        (0..20).map(|_| descend(word, 100, 0.5)).sum::<f64>()
    });
    assert!(report.switches > 40 * 20 * 100);
    let alone = Machine::new(1).run(Region::NONE, |_: &mut SimCpu| {
        let word = SimAtomicU64::new(0);
        (0..20).map(|_| descend(&word, 100, 0.5)).sum::<f64>()
    });
    assert_eq!(report.results, vec![alone.unwrap().results[0]; 40]);
}

#[test]
fn backtraces_end_with_the_stack() {
    let word = SimAtomicU32::new(0);
    let report = Machine::new(3).run(Region::NONE, |_: &mut SimCpu| {
        word.fetch_add(1, Relaxed);
        let backtrace = std::backtrace::Backtrace::force_capture();
        word.fetch_add(1, Relaxed);
        backtrace.to_string()
    });
    for text in report.unwrap().results {
        assert!(text.lines().count() < 200, "{text}");
    }
}

#[test]
fn errors_drop_what_closures_hold() {
    let dropped = Rc::new(Cell::new(0));
    let word = SimAtomicU32::new(0);
    let error = Machine::new(3).run(Region::NONE, |_: &mut SimCpu| {
        let _noisy = Noisy(&word, Rc::clone(&dropped));
        Here::wait(&word, 0, 0);
    });
    assert!(matches!(error, Err(SimError::Deadlock { .. })));
    assert_eq!(dropped.get(), 3);
}

#[test]
fn results_that_touch_memory_are_dropped_outside() {
    let word = SimAtomicU32::new(0);
    let dropped = Rc::new(Cell::new(0));
    let run = Machine::new(2).run(Region::NONE, |cpu: &mut SimCpu| {
        let noisy = Noisy(&word, Rc::clone(&dropped));
        if cpu.id().0 == 1 {
            cpu.work(10_000);
            Here::wait(&word, 0, 0);
        }
        noisy
    });
    assert!(matches!(run, Err(SimError::Deadlock { .. })));
    assert_eq!(dropped.get(), 2);
}

#[test]
fn tokens_outside_a_run() {
    let word = SimAtomicU32::new(0);
    let mut machine = Machine::new(3);
    let ids = machine.outside(|cpus: &mut [SimCpu]| {
        word.fetch_add(1, Relaxed);
        Here::wait(&word, 1, 0); // Returns: outside, waiting is spinning.
        assert_eq!(cpus[1].now(), 0);
        assert!(!cpus[1].take_poke());
        cpus.iter().map(|cpu| cpu.id().0).collect::<Vec<_>>()
    });
    assert_eq!(ids, [0, 1, 2]);
    let nested = machine
        .run(Region::NONE, |_: &mut SimCpu| {
            failed(Machine::new(1), |_| ())
        })
        .unwrap();
    assert_eq!(
        nested.results,
        [SimError::Nested, SimError::Nested, SimError::Nested]
    );
}

#[test]
fn no_cpu_and_pokes() {
    let report = ran(Machine::new(0), |_| ());
    assert_eq!((report.cycles(), report.cpus.len()), (0, 0));
    let report = ran(Machine::new(2), |cpu| {
        if cpu.id().0 == 0 {
            assert!(cpu.exclude(CpuId(1)).is_none());
            assert!(cpu.exclude(CpuId(9)).is_none());
            return true;
        }
        cpu.work(10);
        cpu.take_poke() && !cpu.take_poke()
    });
    assert_eq!(
        (report.results, report.cpus[1].pokes),
        (vec![true, true], 1)
    );
}

#[test]
fn all_leave_a_barrier_at_the_time_of_the_last() {
    let report = ran(Machine::new(3), |cpu| {
        let me = cpu.id().0;
        if me == 2 {
            // Ends without a barrier: the others do not wait for it for ever.
            cpu.work(5000);
            return Vec::new();
        }
        let mut times = Vec::new();
        for round in 1..=3 {
            cpu.work(1000 * round * u32::from(me + 1));
            cpu.barrier();
            times.push(cpu.now());
        }
        times
    });
    // No CPU leaves the first barrier before CPU 2 has ended; then CPU 1 is always the last.
    assert_eq!(report.results[0], [5000, 9000, 15_000]);
    assert_eq!(report.results[1], report.results[0]);
}

#[test]
fn a_barrier_does_not_wait_for_a_cpu_that_stands_aside() {
    let done = Cell::new(0);
    let report = ran(Machine::new(3), |cpu| {
        if cpu.id().0 == 1 {
            // The others are at the barrier already, and leave it now.
            cpu.work(2000);
            cpu.stand_aside();
            while done.get() < 2 {
                cpu.work(10);
            }
            // A second time changes nothing.
            cpu.stand_aside();
            return vec![cpu.now()];
        }
        let mut times = Vec::new();
        for round in 1..=2 {
            cpu.work(500 * round);
            cpu.barrier();
            times.push(cpu.now());
        }
        done.set(done.get() + 1);
        times
    });
    assert_eq!(report.results[0], [2000, 3000]);
    assert_eq!(report.results[2], report.results[0]);
    assert!((3000..3020).contains(&report.results[1][0]));
}

#[test]
fn a_barrier_that_not_all_reach_is_a_deadlock() {
    let word = SimAtomicU32::new(0);
    let error = failed(Machine::new(2), |cpu| {
        if cpu.id().0 == 0 {
            cpu.barrier();
        } else {
            Here::wait(&word, 0, 0);
        }
    });
    let text = error.to_string();
    assert!(
        text.contains("CPU 0 waits for the other CPUs, at the barrier, since cycle 0"),
        "{text}"
    );
}

#[test]
fn a_run_without_progress_is_given_up_and_one_with_progress_is_not() {
    let words = [(); 2].map(|()| SimAtomicU32::new(0));
    let run = |progress: bool, writers: bool| {
        words[1].store(0, Relaxed);
        let mut machine = Machine::new(2).patience(1_000_000);
        if writers {
            machine = machine.record_writers();
        }
        machine.run(Region::NONE, |cpu: &mut SimCpu| match cpu.id().0 {
            0 => {
                // Ten times the patience.
                for _ in 0..10_000_000 {
                    if words[0].load(Relaxed) > 0 {
                        break;
                    }
                    if progress {
                        cpu.progress();
                    }
                }
                words[1].store(1, Relaxed);
                Here::wake(&words[1]);
            }
            _ => {
                while words[1].load(Relaxed) == 0 {
                    Here::wait(&words[1], 0, 0);
                }
            }
        })
    };
    let report = run(true, false).unwrap();
    assert_eq!(report.results.len(), 2);
    assert!(report == run(true, true).unwrap(), "writers change nothing");
    for writers in [false, true] {
        let Err(SimError::Stall {
            steps,
            waiting,
            running,
            stopped,
        }) = run(false, writers)
        else {
            panic!("the run ended");
        };
        // At the first look after the patience: every million cycles, and an access takes ten.
        assert!((1_000_001..1_110_000).contains(&steps), "{steps}");
        assert_eq!((waiting.len(), waiting[0].cpu), (1, CpuId(1)));
        let expected = writers.then_some((CpuId(0), None));
        let running: Vec<_> = running.iter().map(|own| (own.cpu, own.writer)).collect();
        assert_eq!((running, stopped.len()), (Vec::from_iter(expected), 0));
    }
    // A machine whose CPUs share cores is watched too.
    let mut machine = Machine::new(2).patience(10_000).cores(Cores::new(1));
    let error: Result<everybuddy_sim::Report, _> =
        machine.run(
            Region::NONE,
            |_: &mut SimCpu| while words[0].load(Relaxed) == 0 {},
        );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("steps without progress: "), "{text}");
}
