//! Random programs over several domains, each step of which leaves everything in one place.
//!
//! Errors in merging, using up and reusing parts of parts show only after many steps. After each step every frame
//! must be free in one domain or allocated, every record must be in one place, and no CPU may wait while a domain
//! lies in the spring.
//!
//! CPUs that work at the same moment are not modelled.

use std::vec::Vec;

use proptest::prelude::*;

use super::{CPUS, Rig, SpringKind, coalesced, frames_of, order, wants, with_rig_of};
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::lock::Guard;
use crate::probe::{Counts, Event, Probe};

/// One step of a random program. Numbers are taken modulo what is possible.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Take { cpu: u16, wants: Option<u8> },
    Put { cpu: u16 },
    Allocate { cpu: u16, order: u8 },
    Free { cpu: u16, which: u16 },
    Settle { cpu: u16, budget: u32 },
    Merge { cpu: u16 },
    Nested { cpu: u16, which: u16 },
    Collect { cpu: u16, enough: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = || 0..CPUS;
    prop_oneof![
        6 => (cpu(), wants()).prop_map(|(cpu, wants)| Step::Take { cpu, wants }),
        6 => cpu().prop_map(|cpu| Step::Put { cpu }),
        6 => (cpu(), 0u8..4).prop_map(|(cpu, order)| Step::Allocate { cpu, order }),
        4 => (cpu(), any::<u16>()).prop_map(|(cpu, which)| Step::Free { cpu, which }),
        1 => (cpu(), 0u32..9).prop_map(|(cpu, budget)| Step::Settle { cpu, budget }),
        1 => cpu().prop_map(|cpu| Step::Merge { cpu }),
        1 => (cpu(), any::<u16>()).prop_map(|(cpu, which)| Step::Nested { cpu, which }),
        1 => (cpu(), 1u32..4).prop_map(|(cpu, enough)| Step::Collect { cpu, enough }),
    ]
}

/// What a CPU does between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Holds(u32),
    Waits,
}

struct Program<'r, 'a> {
    rig: &'r Rig<'a>,
    cpus: [State; CPUS as usize],
    allocated: Vec<(Frame, Order)>,
}

impl Program<'_, '_> {
    fn put(&mut self, cpu: u16) {
        let State::Holds(domain) = self.cpus[usize::from(cpu)] else {
            return;
        };
        self.cpus[usize::from(cpu)] = State::Idle;
        self.rig.put(cpu, domain);
        self.served();
    }

    /// Notes who was given a domain.
    fn served(&mut self) {
        for (cpu, state) in (0..).zip(&mut self.cpus) {
            if *state == State::Waits
                && let Some(domain) = self.rig.given(cpu)
            {
                *state = State::Holds(domain);
            }
        }
        let waits = self.cpus.contains(&State::Waits);
        assert!(!waits || !self.rig.has_one(), "a ghost was forgotten");
    }

    fn step(&mut self, step: Step) {
        let rig = self.rig;
        let probe = &mut Counts::default();
        match step {
            Step::Take { cpu, wants } if self.cpus[usize::from(cpu)] == State::Idle => {
                self.cpus[usize::from(cpu)] = if rig.has_one() {
                    State::Holds(rig.take(cpu))
                } else {
                    rig.become_ghost(cpu, wants.map(order));
                    State::Waits
                };
            }
            Step::Put { cpu } => self.put(cpu),
            Step::Allocate { cpu, order: size } => {
                if let State::Holds(root) = self.cpus[usize::from(cpu)] {
                    let head = rig.allocate(root, order(size));
                    self.allocated.extend(head.map(|head| (head, order(size))));
                }
            }
            Step::Free { cpu, which } if !self.allocated.is_empty() => {
                if let State::Holds(root) = self.cpus[usize::from(cpu)] {
                    let which = usize::from(which) % self.allocated.len();
                    let (head, size) = self.allocated.swap_remove(which);
                    rig.free(root, head, size);
                }
            }
            Step::Settle { cpu, budget } => {
                if let State::Holds(root) = self.cpus[usize::from(cpu)] {
                    let settled = rig.all.held(root).settle(budget, probe);
                    assert_eq!(settled, rig.all.is_settled(root));
                }
            }
            Step::Merge { cpu } if rig.has_one() => {
                if let State::Holds(root) = self.cpus[usize::from(cpu)] {
                    let guard = Guard::lock(&rig.spring.head.lock, probe);
                    let other = rig.spring.find(&rig.all, 0).unwrap();
                    let merged = rig.spring.merge(&rig.all, (root, other), guard);
                    self.cpus[usize::from(cpu)] = State::Holds(merged.root());
                }
            }
            Step::Nested { cpu, which } if !self.allocated.is_empty() => {
                let which = usize::from(which) % self.allocated.len();
                let (head, size) = self.allocated[which];
                let free = rig.on(cpu, |caller| {
                    caller.nested = true;
                    rig.spring.nested(caller, &rig.all, |held, _| {
                        rig.free(held.root(), head, size);
                    })
                });
                if free.is_some() {
                    self.allocated.swap_remove(which);
                }
                self.served();
            }
            // The collector would wait for the holders of domains.
            Step::Collect { cpu, enough } if self.cpus.iter().all(|at| *at == State::Idle) => {
                let before = rig.spring.domains();
                let mut taken = 0;
                let held = rig.on(cpu, |caller| {
                    rig.spring.collect(caller, &rig.all, |_, probe| {
                        probe.record(Event::Reclaim);
                        taken += 1;
                        taken == enough
                    })
                });
                let root = held.unwrap().root();
                assert_eq!(taken, enough.min(before));
                assert_eq!(rig.spring.domains(), before + 1 - taken);
                if enough > before {
                    let free = frames_of(&rig.blocks(root));
                    assert_eq!(rig.blocks(root), coalesced(&free, rig.all.max_order));
                }
                self.cpus[usize::from(cpu)] = State::Holds(root);
            }
            _ => {}
        }
        rig.assert_sound();
    }
}

/// Random programs.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..200)
}

/// Runs a program, checks everything after each step, and merges all domains finally.
pub(super) fn run_random_program(kind: SpringKind, frames: u32, patience: u32, steps: &[Step]) {
    with_rig_of(kind, frames, 4, patience, |rig| {
        let cpus = [State::Idle; CPUS as usize];
        let mut program = Program {
            rig,
            cpus,
            allocated: Vec::new(),
        };
        steps.iter().for_each(|step| program.step(*step));
        // All domains are released. Waiting CPUs are served, and release theirs as well.
        while program.cpus.iter().any(|state| *state != State::Idle) {
            (0..CPUS).for_each(|cpu| program.put(cpu));
        }
        let enough = u32::MAX;
        program.step(Step::Collect { cpu: 0, enough });
        assert_eq!(rig.spring.domains(), 1);
        program.put(0);
        rig.assert_sound();
        let free = frames_of(&rig.blocks(rig.roots()[0]));
        let sizes = program.allocated.iter().map(|(_, size)| size.frames());
        assert_eq!(free.len() as u32 + sizes.sum::<u32>(), frames);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_everything_is_in_one_place(
        frames in 1u32..200,
        patience in 1u32..8,
        steps in steps(),
    ) {
        run_random_program(SpringKind::Own, frames, patience, &steps);
    }
}
