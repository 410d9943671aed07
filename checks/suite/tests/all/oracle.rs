//! Systems against the plain model: random sequences that shrink, and all short sequences on tiny memory.

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, FrameRange, Index, Order, Pfn, Release, Request, Setup, SystemSpec,
};
use everybuddy_suite::model::Model;
use everybuddy_suite::platform::waiting_by;
use everybuddy_suite::{Cpu, System, claim, on};
use proptest::prelude::*;

/// One step of a program. Numbers are taken modulo what is possible.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate {
        cpu: u8,
        order: u8,
    },
    AllocateExact {
        cpu: u8,
        frames: u8,
    },
    Free {
        cpu: u8,
        which: u8,
    },
    FreePart {
        cpu: u8,
        which: u8,
        from: u8,
        frames: u8,
    },
    Drain {
        cpu: u8,
    },
    Park {
        cpu: u8,
    },
}

/// Runs a program on a system and on the model; all CPUs' tokens are held by one thread.
struct Program<'p> {
    steps: &'p [Step],
    ranges: &'p [FrameRange],
    cpus: u16,
    check_each: bool,
}

impl Program<'_> {
    /// Builds the system and runs the program. One thread holds all tokens, so waiting is useless.
    fn run_on(&self, spec: &SystemSpec) {
        let setup = Setup::new(self.ranges, self.cpus);
        waiting_by(
            |_| (),
            || everybuddy_suite::any(spec, &setup, |system| self.run(system)),
        );
    }

    fn run(&self, system: &System<'_>) {
        let set = NativeCpus::new(self.cpus);
        let mut cpus: Vec<Cpu> = (0..self.cpus).map(|id| claim(&set, id)).collect();
        let mut model = Model::new(system.span(), self.ranges);
        let mut held: Vec<(Index, u32)> = Vec::new();
        let count = cpus.len();
        let at = |cpu: u8| usize::from(cpu) % count;
        // One thread holds all tokens, so no CPU answers a drain request: the others are parked meanwhile.
        let alone = |cpus: &mut Vec<Cpu>, cpu: usize| {
            for (id, token) in cpus.iter_mut().enumerate() {
                if id != cpu {
                    system.park(token);
                }
            }
        };
        let allocate = |cpus: &mut Vec<Cpu>, model: &mut Model, cpu, request, frames: u32| {
            let covering = Order::covering(frames).unwrap();
            let mut result = system.allocate(&mut cpus[cpu], request);
            if result == Err(AllocateError::Busy) {
                alone(cpus, cpu);
                result = system.allocate(&mut cpus[cpu], request);
            }
            match result {
                Ok(start) => {
                    assert!(start.is_aligned(covering));
                    model.take(start, frames);
                    Some((start, frames))
                }
                Err(AllocateError::Exhausted) => {
                    assert!(!model.can_serve(covering), "{covering:?} could be served");
                    None
                }
                Err(error) => panic!("{error}"),
            }
        };
        for step in self.steps {
            match *step {
                Step::Allocate { cpu, order } => {
                    let order = Order::new(order % (system.max_order().get() + 1)).unwrap();
                    alone(&mut cpus, at(cpu));
                    let request = Request::order(order);
                    held.extend(allocate(
                        &mut cpus,
                        &mut model,
                        at(cpu),
                        request,
                        order.frames(),
                    ));
                }
                Step::AllocateExact { cpu, frames } => {
                    let frames = 1 + u32::from(frames) % system.max_order().frames();
                    alone(&mut cpus, at(cpu));
                    let request = Request::frames(frames);
                    held.extend(allocate(&mut cpus, &mut model, at(cpu), request, frames));
                }
                Step::Free { cpu, which } if !held.is_empty() => {
                    let (start, frames) = held.swap_remove(usize::from(which) % held.len());
                    system
                        .free(&mut cpus[at(cpu)], Release::frames(start, frames))
                        .unwrap();
                    model.give(start, frames);
                }
                Step::FreePart {
                    cpu,
                    which,
                    from,
                    frames,
                } if !held.is_empty() => {
                    let (start, all) = held.swap_remove(usize::from(which) % held.len());
                    let from = u32::from(from) % all;
                    let frames = 1 + u32::from(frames) % (all - from);
                    let part = Index(start.0 + from);
                    system
                        .free(&mut cpus[at(cpu)], Release::frames(part, frames))
                        .unwrap();
                    model.give(part, frames);
                    held.extend((from > 0).then_some((start, from)));
                    let rest = all - from - frames;
                    held.extend((rest > 0).then_some((Index(part.0 + frames), rest)));
                }
                Step::Drain { cpu } => system.drain(&mut cpus[at(cpu)]),
                Step::Park { cpu } => system.park(&mut cpus[at(cpu)]),
                Step::Free { .. } | Step::FreePart { .. } => {}
            }
            if self.check_each {
                let census = system.check(&mut cpus[0]).unwrap();
                assert!(census.free <= model.free_frames());
            }
        }
        alone(&mut cpus, 0);
        system.quiesce(&mut cpus[0]).unwrap();
        let census = system.check(&mut cpus[0]).unwrap();
        assert_eq!(census.free, model.free_frames());
        // Whatever is held, free memory is as coalesced as can be: block for block as by definition.
        let snapshot = system.snapshot(&mut cpus[0]);
        let max_order = system.max_order();
        assert_eq!(
            snapshot.free_blocks[..=max_order.index()],
            model.coalesced(max_order)[..]
        );
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..3, 0u8..4).prop_map(|(cpu, order)| Step::Allocate { cpu, order }),
        1 => (0u8..3, any::<u8>()).prop_map(|(cpu, frames)| Step::AllocateExact { cpu, frames }),
        3 => (0u8..3, any::<u8>()).prop_map(|(cpu, which)| Step::Free { cpu, which }),
        1 => (0u8..3, any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(cpu, which, from, frames)| Step::FreePart { cpu, which, from, frames }),
        1 => (0u8..3).prop_map(|cpu| Step::Drain { cpu }),
        1 => (0u8..3).prop_map(|cpu| Step::Park { cpu }),
    ]
}

/// Memory as it may come: up to three ranges with holes between them, at any start.
fn ranges() -> impl Strategy<Value = Vec<FrameRange>> {
    prop::collection::vec((0u64..40, 1u64..60), 1..4).prop_map(|gaps| {
        let mut at = 1000;
        gaps.into_iter()
            .map(|(gap, frames)| {
                let range = FrameRange::new(Pfn(at + gap), frames);
                at += gap + frames;
                range
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree_with_the_model(
        spec in prop::sample::select(everybuddy_suite::specs()),
        ranges in ranges(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let program = Program { steps: &steps, ranges: &ranges, cpus: 3, check_each: true };
        program.run_on(&spec);
    }

    #[test]
    fn two_names_of_one_system_do_the_same(
        steps in prop::collection::vec(step(), 0..300),
    ) {
        // 156 MiB: from 128 on, Linux's formula has the length of Spring Buddy's shortest list.
        let ranges = [FrameRange::new(Pfn(0), 40_000)];
        let run = |name: &str| {
            on(name, &Setup::new(&ranges, 3), |system| record(&steps, system))
        };
        prop_assert_eq!(run("fixlazy-186"), run("lbs-31"));
        prop_assert_eq!(run("lbs-31+batch=31+high=186"), run("lbs-31"));
        // Where the states of free blocks are decides nothing.
        for name in ["bs", "lbs-1", "lbs-31", "lbs-31+zone=spaces"] {
            prop_assert_eq!(run(&format!("{name}+state=record")), run(name), "{}", name);
        }
    }
}

/// Runs a program and returns every frame that was given, in order.
fn record(steps: &[Step], system: &System<'_>) -> Vec<u32> {
    let set = NativeCpus::new(1);
    let mut cpu = claim(&set, 0);
    let mut held = Vec::new();
    let mut given = Vec::new();
    for step in steps {
        match *step {
            // Many in a row, so that batches move.
            Step::Allocate { order, .. } => {
                for _ in 0..40 {
                    let order = Order::new(order).unwrap();
                    let start = system.allocate(&mut cpu, Request::order(order)).unwrap();
                    given.push(start.0);
                    held.push((start, order.frames()));
                }
            }
            Step::Free { which, .. } if !held.is_empty() => {
                for _ in 0..held.len().min(100) {
                    let (start, frames) = held.swap_remove(usize::from(which) % held.len());
                    system
                        .free(&mut cpu, Release::frames(start, frames))
                        .unwrap();
                }
            }
            _ => {}
        }
    }
    given
}

/// All sequences of requests and releases, to a depth, on tiny memory. Each is run from the start.
fn exhaust(spec: &SystemSpec, frames: u64, depth: usize) -> usize {
    fn extend(
        spec: &SystemSpec,
        ranges: &[FrameRange],
        steps: &mut Vec<Step>,
        held: u8,
        depth: usize,
    ) -> usize {
        if depth == 0 {
            let program = Program {
                steps,
                ranges,
                cpus: 2,
                check_each: true,
            };
            program.run_on(spec);
            return 1;
        }
        let mut programs = 0;
        let mut choices: Vec<(Step, u8)> = (0..4)
            .map(|order| (Step::Allocate { cpu: 0, order }, held + 1))
            .collect();
        choices.push((Step::AllocateExact { cpu: 1, frames: 2 }, held + 1));
        for which in 0..held.min(3) {
            choices.push((
                Step::Free {
                    cpu: which % 2,
                    which,
                },
                held - 1,
            ));
        }
        if held > 0 {
            choices.push((
                Step::FreePart {
                    cpu: 0,
                    which: 0,
                    from: 1,
                    frames: 1,
                },
                held,
            ));
        }
        for (step, held) in choices {
            steps.push(step);
            programs += extend(spec, ranges, steps, held, depth - 1);
            steps.pop();
        }
        programs
    }
    extend(
        spec,
        &[FrameRange::new(Pfn(0), frames)],
        &mut Vec::new(),
        0,
        depth,
    )
}

/// One system of each kind of list, structure, policy and zone layer.
const EXHAUSTED: [&str; 15] = [
    "bs+order=3",
    "lbs-31+batch=2+high=3+order=3",
    "lbs-1+high=2+order=3",
    "spring-core+idle=1+order=2",
    "spring+high=4+order=3",
    "lbs-31+batch=2+high=3+order=2+zone=spaces+space=16KiB",
    "linux-6",
    "lbs-31+batch=2+high=3+order=3+drain=merged",
    "pcp-buddy+batch=2+high=3+order=2",
    "magazines+batch=1+order=3",
    "is+order=3+zone=one",
    "is+order=2+space=16KiB",
    "lis-31+batch=2+high=3+order=2+space=16KiB",
    "watermark+order=3+reclaim=on",
    "delay-2+order=3+reclaim=on+debt=on",
];

#[test]
fn all_short_programs_on_tiny_memory() {
    for text in EXHAUSTED {
        let spec = text.parse().unwrap();
        for frames in [8, 13, 16] {
            assert!(exhaust(&spec, frames, 5) > 5_000);
        }
    }
}

/// The same, deeper: about a minute. `cargo test --profile gate -p everybuddy --test all -- --ignored oracle`
#[test]
#[ignore = "takes minutes"]
fn all_longer_programs_on_tiny_memory() {
    for text in EXHAUSTED {
        let spec = text.parse().unwrap();
        for frames in [8, 13, 16] {
            exhaust(&spec, frames, 7);
        }
    }
}
