//! How lines come to a core, and where they go when they leave it.
//!
//! # Invariants
//! Where programs have used lines of their own, the sets of a line are settled before anything is asked about it.

use super::super::directory::{Directory, Kept, NOBODY};
use super::super::hardware::{Hardware, Place, Transfer};
use super::Caches;

/// How far a line is from the core that asks for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::models) enum Distance {
    Near,
    Socket,
    Far,
}

impl Caches {
    pub(super) fn transfer(&self, distance: Distance) -> &Transfer {
        match distance {
            Distance::Near => &self.hardware.near,
            Distance::Socket => &self.hardware.socket,
            Distance::Far => &self.hardware.far,
        }
    }

    pub(super) fn between(&self, from: Place, to_group: u16) -> Distance {
        if from.group == to_group {
            Distance::Near
        } else if from.socket == to_group / self.hardware.groups {
            Distance::Socket
        } else {
            Distance::Far
        }
    }

    pub(super) fn group_of(&self, core: u16) -> u16 {
        core / self.hardware.cores
    }

    /// Returns the distances of the nearest and of the farthest copy of a line outside the core. O(words of a set), and
    /// not O(copies): all CPUs that wait for a lock fetch its line after every store, one after the other.
    pub(super) fn copies(&mut self, line: u32, place: Place) -> Option<(Distance, Distance)> {
        let Hardware { groups, cores, .. } = self.hardware;
        let own_groups = place.socket * groups..(place.socket + 1) * groups;
        let own_cores = own_groups.start * cores..own_groups.end * cores;
        let near_cores = place.group * cores..(place.group + 1) * cores;
        let (mut near, mut socket, mut far) = (0, 0, 0);
        for (index, word) in self.lines.sharers(line).iter().enumerate() {
            let others = word & !Directory::members(index, place.core..place.core + 1);
            let in_group = Directory::members(index, near_cores.clone());
            let in_socket = Directory::members(index, own_cores.clone());
            near |= others & in_group;
            socket |= others & in_socket & !in_group;
            far |= others & !in_socket;
        }
        for (index, word) in self.lines.groups(line).iter().enumerate() {
            let others = word & !Directory::members(index, place.group..place.group + 1);
            let in_socket = Directory::members(index, own_groups.clone());
            socket |= others & in_socket;
            far |= others & !in_socket;
        }
        let all = [
            (near, Distance::Near),
            (socket, Distance::Socket),
            (far, Distance::Far),
        ];
        let mut found = all.into_iter().filter(|(some, _)| *some != 0);
        let (_, nearest) = found.next()?;
        Some((
            nearest,
            found.next_back().map_or(nearest, |(_, farthest)| farthest),
        ))
    }

    /// Lets the sets of a line in a core's caches take in the lines of programs; what leaves them goes to the
    /// last-level cache.
    #[inline]
    pub(super) fn settle(&mut self, line: u32, core: u16) {
        if self.has_foreign {
            self.settle_core(line, core);
        }
    }

    pub(super) fn settle_core(&mut self, line: u32, core: u16) {
        let group = self.group_of(core);
        let clock = self.groups[usize::from(group)].clock();
        let mut left = std::mem::take(&mut self.left_core);
        self.cores[usize::from(core)].settle(line, clock, &mut left);
        for (victim, clock) in left.drain(..) {
            self.leave(victim, core);
            self.settle_group(victim, group);
            self.lines.add_group(victim, group);
            let tags = &mut self.groups[usize::from(group)];
            if let Some(victim) = tags.use_as_of(victim, clock) {
                self.lines.remove_group(victim, group);
            }
        }
        self.left_core = left;
    }

    /// Lets the set of a line in a last-level cache take in the lines of programs.
    pub(super) fn settle_group(&mut self, line: u32, group: u16) {
        let lines = &mut self.lines;
        self.groups[usize::from(group)].settle(line, |victim, _| lines.remove_group(victim, group));
    }

    /// Does both for all caches that have a line.
    pub(super) fn settle_all(&mut self, line: u32) {
        for index in 0..self.lines.words() {
            let mut word = self.lines.sharers(line)[index];
            while let Some(core) = Directory::next_of(index, &mut word) {
                self.settle_core(line, core);
            }
        }
        for index in 0..self.lines.group_words() {
            let mut word = self.lines.groups(line)[index];
            while let Some(group) = Directory::next_of(index, &mut word) {
                self.settle_group(line, group);
            }
        }
    }

    /// Returns `true` if a core has a line.
    pub(super) fn has(&mut self, line: u32, core: u16) -> bool {
        self.settle(line, core);
        self.lines.has(line, core)
    }

    /// Notes that a line is not in a core's caches any more.
    pub(super) fn leave(&mut self, line: u32, core: u16) {
        self.lines.remove_sharer(line, core);
        let entry = self.lines.entry(line);
        if entry.owner == core {
            entry.owner = NOBODY;
            entry.is_modified = false;
        }
    }

    /// Puts a line into a last-level cache.
    pub(super) fn keep(&mut self, line: u32, group: u16) {
        self.settle_group(line, group);
        let tags = &mut self.groups[usize::from(group)];
        if self.lines.add_group(line, group) {
            tags.touch(line);
        } else if let Some(victim) = tags.insert(line) {
            self.lines.remove_group(victim, group);
        }
    }

    /// Puts a line into a core's caches; what leaves them goes to the last-level cache.
    pub(super) fn fill(&mut self, line: u32, core: u16) {
        self.settle(line, core);
        self.lines.add_sharer(line, core);
        if let Some(victim) = self.cores[usize::from(core)].fill(line) {
            self.leave(victim, core);
            self.keep(victim, self.group_of(core));
        }
    }

    /// Moves a line to a core, for a load or a store, and returns the time at which it is there.
    pub(super) fn fetch(&mut self, line: u32, place: Place, is_store: bool, now: u64) -> u64 {
        if self.has_foreign {
            self.settle_all(line);
        }
        let entry = *self.lines.entry(line);
        let mut begin = now.max(entry.busy);
        if is_store {
            begin = begin.max(entry.arrived);
        }
        let has_it = is_store && self.lines.has(line, place.core);
        let copies = self.copies(line, place);
        let in_group = self.lines.has_group(line, place.group);
        let invalidate = match copies {
            Some((_, farthest)) if is_store => self.transfer(farthest).upgrade,
            _ => 0,
        };
        let mut from_far = is_store && copies.is_some_and(|(_, most)| most == Distance::Far);
        let mut from_core = invalidate > 0;
        let mut from_memory = false;
        let cycles = if entry.owner != NOBODY {
            let distance = self.between(place, self.group_of(entry.owner));
            from_far = distance == Distance::Far;
            from_core = true;
            let transfer = self.transfer(distance);
            if entry.is_modified {
                transfer.modified
            } else {
                transfer.clean
            }
        } else if has_it {
            // The other copies may be gone without this core's knowledge: it asks all the same.
            invalidate.max(self.hardware.near.upgrade)
        } else if in_group {
            self.hardware.llc.cycles.max(invalidate)
        } else if let Some((nearest, _)) = copies {
            from_far |= nearest == Distance::Far;
            from_core = true;
            self.transfer(nearest).clean.max(invalidate)
        } else {
            from_memory = true;
            self.hardware.memory
        };
        let mut done = begin + u64::from(cycles);
        if entry.owner != NOBODY {
            // The request is on its way to the owner for half of the time. An owner that still gets it has it after
            // that.
            let kept = Kept {
                core: entry.owner,
                from: entry.busy,
                until: begin + u64::from(cycles) / 2,
            };
            self.lines.entry(line).kept = [entry.kept[1], kept];
        }

        let traffic = self.lines.traffic(line);
        traffic.misses += 1;
        traffic.transfers += u64::from(from_core);
        traffic.far += u64::from(from_core && from_far);
        traffic.memory += u64::from(from_memory);

        if is_store {
            self.invalidate_others(line, place.core);
            if !has_it {
                self.fill(line, place.core);
            }
            let entry = self.lines.entry(line);
            entry.owner = place.core;
            entry.is_modified = true;
            entry.busy = done;
        } else {
            if entry.owner != NOBODY {
                // The last-level cache gets what the owner gives away.
                self.keep(line, self.group_of(entry.owner));
            }
            let is_shared = entry.owner == NOBODY && !from_memory;
            let mut busy = done;
            if is_shared {
                busy = done.min(begin + u64::from(self.hardware.read_interval));
                if in_group {
                    let latency = u64::from(self.hardware.llc.cycles);
                    done = done.max(self.coming.when(line, place.group) + latency);
                } else {
                    self.coming.add(line, place.group, done, self.now);
                }
            }
            let is_alone = copies.is_none() && !in_group;
            self.fill(line, place.core);
            self.keep(line, place.group);
            let entry = self.lines.entry(line);
            entry.owner = if is_alone { place.core } else { NOBODY };
            entry.is_modified = false;
            entry.busy = busy;
            entry.arrived = entry.arrived.max(done);
        }
        done
    }

    pub(super) fn invalidate_others(&mut self, line: u32, keeper: u16) {
        for index in 0..self.lines.words() {
            let mut word = self.lines.sharers(line)[index];
            while let Some(core) = Directory::next_of(index, &mut word) {
                if core != keeper {
                    self.cores[usize::from(core)].invalidate(line);
                    self.lines.remove_sharer(line, core);
                }
            }
        }
        for index in 0..self.lines.group_words() {
            let mut word = std::mem::take(&mut self.lines.groups(line)[index]);
            while let Some(group) = Directory::next_of(index, &mut word) {
                self.groups[usize::from(group)].remove(line);
            }
        }
    }

    /// Returns `true` if another core gets the line of this one, and its request has not come here at the time `now`:
    /// until then accesses hit.
    #[inline]
    pub(super) fn keeps(&mut self, line: u32, core: u16, now: u64) -> bool {
        let mut kept = self.lines.entry(line).kept.into_iter();
        kept.any(|own| own.core == core && (own.from..own.until).contains(&now))
    }

    /// Fetches a line, and the other line of its pair where the machine does that.
    pub(super) fn miss(&mut self, line: u32, place: Place, is_store: bool, now: u64) -> u64 {
        let had_it = self.has(line, place.core);
        let buffers = self.hardware.fill_buffers;
        let core = usize::from(place.core);
        let begin = match buffers {
            0 => now,
            _ => self.cores[core].begin_fill(now, buffers),
        };
        let done = self.fetch(line, place, is_store, begin);
        if buffers > 0 {
            self.cores[core].fill_until(done);
        }
        // The prefetcher of pairs has buffers of its own.
        if self.hardware.adjacent_line && !had_it && !self.has(line ^ 1, place.core) {
            self.fetch(line ^ 1, place, false, begin);
        }
        done
    }

    /// Gets the line of a store for the core alone, and returns the time at which it has it.
    pub(super) fn own(&mut self, line: u32, place: Place, now: u64) -> u64 {
        self.settle(line, place.core);
        let hit = self.cores[usize::from(place.core)].hit(line, &self.hardware);
        let entry = self.lines.entry(line);
        let is_handed_over = entry.writer != NOBODY && entry.writer != place.core;
        entry.writer = place.core;
        let done = match hit {
            Some(cycles) if entry.owner == place.core => {
                entry.is_modified = true;
                now + cycles
            }
            _ => self.miss(line, place, true, now),
        };
        self.lines.traffic(line).hand_overs += u64::from(is_handed_over);
        done
    }
}
