//! How CPUs give up what they keep, so that the request of another CPU finds it.
//!
//! A hit must not execute an atomic read-modify-write, a token makes what its CPU keeps exclusive by type, and yet a
//! request may fail only if no CPU keeps a suitable frame. These three requirements need a protocol. It is the same for
//! the lists of [`buffered`](super::buffered) and for the trees that CPUs own, and is defined here.
//!
//! # The protocol
//! What a CPU keeps is its *slot*, which is *open* or *closed*. A hit compares something with a word of its slot in any
//! case, as a list's length with its watermarks. In a closed slot, that word has a value that no operation hits, so a
//! hit pays nothing to notice a close. Each CPU has a word, its [`CpuState`]: running, parked, or draining (another CPU
//! empties its slot), and the last epoch that the CPU acknowledged.
//!
//! A CPU whose request cannot be served otherwise asks all others
//! ([`while_all_empty`](Drains::while_all_empty)):
//! 1. It adds itself to the count of requests, begins a new epoch, and closes and empties its own slot.
//! 2. It visits each other CPU. If that CPU is parked, it empties the slot, and parks the CPU again. If that CPU is
//!    running, it closes the slot, and afterwards waits for an acknowledgement. The owner notices the close at its next
//!    operation, empties the slot, and acknowledges. If the platform lends the token of that CPU between two of its
//!    operations, the requester parks it.
//! 3. It tries again, and opens its slot when no request is left. While any is left, every owner that acknowledged
//!    keeps its slot closed, and keeps nothing after an operation.
//!
//! At the moment of the last attempt every slot is therefore empty, so a request that fails then fails correctly.
//! Requesters do not wait in a circle: a requester acknowledges its own epoch before it waits, so it waits only for
//! CPUs whose requests are older, and for CPUs that have none.
//!
//! The requester stops waiting for CPUs that neither call nor park after [`Platform::MAX_WAIT`], for all of them
//! together. If it still fails after that, it fails as busy. A host parks the CPUs that go idle. An operation ends
//! parking by itself, since a parked slot is closed.
//!
//! A request that must not wait takes the same steps if all other CPUs are parked. Otherwise it fails as busy: a hit
//! leaves no trace, so while another CPU runs, no look at one slot after the other shows that all of them were empty at
//! one moment. For the same reason a nested request, which cannot empty a slot, is never exhausted.
//!
//! # Invariants
//! 1. A slot is touched by the holder of its CPU's token while the CPU's state is running, by the requester that took
//!    it over while the state is draining, and by no CPU while the state is parked.
//! 2. A CPU that acknowledged an epoch keeps nothing after an operation until the request of that epoch has ended.

use crate::lock::Section;
use crate::platform::{AtomicWord, CpuId, CpuToken, Ordering, Platform, WaitLimit};

/// The state of a CPU: the state proper in the two lowest bits, the last acknowledged epoch above them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuState(pub(crate) u32);

impl CpuState {
    /// The CPU will not call for a while; any CPU may empty its slot.
    pub(crate) const PARKED: u32 = 0;
    /// The CPU calls; only the CPU itself may touch the slot.
    pub(crate) const RUNNING: u32 = 1;
    /// Another CPU empties the slot.
    const DRAINING: u32 = 2;

    /// The state of a CPU that has not called yet.
    pub(crate) const NEW: Self = Self::new(0, Self::PARKED);

    /// Creates a state.
    const fn new(epoch: u32, state: u32) -> Self {
        Self(epoch << 2 | state)
    }

    /// Returns the state proper.
    const fn state(self) -> u32 {
        self.0 & 3
    }

    /// Returns `true` if `epoch` or a later one was acknowledged. Epochs wrap at 30 bits.
    const fn acknowledged(self, epoch: u32) -> bool {
        ((self.0 >> 2).wrapping_sub(epoch) & EPOCHS) < EPOCHS / 2
    }

    /// Returns the last acknowledged epoch.
    pub(crate) const fn epoch(self) -> u32 {
        self.0 >> 2
    }
}

/// Epochs are counted modulo this number plus one.
const EPOCHS: u32 = u32::MAX >> 2;

/// The words that all CPUs read in operations that miss, and that requesters write.
pub(crate) struct DrainRequests<P: Platform> {
    /// The number of requests that have begun and not ended.
    pub(crate) count: P::AtomicU32,
    /// The number of requests that have begun.
    pub(crate) epoch: P::AtomicU32,
}

impl<P: Platform> DrainRequests<P> {
    /// Creates the words without a request.
    pub(crate) fn new() -> Self {
        Self {
            count: P::AtomicU32::new(0),
            epoch: P::AtomicU32::new(0),
        }
    }

    /// Returns `true` if a request is pending. If not, this CPU sees what all requests did.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        // Acquire: pairs with the exchanges that count requests.
        self.count.load(Ordering::Acquire) != 0
    }

    /// Begins a request. Returns its epoch.
    pub(crate) fn begin(&self) -> u32 {
        // The count comes first: a CPU that sees the epoch sees that a request is pending. Release: pairs with the
        // acquires in `is_pending` and `answer`.
        self.count.fetch_add(1, Ordering::AcqRel);
        let before = self.epoch.fetch_add(1, Ordering::AcqRel);
        before.wrapping_add(1) & EPOCHS
    }

    /// Ends a request.
    pub(crate) fn end(&self) {
        // Release: pairs with the acquire in `is_pending`: a CPU that opens its slot again does so after the request.
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What CPUs keep, and how the protocol reaches it.
pub(crate) trait Drains<P: Platform> {
    /// What one CPU keeps.
    type Slot;

    /// What empties a slot, besides the system itself.
    type With<'c>;

    /// Whether a parked CPU keeps anything. If so, it waits at its next operation while another CPU empties its slot.
    const KEEPS_WHILE_PARKED: bool;

    /// Returns what empties slots in an operation of a CPU.
    fn with(cpu: &mut P::Cpu) -> Self::With<'_>;

    /// Returns the words of the requests.
    fn requests(&self) -> &DrainRequests<P>;

    /// Returns the slots, by CPU.
    fn slots(&self) -> &[Self::Slot];

    /// Returns the word of a CPU's state.
    fn state(slot: &Self::Slot) -> &P::AtomicU32;

    /// Opens or closes a slot. Only its CPU opens it, and any CPU may close it. An exchange that acquires and releases,
    /// so that an owner that opens its slot after another CPU closed it sees what that CPU did before: it began its
    /// epoch.
    fn set_open(&self, slot: &Self::Slot, is_open: bool);

    /// Prepares a slot whose CPU parks: closes it, and empties it unless another CPU can do that later.
    fn leave(&self, slot: &Self::Slot);

    /// Frees all that the slot of a CPU, `owner`, keeps, so that each CPU can find it.
    fn empty(&self, with: &mut Self::With<'_>, owner: CpuId, slot: &Self::Slot);

    /// Ends parking. Called by the owner, before it touches its slot.
    #[cold]
    fn resume(&self, slot: &Self::Slot) {
        let word = Self::state(slot);
        let mut attempt = 0;
        loop {
            let seen = CpuState(word.load(Ordering::Relaxed));
            match seen.state() {
                CpuState::RUNNING => return,
                CpuState::PARKED => {
                    let running = CpuState::new(seen.epoch(), CpuState::RUNNING);
                    // Acquire: pairs with the releases in `park` and in `answer_for`: the owner sees what a requester
                    // did to the slot, and the epoch for which the requester did it.
                    let swapped = word.compare_exchange(
                        seen.0,
                        running.0,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    if swapped.is_ok() {
                        return;
                    }
                }
                _ => {
                    P::wait(word, seen.0, attempt);
                    attempt = attempt.saturating_add(1);
                }
            }
        }
    }

    /// Opens an own slot, unless a request is pending. Returns `true` if it is open.
    #[inline(always)]
    fn open_unless_asked(&self, slot: &Self::Slot) -> bool {
        let is_open = !self.requests().is_pending();
        self.set_open(slot, is_open);
        is_open
    }

    /// Acknowledges requests, and opens an own slot unless one is pending. Returns `true` if the slot is open.
    fn answer(&self, with: &mut Self::With<'_>, owner: CpuId, slot: &Self::Slot) -> bool {
        loop {
            // A requester begins its epoch before it closes this slot. If its close came before this opening, the
            // exchange sees it, and so the load of the epoch below sees that epoch. If the close comes after the
            // opening, it persists, and the next operation gets here again.
            let is_open = self.open_unless_asked(slot);
            // Acquire: pairs with the exchange that begins an epoch.
            let epoch = self.requests().epoch.load(Ordering::Acquire) & EPOCHS;
            // Relaxed: while a CPU runs, only the CPU itself writes its state.
            if CpuState(Self::state(slot).load(Ordering::Relaxed)).epoch() == epoch {
                return is_open;
            }
            self.empty(with, owner, slot);
            Self::acknowledge(slot, epoch);
        }
    }

    /// Announces that an own slot was empty in this epoch.
    fn acknowledge(slot: &Self::Slot, epoch: u32) {
        let running = CpuState::new(epoch, CpuState::RUNNING);
        // Release: pairs with the acquire in `is_empty`: a requester that sees the acknowledgement sees what was freed.
        Self::state(slot).store(running.0, Ordering::Release);
        P::wake(Self::state(slot));
    }

    /// Succeeds if the slot of another CPU was empty in this epoch: that CPU has acknowledged, or it is parked and the
    /// slot was emptied here. Fails with its state.
    fn is_empty(
        &self,
        cpu: &mut P::Cpu,
        (other, slot): (CpuId, &Self::Slot),
        epoch: u32,
    ) -> Result<(), CpuState> {
        // Acquire: pairs with the release in `acknowledge`.
        let mut seen = CpuState(Self::state(slot).load(Ordering::Acquire));
        while !seen.acknowledged(epoch) {
            if seen.state() != CpuState::PARKED {
                return Err(seen);
            }
            match self.answer_for(&mut Self::with(cpu), (other, slot), seen, epoch) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        Ok(())
    }

    /// Empties the slot of a parked CPU, whose state was `seen`, and acknowledges an epoch for it. Fails with its
    /// state, and does nothing, if that has changed.
    fn answer_for(
        &self,
        with: &mut Self::With<'_>,
        (other, slot): (CpuId, &Self::Slot),
        seen: CpuState,
        epoch: u32,
    ) -> Result<(), CpuState> {
        let word = Self::state(slot);
        let parked = CpuState::new(epoch, CpuState::PARKED);
        if !Self::KEEPS_WHILE_PARKED {
            // Acquire: pairs with the release in `park`: what was freed is seen. Release: pairs with the acquire in
            // `resume`: a CPU that resumes after this exchange sees the request.
            let swapped =
                word.compare_exchange(seen.0, parked.0, Ordering::AcqRel, Ordering::Acquire);
            return swapped.map(|_| ()).map_err(CpuState);
        }
        let draining = CpuState::new(seen.epoch(), CpuState::DRAINING);
        // The owner waits until the slot is empty.
        let _section = Section::<P>::begin();
        // Acquire: pairs with the release in `park`: the slot's content is seen. If it fails, with the release in
        // `acknowledge`.
        word.compare_exchange(seen.0, draining.0, Ordering::Acquire, Ordering::Acquire)
            .map_err(CpuState)?;
        self.empty(with, other, slot);
        // Release: pairs with the acquires in `resume` and above: the empty slot is seen.
        word.store(parked.0, Ordering::Release);
        P::wake(word);
        Ok(())
    }

    /// Empties the slot of another CPU, if that CPU is parked. Returns `false` if it is not.
    fn empty_parked(&self, cpu: &mut P::Cpu, other: CpuId, slot: &Self::Slot) -> bool {
        // Acquire: pairs with the release in `park`: what was freed is seen.
        let seen = CpuState(Self::state(slot).load(Ordering::Acquire));
        let with = &mut Self::with(cpu);
        seen.state() == CpuState::PARKED
            && (!Self::KEEPS_WHILE_PARKED
                || self
                    .answer_for(with, (other, slot), seen, seen.epoch())
                    .is_ok())
    }

    /// Parks another CPU, if the platform lends its token.
    fn exclude(&self, cpu: &P::Cpu, other: CpuId, slot: &Self::Slot) {
        // The token exists until the CPU is parked.
        if let Some(_token) = cpu.exclude(other) {
            park::<P>(Self::state(slot), || self.leave(slot));
        }
    }

    /// Waits until the slots of all other CPUs were empty; `false` if one neither parks nor acknowledges in time.
    /// Without `waits`, asks no CPU, and returns `false` at the first one whose slot is not empty.
    #[inline(always)]
    fn drain_others(&self, cpu: &mut P::Cpu, epoch: u32, waits: bool) -> bool {
        let own = cpu.id();
        let all = (0..).map(CpuId).zip(self.slots());
        let others = all.filter(|(other, _)| *other != own);
        // All are asked before the first wait, so that they answer simultaneously. Once is enough: an owner opens its
        // slot by an exchange, so it sees this close, and with it the epoch, before it opens the slot again.
        for (other, slot) in others.clone() {
            if self.is_empty(cpu, (other, slot), epoch).is_err() {
                if !waits {
                    return false;
                }
                self.set_open(slot, false);
                self.exclude(cpu, other, slot);
            }
        }
        let (mut polls, mut limit, mut all_drained) = (0, WaitLimit::<P>::new(), true);
        for (other, slot) in others {
            let mut attempt = 0;
            while let Err(seen) = self.is_empty(cpu, (other, slot), epoch) {
                // After the look: a wait may have taken long because this CPU was stopped.
                if limit.is_over(polls) {
                    all_drained = false;
                    break;
                }
                P::wait(Self::state(slot), seen.0, attempt);
                polls = polls.saturating_add(1);
                attempt = attempt.saturating_add(1);
                if attempt.is_power_of_two() {
                    self.exclude(cpu, other, slot); // Its last operation may be over.
                }
            }
        }
        all_drained
    }

    /// Calls `then` while no CPU keeps anything, and tells it whether that is so.
    fn while_all_empty<T>(
        &self,
        cpu: &mut P::Cpu,
        waits: bool,
        then: impl FnOnce(&mut P::Cpu, bool) -> T,
    ) -> T {
        let id = cpu.id();
        let own = self.slots().get(id.index());
        if let Some(own) = own {
            self.resume(own);
        }
        let epoch = self.requests().begin();
        if let Some(own) = own {
            self.set_open(own, false);
            self.empty(&mut Self::with(cpu), id, own);
            Self::acknowledge(own, epoch);
        }
        let all_drained = self.drain_others(cpu, epoch, waits);
        let result = then(cpu, all_drained);
        self.requests().end();
        if let Some(own) = own {
            self.answer(&mut Self::with(cpu), id, own);
        }
        result
    }
}

/// Parks a CPU, by its token, unless it is parked. `leave` prepares its slot.
pub(crate) fn park<P: Platform>(state: &P::AtomicU32, leave: impl FnOnce()) {
    let seen = CpuState(state.load(Ordering::Relaxed));
    if seen.state() != CpuState::RUNNING {
        return;
    }
    leave();
    let parked = CpuState::new(seen.epoch(), CpuState::PARKED);
    // Release: pairs with the acquires in `answer_for`, `is_empty` and `empty_parked`: what was freed, and what the
    // slot keeps, is seen.
    state.store(parked.0, Ordering::Release);
    P::wake(state);
}

/// Returns `true` if a CPU is parked. A hint.
pub(crate) fn is_parked<P: Platform>(state: &P::AtomicU32) -> bool {
    CpuState(state.load(Ordering::Relaxed)).state() == CpuState::PARKED
}
