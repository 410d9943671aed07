//! Where everything lay: the state of each frame at chosen moments of a replay.
//!
//! Exists because a replay keeps only where each block was placed; which blocks lived at a moment is the
//! trace's to say, the same for every system.
//!
//! Invariant: a frame shows the last block that was placed on it and had not been freed there at that point
//! of the trace. (On several threads calls are not in the trace's order to the last one, so neither is the
//! map.)

use everybuddy_trace::{Resolved, StepKind};

use crate::run::port::REFUSED;

/// A frame that nobody has.
pub(super) const FREE: u8 = 0;

/// The frames at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    /// The moment: calls of the trace before it.
    pub(super) position: usize,
    /// The owner of each frame; [`FREE`] if it has none.
    pub(super) owners: Vec<u8>,
    /// The order of the block that each frame was given in; 0 where it is free.
    pub(super) orders: Vec<u8>,
}

/// The moments at which to look: equal distances in calls, the last at the end, and the fullest.
pub(super) fn moments(resolved: &Resolved, count: usize) -> Vec<usize> {
    let steps = &resolved.steps;
    let mut moments: Vec<usize> = (1..=count).map(|i| steps.len() * i / count).collect();
    let (mut frames, mut most, mut fullest) = (0, 0, 0);
    for (position, step) in steps.iter().enumerate() {
        match step.kind.is_allocation() {
            true => frames += step.frames(),
            false => frames -= step.frames(),
        }
        if frames > most {
            (most, fullest) = (frames, position + 1);
        }
    }
    moments.push(fullest);
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// What a map is made of beside the places of blocks: the same for every system.
pub(super) struct Painter<'r> {
    /// The calls.
    pub(super) resolved: &'r Resolved,
    /// The owner of each block.
    pub(super) owners: &'r [u8],
    /// Frames of memory.
    pub(super) frames: usize,
    /// Frames that long-lived blocks have from the start, and the owner that they count as.
    pub(super) taken: (&'r [u32], u8),
}

impl Painter<'_> {
    /// Follows the blocks to their places, and shows each moment to `show`.
    pub(super) fn paint(&self, places: &[u32], moments: &[usize], mut show: impl FnMut(&Frames)) {
        let mut frames = Frames {
            position: 0,
            owners: vec![FREE; self.frames],
            orders: vec![0; self.frames],
        };
        let (taken, owner) = self.taken;
        for frame in taken {
            frames.set(*frame as usize, 1, owner, 0);
        }
        let mut steps = self.resolved.steps.iter().enumerate().peekable();
        for moment in moments {
            while let Some((_, step)) = steps.next_if(|(position, _)| position < moment) {
                let (block, length) = (step.block as usize, step.frames() as usize);
                let Some(place) = places.get(block).filter(|place| **place != REFUSED) else {
                    continue;
                };
                let first = *place as usize + step.offset as usize;
                match step.kind {
                    StepKind::Allocate => {
                        frames.set(first, length, self.owners[block], step.order);
                    }
                    _ => frames.set(first, length, FREE, 0),
                }
            }
            frames.position = *moment;
            show(&frames);
        }
    }
}

impl Frames {
    fn set(&mut self, first: usize, length: usize, owner: u8, order: u8) {
        let end = (first + length).min(self.owners.len());
        if first < end {
            self.owners[first..end].fill(owner);
            self.orders[first..end].fill(order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_trace::{Event, Op, Trace, resolve};

    #[test]
    fn blocks_are_painted_where_they_were_placed() {
        let mut trace = Trace::default();
        let events = [
            (Op::Allocate, 64, 2),
            (Op::Allocate, 80, 0),
            (Op::Free, 66, 1),
            (Op::Allocate, 96, 0),
            (Op::Free, 80, 0),
        ];
        for (time, (op, pfn, order)) in events.into_iter().enumerate() {
            trace
                .events
                .push(Event::new(time as u64, 0, 1, op, pfn, order));
        }
        let resolved = resolve(&trace).unwrap();
        let painter = Painter {
            resolved: &resolved,
            owners: &[1, 2, 3],
            frames: 12,
            taken: (&[11], 9),
        };
        let mut seen = Vec::new();
        painter.paint(&[4, 0, REFUSED], &[2, 3, 5], |frames| {
            seen.push(frames.clone())
        });
        assert_eq!(seen[0].owners, [2, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 9]);
        assert_eq!(seen[0].orders, [0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0]);
        assert_eq!(seen[1].owners, [2, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 9]);
        assert_eq!(seen[2].owners, [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 9]);
        assert_eq!(seen[2].position, 5);
        assert_eq!(moments(&resolved, 2), [2, 5]);
    }
}
