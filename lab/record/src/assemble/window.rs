//! The range of frame numbers that a trace can contain.
//!
//! Frames of a trace lie within 2^32 - 2^24 of each other, about 16 TiB. Where memory lies farther apart, its parts are
//! moved together, as a [`Span`] of the allocators does it. One frame number from a damaged page must not cost the
//! whole recording: if the frames fit into no span, those farther from the middle one are left out.
//!
//! # Invariants
//! An allocation is left out together with its frees. Parts and the window begin at multiples of the largest block, so
//! a block lies in one part, and never on both sides of a limit.

use everybuddy::{FrameRange, Order, Pfn, Span};
use everybuddy_trace::LARGEST_SPAN;
use everybuddy_trace::{Event, Fault, LARGEST_ORDER};
use serde_json::{Value, json};

/// No machine has frames of higher numbers: addresses have at most 52 bits.
const MOST_FRAMES: u64 = 1 << 40;

/// What was done to the events of a trace whose frames lie too far apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Narrowed {
    /// The number of events that were removed.
    pub(super) too_far: u64,
    /// The number of events whose frames have other numbers now.
    pub(super) moved: u64,
    /// The parts that were moved together; none if no part was.
    pub(super) parts: Vec<Part>,
}

/// Frames of the machine, and where they are in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The first frame in the trace.
    first: u64,
    frames: u64,
    /// The first frame on the machine.
    of_machine: u64,
}

impl Narrowed {
    /// Returns the parts for the metadata of a file, if there are any.
    pub(super) fn entry(&self) -> Option<(String, String)> {
        let row = |part: &Part| json!([part.first, part.frames, part.of_machine]);
        let rows = self.parts.iter().map(row).collect::<Vec<_>>();
        let table = json!({ "cols": ["pfn", "frames", "machine_pfn"], "rows": rows });
        (!self.parts.is_empty()).then(|| ("parts".to_string(), Value::to_string(&table)))
    }
}

/// Moves frames together that lie too far apart, and removes events that no span has, with their faults.
pub(super) fn narrow(events: &mut Vec<Event>, faults: &mut Vec<Fault>) -> Narrowed {
    let mut units: Vec<u64> = events.iter().map(unit).collect();
    let (Some(lowest), Some(highest)) = (units.iter().min(), units.iter().max()) else {
        return Narrowed::default();
    };
    let most = LARGEST_SPAN >> LARGEST_ORDER;
    if highest - lowest < most {
        return Narrowed::default();
    }
    let mut narrowed = Narrowed::default();
    let before = events.len();
    if let Some((span, base)) = span_of(&units) {
        let place = |pfn| Some(base + u64::from(span.index(Pfn(pfn))?.0));
        narrowed.moved = keep(events, faults, place);
        narrowed.parts = parts_of(&span, base);
    } else {
        let half = units.len() / 2;
        let middle = *units.select_nth_unstable(half).1;
        let first = middle.saturating_sub(most / 2 - 1);
        let window = first..first.saturating_add(most);
        keep(events, faults, |pfn| {
            window.contains(&(pfn >> LARGEST_ORDER)).then_some(pfn)
        });
    }
    narrowed.too_far = (before - events.len()) as u64;
    narrowed
}

/// Blocks of the largest order are units.
fn unit(event: &Event) -> u64 {
    event.pfn >> LARGEST_ORDER
}

/// Returns the span of all units that a machine may have, and the number of its first frame, or `None` if no span has
/// them all.
fn span_of(units: &[u64]) -> Option<(Span, u64)> {
    let mut units: Vec<u64> = units
        .iter()
        .copied()
        .filter(|unit| *unit < MOST_FRAMES >> LARGEST_ORDER)
        .collect();
    units.sort_unstable();
    units.dedup();
    let range = |unit: &u64| FrameRange::new(Pfn(unit << LARGEST_ORDER), 1 << LARGEST_ORDER);
    let ranges: Vec<FrameRange> = units.iter().map(range).collect();
    let span = Span::covering(&ranges, Order::new(LARGEST_ORDER)?).ok()?;
    Some((span, span.base().0))
}

fn parts_of(span: &Span, base: u64) -> Vec<Part> {
    let mut first = base;
    let part = |range: FrameRange| {
        let part = Part {
            first,
            frames: range.frames,
            of_machine: range.start.0,
        };
        first += range.frames;
        part
    };
    span.parts().map(part).collect()
}

/// Gives each event the frame of its place, and removes those without one, and their faults. Returns the number of
/// events whose frames changed.
fn keep(
    events: &mut Vec<Event>,
    faults: &mut Vec<Fault>,
    place: impl Fn(u64) -> Option<u64>,
) -> u64 {
    let mut rows = Vec::with_capacity(events.len());
    let (mut next, mut moved) = (0, 0);
    events.retain_mut(|event| {
        let pfn = place(event.pfn);
        rows.push(pfn.map(|_| next));
        if let Some(pfn) = pfn {
            next += 1;
            moved += u64::from(pfn != event.pfn);
            event.pfn = pfn;
        }
        pfn.is_some()
    });
    faults.retain_mut(|fault| match rows.get(fault.row as usize) {
        Some(Some(row)) => {
            fault.row = *row;
            true
        }
        _ => false,
    });
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_trace::Op;

    fn call(op: Op, pfn: u64) -> Event {
        Event::new(0, 0, 1, op, pfn, 0)
    }

    fn frames(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.pfn).collect()
    }

    #[test]
    fn a_stranger_goes_with_its_free_and_its_fault() {
        let far = MOST_FRAMES;
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
        assert_eq!(narrow(&mut events, &mut faults).too_far, 2);
        assert_eq!(frames(&events), [5, 6, 5]);
        assert_eq!(faults, [fault(1)]);
        assert_eq!(narrow(&mut events, &mut faults), Narrowed::default());
    }

    /// The nodes of a server with 4 nodes, of which one lies at 32 TiB.
    #[test]
    fn parts_of_memory_are_moved_together() {
        let unit = 1 << LARGEST_ORDER;
        let (near, far) = (0x208_0000, 0x2_0200_0000);
        let machine = [near + 7, far + 9, near + 8, far + unit - 1, far + 9];
        let mut events: Vec<Event> = machine.iter().map(|pfn| call(Op::Allocate, *pfn)).collect();
        let narrowed = narrow(&mut events, &mut Vec::new());
        let there = near + unit;
        let expected = [near + 7, there + 9, near + 8, there + unit - 1, there + 9];
        assert_eq!(frames(&events), expected);
        assert_eq!((narrowed.too_far, narrowed.moved), (0, 3));
        let part = |first, of_machine| Part {
            first,
            frames: unit,
            of_machine,
        };
        assert_eq!(narrowed.parts, [part(near, near), part(there, far)]);
        let (key, text) = narrowed.entry().unwrap();
        assert_eq!(key, "parts");
        assert!(
            text.contains("[[34078720,262144,34078720],[34340864,262144,8623489024]]"),
            "{text}"
        );
        assert_eq!(narrow(&mut events, &mut Vec::new()).entry(), None);
    }

    /// More parts than a span has, each farther from the others than a trace spans.
    #[test]
    fn what_fits_into_no_span_is_left_out() {
        let mut events: Vec<Event> = (0..40).map(|part| call(Op::Allocate, part << 34)).collect();
        events.extend((0..60).map(|frame| call(Op::Allocate, 1 << 39 | frame)));
        let narrowed = narrow(&mut events, &mut Vec::new());
        assert_eq!(narrowed.too_far, 39);
        assert_eq!(narrowed.moved, 0);
        assert_eq!(events.len(), 61);
        assert_eq!(narrowed.entry(), None);
    }
}
