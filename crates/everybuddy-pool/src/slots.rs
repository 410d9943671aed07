//! The CPU tokens of a pool, which its threads share.
//!
//! A frame allocator is called with the token of a CPU, and threads are not CPUs: there may be more of them, they may
//! be stopped between two calls for as long as the scheduler likes, and they end. A slot is a token under a lock of its
//! own. A thread prefers one slot, whose lock no other thread acquires as long as there are slots enough. So a call
//! costs one exchange of a word that is in the cache of this thread. In return, any thread can park the token of a
//! thread that is not in a call: free memory is never withheld by a thread that does something else.
//!
//! # Invariants
//! 1. A [`Token`] exists only while its slot is taken. So at most one token of a number exists.
//! 2. While `short` is not zero, every call parks its token before it leaves its slot.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everybuddy::platform::{Bare, CpuToken, Spin, Waiting};
use everybuddy::{CpuId, FrameAllocator};

/// The most tokens of a pool: systems are set up for 65,534 CPUs, one of which is for maintenance.
pub const MAX_TOKENS: u16 = 65_533;

/// How long a thread waits for a slot before it gives up.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long a thread that is short of memory waits for the slot of another one. A call is much shorter, but its thread
/// can be stopped in it.
const LONGEST_SWEEP: Duration = Duration::from_millis(10);

/// How often a thread that waits spins before it yields.
const SPINS: u32 = 6;

/// Waits as a thread does, which can be stopped while it holds a lock.
pub(crate) struct Yield;

impl Waiting for Yield {
    // A thread can be stopped in a call.
    const MAX_WAIT: u64 = 1_000_000_000;
    const MAX_POLLS: u32 = 1 << 16;

    fn pause(attempt: u32) {
        if attempt < SPINS {
            Spin::pause(attempt)
        } else {
            thread::yield_now()
        }
    }

    fn now() -> Option<u64> {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).ok()
    }
}

/// The platform of all pools.
pub(crate) type Machine = Bare<Token, Yield>;

/// The right to act as one CPU.
pub(crate) struct Token(CpuId);

impl CpuToken for Token {
    #[inline]
    fn id(&self) -> CpuId {
        self.0
    }
}

/// What the calls with a token counted. Only the holder of the slot writes it.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) allocations: AtomicU64,
    pub(crate) frees: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) refused_frees: AtomicU64,
    pub(crate) shortages: AtomicU64,
    /// Calls by threads that prefer another slot.
    pub(crate) borrowed: AtomicU64,
}

impl Counters {
    /// Adds one. The holder of the slot alone writes, so no exchange is needed.
    #[inline]
    pub(crate) fn count(counter: &AtomicU64) {
        let value = counter.load(Ordering::Relaxed);
        counter.store(value.wrapping_add(1), Ordering::Relaxed);
    }
}

/// A token under a lock.
// Two lines: processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Slot {
    taken: AtomicBool,
    /// The threads that prefer this slot.
    users: AtomicU32,
    pub(crate) counters: Counters,
}

/// The slots of a pool.
pub(crate) struct Slots {
    /// The last one is for maintenance, and preferred by no thread.
    slots: Box<[Slot]>,
    /// The threads that are short of memory at this moment.
    short: AtomicU32,
    pub(crate) exits: AtomicU64,
}

/// A call: the token, and its slot, which is left when this is dropped.
pub(crate) struct Call<'s> {
    pub(crate) token: Token,
    slot: &'s Slot,
}

impl Call<'_> {
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.slot.counters
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the acquire in `try_enter`: the next holder sees what this one did as this CPU.
        self.slot.taken.store(false, Ordering::Release);
    }
}

impl Slots {
    /// Creates `tokens` slots for threads, and one for maintenance.
    pub(crate) fn new(tokens: u16) -> Self {
        Self {
            slots: (0..=tokens).map(|_| Slot::default()).collect(),
            short: AtomicU32::new(0),
            exits: AtomicU64::new(0),
        }
    }

    /// Returns the slots that threads prefer.
    fn shared(&self) -> &[Slot] {
        &self.slots[..self.slots.len() - 1]
    }

    /// Returns the number of tokens for threads.
    pub(crate) fn tokens(&self) -> u16 {
        self.shared().len() as u16
    }

    /// Returns the number of threads that have called and not ended.
    pub(crate) fn threads(&self) -> u64 {
        let users = self.shared().iter();
        users
            .map(|slot| u64::from(slot.users.load(Ordering::Relaxed)))
            .sum()
    }

    /// Returns the sum of a counter.
    pub(crate) fn total(&self, counter: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        let counters = self.slots.iter().map(|slot| counter(&slot.counters));
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum()
    }

    /// Chooses a slot with the fewest threads for a thread that calls for the first time.
    pub(crate) fn join(&self) -> u32 {
        loop {
            let users = |slot: &Slot| slot.users.load(Ordering::Relaxed);
            let slots = self.shared().iter().enumerate();
            let Some((index, slot)) = slots.min_by_key(|(_, slot)| users(slot)) else {
                return 0;
            };
            let seen = users(slot);
            let joined =
                slot.users
                    .compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed);
            if joined.is_ok() {
                return index as u32;
            }
        }
    }

    /// Ends the preference of a thread that ends. The last one parks the token.
    pub(crate) fn leave(&self, index: u32, system: &impl FrameAllocator<Machine>) {
        self.exits.fetch_add(1, Ordering::Relaxed);
        let slot = &self.slots[index as usize];
        if slot.users.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.park(index, Duration::ZERO, system);
        }
    }

    /// Takes a slot, unless another thread has it.
    #[inline]
    fn try_enter(&self, index: u32) -> Option<Call<'_>> {
        let slot = self.slots.get(index as usize)?;
        // Acquire: pairs with the release in the drop of a `Call`.
        if slot.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Call {
            token: Token(CpuId(index as u16)),
            slot,
        })
    }

    /// Takes the preferred slot, or otherwise any that is not taken. Returns `None` if all were taken for too long.
    #[inline]
    pub(crate) fn enter(&self, preferred: u32) -> Option<Call<'_>> {
        match self.try_enter(preferred) {
            Some(call) => Some(call),
            None => self.borrow(preferred),
        }
    }

    #[cold]
    fn borrow(&self, preferred: u32) -> Option<Call<'_>> {
        let call = retry(LONGEST_WAIT, || self.try_borrow(preferred))?;
        Counters::count(&call.counters().borrowed);
        Some(call)
    }

    /// Takes any slot that is not taken, from the preferred one on.
    fn try_borrow(&self, preferred: u32) -> Option<Call<'_>> {
        let count = u32::from(self.tokens());
        let mut others = (0..count).map(|step| (preferred + step) % count);
        others.find_map(|index| {
            // A look first: an exchange would take the line away from a thread that works.
            let taken = &self.slots[index as usize].taken;
            let is_taken = taken.load(Ordering::Relaxed);
            if is_taken {
                None
            } else {
                self.try_enter(index)
            }
        })
    }

    /// Takes the slot for maintenance. Returns `None` if another thread had it for too long.
    pub(crate) fn enter_maintenance(&self) -> Option<Call<'_>> {
        let index = u32::from(self.tokens());
        retry(LONGEST_WAIT, || self.try_enter(index))
    }

    /// Ends a call: parks its token if a thread is short of memory.
    #[inline]
    pub(crate) fn finish(&self, mut call: Call<'_>, system: &impl FrameAllocator<Machine>) {
        // Relaxed: a thread that is short counts itself before it takes each slot in turn. If this call took its slot
        // after that, the exchanges of the slot order the count before this load.
        if self.is_short() {
            system.park(&mut call.token);
        }
    }

    /// Returns `true` if a thread is short of memory at this moment.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed) != 0
    }

    /// Parks the token of a slot, if the slot becomes free in time. Returns whether it did.
    fn park(&self, index: u32, limit: Duration, system: &impl FrameAllocator<Machine>) -> bool {
        let call = retry(limit, || self.try_enter(index));
        let parked = call.map(|mut call| system.park(&mut call.token));
        parked.is_some()
    }

    /// Drains and parks the tokens of all threads that are not in a call at this moment.
    pub(crate) fn drain_idle(&self, system: &impl FrameAllocator<Machine>) {
        let idle = |index| self.try_enter(index);
        for mut call in (0..u32::from(self.tokens())).filter_map(idle) {
            system.drain(&mut call.token);
            system.park(&mut call.token);
        }
    }

    /// Calls `then` while every token is parked, or used by a call that parks it when it ends. The caller has no slot.
    ///
    /// Returns also whether every token was parked: a call that went on for too long may have kept free pages.
    pub(crate) fn while_short<T>(
        &self,
        system: &impl FrameAllocator<Machine>,
        then: impl FnOnce() -> T,
    ) -> (T, bool) {
        self.short.fetch_add(1, Ordering::Relaxed);
        let mut all_parked = true;
        for index in 0..self.slots.len() as u32 {
            all_parked &= self.park(index, LONGEST_SWEEP, system);
        }
        let result = then();
        self.short.fetch_sub(1, Ordering::Relaxed);
        (result, all_parked)
    }
}

/// Repeats `attempt` until it succeeds, or `limit` is over. With a limit of zero there is one attempt.
fn retry<T>(limit: Duration, attempt: impl Fn() -> Option<T>) -> Option<T> {
    let mut until = None;
    let mut attempts = 0;
    loop {
        let result = attempt();
        if result.is_some() || limit.is_zero() {
            return result;
        }
        // The first attempts are over before the clock has been read.
        if attempts >= SPINS {
            let now = Instant::now();
            if now > *until.get_or_insert(now + limit) {
                return None;
            }
        }
        Yield::pause(attempts);
        attempts = attempts.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy::systems::{Options, build, layout};
    use everybuddy::{Everybuddy, FrameRange, Memory, Pfn, Request, Setup};
    use std::mem::MaybeUninit;

    #[test]
    fn a_slot_has_one_token_and_a_taken_one_is_replaced_by_another() {
        let slots = Slots::new(2);
        let first = slots.enter(1).unwrap();
        let second = slots.enter(1).unwrap();
        assert_eq!((first.token.id(), second.token.id()), (CpuId(1), CpuId(0)));
        assert!(slots.try_borrow(1).is_none(), "all are taken");
        drop(first);
        assert_eq!(slots.enter(0).unwrap().token.id(), CpuId(1));
        assert_eq!(slots.total(|counters| &counters.borrowed), 2);
        assert_eq!(slots.enter_maintenance().unwrap().token.id(), CpuId(2));
    }

    #[test]
    fn calls_park_their_token_while_a_thread_is_short_and_only_then() {
        let ranges = [FrameRange::new(Pfn(0), 4096)];
        let setup = Setup::new(&ranges, 3);
        let bytes = layout::<Everybuddy, Machine>(&Options::NONE, &setup).unwrap();
        let mut memory = vec![MaybeUninit::uninit(); Memory::room(bytes)];
        let memory = Memory::new(&mut memory);
        let system = build::<Everybuddy, Machine>(&Options::NONE, &setup, memory).unwrap();
        let slots = Slots::new(2);
        let call = |index| {
            let mut call = slots.enter(index).unwrap();
            system.allocate(&mut call.token, Request::FRAME).unwrap();
            slots.finish(call, system);
        };
        let is_parked = |index| {
            let mut call = slots.enter(0).unwrap();
            system.drain_parked(&mut call.token, CpuId(index)).is_ok()
        };
        call(1);
        assert!(!is_parked(1));
        slots.while_short(system, || {
            assert!(is_parked(1), "by the thread that is short");
            call(1);
            assert!(is_parked(1), "by its own call");
        });
        call(1);
        assert!(!is_parked(1));
        slots.drain_idle(system);
        assert!(is_parked(1));
    }

    #[test]
    fn threads_are_spread_over_the_slots() {
        let slots = Slots::new(3);
        let mut joined: Vec<u32> = (0..6).map(|_| slots.join()).collect();
        assert_eq!(slots.threads(), 6);
        joined.sort_unstable();
        assert_eq!(joined, [0, 0, 1, 1, 2, 2]);
    }
}
