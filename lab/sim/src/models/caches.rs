//! Caches that are kept coherent, line by line.
//!
//! On many CPUs the time of an allocator is the time in which lines move between cores. This model charges an access
//! for where its line is, and makes requests for one line wait for each other.
//!
//! # The model
//! A line is modified, exclusive, shared or invalid in each core (MESI). A core has one or two caches of its own, and
//! the cores of a group share a last-level cache, which also takes in what the cores evict. A load that misses gets
//! the line from its owner, from a last-level cache, or from memory. A store needs the line alone, and invalidates all
//! other copies. A line that moves is busy until it has arrived; requests for it are served one after the other, in
//! the order in which they were made. Reads of a line that no core owns are pipelined: each begins an interval after
//! the one before it. If another read brings the line to a last-level cache, those behind this cache wait for that. A
//! store waits until all copies have arrived.
//!
//! A store goes to the store buffer, where there is one: the CPU continues, and others see the store when the line has
//! arrived and all earlier stores of the core are done. Stores to the line that the last buffered stores wait for take
//! effect together with them, even if others have asked for the line since, and loads of it hit. An atomic
//! read-modify-write waits for the buffer to be empty.
//!
//! A core continues after a load that misses, as far as its [window](super::window) reaches. An atomic
//! read-modify-write waits for these loads, too. A hit of the first cache costs nothing beyond its instruction, and
//! neither does a buffered store.
//!
//! A CPU that spins has a copy of its line. A store invalidates it, and all CPUs that spin on the line fetch it again,
//! in random order. The holder's next store waits for them. Where the machine's waiters back off, each fetches the
//! line again at its next poll, and polls less and less often.
//!
//! # Invariants
//! A core is a sharer of a line if and only if its outer cache has it; whatever its inner cache has, the outer one has.
//!
//! # Not modelled
//! Bandwidth. Prefetching, except of adjacent lines. Translation of addresses. The place of memory: all memory has the
//! same distance. Back-invalidations by inclusive last-level caches. Words outside the region, which cost a hit.

use everybuddy::CpuId;

use super::coming::Coming;
use super::core::{Buffered, Core};
use super::directory::{Directory, NOBODY, Traffic};
use super::hardware::{Hardware, Place, Transfer, Waiters};
use super::tags::Tags;
use super::window::Window;
use crate::cost::{Access, AccessKind, Charge, CostModel, Instructions, Park, Wake};
use crate::random::SplitMix64;
use crate::region::Line;

/// The pauses of the longest time between two polls of a CPU that backs off, as on the native platform.
const PAUSES: u32 = 64;

/// A CPU that reads a word over and over.
struct Spinner {
    cpu: CpuId,
    line: u32,
    /// When it has the line again; if it backs off, when it polls next.
    arrival: u64,
}

/// How far a line is from the core that asks for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    Near,
    Socket,
    Far,
}

/// A machine with caches, as a [`CostModel`].
pub struct Caches {
    hardware: Hardware,
    is_spread: bool,
    seed: u64,
    instructions: Instructions,
    /// What the next accesses of each CPU stand for.
    paths: Vec<Instructions>,
    /// The accesses that were left of the shortest path of each CPU when it began to wait.
    left: Vec<u32>,
    random: SplitMix64,
    places: Vec<Place>,
    cores: Vec<Core>,
    groups: Vec<Tags>,
    lines: Directory,
    /// The time of the current access.
    now: u64,
    coming: Coming,
    spinners: Vec<Spinner>,
    /// The cycles before the next poll of each CPU, if CPUs that wait back off.
    gaps: Vec<u64>,
    /// Whether each CPU executes instructions.
    is_active: Vec<bool>,
    /// What each CPU executes past its loads.
    windows: Vec<Window>,
    /// Accesses to words outside the region.
    outside: u64,
}

impl Caches {
    /// Creates the model of a machine with empty caches.
    ///
    /// # Panics
    /// If the machine fails its [`check`](Hardware::check).
    pub fn new(hardware: Hardware) -> Self {
        if let Err(error) = hardware.check() {
            panic!("{error}");
        }
        Self {
            hardware,
            is_spread: false,
            seed: 0,
            instructions: Instructions::default(),
            paths: Vec::new(),
            left: Vec::new(),
            random: SplitMix64::new(0),
            places: Vec::new(),
            cores: Vec::new(),
            groups: Vec::new(),
            lines: Directory::new(1, 1),
            now: 0,
            coming: Coming::default(),
            spinners: Vec::new(),
            gaps: Vec::new(),
            is_active: Vec::new(),
            windows: Vec::new(),
            outside: 0,
        }
    }

    /// Sets the seed of the order in which CPUs that spin on one line get it.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Lets consecutive CPUs be of different sockets, in turn.
    #[must_use]
    pub fn spread(self, is_spread: bool) -> Self {
        Self { is_spread, ..self }
    }

    /// Sets what the accesses of a CPU stand for that has begun no [path](crate::SimCpu::path).
    #[must_use]
    pub fn instructions(self, instructions: Instructions) -> Self {
        Self {
            instructions,
            ..self
        }
    }

    /// Returns what happened to each line since the start of the run, or since [`mark`](CostModel::mark), in the order
    /// of the lines. O(lines).
    pub fn traffic(&self) -> Vec<(Line, Traffic)> {
        let all = self.lines.all_traffic();
        all.map(|(line, traffic)| (Line(u64::from(line)), traffic))
            .collect()
    }

    /// Returns the number of accesses to words outside the region. O(1).
    pub fn outside(&self) -> u64 {
        self.outside
    }

    fn transfer(&self, distance: Distance) -> &Transfer {
        match distance {
            Distance::Near => &self.hardware.near,
            Distance::Socket => &self.hardware.socket,
            Distance::Far => &self.hardware.far,
        }
    }

    fn between(&self, from: Place, to_group: u16) -> Distance {
        if from.group == to_group {
            Distance::Near
        } else if from.socket == to_group / self.hardware.groups {
            Distance::Socket
        } else {
            Distance::Far
        }
    }

    fn group_of(&self, core: u16) -> u16 {
        core / self.hardware.cores
    }

    /// Returns the distances of the nearest and of the farthest copy of a line outside the core. O(words of a set), and
    /// not O(copies): all CPUs that wait for a lock fetch its line after every store, one after the other.
    fn copies(&mut self, line: u32, place: Place) -> Option<(Distance, Distance)> {
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

    /// Puts a line into a last-level cache.
    fn keep(&mut self, line: u32, group: u16) {
        let tags = &mut self.groups[usize::from(group)];
        if self.lines.add_group(line, group) {
            tags.touch(line);
        } else if let Some(victim) = tags.insert(line) {
            self.lines.remove_group(victim, group);
        }
    }

    /// Puts a line into a core's caches; what leaves them goes to the last-level cache.
    fn fill(&mut self, line: u32, core: u16) {
        self.lines.add_sharer(line, core);
        if let Some(victim) = self.cores[usize::from(core)].fill(line) {
            self.lines.remove_sharer(victim, core);
            let entry = self.lines.entry(victim);
            if entry.owner == core {
                entry.owner = NOBODY;
                entry.is_modified = false;
            }
            self.keep(victim, self.group_of(core));
        }
    }

    /// Moves a line to a core, for a load or a store, and returns the time at which it is there.
    fn fetch(&mut self, line: u32, place: Place, is_store: bool, now: u64) -> u64 {
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

    fn invalidate_others(&mut self, line: u32, keeper: u16) {
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

    /// Fetches a line, and the other line of its pair where the machine does that.
    fn miss(&mut self, line: u32, place: Place, is_store: bool, now: u64) -> u64 {
        let had_it = self.lines.has(line, place.core);
        let done = self.fetch(line, place, is_store, now);
        if self.hardware.adjacent_line && !had_it && !self.lines.has(line ^ 1, place.core) {
            self.fetch(line ^ 1, place, false, now);
        }
        done
    }

    /// Gets the line of a store for the core alone, and returns the time at which it has it.
    fn own(&mut self, line: u32, place: Place, now: u64) -> u64 {
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

    /// Returns the cycles of some thousandths of an instruction from the time `now` on.
    fn execute(&mut self, cpu: CpuId, thousandths: u64, now: u64) -> u64 {
        let rate = if self.shares_core(cpu) {
            self.hardware.work_shared
        } else {
            self.hardware.work
        };
        self.windows[cpu.index()].execute(thousandths, now, self.hardware.window, rate)
    }

    /// Returns `true` if the other thread of a CPU's core executes instructions.
    fn shares_core(&self, cpu: CpuId) -> bool {
        if self.hardware.threads < 2 {
            return false;
        }
        let (all, cores) = (
            self.hardware.cpus() as usize,
            self.hardware.all_cores() as usize,
        );
        // Where there are more virtual CPUs than the machine has, several take turns as one of its threads.
        let own = cpu.index() % all;
        let sibling = if own < cores {
            own + cores
        } else {
            own - cores
        };
        let others = self.is_active.iter().skip(sibling).step_by(all);
        others.copied().any(|is_active| is_active)
    }

    /// Lets CPUs that back off poll a line, in the order of their polls, until the time `now`.
    #[cold]
    fn poll(&mut self, line: u32, most: u64, now: u64) {
        loop {
            let due = self.spinners.iter().enumerate();
            let due = due.filter(|(_, own)| own.line == line && own.arrival < now);
            let first = due.min_by_key(|(_, own)| (own.arrival, own.cpu));
            let Some((index, &Spinner { cpu, arrival, .. })) = first else {
                return;
            };
            let mut at = arrival;
            let (place, gap) = (self.places[cpu.index()], self.gaps[cpu.index()]);
            if !self.lines.has(line, place.core) {
                at = self.fetch(line, place, false, at);
            } else if gap == most {
                // All polls until then hit.
                at += (now - at - 1) / gap * gap;
            }
            self.spinners[index].arrival = at + gap;
            self.gaps[cpu.index()] = (2 * gap).min(most);
        }
    }

    /// Lets all CPUs that spin on a line fetch it again, after stores that took effect at `done`.
    fn fetch_again(&mut self, line: u32, done: u64) {
        let mut waiting: Vec<usize> = (0..self.spinners.len())
            .filter(|index| self.spinners[*index].line == line)
            .collect();
        // The order in which they are served is random.
        for last in (1..waiting.len()).rev() {
            let other = self.random.up_to(last as u64) as usize;
            waiting.swap(last, other);
        }
        let mut served: Vec<(u16, u64)> = Vec::new();
        for index in waiting {
            let cpu = self.spinners[index].cpu;
            let place = self.places[cpu.index()];
            let arrival = if self.lines.has(line, place.core) {
                // The other thread of the core has stored, or waits as well.
                let twin = served.iter().find(|(core, _)| *core == place.core);
                twin.map_or(done, |(_, arrival)| *arrival)
            } else {
                self.fetch(line, place, false, done)
            };
            served.push((place.core, arrival));
            self.spinners[index].arrival = arrival;
        }
    }
}

impl CostModel for Caches {
    fn reset(&mut self, cpus: u16) {
        let hardware = &self.hardware;
        self.random = SplitMix64::new(self.seed);
        let place = if self.is_spread {
            Hardware::spread_place
        } else {
            Hardware::place
        };
        self.places = (0..cpus).map(|cpu| place(hardware, cpu)).collect();
        let last = self.places.iter().map(|place| place.core).max();
        let cores = last.map_or(0, |last| u32::from(last) + 1);
        self.cores = (0..cores).map(|_| Core::new(hardware)).collect();
        let groups = cores.div_ceil(u32::from(hardware.cores));
        self.groups = (0..groups).map(|_| Tags::new(&hardware.llc)).collect();
        self.lines = Directory::new(cores, groups);
        self.now = 0;
        self.coming = Coming::default();
        self.spinners = Vec::new();
        self.gaps = vec![0; usize::from(cpus)];
        self.is_active = vec![true; usize::from(cpus)];
        self.windows = vec![Window::default(); usize::from(cpus)];
        self.paths = vec![self.instructions; usize::from(cpus)];
        self.left = vec![self.instructions.shortest; usize::from(cpus)];
        self.outside = 0;
    }

    fn access(&mut self, access: Access) -> Charge {
        let Access {
            kind,
            line,
            cpu,
            now,
        } = access;
        let Ok(line) = u32::try_from(line.0) else {
            self.outside += 1;
            return Charge::at_once(self.hardware.hit());
        };
        if let Waiters::BackOff(most) = self.hardware.waiters
            && !self.spinners.is_empty()
        {
            self.poll(line, u64::from(most), now);
        }
        self.now = now;
        let place = self.places[cpu.index()];
        let core = usize::from(place.core);
        let (mut is_merged, mut latency) = (false, 0);
        let charge = match kind {
            AccessKind::Load => {
                let hit = self.cores[core].hit(line, &self.hardware);
                latency = match hit {
                    Some(cycles) => cycles,
                    None if self.cores[core].is_storing(line, now) => self.hardware.hit(),
                    None => self.miss(line, place, false, now) - now,
                };
                if self.hardware.window > 0 && latency > 0 {
                    self.windows[cpu.index()].add(now + latency);
                    Charge::at_once(0)
                } else {
                    Charge::at_once(latency)
                }
            }
            AccessKind::Store => {
                let merged = self.cores[core].merge(line, now);
                is_merged = merged.is_some();
                let arrives = merged.unwrap_or_else(|| self.own(line, place, now));
                let last = self.cores[core].last_done();
                // Others see a store when all loads before it are done.
                let loaded = self.windows[cpu.index()].done(now);
                let done = arrives.max(last.unwrap_or(0)).max(loaded);
                let stores = &mut self.cores[core].stores;
                while stores.front().is_some_and(|first| first.done <= now) {
                    stores.pop_front();
                }
                let own = Buffered {
                    line,
                    arrives,
                    done,
                };
                let room = usize::from(self.hardware.store_buffer);
                let cycles = if room == 0 {
                    done - now
                } else if stores.len() < room {
                    stores.push_back(own);
                    0
                } else {
                    let first = stores.pop_front().map_or(now, |first| first.done);
                    stores.push_back(own);
                    first - now
                };
                Charge {
                    cycles,
                    visible: done - now,
                }
            }
            AccessKind::ReadModifyWrite => {
                let loaded = self.windows[cpu.index()].drain(now);
                let begin = loaded.max(self.cores[core].last_done().unwrap_or(0));
                self.cores[core].stores.clear();
                let done = self.own(line, place, begin) + u64::from(self.hardware.locked);
                Charge {
                    cycles: done - now,
                    visible: done - now,
                }
            }
        };
        let traffic = self.lines.traffic(line);
        traffic.accesses += 1;
        // A load that the core overtakes counts with its whole latency: it may still determine the time.
        traffic.cycles += charge.cycles.max(latency);
        let thousandths = u64::from(self.paths[cpu.index()].next());
        let cycles = charge.cycles + self.execute(cpu, thousandths, now + charge.cycles);
        let charge = Charge { cycles, ..charge };
        // A CPU that spins has asked for the line after the first of stores that take effect together.
        if kind != AccessKind::Load
            && !is_merged
            && !self.spinners.is_empty()
            && self.hardware.waiters == Waiters::Spin
        {
            self.fetch_again(line, now + charge.visible);
        }
        charge
    }

    fn park(&mut self, park: Park) {
        let cpu = park.cpu;
        let arrival = match self.hardware.waiters {
            Waiters::Spin => 0,
            Waiters::BackOff(most) => {
                let gap = &mut self.gaps[cpu.index()];
                // A pause. A gap of zero would never let a poll be later than the one before.
                if *gap == 0 {
                    *gap = u64::from(most.div_ceil(PAUSES));
                }
                let arrival = park.since + *gap;
                *gap = (2 * *gap).min(u64::from(most));
                arrival
            }
        };
        if let Ok(line) = u32::try_from(park.line.0) {
            self.spinners.push(Spinner { cpu, line, arrival });
        }
    }

    fn wake(&mut self, wake: Wake) -> u64 {
        // A CPU that looks again and again does not get further on its path.
        self.paths[wake.cpu.index()].shortest = self.left[wake.cpu.index()];
        let own = |spinner: &Spinner| spinner.cpu == wake.cpu;
        let spinner = self.spinners.iter().position(own);
        let arrival = spinner.map_or(0, |spinner| self.spinners.remove(spinner).arrival);
        let runs = arrival.max(wake.visible).max(wake.since);
        if let Ok(line) = u32::try_from(wake.line.0) {
            let traffic = self.lines.traffic(line);
            traffic.waits += 1;
            traffic.waited += runs - wake.since;
        }
        runs
    }

    fn end(&mut self, cpu: CpuId) {
        self.is_active[cpu.index()] = false;
    }

    fn wait(&mut self, cpu: CpuId) {
        self.left[cpu.index()] = self.paths[cpu.index()].shortest;
        if let Some(gap) = self.gaps.get_mut(cpu.index()) {
            *gap = 0;
        }
    }

    fn path(&mut self, cpu: CpuId, path: Instructions) {
        self.paths[cpu.index()] = path;
    }

    fn work(&mut self, cpu: CpuId, instructions: u32, now: u64) -> u64 {
        self.execute(cpu, u64::from(instructions) * 1000, now)
    }

    fn mark(&mut self) {
        self.lines.forget_traffic();
        self.outside = 0;
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
