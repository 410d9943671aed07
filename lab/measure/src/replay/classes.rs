//! Where frames of each class lie: which blocks they spoil.
//!
//! A huge block is available if nothing in it is in use, or if everything in it can be moved. One frame that stays is
//! enough to prevent that. So it matters which frames a system places next to each other, also while memory is not
//! short.
//!
//! # Invariants
//! What is in use is as in [`placement`](crate::replay::placement).

use everybuddy::Class;

use crate::replay::placement::Frames;

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
    /// Blocks that contain a frame that stays: moving the others does not free the block.
    pub staying: u64,
    /// Those that contain movable frames and no others: moving these frees the block.
    pub movable: u64,
}

impl ClassMap {
    /// The orders of blocks that are counted: 2 MiB, and 1 GiB if memory has as much.
    pub const ORDERS: [u8; 2] = [9, 18];

    /// Returns the share of the frames in use that are misplaced. Returns `None` if none is in use.
    pub fn misplaced(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.misplaced as f64 / self.frames as f64)
    }
}

/// The class of a frame that aging keeps in use: page tables and caches of the kernel stay where they are.
const TAKEN: u8 = Class::Unmovable as u8;

impl ClassMap {
    /// Counts the frames and blocks of a moment. `classes` has the class of each block, by its number. O(frames).
    pub fn of(frames: &Frames, classes: &[u8]) -> ClassMap {
        let mut map = ClassMap {
            position: frames.position,
            ..ClassMap::default()
        };
        for order in ClassMap::ORDERS {
            let size = 1 << order;
            if map.blocks.is_empty() || frames.blocks.len() >= size {
                let is_first = map.blocks.is_empty();
                let mut blocks = ClassBlocks {
                    order,
                    ..ClassBlocks::default()
                };
                for block in frames.blocks.chunks(size) {
                    let mut counts = [0u64; Class::ALL.len()];
                    for own in block.iter().filter(|own| **own != Frames::FREE) {
                        let class = classes.get(*own as usize).copied().unwrap_or(TAKEN);
                        if let Some(count) = counts.get_mut(usize::from(class)) {
                            *count += 1;
                        }
                    }
                    let (all, most) = (counts.iter().sum::<u64>(), counts.iter().max());
                    let movable = counts[Class::Movable as usize];
                    // A part of a block at the end of memory never becomes a block.
                    let is_block = block.len() == size;
                    blocks.staying += u64::from(movable < all && is_block);
                    blocks.movable += u64::from(movable > 0 && movable == all && is_block);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: u32 = Frames::FREE;

    /// Counts memory in which blocks of these classes have the frames at these places.
    fn map(memory: usize, classes: &[Class], set: &[(usize, u32)]) -> ClassMap {
        let mut blocks = vec![FREE; memory];
        for (frame, block) in set {
            blocks[*frame] = *block;
        }
        let frames = Frames {
            position: 3,
            blocks,
        };
        let classes: Vec<u8> = classes.iter().map(|class| *class as u8).collect();
        ClassMap::of(&frames, &classes)
    }

    #[test]
    fn one_frame_that_stays_spoils_a_block() {
        use Class::{Movable, Reclaimable, Unmovable};
        let classes = [Unmovable, Movable, Reclaimable];
        let mixed = [(0, 0), (512, 1), (513, 1), (514, 2)];
        let counts = |map: &ClassMap| {
            let blocks = map.blocks[0];
            let in_blocks = (blocks.staying, blocks.movable);
            (map.frames, map.misplaced, in_blocks)
        };
        let counted = |set| counts(&map(2048, &classes, set));
        assert_eq!(counted(&mixed[..1]), (1, 0, (1, 0)));
        assert_eq!(counted(&mixed[..3]), (3, 0, (1, 1)));
        assert_eq!(counted(&mixed), (4, 1, (2, 0)));
        let all = map(2048, &classes, &mixed);
        assert_eq!(all.misplaced(), Some(0.25));
        assert_eq!(all.blocks.len(), 1, "no 1 GiB");
        // A frame that aging keeps is unmovable, and a part of a block is none.
        assert_eq!(counted(&[(0, Frames::TAKEN), (1, 1)]), (2, 1, (1, 0)));
        for block in [0, 1] {
            let part = map(600, &classes, &[(520, block)]).blocks[0];
            assert_eq!((part.staying, part.movable), (0, 0));
        }
        let giant = map(1 << 18, &classes, &[(520, 1)]);
        let orders: Vec<u8> = giant.blocks.iter().map(|own| own.order).collect();
        assert_eq!((orders, giant.blocks[1].movable), (vec![9, 18], 1));
    }
}
