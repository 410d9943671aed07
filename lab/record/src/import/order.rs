//! The order of events, and what follows only from it.
//!
//! Recordings are sorted by time. Old kernels report some frees twice, and other frees only by an event that newer
//! kernels write in addition. Which of them repeat each other depends on the allocations between them.
//!
//! # Invariants
//! A free that is reported once is kept, whichever event reports it. Texts whose times are differences are rejected:
//! sorted by them, the calls would be shuffled.

use std::collections::BTreeSet;

use super::Source;
use super::error::Fault;
use super::import_log::ImportLog;
use crate::kernel::{KernelEvent, What};
use everybuddy_trace::LARGEST_ORDER;

/// Times up to this one may be differences, in nanoseconds: no machine records in its first second.
const LONGEST_DIFFERENCE: u64 = 1_000_000_000;

/// The number of times from which on their order says what they are.
const FEW: usize = 4;

/// Sorts events by time; events with equal times keep their order. Removes frees that repeat others.
pub(crate) fn in_order(
    mut events: Vec<KernelEvent>,
    log: &mut ImportLog,
) -> Result<Vec<KernelEvent>, Fault> {
    let mut latest = 0;
    let is_event = |event: &&KernelEvent| event.what.is_event();
    for event in events.iter().filter(is_event) {
        log.out_of_order += u64::from(event.time_ns < latest);
        latest = latest.max(event.time_ns);
    }
    if log.out_of_order > 0 {
        check_times(&events, log)?;
        events.sort_by_key(|event| event.time_ns);
    }
    if events.iter().any(is_report) {
        let before = events.len();
        settle(&mut events);
        let repeated = (before - events.len()) as u64;
        log.repeated += repeated;
        log.understood -= repeated;
    }
    Ok(events)
}

/// Rejects texts whose times are differences from the previous line.
fn check_times(events: &[KernelEvent], log: &ImportLog) -> Result<(), Fault> {
    let times = || {
        let of_events = events.iter().filter(|event| event.what.is_event());
        of_events.map(|event| event.time_ns)
    };
    let descents = times().zip(times().skip(1)).filter(|(a, b)| a > b).count();
    let (count, short) = (
        times().count(),
        times().filter(|time| *time < LONGEST_DIFFERENCE).count(),
    );
    // Half of all differences are smaller than the previous one. Very few lines may be out of order for any reason.
    let are_differences = count >= FEW && descents * 4 > count - 1 && short * 2 > count;
    if log.source == Source::PerfData || !are_differences {
        return Ok(());
    }
    Err(Fault::refuse(
        "",
        format!(
            "the times are differences, not times: {descents} of {count} are smaller than the previous one, and most \
             are shorter than a second, as in the output of `perf script --deltatime`"
        ),
        "write the text again without --deltatime, for example with `perf script --ns`",
    ))
}

fn is_report(event: &KernelEvent) -> bool {
    matches!(event.what, What::FreeReport { .. })
}

/// Turns each report that no free repeats into a free, and removes the others.
fn settle(events: &mut Vec<KernelEvent>) {
    // Frames that are freed later without being allocated before that.
    let mut freed = BTreeSet::new();
    let mut is_repeated = vec![false; events.len()];
    for (event, is_repeated) in events.iter().zip(&mut is_repeated).rev() {
        match event.what {
            What::FreeReport { pfn, .. } => *is_repeated = freed.contains(&pfn),
            _ => follow(&mut freed, &event.what),
        }
    }
    freed.clear();
    let mut repeated = is_repeated.into_iter();
    events.retain_mut(|event| {
        let is_repeated = repeated.next().unwrap_or(false);
        if let What::FreeReport { pfn, order } = event.what {
            if is_repeated || freed.contains(&pfn) {
                return false;
            }
            event.what = What::Free { pfn, order };
        }
        follow(&mut freed, &event.what);
        true
    });
}

/// Follows the frames that are freed and not allocated since.
fn follow(freed: &mut BTreeSet<u64>, what: &What) {
    match what {
        What::Free { pfn, .. } => {
            freed.insert(*pfn);
        }
        What::Allocate { pfn, order, .. } if *order > 0 => {
            let last = pfn.saturating_add((1 << order.min(&u32::from(LARGEST_ORDER))) - 1);
            let all: Vec<u64> = freed.range(pfn..=&last).copied().collect();
            all.iter().for_each(|pfn| {
                freed.remove(pfn);
            });
        }
        What::Allocate { pfn, .. } => {
            freed.remove(pfn);
        }
        _ => {}
    }
}
