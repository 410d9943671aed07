//! Every system on the simulated machine: no frame is allocated twice or lost, and runs repeat exactly.

use std::cell::RefCell;

use everybuddy::platform::CpuToken;
use everybuddy::systems::ROWS;
use everybuddy::{AllocateError, Block, Index, Order, Release, Request, SystemSpec};
use everybuddy_sim::{Flat, Machine, Region, Report, SimCpu};
use everybuddy_suite::shadow::Shadow;

use crate::common::{Random, System, with_memory};

/// All systems, with and without locks on their lists.
fn systems() -> impl Iterator<Item = String> {
    ROWS.iter().flat_map(|row| {
        let locked = row.takes("percpu");
        let variant = locked.then(|| format!("{}+percpu=locked", row.name));
        // In the suite's small memories, lists whose bounds scale with memory are almost empty.
        let bounded = row.takes("high") && !row.takes("batch");
        let larger = bounded.then(|| format!("{}+high=30", row.name));
        [Some(row.name.to_string()), variant, larger]
            .into_iter()
            .flatten()
    })
}

/// Returns `true` if a system has per-CPU lists.
fn has_lists(system: &str) -> bool {
    let spec: SystemSpec = system.parse().unwrap();
    ["high", "percpu"].iter().any(|key| spec.row().takes(key))
}

/// Allocates and frees at random, including blocks that other CPUs allocated. Then checks that all frames are free.
struct Churn {
    cpus: u16,
    frames: u64,
    operations: u32,
    jitter: u64,
    seed: u64,
}

impl Churn {
    fn run(&self, name: &str, region: Region, system: &System<'_>) -> Report {
        let owners = Shadow::new(self.frames as u32);
        let shared: RefCell<Vec<Block>> = RefCell::new(Vec::new());
        let mut machine = Machine::new(self.cpus)
            .cost(Flat::new(4).with_wake(50))
            .jitter(self.jitter)
            .seed(self.seed);
        let report = machine.run(region, |cpu: &mut SimCpu| {
            let id = cpu.id().0;
            let mut random = Random::new(self.seed << 16 | u64::from(id));
            let mut mine: Vec<Block> = Vec::new();
            for _ in 0..self.operations {
                let order = match random.below(8) {
                    0..=4 => Order::ZERO,
                    n => Order::new(n as u8 - 4).unwrap(),
                };
                match random.below(9) {
                    0..=3 => match system.allocate(cpu, Request::order(order)) {
                        Ok(start) => {
                            owners.take(start, order.frames(), 0);
                            mine.push(Block { start, order });
                        }
                        // Others freed frames during each of its searches.
                        Err(AllocateError::Busy)
                            if order != Order::ZERO && name.starts_with("llfree") => {}
                        Err(error) => assert_eq!(error, AllocateError::Exhausted, "{name}"),
                    },
                    4..=6 if !mine.is_empty() => {
                        let block = mine.swap_remove(random.below(mine.len() as u64) as usize);
                        owners.give(block.start, block.order.frames(), 0);
                        system.free(cpu, Release::block(block)).unwrap();
                    }
                    7 => shared.borrow_mut().extend(mine.pop()),
                    _ => {
                        let block = shared.borrow_mut().pop();
                        if let Some(block) = block {
                            owners.give(block.start, block.order.frames(), 0);
                            system.free(cpu, Release::block(block)).unwrap();
                        }
                    }
                }
                cpu.work(random.below(30) as u32);
            }
            for block in mine {
                owners.give(block.start, block.order.frames(), 0);
                system.free(cpu, Release::block(block)).unwrap();
            }
            system.park(cpu);
        });
        let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
        machine.outside(|cpus: &mut [SimCpu]| {
            let cpu = &mut cpus[0];
            for block in shared.take() {
                owners.give(block.start, block.order.frames(), 0);
                system.free(cpu, Release::block(block)).unwrap();
            }
            assert_eq!(owners.taken(), 0);
            system.quiesce(cpu).unwrap();
            let census = system
                .check(cpu)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(census.free, self.frames, "{name}: lost frames");
            assert_eq!(system.snapshot(cpu).free_frames(), self.frames);
        });
        report
    }
}

#[test]
fn the_order_in_which_systems_are_built_and_run_changes_no_report() {
    let churn = |system, seed| {
        move |region, built: &System<'_>| {
            let churn = Churn {
                cpus: 5,
                frames: 2048,
                operations: 200,
                jitter: 8,
                seed,
            };
            churn.run(system, region, built)
        }
    };
    for [one, other] in [
        ["bs", "spring"],
        ["lis-31", "everybuddy"],
        ["linux-6", "serewa"],
    ] {
        let (first, second) = (churn(one, 1), churn(other, 2));
        // Each is built in memory of its own while the other one exists, or not.
        let outer_first = with_memory(one, 5, 2048, 0, |region, built| {
            with_memory(other, 5, 2048, 64, |inner, within| {
                let report = first(region, built);
                (report, second(inner, within))
            })
        });
        let outer_second = with_memory(other, 5, 2048, 0, |region, built| {
            with_memory(one, 5, 2048, 192, |inner, within| {
                let report = second(region, built);
                (first(inner, within), report)
            })
        });
        let alone = (
            with_memory(one, 5, 2048, 0, first),
            with_memory(other, 5, 2048, 0, second),
        );
        assert!(outer_first == alone, "{one}, {other}");
        assert!(outer_second == alone, "{other}, {one}");
    }
}

fn churn(system: &str, cpus: u16, frames: u64, operations: u32, seed: u64, shift: usize) -> Report {
    let jitter = seed % 3 * 8;
    let churn = Churn {
        cpus,
        frames,
        operations,
        jitter,
        seed,
    };
    with_memory(system, cpus, frames, shift, |region, built| {
        churn.run(system, region, built)
    })
}

#[test]
fn nothing_is_given_twice_or_lost() {
    for system in systems() {
        for cpus in 1..=8 {
            for seed in 0..3 {
                churn(&system, cpus, 2048, 300, seed, 0);
            }
        }
    }
}

#[test]
fn nothing_is_given_twice_or_lost_when_memory_is_short() {
    for system in systems() {
        for cpus in [2, 3, 5, 8] {
            for seed in 0..6 {
                churn(&system, cpus, 256, 400, seed, 0);
            }
        }
    }
}

#[test]
fn runs_repeat_wherever_memory_lies() {
    for system in systems() {
        let first = churn(&system, 4, 1024, 200, 1, 0);
        assert_eq!(first, churn(&system, 4, 1024, 200, 1, 0), "{system}");
        for shift in [8, 24, 64, 4096 + 40] {
            assert_eq!(
                first,
                churn(&system, 4, 1024, 200, 1, shift),
                "{system}, shift {shift}"
            );
        }
        assert_ne!(
            first.hash,
            churn(&system, 4, 1024, 200, 2, 0).hash,
            "{system}"
        );
    }
}

/// All CPUs fill their lists. Three CPUs park, or idle and serve drain requests; then the first allocates every
/// frame. Returns `true` if some frames were in lists.
struct TakeAll {
    parked: bool,
    seed: u64,
}

impl TakeAll {
    fn run(&self, name: &str, region: Region, system: &System<'_>) -> bool {
        const FRAMES: u64 = 256;
        let owners = Shadow::new(FRAMES as u32);
        let filled = RefCell::new(0);
        let done = RefCell::new(false);
        let mut machine = Machine::new(4).jitter(16).seed(self.seed);
        // A running CPU serves drain requests.
        let idle = |cpu: &mut SimCpu, instructions| {
            cpu.work(instructions);
            if cpu.take_poke() {
                system.drain(cpu);
            }
        };
        let report = machine.run(region, |cpu: &mut SimCpu| {
            let id = cpu.id().0;
            let frames: Vec<Index> = (0..40)
                .map(|_| system.allocate(cpu, Request::FRAME).unwrap())
                .collect();
            for frame in frames {
                system.free(cpu, Release::frame(frame)).unwrap();
            }
            *filled.borrow_mut() += 1;
            if id > 0 {
                if self.parked {
                    system.park(cpu);
                    return false;
                }
                while !*done.borrow() {
                    idle(cpu, 500);
                }
                system.park(cpu);
                return false;
            }
            while *filled.borrow() < 4 {
                idle(cpu, 100);
            }
            let buffered = system.snapshot(cpu).buffered_frames;
            for _ in 0..FRAMES {
                let frame = system.allocate(cpu, Request::FRAME);
                owners.take(
                    frame.unwrap_or_else(|error| panic!("{name}: {error}")),
                    1,
                    0,
                );
            }
            assert_eq!(
                system.allocate(cpu, Request::FRAME),
                Err(AllocateError::Exhausted)
            );
            *done.borrow_mut() = true;
            system.park(cpu);
            buffered > 0
        });
        let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
        machine.outside(|cpus: &mut [SimCpu]| {
            for frame in 0..FRAMES as u32 {
                system
                    .free(&mut cpus[0], Release::frame(Index(frame)))
                    .unwrap();
            }
            system.quiesce(&mut cpus[0]).unwrap();
            assert_eq!(system.check(&mut cpus[0]).unwrap().free, FRAMES);
        });
        report.results[0]
    }
}

#[test]
fn a_request_finds_what_other_cpus_keep() {
    for system in systems() {
        for parked in [true, false] {
            let mut buffered = 0;
            for seed in 0..5 {
                let all = TakeAll { parked, seed };
                buffered += u32::from(with_memory(&system, 4, 256, 0, |region, built| {
                    all.run(&system, region, built)
                }));
            }
            // (A CPU that was poked before drains its list when it idles. Where four frames fill Spring's list, the
            // list moves four at a time, so after as many frees as allocations it is empty.)
            let moves_fours = system.starts_with("spring") && !system.contains("high=");
            assert!(
                !has_lists(&system) || moves_fours || buffered > 0,
                "{system}: no frame was ever in a list"
            );
        }
    }
}

#[test]
fn many_cpus() {
    let report = churn("lbs-31", 128, 65_536, 100, 3, 0);
    assert_eq!(report.cpus.len(), 128);
    assert!(
        report.cpus.iter().any(|cpu| cpu.parks > 0),
        "the zone's lock was never contended"
    );
}

/// Probes count per CPU, and the counts are returned as results.
#[test]
fn probes_count() {
    with_memory("bs", 2, 1024, 0, |region, system| {
        let body = |cpu: &mut SimCpu| {
            let frame = system.allocate(cpu, Request::FRAME).unwrap();
            system.free(cpu, Release::frame(frame)).unwrap();
            cpu.probe().counts
        };
        let report = Machine::new(2).run(region, body).unwrap();
        for counts in report.results {
            assert_eq!(counts.locks, 2);
        }
    });
}
