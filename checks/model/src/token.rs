//! The token of a modelled CPU.
//!
//! One type serves both checkers; neither needs more in a token than a number and counters.
//!
//! # Invariants
//! Only [`Machine`](crate::Machine) creates tokens, and it hands out one token per number at a time. A CPU whose
//! program [left](crate::Worker::leave) calls no more, so other CPUs may borrow its token.

use core::marker::PhantomData;
use std::cell::RefCell;
use std::rc::Rc;

use everybuddy::{Counts, CpuId, CpuToken};

/// The token of a CPU that is a thread of a model checker.
pub struct ModelCpu {
    id: CpuId,
    counts: Counts,
    /// What lent this token to another CPU.
    lender: Option<Rc<dyn Lender>>,
    // A raw pointer is neither `Send` nor `Sync`: the token stays on the thread that created it.
    not_send: PhantomData<*mut ()>,
}

impl core::fmt::Debug for ModelCpu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("ModelCpu").field(&self.id).finish()
    }
}

impl ModelCpu {
    /// Creates the token of a CPU that no thread currently uses.
    pub(crate) fn new(id: u16) -> Self {
        Self {
            id: CpuId(id),
            counts: Counts::default(),
            lender: None,
            not_send: PhantomData,
        }
    }

    /// Returns the events counted on this CPU since the token was created.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the probe.
    pub fn probe(&mut self) -> &mut Counts {
        &mut self.counts
    }
}

impl CpuToken for ModelCpu {
    fn id(&self) -> CpuId {
        self.id
    }

    fn exclude(&self, cpu: CpuId) -> Option<Self> {
        let lender = LENDER.with_borrow(Option::clone)?;
        lender.try_borrow(cpu).then(|| Self {
            lender: Some(lender),
            ..Self::new(cpu.0)
        })
    }
}

impl Drop for ModelCpu {
    fn drop(&mut self) {
        if let Some(lender) = &self.lender {
            lender.give_back(self.id);
        }
    }
}

/// Lends the tokens of CPUs that call no more.
pub(crate) trait Lender {
    /// Returns `true` if the CPU has left and no other CPU has its token, which the caller then has. Acquires.
    fn try_borrow(&self, cpu: CpuId) -> bool;

    /// Ends the use of a token, by a CPU that leaves or that borrowed it. Releases.
    fn give_back(&self, cpu: CpuId);
}

thread_local! {
    /// The lender of the model that runs on this host thread, if its tokens are lent.
    static LENDER: RefCell<Option<Rc<dyn Lender>>> = const { RefCell::new(None) };
}

/// Lends tokens by `lender`, or none.
pub(crate) fn lend_by(lender: Option<Rc<dyn Lender>>) {
    LENDER.set(lender);
}

/// Lends the token of a CPU that calls no more.
pub(crate) fn leave(cpu: CpuId) {
    if let Some(lender) = LENDER.with_borrow(Option::clone) {
        lender.give_back(cpu);
    }
}
