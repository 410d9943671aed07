//! Clocks: which CPU runs next, which CPUs wait for which word, and the counters.
//!
//! Everything that decides the order of events is in this module, without coroutines and without unsafe code, so that
//! it can be read and tested by itself.
//!
//! # Invariants
//! 1. Each CPU is exactly one of running, ready, parked, at the barrier, stopped or ended.
//! 2. [`horizon`](Schedule) is the smallest key of a ready CPU, or the key of the limit if that is smaller. While the
//!    key of the running CPU does not exceed it, no other CPU has to run.
//! 3. Addresses are compared for equality only; the hash and the order use line numbers.
//! 4. In a [watched](crate::faults) run, `last` is zero. Every access then exceeds the horizon, and the slow path asks
//!    what is due. Otherwise no path of an access knows of such runs.
//!
//! A *key* combines a clock (high bits) and a CPU number (low bits) in one word: comparing keys compares clocks, and
//! CPU numbers where clocks are equal.

use everybuddy::CpuId;

use crate::cores::RunQueues;
use crate::cost::{Access, AccessKind, CostModel, Park, Wake};
use crate::faults::{Fault, Plan, Touched, Watched};
use crate::random::SplitMix64;
use crate::ready::{CPU_BITS, LONGEST, Ready, clock_of, key};
use crate::region::{Line, Region};
use crate::report::{CpuReport, LastAccess, Running, Stopped, Waiting};
use crate::watchdog::{BETWEEN_LOOKS, Limits, Watchdog};

const fn cpu_of(key: u64) -> CpuId {
    CpuId(key as u16)
}

/// Of accesses in sequence that cost nothing, each one of this number costs a cycle.
const FREE: u32 = 16;
/// The hash input for parking, which is not an access.
const PARK: u64 = 3;
const WAKE: u64 = 4;

/// A CPU that waits.
struct Parked {
    address: usize,
    line: Line,
    key: u64,
    /// How often it has polled before in this wait.
    attempt: u32,
}

/// The next action of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Run this CPU.
    Run(CpuId),
    /// No CPU can run.
    Nobody,
    /// This CPU exceeded the limit of virtual time, which is given.
    Limit(CpuId, u64),
    /// The CPUs have made this many steps without progress.
    Stall(u64),
    /// Run the handler on the running CPU, then ask again.
    Interrupt,
}

/// The state of a run.
pub(crate) struct Schedule<'m> {
    cost: &'m mut dyn CostModel,
    region: Region,
    /// The key of the running CPU.
    now: u64,
    horizon: u64,
    /// The largest key before the limit or the watchdog's next look; zero if the run is watched or was aborted.
    last: u64,
    /// The largest key within the limit; zero if the run was aborted.
    limit: u64,
    watchdog: Option<Watchdog>,
    /// How often CPUs worked.
    works: u64,
    watched: Option<Box<Watched>>,
    ready: Ready,
    parked: Vec<Parked>,
    /// The keys of the CPUs that have reached the barrier.
    barrier: Vec<u64>,
    /// The number of CPUs that have not ended, without those that stand aside.
    alive: usize,
    /// Whether each CPU stands aside.
    aside: Vec<bool>,
    cpus: Vec<CpuReport>,
    poked: Vec<bool>,
    /// For each CPU, the time at which others see its last access.
    effects: Vec<u64>,
    jitter: u64,
    random: SplitMix64,
    switches: u64,
    hash: u64,
    /// The last accesses in sequence that cost nothing, modulo [`FREE`].
    free: u32,
}

impl<'m> Schedule<'m> {
    /// Creates the state at time zero: all CPUs are ready.
    pub(crate) fn new(
        cpus: u16,
        region: Region,
        cost: &'m mut dyn CostModel,
        limits: Limits,
        jitter: (u64, SplitMix64),
        plan: &Plan,
    ) -> Self {
        cost.reset(cpus);
        let (jitter, random) = jitter;
        let limit = key(limits.cycles.min(LONGEST), u16::MAX);
        let watchdog = limits.patience.map(Watchdog::new);
        let look = limit.min(key(BETWEEN_LOOKS, u16::MAX));
        let last = watchdog.as_ref().map_or(limit, |_| look);
        let mut watched = plan.watch(cpus, last);
        let mut ready = Ready::new(cpus);
        let mut queues = watched.as_mut().and_then(|run| run.queues.as_mut());
        for cpu in 0..cpus {
            match &mut queues {
                Some(queues) => queues.arrives(&mut ready, CpuId(cpu), 0),
                None => ready.insert(key(0, cpu)),
            }
        }
        Self {
            cost,
            region,
            now: 0,
            horizon: 0,
            last: if watched.is_some() { 0 } else { last },
            limit,
            watchdog,
            works: 0,
            watched,
            ready,
            parked: Vec::new(),
            barrier: Vec::new(),
            alive: usize::from(cpus),
            aside: vec![false; usize::from(cpus)],
            cpus: vec![CpuReport::default(); usize::from(cpus)],
            poked: vec![false; usize::from(cpus)],
            effects: vec![0; usize::from(cpus)],
            jitter: jitter.min(LONGEST),
            random,
            switches: 0,
            hash: 0,
            free: 0,
        }
    }

    /// Returns the running CPU.
    pub(crate) fn cpu(&self) -> CpuId {
        cpu_of(self.now)
    }

    /// Returns the running CPU's clock.
    pub(crate) fn clock(&self) -> u64 {
        clock_of(self.now)
    }

    /// Records an access of the running CPU, which has taken effect. Returns whether to [`switch`](Self::switch).
    #[inline(always)]
    pub(crate) fn access(&mut self, kind: AccessKind, address: usize) -> bool {
        let cpu = self.cpu();
        let line = self.region.line(address);
        self.cpus[cpu.index()].count(kind);
        self.note(kind as u64, cpu, line);
        let now = self.clock();
        let charge = self.cost.access(Access {
            kind,
            line,
            cpu,
            now,
        });
        self.effects[cpu.index()] = now.saturating_add(charge.visible.min(LONGEST));
        self.free = (self.free + 1) * u32::from(charge.cycles == 0) % FREE;
        let mut cycles = charge.cycles.max(u64::from(self.free == 0));
        if self.jitter > 0 {
            cycles = cycles.saturating_add(self.random.up_to(self.jitter));
        }
        self.advance(cycles)
    }

    /// Charges the running CPU for instructions. Returns `true` if the engine must switch.
    #[inline]
    pub(crate) fn work(&mut self, instructions: u32) -> bool {
        self.works += 1;
        let cycles = self.cost.work(self.cpu(), instructions, self.clock());
        self.advance(cycles)
    }

    /// Tells the cost model something about the running CPU, at the present time, and charges the cycles that it takes.
    /// Returns `true` if the engine must switch.
    #[inline]
    pub(crate) fn tell(
        &mut self,
        tell: impl FnOnce(&mut dyn CostModel, CpuId, u64) -> u64,
    ) -> bool {
        let (cpu, now) = (self.cpu(), self.clock());
        let cycles = tell(self.cost, cpu, now);
        self.advance(cycles)
    }

    #[inline]
    fn advance(&mut self, cycles: u64) -> bool {
        // Saturates only while destructors run after the limit was exceeded.
        self.now = self.now.saturating_add(cycles.min(LONGEST) << CPU_BITS);
        self.must_switch()
    }

    /// Returns `true` if another CPU is earlier than the running one, or if the limit was exceeded.
    #[inline]
    pub(crate) fn must_switch(&self) -> bool {
        self.now > self.horizon
    }

    #[inline]
    fn note(&mut self, event: u64, cpu: CpuId, line: Line) {
        let word = line.0 << 19 | u64::from(cpu.0) << 3 | event;
        // The hash depends on the order: each step mixes in the previous value.
        let mixed = (self.hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.hash = mixed ^ (mixed >> 32);
    }

    /// Runs the earliest ready CPU and makes the running CPU ready, whose last `access` is given if there is one.
    #[inline(always)]
    pub(crate) fn switch(&mut self, access: Option<(AccessKind, usize)>) -> Next {
        let from = self.now;
        if from > self.last {
            return self.switch_watched(access);
        }
        self.pass(from)
    }

    /// Lets the earliest ready CPU run, if it is earlier than the running one.
    #[inline(always)]
    fn pass(&mut self, from: u64) -> Next {
        if self.ready.first() < from {
            self.now = self.ready.replace_first(from);
        }
        self.arrive(from)
    }

    /// Does the same if the run is watched, the limit was exceeded, or the run was aborted.
    #[cold]
    #[inline(never)]
    fn switch_watched(&mut self, access: Option<(AccessKind, usize)>) -> Next {
        if let Some(over) = self.over() {
            return over;
        }
        let (cpu, clock) = (self.cpu(), self.clock());
        if let (Some(watched), Some((kind, address))) = (&mut self.watched, access) {
            watched.record(cpu, kind, address, clock);
        }
        match self.take_due() {
            Some(Fault::Stop) => self.stop(),
            Some(Fault::Interrupt) => Next::Interrupt,
            None => match self.with_cores(|queues, ready, _| queues.continues(ready, cpu, clock)) {
                Some(()) => self.take_next_on_cores(self.now),
                None => self.pass(self.now),
            },
        }
    }

    /// Returns what ends the run, if the limit was exceeded, CPUs made no progress, or the run was aborted.
    fn over(&mut self) -> Option<Next> {
        let last = self.watched.as_ref().map_or(self.last, |run| run.last);
        if self.now <= last {
            return None;
        }
        if self.now > self.limit {
            return Some(Next::Limit(self.cpu(), clock_of(self.limit)));
        }
        self.look()
    }

    /// Looks whether the run makes progress, and sets the time of the next look. O(CPUs).
    #[cold]
    fn look(&mut self) -> Option<Next> {
        let steps = self.works + self.cpus.iter().map(CpuReport::accesses).sum::<u64>();
        if let Some(without) = self.watchdog.as_mut()?.look(steps) {
            return Some(Next::Stall(without));
        }
        let next = key(clock_of(self.now) + BETWEEN_LOOKS, u16::MAX).min(self.limit);
        match &mut self.watched {
            Some(run) => run.last = next,
            None => self.last = next,
        }
        None
    }

    /// Notes that the run makes progress.
    pub(crate) fn progress(&mut self) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.progress();
        }
    }

    /// Returns the fault that is due on the running CPU.
    fn take_due(&mut self) -> Option<Fault> {
        let cpu = self.cpu();
        let accesses = self.accesses(cpu);
        self.watched.as_mut()?.take_due(cpu, accesses)
    }

    /// Stops the running CPU for ever and runs the earliest ready CPU.
    fn stop(&mut self) -> Next {
        let (cpu, clock) = (self.cpu(), self.clock());
        let access = self.accesses(cpu);
        if let Some(watched) = &mut self.watched {
            watched.stopped.push(Stopped { cpu, access, clock });
        }
        // It may have been about to wake them. A CPU that polls sees the last store in any case.
        self.wake_if(|_| true);
        self.end()
    }

    /// Notes that the handler of an interrupt on the running CPU has returned.
    pub(crate) fn end_handler(&mut self) {
        let cpu = self.cpu();
        if let Some(watched) = &mut self.watched {
            watched.end_handler(cpu);
        }
    }

    /// Returns the number of accesses of a CPU.
    pub(crate) fn accesses(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu.index()].accesses()
    }

    /// Parks the running CPU on a word and runs the earliest ready CPU.
    ///
    /// The answer may be to run the same CPU: it returns from the wait then.
    pub(crate) fn park(&mut self, address: usize, attempt: u32) -> Next {
        if self.now > self.last {
            if let Some(over) = self.over() {
                return over;
            }
            match self.take_due() {
                Some(Fault::Stop) => return self.stop(),
                Some(Fault::Interrupt) => return Next::Interrupt,
                None => {}
            }
        }
        let line = self.region.line(address);
        self.note(PARK, self.cpu(), line);
        self.parked.push(Parked {
            address,
            line,
            key: self.now,
            attempt,
        });
        let (cpu, clock) = (self.cpu(), self.clock());
        self.cost.park(Park {
            cpu,
            line,
            since: clock,
            attempt,
        });
        self.with_cores(|queues, ready, _| queues.parks(ready, cpu, clock));
        self.take_next()
    }

    /// Holds the running CPU until all CPUs are here that have neither ended nor stood aside. Runs the earliest ready
    /// one.
    pub(crate) fn barrier(&mut self) -> Next {
        debug_assert!(
            !self.aside[self.cpu().index()],
            "a CPU that stands aside is at a barrier"
        );
        if self.now > self.last
            && let Some(over) = self.over()
        {
            return over;
        }
        self.barrier.push(self.now);
        self.leave_core();
        self.open_barrier();
        self.take_next()
    }

    /// From now on, barriers do not wait for the running CPU.
    pub(crate) fn stand_aside(&mut self) {
        let cpu = self.cpu().index();
        if !core::mem::replace(&mut self.aside[cpu], true) {
            self.alive -= 1;
            self.open_barrier();
            // The running CPU continues, and must not run past those that leave the barrier.
            self.horizon = self.last.min(self.ready.first());
        }
    }

    /// Lets the running CPU keep its core, or no longer, if CPUs share cores.
    pub(crate) fn keep_core(&mut self, keeps: bool) {
        let (cpu, clock) = (self.cpu(), self.clock());
        self.with_cores(|queues, _, _| queues.pins(cpu, clock, keeps));
    }

    /// Lets the CPUs at the barrier continue, all at the running CPU's time, if all CPUs are there.
    fn open_barrier(&mut self) {
        if self.barrier.len() < self.alive {
            return;
        }
        // The others came before: the running CPU had the smallest clock of all that could run.
        let now = self.clock();
        for held in core::mem::take(&mut self.barrier) {
            let cpu = cpu_of(held);
            let arrives = self.with_cores(|queues, ready, _| queues.arrives(ready, cpu, now));
            if arrives.is_none() {
                self.ready.insert(key(now, cpu.0));
            }
        }
    }

    /// Removes the running CPU from its core, if CPUs share cores.
    fn leave_core(&mut self) {
        let (cpu, clock) = (self.cpu(), self.clock());
        self.with_cores(|queues, ready, reports| queues.leaves(ready, reports, cpu, clock));
    }

    /// Calls `then` if CPUs share cores.
    fn with_cores<T>(
        &mut self,
        then: impl FnOnce(&mut RunQueues, &mut Ready, &mut [CpuReport]) -> T,
    ) -> Option<T> {
        let queues = self.watched.as_mut()?.queues.as_mut()?;
        Some(then(queues, &mut self.ready, &mut self.cpus))
    }

    /// Ends the running CPU and runs the earliest ready CPU.
    pub(crate) fn end(&mut self) -> Next {
        let cpu = self.cpu();
        self.cpus[cpu.index()].cycles = self.clock();
        self.cost.end(cpu);
        self.alive -= usize::from(!self.aside[cpu.index()]);
        self.leave_core();
        self.open_barrier();
        self.take_next()
    }

    /// Runs the first CPU.
    pub(crate) fn begin(&mut self) -> Next {
        if self.with_cores(|_, _, _| ()).is_some() {
            return self.take_next_on_cores(self.ready.first());
        }
        match self.ready.remove_first() {
            Some(first) => {
                self.now = first;
                self.arrive(first)
            }
            None => Next::Nobody,
        }
    }

    fn take_next(&mut self) -> Next {
        let from = self.now;
        if self.watched.is_some() {
            return self.take_next_on_cores(from);
        }
        match self.ready.remove_first() {
            Some(next) => {
                self.now = next;
                self.arrive(from)
            }
            None => Next::Nobody,
        }
    }

    /// Runs the earliest ready CPU of a watched run, when it is on its core.
    #[cold]
    fn take_next_on_cores(&mut self, from: u64) -> Next {
        loop {
            if self.ready.first() == Ready::NONE {
                self.poll();
            }
            let Some(next) = self.ready.remove_first() else {
                return Next::Nobody;
            };
            let (cpu, clock) = (cpu_of(next), clock_of(next));
            let runs =
                self.with_cores(|queues, ready, reports| queues.runs(ready, reports, cpu, clock));
            if runs.unwrap_or(true) {
                self.now = next;
                return self.arrive(from);
            }
            // CPUs that spin for ever use up slices without an access.
            self.now = next;
            if let Some(over) = self.over() {
                return over;
            }
        }
    }

    /// Lets all waiters look again if a CPU was stopped: one that waits for a bounded time stops waiting then.
    #[cold]
    fn poll(&mut self) {
        let polls = self.watched.as_ref().map_or(0, |run| run.polls());
        if self.parked.iter().any(|parked| parked.attempt < polls) {
            self.wake_if(|_| true);
        }
    }

    #[inline]
    fn arrive(&mut self, from: u64) -> Next {
        self.switches += u64::from(cpu_of(from) != self.cpu());
        self.horizon = self.last.min(self.ready.first());
        Next::Run(self.cpu())
    }

    /// Makes all waiters of a word ready. Returns `true` if the engine must switch.
    #[inline]
    pub(crate) fn wake(&mut self, address: usize) -> bool {
        if !self.parked.is_empty() {
            self.wake_if(|parked| parked.address == address);
        }
        self.must_switch()
    }

    #[inline(never)]
    fn wake_if(&mut self, is_woken: impl Fn(&Parked) -> bool) {
        // The waker's last access is the change that the waiters wait for. They see it from the moment when it took
        // effect, not from the moment when the waker continued. Otherwise a waker that takes a lock again immediately
        // would always win.
        let waker = self.cpu();
        let visible = self.effects[waker.index()];
        // Moved out first, because the loop needs the rest of `self`. The order of the remaining waiters is kept: it
        // depends on the events alone.
        let woken = self.parked.extract_if(.., |parked| is_woken(parked));
        let woken: Vec<Parked> = woken.collect();
        for Parked {
            line, key: since, ..
        } in woken
        {
            let cpu = cpu_of(since);
            self.note(WAKE, cpu, line);
            let since = clock_of(since);
            let wake = Wake {
                cpu,
                waker,
                line,
                since,
                visible,
            };
            let clock = since.max(self.cost.wake(wake)).min(2 * LONGEST);
            let report = &mut self.cpus[cpu.index()];
            report.parks += 1;
            report.parked_cycles += clock - since;
            let wakes = self.with_cores(|queues, ready, _| queues.wakes(ready, cpu, clock));
            if wakes.is_none() {
                let ready = key(clock, cpu.0);
                self.ready.insert(ready);
                self.horizon = self.horizon.min(ready);
            }
        }
    }

    /// Records that a CPU was poked. Ignores numbers that are not CPUs.
    pub(crate) fn poke(&mut self, cpu: CpuId) {
        if let Some(poked) = self.poked.get_mut(cpu.index()) {
            *poked = true;
            self.cpus[cpu.index()].pokes += 1;
        }
    }

    /// Returns `true` if a CPU was poked since the last call.
    pub(crate) fn take_poke(&mut self, cpu: CpuId) -> bool {
        self.poked.get_mut(cpu.index()).is_some_and(core::mem::take)
    }

    /// Makes every access request a switch from now on.
    pub(crate) fn close(&mut self) {
        self.last = 0;
        self.limit = 0;
        self.watched = None;
        self.horizon = 0;
        // The key of CPU 0 at time zero does not exceed the horizon.
        self.now = self.now.max(key(1, 0));
    }

    /// Returns the waiting CPUs and their words, by CPU number.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let watched = self.watched.as_ref();
        let entry = |parked: &Parked| Waiting {
            cpu: cpu_of(parked.key),
            line: parked.line,
            since: clock_of(parked.key),
            writer: watched.and_then(|run| run.writer(parked.address)),
        };
        let at_barrier = |held: &u64| Waiting {
            cpu: cpu_of(*held),
            line: Line::BARRIER,
            since: clock_of(*held),
            writer: None,
        };
        let parked = self.parked.iter().map(entry);
        let mut waiting: Vec<Waiting> = parked.chain(self.barrier.iter().map(at_barrier)).collect();
        waiting.sort_by_key(|waiting| waiting.cpu);
        waiting
    }

    /// Returns the CPUs that can run and the words that they touched last, by CPU number. Empty if the run does not
    /// record writers.
    pub(crate) fn running(&self) -> Vec<Running> {
        let Some(watched) = &self.watched else {
            return Vec::new();
        };
        let held = self.parked.iter().map(|parked| parked.key);
        let held: Vec<u16> = (held.chain(self.barrier.iter().copied()))
            .map(|key| cpu_of(key).0)
            .chain(watched.stopped.iter().map(|stopped| stopped.cpu.0))
            .collect();
        let is_ready = |cpu: &u16| !held.contains(cpu) && self.cpus[usize::from(*cpu)].cycles == 0;
        let of = |cpu| {
            let Touched { address, at, .. } = watched.touched(CpuId(cpu))?;
            Some(Running {
                cpu: CpuId(cpu),
                line: self.region.line(address),
                at,
                writer: watched.writer(address),
            })
        };
        let cpus = 0..self.cpus.len() as u16;
        cpus.filter(is_ready).filter_map(of).collect()
    }

    /// Returns the last access of the running CPU, if the run records writers.
    pub(crate) fn last_access(&self) -> Option<LastAccess> {
        let cpu = self.cpu();
        let own = self.watched.as_ref()?.touched(cpu)?;
        Some(LastAccess {
            line: self.region.line(own.address),
            at: own.at,
            before: own.before.filter(|write| write.cpu != cpu),
        })
    }

    /// Returns the CPUs that were stopped, by CPU number.
    pub(crate) fn stopped(&self) -> Vec<Stopped> {
        let watched = self.watched.as_ref();
        let mut stopped = watched.map_or(Vec::new(), |run| run.stopped.clone());
        stopped.sort_by_key(|stopped| stopped.cpu);
        stopped
    }

    /// Returns the counters: of each CPU, of switches, and the hash.
    pub(crate) fn into_counts(self) -> (Vec<CpuReport>, u64, u64) {
        (self.cpus, self.switches, self.hash)
    }
}
