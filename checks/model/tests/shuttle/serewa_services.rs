//! Serewa's three services with two callers, under shuttle.
//!
//! Loom's programs are tiny. Here two callers request all kinds of sizes and free them in parts, while dividing,
//! linking and (where it is a service) the manager run concurrently, with queues that are mostly empty and queues
//! that are mostly full.
//!
//! # Invariants
//! In every schedule no frame is handed out twice or lost, no request for a single frame fails while one is free, and
//! at the end everything is coalesced.
//!
//! # Not modelled
//! Weak memory; threads that stop permanently, which the allocator's own tests cover.

use everybuddy::Index;
use everybuddy_model::strong::{Picking, sample, switch_at_cells};
use everybuddy_model::{Machine, Shuttle, Worker, bound};
use shuttle::rand::{Rng, thread_rng};

const DIVIDING: usize = 0;
const LINKING: usize = 1;
const MANAGER: usize = 2;

/// Pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Two callers request all kinds of sizes; dividing, linking and, where it is a service, the manager run
/// concurrently. The gate runs a quarter of the schedules.
fn callers_and_services(spec: &'static str, schedules: usize, picking: Picking, switches: bool) {
    const FRAMES: u64 = 24;
    let schedules = bound(&[schedules / 4, schedules]);
    sample(spec, picking, 0x5e7e, schedules, move || {
        switch_at_cells(switches);
        Machine::<Shuttle>::build(spec, FRAMES, 5, |machine| {
            let call = |w: &mut Worker<'_, Shuttle>| {
                let mut dice = Dice(thread_rng().r#gen::<u64>() | 1);
                let mut runs: Vec<(Index, u32)> = Vec::new();
                for _ in 0..30 {
                    if dice.below(2) == 0 || runs.is_empty() {
                        let frames = 1 + dice.below(8) as u32;
                        runs.extend(w.try_allocate_frames(frames).map(|start| (start, frames)));
                    } else {
                        let at = dice.below(runs.len() as u64) as usize;
                        let (start, frames) = runs.swap_remove(at);
                        let part = 1 + dice.below(u64::from(frames)) as u32;
                        w.free_frames(start, part);
                        if part < frames {
                            runs.push((Index(start.0 + part), frames - part));
                        }
                    }
                }
                for (start, frames) in runs {
                    w.free_frames(start, frames);
                }
            };
            let serve = |service: usize| {
                move |w: &mut Worker<'_, Shuttle>| {
                    for _ in 0..40 {
                        w.serve(service, 2);
                        shuttle::thread::yield_now();
                    }
                }
            };
            let (dividing, linking, manager) = (serve(DIVIDING), serve(LINKING), serve(MANAGER));
            machine.at_once(&[&call, &call, &dividing, &linking, &manager]);
            machine.settle();
        });
    });
}

#[test]
fn two_callers_and_three_services_survive_random_schedules() {
    for spec in [
        "serewa+order=3+queue=8+manager=thread",
        "serewa+order=3+queue=2+manager=thread",
        "serewa+order=3+queue=8",
        "serewa+order=3+queue=8+manager=thread+sync=lock",
    ] {
        callers_and_services(spec, 2000, Picking::Random, false);
        callers_and_services(spec, 1000, Picking::Preempting(4), false);
        callers_and_services(spec, 300, Picking::Random, true);
    }
}
