//! The token of a modelled CPU.
//!
//! # Purpose
//!
//! One type serves both checkers; neither needs more in a token than a number and counters.
//!
//! # Invariants
//!
//! Only [`Machine`](crate::Machine) creates tokens, and it hands out one token per number at a time.

use core::marker::PhantomData;

use everybuddy::{Counts, CpuId, CpuToken};

/// The token of a CPU that is a thread of a model checker.
#[derive(Debug)]
pub struct ModelCpu {
    id: CpuId,
    counts: Counts,
    // A raw pointer is neither `Send` nor `Sync`: the token stays on the thread that created it.
    not_send: PhantomData<*mut ()>,
}

impl ModelCpu {
    /// Creates the token of a CPU that no thread currently uses.
    pub(crate) fn new(id: u16) -> Self {
        Self {
            id: CpuId(id),
            counts: Counts::default(),
            not_send: PhantomData,
        }
    }

    /// Returns the events counted on this CPU since the token was created.
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
