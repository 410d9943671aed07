//! Which block each frame belongs to, at moments of a replay.
//!
//! A replay records only the place of each block. The trace says which blocks are in use at a moment, which is the same
//! for every system.
//!
//! # Invariants
//! A frame is in use from its allocation to its free in the trace. What else a system keeps, in lists or as the rest of
//! a larger block, counts as free. On several threads the order of calls is known up to segments, and the order in
//! which threads made them differs from that of the trace by as much. A moment can then miss some frames, or have some
//! that were freed before.

use crate::replay::adapter::REFUSED;
use crate::replay::memory::Memory;
use crate::replay::script::{MoveKind, Script};

/// The frames of memory at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// The number of calls of the trace before the moment.
    pub position: u32,
    /// The number of the block that contains each frame, or [`FREE`](Self::FREE), or [`TAKEN`](Self::TAKEN).
    pub blocks: Vec<u32>,
}

impl Frames {
    /// No block: the frame is free.
    pub const FREE: u32 = u32::MAX;
    /// No block of the trace: the frame was in use before the replay started.
    pub const TAKEN: u32 = u32::MAX - 1;
    /// Frames of a region of 2 MiB.
    pub const REGION: usize = 512;
}

/// Follows the blocks of a script to their places, and shows the frames at each moment, in increasing order.
///
/// `places` has the first frame of each block, by its number. O(calls + frames), and what `show` takes.
pub fn follow(
    script: &Script,
    memory: &Memory,
    places: &[u32],
    moments: impl IntoIterator<Item = u32>,
    mut show: impl FnMut(&Frames),
) {
    let mut frames = Frames {
        position: 0,
        blocks: vec![Frames::FREE; memory.frames as usize],
    };
    for frame in memory.taken_frames() {
        frames.blocks[frame as usize] = Frames::TAKEN;
    }
    let mut done = vec![0; script.lanes.len()];
    for position in moments {
        // Always the lane whose next segment comes first, as the threads of the replay do.
        let next = |done: &[usize]| {
            let lanes = script.lanes.iter().zip(done).enumerate();
            let segments = lanes.filter_map(|(lane, (own, done))| {
                let segment = own.segments.get(*done)?;
                Some((segment.position, lane, *segment))
            });
            segments.min_by_key(|(position, ..)| *position)
        };
        while let Some((first, lane, segment)) = next(&done)
            && first < position
        {
            let first = segment.first as usize;
            for own in &script.lanes[lane].moves[first..first + segment.moves as usize] {
                let place = places.get(own.block as usize).copied();
                let Some(place) = place.filter(|place| *place != REFUSED) else {
                    continue;
                };
                let (start, block) = match own.kind {
                    MoveKind::Allocate => (place, own.block),
                    _ => (place + own.offset(), Frames::FREE),
                };
                let end = start as usize + own.order().frames() as usize;
                if let Some(own) = frames.blocks.get_mut(start as usize..end) {
                    own.fill(block);
                }
            }
            done[lane] += 1;
        }
        frames.position = position;
        show(&frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::memory::Initial;
    use everybuddy_trace::{Event, Op, Trace, resolve};

    fn script(events: Vec<Event>, threads: Option<u16>) -> Script {
        let trace = Trace {
            events,
            ..Trace::default()
        };
        Script::new("t", &resolve(&trace).unwrap(), threads).unwrap()
    }

    /// Returns the runs of frames in use at each moment: the first frame, and the frames of each block.
    fn runs(script: &Script, places: &[u32], moments: &[u32]) -> Vec<Vec<(u32, u32)>> {
        let mut all = Vec::new();
        let memory = Memory::fresh(1024);
        follow(script, &memory, places, moments.iter().copied(), |frames| {
            assert_eq!(frames.position, moments[all.len()]);
            let used = (0..)
                .zip(&frames.blocks)
                .filter(|own| *own.1 != Frames::FREE);
            all.push(used.map(|(frame, block)| (frame, *block)).collect());
        });
        all
    }

    #[test]
    fn blocks_lie_where_they_were_placed_and_parts_leave_them() {
        let events = [
            (Op::Allocate, 64, 1),
            (Op::Allocate, 80, 0),
            (Op::Free, 65, 0),
            (Op::Allocate, 96, 0),
            (Op::Free, 80, 0),
        ];
        let events = (0..).zip(events);
        let events = events.map(|(time, (op, pfn, order))| Event::new(time, 0, 1, op, pfn, order));
        let script = script(events.collect(), None);
        let seen = runs(&script, &[4, 0, REFUSED], &[2, 3, 5]);
        let expected = [
            vec![(0, 1), (4, 0), (5, 0)],
            vec![(0, 1), (4, 0)],
            vec![(4, 0)],
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn threads_are_followed_in_the_order_of_the_trace() {
        let event = |at, cpu, op, pfn| Event::new(at, cpu, u32::from(cpu), op, pfn, 0);
        // CPU 1 frees what CPU 0 allocated, and CPU 0 receives the same frame again.
        let events = vec![
            event(0, 0, Op::Allocate, 8),
            event(1, 1, Op::Free, 8),
            event(2, 0, Op::Allocate, 16),
            event(3, 1, Op::Allocate, 24),
            event(4, 0, Op::Free, 16),
        ];
        let script = script(events, Some(2));
        assert_eq!(script.lanes.len(), 2);
        let seen = runs(&script, &[5, 5, 7], &[1, 2, 3, 4, 5]);
        let blocks = seen.iter().map(|own| own.iter().map(|own| own.1).collect());
        let blocks: Vec<Vec<u32>> = blocks.collect();
        assert_eq!(blocks, [vec![0], vec![], vec![1], vec![1, 2], vec![2]]);
    }

    #[test]
    fn what_was_in_use_stays_where_it_is() {
        let memory = Memory {
            frames: 1 << 14,
            taken: 1 << 10,
            initial: Initial::Aged(3),
        };
        follow(&script(Vec::new(), None), &memory, &[], [0], |frames| {
            let taken = frames.blocks.iter().filter(|own| **own == Frames::TAKEN);
            assert_eq!(taken.count(), 1 << 10);
        });
    }
}
