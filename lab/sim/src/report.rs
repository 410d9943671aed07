//! The results of a run, or the reason why it did not finish.
//!
//! Reports of two runs are compared with `==`, which is what "deterministic" means here. A run that hangs must report
//! where, instead of hanging the host.
//!
//! # Invariants
//! Nothing in a report or an error depends on the host, its clock or its addresses.

use core::fmt;
use std::io::ErrorKind;

use everybuddy::CpuId;

use crate::cost::AccessKind;
use crate::region::Line;

/// The counters of one virtual CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuReport {
    /// Its clock when its closure returned or it was stopped, in cycles: work, accesses and waiting.
    pub cycles: u64,
    /// Loads from shared memory, including the check of a word before a wait.
    pub loads: u64,
    /// Stores to shared memory.
    pub stores: u64,
    /// Atomic read-modify-writes of shared memory.
    pub read_modify_writes: u64,
    /// The number of times that it waited and was woken.
    pub parks: u64,
    /// Total cycles between parking and running again; part of `cycles`.
    pub parked_cycles: u64,
    /// How often it lost its core to another CPU, where CPUs share [cores](crate::Cores).
    pub preemptions: u64,
    /// Total cycles in the queue of its core, and switches to it; part of `cycles`.
    pub queued_cycles: u64,
    /// The number of times that it was asked to call into the allocator soon.
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

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<T = ()> {
    /// The counters of each CPU, by number.
    pub cpus: Vec<CpuReport>,
    /// The results of the closures that returned, by the number of their CPU. A CPU that was stopped has none.
    pub results: Vec<T>,
    /// The CPUs that were [stopped](crate::Machine::stop), by number.
    pub stopped: Vec<Stopped>,
    /// The number of switches between virtual CPUs.
    pub switches: u64,
    /// A hash of all events in order: each access (CPU, kind, line), each parking and each wake-up. Two runs with the
    /// same hash had the same events. Not a cryptographic hash.
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

/// A waiting CPU and the word it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The CPU.
    pub cpu: CpuId,
    /// The line of the word that it waits for.
    pub line: Line,
    /// Its clock, in cycles.
    pub since: u64,
    /// The CPU that wrote the word last: usually the holder of the lock. Known if the run [records
    /// writers](crate::Machine::record_writers).
    pub writer: Option<CpuId>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, since) = (self.cpu.0, self.since);
        write!(f, "CPU {cpu} waits for {} since cycle {since}", self.line)?;
        written_by(f, self.writer)
    }
}

/// A CPU that can run, and the word that it touched last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The CPU.
    pub cpu: CpuId,
    /// The line of the word.
    pub line: Line,
    /// Its clock after the access, in cycles.
    pub at: u64,
    /// The CPU that wrote the word last, if any did.
    pub writer: Option<CpuId>,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, line, at) = (self.cpu.0, self.line, self.at);
        write!(f, "CPU {cpu} runs and last accessed {line} in cycle {at}")?;
        written_by(f, self.writer)
    }
}

/// Writes which CPU wrote a word last, if any did.
fn written_by(f: &mut fmt::Formatter<'_>, writer: Option<CpuId>) -> fmt::Result {
    match writer {
        Some(writer) => write!(f, ", last written by CPU {}", writer.0),
        None => Ok(()),
    }
}

/// A write of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The CPU that made it.
    pub cpu: CpuId,
    /// The clock of that CPU after the write, in cycles.
    pub at: u64,
}

/// The last access of a CPU. After an acquisition or a release of a lock, it is an access to a word of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastAccess {
    /// The line of the word.
    pub line: Line,
    /// The clock of the CPU after the access, in cycles.
    pub at: u64,
    /// The last write of the word before that, if another CPU made it: after an acquisition, the release before it.
    pub before: Option<Write>,
}

/// A CPU that was [stopped](crate::Machine::stop).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The CPU.
    pub cpu: CpuId,
    /// The number of accesses that it made.
    pub access: u64,
    /// Its clock, in cycles.
    pub clock: u64,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, access, clock } = self;
        write!(
            f,
            "CPU {} was stopped at access {access}, in cycle {clock}",
            cpu.0
        )
    }
}

/// Writes a list of sentences.
fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let separator = if index > 0 { "; " } else { "" };
        write!(f, "{separator}{item}")?;
    }
    Ok(())
}

/// The reason why a run did not finish. The values owned by the closures were dropped; their changes to shared memory
/// remain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimError {
    /// Every CPU that has not ended waits for another. The waiters may be waiting for a CPU that ended without
    /// [`park`](everybuddy::FrameAllocator::park).
    Deadlock {
        /// The waiting CPUs, by number.
        waiting: Vec<Waiting>,
    },
    /// CPUs were [stopped](crate::Machine::stop), and every other CPU that has not ended waits, and has
    /// [polled](crate::Machine::polls) in vain.
    Hang {
        /// The stopped CPUs, by number.
        stopped: Vec<Stopped>,
        /// The waiting CPUs, by number.
        waiting: Vec<Waiting>,
    },
    /// A CPU's clock exceeded the limit.
    TimeLimit {
        /// The CPU. The clocks of all other CPUs that can run are at least as large.
        cpu: CpuId,
        /// The limit, in cycles.
        limit: u64,
        /// The CPUs that wait meanwhile, by number.
        waiting: Vec<Waiting>,
        /// The stopped CPUs, by number.
        stopped: Vec<Stopped>,
    },
    /// The CPUs have made more steps without [progress](crate::SimCpu::progress) than the
    /// [patience](crate::Machine::patience) of the machine.
    Stall {
        /// The steps: accesses, and times that a CPU worked.
        steps: u64,
        /// The CPUs that wait, by number.
        waiting: Vec<Waiting>,
        /// The CPUs that can run, by number, if the run [records writers](crate::Machine::record_writers).
        running: Vec<Running>,
        /// The stopped CPUs, by number.
        stopped: Vec<Stopped>,
    },
    /// The host could not allocate a virtual CPU's stack. Nothing was run.
    Stack(ErrorKind),
    /// The caller is a virtual CPU of a run on this thread. Nothing was run.
    Nested,
    /// The caller is a destructor on a thread that unwinds from a panic, where virtual CPUs cannot switch. Nothing
    /// was run.
    Unwinding,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock { waiting } => {
                write!(f, "deadlock: ")?;
                list(f, waiting)
            }
            Self::Hang { stopped, waiting } => {
                list(f, stopped)?;
                write!(f, "; then the others hung: ")?;
                list(f, waiting)
            }
            Self::TimeLimit {
                cpu,
                limit,
                waiting,
                stopped,
            } => {
                write!(f, "CPU {} exceeded the limit of {limit} cycles", cpu.0)?;
                for stopped in stopped {
                    write!(f, "; {stopped}")?;
                }
                for waiting in waiting {
                    write!(f, "; {waiting}")?;
                }
                Ok(())
            }
            Self::Stall {
                steps,
                waiting,
                running,
                stopped,
            } => {
                write!(f, "the CPUs made {steps} steps without progress: ")?;
                let lines = running.iter().map(ToString::to_string);
                let lines = lines.chain(waiting.iter().map(ToString::to_string));
                let lines = lines.chain(stopped.iter().map(ToString::to_string));
                list(f, &lines.collect::<Vec<_>>())
            }
            Self::Stack(kind) => write!(f, "failed to allocate the stack of a virtual CPU: {kind}"),
            Self::Nested => write!(
                f,
                "a virtual CPU cannot run a machine: call `run` outside of a run"
            ),
            Self::Unwinding => write!(f, "a thread that unwinds from a panic cannot run a machine"),
        }
    }
}

impl core::error::Error for SimError {}
