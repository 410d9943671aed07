//! How a CPU gets the trees of the others.
//!
//! A CPU owns trees over many operations, and yet a request may fail only if no CPU owns a suitable free frame. The
//! protocol is that of the [per-CPU lists](crate::percpu::drain), with trees in place of lists: a CPU that asks takes
//! away the identities of the running CPUs, each of which releases its trees in its next operation and acknowledges.
//! While a request of this kind is pending, every CPU releases each tree within the operation that claimed it.
//!
//! A CPU that releases its trees also announces the frames that it keeps and empties its lists, so "owns no tree" means
//! both below. Operations that need empty lists ask all CPUs.
//!
//! # Invariants
//! While a CPU is parked, it owns no tree. Its owner ends parking before it claims one. So nothing of a parked CPU is
//! taken over, and no CPU waits for another one when it resumes.

use crate::percpu::drain::{self, DrainRequests, Drains};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform};

use super::OwnedTrees;
use super::local::Local;
use super::refused::Refused;
use super::wanted::CLOSED_ID;

/// The words that all CPUs read in slow operations, and that CPUs write that ask.
#[repr(C, align(64))]
pub(super) struct Requests<P: Platform> {
    pub(super) drains: DrainRequests<P>,
    /// What is refused without a search.
    pub(super) refused: Refused<P>,
}

impl<P: Platform> Requests<P> {
    pub(super) fn new() -> Self {
        Self {
            drains: DrainRequests::new(),
            refused: Refused::new(),
        }
    }
}

impl<'m, P: Platform> Drains<P> for OwnedTrees<'m, P> {
    type Slot = Local<'m, P>;
    type With<'c> = ();
    const KEEPS_WHILE_PARKED: bool = false;

    fn with(_: &mut P::Cpu) {}

    #[inline(always)]
    fn requests(&self) -> &DrainRequests<P> {
        &self.requests.drains
    }

    fn slots(&self) -> &[Local<'m, P>] {
        self.locals
    }

    #[inline(always)]
    fn state<'s>(local: &'s Local<'m, P>) -> &'s P::AtomicU32 {
        &local.state
    }

    /// The identity for frees stays closed while a refusal is remembered.
    fn set_open(&self, local: &Local<'m, P>, is_open: bool) {
        if !is_open {
            return local.close();
        }
        // Acquire: pairs with the exchange in `close`: the epoch of a CPU that took the identity away is seen. If that
        // CPU does so afterwards, the identity stays closed.
        local.identity.swap(local.id, Ordering::AcqRel);
        // The load of the count acquired what the acknowledged requests remembered.
        let free_identity = match self.requests.refused.order() {
            Some(_) => CLOSED_ID,
            None => local.id,
        };
        // Acquire: as for the identity.
        local.free_identity.swap(free_identity, Ordering::AcqRel);
    }

    /// A parked CPU owns no tree.
    fn leave(&self, local: &Local<'m, P>) {
        local.close();
        local.release_all(&self.shared);
    }

    fn empty(&self, (): &mut (), _: CpuId, local: &Local<'m, P>) {
        local.release_all(&self.shared);
    }
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Prepares a slow operation: ends parking and acknowledges requests. Returns `true` if the CPU may keep trees.
    #[inline]
    pub(super) fn begin(&self, local: &Local<'_, P>) -> bool {
        // Relaxed: a CPU that is asked while it works notices it in its next operation.
        if local.identity.load(Ordering::Relaxed) != CLOSED_ID {
            return true;
        }
        self.reopen(local)
    }

    #[cold]
    #[inline(never)]
    fn reopen(&self, local: &Local<'_, P>) -> bool {
        self.resume(local);
        self.service(local)
    }

    /// Acknowledges requests, and restores the CPU's identities unless one is pending. Returns `true` if none is.
    pub(super) fn service(&self, local: &Local<'_, P>) -> bool {
        self.answer(&mut (), local.cpu(), local)
    }

    /// Ends an operation of a CPU that may not keep trees.
    #[inline]
    pub(super) fn end(&self, local: &Local<'_, P>, open: bool) {
        if !open {
            local.release_all(&self.shared);
        }
    }

    /// Calls `then` while no CPU keeps a tree, and tells it whether that is so. What this CPU claims meanwhile, it
    /// releases.
    #[cold]
    #[inline(never)]
    pub(super) fn with_all_drained<T>(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        waits: bool,
        then: impl FnOnce(bool) -> T,
    ) -> T {
        self.while_all_empty(cpu, waits, |_, all_drained| {
            let result = then(all_drained);
            local.release_all(&self.shared);
            result
        })
    }

    /// Parks a CPU.
    pub(super) fn park_local(&self, local: &Local<'_, P>) {
        drain::park::<P>(&local.state, || self.leave(local));
    }

    /// Returns `true` if all other CPUs are parked, so that a drain needs to wait for none. A hint.
    pub(super) fn is_alone(&self, local: &Local<'_, P>) -> bool {
        let mut all = self.locals.iter();
        all.all(|other| other.id == local.id || drain::is_parked::<P>(&other.state))
    }
}
