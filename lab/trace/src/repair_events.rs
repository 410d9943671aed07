//! Repairs events that do not replay by themselves.
//!
//! Real recordings lose events, are merged from several CPUs, and are truncated; most of such a trace is still worth
//! replaying. Each repair is the smallest that makes the next event legal, and is counted.
//!
//! # Invariants
//! The repaired events pass [`crate::check::check`].

use crate::check::{LARGEST_SPAN, Ledger, check_shape};
use crate::columns::Sieve;
use crate::error::Problem;
use crate::model::{Event, EventFlags, LARGEST_ORDER, Op};
use crate::repair::{Repair, Repairs};

/// Marks a dropped row in [`Repaired::rows`].
pub(crate) const DROPPED: u32 = u32::MAX;

/// Repaired events.
pub(crate) struct Repaired {
    /// The events, all legal.
    pub(crate) events: Vec<Event>,
    /// For each row of the file, the position of its event, or [`DROPPED`].
    pub(crate) rows: Vec<u32>,
}

/// Repairs events, except those that `sieve` drops.
pub(crate) fn repair_events(events: Vec<Event>, sieve: &Sieve, repairs: &mut Repairs) -> Repaired {
    sieve.report(repairs);
    let count = events.len();
    let mut rows: Vec<(u32, Event)> = Vec::with_capacity(count);
    for (row, event) in events
        .into_iter()
        .enumerate()
        .filter(|(row, _)| !sieve.drops(*row))
    {
        match check_shape(&event) {
            Ok(()) => rows.push((row as u32, event)),
            Err(Problem::UnknownOrder(_)) => repairs.add(Repair::UnknownOrder, 1),
            Err(_) => repairs.add(Repair::Misaligned, 1),
        }
    }
    drop_strangers(&mut rows, repairs);
    sort(&mut rows, repairs);
    replay(rows, count, repairs)
}

/// Drops frames far from the others: those that are not near the median.
fn drop_strangers(rows: &mut Vec<(u32, Event)>, repairs: &mut Repairs) {
    let mut frames: Vec<u64> = rows.iter().map(|(_, event)| event.pfn).collect();
    let (Some(low), Some(high)) = (frames.iter().min(), frames.iter().max()) else {
        return;
    };
    let block = 1u64 << LARGEST_ORDER;
    if high - low < LARGEST_SPAN - block {
        return;
    }
    let half = frames.len() / 2;
    let (_, median, _) = frames.select_nth_unstable(half);
    let (median, reach) = (*median, LARGEST_SPAN / 2 - block);
    let before = rows.len();
    rows.retain(|(_, event)| event.pfn.abs_diff(median) <= reach);
    repairs.add(Repair::Span, (before - rows.len()) as u64);
}

/// Sorts rows by time; rows with equal times keep their order.
fn sort(rows: &mut [(u32, Event)], repairs: &mut Repairs) {
    let (mut latest, mut early) = (0, 0);
    for (_, event) in rows.iter() {
        early += u64::from(event.time_ns < latest);
        latest = latest.max(event.time_ns);
    }
    if early > 0 {
        repairs.add(Repair::Sorted, early);
        rows.sort_by_key(|(_, event)| event.time_ns);
    }
}

/// Applies the rows, and repairs each that breaks a rule.
fn replay(rows: Vec<(u32, Event)>, count: usize, repairs: &mut Repairs) -> Repaired {
    let sorted: Vec<Event> = rows.iter().map(|(_, event)| *event).collect();
    let mut repaired = Repaired {
        events: Vec::with_capacity(sorted.len()),
        rows: vec![DROPPED; count],
    };
    // The frames are close together here; if they were not, nothing could be saved.
    let Ok(mut ledger) = Ledger::new(&sorted) else {
        return repaired;
    };
    for (row, mut event) in rows {
        let mut cut = false;
        loop {
            match ledger.apply(repaired.events.len(), &event) {
                Ok(_) => {
                    repaired.rows[row as usize] = repaired.events.len() as u32;
                    repaired.events.push(event);
                    repairs.add(Repair::FreeCut, u64::from(cut));
                }
                Err(Problem::DoubleAllocation { pfn, .. }) => {
                    add_frees(&mut ledger, pfn, &event, &mut repaired.events, repairs);
                    continue;
                }
                Err(Problem::FreeLargerThanBlock { block_order, .. }) => {
                    event.order = block_order;
                    cut = true;
                    continue;
                }
                Err(Problem::DoubleFree { .. }) => repairs.add(Repair::DoubleFree, 1),
                Err(_) => repairs.add(Repair::FreeWithoutAllocation, 1),
            }
            break;
        }
    }
    repaired
}

/// Frees every live block in the frames that `event` allocates, starting at the frame `found`, just before the
/// allocation.
///
/// One pass over the frames: restarting for each block would take quadratic time.
fn add_frees(
    ledger: &mut Ledger,
    found: u64,
    event: &Event,
    events: &mut Vec<Event>,
    repairs: &mut Repairs,
) {
    let mut next = Some(found);
    while let Some(live) = next {
        for (pfn, order) in ledger.live_pieces(live) {
            let mut free = Event::new(event.time_ns, event.cpu, event.pid, Op::Free, pfn, order);
            // A part of a live block can always be freed.
            let Ok(applied) = ledger.apply(events.len(), &free) else {
                continue;
            };
            free.flags = EventFlags::SYNTHETIC;
            if !applied.whole {
                free.flags = free.flags.with(EventFlags::PARTIAL);
            }
            if applied.last {
                free.flags = free.flags.with(EventFlags::DEAD);
            }
            events.push(free);
            repairs.add(Repair::FreeAdded, 1);
        }
        next = ledger.next_live(live, event);
    }
}
