//! The lines that a cache holds.
//!
//! # Invariants
//! A line is in one place of its set at most. Places are ordered by last use, and empty places come last.

use super::hardware::Cache;

/// The lines of a cache, set by set.
///
/// Sets are allocated as zeroed memory, so that a large cache costs the host only what is used of it.
pub(super) struct Tags {
    /// The number of each line plus one; zero for an empty place.
    places: Vec<u32>,
    ways: usize,
    sets: u64,
}

impl Tags {
    pub(super) fn new(cache: &Cache) -> Self {
        let (sets, ways) = (cache.sets(), usize::from(cache.ways));
        Self {
            places: vec![0; sets as usize * ways],
            ways,
            sets,
        }
    }

    /// Returns the places of the set of a line.
    #[inline]
    fn set(&mut self, line: u32) -> &mut [u32] {
        let set = if self.sets.is_power_of_two() {
            u64::from(line) & (self.sets - 1)
        } else {
            // Spread over any number of sets, without a division.
            let spread = u64::from(line.wrapping_mul(0x9E37_79B1));
            (spread * self.sets) >> 32
        };
        let start = set as usize * self.ways;
        &mut self.places[start..start + self.ways]
    }

    /// Returns `true` if the line is here, and makes it the one that was used last. O(ways).
    #[inline]
    pub(super) fn touch(&mut self, line: u32) -> bool {
        let set = self.set(line);
        let tag = line + 1;
        if set[0] == tag {
            return true;
        }
        let Some(place) = set.iter().position(|other| *other == tag) else {
            return false;
        };
        set[..=place].rotate_right(1);
        true
    }

    /// Puts in a line that is not here, and returns the one that had to leave. O(ways).
    pub(super) fn insert(&mut self, line: u32) -> Option<u32> {
        let set = self.set(line);
        let victim = set[set.len() - 1];
        set.rotate_right(1);
        set[0] = line + 1;
        victim.checked_sub(1)
    }

    /// Takes out a line, if it is here. O(ways).
    pub(super) fn remove(&mut self, line: u32) {
        let set = self.set(line);
        if let Some(place) = set.iter().position(|other| *other == line + 1) {
            set[place] = 0;
            set[place..].rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tags {
        /// Returns `true` if the line is here.
        pub(in crate::models) fn has(&self, line: u32) -> bool {
            self.places.contains(&(line + 1))
        }
    }

    fn tags(sets: u64, ways: u16) -> Tags {
        Tags::new(&Cache {
            bytes: sets * u64::from(ways) * 64,
            ways,
            cycles: 1,
        })
    }

    #[test]
    fn the_line_that_was_used_least_recently_leaves() {
        let mut tags = tags(1, 3);
        assert_eq!([1, 2, 3].map(|line| tags.insert(line)), [None; 3]);
        assert!(tags.touch(1));
        assert_eq!(tags.insert(4), Some(2));
        assert!(!tags.touch(2));
        tags.remove(3);
        tags.remove(3);
        assert_eq!(tags.insert(5), None);
        assert_eq!(tags.insert(6), Some(1));
    }

    #[test]
    fn every_line_has_one_set_whatever_their_number() {
        for sets in [1, 64, 3, 114_688] {
            let mut tags = tags(sets, 2);
            for line in (0..1000).chain([u32::MAX - 1]) {
                assert!(!tags.touch(line));
                let _ = tags.insert(line);
                assert!(tags.touch(line), "{sets} sets, line {line}");
                tags.remove(line);
                assert!(!tags.touch(line));
            }
        }
    }
}
