//! How a CPU gets the trees of the others.
//!
//! A CPU owns trees over many operations, and yet a request may fail only if no CPU owns a suitable free frame. The
//! protocol is that of [`buffered`](crate::percpu::buffered), with trees in place of lists: a CPU that asks takes away
//! the identities of the running CPUs, each of which releases its trees in its next operation and acknowledges. While
//! a request of this kind is pending, every CPU releases each tree within the operation that claimed it.
//!
//! A CPU that releases its trees also announces the frames that it keeps and empties its lists, so "owns no tree" means
//! both below. Operations that need empty lists ask all CPUs.
//!
//! A parked CPU owns no tree, so nothing of it is taken over, and no CPU waits for another one when it resumes. If the
//! platform [lends](CpuToken::exclude) the token of a CPU between two of its operations, the CPU that asks parks it.
//!
//! # Invariants
//! 1. While a CPU is parked, it owns no tree. Its owner ends parking before it claims one.
//! 2. A CPU that acknowledged an epoch keeps no tree after an operation until the request of that epoch has ended.
//! 3. CPUs that ask do not wait in a circle: each acknowledges its own epoch, and owns no tree, before it waits.

use crate::percpu::access::{CpuState, EPOCHS};
use crate::platform::{AtomicWord, CpuId, CpuToken, Ordering, Platform, WaitLimit};

use super::OwnedTrees;
use super::local::Local;
use super::refused::Refused;
use super::wanted::CLOSED_ID;

/// The words that all CPUs read in slow operations, and that CPUs write that ask.
#[repr(C, align(64))]
pub(super) struct Requests<P: Platform> {
    pub(super) count: P::AtomicU32,
    pub(super) epoch: P::AtomicU32,
    /// What is refused without a search.
    pub(super) refused: Refused<P>,
}

impl<P: Platform> Requests<P> {
    pub(super) fn new() -> Self {
        Self {
            count: P::AtomicU32::new(0),
            epoch: P::AtomicU32::new(0),
            refused: Refused::new(),
        }
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
        self.resume(local);
        self.service(local)
    }

    /// Ends parking.
    pub(super) fn resume(&self, local: &Local<'_, P>) {
        let mut seen = CpuState(local.state.load(Ordering::Relaxed));
        while seen.state() != CpuState::RUNNING {
            let running = CpuState::new(seen.epoch(), CpuState::RUNNING);
            // Acquire: pairs with the exchange in `keeps_none` that acknowledges for a parked CPU: this CPU then sees
            // the request. Release: pairs with the load there.
            let swapped = local.state.compare_exchange(
                seen.0,
                running.0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match swapped {
                Ok(_) => return,
                Err(now) => seen = CpuState(now),
            }
        }
    }

    /// Acknowledges requests, and restores the CPU's identities unless one is pending. Returns `true` if none is. The
    /// identity for frees stays closed while a refusal is remembered.
    pub(super) fn service(&self, local: &Local<'_, P>) -> bool {
        loop {
            // Acquire: pairs with the exchanges that count requests.
            let open = self.requests.count.load(Ordering::Acquire) == 0;
            let identity = if open { local.id } else { CLOSED_ID };
            // Acquire: pairs with the exchange in `close`. A CPU begins its epoch before it takes identities
            // away. If it did so before this exchange, the load below sees that epoch. If it does so afterwards, the
            // identity stays closed, and the next operation gets here again.
            local.identity.swap(identity, Ordering::AcqRel);
            // The load of the count acquired what the requests remembered that this CPU acknowledged.
            let free_identity = match self.requests.refused.order() {
                Some(_) => CLOSED_ID,
                None => identity,
            };
            // Acquire: as for the identity.
            local.free_identity.swap(free_identity, Ordering::AcqRel);
            // Acquire: pairs with the exchange that begins an epoch.
            let epoch = self.requests.epoch.load(Ordering::Acquire) & EPOCHS;
            // Relaxed: while a CPU runs, only the CPU itself writes its state.
            if CpuState(local.state.load(Ordering::Relaxed)).epoch() == epoch {
                return open;
            }
            local.release_all(&self.shared);
            self.acknowledge(local, epoch);
        }
    }

    /// Announces that the CPU owned no tree in this epoch.
    fn acknowledge(&self, local: &Local<'_, P>, epoch: u32) {
        let state = CpuState::new(epoch, CpuState::RUNNING);
        // Release: pairs with the acquire in `keeps_none`: the released trees are seen.
        local.state.store(state.0, Ordering::Release);
        P::wake(&local.state);
    }

    /// Ends an operation of a CPU that may not keep trees.
    #[inline]
    pub(super) fn end(&self, local: &Local<'_, P>, open: bool) {
        if !open {
            local.release_all(&self.shared);
        }
    }

    /// Succeeds if another CPU keeps no tree in this epoch: it has acknowledged, or it is parked. Fails with its state.
    fn keeps_none(&self, local: &Local<'_, P>, epoch: u32) -> Result<(), CpuState> {
        // Acquire: pairs with the release in `acknowledge`.
        let mut seen = CpuState(local.state.load(Ordering::Acquire));
        while !seen.acknowledged(epoch) {
            if seen.state() != CpuState::PARKED {
                return Err(seen);
            }
            let parked = CpuState::new(epoch, CpuState::PARKED);
            // Release: pairs with the acquire in `resume`: a CPU that resumes after this exchange sees the request.
            // Acquire: pairs with the release in `park_local`: the released trees are seen.
            let swapped =
                local
                    .state
                    .compare_exchange(seen.0, parked.0, Ordering::AcqRel, Ordering::Acquire);
            match swapped {
                Ok(_) => break,
                Err(now) => seen = CpuState(now),
            }
        }
        Ok(())
    }

    /// Parks another CPU, if the platform lends its token.
    fn exclude(&self, cpu: &P::Cpu, index: usize, other: &Local<'_, P>) {
        // The token exists until the CPU is parked.
        if let Some(_token) = cpu.exclude(CpuId(index as u16)) {
            self.park_local(other);
        }
    }

    /// Waits until no other CPU keeps a tree. Returns `false` if one neither parks nor acknowledges in time. Without
    /// `waits`, a CPU that is not parked is not asked, either.
    fn drain_others(&self, cpu: &P::Cpu, local: &Local<'_, P>, epoch: u32, waits: bool) -> bool {
        let others = || {
            let all = self.locals.iter().enumerate();
            all.filter(|(_, other)| other.id != local.id)
        };
        // All are asked before the first wait, so that they answer simultaneously.
        for (index, other) in others() {
            if self.keeps_none(other, epoch).is_err() {
                if !waits {
                    return false;
                }
                other.close();
                self.exclude(cpu, index, other);
            }
        }
        let (mut polls, mut limit, mut all_drained) = (0, WaitLimit::<P>::new(), true);
        for (index, other) in others() {
            let mut attempt = 0;
            while let Err(seen) = self.keeps_none(other, epoch) {
                if limit.is_over(polls) {
                    all_drained = false;
                    break;
                }
                P::wait(&other.state, seen.0, attempt);
                polls = polls.saturating_add(1);
                attempt = attempt.saturating_add(1);
                // What it did may have been its last operation for a while.
                if attempt.is_power_of_two() {
                    self.exclude(cpu, index, other);
                }
            }
        }
        all_drained
    }

    /// Calls `then` while no CPU keeps a tree, and tells it whether that is so.
    #[cold]
    #[inline(never)]
    pub(super) fn with_all_drained<T>(
        &self,
        cpu: &P::Cpu,
        local: &Local<'_, P>,
        waits: bool,
        then: impl FnOnce(bool) -> T,
    ) -> T {
        self.resume(local);
        // The count comes first: a CPU that sees the epoch sees that a request is pending. Release: pairs with the
        // acquires in `service`.
        self.requests.count.fetch_add(1, Ordering::AcqRel);
        let before = self.requests.epoch.fetch_add(1, Ordering::AcqRel);
        let epoch = before.wrapping_add(1) & EPOCHS;
        local.close();
        local.release_all(&self.shared);
        self.acknowledge(local, epoch);
        let result = then(self.drain_others(cpu, local, epoch, waits));
        local.release_all(&self.shared);
        // Release: pairs with the acquires in `service`: a CPU that keeps trees again does so after `then`.
        self.requests.count.fetch_sub(1, Ordering::AcqRel);
        self.service(local);
        result
    }

    /// Parks a CPU: it releases its trees.
    pub(super) fn park_local(&self, local: &Local<'_, P>) {
        let seen = CpuState(local.state.load(Ordering::Relaxed));
        if seen.state() != CpuState::RUNNING {
            return;
        }
        local.close();
        local.release_all(&self.shared);
        let parked = CpuState::new(seen.epoch(), CpuState::PARKED);
        // Release: pairs with the acquires in `keeps_none`: the released trees are seen.
        local.state.store(parked.0, Ordering::Release);
        P::wake(&local.state);
    }

    /// Returns `true` if all other CPUs are parked, so that a drain needs to wait for none. A hint.
    pub(super) fn is_alone(&self, local: &Local<'_, P>) -> bool {
        let mut all = self.locals.iter();
        all.all(|other| other.id == local.id || self.is_parked(other))
    }

    /// Returns `true` if a CPU is parked.
    pub(super) fn is_parked(&self, local: &Local<'_, P>) -> bool {
        // Acquire: pairs with the release in `park_local`.
        CpuState(local.state.load(Ordering::Acquire)).state() == CpuState::PARKED
    }
}
