//! Memory maps: the state of each frame at selected moments of a replay.
//!
//! A replay records only the placement of each block. The trace determines which blocks are in use at a moment, which
//! is the same for every system.
//!
//! # Invariants
//! A frame shows the last block that was placed on it and not yet freed there at that point of the trace. (On several
//! threads, calls are not exactly in trace order, and neither is the map.)

use everybuddy_page::report::{FREE, LISTED};
use everybuddy_trace::{Resolved, StepKind};

use everybuddy_measure::replay::adapter::REFUSED;
use everybuddy_measure::replay::observe::Listed;

/// The frames at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    /// The moment: the number of calls of the trace before it.
    pub(super) position: usize,
    /// The owner of each frame; [`FREE`] if it has none.
    pub(super) owners: Vec<u8>,
    /// The order of the block that contains each frame; 0 if it is free.
    pub(super) orders: Vec<u8>,
}

/// The data of a map besides the placement of blocks, which is the same for every system.
pub(super) struct Painter<'r> {
    /// The calls.
    pub(super) resolved: &'r Resolved,
    /// The owner of each block.
    pub(super) owners: &'r [u8],
    /// Frames of memory.
    pub(super) frames: usize,
    /// Frames of long-lived blocks that are in use from the start, and their owner.
    pub(super) taken: (&'r [u32], u8),
}

impl Painter<'_> {
    /// Follows the blocks to their placements, and passes each moment, with the contents of the lists, to `show`.
    pub(super) fn paint(&self, places: &[u32], moments: &[Listed], mut show: impl FnMut(&Frames)) {
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
            while let Some((_, step)) = steps.next_if(|(at, _)| *at < moment.position as usize) {
                let (block, length) = (step.block as usize, step.frames() as usize);
                let Some(place) = places.get(block).filter(|place| **place != REFUSED) else {
                    continue;
                };
                let first = *place as usize + step.offset() as usize;
                match step.kind {
                    StepKind::Allocate => {
                        frames.set(first, length, self.owners[block], step.order);
                    }
                    _ => frames.set(first, length, FREE, 0),
                }
            }
            frames.position = moment.position as usize;
            let free = |frame: &&u32| frames.owners.get(**frame as usize) == Some(&FREE);
            let kept: Vec<u32> = moment.frames.iter().filter(free).copied().collect();
            kept.iter()
                .for_each(|frame| frames.set(*frame as usize, 1, LISTED, 0));
            show(&frames);
            kept.iter()
                .for_each(|frame| frames.set(*frame as usize, 1, FREE, 0));
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
        let moments = [(2, vec![]), (3, vec![4, 6]), (5, vec![])];
        let moments = moments.map(|(position, frames)| Listed { position, frames });
        painter.paint(&[4, 0, REFUSED], &moments, |frames| {
            seen.push(frames.clone())
        });
        assert_eq!(seen[0].owners, [2, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 9]);
        assert_eq!(seen[0].orders, [0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0]);
        // Frame 4 is in use: the entry in a list is outdated.
        assert_eq!(seen[1].owners, [2, 0, 0, 0, 1, 1, LISTED, 0, 0, 0, 0, 9]);
        assert_eq!(seen[2].owners, [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 9]);
        assert_eq!(seen[2].position, 5);
    }
}
