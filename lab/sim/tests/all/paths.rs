//! What accesses stand for: the instructions of a path, with cycles that were computed by hand.

use everybuddy::platform::{AtomicWord, Ordering::Relaxed};
use everybuddy::{CpuId, CpuToken, Platform};
use everybuddy_sim::{
    Caches, Hardware, Instructions, Machine, Region, SimAtomicU32, SimCpu, Waiters,
};

use crate::caches::{Here, SMALL, Words};

#[test]
fn accesses_stand_for_instructions() {
    let lines = [Words(SimAtomicU32::new(0), SimAtomicU32::new(0))];
    let hardware = Hardware { work: 400, ..SMALL };
    let model = Caches::new(hardware).instructions(Instructions::each(2500));
    let report = Machine::new(1)
        .cost(model)
        .run(Region::around(&lines), |cpu: &mut SimCpu| {
            for _ in 0..10 {
                lines[0].0.load(Relaxed);
            }
            cpu.now()
        })
        .unwrap();
    // From memory, nine hits, and a cycle for each access: 2.5 instructions of 0.4 cycles.
    assert_eq!(report.results[0], 200 + 9 * 4 + 10);
}

#[test]
fn a_path_is_that_of_its_cpu_until_the_next() {
    let lines = [Words(SimAtomicU32::new(0), SimAtomicU32::new(0))];
    let other = [Words(SimAtomicU32::new(0), SimAtomicU32::new(0))];
    let hardware = Hardware { work: 400, ..SMALL };
    let mut machine = Machine::new(2).cost(Caches::new(hardware));
    for _ in 0..2 {
        let report = machine.run(Region::around(&lines), |cpu: &mut SimCpu| {
            if cpu.id() == CpuId(1) {
                let before = cpu.now();
                other[0].0.load(Relaxed);
                return [cpu.now() - before, 0];
            }
            let mut loads = |path| {
                let before = cpu.now();
                cpu.path(path);
                for _ in 0..10 {
                    lines[0].0.load(Relaxed);
                }
                cpu.now() - before
            };
            let first = loads(Instructions {
                shortest: 3,
                per_access: 10_000,
                per_further: 2_500,
            });
            [first, loads(Instructions::each(0))]
        });
        // From memory, and nine hits; three times 10 instructions of 0.4 cycles, and seven times 2.5.
        let [first, second] = [200 + 9 * 4 + 3 * 4 + 7, 10 * 4];
        let outside = report.as_ref().unwrap().results[1][0];
        assert_eq!(report.unwrap().results[0], [first, second]);
        assert!(
            outside < 200,
            "the path of CPU 0 is not that of CPU 1: {outside}"
        );
    }
}

#[test]
fn a_cpu_that_waits_does_not_get_further_on_its_path() {
    let words = [Words(SimAtomicU32::new(1), SimAtomicU32::new(0))];
    // CPU 1 waits until CPU 0 has changed the word that often, and then makes ten accesses.
    let after = |changes: u32, waiters| {
        let hardware = Hardware {
            work: 400,
            waiters,
            ..SMALL
        };
        let mut machine = Machine::new(2).cost(Caches::new(hardware));
        let report = machine.run(Region::around(&words), |cpu: &mut SimCpu| {
            let word = &words[0].0;
            if cpu.id() == CpuId(0) {
                for change in 1..=changes {
                    cpu.work(10_000);
                    word.store(1 + change, Relaxed);
                    Here::wake(word);
                }
                return 0;
            }
            cpu.path(Instructions {
                shortest: 10,
                per_access: 10_000,
                per_further: 0,
            });
            for attempt in 0..changes {
                Here::wait(word, 1 + attempt, attempt);
            }
            let before = cpu.now();
            for _ in 0..10 {
                words[0].1.load(Relaxed);
            }
            cpu.now() - before
        });
        words[0].0.store(1, Relaxed);
        report.unwrap().results[1]
    };
    for waiters in [Waiters::Spin, Waiters::BackOff(300)] {
        assert_eq!(after(1, waiters), after(7, waiters), "{waiters:?}");
        assert!(after(1, waiters) >= 10 * 4 + 9 * 4, "{waiters:?}");
    }
}
