//! The cost of an access.
//!
//! The engine decides which CPU runs, never how long an operation takes. A model of caches and coherence replaces
//! [`Flat`] by implementing [`CostModel`]; nothing else changes.
//!
//! # Invariants
//! A cost model sees the accesses in the order of virtual time, and decides only their duration. Values are read and
//! written before the model is consulted.
//!
//! # Not modelled
//! [`Flat`] models nothing. It ignores cache lines and which CPU touched them last.

use everybuddy::CpuId;

use crate::region::Line;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load.
    Load,
    /// A store.
    Store,
    /// An atomic read-modify-write. A failed compare-and-exchange counts too.
    ReadModifyWrite,
}

/// An access to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The kind of the access.
    pub kind: AccessKind,
    /// The cache line of the word.
    pub line: Line,
    /// The CPU that makes the access.
    pub cpu: CpuId,
    /// The virtual time at which the access begins, in cycles from the start of the run. It never decreases from one
    /// access to the next, except in destructors that run while a panic unwinds.
    pub now: u64,
}

/// What an access costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The cycles until the CPU continues. Of accesses in sequence that cost nothing, each 16th costs a cycle: time
    /// must pass in a loop that only touches memory, or the time limit could not end it.
    pub cycles: u64,
    /// The cycles until CPUs that wait for the word see a store.
    pub visible: u64,
}

impl Charge {
    /// Creates the charge of an access whose effect is visible when it begins.
    #[inline]
    pub const fn at_once(cycles: u64) -> Self {
        Self { cycles, visible: 0 }
    }
}

/// A CPU that is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The CPU.
    pub cpu: CpuId,
    /// The CPU that wakes it.
    pub waker: CpuId,
    /// The line of the word that it waits for.
    pub line: Line,
    /// The virtual time at which it began to wait.
    pub since: u64,
    /// The virtual time at which the waker's last store is visible.
    pub visible: u64,
}

/// A CPU that begins to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Park {
    /// The CPU.
    pub cpu: CpuId,
    /// The line of the word that it waits for, which it has just loaded.
    pub line: Line,
    /// The virtual time.
    pub since: u64,
    /// How often it has waited before for the same thing, such as a lock.
    pub attempt: u32,
}

/// The instructions of a path through an allocator, divided among its accesses to shared memory.
///
/// The simulated allocators run natively, and only their accesses are seen. Each access therefore stands for the
/// instructions around it. A call that leaves the shortest path, such as one that misses a list, makes further
/// accesses. These stand for another number. By default the accesses stand for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The accesses of the shortest path.
    pub shortest: u32,
    /// Thousandths of an instruction for each of these.
    pub per_access: u32,
    /// Thousandths of an instruction for each access after them.
    pub per_further: u32,
}

impl Instructions {
    /// The same number for each access, in thousandths of an instruction.
    pub const fn each(per_access: u32) -> Self {
        Self {
            shortest: 0,
            per_access,
            per_further: per_access,
        }
    }

    /// Returns the instructions of the next access, in thousandths.
    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        if self.shortest == 0 {
            return self.per_further;
        }
        self.shortest -= 1;
        self.per_access
    }
}

/// The durations of operations, in virtual cycles.
///
/// A model that counts the accesses to each line:
///
/// ```
/// use everybuddy_sim::{Access, Charge, CostModel, Line, Wake};
/// use std::collections::HashMap;
///
/// #[derive(Default)]
/// struct Hot(HashMap<Line, u64>);
///
/// impl CostModel for Hot {
///     fn reset(&mut self, _cpus: u16) {
///         self.0.clear();
///     }
///     fn access(&mut self, access: Access) -> Charge {
///         *self.0.entry(access.line).or_default() += 1;
///         Charge::at_once(5)
///     }
///     fn wake(&mut self, wake: Wake) -> u64 {
///         wake.visible + 100
///     }
/// }
/// ```
pub trait CostModel {
    /// Resets the model: a run with `cpus` CPUs begins.
    fn reset(&mut self, cpus: u16);

    /// Returns what an access costs. This is called once per access, so it must be fast, and it must not touch a
    /// simulated cell.
    fn access(&mut self, access: Access) -> Charge;

    /// Notes that a CPU begins to wait.
    fn park(&mut self, park: Park) {
        let _ = park;
    }

    /// Returns the virtual time at which a CPU that waits runs again. It does not run before it began to wait.
    fn wake(&mut self, wake: Wake) -> u64;

    /// Notes that the closure of a CPU has returned.
    fn end(&mut self, cpu: CpuId) {
        let _ = cpu;
    }

    /// Notes that counting begins: statistics of what came before are not wanted.
    fn mark(&mut self) {}

    /// Notes that a CPU begins to wait for a word. It looks at it, and may then park, several times.
    fn wait(&mut self, cpu: CpuId) {
        let _ = cpu;
    }

    /// Notes what the accesses of a CPU stand for until the next call of this function.
    fn path(&mut self, cpu: CpuId, path: Instructions) {
        let _ = (cpu, path);
    }

    /// Notes that a CPU has used this many lines that are not of the simulated memory, each of them once. They are of a
    /// part of memory of `reach` bytes, which it uses in turn.
    fn foreign(&mut self, cpu: CpuId, lines: u64, reach: u64) {
        let _ = (cpu, lines, reach);
    }

    /// Returns the cycles from the time `now` on until all loads of a CPU are done; none by default.
    fn fence(&mut self, cpu: CpuId, now: u64) -> u64 {
        let _ = (cpu, now);
        0
    }

    /// Notes that a CPU stores to a line outside of calls. It costs nothing but what it does to caches.
    fn touch(&mut self, cpu: CpuId, line: Line, now: u64) {
        let _ = (cpu, line, now);
    }

    /// Returns the number of cycles that `instructions` instructions without memory accesses take from the time `now`
    /// on; one each by default.
    fn work(&mut self, cpu: CpuId, instructions: u32, now: u64) -> u64 {
        let _ = (cpu, now);
        u64::from(instructions)
    }
}

/// A cost model in which every access costs the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flat {
    access: u64,
    wake: u64,
}

impl Flat {
    /// Creates a model that charges `cycles` per access and per wake-up.
    pub const fn new(cycles: u64) -> Self {
        Self {
            access: cycles,
            wake: cycles,
        }
    }

    /// Sets the cost of a wake-up to `cycles`.
    #[must_use]
    pub const fn with_wake(self, cycles: u64) -> Self {
        Self {
            wake: cycles,
            ..self
        }
    }
}

impl Default for Flat {
    /// Charges 10 cycles per access and per wake-up: a round number, not a measurement.
    fn default() -> Self {
        Self::new(10)
    }
}

impl CostModel for Flat {
    fn reset(&mut self, _: u16) {}

    #[inline]
    fn access(&mut self, _: Access) -> Charge {
        Charge::at_once(self.access)
    }

    #[inline]
    fn wake(&mut self, wake: Wake) -> u64 {
        wake.since.max(wake.visible) + self.wake
    }
}
