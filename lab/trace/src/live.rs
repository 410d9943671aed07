//! The owner of each frame: a two-level table over the frames of a trace.
//!
//! Checking a trace looks up the owner of every frame of every event. Neither a plain array (a machine may have 16
//! TiB) nor a hash table (one entry per frame of a block) is fast for every trace. The upper level has one entry per
//! group of 64 frames. An entry names one owner of the whole group, or a lower table with one owner per frame. Only
//! memory for used frames is touched; a block of order 9 takes eight entries.
//!
//! # Invariants
//! An entry of the upper level refers to a lower table that no other entry refers to.

/// Binary logarithm of the number of frames per group.
const GROUP_ORDER: u8 = 6;
const GROUP: usize = 1 << GROUP_ORDER;

/// Marks an entry of the upper level that refers to a lower table.
const SPLIT: u64 = 1 << 63;
/// Marks an owner that has freed the frame.
const DEAD: u32 = 1 << 31;

/// The owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// No block has contained the frame yet.
    Nobody,
    /// The block with this number contains it.
    Live(u32),
    /// The block with this number was the last to contain it.
    Dead(u32),
}

impl Owner {
    /// Blocks are numbered below 2^31 - 1. The value 0 means no owner, so that zeroed memory is valid.
    fn encode(self) -> u32 {
        match self {
            Owner::Nobody => 0,
            Owner::Live(block) => block + 1,
            Owner::Dead(block) => (block + 1) | DEAD,
        }
    }

    fn decode(code: u32) -> Owner {
        match code & !DEAD {
            0 => Owner::Nobody,
            number if code & DEAD == 0 => Owner::Live(number - 1),
            number => Owner::Dead(number - 1),
        }
    }
}

/// The owners of a span of frames.
pub(crate) struct FrameMap {
    base: u64,
    groups: Vec<u64>,
    tables: Vec<[u32; GROUP]>,
    unused: Vec<u32>,
}

impl FrameMap {
    /// Creates a map of the frames `first` to `last`, all without an owner.
    ///
    /// Takes 8 bytes of address space per 64 frames, and memory as frames are used.
    pub(crate) fn new(first: u64, last: u64) -> FrameMap {
        let base = first >> GROUP_ORDER << GROUP_ORDER;
        let groups = ((last.max(base) - base) >> GROUP_ORDER) as usize + 1;
        FrameMap {
            base,
            groups: vec![0; groups],
            tables: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Returns the owner of one frame.
    pub(crate) fn get(&self, pfn: u64) -> Owner {
        let (group, within) = self.place(pfn);
        Owner::decode(match self.groups[group] {
            entry if entry & SPLIT != 0 => self.tables[(entry & !SPLIT) as usize][within],
            entry => entry as u32,
        })
    }

    /// Sets the owner of an aligned block.
    pub(crate) fn set(&mut self, pfn: u64, order: u8, owner: Owner) {
        let (group, within) = self.place(pfn);
        if order < GROUP_ORDER {
            let table = self.split(group);
            self.tables[table][within..within + (1 << order)].fill(owner.encode());
            return;
        }
        for entry in &mut self.groups[group..group + (1 << (order - GROUP_ORDER))] {
            if *entry & SPLIT != 0 {
                self.unused.push((*entry & !SPLIT) as u32);
            }
            *entry = u64::from(owner.encode());
        }
    }

    /// Finds the first frame from `first` to `last` whose owner is `wanted`.
    pub(crate) fn find(
        &self,
        first: u64,
        last: u64,
        wanted: impl Fn(Owner) -> bool,
    ) -> Option<(u64, Owner)> {
        let mut frame = first;
        loop {
            let owner = self.get(frame);
            if wanted(owner) {
                return Some((frame, owner));
            }
            let (group, within) = self.place(frame);
            // The rest of a group with a single owner has the same answer.
            let step = if self.groups[group] & SPLIT == 0 {
                GROUP - within
            } else {
                1
            } as u64;
            if last - frame < step {
                return None;
            }
            frame += step;
        }
    }

    fn place(&self, pfn: u64) -> (usize, usize) {
        let offset = pfn - self.base;
        ((offset >> GROUP_ORDER) as usize, offset as usize % GROUP)
    }

    /// Assigns a lower table to a group, and returns its index.
    fn split(&mut self, group: usize) -> usize {
        let entry = self.groups[group];
        if entry & SPLIT != 0 {
            return (entry & !SPLIT) as usize;
        }
        let filled = [entry as u32; GROUP];
        let index = match self.unused.pop() {
            Some(index) => {
                self.tables[index as usize] = filled;
                index as usize
            }
            None => {
                self.tables.push(filled);
                self.tables.len() - 1
            }
        };
        self.groups[group] = SPLIT | index as u64;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_any_order_are_owned_frame_by_frame() {
        let mut map = FrameMap::new(1000, 1 << 20);
        for order in [0, 3, 5, 6, 7, 12] {
            let pfn = 1 << 16;
            map.set(pfn, order, Owner::Live(7));
            for frame in pfn..pfn + (1 << order) {
                assert_eq!(map.get(frame), Owner::Live(7));
            }
            assert_ne!(map.get(pfn + (1 << order)), Owner::Live(7));
            assert_ne!(map.get(pfn - 1), Owner::Live(7));
            map.set(pfn, order, Owner::Dead(7));
            assert_eq!(
                map.find(pfn, pfn + (1 << order) - 1, |owner| owner != Owner::Dead(7)),
                None
            );
        }
    }

    #[test]
    fn a_part_of_a_large_block_can_change_hands() {
        let mut map = FrameMap::new(0, 4095);
        map.set(0, 9, Owner::Live(0));
        map.set(130, 1, Owner::Dead(0));
        let dead = |owner| matches!(owner, Owner::Dead(_));
        assert_eq!(map.find(0, 511, dead), Some((130, Owner::Dead(0))));
        assert_eq!(map.find(132, 135, dead), None);
        assert_eq!(map.get(129), Owner::Live(0));
        map.set(0, 9, Owner::Dead(0));
        assert_eq!(map.unused.len(), 1, "the lower table is reused");
    }
}
