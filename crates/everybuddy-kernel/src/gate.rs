//! The token of a CPU whose preemption is disabled, and the counters of that CPU.
//!
//! # Invariants
//! At most one token of a gate exists. The gate is written by its own CPU alone, so it needs no atomic
//! read-modify-write: an interrupt between the read and the write has closed and opened the gate before it returns. The
//! counters are written in the same way, and an interrupt of an interrupt may lose one event.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};

use everybuddy::platform::{Bare, CpuToken, ProbeOf, Spin};
use everybuddy::{CpuId, Event, Probe};

use crate::interrupts;

/// The real machine, with tokens for disabled preemption.
pub type Machine = Bare<PreemptionDisabled, Spin, SlowPaths>;

/// What one CPU has to itself: whether an operation runs there, and its counters.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Gate {
    is_closed: AtomicBool,
    /// Frees that were refused.
    pub(crate) misuses: AtomicU64,
    /// Operations that interrupted another one.
    pub(crate) nested: AtomicU64,
    /// Refills of this CPU's list.
    pub(crate) refills: AtomicU64,
    /// Drains of this CPU's list.
    pub(crate) drains: AtomicU64,
    /// Locks that another CPU held.
    pub(crate) contended: AtomicU64,
    /// Requests that asked all CPUs to drain their lists.
    pub(crate) reclaims: AtomicU64,
}

impl Gate {
    /// Closes the gate, and returns the token of the CPU, which [`leave`](Self::leave) takes back. Returns `None` if
    /// the caller interrupted an operation of this CPU.
    ///
    /// The caller runs on this CPU, with preemption disabled.
    #[inline(always)]
    pub fn enter(&'static self, cpu: CpuId) -> Option<PreemptionDisabled> {
        if self.is_closed.load(Ordering::Relaxed) {
            return None;
        }
        self.is_closed.store(true, Ordering::Relaxed);
        // An interrupt handler on this CPU sees all stores in the order of the program, if the compiler keeps it.
        compiler_fence(Ordering::SeqCst);
        Some(PreemptionDisabled {
            cpu,
            paths: SlowPaths(Some(self)),
        })
    }

    /// Opens the gate.
    #[inline(always)]
    pub fn leave(&self, _: PreemptionDisabled) {
        compiler_fence(Ordering::SeqCst);
        self.is_closed.store(false, Ordering::Relaxed);
    }

    /// Runs an operation between [`enter`](Self::enter) and [`leave`](Self::leave). Returns `None` without running it
    /// if the gate is closed.
    #[inline]
    pub fn pass<R>(
        &'static self,
        cpu: CpuId,
        operation: impl FnOnce(&mut PreemptionDisabled) -> R,
    ) -> Option<R> {
        let mut token = self.enter(cpu)?;
        let result = operation(&mut token);
        self.leave(token);
        Some(result)
    }
}

/// Adds one to a counter of this CPU.
#[inline(always)]
pub(crate) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The right to act as a CPU: preemption is disabled there.
#[derive(Debug)]
pub struct PreemptionDisabled {
    cpu: CpuId,
    paths: SlowPaths,
}

impl CpuToken for PreemptionDisabled {
    #[inline(always)]
    fn id(&self) -> CpuId {
        self.cpu
    }

    #[inline(always)]
    fn disable_interrupts() -> usize {
        interrupts::off()
    }

    #[inline(always)]
    fn restore_interrupts(before: usize) {
        interrupts::restore(before);
    }
}

/// Counts what is not a hit: refills, drains, contended locks and reclaims. Other events cost nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowPaths(Option<&'static Gate>);

impl ProbeOf<PreemptionDisabled> for SlowPaths {
    type Probe = Self;

    #[inline(always)]
    fn probe(cpu: &mut PreemptionDisabled) -> &mut Self {
        &mut cpu.paths
    }
}

impl Probe for SlowPaths {
    #[inline(always)]
    fn record(&mut self, event: Event) {
        #[cfg(test)]
        if matches!(event, Event::Lock { .. } | Event::Unlock) {
            assert!(interrupts::are_off(), "{event:?} outside of a section");
        }
        let Some(gate) = self.0 else { return };
        match event {
            Event::Refill { .. } => count(&gate.refills),
            Event::Drain { .. } => count(&gate.drains),
            Event::Lock {
                contended: true, ..
            } => count(&gate.contended),
            Event::Reclaim => count(&gate.reclaims),
            _ => {}
        }
    }
}
