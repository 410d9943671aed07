//! CPUs that are stopped or interrupted at chosen accesses: what the machine does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use everybuddy::platform::{AtomicWord, Ordering::Relaxed};
use everybuddy::{CpuId, CpuToken, Platform, RawLock, SpinLock, TicketLock};
use everybuddy_sim::{
    Flat, Line, Machine, Region, Report, Sim, SimAtomicU32, SimCpu, SimError, Stopped, Waiting,
};

use crate::common::ran;

type Here = Sim;

/// Counts when it is dropped.
struct Dropped(Rc<Cell<u32>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_stopped_cpu_never_runs_again() {
    let dropped = Rc::new(Cell::new(0));
    for access in 1..=5 {
        let words = [(); 2].map(|()| SimAtomicU32::new(0));
        let mut machine = Machine::new(2).cost(Flat::new(10)).stop(CpuId(0), access);
        let report = machine
            .run(Region::NONE, |cpu: &mut SimCpu| {
                let _dropped = Dropped(Rc::clone(&dropped));
                for _ in 0..5 {
                    words[cpu.id().index()].fetch_add(1, Relaxed);
                }
                cpu.barrier();
                assert_eq!(cpu.accesses(), 5);
                cpu.id().0
            })
            .unwrap();
        let cpu = CpuId(0);
        let clock = 10 * access;
        assert_eq!(report.stopped, [Stopped { cpu, access, clock }]);
        assert_eq!(report.results, [1], "the other one ends");
        assert_eq!(u64::from(words[0].load(Relaxed)), access);
        assert_eq!(words[1].load(Relaxed), 5);
        assert_eq!(report.cpus[0].cycles, clock);
    }
    assert_eq!(dropped.get(), 10, "the stopped ones are unwound");
}

/// Both CPUs lock and unlock once, CPU 1 later, and CPU 0 is stopped.
fn lock_once(lock: impl RawLock<Here>, access: u64) -> Result<Report, SimError> {
    let mut machine = Machine::new(2)
        .cost(Flat::new(10))
        .polls(100)
        .stop(CpuId(0), access);
    machine.run(Region::around(&lock), |cpu: &mut SimCpu| {
        cpu.work(1000 * u32::from(cpu.id().0));
        let (state, _) = lock.lock();
        lock.unlock(&state);
    })
}

#[test]
fn others_hang_if_the_holder_of_a_lock_stops() {
    // One access locks and one unlocks.
    let Err(SimError::Hang { stopped, waiting }) = lock_once(SpinLock::new(), 1) else {
        panic!("the lock was not held");
    };
    let (cpu, clock) = (CpuId(0), 10);
    let access = 1;
    assert_eq!(stopped, [Stopped { cpu, access, clock }]);
    let [Waiting { cpu, writer, .. }] = waiting[..] else {
        panic!("{waiting:?}");
    };
    assert_eq!((cpu, writer), (CpuId(1), Some(CpuId(0))));
    let text = lock_once(SpinLock::new(), 1).unwrap_err().to_string();
    assert!(text.starts_with(
        "CPU 0 was stopped at access 1, in cycle 10; then the others hung: CPU 1 waits for "
    ));
    assert!(text.ends_with(", last written by CPU 0"), "{text}");
    assert!(lock_once(SpinLock::new(), 2).is_ok());

    // A ticket, a look at who is served, and a store that serves the next one.
    for access in 1..=2 {
        let hangs = lock_once(TicketLock::new(), access);
        assert!(matches!(hangs, Err(SimError::Hang { .. })), "{access}");
    }
    // The unlocking loads who is served before it stores.
    let unlocked = (3..=5).find(|access| lock_once(TicketLock::new(), *access).is_ok());
    assert!(unlocked.is_some());
}

#[test]
fn waiters_see_the_last_store_of_a_cpu_that_stops_before_it_wakes_them() {
    let lock = SpinLock::<Here>::new();
    let order = RefCell::new(Vec::new());
    // CPU 1 waits when CPU 0 unlocks. CPU 2 runs on for long, so waiters need not poll.
    let report = ran(
        Machine::new(3).cost(Flat::new(10)).stop(CpuId(0), 2),
        |cpu| {
            cpu.work(u32::from(cpu.id().0));
            if cpu.id().0 == 2 {
                cpu.work(100_000);
            } else {
                let (state, _) = lock.lock();
                cpu.work(500);
                lock.unlock(&state);
            }
            order.borrow_mut().push(cpu.id().0);
        },
    );
    assert_eq!((report.results.len(), report.stopped.len()), (2, 1));
    assert_eq!(report.cpus[1].parks, 1);
    assert_eq!(order.into_inner(), [1, 2]);
}

#[test]
fn a_wait_for_a_bounded_time_ends_although_no_cpu_wakes_it() {
    let word = SimAtomicU32::new(0);
    let wait = |polls| {
        let mut machine = Machine::new(2).stop(CpuId(0), 1).polls(polls);
        machine.run(Region::NONE, |cpu: &mut SimCpu| {
            word.load(Relaxed);
            (0..50).for_each(|attempt| Here::wait(&word, 0, attempt));
            cpu.id().0
        })
    };
    assert_eq!(wait(50).unwrap().results, [1]);
    assert!(matches!(wait(49), Err(SimError::Hang { .. })));
    assert!(matches!(wait(0), Err(SimError::Hang { .. })));
    // Without a stopped CPU it is a deadlock.
    let error = Machine::new(2).run(Region::NONE, |_: &mut SimCpu| Here::wait(&word, 0, 0));
    assert!(matches!(error, Err(SimError::Deadlock { .. })));
}

#[test]
fn a_cpu_can_be_stopped_while_it_waits() {
    let word = SimAtomicU32::new(0);
    let mut machine = Machine::new(2).stop(CpuId(0), 1);
    let body = |cpu: &mut SimCpu| {
        if cpu.id().0 == 0 {
            Here::wait(&word, 0, 0);
        }
        cpu.barrier();
    };
    let report = machine.run(Region::NONE, body).unwrap();
    assert_eq!((report.results.len(), report.stopped.len()), (1, 1));
}

#[test]
fn an_interrupt_runs_at_its_access_on_its_cpu() {
    let word = SimAtomicU32::new(0);
    let seen = RefCell::new(Vec::new());
    let mut machine = Machine::new(2)
        .cost(Flat::new(10))
        .interrupt(CpuId(0), 3)
        .interrupt(CpuId(0), 4)
        .interrupt(CpuId(1), 2);
    let handler = |cpu: CpuId| {
        let before = word.fetch_add(100, Relaxed);
        seen.borrow_mut().push((cpu.0, before % 100));
    };
    let report = machine
        .run_interrupted(Region::NONE, handler, |cpu: &mut SimCpu| {
            cpu.work(1000 * u32::from(cpu.id().0));
            for _ in 0..5 {
                word.fetch_add(1, Relaxed);
            }
            cpu.now()
        })
        .unwrap();
    // The access of the first handler is the fourth of CPU 0, so the second one follows immediately.
    assert_eq!(seen.into_inner(), [(0, 3), (0, 3), (1, 7)]);
    assert_eq!(word.load(Relaxed), 310);
    assert_eq!(report.results, [70, 1060], "handlers are charged");
}

#[test]
fn many_interrupts_need_no_more_stack_than_one() {
    let word = SimAtomicU32::new(0);
    let machine = Machine::new(1).stack(16 * 1024);
    let mut machine = (1..=5000).fold(machine, |machine, access| {
        machine.interrupt(CpuId(0), access)
    });
    let handler = |_| _ = word.fetch_add(1, Relaxed);
    let body = |_: &mut SimCpu| word.fetch_add(1, Relaxed);
    machine
        .run_interrupted(Region::NONE, handler, body)
        .unwrap();
    assert_eq!(word.load(Relaxed), 5001);
}

#[test]
fn an_interrupted_wait_looks_again() {
    let word = SimAtomicU32::new(0);
    let mut machine = Machine::new(1).interrupt(CpuId(0), 1);
    // The handler changes the word: parking after it would be for ever.
    let handler = |_| word.store(1, Relaxed);
    let body = |_: &mut SimCpu| {
        while word.load(Relaxed) == 0 {
            Here::wait(&word, 0, 0);
        }
    };
    machine
        .run_interrupted(Region::NONE, handler, body)
        .unwrap();
    word.store(0, Relaxed);
    let mut machine = Machine::new(1).interrupt(CpuId(0), 2);
    machine
        .run_interrupted(Region::NONE, handler, body)
        .unwrap();
}

#[test]
#[should_panic(expected = "in a handler")]
fn a_panic_of_a_handler_is_one_of_its_cpu() {
    let word = SimAtomicU32::new(0);
    let mut machine = Machine::new(2).interrupt(CpuId(1), 1);
    let body = |_: &mut SimCpu| (0..9).for_each(|_| _ = word.fetch_add(1, Relaxed));
    let _ = machine.run_interrupted(Region::NONE, |_| panic!("in a handler"), body);
}

#[test]
fn watching_changes_no_run() {
    let run = |watched: bool| {
        let lock = SpinLock::<Here>::new();
        let machine = Machine::new(4).jitter(9).seed(3);
        let mut machine = if watched {
            machine.record_writers().stop(CpuId(2), 1 << 40)
        } else {
            machine
        };
        let body = |cpu: &mut SimCpu| {
            for _ in 0..30 {
                let (state, _) = lock.lock();
                cpu.work(20);
                lock.unlock(&state);
            }
            cpu.barrier();
            cpu.now()
        };
        machine.run(Region::NONE, body).unwrap()
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn errors_name_the_writer_of_the_word() {
    let (locks, words) = ([(); 2].map(|()| SpinLock::<Here>::new()), [(); 2]);
    let mut machine = Machine::new(2).record_writers();
    let error = machine.run(Region::NONE, |cpu: &mut SimCpu| {
        // Each holds the lock that the other wants.
        let mine = cpu.id().index();
        locks[mine].lock();
        cpu.work(100);
        locks[words.len() - 1 - mine].lock();
    });
    let Err(SimError::Deadlock { waiting }) = error else {
        panic!("{error:?}");
    };
    let writers: Vec<_> = waiting.iter().map(|waiting| waiting.writer).collect();
    assert_eq!(writers, [Some(CpuId(1)), Some(CpuId(0))]);
    assert_eq!(waiting[0].line, Line::OUTSIDE);

    // The limit names those who wait meanwhile.
    let lock = SpinLock::<Here>::new();
    let mut machine = Machine::new(2).record_writers().limit(10_000);
    let error: Result<Report, _> = machine.run(Region::NONE, |cpu: &mut SimCpu| {
        cpu.work(u32::from(cpu.id().0));
        lock.lock();
        loop {
            cpu.work(100);
        }
    });
    let text = error.unwrap_err().to_string();
    let expected =
        "CPU 0 exceeded the limit of 10000 cycles; CPU 1 waits for a line outside the region";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("last written by CPU 0"), "{text}");
}
