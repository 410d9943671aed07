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
//! the order in which they were made. Its owner keeps it until the request has come there, for half of that time.
//! Reads of a line that no core owns are pipelined: each begins an interval after
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
//! neither does a buffered store. Of loads that miss, a core has as many under way as there are
//! [chains](Hardware::chains) of loads that depend on each other; of lines, as many as it has fill buffers.
//!
//! The lines that programs use between calls have no numbers. They come to the sets of caches in turn, and push out
//! what was used least recently, as if each were accessed.
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
use super::directory::{Directory, Traffic};
use super::hardware::{Hardware, Place, Waiters};
use super::tags::Tags;
use super::window::Window;
use crate::cost::{Access, AccessKind, Charge, CostModel, Instructions, Park, Wake};
use crate::random::SplitMix64;
use crate::region::Line;

mod moves;

/// The pauses of the longest time between two polls of a CPU that backs off, as on the native platform.
const PAUSES: u32 = 64;

/// A CPU that reads a word over and over.
struct Spinner {
    cpu: CpuId,
    line: u32,
    /// When it has the line again; if it backs off, when it polls next.
    arrival: u64,
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
    /// Whether programs have used lines of their own.
    has_foreign: bool,
    /// Lines that had to leave a core, while they are on their way to the last-level cache.
    left_core: Vec<(u32, u64)>,
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
            has_foreign: false,
            left_core: Vec::new(),
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
            if !self.has(line, place.core) {
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
            let arrival = if self.has(line, place.core) {
                // The other thread of the core has stored, or waits as well.
                let twin = served.iter().find(|(core, _)| *core == place.core);
                let twin = twin.map_or(done, |(_, arrival)| *arrival);
                // If it is still on its way, it comes with this store.
                twin.max(self.spinners[index].arrival)
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
        self.has_foreign = false;
        self.outside = 0;
    }

    fn foreign(&mut self, cpu: CpuId, lines: u64, reach: u64) {
        self.has_foreign = true;
        let place = self.places[cpu.index()];
        let Hardware { l1, l2, llc, .. } = self.hardware;
        // What fits into a cache is there already.
        let [inner, outer, last] = [Some(l1), l2, Some(llc)].map(|cache| {
            let is_left = cache.is_some_and(|cache| cache.bytes < reach);
            lines * u64::from(is_left)
        });
        let come = self.groups[usize::from(place.group)].add_foreign(last);
        self.cores[usize::from(place.core)].add_foreign(inner, outer, come);
    }

    fn fence(&mut self, cpu: CpuId, now: u64) -> u64 {
        self.windows[cpu.index()].drain(now) - now
    }

    fn touch(&mut self, cpu: CpuId, line: Line, now: u64) {
        if let Ok(line) = u32::try_from(line.0) {
            self.now = now;
            let _ = self.own(line, self.places[cpu.index()], now);
        }
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
                self.settle(line, place.core);
                let hit = self.cores[core].hit(line, &self.hardware);
                // A load that hits the first cache is in no chain.
                let chains = usize::from(self.hardware.chains);
                let begin = self.windows[cpu.index()].free(chains, now);
                latency = match hit {
                    Some(cycles) if cycles > 0 => begin - now + cycles,
                    Some(cycles) => cycles,
                    None if self.cores[core].is_storing(line, now)
                        || self.keeps(line, place.core, now) =>
                    {
                        self.hardware.hit()
                    }
                    None => self.miss(line, place, false, begin) - now,
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
                // Others see a store when all stores and loads before it are done.
                let last = self.cores[core].last_done().unwrap_or(0);
                let before = self.windows[cpu.index()].done(now).max(last);
                let arrives = match merged {
                    Some(arrives) => arrives,
                    None if self.keeps(line, place.core, before) => now + self.hardware.hit(),
                    None => self.own(line, place, now),
                };
                let done = arrives.max(before);
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
                let got = if self.keeps(line, place.core, begin) {
                    begin + self.hardware.hit()
                } else {
                    self.own(line, place, begin)
                };
                let done = got + u64::from(self.hardware.locked);
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
