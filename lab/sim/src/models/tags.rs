//! The lines that a cache holds.
//!
//! Programs use lines that are not of the simulated memory: *foreign* lines. Each is used once, and all that matters is
//! how many there are. So they are a clock, and a set takes in its share when it is used next.
//!
//! # Invariants
//! A line is in one place of its set at most. Places are ordered by last use, and empty places come last. Foreign lines
//! go to the sets in turn, and each set has the places that it would have if they had been put in one by one.

use super::hardware::Cache;

/// A place with a foreign line.
const FOREIGN: u32 = u32::MAX;

/// The lines of a cache, set by set.
///
/// Sets are allocated as zeroed memory, so that a large cache costs the host only what is used of it.
pub(super) struct Tags {
    /// The number of each line plus one; zero for an empty place, and [`FOREIGN`].
    places: Vec<u32>,
    ways: usize,
    sets: u64,
    /// The foreign lines that have come.
    clock: u64,
    /// How many of them each set has taken in; empty if none have come.
    taken: Vec<u64>,
}

impl Tags {
    pub(super) fn new(cache: &Cache) -> Self {
        let (sets, ways) = (cache.sets(), usize::from(cache.ways));
        Self {
            places: vec![0; sets as usize * ways],
            ways,
            sets,
            clock: 0,
            taken: Vec::new(),
        }
    }

    /// Returns the number of the set of a line.
    #[inline]
    fn index(&self, line: u32) -> u64 {
        if self.sets.is_power_of_two() {
            u64::from(line) & (self.sets - 1)
        } else {
            // Spread over any number of sets, without a division.
            let spread = u64::from(line.wrapping_mul(0x9E37_79B1));
            (spread * self.sets) >> 32
        }
    }

    /// Returns the places of the set of a line.
    #[inline]
    fn set(&mut self, line: u32) -> &mut [u32] {
        let start = self.index(line) as usize * self.ways;
        &mut self.places[start..start + self.ways]
    }

    pub(super) fn sets(&self) -> u64 {
        self.sets
    }

    /// Returns how many foreign lines have come.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    /// Lets foreign lines come, one set after the other, and returns how many have come. O(1): each set takes in its
    /// share in [`settle`](Self::settle).
    pub(super) fn add_foreign(&mut self, lines: u64) -> u64 {
        if self.taken.is_empty() && lines > 0 {
            self.taken = vec![0; self.sets as usize];
        }
        self.clock += lines;
        self.clock
    }

    /// Lets the set of a line take in the foreign lines that have come to it. `leave` gets each line that had to leave,
    /// and the number of foreign lines that had come to the cache when it did, in that order. Any other function about
    /// a line expects a set that is settled. O(ways).
    #[inline]
    pub(super) fn settle(&mut self, line: u32, mut leave: impl FnMut(u32, u64)) {
        if self.taken.is_empty() {
            return;
        }
        let index = self.index(line);
        let come = (self.clock + self.sets - 1 - index) / self.sets;
        let before = std::mem::replace(&mut self.taken[index as usize], come);
        if come == before {
            return;
        }
        let ways = self.ways;
        let count = usize::try_from(come - before).map_or(ways, |count| count.min(ways));
        let (sets, set) = (self.sets, self.set(line));
        for (at, place) in set.iter().enumerate().skip(ways - count).rev() {
            if *place != 0 && *place != FOREIGN {
                // The place moves back with each foreign line, and the last of these moves are out of the set.
                let moves = before + (ways - at) as u64;
                leave(*place - 1, (moves - 1) * sets + index + 1);
            }
        }
        set.rotate_right(count);
        set[..count].fill(FOREIGN);
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
        own(victim)
    }

    /// Notes that a line was used when this many foreign lines had come: it is behind those that came later, unless it
    /// was used again since. Returns the one that had to leave, which is the line itself if its time is over. O(ways).
    pub(super) fn use_as_of(&mut self, line: u32, clock: u64) -> Option<u32> {
        let index = self.index(line);
        let come = |clock: u64| (clock + self.sets - 1 - index) / self.sets;
        let mut later = come(self.clock) - come(clock.min(self.clock));
        let set = self.set(line);
        let mut at = 0;
        while later > 0 && at < set.len() {
            later -= u64::from(set[at] == FOREIGN);
            at += 1;
        }
        if let Some(own) = set.iter().position(|place| *place == line + 1) {
            if at < own {
                set[at..=own].rotate_right(1);
            }
            return None;
        }
        let Some(behind) = set.get_mut(at..).filter(|behind| !behind.is_empty()) else {
            return Some(line);
        };
        let victim = behind[behind.len() - 1];
        behind.rotate_right(1);
        behind[0] = line + 1;
        own(victim)
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

/// Returns the line of a place, unless it is empty or has a foreign line.
fn own(place: u32) -> Option<u32> {
    if place == FOREIGN {
        return None;
    }
    place.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

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

    /// Foreign lines are a clock: the same lines are here as if each had been put in.
    #[test]
    fn foreign_lines_are_as_if_they_were_put_in_one_by_one() {
        for (sets, ways) in [(1, 3), (4, 2), (8, 4), (3, 2)] {
            let (mut own, mut each) = (tags(sets, ways), tags(sets, ways));
            let mut random = SplitMix64::new(sets);
            // A line of each set, for those that are put in.
            let of_set = |tags: &Tags, set| (1000..).find(|line| tags.index(*line) == set);
            let firsts: Vec<u32> = (0..sets).filter_map(|set| of_set(&own, set)).collect();
            let (mut come, mut fresh) = (0, vec![0; sets as usize]);
            let mut left: Vec<(u32, u64)> = Vec::new();
            for _ in 0..2000 {
                let line = random.up_to(4 * sets) as u32;
                if random.up_to(2) > 0 {
                    for _ in 0..random.up_to(3 * sets) {
                        let set = (come % sets) as usize;
                        come += 1;
                        // A line that is in no place: the set's places only have to tell it from all others.
                        fresh[set] += 1;
                        let number = firsts[set] + (1 << 20) + (fresh[set] << 12);
                        let start = set * usize::from(ways);
                        let places = &mut each.places[start..start + usize::from(ways)];
                        let victim = places[usize::from(ways) - 1];
                        places.rotate_right(1);
                        places[0] = number;
                        if (1..=1000).contains(&victim) {
                            left.push((victim - 1, come));
                        }
                        own.add_foreign(1);
                    }
                }
                let mut seen = Vec::new();
                own.settle(line, |line, clock| seen.push((line, clock)));
                let index = own.index(line);
                let of_line: Vec<(u32, u64)> = left
                    .iter()
                    .copied()
                    .filter(|own| each.index(own.0) == index)
                    .collect();
                left.retain(|own| each.index(own.0) != index);
                assert_eq!(seen, of_line);
                match random.up_to(2) {
                    0 if own.touch(line) => assert!(each.touch(line)),
                    0 => {
                        assert!(!each.touch(line));
                        let victim = each.insert(line).filter(|line| *line < 1000);
                        assert_eq!(own.insert(line), victim);
                    }
                    1 => {
                        own.remove(line);
                        each.remove(line);
                    }
                    _ => assert_eq!(own.touch(line), each.touch(line)),
                }
            }
        }
    }

    #[test]
    fn a_line_is_put_in_behind_those_that_came_later() {
        for (later, is_here) in [(0, true), (2, true), (3, false), (1000, false)] {
            let mut tags = tags(1, 3);
            assert_eq!([1, 2].map(|line| tags.insert(line)), [None; 2]);
            tags.add_foreign(1);
            tags.settle(0, |_, _| ());
            assert!(tags.touch(1));
            let clock = tags.add_foreign(0);
            tags.add_foreign(later);
            tags.settle(0, |_, _| ());
            let victim = tags.use_as_of(9, clock);
            assert_eq!(victim == Some(9), !is_here, "{later}");
            assert_eq!(tags.has(9), is_here);
            // Whatever came later stays.
            assert_eq!(tags.has(1), later < 2, "{later}");
            // An older use changes nothing.
            let before = tags.places.clone();
            assert_eq!(tags.use_as_of(9, 0), if is_here { None } else { Some(9) });
            assert_eq!(tags.places, before);
        }
    }
}
