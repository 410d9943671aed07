//! Timelines are decoded, and compared with the rows of their runs.

use std::collections::BTreeMap;
use std::num::NonZero;

use everybuddy::CpuId;
use everybuddy_measure::choice;
use everybuddy_measure::rows::Row;
use prost::Message;

use super::*;
use crate::Services;
use crate::workload::{Frees, Phases};
use crate::{Load, Plan, Zones};

/// What a timeline contains.
struct Seen {
    /// The slices by name, without the names of locks.
    slices: BTreeMap<String, u64>,
    /// For each counter, its name and last value.
    counters: Vec<(String, i64)>,
    /// For each flow, the names of the slice or instant where it begins and where it ends, and the call in which
    /// it ends.
    flows: Vec<[String; 3]>,
}

/// An end of a flow: its track and time, what ends or begins there, the call, and the CPU that is named.
type FlowEnd = (u64, u64, [String; 2], Option<u64>);

/// Decodes a timeline and checks that slices nest and end, and that time never decreases in a track. Checks that
/// each flow begins on one CPU, and ends on another one, which names the first one, and not earlier.
fn checked(bytes: &[u8]) -> Seen {
    let trace = Trace::decode(bytes).unwrap();
    let mut ends: [BTreeMap<u64, FlowEnd>; 2] = Default::default();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut slices: BTreeMap<String, u64> = BTreeMap::new();
    let mut counters: BTreeMap<u64, i64> = BTreeMap::new();
    for packet in trace.packet {
        if let Some(track) = packet.track_descriptor {
            let parent = track.parent_uuid;
            assert!(parent.is_none_or(|parent| names.contains_key(&parent)));
            let name = track
                .name
                .or(track.thread.and_then(|t| t.thread_name))
                .or(track.process.and_then(|process| process.process_name));
            let known = names.insert(track.uuid.unwrap(), name.unwrap());
            assert_eq!(known, None, "a track is described once");
        }
        let Some(event) = packet.track_event else {
            continue;
        };
        let (track, at) = (event.track_uuid.unwrap(), packet.timestamp.unwrap());
        assert!(names.contains_key(&track), "a track is described first");
        let before = last.insert(track, at).unwrap_or(0);
        assert!(before <= at, "{}: {before} > {at}", names[&track]);
        let kind = event.r#type.unwrap();
        let name = match kind {
            TYPE_SLICE_END => open.entry(track).or_default().pop(),
            _ => event.name.clone(),
        };
        for (end, ids) in [&event.flow_ids, &event.terminating_flow_ids]
            .into_iter()
            .enumerate()
        {
            for id in ids {
                let from = event.debug_annotations.first();
                let from = from.map(|own| own.uint_value.unwrap());
                let call = open.get(&track).and_then(|slices| slices.first());
                let call = call.cloned().unwrap_or_default();
                let own = (track, at, [name.clone().unwrap(), call], from);
                assert_eq!(ends[end].insert(*id, own), None, "a flow has two ends");
            }
        }
        match kind {
            TYPE_SLICE_BEGIN => open.entry(track).or_default().push(name.unwrap()),
            TYPE_SLICE_END => {
                let name = name.expect("a slice has begun");
                let name = name.split(':').next().unwrap().to_string();
                *slices.entry(name).or_default() += 1;
            }
            TYPE_INSTANT => assert!(event.name.is_some()),
            TYPE_COUNTER => {
                let before = counters.insert(track, event.counter_value.unwrap());
                assert!(before < event.counter_value, "a counter rises");
            }
            other => panic!("type {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    let counters = counters.into_iter();
    let counters = counters.map(|(track, value)| (names[&track].clone(), value));
    let [begins, ends] = ends;
    assert!(begins.keys().eq(ends.keys()), "{begins:?} {ends:?}");
    let flows = begins.into_values().zip(ends.into_values());
    let flows = flows.map(|(begin, end)| {
        let (from, released, [last, _], _) = begin;
        let (to, acquired, [next, call], named) = end;
        assert_ne!(from, to, "{last}");
        // A release is noted after the instructions that its store stands for and the loads before it, when another
        // CPU may have seen it already.
        assert!(
            released <= acquired + 1_000,
            "{last}: {released} > {acquired}"
        );
        let cpu = named.expect("the end of a flow names the CPU where it begins");
        assert_eq!(names[&from], format!("CPU {cpu}"));
        [last, next, call]
    });
    Seen {
        slices,
        counters: counters.collect(),
        flows: flows.collect(),
    }
}

fn begin(at: u64, call: &'static str) -> Moment {
    Moment::Begin {
        at,
        call,
        is_counted: call != "park",
    }
}

fn inside(at: u64, event: Event) -> Moment {
    let access = None;
    Moment::Inside(Taped { at, event, access })
}

/// An event after an access to a word that another CPU has written before.
fn handed(at: u64, event: Event, line: u64, before: (u16, u64)) -> Moment {
    let before = Write {
        cpu: CpuId(before.0),
        at: before.1,
    };
    let access = LastAccess {
        line: Line(line),
        at,
        before: Some(before),
    };
    let access = Some(access);
    Moment::Inside(Taped { at, event, access })
}

#[test]
fn flows_lead_from_a_release_to_the_acquisition_that_waited_for_it() {
    let lock = |waits| Event::Lock {
        contended: true,
        waits,
    };
    let free = Event::Lock {
        contended: false,
        waits: 0,
    };
    let ghost = Event::Ghost { waits: 2 };
    let part = |what, start, length| MetadataPart {
        what,
        start,
        size: 128,
        length,
    };
    let parts = [part("zone lock", 64, 1), part("space", 192, 4)];
    let first = vec![
        begin(10, "allocate"),
        // A lock that was free has no flow, and neither has a domain that was searched for.
        handed(11, free, 1, (1, 9)),
        handed(12, lock(0), 1, (1, 9)),
        inside(30, Event::Unlock),
        inside(40, Event::Unlock),
        // From an acquisition without events, and from before the first call.
        handed(60, lock(1), 5, (1, 55)),
        inside(70, Event::Unlock),
        handed(80, ghost, 9, (1, 5)),
        Moment::End { at: 90 },
    ];
    let second = vec![
        begin(20, "free"),
        handed(50, lock(3), 1, (0, 40)),
        inside(52, Event::Unlock),
        Moment::End { at: 58 },
    ];
    let bytes = encode("test", 1000, &[first, second], &parts);
    let seen = checked(&bytes);
    let expected = [
        ["lock released: space 1", "lock held: space 1", "allocate"],
        ["domain handed over", "ghost, 2 polls", "allocate"],
        ["lock held: zone lock", "lock held: zone lock", "free"],
    ];
    assert_eq!(seen.flows, expected.map(|own| own.map(str::to_string)));
    assert_eq!(seen.slices["lock held"], 4);
    assert_eq!(seen.slices["wait for a lock"], 3);
}

#[test]
fn slices_nest_and_counters_rise() {
    let lock = |contended| Event::Lock {
        contended,
        waits: 3,
    };
    let moments = vec![
        begin(10, "allocate"),
        inside(12, Event::LockWanted),
        inside(30, lock(true)),
        inside(40, Event::LockWanted),
        inside(40, lock(false)),
        inside(50, Event::Unlock),
        inside(60, Event::Unlock),
        inside(61, Event::Refill { frames: 31 }),
        Moment::End { at: 70 },
        begin(70, "free"),
        // A lock that is not released ends with its call.
        inside(72, lock(false)),
        Moment::End { at: 80 },
        // The wait began with the call if nothing says when the lock was wanted.
        begin(82, "free"),
        inside(84, lock(true)),
        Moment::End { at: 86 },
        // A ghost is a wait too; a lock that was acquired before the run is released.
        begin(87, "free"),
        inside(88, Event::Ghost { waits: 1 }),
        inside(88, Event::Unlock),
        Moment::End { at: 89 },
        begin(90, "park"),
        inside(92, lock(false)),
        inside(93, Event::Unlock),
        // A call that does not end ends with the next one, or with the run.
        begin(95, "park"),
    ];
    let bytes = encode("test", 2000, &[moments, vec![begin(5, "free")]], &[]);
    let Seen {
        slices,
        counters,
        flows,
    } = checked(&bytes);
    assert_eq!(flows.len(), 0, "no CPU is known that released a lock");
    let slice = |name: &str| slices.get(name).copied().unwrap_or(0);
    assert_eq!((slice("allocate"), slice("free"), slice("park")), (1, 4, 2));
    assert_eq!((slice("lock held"), slice("wait for a lock")), (5, 2));
    let expected = [
        ("calls, CPU 0", 4),
        ("contended calls, CPU 0", 3),
        ("lock acquisitions, CPU 0", 4),
        ("calls, CPU 1", 1),
    ];
    assert_eq!(
        counters,
        expected.map(|(name, value)| (name.to_string(), value))
    );
    // 2 GHz: the lock was wanted after 12 cycles and acquired after 30.
    let trace = Trace::decode(&bytes[..]).unwrap();
    for (time, name) in [(6, "wait for a lock"), (15, "lock held")] {
        let begins = trace.packet.iter().any(|packet| {
            packet.timestamp == Some(time)
                && packet.track_event.as_ref().is_some_and(|e| {
                    e.name.as_deref() == Some(name) && e.r#type == Some(TYPE_SLICE_BEGIN)
                })
        });
        assert!(begins, "{name}");
    }
}

#[test]
fn a_timeline_without_cpus_is_a_name() {
    let seen = checked(&encode("nothing", 0, &[], &[]));
    assert!(seen.slices.is_empty() && seen.counters.is_empty());
}

#[test]
fn a_timeline_agrees_with_the_rows_of_its_run() {
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let machine = crate::machines::by_name_or_path("x5570").unwrap();
    let variants = choice::workloads(&names(&["burst:random"])).unwrap();
    let calls_of = ["allocate", "free"];
    for (system, services, least) in [
        ("bs", Services::Callers, 100),
        ("bs+lock=ticket", Services::Callers, 100),
        ("lbs-31", Services::Callers, 50),
        ("lis-31", Services::Callers, 0),
        ("spring-core", Services::Callers, 10),
        ("serewa", Services::Own, 100),
    ] {
        let plan = Plan {
            machine: machine.name.clone(),
            hardware: machine.hardware,
            loads: variants.iter().copied().map(Load::Workload).collect(),
            specs: choice::parse(&names(&[system])).unwrap(),
            cpus: vec![16],
            frames: 8192,
            start: None,
            think: 400,
            around: 0,
            program: crate::Program::default(),
            shrink: 64,
            phases: Phases::Together,
            frees: Frees::Own,
            zones: Zones::One,
            slice: 10_000,
            whole_calls: false,
            services,
            cut_off: None,
            stops: false,
            seeds: vec![1],
        };
        let (rows, _) = plan
            .run(NonZero::<usize>::MIN, vec![None], &mut |_, _| Ok(()))
            .unwrap();
        let row = |metric: &str, statistic: &str| -> f64 {
            let same = |row: &&Row| (row.metric, row.statistic) == (metric, statistic);
            rows.iter().filter(same).map(|row| row.value).sum()
        };
        let Seen {
            slices,
            counters,
            flows,
        } = checked(&plan.timeline(&plan.cells()[0]).unwrap());
        let last = |name: &str| -> i64 {
            let of = |(counter, _): &&(String, i64)| counter.starts_with(name);
            counters.iter().filter(of).map(|(_, value)| value).sum()
        };
        let calls = last("calls") as f64;
        assert!(calls > 1000.0);
        assert_eq!(calls, row("latency", "count"), "{system}");
        let of_all = |row: &&Row| row.metric == "contention_rate" && row.operation == "all";
        let contended = rows.iter().find(of_all).unwrap().value * calls;
        assert_eq!(
            last("contended calls"),
            contended.round() as i64,
            "{system}"
        );
        let locks = row("lock_acquisitions", "count");
        assert_eq!(last("lock acquisitions") as f64, locks, "{system}");
        let both = slices["allocate"] + slices["free"];
        assert_eq!(both as f64, calls, "{system}");
        let waits = row("contended_wait", "count");
        let in_calls = flows
            .iter()
            .filter(|[.., call]| calls_of.contains(&&call[..]));
        let in_calls = in_calls.count();
        // A CPU that finds its domain held takes another one: it waits, but no CPU hands anything over.
        let is_all = if system.starts_with("spring") {
            in_calls as f64 <= waits
        } else {
            in_calls as f64 == waits
        };
        assert!(is_all, "{system}: {in_calls} flows, {waits} waits");
        assert!(in_calls >= least, "{system}: {in_calls} flows");
        // Services are on CPUs of their own, and wait for locks, too.
        assert_eq!(
            flows.len() > in_calls,
            services == Services::Own,
            "{system}"
        );
        let mut slices = 0;
        for [from, to, _] in &flows {
            slices += usize::from(from == to);
            let is_same = match from.split_once(": ") {
                Some(("lock released", lock)) => *to == format!("lock held: {lock}"),
                Some(("lock held", _)) => from == to,
                _ => from == "domain handed over" && to.starts_with("ghost, "),
            };
            assert!(is_same, "{from}, {to}");
        }
        assert!(
            slices * 10 >= flows.len() * 8,
            "{system}: most begin at slices"
        );
    }
}
