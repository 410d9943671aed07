//! How widely the frames of each owner are scattered over regions of 2 MiB.
//!
//! A frame costs its user more if its neighbours belong to others: a region of 2 MiB is one entry of a translation
//! buffer and may become one huge page, but only for one owner. Which frames a system hands out decides it, whether or
//! not memory is short. The docs/metrics.md entries `owner_spread` and `lone_regions` define the two numbers.
//!
//! # Invariants
//! No clock is read: one thread gives the same numbers on every machine.

use crate::replay::placement::Frames;

/// The regions of 2 MiB at a moment, by their owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerMap {
    /// The number of calls of the trace before the moment.
    pub position: u32,
    /// How many owners each region has, from frame 0 on. What was in use before the replay is one more owner of its
    /// region. At most 255.
    pub owners: Vec<u8>,
    /// Regions with frames of an owner, once for each owner.
    pub spanned: u64,
    /// The fewest regions that could hold the frames of each owner, over all owners.
    pub fewest: u64,
    /// Regions with frames of an owner of the trace.
    pub used: u64,
    /// Those of them in which all frames in use are one owner's.
    pub lone: u64,
}

impl OwnerMap {
    /// Counts the regions of a moment. `owners` has the owner of each block, by its number: small numbers from 0 on.
    /// O(frames + owners).
    pub fn of(frames: &Frames, owners: &[u32]) -> OwnerMap {
        let mut map = OwnerMap {
            position: frames.position,
            ..OwnerMap::default()
        };
        let count = owners.iter().max().map_or(0, |most| *most as usize + 1);
        // For each owner, and then for what has none: its frames, and the last region that has any.
        let mut all = vec![(0u64, usize::MAX); count + 1];
        for (region, blocks) in frames.blocks.chunks(Frames::REGION).enumerate() {
            let (mut own, mut others) = (0u64, 0u64);
            for block in blocks.iter().filter(|block| **block != Frames::FREE) {
                let owner = owners.get(*block as usize).copied();
                let owner = owner.map_or(count, |owner| owner as usize);
                let (held, last) = &mut all[owner];
                *held += 1;
                if *last != region {
                    *last = region;
                    *(if owner < count { &mut own } else { &mut others }) += 1;
                }
            }
            map.spanned += own;
            map.used += u64::from(own > 0);
            map.lone += u64::from(own == 1 && others == 0);
            map.owners.push((own + others).min(255) as u8);
        }
        let fewest = |held: &(u64, usize)| held.0.div_ceil(Frames::REGION as u64);
        map.fewest = all[..count].iter().map(fewest).sum();
        map
    }

    /// Returns the regions that owners span, divided by the fewest. `None` if no owner has a frame.
    pub fn spread(&self) -> Option<f64> {
        (self.fewest > 0).then(|| self.spanned as f64 / self.fewest as f64)
    }

    /// Returns the share of the regions in use that are one owner's. `None` if no owner has a frame.
    pub fn lone(&self) -> Option<f64> {
        (self.used > 0).then(|| self.lone as f64 / self.used as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::random::Random;
    use std::collections::{BTreeMap, BTreeSet};

    const FREE: u32 = Frames::FREE;
    const TAKEN: u32 = Frames::TAKEN;

    fn map(blocks: Vec<u32>, owners: &[u32]) -> OwnerMap {
        OwnerMap::of(
            &Frames {
                position: 7,
                blocks,
            },
            owners,
        )
    }

    /// Memory of some regions, with a few frames set.
    fn frames(regions: usize, set: &[(usize, u32)]) -> Vec<u32> {
        let mut blocks = vec![FREE; regions * Frames::REGION];
        for (frame, block) in set {
            blocks[*frame] = *block;
        }
        blocks
    }

    #[test]
    fn hand_made_states_have_the_numbers_that_one_counts() {
        // Owner 0 has the blocks 0 and 1, owner 1 has the block 2.
        let owners = [0, 0, 1];
        let packed = map(frames(4, &[(0, 0), (511, 1), (512, 2)]), &owners);
        assert_eq!((packed.spread(), packed.lone()), (Some(1.0), Some(1.0)));
        assert_eq!((packed.position, packed.owners), (7, vec![1, 1, 0, 0]));
        // Each owner is in one region, which both share.
        let shared = map(frames(4, &[(0, 0), (511, 2)]), &owners);
        assert_eq!((shared.spread(), shared.lone()), (Some(1.0), Some(0.0)));
        assert_eq!(shared.owners, [2, 0, 0, 0]);
        // Owner 0 could be in one region, and is in three, of which one is not its alone.
        let scattered = map(
            frames(4, &[(0, 0), (600, 1), (1600, 1), (1601, 2)]),
            &owners,
        );
        assert_eq!((scattered.spanned, scattered.fewest), (4, 2));
        assert_eq!((scattered.used, scattered.lone), (3, 2));
        // A frame that stays spoils a region, and adds to no span.
        let aged = map(frames(2, &[(0, 0), (1, TAKEN), (512, TAKEN)]), &owners);
        assert_eq!((aged.spread(), aged.lone()), (Some(1.0), Some(0.0)));
        assert_eq!((aged.used, aged.owners), (1, vec![2, 1]));
        // More than a region needs two.
        let mut large = frames(3, &[(1024, 0)]);
        large[..512].fill(0);
        assert_eq!(map(large, &owners).spread(), Some(1.0));
        let empty = map(frames(2, &[]), &owners);
        assert_eq!((empty.spread(), empty.lone()), (None, None));
    }

    #[test]
    fn random_states_have_the_numbers_of_a_simple_model() {
        let mut random = Random::new(11);
        for round in 0..60 {
            let owners: Vec<u32> = (0..40).map(|block| block % (1 + round % 7)).collect();
            let density = 1 + random.below(600);
            // The last region is not whole.
            let blocks = (0..5 * Frames::REGION - 100).map(|_| match random.below(600) {
                n if n >= density => FREE,
                n if n % 97 == 0 => TAKEN,
                _ => random.below(40) as u32,
            });
            let blocks: Vec<u32> = blocks.collect();
            let mut held: BTreeMap<u32, u64> = BTreeMap::new();
            let mut regions: BTreeMap<usize, BTreeSet<Option<u32>>> = BTreeMap::new();
            for (frame, block) in blocks.iter().enumerate().filter(|own| *own.1 != FREE) {
                let owner = owners.get(*block as usize).copied();
                regions.entry(frame / 512).or_default().insert(owner);
                if let Some(owner) = owner {
                    *held.entry(owner).or_default() += 1;
                }
            }
            let own = |regions: &BTreeSet<Option<u32>>| regions.iter().flatten().count() as u64;
            let map = map(blocks, &owners);
            assert_eq!(map.spanned, regions.values().map(own).sum::<u64>());
            assert_eq!(
                map.fewest,
                held.values().map(|held| held.div_ceil(512)).sum::<u64>()
            );
            let used = || regions.values().filter(|regions| own(regions) > 0);
            assert_eq!(map.used, used().count() as u64);
            assert_eq!(
                map.lone,
                used().filter(|owners| owners.len() == 1).count() as u64
            );
            for (region, count) in map.owners.iter().enumerate() {
                let known = regions.get(&region).map_or(0, BTreeSet::len);
                assert_eq!(usize::from(*count), known);
            }
        }
    }
}
