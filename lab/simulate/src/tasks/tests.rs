//! Tests of the tasks of traces: on an allocator that writes down what it is asked, and on real ones.

use std::collections::{HashMap, HashSet};

use everybuddy::{Order, SystemSpec};
use everybuddy_measure::replay::Script;
use everybuddy_trace::{Event, Op, Resolved, Trace, resolve};

use super::*;
use crate::Load;
use crate::cell::{Cell, CellPlan, Zones, simulate};
use crate::clerk::{Asked, Clerk, Kind};
use crate::trace::Traced;
use crate::work::Work;

/// A trace of some tasks that free each other's blocks, some in parts.
fn resolved(tasks: u32) -> Resolved {
    let (mut events, mut time) = (Vec::new(), 0);
    let mut add = |task: u32, op, pfn, order| {
        time += 100;
        events.push(Event::new(time, 0, 100 + task % tasks, op, pfn, order));
    };
    for round in 0..20u32 {
        for at in 0..40u64 {
            add(round + at as u32 % 3, Op::Allocate, at, 0);
        }
        add(round, Op::Allocate, 64, 3);
        // Another task frees most of them, in the opposite order.
        for at in (0..40).rev() {
            add(round * 7 + at as u32 % 2, Op::Free, at, 0);
        }
        add(round + 1, Op::Free, 68, 2);
        add(round + 2, Op::Free, 64, 2);
    }
    for at in 0..9 {
        add(at as u32, Op::Allocate, at, 0);
    }
    let trace = Trace {
        name: "t".into(),
        events,
        ..Trace::default()
    };
    resolve(&trace).unwrap()
}

fn traced(tasks: u32) -> Traced {
    Traced::new("t", &resolved(tasks), None).unwrap()
}

/// 300 cycles between two calls.
const PACE: Pace = Pace {
    think: [300; 2],
    around: 0,
    seed: 1,
    is_recorded: false,
    keeps_ends: false,
    cut_off: None,
    whole_calls: false,
};

/// Plays a trace to the clerk.
fn asked(traced: &Traced, cpus: u16, seed: u64) -> (Vec<Asked>, Vec<Counted>) {
    let machine = crate::machines::by_name_or_path("epyc-7763").unwrap();
    let pace = Pace { seed, ..PACE };
    let mut machine = Machine::new(cpus).cost(Caches::new(machine.hardware).seed(seed));
    let clerk = Clerk::default();
    let deal = Deal::new(traced, cpus);
    let crew = Crew::new(
        &clerk,
        cpus,
        crate::Services::Callers,
        Work::default(),
        false,
    );
    let report = run(&deal, pace, &crew, &mut machine, Region::NONE).unwrap();
    let parked = clerk.parked.into_inner().unwrap();
    assert_eq!(
        parked.len(),
        usize::from(cpus),
        "a CPU without calls has parked itself"
    );
    (clerk.log.into_inner().unwrap(), report.results)
}

#[test]
fn one_cpu_asks_what_a_plain_replay_asks() {
    for tasks in [1, 5] {
        let resolved = resolved(tasks);
        let plain = Script::new("t", &resolved, None).unwrap();
        let (clerk, mut places) = (Clerk::default(), HashMap::new());
        let expected: Vec<Asked> = plain.lanes[0]
            .moves
            .iter()
            .map(|own| match own.kind {
                MoveKind::Allocate => {
                    let request = Request::order(own.order()).with_hint(own.hint);
                    let start = clerk.place(request.size);
                    places.insert(own.block, start);
                    Asked::Allocate(0, request, start)
                }
                kind => {
                    let start = Index(places[&own.block] + own.offset());
                    let release = match kind {
                        MoveKind::FreePart => Release::frames(start, own.order().frames()),
                        _ => Release::block(Block::new(start, own.order())),
                    };
                    Asked::Free(0, release.with_hint(own.hint))
                }
            })
            .collect();
        let (log, counted) = asked(&traced(tasks), 1, 1);
        assert_eq!(log, expected);
        assert_eq!(counted[0].idle, 0, "one CPU never waits");
    }
}

#[test]
fn each_block_of_each_copy_is_allocated_once_and_then_freed_once() {
    for (tasks, cpus, copies) in [(1, 3, 3), (5, 2, 1), (5, 5, 1), (5, 12, 3), (40, 16, 1)] {
        let traced = traced(tasks);
        assert_eq!(traced.copies(cpus), copies);
        let (log, counted) = asked(&traced, cpus, 7);
        let calls = traced.moves().len() * copies as usize;
        assert_eq!(log.len(), calls);
        let measured = counted
            .iter()
            .map(|own| own.allocate.len() + own.free.len());
        assert_eq!(measured.sum::<usize>(), calls);
        let (mut live, mut sizes) = (HashSet::new(), HashMap::new());
        for own in &log {
            match own {
                Asked::Allocate(_, request, start) => {
                    let Size::Order(order) = request.size else {
                        panic!()
                    };
                    *sizes.entry(order).or_insert(0) += 1;
                    let frames = *start..*start + order.frames();
                    assert!(frames.into_iter().all(|frame| live.insert(frame)));
                }
                Asked::Free(_, release) => {
                    let frames = match release.size {
                        Size::Order(order) => order.frames(),
                        Size::Frames(frames) => frames.0,
                    };
                    let frames = release.start.0..release.start.0 + frames;
                    assert!(frames.into_iter().all(|frame| live.remove(&frame)));
                }
            }
        }
        assert_eq!(
            live.len() as u64,
            traced.script.final_frames * u64::from(copies)
        );
        assert_eq!(sizes[&Order::ZERO], (20 * 40 + 9) * copies);
    }
}

#[test]
fn calls_keep_the_order_within_a_task_and_tasks_their_cpu() {
    let traced = traced(5);
    for cpus in [1, 2, 4, 12] {
        let (log, _) = asked(&traced, cpus, 3);
        let hint = |own: &Asked| match own {
            Asked::Allocate(cpu, request, _) => (*cpu, request.hint.task),
            Asked::Free(cpu, release) => (*cpu, release.hint.task),
        };
        let mut of_task: HashMap<u32, Vec<Asked>> = HashMap::new();
        let mut cpu_of = HashMap::new();
        for own in &log {
            let (cpu, task) = hint(own);
            assert_eq!(*cpu_of.entry(task).or_insert(cpu), cpu, "task {task}");
            of_task.entry(task).or_default().push(*own);
        }
        let copies = traced.copies(cpus);
        assert_eq!(of_task.len() as u32, 5 * copies, "copies are other tasks");
        for (task, own) in &of_task {
            let first = 100 + (task - 100) % traced.stride;
            let plain = traced.moves().iter().filter(|own| own.hint.task == first);
            let kinds: Vec<bool> = plain.map(|own| own.kind == MoveKind::Allocate).collect();
            let asked: Vec<bool> = own
                .iter()
                .map(|own| matches!(own, Asked::Allocate(..)))
                .collect();
            assert_eq!(asked, kinds, "task {task} on {cpus} CPUs");
        }
        let busy: HashSet<u16> = cpu_of.into_values().collect();
        assert_eq!(busy.len(), usize::from(cpus), "each CPU has a task");
    }
}

#[test]
fn copies_begin_at_times_of_the_seed() {
    let traced = traced(1);
    let (first, counted) = asked(&traced, 6, 1);
    assert!(counted.iter().any(|own| own.idle > 0));
    assert_eq!(asked(&traced, 6, 1).0, first);
    assert_ne!(asked(&traced, 6, 2).0, first);
    let starts = starts(&Deal::new(&traced, 6), PACE);
    let different: HashSet<&u64> = starts.iter().collect();
    assert_eq!(different.len(), 6, "{starts:?}");
    // Within a tenth of the calls of a CPU.
    let most = traced.moves().len() as u64 / 10 * 300;
    assert!(starts.iter().all(|start| *start <= most), "{starts:?}");
}

#[test]
fn copies_begin_at_different_times_also_without_time_between_calls() {
    let pace = Pace {
        think: [0; 2],
        ..PACE
    };
    let starts = starts(&Deal::new(&traced(1), 6), pace);
    let different: HashSet<&u64> = starts.iter().collect();
    assert_eq!(different.len(), 6, "{starts:?}");
}

#[test]
fn tasks_and_regions_of_copies_are_others_and_what_is_unknown_stays_unknown() {
    let traced = traced(5);
    let ids = |own: &Move| [own.hint.task, own.hint.region];
    let known = traced
        .moves()
        .iter()
        .flat_map(ids)
        .filter(|id| *id != Hint::UNKNOWN);
    assert_eq!(Some(traced.stride), known.max().map(|most| most + 1));
    let mut own = traced.moves()[0];
    (own.hint.task, own.hint.region) = (3, Hint::UNKNOWN);
    let moved = hint(&own, 20);
    assert_eq!((moved.task, moved.region), (23, Hint::UNKNOWN));
}

#[test]
fn a_cpu_that_waits_for_a_block_parks_first() {
    let traced = traced(5);
    let machine = crate::machines::by_name_or_path("epyc-7763").unwrap();
    let mut machine = Machine::new(2).cost(Caches::new(machine.hardware));
    let (clerk, pace) = (Clerk::default(), PACE);
    let deal = Deal::new(&traced, 2);
    let crew = Crew::new(&clerk, 2, crate::Services::Callers, Work::default(), false);
    let report = run(&deal, pace, &crew, &mut machine, Region::NONE).unwrap();
    let waited = report.results.iter().map(|own| own.idle).sum::<u64>();
    assert!(waited > 0);
    let times = clerk.times.into_inner().unwrap();
    let parks = times
        .iter()
        .filter(|(.., kind)| *kind == Kind::Park)
        .count();
    // Each CPU before the others are met and at its end, and once for each wait, however often it looks.
    assert!(parks > 4, "{parks}");
    assert!(
        (parks as u64 - 4) * u64::from(LOOK) < waited,
        "{parks} in {waited}"
    );
}

/// Runs a trace on a system.
fn cell(system: &str, traced: &Traced, cpus: u16) -> Cell {
    let machine = crate::machines::by_name_or_path("epyc-7763").unwrap();
    let spec: SystemSpec = system.parse().unwrap();
    simulate(&CellPlan {
        hardware: &machine.hardware,
        spec: &spec,
        load: &Load::Trace(std::sync::Arc::new(traced.clone())),
        cpus,
        frames: traced.memory(cpus) as u32,
        start: None,
        think: [300; 2],
        around: 0,
        program: crate::Program::default(),
        shrink: 1,
        seed: 1,
        phases: crate::Phases::Together,
        frees: crate::Frees::Own,
        slice: 10_000,
        whole_calls: false,
        services: crate::Services::Callers,
        zones: Zones::One,
        cut_off: None,
        is_recorded: false,
    })
    .unwrap()
}

#[test]
fn cpus_serve_while_they_wait_for_blocks_and_before_they_begin() {
    let machine = crate::machines::by_name_or_path("epyc-7763").unwrap();
    let run = |tasks, cpus, services| {
        let traced = traced(tasks);
        let mut machine = Machine::new(cpus).cost(Caches::new(machine.hardware));
        let clerk = Clerk::serving();
        let pace = PACE;
        let crew = Crew::new(&clerk, cpus, services, Work::default(), false);
        let deal = Deal::new(&traced, cpus);
        let report = run(&deal, pace, &crew, &mut machine, Region::NONE).unwrap();
        let log = clerk.log.into_inner().unwrap();
        (report.results, log.len())
    };
    // CPUs wait for blocks of each other; copies of a task begin at different times.
    for (tasks, cpus) in [(5, 2), (1, 4)] {
        let (alone, calls) = run(tasks, cpus, crate::Services::Callers);
        let (served, same) = run(tasks, cpus, crate::Services::Idle);
        assert_eq!(calls, same);
        assert!(served.iter().all(|own| own.units > 0));
        assert!(alone.iter().all(|own| own.units == 0));
        let end = |all: &[Counted]| all.iter().map(|own| own.end).max().unwrap();
        let (before, after) = (end(&alone), end(&served));
        assert!(
            after < before * 11 / 10,
            "{before}, {after}: they return soon"
        );
    }
}

#[test]
fn every_system_serves_all_calls_of_a_trace() {
    let traced = traced(5);
    for row in everybuddy::systems::ROWS {
        for cpus in [2, 12] {
            let name = format!("{} on {cpus} CPUs", row.name);
            let cell = cell(row.name, &traced, cpus);
            let calls = traced.moves().len() as u64 * u64::from(traced.copies(cpus));
            assert_eq!((cell.calls(), cell.refused), (calls, 0), "{name}");
            assert_eq!(cell.outside, 0, "{name}");
            let time = cell.cycles * u64::from(cpus);
            assert!(cell.idle > 0 && cell.idle < time, "{name}");
        }
    }
}

#[test]
fn memory_grows_with_the_copies() {
    let resolved = resolved(1);
    let traced = Traced::new("t", &resolved, Some(3000)).unwrap();
    assert_eq!((traced.memory(1), traced.memory(4)), (3072, 12 * 1024));
    let traced = Traced::new("t", &resolved, None).unwrap();
    assert_eq!((traced.memory(1), traced.memory(4)), (2048, 4 * 2048));
    // What each CPU has allocated and not freed itself, at its fullest moment.
    assert_eq!(Deal::new(&traced, 1).most_frames(), resolved.peak_frames);
    assert_eq!(
        Deal::new(&traced, 4).most_frames(),
        4 * resolved.peak_frames
    );
    let traced = super::tests::traced(5);
    assert!(Deal::new(&traced, 5).most_frames() > resolved.peak_frames);
}

#[test]
fn a_trace_without_calls_is_refused() {
    let error = Traced::new("empty", &Resolved::default(), None).unwrap_err();
    assert!(error.to_string().contains("empty has no calls"), "{error}");
}

#[test]
fn another_trace_has_another_fingerprint() {
    assert_eq!(traced(1).fingerprint(), traced(1).fingerprint());
    assert_ne!(traced(1).fingerprint(), traced(2).fingerprint());
}
