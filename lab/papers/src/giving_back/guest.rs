//! What the programs of a guest allocate and free, and when.
//!
//! How much a guest can give back depends on pauses, and on what stays allocated among the free frames. Some guests are
//! models, with the numbers of public reports. The others are recorded programs, with the times of the recording.
//!
//! # Invariants
//! The steps of a guest are in the order of time, and free what they allocated. The same seed makes the same steps.

use everybuddy::Class;
use everybuddy_measure::replay::random::Random;
use everybuddy_trace::{Resolved, Step, StepKind};

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// The numbers of a modelled guest.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    /// Frames that are always allocated.
    pub resident: u32,
    /// Frames that a program allocates and frees.
    pub frames: u32,
    /// How long it takes to allocate them, in milliseconds.
    pub taking_ms: u64,
    /// How long the program keeps them, takes to free them, and then rests, in milliseconds, together: on average.
    pub other_ms: u64,
    /// The number of frames that the program allocates while the kernel replaces one resident frame.
    pub replaced: u32,
    /// How often it does all of this.
    pub rounds: u32,
}

/// The calls of a guest.
#[derive(Default)]
pub(crate) struct Guest {
    pub steps: Vec<Step>,
    /// The number of blocks.
    pub blocks: u32,
    /// When the last pause ends.
    pub end_ns: u64,
}

impl Guest {
    /// Adds the allocation of a frame, and returns its number.
    pub(crate) fn take(&mut self, time_ns: u64, class: Class) -> u32 {
        let block = self.blocks;
        self.blocks += 1;
        self.add(time_ns, block, StepKind::Allocate, class as u32);
        block
    }

    /// Adds the free of a frame.
    pub(crate) fn give(&mut self, time_ns: u64, block: u32) {
        self.add(time_ns, block, StepKind::Free, 0);
    }

    fn add(&mut self, time_ns: u64, block: u32, kind: StepKind, operand: u32) {
        self.steps.push(Step {
            time_ns,
            block,
            task: 0,
            region: 0,
            left: 0,
            operand,
            cpu: 0,
            order: 0,
            kind,
        });
    }

    /// Returns a guest that runs a recorded program alone. It ends with the recording.
    pub(crate) fn recorded(trace: &Resolved) -> Guest {
        Guest {
            steps: trace.steps.clone(),
            blocks: trace.blocks,
            end_ns: trace.steps.last().map_or(0, |step| step.time_ns),
        }
    }

    /// Returns a modelled guest.
    pub(crate) fn modelled(model: Model, seed: u64) -> Guest {
        let mut random = Random::new(seed);
        let mut guest = Guest::default();
        let mut resident: Vec<u32> = (0..model.resident)
            .map(|_| guest.take(0, Class::Unmovable))
            .collect();
        let mut now = 0;
        for _ in 0..model.rounds {
            let each = model.taking_ms * MS / u64::from(model.frames);
            let mut held = Vec::new();
            for at in 0..model.frames {
                now += each;
                held.push(guest.take(now, Class::Movable));
                if at % model.replaced == 0 {
                    let old = random.below(resident.len() as u64) as usize;
                    let new = guest.take(now, Class::Unmovable);
                    guest.give(now, std::mem::replace(&mut resident[old], new));
                }
            }
            // Where the time is split is not known: any split is as likely as any other, and so is any sum up to twice
            // the average.
            let other = model.other_ms * MS * random.below(2001) / 1000;
            let mut cuts = [random.below(other + 1), random.below(other + 1)];
            cuts.sort_unstable();
            let (start, frees) = (now + cuts[0], cuts[1] - cuts[0]);
            for (block, at) in held.into_iter().zip(0u64..) {
                guest.give(start + frees * at / u64::from(model.frames), block);
            }
            now += other;
        }
        guest.end_ns = now;
        guest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modelled_guest_frees_what_it_takes_and_keeps_its_residents() {
        let model = Model {
            resident: 10,
            frames: 100,
            taking_ms: 5,
            other_ms: 20,
            replaced: 25,
            rounds: 7,
        };
        let guest = Guest::modelled(model, 3);
        let mut live = vec![false; guest.blocks as usize];
        let (mut most, mut now) = (0, 0);
        for step in &guest.steps {
            assert!(step.time_ns >= now, "the steps are in the order of time");
            now = step.time_ns;
            let is_new = step.kind.is_allocation();
            assert_ne!(
                std::mem::replace(&mut live[step.block as usize], is_new),
                is_new
            );
            most = most.max(live.iter().filter(|live| **live).count());
        }
        assert_eq!(live.iter().filter(|live| **live).count(), 10);
        assert_eq!(most, 10 + 100);
        assert!(now <= guest.end_ns && guest.end_ns <= 7 * (5 + 40) * MS);
        let again = Guest::modelled(model, 3);
        assert!(again.steps == guest.steps && Guest::modelled(model, 4).steps != guest.steps);
    }
}
