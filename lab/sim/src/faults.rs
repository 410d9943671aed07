//! What is watched in a run: CPUs that are stopped or interrupted at chosen accesses, writers, shared cores.
//!
//! A lock holder that never runs again, or a handler that interrupts an operation, must be tested at every access of an
//! operation. A plan names CPUs and accesses; the schedule asks at each access what is due.
//!
//! # Invariants
//! 1. A run without a plan does not create [`Watched`]. The path of an access then does not know of this module: in a
//!    watched run every access exceeds the schedule's horizon, and the slow path asks.
//! 2. A fault happens once, at the access that it names, or at the first later one at which it can happen.
//! 3. While the handler of an interrupt runs on a CPU, that CPU is not interrupted again.

use std::collections::HashMap;

use everybuddy::CpuId;

use crate::cores::{Cores, RunQueues};
use crate::cost::AccessKind;
use crate::report::{Stopped, Write};

/// What happens to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never runs again.
    Stop,
    /// It runs the handler, then continues.
    Interrupt,
}

/// A fault, and where it happens.
#[derive(Clone, Copy, Debug)]
struct Planned {
    cpu: CpuId,
    access: u64,
    fault: Fault,
}

/// The default number of times that a wait polls in vain.
pub(crate) const DEFAULT_POLLS: u32 = 1 << 17;

/// The faults of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    planned: Vec<Planned>,
    /// How often a wait polls in vain after a CPU was stopped.
    pub(crate) polls: u32,
    /// Whether writers are recorded although nothing is planned.
    pub(crate) records: bool,
    /// Whether CPUs poll when all wait, although none was stopped.
    pub(crate) bounds_waits: bool,
    /// The cores that CPUs share.
    pub(crate) cores: Option<Cores>,
}

impl Plan {
    /// A plan of nothing.
    pub(crate) const NOTHING: Self = Self {
        planned: Vec::new(),
        polls: DEFAULT_POLLS,
        records: false,
        bounds_waits: false,
        cores: None,
    };

    /// Adds a fault.
    pub(crate) fn add(&mut self, cpu: CpuId, access: u64, fault: Fault) {
        self.planned.push(Planned { cpu, access, fault });
    }

    /// Returns the state of a run of `cpus` CPUs with this plan. Returns `None` if there is nothing to watch.
    pub(crate) fn watch(&self, cpus: u16, last: u64) -> Option<Box<Watched>> {
        let watches = self.records || self.bounds_waits || self.cores.is_some();
        if self.planned.is_empty() && !watches {
            return None;
        }
        let mut due = vec![Vec::new(); usize::from(cpus)];
        for Planned { cpu, access, fault } in &self.planned {
            if let Some(due) = due.get_mut(cpu.index()) {
                due.push((*access, *fault));
            }
        }
        // The next one is the last of the vector.
        for due in &mut due {
            due.reverse();
            due.sort_by_key(|(access, _)| core::cmp::Reverse(*access));
        }
        Some(Box::new(Watched {
            last,
            due,
            in_handler: vec![false; usize::from(cpus)],
            stopped: Vec::new(),
            polls: self.polls,
            bounds_waits: self.bounds_waits,
            queues: self.cores.as_ref().map(|cores| RunQueues::new(cores, cpus)),
            writers: HashMap::new(),
            touched: vec![None; usize::from(cpus)],
        }))
    }
}

/// The last access of a CPU.
#[derive(Clone, Copy)]
pub(crate) struct Touched {
    pub(crate) address: usize,
    /// Its clock after that.
    pub(crate) at: u64,
    /// The last write of the word before this access.
    pub(crate) before: Option<Write>,
}

/// The state of a watched run.
pub(crate) struct Watched {
    /// The largest key within the limit.
    pub(crate) last: u64,
    due: Vec<Vec<(u64, Fault)>>,
    in_handler: Vec<bool>,
    /// The CPUs that were stopped, in this order.
    pub(crate) stopped: Vec<Stopped>,
    polls: u32,
    bounds_waits: bool,
    /// The cores, if CPUs share them.
    pub(crate) queues: Option<RunQueues>,
    /// For each word, its last write.
    writers: HashMap<usize, Write>,
    /// For each CPU, its last access.
    touched: Vec<Option<Touched>>,
}

impl Watched {
    /// Returns the fault that is due on `cpu`, which has made `accesses` accesses.
    pub(crate) fn take_due(&mut self, cpu: CpuId, accesses: u64) -> Option<Fault> {
        let due = &mut self.due[cpu.index()];
        let (access, fault) = *due.last()?;
        let waits = fault == Fault::Interrupt && self.in_handler[cpu.index()];
        if access > accesses || waits {
            return None;
        }
        due.pop();
        self.in_handler[cpu.index()] |= fault == Fault::Interrupt;
        Some(fault)
    }

    /// Notes that the handler on `cpu` has returned.
    pub(crate) fn end_handler(&mut self, cpu: CpuId) {
        self.in_handler[cpu.index()] = false;
    }

    /// Records the CPU that touched a word, and that it wrote it if it did. `at` is its clock after that.
    pub(crate) fn record(&mut self, cpu: CpuId, kind: AccessKind, address: usize, at: u64) {
        let writes = kind != AccessKind::Load && address & UNCHANGED == 0;
        let address = address & !UNCHANGED;
        let before = if writes {
            self.writers.insert(address, Write { cpu, at })
        } else {
            self.writers.get(&address).copied()
        };
        self.touched[cpu.index()] = Some(Touched {
            address,
            at,
            before,
        });
    }

    /// Returns the CPU that wrote a word last, if any did.
    pub(crate) fn writer(&self, address: usize) -> Option<CpuId> {
        self.writers.get(&address).map(|write| write.cpu)
    }

    /// Returns the last access of a CPU.
    pub(crate) fn touched(&self, cpu: CpuId) -> Option<Touched> {
        self.touched[cpu.index()]
    }

    /// Returns how often a wait polls that no CPU ends. Only a CPU that was stopped can be the one that would have, or
    /// one that waits itself, where waits are bounded.
    pub(crate) fn polls(&self) -> u32 {
        match self.stopped[..] {
            [] if !self.bounds_waits => 0,
            _ => self.polls,
        }
    }
}

/// In the address of an access: it changed nothing. Words that are exchanged are aligned to four bytes.
pub(crate) const UNCHANGED: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_due_in_order_and_once() {
        let mut plan = Plan::NOTHING;
        assert!(plan.watch(2, 9).is_none());
        plan.add(CpuId(1), 7, Fault::Stop);
        plan.add(CpuId(1), 3, Fault::Interrupt);
        plan.add(CpuId(1), 3, Fault::Interrupt);
        plan.add(CpuId(5), 1, Fault::Stop);
        let mut watched = plan.watch(2, 9).unwrap();
        assert_eq!(watched.take_due(CpuId(0), 10), None);
        assert_eq!(watched.take_due(CpuId(1), 2), None);
        assert_eq!(watched.take_due(CpuId(1), 3), Some(Fault::Interrupt));
        assert_eq!(watched.take_due(CpuId(1), 4), None, "the handler runs");
        watched.end_handler(CpuId(1));
        assert_eq!(watched.take_due(CpuId(1), 5), Some(Fault::Interrupt));
        assert_eq!(watched.take_due(CpuId(1), 6), None);
        assert_eq!(watched.take_due(CpuId(1), 8), Some(Fault::Stop));
        assert_eq!(watched.take_due(CpuId(1), 9), None);
    }
}
