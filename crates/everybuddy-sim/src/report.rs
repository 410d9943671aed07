//! What came out of a run, or why it did not end.
//!
//! Why it exists: reports of two runs are compared with `==`, which is what "deterministic" means here; a
//! run that hangs must say where, not hang the host.
//!
//! Invariant: nothing in a report or an error depends on the host, its time or its addresses.

use core::fmt;
use std::io::ErrorKind;

use everybuddy::CpuId;

use crate::cost::AccessKind;
use crate::region::Line;

/// What one virtual CPU did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuReport {
    /// Its clock when its closure returned, in cycles: work, accesses and waiting.
    pub cycles: u64,
    /// Loads from shared memory; looks at a word before a wait are among them.
    pub loads: u64,
    /// Stores to shared memory.
    pub stores: u64,
    /// Atomic read-modify-writes of shared memory.
    pub read_modify_writes: u64,
    /// Times that it waited and was woken.
    pub parks: u64,
    /// Cycles between parking and running again, summed; part of `cycles`.
    pub parked_cycles: u64,
    /// Times that it was asked to call into the allocator soon.
    pub pokes: u64,
}

impl CpuReport {
    /// Returns the accesses to shared memory of all kinds.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores + self.read_modify_writes
    }

    #[inline]
    pub(crate) fn count(&mut self, kind: AccessKind) {
        match kind {
            AccessKind::Load => self.loads += 1,
            AccessKind::Store => self.stores += 1,
            AccessKind::ReadModifyWrite => self.read_modify_writes += 1,
        }
    }
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<T = ()> {
    /// What each CPU did, by number.
    pub cpus: Vec<CpuReport>,
    /// What each CPU's closure returned, by number.
    pub results: Vec<T>,
    /// How often the host went from one virtual CPU to another.
    pub switches: u64,
    /// A hash of all events in their order: each access (CPU, kind, line), each parking and each wake-up.
    /// Two runs with the same hash went the same way. Not a cryptographic hash.
    pub hash: u64,
}

impl<T> Report<T> {
    /// Returns the clock of the CPU that ended last, in cycles; zero without CPUs. O(CPUs).
    pub fn cycles(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.cycles).max().unwrap_or(0)
    }

    /// Returns the accesses of all CPUs. O(CPUs).
    pub fn accesses(&self) -> u64 {
        self.cpus.iter().map(CpuReport::accesses).sum()
    }
}

/// A CPU that waits, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The CPU.
    pub cpu: CpuId,
    /// The line of the word that it waits for.
    pub line: Line,
    /// Its clock, in cycles.
    pub since: u64,
}

/// Why a run did not end. What the closures held was dropped; what they left in shared memory stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimError {
    /// Every CPU that has not ended waits for another. A CPU that ended without
    /// [`park`](everybuddy::FrameAllocator::park) can be the one that they wait for.
    Deadlock {
        /// Who waits for what, by CPU number.
        waiting: Vec<Waiting>,
    },
    /// A CPU's clock went beyond the limit.
    TimeLimit {
        /// The CPU. All others that can run are at least as far.
        cpu: CpuId,
        /// The limit, in cycles.
        limit: u64,
    },
    /// The host gave no memory for a virtual CPU's stack. Nothing was run.
    Stack(ErrorKind),
    /// The caller is a virtual CPU of a run on this thread. Nothing was run.
    Nested,
    /// The caller is a destructor on a thread that unwinds from a panic, where virtual CPUs can't switch.
    /// Nothing was run.
    Unwinding,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock { waiting } => {
                write!(f, "deadlock: ")?;
                for (index, Waiting { cpu, line, since }) in waiting.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(
                        f,
                        "{comma}CPU {} waits for {line} since cycle {since}",
                        cpu.0
                    )?;
                }
                Ok(())
            }
            Self::TimeLimit { cpu, limit } => {
                write!(f, "CPU {} went beyond the limit of {limit} cycles", cpu.0)
            }
            Self::Stack(kind) => write!(f, "no stack for a virtual CPU: {kind}"),
            Self::Nested => write!(f, "a virtual CPU can't run a machine"),
            Self::Unwinding => write!(f, "a thread that unwinds from a panic can't run a machine"),
        }
    }
}

impl core::error::Error for SimError {}
