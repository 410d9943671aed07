//! The pool of buddy spaces: which CPU has which space, and which spaces are available.
//!
//! # Purpose
//!
//! A CPU whose space has run out needs another one immediately, without a search through 8,192 spaces. Unassigned
//! spaces are therefore kept in lists by the largest block that they can provide, with one bit per list that is not
//! empty.
//!
//! # Source
//!
//! \[iBuddy\] §5: the four states of a space, and the policy that selects one.
//!
//! # Invariants
//!
//! Everything here is written under the pool's lock. A space's state leaves `ASSIGNED`, and changes between the
//! unassigned states, only while the space's own lock is held too. A CPU that holds a space's lock and reads
//! `ASSIGNED` can therefore rely on it. A space is in at most one list, and in none while it is assigned or has no
//! free block. `users` counts the CPUs to which a space is assigned.
//!
//! Lock order: a space's lock, then the pool's. A CPU never holds the locks of two spaces.
//!
//! # Design decisions
//!
//! The paper says only that partly used spaces come first. Lists are last in, first out. Among the partly used
//! spaces, the pool selects one whose largest block is the smallest that suffices, so that larger blocks stay whole.
//! It prefers a largest block of at least eight frames: where frames are freed at random, a space that gained one
//! frame would be exchanged after one request. If all largest blocks are smaller, it selects the space with the
//! largest one.

use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::error::BuildError;
use crate::frame::Order;
use crate::lock::{Guard, LockKind, ZoneLock};
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

/// Which unassigned space is preferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// `select=used`: partly used spaces before free ones, as in \[iBuddy\] §5.
    #[default]
    Used,
    /// `select=fresh`: free spaces before partly used ones, as \[Spring\] describes iBuddy.
    Fresh,
}

/// Which requests exchange a CPU's space that cannot serve them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// `exchange=any`: all requests, as in \[iBuddy\] §5, algorithm 1.
    #[default]
    Any,
    /// `exchange=single`: requests for single frames, and nested ones. A larger block comes from an unassigned space,
    /// and the CPU keeps its own.
    Single,
}

/// No space.
pub(crate) const NO_SPACE: u32 = u32::MAX;

/// A space's state: the number of a list, or one of the two constants below.
pub(crate) type State = u32;
/// Assigned to at least one CPU; in no list.
pub(crate) const ASSIGNED: State = u32::MAX;
/// No free block; in no list.
pub(crate) const FULL: State = u32::MAX - 1;
/// All frames are free, and the space can provide a largest block: the last list. The others are numbered by the
/// order of the largest free block.
pub(crate) const FREE: State = 31;

/// The pool's record of a space.
#[repr(C)]
struct Entry<P: Platform> {
    state: P::AtomicU32,
    users: P::Cell<u32>,
    previous: P::Cell<u32>,
    next: P::Cell<u32>,
}

/// The pool's head, on a cache line of its own.
#[repr(C, align(64))]
struct Head<P: Platform> {
    lock: ZoneLock<P>,
    /// One bit for each list that is not empty.
    filled: P::Cell<u32>,
    /// The number of assignments so far, modulo 2^32. If it is the same in two reads, no space was assigned in
    /// between.
    moves: P::AtomicU32,
}

/// The pool.
pub(crate) struct Pool<'a, P: Platform> {
    head: &'a Head<P>,
    lists: &'a [P::Cell<u32>],
    entries: &'a [Entry<P>],
    /// The space of each CPU. Only that CPU changes its own entry.
    assigned: &'a [CachePadded<P::AtomicU32>],
    select: Select,
    /// The least order whose requests leave a CPU its space.
    kept_from: u32,
}

const LISTS: usize = 32;

/// Lists of spaces that serve more than a few requests: the largest free block has eight frames or more.
const WORTHWHILE: u32 = u32::MAX << 3;

impl<'a, P: Platform> Pool<'a, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, spaces: u32, cpus: u16) -> ArenaPlan {
        plan.slice::<Head<P>>(1)
            .slice::<P::Cell<u32>>(LISTS)
            .slice::<Entry<P>>(spaces as usize)
            .slice::<CachePadded<P::AtomicU32>>(usize::from(cpus))
    }

    /// Creates a pool of spaces without free blocks.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        spaces: u32,
        cpus: u16,
        lock: LockKind,
        (select, exchange): (Select, Exchange),
    ) -> Result<Self, BuildError> {
        Ok(Self {
            head: arena.one(
                "head of the pool of spaces",
                Head {
                    lock: ZoneLock::new(lock),
                    filled: P::Cell::new(0),
                    moves: P::AtomicU32::new(0),
                },
            )?,
            lists: arena.slice("list of spaces", LISTS, |_| P::Cell::new(NO_SPACE))?,
            entries: arena.slice("entry of a space", spaces as usize, |_| Entry {
                state: P::AtomicU32::new(FULL),
                users: P::Cell::new(0),
                previous: P::Cell::new(NO_SPACE),
                next: P::Cell::new(NO_SPACE),
            })?,
            assigned: arena.slice("space of a CPU", usize::from(cpus), |_| {
                CachePadded::new(P::AtomicU32::new(NO_SPACE))
            })?,
            select,
            kept_from: match exchange {
                Exchange::Any => u32::MAX,
                Exchange::Single => 1,
            },
        })
    }

    /// Returns `true` if a CPU keeps its space although the space cannot serve a request of this order.
    #[inline(always)]
    pub(crate) fn keeps_space(&self, order: Order) -> bool {
        u32::from(order.get()) >= self.kept_from
    }

    /// Acquires the pool's lock; a nested caller only tries.
    pub(crate) fn enter<'c>(
        &'c self,
        probe: &'c mut P::Probe,
        nested: bool,
    ) -> Option<Guard<'c, P>> {
        match nested {
            true => Guard::try_lock(&self.head.lock, probe),
            false => Some(Guard::lock(&self.head.lock, probe)),
        }
    }

    /// Returns the space of a CPU, or [`NO_SPACE`].
    #[inline]
    pub(crate) fn of(&self, cpu: usize) -> u32 {
        // Relaxed: a hint. Any CPU that holds the lock of a space may use the space.
        self.assigned
            .get(cpu)
            .map_or(NO_SPACE, |own| own.load(Ordering::Relaxed))
    }

    /// Returns the number of CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.assigned.len()
    }

    /// Returns a space's state. Exact if it is [`ASSIGNED`] and the caller holds the space's lock.
    #[inline]
    pub(crate) fn state(&self, space: u32) -> State {
        self.entries
            .get(space as usize)
            .map_or(FULL, |entry| entry.state.load(Ordering::Relaxed))
    }

    /// Returns the number of assignments so far.
    pub(crate) fn moves(&self) -> u32 {
        // Acquire: pairs with the release in `moved`.
        self.head.moves.load(Ordering::Acquire)
    }

    /// Counts an assignment. Under the pool's lock.
    fn moved(&self) {
        // Release: pairs with the acquire in `moves`.
        self.head.moves.fetch_add(1, Ordering::Release);
    }

    /// Finds an unassigned space that can provide a block of `order`. O(1), under the pool's lock.
    pub(crate) fn candidate(&self, order: Order) -> Option<u32> {
        let filled = self.head.filled.get();
        let used = filled & !(1 << FREE) & (u32::MAX << order.get());
        let free = filled & 1 << FREE;
        let list = match (used, free, self.select) {
            (0, 0, _) => return None,
            (0, ..) => FREE,
            (_, 1.., Select::Fresh) => FREE,
            _ => match used & WORTHWHILE {
                0 => used.ilog2(),
                worthwhile => worthwhile.trailing_zeros(),
            },
        };
        let space = self.lists.get(list as usize)?.get();
        (space != NO_SPACE).then_some(space)
    }

    /// Assigns a space that is unassigned, or that other CPUs share, to a CPU that has none. Under the pool's lock.
    pub(crate) fn assign(&self, cpu: usize, space: u32) {
        let Some(entry) = self.entries.get(space as usize) else {
            return;
        };
        self.unlist(space);
        // Relaxed: written under the pool's lock; readers without it treat the value as a hint.
        entry.state.store(ASSIGNED, Ordering::Relaxed);
        entry.users.set(entry.users.get() + 1);
        if let Some(own) = self.assigned.get(cpu) {
            own.store(space, Ordering::Relaxed);
        }
        self.moved();
    }

    /// Withdraws a CPU's space. Returns `true` if no other CPU has it, so that its state must be
    /// [`settle`](Self::settle)d. Under the pool's lock and the space's.
    pub(crate) fn release(&self, cpu: usize, space: u32) -> bool {
        let (Some(own), Some(entry)) = (self.assigned.get(cpu), self.entries.get(space as usize))
        else {
            return false;
        };
        // Relaxed: as in `assign`. A nested request may have changed it.
        if own.load(Ordering::Relaxed) != space {
            return false;
        }
        own.store(NO_SPACE, Ordering::Relaxed);
        entry.users.set(entry.users.get() - 1);
        self.moved();
        if entry.users.get() > 0 {
            return false;
        }
        entry.state.store(FULL, Ordering::Relaxed);
        true
    }

    /// Adds an unassigned space to the list of its state. Under the pool's lock and the space's.
    pub(crate) fn settle(&self, space: u32, state: State) {
        let Some(entry) = self.entries.get(space as usize) else {
            return;
        };
        if entry.state.load(Ordering::Relaxed) == ASSIGNED {
            return;
        }
        self.unlist(space);
        entry.state.store(state, Ordering::Relaxed);
        let Some(list) = self.lists.get(state as usize) else {
            return;
        };
        let old = list.get();
        entry.previous.set(NO_SPACE);
        entry.next.set(old);
        if let Some(old) = self.entries.get(old as usize) {
            old.previous.set(space);
        }
        list.set(space);
        let filled = &self.head.filled;
        filled.set(filled.get() | 1 << state);
    }

    /// Removes a space from its list, if it is in one.
    fn unlist(&self, space: u32) {
        let Some(entry) = self.entries.get(space as usize) else {
            return;
        };
        let state = entry.state.load(Ordering::Relaxed);
        let Some(list) = self.lists.get(state as usize) else {
            return;
        };
        let (previous, next) = (entry.previous.get(), entry.next.get());
        if let Some(next) = self.entries.get(next as usize) {
            next.previous.set(previous);
        }
        match self.entries.get(previous as usize) {
            Some(previous) => previous.next.set(next),
            None => list.set(next),
        }
        if list.get() == NO_SPACE {
            let filled = &self.head.filled;
            filled.set(filled.get() & !(1 << state));
        }
        entry.state.store(FULL, Ordering::Relaxed);
    }

    /// Checks lists, bits and users while no CPU works. `expected` returns the state that an unassigned space should
    /// have.
    pub(crate) fn check(&self, expected: impl Fn(u32) -> State) -> Result<(), (u32, &'static str)> {
        let mut listed = 0;
        for (state, list) in self.lists.iter().enumerate() {
            let state = state as u32;
            if (self.head.filled.get() >> state & 1 == 1) != (list.get() != NO_SPACE) {
                return Err((list.get(), "a list of spaces and its bit disagree"));
            }
            let (mut previous, mut at) = (NO_SPACE, list.get());
            while let Some(entry) = self.entries.get(at as usize) {
                if entry.state.load(Ordering::Relaxed) != state || entry.previous.get() != previous
                {
                    return Err((at, "a space is in a list that is not its state's"));
                }
                listed += 1;
                if listed > self.entries.len() {
                    return Err((at, "a list of spaces has a cycle"));
                }
                (previous, at) = (at, entry.next.get());
            }
        }
        let mut to_list = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            let (space, state) = (index as u32, entry.state.load(Ordering::Relaxed));
            let users = self
                .assigned
                .iter()
                .filter(|own| own.load(Ordering::Relaxed) == space);
            if users.count() != entry.users.get() as usize
                || (entry.users.get() > 0) != (state == ASSIGNED)
            {
                return Err((space, "a space's users are miscounted"));
            }
            if state != ASSIGNED && state != expected(space) {
                return Err((space, "a space is not in the list of what it can give"));
            }
            to_list += usize::from((state as usize) < LISTS);
        }
        match to_list == listed {
            true => Ok(()),
            false => Err((
                0,
                "a space is lost: it has something to give, and is in no list",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Memory;
    use crate::platform::Native;
    use core::mem::MaybeUninit;
    use std::vec;

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    /// Calls `test` with a pool in which the spaces 0, 1, 2, ... have these states.
    fn with_pool(select: Select, states: &[State], test: impl FnOnce(&Pool<'_, Native>)) {
        let spaces = states.len() as u32;
        let plan = Pool::<Native>::plan(ArenaPlan::default(), spaces, 2);
        let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
        let mut arena = Arena::new(Memory::new(&mut memory));
        let choice = (select, Exchange::Any);
        let pool = Pool::new(&mut arena, spaces, 2, LockKind::Spin, choice).unwrap();
        for (space, state) in (0..).zip(states) {
            pool.settle(space, *state);
        }
        assert_eq!(pool.check(|space| states[space as usize]), Ok(()));
        test(&pool);
    }

    /// Returns the space that is selected for an order.
    fn selected(select: Select, states: &[State], wanted: u8) -> Option<u32> {
        let mut found = None;
        with_pool(select, states, |pool| found = pool.candidate(order(wanted)));
        found
    }

    #[test]
    fn partly_used_spaces_come_first_and_free_ones_with_select_fresh() {
        let states = [FREE, 4, FULL, FREE];
        assert_eq!(selected(Select::Used, &states, 0), Some(1));
        assert_eq!(selected(Select::Used, &states, 4), Some(1));
        // The last free space that was listed.
        assert_eq!(selected(Select::Fresh, &states, 0), Some(3));
        for select in [Select::Used, Select::Fresh] {
            // Only a free space has a block that is large enough; then only a used one is left; then none.
            assert_eq!(selected(select, &states, 5), Some(3));
            assert_eq!(selected(select, &[4, FULL], 4), Some(0));
            assert_eq!(selected(select, &[4, FULL], 5), None);
            assert_eq!(selected(select, &[FULL], 0), None);
            assert_eq!(selected(select, &[FREE], 18), Some(0));
        }
    }

    #[test]
    fn among_partly_used_spaces_the_smallest_block_of_eight_frames_or_more_is_used_up_first() {
        let used = |states: &[State], wanted| selected(Select::Used, states, wanted);
        assert_eq!(used(&[9, 5, 3, 2, 0], 0), Some(2));
        assert_eq!(used(&[9, 5, 3, 2, 0], 4), Some(1));
        assert_eq!(used(&[9, 5, 3, 2, 0], 6), Some(0));
        // Below eight frames, the largest.
        assert_eq!(used(&[0, 2, 1], 0), Some(1));
        assert_eq!(used(&[0, 1, FREE], 0), Some(1));
        assert_eq!(used(&[0, 1, FREE], 2), Some(2));
        // Last in, first out.
        assert_eq!(used(&[3, 3, 3], 0), Some(2));
    }

    #[test]
    fn an_assigned_space_is_not_selected_until_its_last_user_releases_it() {
        with_pool(Select::Used, &[3, FREE], |pool| {
            pool.assign(0, 0);
            assert_eq!((pool.of(0), pool.state(0)), (0, ASSIGNED));
            assert_eq!(pool.candidate(Order::ZERO), Some(1));
            pool.assign(1, 0);
            assert!(!pool.release(0, 0), "the other CPU has it");
            pool.settle(0, 3);
            assert_eq!(pool.candidate(Order::ZERO), Some(1));
            assert!(pool.release(1, 0));
            pool.settle(0, 3);
            assert_eq!(pool.candidate(Order::ZERO), Some(0));
        });
    }
}
