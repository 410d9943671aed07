//! The pool of buddy spaces: which CPU has which space, and which spaces are available.
//!
//! A CPU whose space has run out needs another one immediately, without a search through 8,192 spaces. Unassigned
//! spaces are therefore kept in two lists: one of the partly used spaces and one of the free ones. While the 1,024
//! frames of an unassigned space are freed one by one, the space changes its list twice, so the lock of the lists is
//! acquired twice. On many CPUs that lock is contended all the same, so the pool can have *shards*: runs of consecutive
//! spaces with lists and a lock of their own.
//!
//! # Source
//! \[iBuddy\] §5: the four states of a space, and the policy that selects one.
//!
//! # Invariants
//! A space's state leaves `Assigned`, and changes between the unassigned states, only while the space's own lock is
//! held. A CPU that holds a space's lock and reads `Assigned` can therefore rely on it. Everything about a space is
//! written under the lock of its shard, except for the order of the largest block in the state of a partly used space
//! that stays in its list: that takes an exchange of the state, which fails if the space was assigned meanwhile. A
//! space is in at most one list, and in none while it is assigned or all used. `users` counts the CPUs to which a space
//! is assigned.
//!
//! Lock order: a space's lock, then those of shards, in the order of their numbers. A CPU never holds the locks of two
//! spaces. An exchange holds the locks of both spaces' shards, so a CPU that searches one shard after the other
//! misses a space only if [`moves`](Pool::moves) has changed. A free into an unassigned space that could not serve a
//! request changes it before the free ends.
//!
//! # Design decisions
//! The paper says only that partly used spaces come first. It does not say how the pool is protected: one shard, and so
//! one lock, is the default. With several, a CPU prefers the spaces of its home shard, and takes a free one there even
//! if another shard has a partly used one. Lists are last in, first out.
//!
//! Nor does the paper say what a request for a larger block does: a partly used space may lack such a block. Here a
//! state remembers the order of the largest block, and a request looks at the first eight partly used spaces before it
//! takes a free one. Only if no space is free, it looks at all partly used ones, so that none is refused in vain.
//!
//! # Complexity
//! Everything is O(1), except that a request for more than one frame is O(spaces) while no space is free.

use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::error::BuildError;
use crate::frame::Order;
use crate::lock::{Guard, Locks, ZoneLock};
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
    /// `exchange=never`: none. A CPU prefers the space with its own number modulo the number of spaces, which it may
    /// share: the spaces are instances of the zone, as in Linux's RFC of 2023.
    Never,
}

/// What the options say about a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolOptions {
    pub(crate) select: Select,
    pub(crate) exchange: Exchange,
    pub(crate) shards: u32,
}

/// No space.
pub(crate) const NO_SPACE: u32 = u32::MAX;

/// A space's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Assigned to at least one CPU.
    Assigned,
    /// Unassigned, without a free block.
    Used,
    /// Unassigned, with free blocks: the largest one has this order.
    Partly(Order),
    /// Unassigned: all frames are free, and the space can provide a largest block.
    Free,
}

impl State {
    /// Returns the state as it is stored. The word of a used or partly used space is its structure's
    /// [`level`](crate::structure::Structure::level), so one comparison shows that a space is still in its state.
    #[inline(always)]
    pub(crate) const fn word(self) -> u32 {
        match self {
            State::Used => 0,
            State::Partly(order) => order.index() as u32 + 1,
            State::Free => 32,
            State::Assigned => 33,
        }
    }

    /// Returns the state that is stored as `word`.
    fn of(word: u32) -> Self {
        match word {
            0 => State::Used,
            32 => State::Free,
            33 => State::Assigned,
            level => State::Partly(Order::saturating(level - 1)),
        }
    }

    /// Returns `true` if a partly used space in another state can provide a larger block.
    fn is_less(self, other: State) -> bool {
        matches!((self, other), (State::Partly(own), State::Partly(other)) if own < other)
    }

    /// Returns `true` if an unassigned space in this state can provide a block of `order`.
    fn provides(self, order: Order) -> bool {
        match self {
            State::Partly(largest) => largest >= order,
            State::Free => true,
            State::Used | State::Assigned => false,
        }
    }
}

/// The pool's record of a space. It lies in the space, so that a free into an unassigned space touches no line for it.
#[repr(C)]
pub(crate) struct SpaceRecord<P: Platform> {
    state: P::AtomicU32,
    users: P::Cell<u32>,
    previous: P::Cell<u32>,
    next: P::Cell<u32>,
}

impl<P: Platform> SpaceRecord<P> {
    /// Creates the record of the space with the number `space`, of `spaces`, which has no free block.
    pub(crate) fn new(exchange: Exchange, cpus: u16, space: usize, spaces: u32) -> Self {
        // Fixed spaces are assigned from the start, also where no CPU prefers them.
        let (state, users) = match exchange {
            Exchange::Never => (State::Assigned, share(cpus, space, spaces)),
            _ => (State::Used, 0),
        };
        Self {
            state: P::AtomicU32::new(state.word()),
            users: P::Cell::new(users),
            previous: P::Cell::new(NO_SPACE),
            next: P::Cell::new(NO_SPACE),
        }
    }

    /// Returns the word of the state. If the caller holds the space's lock, it is exact in whether it is that of
    /// [`State::Assigned`].
    #[inline(always)]
    pub(crate) fn word(&self) -> u32 {
        // Relaxed: written under the shard's lock or the space's; readers without one treat the value as a hint.
        self.state.load(Ordering::Relaxed)
    }

    fn state(&self) -> State {
        State::of(self.word())
    }

    fn set_state(&self, state: State) {
        // Relaxed: as in `word`.
        self.state.store(state.word(), Ordering::Relaxed);
    }
}

/// The head of a shard: its lock and bits are on a cache line of its own.
#[repr(C, align(64))]
struct ShardHead<'a, P: Platform> {
    lock: ZoneLock<'a, P>,
    /// One bit for each list that is not empty.
    filled: P::Cell<u32>,
    /// How often a space of the shard became able to serve more, modulo 2^32.
    gains: P::AtomicU32,
    /// The first space of each list.
    lists: [P::Cell<u32>; SPACE_LISTS],
}

/// The pool's record of a CPU. Only that CPU writes it.
struct Own<P: Platform> {
    /// Its space, or [`NO_SPACE`].
    space: P::AtomicU32,
    /// How often it was assigned a space or lost one, modulo 2^32.
    moves: P::AtomicU32,
}

/// The pool of spaces of type `R`, each of which has its record.
pub(crate) struct Pool<'a, P: Platform, R> {
    /// The shards, by number.
    heads: &'a [ShardHead<'a, P>],
    spaces: &'a [R],
    assigned: &'a [CachePadded<Own<P>>],
    /// Spaces of a shard, as a power of two.
    shift: u32,
    select: Select,
    exchange: Exchange,
}

/// The list of partly used spaces.
const PARTLY_USED: usize = 0;
/// The list of free spaces.
const ALL_FREE: usize = 31;
/// The heads of both lists lie at the ends of two cache lines, so that each has a line of its own.
const SPACE_LISTS: usize = 32;

/// How many partly used spaces a request looks at for a large block before it takes a free space.
const LOOKS: usize = 8;

/// Returns how many of the CPUs have a number that is `space` modulo `spaces`.
#[inline]
fn share(cpus: u16, space: usize, spaces: u32) -> u32 {
    let (cpus, spaces) = (u32::from(cpus), spaces.max(1));
    cpus / spaces + u32::from((space as u32) < cpus % spaces)
}

/// How many shards a pool has, and how many spaces each of them has, as a power of two.
#[derive(Clone, Copy)]
struct Shards {
    count: u32,
    shift: u32,
}

impl Shards {
    /// Divides spaces among `wanted` shards. There may be fewer: a shard has a power of two of spaces.
    fn new(spaces: u32, wanted: u32) -> Self {
        let most = u64::from(spaces.div_ceil(wanted.max(1)).max(1));
        let shift = most.next_power_of_two().trailing_zeros().min(31);
        let count = (spaces >> shift) + u32::from(spaces & ((1 << shift) - 1) > 0);
        Self {
            count: count.max(1),
            shift,
        }
    }
}

impl<'a, P: Platform, R: AsRef<SpaceRecord<P>>> Pool<'a, P, R> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, spaces: u32, cpus: u16, shards: u32) -> ArenaPlan {
        let shards = Shards::new(spaces, shards).count as usize;
        plan.slice::<ShardHead<'_, P>>(shards)
            .slice::<CachePadded<Own<P>>>(usize::from(cpus))
    }

    /// Creates a pool of spaces without free blocks.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        spaces: &'a [R],
        cpus: u16,
        locks: Locks<'a, P>,
        options: PoolOptions,
    ) -> Result<Self, BuildError> {
        let PoolOptions {
            select,
            exchange,
            shards,
        } = options;
        let all = spaces.len() as u32;
        let Shards { count, shift } = Shards::new(all, shards);
        let count = count as usize;
        Ok(Self {
            heads: arena.slice("head of the pool of spaces", count, |_| ShardHead {
                lock: ZoneLock::new(locks),
                filled: P::Cell::new(0),
                gains: P::AtomicU32::new(0),
                lists: core::array::from_fn(|_| P::Cell::new(NO_SPACE)),
            })?,
            spaces,
            assigned: arena.slice("space of a CPU", usize::from(cpus), |cpu| {
                CachePadded::new(Own {
                    space: P::AtomicU32::new(match exchange {
                        Exchange::Never => cpu as u32 % all.max(1),
                        _ => NO_SPACE,
                    }),
                    moves: P::AtomicU32::new(0),
                })
            })?,
            shift,
            select,
            exchange,
        })
    }

    /// Returns `true` if every CPU keeps the space that it had from the start. No space is unassigned then.
    #[inline(always)]
    pub(crate) fn is_fixed(&self) -> bool {
        self.exchange == Exchange::Never
    }

    /// Returns `true` if a CPU keeps its space although the space cannot serve a request of this order.
    #[inline(always)]
    pub(crate) fn keeps_space(&self, order: Order) -> bool {
        match self.exchange {
            Exchange::Any => false,
            Exchange::Single => order > Order::ZERO,
            Exchange::Never => true,
        }
    }

    /// Returns the shard of a space.
    pub(crate) fn shard_of(&self, space: u32) -> usize {
        (space >> self.shift) as usize
    }

    /// Returns all shards, the home of a CPU first.
    pub(crate) fn shards_from(&self, cpu: usize) -> impl Iterator<Item = usize> + use<P, R> {
        let count = self.heads.len();
        // Neighbours have the same home: they are near each other, and so are the lines that they share.
        let home = cpu * count / self.assigned.len().max(1);
        let home = home.min(count.saturating_sub(1));
        (home..count).chain(0..home)
    }

    /// Acquires the lock of a shard; a nested caller only tries.
    #[inline(always)]
    pub(crate) fn enter<'c>(
        &'c self,
        shard: usize,
        probe: &'c mut P::Probe,
        nested: bool,
    ) -> Option<Guard<'c, P>> {
        let lock = &self.heads.get(shard)?.lock;
        if nested {
            Guard::try_lock(lock, probe)
        } else {
            Some(Guard::lock(lock, probe))
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

    /// Returns the record of a space.
    #[inline(always)]
    fn record(&self, space: u32) -> Option<&'a SpaceRecord<P>> {
        self.spaces.get(space as usize).map(R::as_ref)
    }

    /// Returns `true` if a space is assigned. Exact if the caller holds the space's lock.
    #[inline(always)]
    pub(crate) fn is_assigned(&self, space: u32) -> bool {
        let assigned = State::Assigned.word();
        self.record(space)
            .is_some_and(|entry| entry.word() == assigned)
    }

    /// Returns how often spaces were assigned or withdrawn so far, or became able to serve more while unassigned,
    /// modulo 2^32. If it is the same in two reads, no space changed hands in between, and no unassigned space became
    /// able to serve more. O(CPUs + shards).
    pub(crate) fn moves(&self) -> u32 {
        // Acquire: pairs with the release in `count_move`.
        let of = |own: &CachePadded<Own<P>>| own.moves.load(Ordering::Acquire);
        // Acquire: pairs with the release in `count_gain`.
        let gains = |head: &ShardHead<'_, P>| head.gains.load(Ordering::Acquire);
        let moves = self.assigned.iter().map(of);
        let all = moves.chain(self.heads.iter().map(gains));
        all.fold(0, u32::wrapping_add)
    }

    /// Counts a change of an unassigned space. Under the space's lock.
    fn count_gain(&self, space: u32) {
        if let Some(head) = self.heads.get(self.shard_of(space)) {
            // Release: pairs with the acquire in `moves`.
            head.gains.fetch_add(1, Ordering::Release);
        }
    }

    /// Counts an assignment or withdrawal. Under the lock of the space's shard.
    fn count_move(own: &Own<P>) {
        // Release: pairs with the acquire in `moves`.
        own.moves.fetch_add(1, Ordering::Release);
    }

    /// Returns `true` if a shard seems to have an unassigned space with a free block, of whatever order. A hint, for
    /// callers without the shard's lock.
    pub(crate) fn may_serve(&self, shard: usize) -> bool {
        self.heads
            .get(shard)
            .is_some_and(|head| head.filled.peek() != 0)
    }

    /// Finds an unassigned space of a shard that can provide a block of `order`. Under the shard's lock. O(1);
    /// O(spaces) for a large block while no space is free.
    pub(crate) fn candidate(&self, shard: usize, order: Order) -> Option<u32> {
        let head = self.heads.get(shard)?;
        let filled = head.filled.get();
        let has_free = filled & 1 << ALL_FREE != 0;
        let used = if has_free && self.select == Select::Fresh {
            None
        } else {
            let looks = if has_free { LOOKS } else { self.spaces.len() };
            self.search(head.lists.get(PARTLY_USED)?.get(), order, looks)
        };
        let space = used.unwrap_or(head.lists.get(ALL_FREE)?.get());
        (space != NO_SPACE).then_some(space)
    }

    /// Returns the first space that can provide a block of `order`, among the first ones of a list.
    fn search(&self, first: u32, order: Order, most: usize) -> Option<u32> {
        let mut at = first;
        for _ in 0..most {
            let entry = self.record(at)?;
            if entry.state().provides(order) {
                return Some(at);
            }
            at = entry.next.get();
        }
        None
    }

    /// Assigns a space that is unassigned, or that other CPUs share, to a CPU that has none. Returns `false`, and does
    /// nothing, if it has one. Under the lock of the space's shard.
    pub(crate) fn assign(&self, cpu: usize, space: u32) -> bool {
        let (Some(own), Some(entry)) = (self.assigned.get(cpu), self.record(space)) else {
            return false;
        };
        // An exchange, and the first step: a nested request on this CPU may come before any access, and assign the CPU
        // a space of another shard. After this step it can do nothing to the space, whose shard is locked. Relaxed: no
        // other CPU writes this word.
        let (none, order) = (NO_SPACE, Ordering::Relaxed);
        let was = own.space.compare_exchange(none, space, order, order);
        if was.is_err() {
            return false;
        }
        self.unlist(space);
        // An exchange, although the old value is known: a CPU with the space's lock alone may be about to replace that
        // value (`stays`), and must then find this one. Relaxed: as in `SpaceRecord::set_state`.
        let assigned = State::Assigned.word();
        let _ = entry.state.swap(assigned, Ordering::Relaxed);
        entry.users.set(entry.users.get() + 1);
        Self::count_move(own);
        true
    }

    /// Withdraws a CPU's space. Returns `true` if no other CPU has it, so that its state must be
    /// [`settle`](Self::settle)d. Under the space's lock and its shard's.
    pub(crate) fn release(&self, cpu: usize, space: u32) -> bool {
        let (Some(own), Some(entry)) = (self.assigned.get(cpu), self.record(space)) else {
            return false;
        };
        // Relaxed: as in `assign`. A nested request may have changed it.
        if own.space.load(Ordering::Relaxed) != space {
            return false;
        }
        own.space.store(NO_SPACE, Ordering::Relaxed);
        entry.users.set(entry.users.get() - 1);
        Self::count_move(own);
        if entry.users.get() > 0 {
            return false;
        }
        entry.set_state(State::Used);
        true
    }

    /// Returns the number of the list of the spaces in a state.
    fn list_of(state: State) -> Option<usize> {
        match state {
            State::Assigned | State::Used => None,
            State::Partly(_) => Some(PARTLY_USED),
            State::Free => Some(ALL_FREE),
        }
    }

    /// Records the state of an unassigned space that stays in its list. Returns `false`, and does nothing, if the space
    /// moves to another list, or is assigned. Under the space's lock.
    pub(crate) fn stays(&self, space: u32, state: State) -> bool {
        let Some(entry) = self.record(space) else {
            return true;
        };
        let known = entry.state();
        if known == State::Assigned || Self::list_of(known) != Self::list_of(state) {
            return false;
        }
        let (old, new) = (known.word(), state.word());
        // Relaxed: as in `SpaceRecord::word`. It fails if the space was assigned meanwhile.
        let order = Ordering::Relaxed;
        let changed = entry.state.compare_exchange(old, new, order, order);
        if changed.is_ok() && known.is_less(state) {
            self.count_gain(space);
        }
        true
    }

    /// Adds an unassigned space to the list of its state. Under the space's lock and its shard's.
    pub(crate) fn settle(&self, space: u32, state: State) {
        let Some(entry) = self.record(space) else {
            return;
        };
        if entry.state() == State::Assigned || self.stays(space, state) {
            return;
        }
        self.unlist(space);
        entry.set_state(state);
        let (Some(list), Some(head)) = (Self::list_of(state), self.heads.get(self.shard_of(space)))
        else {
            return;
        };
        let Some(first) = head.lists.get(list) else {
            return;
        };
        let old = first.get();
        entry.previous.set(NO_SPACE);
        entry.next.set(old);
        if let Some(old) = self.record(old) {
            old.previous.set(space);
        }
        first.set(space);
        head.filled.set(head.filled.get() | 1 << list);
        self.count_gain(space);
    }

    /// Removes a space from its list, if it is in one. The caller sets its state. Under the lock of the space's shard.
    fn unlist(&self, space: u32) {
        let (Some(entry), Some(head)) = (self.record(space), self.heads.get(self.shard_of(space)))
        else {
            return;
        };
        let Some(list) = Self::list_of(entry.state()) else {
            return;
        };
        let Some(first) = head.lists.get(list) else {
            return;
        };
        let (previous, next) = (entry.previous.get(), entry.next.get());
        if let Some(next) = self.record(next) {
            next.previous.set(previous);
        }
        match self.record(previous) {
            Some(previous) => previous.next.set(next),
            None => first.set(next),
        }
        if first.get() == NO_SPACE {
            head.filled.set(head.filled.get() & !(1 << list));
        }
    }

    /// Checks lists, bits and users while no CPU works. `expected` returns the state that an unassigned space should
    /// have.
    pub(crate) fn check(&self, expected: impl Fn(u32) -> State) -> Result<(), (u32, &'static str)> {
        let mut listed = 0;
        let lists = self.heads.iter().enumerate().flat_map(|(shard, head)| {
            let lists = head.lists.iter().enumerate();
            lists.map(move |(number, list)| (shard, head, number, list))
        });
        for (shard, head, number, list) in lists {
            if (head.filled.get() >> number & 1 == 1) != (list.get() != NO_SPACE) {
                return Err((list.get(), "a list of spaces and its bit disagree"));
            }
            let (mut previous, mut at) = (NO_SPACE, list.get());
            while let Some(entry) = self.record(at) {
                if Self::list_of(entry.state()) != Some(number)
                    || entry.previous.get() != previous
                    || self.shard_of(at) != shard
                {
                    return Err((at, "a space is in a list that is not its state's"));
                }
                listed += 1;
                if listed > self.spaces.len() {
                    return Err((at, "a list of spaces has a cycle"));
                }
                (previous, at) = (at, entry.next.get());
            }
        }
        let mut to_list = 0;
        for (index, entry) in self.spaces.iter().map(R::as_ref).enumerate() {
            let (space, state) = (index as u32, entry.state());
            let users = self
                .assigned
                .iter()
                .filter(|own| own.space.load(Ordering::Relaxed) == space);
            if users.count() != entry.users.get() as usize
                || (entry.users.get() > 0 || self.is_fixed()) != (state == State::Assigned)
            {
                return Err((space, "a space's users are miscounted"));
            }
            if state != State::Assigned && state != expected(space) {
                return Err((space, "a space is not in the list of what it can give"));
            }
            to_list += usize::from(Self::list_of(state).is_some());
        }
        if to_list == listed {
            Ok(())
        } else {
            Err((
                0,
                "a space is lost: it has something to give, and is in no list",
            ))
        }
    }
}

#[cfg(test)]
#[path = "tests/pool.rs"]
mod tests;
