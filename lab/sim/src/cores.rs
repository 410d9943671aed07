//! Cores with run queues: more virtual CPUs than run at the same time.
//!
//! A hypervisor preempts a virtual CPU wherever it is, also while it holds a lock, and those that wait for the lock
//! wait until it runs again. Here each virtual CPU belongs to a core, the cores take turns among their CPUs, and a
//! slice ends to the cycle: what remains of an access or of work is done in the next slice. A kernel disables
//! preemption while it holds a spin lock or waits for one: a CPU that has done so keeps its core until it enables it.
//!
//! # Invariants
//! 1. A virtual CPU is on its core, in the queue of its core, or absent: it is at the barrier, or has ended. A
//!    core has at most one CPU on it, and has one if its queue is not empty.
//! 2. The queue of ready CPUs holds one [`Entry`] at most for each CPU: it runs, its slice ends, or it arrives. A CPU
//!    on a core has one, except a CPU that spins while no other CPU wants its core or may have it.
//!
//! # Not modelled
//! CPUs do not move to other cores. Switches disturb no cache, except by the cost that is given.

use std::collections::VecDeque;

use everybuddy::CpuId;

use crate::ready::{LONGEST, Ready, key};
use crate::report::CpuReport;

/// The cores on which the virtual CPUs of a machine run; see [`Machine::cores`](crate::Machine::cores).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    count: u16,
    slice: u64,
    switch: u64,
}

impl Cores {
    /// Creates `count` cores, at least one. CPU `c` runs on core `c % count`, where
    /// [`Hardware::place`](crate::Hardware::place) puts it too. Slices are a million cycles long, a switch costs
    /// nothing, and CPUs that wait spin.
    pub const fn new(count: u16) -> Self {
        Self {
            count: if count == 0 { 1 } else { count },
            slice: 1_000_000,
            switch: 0,
        }
    }

    /// Sets the length of a slice, at least one cycle. When it ends, the next CPU in the queue of the core runs. If
    /// there is none, the slice begins anew.
    #[must_use]
    pub fn slice(self, cycles: u64) -> Self {
        let slice = cycles.clamp(1, LONGEST);
        Self { slice, ..self }
    }

    /// Sets what a core takes to switch to another CPU, in cycles.
    #[must_use]
    pub fn switch_cost(self, cycles: u64) -> Self {
        let switch = cycles.min(LONGEST);
        Self { switch, ..self }
    }
}

/// What the entry of a CPU among the ready ones means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// It has none.
    Absent,
    /// It continues.
    Runs,
    /// Its slice ends.
    SliceEnds,
    /// It joins the queue of its core.
    Arrives,
}

/// A virtual CPU.
struct Virtual {
    core: usize,
    entry: Entry,
    /// Cycles that were charged and not yet spent when its slice ended.
    debt: u64,
    /// Whether it spins.
    spins: bool,
    /// Whether it has disabled preemption, and whether it would have been preempted since.
    is_pinned: bool,
    is_overdue: bool,
    /// When it came to its core last, or was woken if that is later.
    earliest: u64,
    queued_since: u64,
}

/// A core.
#[derive(Default)]
struct Core {
    current: Option<u16>,
    /// The CPU that was on it last.
    last: Option<u16>,
    /// The end of the slice.
    ends: u64,
    queue: VecDeque<u16>,
}

/// The cores of a run.
pub(crate) struct RunQueues {
    slice: u64,
    switch: u64,
    cores: Vec<Core>,
    cpus: Vec<Virtual>,
}

impl RunQueues {
    /// Creates the cores of a run of `cpus` CPUs, which are absent.
    pub(crate) fn new(cores: &Cores, cpus: u16) -> Self {
        let virtual_cpu = |cpu| Virtual {
            core: usize::from(cpu % cores.count),
            entry: Entry::Absent,
            debt: 0,
            spins: false,
            is_pinned: false,
            is_overdue: false,
            earliest: 0,
            queued_since: 0,
        };
        Self {
            slice: cores.slice,
            switch: cores.switch,
            cores: (0..cores.count).map(|_| Core::default()).collect(),
            cpus: (0..cpus).map(virtual_cpu).collect(),
        }
    }

    fn enter(&mut self, ready: &mut Ready, cpu: u16, entry: Entry, at: u64) {
        let own = &mut self.cpus[usize::from(cpu)];
        own.entry = entry;
        ready.insert(key(at, cpu));
    }

    /// An absent CPU can run from `clock` on.
    pub(crate) fn arrives(&mut self, ready: &mut Ready, cpu: CpuId, clock: u64) {
        self.enter(ready, cpu.0, Entry::Arrives, clock);
    }

    /// The CPU on a core has used it until `clock`, or until its slice ended.
    pub(crate) fn continues(&mut self, ready: &mut Ready, cpu: CpuId, clock: u64) {
        let own = &mut self.cpus[cpu.index()];
        let ends = self.cores[own.core].ends;
        if clock < ends {
            self.enter(ready, cpu.0, Entry::Runs, clock);
        } else {
            own.debt = clock - ends;
            self.enter(ready, cpu.0, Entry::SliceEnds, ends);
        }
    }

    /// The CPU on a core ends, or waits for something other than a word.
    pub(crate) fn leaves(
        &mut self,
        ready: &mut Ready,
        reports: &mut [CpuReport],
        cpu: CpuId,
        clock: u64,
    ) {
        let core = self.cpus[cpu.index()].core;
        self.cores[core].current = None;
        self.start_next(ready, reports, core, clock);
    }

    /// The CPU on a core begins to wait for a word.
    pub(crate) fn parks(&mut self, ready: &mut Ready, cpu: CpuId, clock: u64) {
        let own = &mut self.cpus[cpu.index()];
        (own.spins, own.debt) = (true, 0);
        let core = own.core;
        let ends = self.cores[core].ends;
        if clock >= ends && self.is_wanted(core) {
            self.enter(ready, cpu.0, Entry::SliceEnds, ends);
        } else {
            self.spin(ready, core, clock);
        }
    }

    /// A CPU that waits for a word can run from `clock` on.
    pub(crate) fn wakes(&mut self, ready: &mut Ready, cpu: CpuId, clock: u64) {
        let own = &mut self.cpus[cpu.index()];
        own.spins = false;
        own.earliest = own.earliest.max(clock);
        let (core, clock) = (own.core, own.earliest);
        if self.cores[core].current != Some(cpu.0) {
            return;
        }
        match own.entry {
            Entry::Absent => self.renew(core, clock),
            _ => ready.remove(cpu),
        }
        self.continues(ready, cpu, clock);
    }

    /// The CPU on a core disables preemption, or enables it. If its slice ended meanwhile, it then ends now.
    pub(crate) fn pins(&mut self, cpu: CpuId, clock: u64, pins: bool) {
        let own = &mut self.cpus[cpu.index()];
        own.is_pinned = pins;
        if !pins && core::mem::take(&mut own.is_overdue) {
            self.cores[own.core].ends = clock;
        }
    }

    /// Handles the first entry, which was removed. Returns `true` if its CPU runs now.
    pub(crate) fn runs(
        &mut self,
        ready: &mut Ready,
        reports: &mut [CpuReport],
        cpu: CpuId,
        clock: u64,
    ) -> bool {
        let own = &mut self.cpus[cpu.index()];
        let core = own.core;
        match core::mem::replace(&mut own.entry, Entry::Absent) {
            Entry::Runs => return true,
            Entry::Arrives => self.queue(ready, reports, cpu, clock),
            _ if self.is_wanted(core) && !self.cpus[cpu.index()].is_pinned => {
                reports[cpu.index()].preemptions += 1;
                self.preempt(clock, core);
                self.start_next(ready, reports, core, clock);
            }
            _ => {
                let is_wanted = self.is_wanted(core);
                let own = &mut self.cpus[cpu.index()];
                own.is_overdue |= is_wanted;
                let (debt, spins) = (core::mem::take(&mut own.debt), own.spins);
                self.cores[core].ends += self.slice;
                if !spins {
                    self.continues(ready, cpu, clock + debt);
                }
            }
        }
        false
    }

    /// Returns `true` if another CPU may have the core when the slice ends.
    fn is_wanted(&self, core: usize) -> bool {
        !self.cores[core].queue.is_empty()
    }

    /// Begins slices until one ends after `clock`.
    fn renew(&mut self, core: usize, clock: u64) {
        let core = &mut self.cores[core];
        if clock >= core.ends {
            core.ends += ((clock - core.ends) / self.slice + 1) * self.slice;
        }
    }

    /// Lets the CPU on a core spin until its slice ends, or until it is woken if no other CPU wants the core.
    fn spin(&mut self, ready: &mut Ready, core: usize, clock: u64) {
        self.renew(core, clock);
        let Core { current, ends, .. } = self.cores[core];
        if let Some(cpu) = current
            && self.is_wanted(core)
        {
            self.enter(ready, cpu, Entry::SliceEnds, ends);
        }
    }

    /// Puts the CPU of a core back into its queue.
    fn preempt(&mut self, clock: u64, core: usize) {
        let core = &mut self.cores[core];
        let Some(cpu) = core.current.take() else {
            return;
        };
        self.cpus[usize::from(cpu)].queued_since = clock;
        core.queue.push_back(cpu);
    }

    /// A CPU arrives at its core.
    fn queue(&mut self, ready: &mut Ready, reports: &mut [CpuReport], cpu: CpuId, clock: u64) {
        let own = &mut self.cpus[cpu.index()];
        (own.queued_since, own.earliest) = (clock, clock);
        let core = own.core;
        let run_queue = &mut self.cores[core];
        run_queue.queue.push_back(cpu.0);
        let Some(current) = run_queue.current else {
            return self.start_next(ready, reports, core, clock);
        };
        if self.cpus[usize::from(current)].entry == Entry::Absent {
            self.spin(ready, core, clock);
        }
    }

    /// Gives a core to the next CPU of its queue, if there is one.
    fn start_next(
        &mut self,
        ready: &mut Ready,
        reports: &mut [CpuReport],
        core: usize,
        clock: u64,
    ) {
        let run_queue = &mut self.cores[core];
        let Some(cpu) = run_queue.queue.pop_front() else {
            return;
        };
        let switches = run_queue.last.is_some_and(|last| last != cpu);
        let begin = clock + if switches { self.switch } else { 0 };
        (run_queue.current, run_queue.last) = (Some(cpu), Some(cpu));
        run_queue.ends = begin + self.slice;
        let own = &mut self.cpus[usize::from(cpu)];
        reports[usize::from(cpu)].queued_cycles += begin - own.queued_since;
        let from = own.earliest.max(begin + core::mem::take(&mut own.debt));
        (own.earliest, own.is_overdue) = (begin, false);
        if own.spins {
            self.spin(ready, core, begin)
        } else {
            self.continues(ready, CpuId(cpu), from)
        }
    }
}
