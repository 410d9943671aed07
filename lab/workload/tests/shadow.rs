//! Two threads, very many operations, and a shadow of the memory: no frame is lost or allocated twice.
//!
//! `EVERYBUDDY_OPERATIONS` sets the number of operations per system (default 1,000,000); `ci/stress.sh` runs 10^8.
//! `EVERYBUDDY_SYSTEMS` names the systems, separated by commas (default: all rows, and [`VARIANTS`]).

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use everybuddy::platform::NativeCpus;
use everybuddy::systems::ROWS;
use everybuddy::{
    AllocateError, Counts, FrameRange, Frames, Order, Pfn, Progress, Release, Request, Setup, Size,
};
use everybuddy_suite::shadow::Shadow;
use everybuddy_suite::{System, claim, on};
use everybuddy_workload::{Churn, Mix, Step, Workload};

const FRAMES: u32 = 1 << 15;
const THREADS: u16 = 2;

fn frames_of(size: Size) -> u32 {
    match size {
        Size::Order(order) => order.frames(),
        Size::Frames(Frames(frames)) => frames,
    }
}

/// Runs `operations` on two threads. Returns the number of failed requests, and what the system did.
fn stress(name: &str, operations: u64, system: &System<'_>) -> (u64, Counts) {
    let shadow = Shadow::new(FRAMES);
    let cpus = NativeCpus::new(THREADS);
    let refused = AtomicU64::new(0);
    let counts = Mutex::new(Counts::default());
    let services = system.services();
    let working = AtomicU16::new(THREADS);
    let service_cpus = NativeCpus::new(THREADS + services.len() as u16);
    std::thread::scope(|scope| {
        for (number, service) in services.iter().enumerate() {
            let (working, cpus) = (&working, &service_cpus);
            if service.own_thread {
                scope.spawn(move || {
                    let mut cpu = claim(cpus, THREADS + number as u16);
                    while working.load(Ordering::Relaxed) > 0 {
                        if system.serve(&mut cpu, number, 64) == Progress::Idle {
                            std::thread::yield_now();
                        }
                    }
                });
            }
        }
        for id in 0..THREADS {
            let working = &working;
            let (shadow, cpus, refused, counts) = (&shadow, &cpus, &refused, &counts);
            scope.spawn(move || {
                let mut cpu = claim(cpus, id);
                // Slots for about twice the memory, so that some requests fail.
                let mix = Mix::Even(Order::new(4).unwrap());
                let workload = Churn::new(5000, mix, u64::from(id));
                let mut held = vec![None; workload.slots() as usize];
                let operations = operations / u64::from(THREADS);
                for step in workload.take(operations as usize) {
                    match step {
                        Step::Allocate { slot, size } => {
                            let request = Request {
                                size,
                                ..Request::FRAME
                            };
                            match system.allocate(&mut cpu, request) {
                                Ok(start) => {
                                    shadow.take(start, frames_of(size), id.into());
                                    held[slot as usize] = Some((start, size));
                                }
                                Err(AllocateError::Exhausted | AllocateError::Busy) => {
                                    refused.fetch_add(1, Ordering::Relaxed);
                                }
                                Err(error) => panic!("{name}: {error}"),
                            }
                        }
                        Step::Free { slot } => {
                            if let Some((start, size)) = held[slot as usize].take() {
                                shadow.give(start, frames_of(size), id.into());
                                let release = Release {
                                    size,
                                    ..Release::frame(start)
                                };
                                system.free(&mut cpu, release).unwrap();
                            }
                        }
                        other => panic!("churn has no hand-over steps: {other:?}"),
                    }
                }
                for (start, size) in held.into_iter().flatten() {
                    shadow.give(start, frames_of(size), id.into());
                    system
                        .free(
                            &mut cpu,
                            Release {
                                size,
                                ..Release::frame(start)
                            },
                        )
                        .unwrap();
                }
                system.park(&mut cpu);
                let mut all = counts.lock().unwrap_or_else(PoisonError::into_inner);
                all.add(&cpu.probe().counts);
                drop(all);
                cpus.release(cpu);
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    let mut cpu = claim(&cpus, 0);
    system.quiesce(&mut cpu).unwrap();
    let census = system.check(&mut cpu).unwrap();
    assert_eq!(
        census.free,
        u64::from(FRAMES),
        "{name}: all frames are free"
    );
    let blocks = system.snapshot(&mut cpu).available_blocks(Order::TEN);
    assert_eq!(blocks, u64::from(FRAMES / 1024), "{name}: all is coalesced");
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    (refused.into_inner(), counts)
}

/// Combinations that the rows do not cover: locks on the lists, other zone layers, and locks that are released within a
/// batch.
const VARIANTS: [&str; 19] = [
    "mobility+steal=mixed",
    "llfree+tree=4MiB",
    "serewa+queue=1",
    "serewa+structure=list+remnants=first",
    "serewa+structure=bitmap+sync=lock",
    "serewa+manager=thread",
    "serewa+separate=off",
    "serewa+separate=off+structure=bitmap",
    "lbs-31+percpu=locked",
    "linux-6+percpu=locked",
    "lbs-31+drain=merged",
    "bs+zone=spaces",
    "lbs-31+state=record",
    "lbs-31+zone=spaces",
    "lbs-31+lock=ticket+hold=when-contended",
    "lbs-31+zone=spaces+lock=ticket+hold=when-contended",
    "lis-31+lock=ticket+hold=when-contended",
    "lis-31+hold=iteration",
    "delay-2+debt=on",
];

fn systems() -> Vec<String> {
    if let Ok(names) = std::env::var("EVERYBUDDY_SYSTEMS") {
        return names.split(',').map(str::to_owned).collect();
    }
    let names = ROWS.iter().map(|row| row.name).chain(VARIANTS);
    names.map(str::to_owned).collect()
}

#[test]
fn nothing_is_lost_and_nothing_is_given_twice() {
    let operations = std::env::var("EVERYBUDDY_OPERATIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000);
    let ranges = [FrameRange::new(Pfn(0), u64::from(FRAMES))];
    let setup = Setup::new(&ranges, THREADS);
    for text in systems() {
        let start = std::time::Instant::now();
        let (refused, counts) = on(&text, &setup, |system| stress(&text, operations, system));
        let bypasses = counts.bypasses_order0 + counts.bypasses_larger;
        println!(
            "{text}: {operations} operations, {bypasses} of them beyond what the CPU has, {} after all CPUs were \
             asked for what they keep, {refused} refused, {:.1?}",
            counts.reclaims,
            start.elapsed()
        );
        if operations >= 1_000_000 && text.starts_with("everybuddy") {
            assert!(bypasses > 0 && counts.reclaims > 0, "{counts:?}");
        }
    }
}
