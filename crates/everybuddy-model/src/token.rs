//! The token of a modelled CPU.
//!
//! Why it exists: one type serves both checkers; neither needs more of a token than a number and counts.
//!
//! Invariant: tokens are made by [`Machine`](crate::Machine) alone, which hands out one of each number at
//! a time.

use core::marker::PhantomData;

use everybuddy::{Counts, CpuId, CpuToken};

/// The token of a CPU that is a thread of a model checker.
#[derive(Debug)]
pub struct ModelCpu {
    id: CpuId,
    counts: Counts,
    // A raw pointer is neither Send nor Sync: the token stays in the thread that it was made in.
    not_send: PhantomData<*mut ()>,
}

impl ModelCpu {
    /// Makes the token of a CPU that nobody acts as now.
    pub(crate) fn new(id: u16) -> Self {
        Self {
            id: CpuId(id),
            counts: Counts::default(),
            not_send: PhantomData,
        }
    }

    /// Returns what was counted on this CPU since the token was made.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl CpuToken for ModelCpu {
    type Probe = Counts;

    fn id(&self) -> CpuId {
        self.id
    }

    fn probe(&mut self) -> &mut Counts {
        &mut self.counts
    }
}
