//! Property: whatever happens to a trace, lenient reading makes it replay, and says what it did.

use crate::common::{allocate, free, trace};
use everybuddy_trace::{Event, Leniency, Op, read, resolve, write};
use proptest::prelude::*;

/// Any row: few frames and small orders, so that rows meet; now and then nonsense.
fn any_event() -> impl Strategy<Value = Event> {
    let pfn = prop_oneof![30 => 0u64..64, 1 => any::<u64>()];
    let order = prop_oneof![30 => 0u8..8, 1 => any::<u8>()];
    (0u64..50, any::<bool>(), pfn, order, any::<bool>()).prop_map(
        |(time_ns, allocates, pfn, order, align)| {
            let op = if allocates { Op::Allocate } else { Op::Free };
            let pfn = if align && order < 64 {
                pfn >> order << order
            } else {
                pfn
            };
            Event::new(time_ns, (pfn % 4) as u16, order.into(), op, pfn, order)
        },
    )
}

/// A legal trace: slots of eight frames, each allocated and freed in turn, whole or by halves.
fn legal_events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec((0u64..12, any::<bool>()), 1..120).prop_map(|choices| {
        let mut live = [false; 12];
        let mut events = Vec::new();
        for (time, (slot, halves)) in choices.into_iter().enumerate() {
            let (time, pfn) = (time as u64, 1000 + slot * 8);
            let lives = live[slot as usize];
            live[slot as usize] = !lives;
            match (lives, halves) {
                (false, _) => events.push(allocate(time, pfn, 3)),
                (true, false) => events.push(free(time, pfn, 3)),
                (true, true) => events.extend([free(time, pfn + 4, 2), free(time, pfn, 2)]),
            }
        }
        events
    })
}

fn lenient(events: &[Event]) -> Option<(Vec<Event>, u64)> {
    let (_scratch, path) = crate::common::made();
    write(&trace(events), &path).unwrap();
    let (repaired, repairs) = read(&path, Leniency::Lenient).ok()?;
    write(&repaired, &path).unwrap();
    let (again, none) = read(&path, Leniency::Strict).unwrap();
    assert_eq!(again, repaired);
    assert!(none.is_empty());
    resolve(&repaired).unwrap();
    Some((repaired.events, repairs.total()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_replay_after_repair(events in prop::collection::vec(any_event(), 1..80)) {
        let legal = resolve(&trace(&events)).is_ok();
        match lenient(&events) {
            Some((repaired, repairs)) => {
                prop_assert_eq!(legal, repairs == 0);
                if legal {
                    prop_assert_eq!(repaired, events);
                }
            }
            None => prop_assert!(!legal),
        }
    }

    #[test]
    fn a_legal_trace_with_lost_and_doubled_rows_replays(
        events in legal_events(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4), 0..6),
    ) {
        prop_assert_eq!(lenient(&events).map(|repaired| repaired.1), Some(0));
        let mut rows = events;
        for (index, kind) in damage {
            if rows.is_empty() {
                return Ok(());
            }
            let row = index.index(rows.len());
            match kind {
                0 => drop(rows.remove(row)),
                1 => rows.insert(row, rows[row]),
                2 => rows[row].order += 1,
                _ => rows.swap(row, 0),
            }
        }
        let legal = resolve(&trace(&rows)).is_ok();
        if let Some((_, repairs)) = lenient(&rows) {
            prop_assert_eq!(legal, repairs == 0);
        }
    }
}

#[test]
fn a_large_block_over_many_live_ones_takes_no_square_of_their_number() {
    let frames = 1 << 17;
    let mut events: Vec<Event> = (0..frames).map(|pfn| allocate(pfn, pfn, 0)).collect();
    events.push(allocate(frames, 0, 17));
    let started = std::time::Instant::now();
    assert_eq!(lenient(&events).map(|repaired| repaired.1), Some(frames));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
