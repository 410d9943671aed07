//! When two states are the same: if no experiment tells them apart.
//!
//! The bytes of equal states differ: counters grow, positions of rings move, words keep old values. Rather than to mask
//! such bytes by hand, states are compared by what can be observed. An experiment is a sequence of steps from a state,
//! which is undone afterwards. The first experiments are the states of all frames, and each request, repeated until it
//! is refused. Where two states with equal keys then behave differently at a step, that step followed by the experiment
//! which differs is a new experiment. So the key is never finer than behaviour, and becomes finer until no comparison
//! fails. Angluin learns automata in this way (Learning Regular Sets from Queries and Counterexamples, 1987).
//!
//! # Invariants
//! An experiment consists of calls that a user could make, so what fails in it is a fault.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everybuddy::{FrameState, Index, Request};
use everybuddy_explore::world::{World, mix};

use crate::step::{Operation, Step, order};

/// What an experiment looks at after its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// The states of all frames.
    Frames,
    /// What a request gives until it is refused.
    Repeat(Step),
}

/// Steps, and what is looked at afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Experiment {
    steps: Vec<Step>,
    look: Look,
}

impl Experiment {
    /// Returns this experiment after another step.
    pub(crate) fn after(&self, step: Step) -> Self {
        let mut steps = vec![step];
        steps.extend_from_slice(&self.steps);
        Self {
            steps,
            look: self.look,
        }
    }

    /// Returns the experiments from which the others are learned.
    pub(crate) fn first(cpus: u16, largest: u32) -> Vec<Experiment> {
        let mut list = vec![Experiment {
            steps: Vec::new(),
            look: Look::Frames,
        }];
        for cpu in 0..cpus {
            for size in 0..=largest {
                let operation = Operation::Allocate(Request::order(order(size)));
                list.push(Experiment {
                    steps: Vec::new(),
                    look: Look::Repeat(Step { cpu, operation }),
                });
            }
        }
        list
    }

    /// Executes the experiment in the loaded state, and returns to it. `None` is a panic.
    pub(crate) fn observe(&self, world: &mut World) -> Option<u128> {
        let system = world.system;
        let mut seen = 0;
        let mut note = |value: u128| {
            seen =
                mix(seen as u32, (seen >> 32) as u64 ^ value as u64) ^ mix(1, (value >> 64) as u64);
        };
        let run = AssertUnwindSafe(|| {
            for step in &self.steps {
                note(step.call(system).code());
            }
            match self.look {
                Look::Frames => frames(world).iter().for_each(|state| note(code(*state))),
                Look::Repeat(step) => loop {
                    let outcome = step.call(system);
                    note(outcome.code());
                    if outcome.refusal.is_some() {
                        break;
                    }
                },
            }
        });
        let result = catch_unwind(run);
        world.undo();
        result.is_ok().then_some(seen)
    }
}

/// Returns the states of all frames.
pub(crate) fn frames(world: &World) -> Vec<Option<FrameState>> {
    let span = world.system.span().frames();
    (0..span)
        .map(|frame| world.system.frame_state(Index(frame)))
        .collect()
}

/// Returns a number that differs for different states of a frame.
fn code(state: Option<FrameState>) -> u128 {
    let (kind, place, order) = match state {
        None => (0, 0, 0),
        Some(FrameState::Hole) => (1, 0, 0),
        Some(FrameState::Reserved) => (2, 0, 0),
        Some(FrameState::Queued) => (3, 0, 0),
        Some(FrameState::Free { head }) => (4, head.0, 0),
        Some(FrameState::Allocated { head, order }) => (5, head.0, order.get()),
        Some(FrameState::Buffered { cpu, order }) => (6, cpu.0.into(), order.get()),
    };
    u128::from(kind << 24 | place << 8 | u32::from(order))
}
