//! Where frames of each class lie: which blocks they spoil.
//!
//! A huge block is available if nothing in it is in use, or if everything in it can be moved. One frame that stays is
//! enough to prevent that. So it matters which frames a system places next to each other, also while memory is not
//! short.
//!
//! # Invariants
//! A frame is in use from its allocation to its free in the trace. What else a system keeps, in lists or as the rest of
//! a larger block, counts as free. On several threads the order of calls is known up to segments, and the order in
//! which threads made them differs from that of the trace by as much. A map can then miss some frames, or show some
//! that were freed before.

use everybuddy::Class;

use crate::replay::adapter::REFUSED;
use crate::replay::memory::Memory;
use crate::replay::script::{MoveKind, Script};

/// The frames of each class at a moment of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassMap {
    /// The number of calls of the trace before the moment.
    pub position: u32,
    /// Frames in use.
    pub frames: u64,
    /// Frames in use that are not of the class that has most frames in their block of 2 MiB.
    pub misplaced: u64,
    /// For each size of blocks, by increasing order.
    pub blocks: Vec<ClassBlocks>,
}

/// The aligned blocks of one order at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassBlocks {
    /// Their order.
    pub order: u8,
    /// Blocks with frames in use.
    pub used: u64,
    /// Those that contain movable frames and others.
    pub mixed: u64,
    /// Those that contain movable frames and no others: moving these frees the block.
    pub movable: u64,
}

impl ClassMap {
    /// The orders of blocks that are counted: 2 MiB, and 1 GiB if memory has as much.
    pub const ORDERS: [u8; 2] = [9, 18];

    /// Returns the share of the blocks in use of the first order that are mixed. Returns `None` if none is in use.
    pub fn mixed(&self) -> Option<f64> {
        let blocks = self.blocks.first().filter(|blocks| blocks.used > 0)?;
        Some(blocks.mixed as f64 / blocks.used as f64)
    }

    /// Returns the share of the frames in use that are misplaced. Returns `None` if none is in use.
    pub fn misplaced(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.misplaced as f64 / self.frames as f64)
    }
}

/// No class: the frame is free.
const FREE: u8 = u8::MAX;

/// The class of a frame that aging keeps in use: page tables and caches of the kernel stay where they are.
const TAKEN: Class = Class::Unmovable;

/// Follows the blocks of a script to their places, and returns what lies where at each moment, in increasing order.
///
/// `places` has the first frame of each block, by its number. Returns nothing if the trace does not state classes.
/// O(calls + frames × moments).
pub(crate) fn follow(
    script: &Script,
    memory: &Memory,
    places: &[u32],
    moments: impl IntoIterator<Item = u32>,
) -> Vec<ClassMap> {
    if !script.has_classes {
        return Vec::new();
    }
    let mut frames = vec![FREE; memory.frames as usize];
    for frame in memory.taken_frames() {
        frames[frame as usize] = TAKEN as u8;
    }
    let mut done = vec![0; script.lanes.len()];
    let at = |position| {
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
                let (start, class) = match own.kind {
                    MoveKind::Allocate => (place, own.flags().class() as u8),
                    _ => (place + own.offset(), FREE),
                };
                let end = start as usize + own.order().frames() as usize;
                if let Some(block) = frames.get_mut(start as usize..end) {
                    block.fill(class);
                }
            }
            done[lane] += 1;
        }
        map(position, &frames)
    };
    moments.into_iter().map(at).collect()
}

/// Counts the frames and blocks of a moment.
fn map(position: u32, frames: &[u8]) -> ClassMap {
    let mut map = ClassMap {
        position,
        ..ClassMap::default()
    };
    for order in ClassMap::ORDERS {
        let size = 1 << order;
        if map.blocks.is_empty() || frames.len() >= size {
            let is_first = map.blocks.is_empty();
            let mut blocks = ClassBlocks {
                order,
                ..ClassBlocks::default()
            };
            for block in frames.chunks(size) {
                let mut counts = [0u64; Class::ALL.len()];
                for class in block {
                    if let Some(count) = counts.get_mut(usize::from(*class)) {
                        *count += 1;
                    }
                }
                let (all, most) = (counts.iter().sum::<u64>(), counts.iter().max());
                let movable = counts[Class::Movable as usize];
                blocks.used += u64::from(all > 0);
                blocks.mixed += u64::from(movable > 0 && movable < all);
                // A part of a block at the end of memory never becomes a block.
                blocks.movable += u64::from(movable > 0 && movable == all && block.len() == size);
                if is_first {
                    map.frames += all;
                    map.misplaced += all - most.copied().unwrap_or(0);
                }
            }
            map.blocks.push(blocks);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::memory::Initial;
    use everybuddy_trace::{Event, Op, Trace, resolve};

    /// Two blocks of 2 MiB: movable frames, and one that stays.
    fn script(classes: [i8; 4]) -> Script {
        let mut trace = Trace::default();
        for (at, migratetype) in (0..).zip(classes) {
            trace.events.push(Event {
                migratetype,
                ..Event::new(at, 0, 1, Op::Allocate, at * 8, 1)
            });
        }
        trace.events.push(Event::new(9, 0, 1, Op::Free, 0, 1));
        trace.events.push(Event::new(9, 0, 1, Op::Free, 17, 0));
        Script::new("t", &resolve(&trace).unwrap(), None).unwrap()
    }

    #[test]
    fn one_frame_that_stays_spoils_a_block() {
        let memory = Memory::fresh(2048);
        let places = [0, 512, 514, REFUSED];
        let maps = follow(&script([0, 1, 2, 1]), &memory, &places, [1, 2, 4, 5, 6]);
        let counts = |map: &ClassMap| {
            let blocks = map.blocks[0];
            (
                map.frames,
                map.misplaced,
                blocks.used,
                blocks.mixed,
                blocks.movable,
            )
        };
        let counted: Vec<_> = maps.iter().map(counts).collect();
        let expected = [
            (2, 0, 1, 0, 0),
            (4, 0, 2, 0, 1),
            (6, 2, 2, 1, 0),
            (4, 2, 1, 1, 0),
            // A part of the reclaimable block is freed.
            (3, 1, 1, 1, 0),
        ];
        assert_eq!(counted, expected);
        assert_eq!(maps[2].mixed(), Some(0.5));
        assert_eq!(maps[4].misplaced(), Some(1.0 / 3.0));
        assert!(maps.iter().all(|map| map.blocks.len() == 1), "no 1 GiB");
    }

    #[test]
    fn the_rest_of_a_block_stays_where_it_is() {
        let event = |at, migratetype, op, pfn, order| Event {
            migratetype,
            ..Event::new(at, 0, 1, op, pfn, order)
        };
        let events = vec![
            event(0, 1, Op::Allocate, 0, 10),
            event(1, -1, Op::Free, 512, 9),
            event(2, 0, Op::Allocate, 2048, 0),
        ];
        let trace = Trace {
            events,
            ..Trace::default()
        };
        let script = Script::new("t", &resolve(&trace).unwrap(), None).unwrap();
        let maps = follow(&script, &Memory::fresh(2048), &[0, 600], [3]);
        let blocks = maps[0].blocks[0];
        assert_eq!((blocks.used, blocks.mixed, blocks.movable), (2, 0, 1));
    }

    #[test]
    fn threads_are_followed_in_the_order_of_the_trace() {
        let event = |at, cpu, op, pfn| Event {
            migratetype: 1,
            ..Event::new(at, cpu, u32::from(cpu), op, pfn, 0)
        };
        // CPU 1 frees what CPU 0 allocated, and CPU 0 receives the same frame again.
        let events = vec![
            event(0, 0, Op::Allocate, 8),
            event(1, 1, Op::Free, 8),
            event(2, 0, Op::Allocate, 16),
            event(3, 1, Op::Allocate, 24),
            event(4, 0, Op::Free, 16),
        ];
        let trace = Trace {
            events,
            ..Trace::default()
        };
        let script = Script::new("t", &resolve(&trace).unwrap(), Some(2)).unwrap();
        assert_eq!(script.lanes.len(), 2);
        let maps = follow(&script, &Memory::fresh(1024), &[5, 5, 7], [1, 2, 3, 4, 5]);
        let frames: Vec<u64> = maps.iter().map(|map| map.frames).collect();
        assert_eq!(frames, [1, 0, 1, 2, 1]);
    }

    #[test]
    fn a_trace_without_classes_has_no_map() {
        let memory = Memory::fresh(2048);
        let maps = follow(&script([-1; 4]), &memory, &[0, 8, 16, 24], [5]);
        assert_eq!(maps, []);
    }

    #[test]
    fn frames_that_aging_keeps_stay_where_they_are() {
        let memory = Memory {
            frames: 1 << 18,
            taken: 1 << 14,
            initial: Initial::Aged(3),
        };
        let maps = follow(&script([1; 4]), &memory, &[REFUSED; 4], [4]);
        assert_eq!((maps[0].frames, maps[0].misplaced), (1 << 14, 0));
        let [huge, giant] = maps[0].blocks[..] else {
            panic!("two orders")
        };
        assert_eq!((huge.order, giant.order, giant.used), (9, 18, 1));
        assert_eq!((huge.mixed, huge.movable, giant.movable), (0, 0, 0));
    }
}
