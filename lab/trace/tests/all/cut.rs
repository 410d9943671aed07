//! Parts of traces replay by themselves, and hold exactly what was asked for.

use std::collections::BTreeSet;

use crate::common::{acquisition, bundled};
use everybuddy_trace::{
    Acquisition, AddressRegion, Cut, Event, Fault, Leniency, Op, RegionId, Trace, cut, read,
    resolve, write,
};
use proptest::prelude::*;

/// Builds a valid trace of arbitrary choices: some threads allocate and free blocks and parts.
fn valid(choices: &[(u8, u8, u8)]) -> Trace {
    let mut trace = Trace {
        name: "made".to_string(),
        ..Trace::default()
    };
    trace.regions = (1..4).map(AddressRegion::unknown).collect();
    trace.metadata = vec![("stats".into(), "{}".into()), ("own".into(), "kept".into())];
    let mut live: Vec<(u64, u8, Option<RegionId>)> = Vec::new();
    let mut time_ns = 0;
    for (what, who, step) in choices {
        time_ns += u64::from(*step);
        let (pid, cpu) = (u32::from(who % 4), u16::from(who % 2));
        let order = what % 3;
        // Frames of a few blocks, so that they are used again and again.
        let pfn = u64::from(what >> 4) * 8;
        if what & 8 != 0
            || live
                .iter()
                .any(|(at, size, _)| at / 8 == pfn / 8 && *size <= 3)
        {
            if live.is_empty() {
                continue;
            }
            let (pfn, order, region) = live.swap_remove(usize::from(*who) % live.len());
            let mut free = Event::new(time_ns, cpu, pid, Op::Free, pfn, order);
            if order > 0 && what & 1 != 0 {
                free.order = order - 1;
                live.push((pfn + (1 << (order - 1)), order - 1, region));
            }
            free.region = region;
            trace.events.push(free);
            continue;
        }
        let mut event = Event::new(time_ns, cpu, pid, Op::Allocate, pfn, order);
        if who & 16 != 0 {
            event.region = RegionId::from_index(usize::from(*who) % 3);
            let row = trace.events.len() as u32;
            trace.faults.push(Fault {
                row,
                vpn: pfn,
                region: event.region,
                sequence: row,
            });
        }
        live.push((pfn, order, event.region));
        trace.events.push(event);
        if who & 32 != 0 {
            let own = Acquisition {
                pid,
                cpu,
                ..acquisition(time_ns, 0)
            };
            trace.acquisitions.push(own);
        }
    }
    trace
}

fn cuts() -> impl Strategy<Value = Cut> {
    let maybe = |most: u64| proptest::option::of(0..most);
    let rows = proptest::option::of((0usize..200, 0usize..200));
    let tasks = proptest::option::of(proptest::collection::btree_set(0u32..4, 0..3));
    (
        maybe(3000),
        maybe(3000),
        rows,
        maybe(200),
        tasks,
        any::<bool>(),
    )
        .prop_map(|(from_ns, to_ns, rows, first, tasks, keeps_time)| Cut {
            from_ns,
            to_ns,
            events: rows.map(|(from, to)| from..to),
            first: first.map(|first| first as usize),
            tasks,
            keeps_time,
        })
}

/// What must be kept, said in the slowest and plainest way.
fn wanted(trace: &Trace, cut: &Cut) -> Vec<usize> {
    let resolved = resolve(trace).unwrap();
    let within = |row: usize| {
        let time = trace.events[row].time_ns;
        cut.from_ns.is_none_or(|from| from <= time)
            && cut.to_ns.is_none_or(|to| time < to)
            && cut.events.as_ref().is_none_or(|rows| rows.contains(&row))
    };
    let mut kept: Vec<usize> = Vec::new();
    for row in (0..trace.events.len()).filter(|row| within(*row)) {
        let block = resolved.steps[row].block;
        let has_block = kept.iter().any(|kept| resolved.steps[*kept].block == block);
        let own = cut
            .tasks
            .as_ref()
            .is_none_or(|tasks| tasks.contains(&trace.events[row].pid));
        let is_wanted = match trace.events[row].op {
            Op::Allocate => own,
            Op::Free => has_block,
        };
        if is_wanted && cut.first.is_none_or(|first| kept.len() < first) {
            kept.push(row);
        }
    }
    kept
}

/// The acquisitions that must be kept, said likewise.
fn acquisitions(trace: &Trace, cut: &Cut, rows: &[usize]) -> Vec<Acquisition> {
    let mut times = rows.iter().map(|row| trace.events[*row].time_ns);
    let (first, last) = (
        times.clone().next().unwrap_or(0),
        times.next_back().unwrap_or(u64::MAX),
    );
    // Where time is counted from the first call, nothing is before it.
    let begins_there = cut.from_ns.is_none() && rows.first().is_some_and(|row| *row > 0);
    let is_kept = |own: &&Acquisition| {
        let time = own.time_ns;
        cut.from_ns.is_none_or(|from| from <= time)
            && cut.to_ns.is_none_or(|to| time < to)
            && cut
                .tasks
                .as_ref()
                .is_none_or(|tasks| tasks.contains(&own.pid))
            && ((cut.events.is_none() && cut.first.is_none()) || (first..=last).contains(&time))
            && (!begins_there || time >= first)
    };
    trace.acquisitions.iter().filter(is_kept).copied().collect()
}

proptest! {
    #[test]
    fn any_cut_holds_what_was_asked_for_and_replays(
        choices in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..200),
        asked in cuts(),
    ) {
        let trace = valid(&choices);
        prop_assume!(!trace.events.is_empty());
        let (part, report) = cut(&trace, &asked).unwrap();
        let rows = wanted(&trace, &asked);
        prop_assert_eq!(part.events.len(), rows.len());
        prop_assert_eq!(report.kept as usize, rows.len());
        let left_out = report.outside + report.others + report.frees_of_others;
        prop_assert_eq!(left_out + report.kept, trace.events.len() as u64);
        let number = |trace: &Trace, id: Option<RegionId>| {
            id.and_then(|id| trace.region(id)).map(|region| region.number)
        };
        for (position, row) in rows.iter().enumerate() {
            let (is, was) = (part.events[position], trace.events[*row]);
            prop_assert_eq!(Event { time_ns: 0, region: None, ..is }, Event { time_ns: 0, region: None, ..was });
            prop_assert_eq!(number(&part, is.region), number(&trace, was.region));
            // All calls move by the same time, or by none.
            let moved = was.time_ns - is.time_ns;
            prop_assert!(moved <= was.time_ns);
            prop_assert_eq!(moved, trace.events[rows[0]].time_ns - part.events[0].time_ns);
            prop_assert!(!asked.keeps_time || moved == 0);
        }
        for fault in &part.faults {
            let row = rows[fault.row as usize] as u32;
            let was = trace.faults.iter().find(|fault| fault.row == row).unwrap();
            prop_assert_eq!((fault.vpn, fault.sequence), (was.vpn, was.sequence));
        }
        prop_assert_eq!(part.faults.len() as u64 + report.faults_dropped, trace.faults.len() as u64);
        let own = acquisitions(&trace, &asked, &rows);
        let moved = rows.first().map_or(0, |row| trace.events[*row].time_ns - part.events[0].time_ns);
        prop_assert_eq!(report.acquisitions_dropped as usize, trace.acquisitions.len() - own.len());
        if !rows.is_empty() {
            let own = own.into_iter().map(|own| Acquisition { time_ns: own.time_ns - moved, ..own });
            prop_assert_eq!(&part.acquisitions, &own.collect::<Vec<_>>());
        }
        if !part.events.is_empty() {
            let (_scratch, path) = crate::common::made();
            write(&part, &path).unwrap();
            prop_assert_eq!(read(&path, Leniency::Strict).unwrap().0, part);
        }
    }

    #[test]
    fn cutting_everything_changes_nothing(
        choices in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..200),
    ) {
        let trace = valid(&choices);
        prop_assume!(!trace.events.is_empty());
        let all = Cut {
            from_ns: Some(0),
            to_ns: Some(u64::MAX),
            events: Some(0..usize::MAX),
            first: Some(usize::MAX),
            tasks: Some((0..4).collect()),
            keeps_time: false,
        };
        for asked in [Cut::default(), all] {
            prop_assert_eq!(&cut(&trace, &asked).unwrap().0, &trace);
        }
    }
}

#[test]
fn a_program_of_a_real_trace_can_be_cut_out() {
    let (trace, _) = read(&bundled("gcc_build.parquet"), Leniency::Strict).unwrap();
    let busiest = trace.events[trace.events.len() / 2].pid;
    let asked = Cut {
        tasks: Some(BTreeSet::from([busiest])),
        ..Cut::default()
    };
    let (part, report) = cut(&trace, &asked).unwrap();
    assert!(report.others > 0 && report.regions_dropped > 0 && !part.faults.is_empty());
    let owners = part.events.iter().filter(|event| event.op == Op::Allocate);
    assert!(owners.into_iter().all(|event| event.pid == busiest));
    assert!(part.metadata.iter().any(|(key, _)| key == "processes"));
    assert!(part.metadata.iter().any(|(key, _)| key == "cut"));
    resolve(&part).unwrap();
}
