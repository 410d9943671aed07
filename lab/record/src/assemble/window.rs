//! The range of frame numbers that a trace can contain.
//!
//! # Purpose
//!
//! One frame number from a damaged page must not cost the whole recording: frames of a trace lie within 2^32 - 2^24 of
//! each other, about 16 TiB, so those farther from the middle one are left out. On machines whose memory lies farther
//! apart, these are real, too.
//!
//! # Invariants
//!
//! An allocation is left out together with its frees. Blocks are at most as large as a
//! unit of the window and aligned, so a block never lies on both sides of a limit.

use everybuddy_trace::LARGEST_SPAN;
use everybuddy_trace::{Event, Fault, LARGEST_ORDER};

/// Removes events too far from the others, and their faults; returns their number.
pub(super) fn narrow(events: &mut Vec<Event>, faults: &mut Vec<Fault>) -> u64 {
    let unit = |event: &Event| event.pfn >> LARGEST_ORDER;
    let (lowest, highest) = (events.iter().map(unit).min(), events.iter().map(unit).max());
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return 0;
    };
    let most = LARGEST_SPAN >> LARGEST_ORDER;
    if highest - lowest < most {
        return 0;
    }
    let mut units: Vec<u64> = events.iter().map(unit).collect();
    let half = units.len() / 2;
    let middle = *units.select_nth_unstable(half).1;
    let first = middle.saturating_sub(most / 2 - 1);
    let fits = |event: &Event| (first..first + most).contains(&unit(event));

    let mut rows = Vec::with_capacity(events.len());
    let mut next = 0;
    for event in events.iter() {
        rows.push(fits(event).then_some(next));
        next += u32::from(fits(event));
    }
    let before = events.len();
    events.retain(fits);
    faults.retain_mut(|fault| match rows.get(fault.row as usize) {
        Some(Some(row)) => {
            fault.row = *row;
            true
        }
        _ => false,
    });
    (before - events.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_trace::Op;

    #[test]
    fn a_stranger_goes_with_its_free_and_its_fault() {
        let far = 1 << 40;
        let call = |op, pfn| Event::new(0, 0, 1, op, pfn, 0);
        let mut events = vec![
            call(Op::Allocate, far),
            call(Op::Allocate, 5),
            call(Op::Allocate, 6),
            call(Op::Free, far),
            call(Op::Free, 5),
        ];
        let fault = |row| Fault {
            row,
            vpn: 1,
            region: None,
            sequence: 1,
        };
        let mut faults = vec![fault(0), fault(2)];
        assert_eq!(narrow(&mut events, &mut faults), 2);
        assert_eq!(
            events.iter().map(|event| event.pfn).collect::<Vec<_>>(),
            [5, 6, 5]
        );
        assert_eq!(faults, [fault(1)]);
        assert_eq!(narrow(&mut events, &mut faults), 0);
    }
}
