//! The pool of buddy spaces: which CPU has which space, and which spaces are available.
//!
//! # Purpose
//!
//! A CPU whose space has run out needs another one immediately, without a search through 8,192 spaces. Unassigned
//! spaces are therefore kept in lists by the largest block that they can provide, with one bit per list that is not
//! empty. A free that changes the largest block of an unassigned space moves the space to another list; on many CPUs
//! this happens often. The pool therefore has *shards*: runs of consecutive spaces with lists and a lock of their own.
//!
//! # Source
//!
//! \[iBuddy\] §5: the four states of a space, and the policy that selects one.
//!
//! # Invariants
//!
//! Everything about a space is written under the lock of its shard. A space's state leaves `ASSIGNED`, and changes
//! between the unassigned states, only while the space's own lock is held too. A CPU that holds a space's lock and
//! reads `ASSIGNED` can therefore rely on it. A space is in at most one list, and in none while it is assigned or has
//! no free block. `users` counts the CPUs to which a space is assigned.
//!
//! Lock order: a space's lock, then those of shards, in the order of their numbers. A CPU never holds the locks of two
//! spaces. An exchange holds the locks of both spaces' shards, so a CPU that searches one shard after the other
//! misses a space only if [`moves`](Pool::moves) has changed.
//!
//! # Design decisions
//!
//! The paper says only that partly used spaces come first. It does not say how the pool is protected. One shard for
//! eight CPUs is enough: with one shard for all, simulated machines spend most of their time with memory on its lock
//! from 64 CPUs on. A CPU prefers the spaces of its home shard. Lists are last in, first out. Among the partly used
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

/// The head of a shard: its lock and bits are on a cache line of its own.
#[repr(C, align(64))]
struct Head<P: Platform> {
    lock: ZoneLock<P>,
    /// One bit for each list that is not empty.
    filled: P::Cell<u32>,
    /// The first space of each list.
    lists: [P::Cell<u32>; LISTS],
}

/// The pool's record of a CPU. Only that CPU writes it.
struct Own<P: Platform> {
    /// Its space, or [`NO_SPACE`].
    space: P::AtomicU32,
    /// How often it was assigned a space or lost one, modulo 2^32.
    moves: P::AtomicU32,
}

/// The pool.
pub(crate) struct Pool<'a, P: Platform> {
    /// The shards, by number.
    heads: &'a [Head<P>],
    entries: &'a [Entry<P>],
    assigned: &'a [CachePadded<Own<P>>],
    /// Spaces of a shard, as a power of two.
    shift: u32,
    select: Select,
    /// The least order whose requests leave a CPU its space.
    kept_from: u32,
}

const LISTS: usize = 32;

/// CPUs for each shard.
const CPUS_PER_SHARD: u32 = 8;
/// The least number of spaces for each shard.
const SPACES_PER_SHARD: u32 = 8;

/// How many shards a pool has, and how many spaces each of them has, as a power of two.
#[derive(Clone, Copy)]
struct Shards {
    count: u32,
    shift: u32,
}

impl Shards {
    /// Divides spaces among `wanted` shards, or one for eight CPUs. There may be fewer: a shard has a power of two of
    /// spaces.
    fn new(spaces: u32, cpus: u16, wanted: Option<u32>) -> Self {
        let wanted = match wanted {
            Some(wanted) => wanted,
            None => (u32::from(cpus) / CPUS_PER_SHARD).min(spaces / SPACES_PER_SHARD),
        };
        let most = u64::from(spaces.div_ceil(wanted.max(1)).max(1));
        let shift = most.next_power_of_two().trailing_zeros().min(31);
        let count = (spaces >> shift) + u32::from(spaces & ((1 << shift) - 1) > 0);
        Self {
            count: count.max(1),
            shift,
        }
    }
}

/// Lists of spaces that serve more than a few requests: the largest free block has eight frames or more.
const WORTHWHILE: u32 = u32::MAX << 3;

impl<'a, P: Platform> Pool<'a, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, spaces: u32, cpus: u16, shards: Option<u32>) -> ArenaPlan {
        let shards = Shards::new(spaces, cpus, shards).count as usize;
        plan.slice::<Head<P>>(shards)
            .slice::<Entry<P>>(spaces as usize)
            .slice::<CachePadded<Own<P>>>(usize::from(cpus))
    }

    /// Creates a pool of spaces without free blocks.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        spaces: u32,
        cpus: u16,
        lock: LockKind,
        (select, exchange, shards): (Select, Exchange, Option<u32>),
    ) -> Result<Self, BuildError> {
        let Shards { count, shift } = Shards::new(spaces, cpus, shards);
        let count = count as usize;
        Ok(Self {
            heads: arena.slice("head of the pool of spaces", count, |_| Head {
                lock: ZoneLock::new(lock),
                filled: P::Cell::new(0),
                lists: core::array::from_fn(|_| P::Cell::new(NO_SPACE)),
            })?,
            entries: arena.slice("entry of a space", spaces as usize, |_| Entry {
                state: P::AtomicU32::new(FULL),
                users: P::Cell::new(0),
                previous: P::Cell::new(NO_SPACE),
                next: P::Cell::new(NO_SPACE),
            })?,
            assigned: arena.slice("space of a CPU", usize::from(cpus), |_| {
                CachePadded::new(Own {
                    space: P::AtomicU32::new(NO_SPACE),
                    moves: P::AtomicU32::new(0),
                })
            })?,
            shift,
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

    /// Returns the shard of a space.
    pub(crate) fn shard_of(&self, space: u32) -> usize {
        (space >> self.shift) as usize
    }

    /// Returns all shards, the home of a CPU first.
    pub(crate) fn shards_from(&self, cpu: usize) -> impl Iterator<Item = usize> + use<P> {
        let count = self.heads.len();
        // Neighbours have the same home: they are near each other, and so are the lines that they share.
        let home = cpu * count / self.assigned.len().max(1);
        let home = home.min(count.saturating_sub(1));
        (home..count).chain(0..home)
    }

    /// Acquires the lock of a shard; a nested caller only tries.
    pub(crate) fn enter<'c>(
        &'c self,
        shard: usize,
        probe: &'c mut P::Probe,
        nested: bool,
    ) -> Option<Guard<'c, P>> {
        let lock = &self.heads.get(shard)?.lock;
        match nested {
            true => Guard::try_lock(lock, probe),
            false => Some(Guard::lock(lock, probe)),
        }
    }

    /// Returns the space of a CPU, or [`NO_SPACE`].
    #[inline]
    pub(crate) fn of(&self, cpu: usize) -> u32 {
        // Relaxed: a hint. Any CPU that holds the lock of a space may use the space.
        self.assigned
            .get(cpu)
            .map_or(NO_SPACE, |own| own.space.load(Ordering::Relaxed))
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

    /// Returns how often spaces were assigned or withdrawn so far, modulo 2^32. If it is the same in two reads, no
    /// space changed hands in between. O(CPUs).
    pub(crate) fn moves(&self) -> u32 {
        // Acquire: pairs with the release in `moved`.
        let of = |own: &CachePadded<Own<P>>| own.moves.load(Ordering::Acquire);
        self.assigned.iter().map(of).fold(0, u32::wrapping_add)
    }

    /// Counts an assignment or withdrawal. Under the lock of the space's shard.
    fn moved(own: &Own<P>) {
        // Release: pairs with the acquire in `moves`.
        own.moves.fetch_add(1, Ordering::Release);
    }

    /// Returns `true` if a shard seems to have an unassigned space that can provide a block of `order`. A hint, for
    /// callers without the shard's lock.
    pub(crate) fn may_serve(&self, shard: usize, order: Order) -> bool {
        let filled = self.heads.get(shard).map_or(0, |head| head.filled.peek());
        filled & (u32::MAX << order.get()) != 0
    }

    /// Finds an unassigned space of a shard that can provide a block of `order`. O(1), under the shard's lock.
    pub(crate) fn candidate(&self, shard: usize, order: Order) -> Option<u32> {
        let head = self.heads.get(shard)?;
        let filled = head.filled.get();
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
        let space = head.lists.get(list as usize)?.get();
        (space != NO_SPACE).then_some(space)
    }

    /// Assigns a space that is unassigned, or that other CPUs share, to a CPU that has none. Under the lock of the
    /// space's shard.
    pub(crate) fn assign(&self, cpu: usize, space: u32) {
        let Some(entry) = self.entries.get(space as usize) else {
            return;
        };
        self.unlist(space);
        // Relaxed: written under the shard's lock; readers without it treat the value as a hint.
        entry.state.store(ASSIGNED, Ordering::Relaxed);
        entry.users.set(entry.users.get() + 1);
        if let Some(own) = self.assigned.get(cpu) {
            own.space.store(space, Ordering::Relaxed);
            Self::moved(own);
        }
    }

    /// Withdraws a CPU's space. Returns `true` if no other CPU has it, so that its state must be
    /// [`settle`](Self::settle)d. Under the space's lock and its shard's.
    pub(crate) fn release(&self, cpu: usize, space: u32) -> bool {
        let (Some(own), Some(entry)) = (self.assigned.get(cpu), self.entries.get(space as usize))
        else {
            return false;
        };
        // Relaxed: as in `assign`. A nested request may have changed it.
        if own.space.load(Ordering::Relaxed) != space {
            return false;
        }
        own.space.store(NO_SPACE, Ordering::Relaxed);
        entry.users.set(entry.users.get() - 1);
        Self::moved(own);
        if entry.users.get() > 0 {
            return false;
        }
        entry.state.store(FULL, Ordering::Relaxed);
        true
    }

    /// Returns a space's shard, and the list of a state in it.
    fn list(&self, space: u32, state: State) -> Option<(&Head<P>, &P::Cell<u32>)> {
        let head = self.heads.get(self.shard_of(space))?;
        Some((head, head.lists.get(state as usize)?))
    }

    /// Adds an unassigned space to the list of its state. Under the space's lock and its shard's.
    pub(crate) fn settle(&self, space: u32, state: State) {
        let Some(entry) = self.entries.get(space as usize) else {
            return;
        };
        if entry.state.load(Ordering::Relaxed) == ASSIGNED {
            return;
        }
        self.unlist(space);
        entry.state.store(state, Ordering::Relaxed);
        let Some((head, list)) = self.list(space, state) else {
            return;
        };
        let old = list.get();
        entry.previous.set(NO_SPACE);
        entry.next.set(old);
        if let Some(old) = self.entries.get(old as usize) {
            old.previous.set(space);
        }
        list.set(space);
        head.filled.set(head.filled.get() | 1 << state);
    }

    /// Removes a space from its list, if it is in one.
    fn unlist(&self, space: u32) {
        let Some(entry) = self.entries.get(space as usize) else {
            return;
        };
        let state = entry.state.load(Ordering::Relaxed);
        let Some((head, list)) = self.list(space, state) else {
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
            head.filled.set(head.filled.get() & !(1 << state));
        }
        entry.state.store(FULL, Ordering::Relaxed);
    }

    /// Checks lists, bits and users while no CPU works. `expected` returns the state that an unassigned space should
    /// have.
    pub(crate) fn check(&self, expected: impl Fn(u32) -> State) -> Result<(), (u32, &'static str)> {
        let mut listed = 0;
        let lists = self.heads.iter().enumerate().flat_map(|(shard, head)| {
            let lists = (0..).zip(&head.lists);
            lists.map(move |(state, list)| (shard, head, state, list))
        });
        for (shard, head, state, list) in lists {
            if (head.filled.get() >> state & 1 == 1) != (list.get() != NO_SPACE) {
                return Err((list.get(), "a list of spaces and its bit disagree"));
            }
            let (mut previous, mut at) = (NO_SPACE, list.get());
            while let Some(entry) = self.entries.get(at as usize) {
                if entry.state.load(Ordering::Relaxed) != state
                    || entry.previous.get() != previous
                    || self.shard_of(at) != shard
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
                .filter(|own| own.space.load(Ordering::Relaxed) == space);
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
        with_shards(select, (2, None), states, test);
    }

    /// The same, with a number of CPUs and one of shards.
    fn with_shards(
        select: Select,
        (cpus, shards): (u16, Option<u32>),
        states: &[State],
        test: impl FnOnce(&Pool<'_, Native>),
    ) {
        let spaces = states.len() as u32;
        let plan = Pool::<Native>::plan(ArenaPlan::default(), spaces, cpus, shards);
        let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
        let mut arena = Arena::new(Memory::new(&mut memory));
        let choice = (select, Exchange::Any, shards);
        let pool = Pool::new(&mut arena, spaces, cpus, LockKind::Spin, choice).unwrap();
        for (space, state) in (0..).zip(states) {
            pool.settle(space, *state);
        }
        assert_eq!(pool.check(|space| states[space as usize]), Ok(()));
        test(&pool);
    }

    /// Returns the space that is selected for an order.
    fn selected(select: Select, states: &[State], wanted: u8) -> Option<u32> {
        let mut found = None;
        with_pool(select, states, |pool| {
            found = pool.candidate(0, order(wanted))
        });
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
            assert_eq!(pool.candidate(0, Order::ZERO), Some(1));
            pool.assign(1, 0);
            assert!(!pool.release(0, 0), "the other CPU has it");
            pool.settle(0, 3);
            assert_eq!(pool.candidate(0, Order::ZERO), Some(1));
            assert!(pool.release(1, 0));
            pool.settle(0, 3);
            assert_eq!(pool.candidate(0, Order::ZERO), Some(0));
        });
    }

    #[test]
    fn spaces_are_divided_among_shards() {
        let shards = |spaces: u32, cpus, wanted| {
            let Shards { count, shift } = Shards::new(spaces, cpus, wanted);
            assert!(u64::from(count) << shift >= u64::from(spaces));
            assert!(
                spaces == 0 || (count - 1) << shift < spaces,
                "the last shard has a space"
            );
            count
        };
        // One for eight CPUs, with eight spaces or more.
        assert_eq!(shards(2048, 15, None), 1);
        assert_eq!(shards(2048, 16, None), 2);
        assert_eq!(shards(2048, 64, None), 8);
        assert_eq!(shards(16, 64, None), 2);
        assert_eq!(shards(7, 64, None), 1);
        assert_eq!(shards(0, 64, None), 1);
        // 1,100 spaces in five shards of 256.
        assert_eq!(shards(1100, 64, None), 5);
        assert_eq!(shards(2048, 64, Some(1)), 1);
        assert_eq!(shards(3, 1, Some(3)), 3);
        assert_eq!(shards(3, 1, Some(1000)), 3);
        assert_eq!(shards(u32::MAX, 1, None), 2);
    }

    #[test]
    fn a_space_is_in_the_lists_of_its_shard() {
        let states = [FREE, FULL, 3, FULL];
        with_shards(Select::Used, (2, Some(2)), &states, |pool| {
            assert_eq!(pool.candidate(0, Order::ZERO), Some(0));
            assert_eq!(pool.candidate(1, Order::ZERO), Some(2));
            assert_eq!(pool.candidate(1, order(4)), None);
            assert!(pool.may_serve(1, order(3)) && !pool.may_serve(1, order(4)));
            assert!(pool.may_serve(0, order(4)), "by the free space");
            assert_eq!(pool.shards_from(1).collect::<vec::Vec<_>>(), [1, 0]);
            let before = pool.moves();
            pool.assign(1, 2);
            assert_ne!(pool.moves(), before);
            assert_eq!(pool.candidate(1, Order::ZERO), None);
            assert!(!pool.may_serve(1, Order::ZERO));
            let before = pool.moves();
            assert!(pool.release(1, 2));
            assert_ne!(pool.moves(), before);
            pool.settle(2, 7);
            assert_eq!(pool.candidate(1, order(7)), Some(2));
        });
    }

    #[test]
    fn neighbours_have_the_same_home_and_search_every_shard() {
        let homes = |cpus: u16, shards| {
            let mut homes = vec![];
            with_shards(Select::Used, (cpus, Some(shards)), &[FREE; 4], |pool| {
                for cpu in 0..usize::from(cpus) {
                    let mut all: vec::Vec<usize> = pool.shards_from(cpu).collect();
                    homes.push(all[0]);
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..shards as usize), "each shard once");
                }
            });
            homes
        };
        assert_eq!(homes(8, 2), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(homes(6, 4), [0, 0, 1, 2, 2, 3]);
        // More shards than CPUs.
        assert_eq!(homes(2, 4), [0, 2]);
        assert_eq!(homes(1, 4), [0]);
    }
}
