//! What an access costs.
//!
//! Why it exists: the engine decides who runs, never how long anything takes. A model of caches and their
//! coherence replaces [`Flat`] by implementing [`CostModel`], and nothing else changes.
//!
//! Invariant: a cost model sees the accesses in the order of virtual time, and only decides their duration:
//! values are read and written before it is asked.
//!
//! Not modelled by [`Flat`]: everything. It knows neither lines nor who touched them last.

use everybuddy::CpuId;

use crate::region::Line;

/// What an access does to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads it.
    Load,
    /// Writes it.
    Store,
    /// Reads and writes it at once; a compare-and-exchange also when it fails.
    ReadModifyWrite,
}

/// An access to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub kind: AccessKind,
    /// The cache line of the word.
    pub line: Line,
    /// Who does it.
    pub cpu: CpuId,
    /// The virtual time at which it begins, in cycles from the start of the run. Never decreases from one
    /// access to the next, apart from accesses by destructors while a panic unwinds.
    pub now: u64,
}

/// How many virtual cycles things take.
///
/// A model that counts the accesses to each line:
///
/// ```
/// use everybuddy::CpuId;
/// use everybuddy_sim::{Access, CostModel, Line};
/// use std::collections::HashMap;
///
/// #[derive(Default)]
/// struct Hot(HashMap<Line, u64>);
///
/// impl CostModel for Hot {
///     fn reset(&mut self, _cpus: u16) {
///         self.0.clear();
///     }
///     fn access(&mut self, access: Access) -> u64 {
///         *self.0.entry(access.line).or_default() += 1;
///         5
///     }
///     fn wake(&mut self, _cpu: CpuId, _line: Line) -> u64 {
///         100
///     }
/// }
/// ```
pub trait CostModel {
    /// Forgets everything: a run with `cpus` CPUs begins.
    fn reset(&mut self, cpus: u16);

    /// Returns the cycles that an access takes. Called once for each access, so it must be fast and must
    /// not touch a simulated cell. Zero counts as one: time passes whenever memory is touched, or the
    /// limit of virtual time could not end a loop.
    fn access(&mut self, access: Access) -> u64;

    /// Returns the cycles from the moment when the change of a word of `line` took effect to the moment
    /// when `cpu`, one of them, runs again.
    fn wake(&mut self, cpu: CpuId, line: Line) -> u64;

    /// Returns the cycles that so many instructions without memory take; one each unless overridden.
    fn work(&mut self, cpu: CpuId, instructions: u32) -> u64 {
        let _ = cpu;
        u64::from(instructions)
    }
}

/// Every access costs the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flat {
    access: u64,
    wake: u64,
}

impl Flat {
    /// Charges `cycles` for an access, and as much for a wake-up.
    pub const fn new(cycles: u64) -> Self {
        Self {
            access: cycles,
            wake: cycles,
        }
    }

    /// Charges `cycles` for a wake-up.
    #[must_use]
    pub const fn with_wake(self, cycles: u64) -> Self {
        Self {
            wake: cycles,
            ..self
        }
    }
}

impl Default for Flat {
    /// Charges 10 cycles for an access or a wake-up: a round number, measured nowhere.
    fn default() -> Self {
        Self::new(10)
    }
}

impl CostModel for Flat {
    fn reset(&mut self, _: u16) {}

    #[inline]
    fn access(&mut self, _: Access) -> u64 {
        self.access
    }

    #[inline]
    fn wake(&mut self, _: CpuId, _: Line) -> u64 {
        self.wake
    }
}
