//! One buddy domain: a set of free blocks with one holder at a time.
//!
//! Splitting a domain in halves and merging two domains must take a bounded time, however many blocks they have.
//!
//! # Source
//! \[Spring\] §III-B1: split and merge stay inside one domain. §III-B2: a part of its frames is passed to a waiting
//! ghost. §III-B3: two domains are merged.
//!
//! # Mechanism
//! A [`DomainRecord`], named by an id, holds a set of lists by order. The id is also what the words of free blocks name
//! ([`DomainTags`]). A domain is one record, its *root*, and the records that the root has absorbed. Merging turns the
//! other root into an absorbed record of this one: it writes a few words and touches no block. The blocks stay in their
//! lists, which serve requests as well. Each later visit moves a few of them into the root's lists, where they coalesce
//! with neighbours beyond the former border. An absorbed record whose lists are empty is *reusable* for a new domain.
//!
//! # Invariants
//! 1. Only its holder touches a domain: the CPU that acquired it by [`DomainRecord::try_hold`], or that another CPU
//!    handed it to.
//! 2. The `owner` of a root is the root itself, that of an absorbed record is its root. The holder of a root changes
//!    the owners of its records; no other CPU does. If the owner of a free block's record is a root that the reader
//!    holds, the block is therefore in that domain: every change of that owner was made by a holder of the domain,
//!    and the next holder saw it. Any other owner is a hint.
//! 3. Within the lists of one record no two buddies are both free. In a domain whose absorbed blocks have all moved,
//!    no two buddies are free at all.
//!
//! # Design decisions
//! The paper says "a part of its pages"; see [`HeldDomain::split_off`].
//!
//! # Complexity
//! Splitting off a part is O(orders + 64 blocks), merging is O(absorbed records). Each visit moves
//! [`MIGRATE_PER_VISIT`] blocks out of absorbed lists, plus one for every four that the visit itself moved.

use crate::cache_padded::CachePadded;
use crate::coalesce::{Coalesce, Eager};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::snapshot::Violation;
use crate::structure::Structure;
use crate::structure::domain_tags::DomainTags;
use crate::structure::levels::{LEVELS, Level, LevelLists};
use crate::wrapping_slice::WrappingSlice;

/// No domain.
pub(crate) const NO_DOMAIN: u32 = u32::MAX;

/// Blocks that each visit moves out of absorbed lists, in addition to a quarter of those that the visit itself moved.
pub(crate) const MIGRATE_PER_VISIT: u32 = 16;

/// Maximum number of blocks that are passed to a ghost.
const MAX_MOVED: u32 = 64;

/// A root that no CPU holds.
const FREE: u32 = 0;
/// A root that a CPU holds.
const HELD: u32 = 1;
/// A record that is not a root.
const ABSORBED: u32 = 2;

/// A domain's record: lists by order, and the words that make it a root or an absorbed record. A visit touches the
/// first cache line and those of its lists. A CPU that finds a block of another domain reads the last one.
#[repr(C, align(64))]
pub(crate) struct DomainRecord<P: Platform> {
    /// Whether it is a root, and whether a CPU holds it.
    state: P::AtomicU32,
    /// How often it was released, modulo 2^32. It shows other CPUs whether the domain was in use since they last
    /// looked. Its holder writes it, on a line that it writes in any case.
    uses: P::Cell<u32>,
    /// In a root: the first record that it has absorbed.
    absorbed: P::Cell<u32>,
    /// In a root: the first record that is reusable.
    reusable: P::Cell<u32>,
    /// In an absorbed or a reusable record: the next one.
    next: P::Cell<u32>,
    lists: CachePadded<[Level<P>; LEVELS]>,
    owner: CachePadded<P::AtomicU32>,
}

impl<P: Platform> DomainRecord<P> {
    /// Creates a record with empty lists. Record 0 is a domain; the others are unused.
    pub(crate) fn new(domain: u32) -> Self {
        Self {
            state: P::AtomicU32::new(if domain == 0 { FREE } else { ABSORBED }),
            uses: P::Cell::new(0),
            absorbed: P::Cell::new(NO_DOMAIN),
            reusable: P::Cell::new(NO_DOMAIN),
            next: P::Cell::new(NO_DOMAIN),
            lists: CachePadded::new(core::array::from_fn(|_| Level::new())),
            owner: CachePadded::new(P::AtomicU32::new(domain)),
        }
    }

    /// Acquires this domain, if it is a root that no CPU holds. Returns `true` if it did.
    #[inline(always)]
    pub(crate) fn try_hold(&self) -> bool {
        // Acquire: pairs with the release in `release`: the writes of its last holder are seen.
        self.state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Acquires this domain, which no CPU holds, under a lock.
    pub(crate) fn hold(&self) {
        // Relaxed: the lock orders it.
        self.state.store(HELD, Ordering::Relaxed);
    }

    /// Releases it. For its holder.
    #[inline(always)]
    pub(crate) fn release(&self) {
        self.uses.set(self.uses.get().wrapping_add(1));
        // Release: pairs with the acquire in `try_hold`.
        self.state.store(FREE, Ordering::Release);
    }

    /// Returns `true` if a CPU holds it; a hint.
    pub(crate) fn is_held(&self) -> bool {
        self.state.load(Ordering::Relaxed) == HELD
    }

    /// Returns `true` if it is a root that no CPU holds; a hint. A CPU that tests this before it tries to acquire the
    /// domain leaves the cache line with the holder.
    pub(crate) fn is_free(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FREE
    }

    /// Returns a number that is the same as long as no CPU releases this domain; a hint for other CPUs than its holder.
    pub(crate) fn uses(&self) -> u32 {
        self.uses.peek()
    }
}

/// All records, and the words of all frames.
pub(crate) struct DomainTable<'a, P: Platform> {
    pub(crate) table: FrameTable<'a, P>,
    pub(crate) tags: DomainTags<'a, P>,
    pub(crate) records: WrappingSlice<'a, DomainRecord<P>>,
    pub(crate) max_order: Order,
}

impl<P: Platform> Clone for DomainTable<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for DomainTable<'_, P> {}

impl<'a, P: Platform> DomainTable<'a, P> {
    /// Returns the domain with this root, for its holder.
    #[inline(always)]
    pub(crate) fn held(&self, root: u32) -> HeldDomain<'a, P> {
        HeldDomain { all: *self, root }
    }

    /// Returns the lists of a record.
    #[inline(always)]
    pub(crate) fn lists(&self, domain: u32) -> LevelLists<'a, P> {
        LevelLists::new(self.table, &self.records.at(domain).lists)
    }

    /// Returns the root that a record belongs to; a hint unless the reader holds that root.
    #[inline(always)]
    pub(crate) fn owner(&self, domain: u32) -> u32 {
        // Relaxed: by invariant 2 the answer is used only if it names a root that the reader holds.
        self.records.at(domain).owner.load(Ordering::Relaxed)
    }

    /// Returns `true` if a domain has no absorbed record, that is, no blocks left to move.
    pub(crate) fn is_settled(&self, root: u32) -> bool {
        self.records.at(root).absorbed.get() == NO_DOMAIN
    }

    /// Returns the ids of a chain of records.
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = u32> + use<'a, P> {
        let all = *self;
        let some = |domain: u32| (domain != NO_DOMAIN).then_some(domain);
        core::iter::successors(some(first), move |at| some(all.records.at(*at).next.get()))
    }

    /// Returns the ids of the records that a root has absorbed.
    pub(crate) fn absorbed(&self, root: u32) -> impl Iterator<Item = u32> + use<'a, P> {
        self.chain(self.records.at(root).absorbed.get())
    }

    /// Returns the ids of a root's reusable records.
    pub(crate) fn reusable(&self, root: u32) -> impl Iterator<Item = u32> + use<'a, P> {
        self.chain(self.records.at(root).reusable.get())
    }

    /// Returns `true` if each half of a domain can have a block of the largest order; a hint for other CPUs than its
    /// holder.
    pub(crate) fn has_large_blocks(&self, domain: u32) -> bool {
        self.lists(domain).peek_length(self.max_order) >= 2
    }

    /// Returns the number of free blocks of an order in all domains; a hint while other CPUs work. O(records).
    pub(crate) fn blocks_of_all(&self, order: Order) -> u32 {
        let lengths = (0..self.records.len()).map(|domain| self.lists(domain).peek_length(order));
        lengths.fold(0, u32::wrapping_add)
    }
}

/// A domain in the hands of its holder, as a structure of free blocks.
pub(crate) struct HeldDomain<'a, P: Platform> {
    all: DomainTable<'a, P>,
    root: u32,
}

impl<'a, P: Platform> HeldDomain<'a, P> {
    /// Returns the id of the domain's root.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    #[inline(always)]
    fn own(&self) -> &'a DomainRecord<P> {
        self.all.records.at(self.root)
    }

    /// Removes the reusable records, and passes each id to `sink`.
    pub(crate) fn take_reusable(&self, mut sink: impl FnMut(u32)) {
        let mut at = self.own().reusable.get();
        if at == NO_DOMAIN {
            return;
        }
        self.own().reusable.set(NO_DOMAIN);
        while at != NO_DOMAIN {
            let next = self.all.records.at(at).next.get();
            sink(at);
            at = next;
        }
    }

    /// Returns `true` if each half can have a block of the largest order, and no absorbed block is left to move.
    pub(crate) fn is_large(&self) -> bool {
        self.all.has_large_blocks(self.root) && self.all.is_settled(self.root)
    }

    /// Returns the number of blocks of a record, and whether one has at least `order`.
    fn blocks_and_reach(&self, domain: u32, order: Order) -> (u32, bool) {
        let lists = self.all.lists(domain);
        let mut found = (0, false);
        for at in Order::up_to(self.all.max_order) {
            let length = lists.length(at);
            found = (found.0 + length, found.1 || at >= order && length > 0);
        }
        found
    }

    /// Makes another domain, which the caller also holds, a part of this one. O(records that it has absorbed).
    fn absorb(&self, other: u32) {
        let (own, from) = (self.own(), self.all.records.at(other));
        let mut last = other;
        for domain in self.all.absorbed(other) {
            // Relaxed: the next holder of this domain sees it by `release`, or by the word of its ghost.
            let owner = &self.all.records.at(domain).owner;
            owner.store(self.root, Ordering::Relaxed);
            last = domain;
        }
        from.owner.store(self.root, Ordering::Relaxed);
        from.state.store(ABSORBED, Ordering::Relaxed);
        from.next.set(from.absorbed.get());
        from.absorbed.set(NO_DOMAIN);
        self.all.records.at(last).next.set(own.absorbed.get());
        own.absorbed.set(other);
        if let Some(last) = self.all.reusable(other).last() {
            self.all.records.at(last).next.set(own.reusable.get());
            own.reusable.set(from.reusable.get());
            from.reusable.set(NO_DOMAIN);
        }
    }

    /// Merges two domains that the caller holds. The one with fewer blocks becomes a part of the other, so that fewer
    /// blocks will move. O(orders + absorbed records).
    pub(crate) fn merge(self, other: Self, probe: &mut P::Probe) -> Self {
        probe.record(Event::Merge);
        let blocks = |held: &Self| held.blocks_and_reach(held.root, Order::ZERO).0;
        let (large, small) = if blocks(&self) >= blocks(&other) {
            (self, other)
        } else {
            (other, self)
        };
        large.absorb(small.root);
        large
    }

    /// Moves up to `budget` blocks from absorbed lists into the root's, and coalesces them. Returns `true` if none is
    /// left.
    pub(crate) fn settle(&self, budget: u32, probe: &mut P::Probe) -> bool {
        let own = self.own();
        let mut left = budget;
        loop {
            let domain = own.absorbed.get();
            if domain == NO_DOMAIN {
                return true;
            }
            let lists = self.all.lists(domain);
            for order in Order::up_to(self.all.max_order) {
                while lists.length(order) > 0 {
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    if let Some(head) = lists.pop(order) {
                        self.all.tags.clear(head);
                        Eager.free(self, head, order, probe);
                    }
                }
            }
            let entry = self.all.records.at(domain);
            own.absorbed.set(entry.next.get());
            // Relaxed: the next holder of this domain sees it by `release`. That holder must not read the old owner
            // when it finds a block of the domain that another CPU creates from this record, since nothing orders
            // these two.
            entry.owner.store(domain, Ordering::Relaxed);
            entry.next.set(own.reusable.get());
            own.reusable.set(domain);
        }
    }

    /// Splits a part off this domain, as the domain `fresh`, which is empty and also held. `wants` is the order that
    /// the ghost requests; `None` if the ghost only frees. Returns the root of the part. Returns `None`, and changes
    /// nothing, if this domain cannot serve the ghost and keep a block for itself.
    ///
    /// If the last absorbed record has not moved yet and can serve the ghost, it becomes the part as it is. That
    /// undoes a merge at no cost, however little the holder has left. Otherwise the part receives half of the blocks
    /// of each order, rounded down, the largest order first, at most 64 blocks. Large blocks stay whole, no list is
    /// walked, and both domains can continue. If none of these blocks can serve the ghost, the smallest block that
    /// can follows; it is split in halves if it is the last of its size here.
    ///
    /// O(orders + 64).
    pub(crate) fn split_off(&self, fresh: u32, wants: Option<Order>) -> Option<u32> {
        let own = self.own();
        let order = wants.unwrap_or(Order::ZERO);
        let first = own.absorbed.get();
        if first != NO_DOMAIN && (wants.is_none() || self.blocks_and_reach(first, order).1) {
            let entry = self.all.records.at(first);
            own.absorbed.set(entry.next.get());
            self.make_root(first);
            self.all.records.at(fresh).next.set(own.reusable.get());
            own.reusable.set(fresh);
            return Some(first);
        }
        let lists = self.all.lists(self.root);
        let serving = {
            let orders = Order::up_to(self.all.max_order).filter(|at| *at >= order);
            orders.map(|at| lists.length(at)).sum::<u32>()
        };
        let (blocks, _) = self.blocks_and_reach(self.root, order);
        let divisible =
            || Order::up_to(self.all.max_order).any(|at| at > order && lists.length(at) > 0);
        if wants.is_some() && (serving == 0 || blocks == 1 && !divisible()) {
            return None;
        }
        self.make_root(fresh);
        let mut left = MAX_MOVED;
        for at in Order::up_to(self.all.max_order).rev() {
            let share = (lists.length(at) / 2).min(left);
            left -= share;
            for _ in 0..share {
                self.move_one(fresh, at);
            }
        }
        if wants.is_some() && !self.blocks_and_reach(fresh, order).1 {
            self.move_smallest_fit(fresh, order);
        }
        Some(fresh)
    }

    /// Turns a record into the root of a domain that the caller holds.
    fn make_root(&self, domain: u32) {
        let root = self.all.records.at(domain);
        // Relaxed: the CPU that it is handed to sees it by the word of its ghost, all others by `release`.
        root.owner.store(domain, Ordering::Relaxed);
        root.state.store(HELD, Ordering::Relaxed);
    }

    /// Moves the first block of an order to another record.
    fn move_one(&self, to: u32, order: Order) {
        if let Some(head) = self.all.lists(self.root).pop(order) {
            self.push_to(to, head, order);
        }
    }

    /// Adds a block that is in no list to the lists of a record.
    fn push_to(&self, to: u32, head: Frame, order: Order) {
        self.all.tags.set(head, order, to);
        self.all.lists(to).push(head, order);
    }

    /// Moves the smallest block that serves `wants`, or its upper half if no other block here serves it.
    fn move_smallest_fit(&self, to: u32, wants: Order) {
        let lists = self.all.lists(self.root);
        let mut serving =
            Order::up_to(self.all.max_order).filter(|at| *at >= wants && lists.length(*at) > 0);
        let Some(found) = serving.next() else {
            return;
        };
        if found == wants || lists.length(found) > 1 || serving.next().is_some() {
            return self.move_one(to, found);
        }
        if let Some(head) = lists.pop(found) {
            let half = found.down();
            self.push_to(self.root, head, half);
            self.push_to(to, head.offset(half.frames()), half);
        }
    }
}

impl<P: Platform> Structure<P> for HeldDomain<'_, P> {
    const INDIVIDUAL: bool = false;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.all.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.all.max_order
    }

    #[inline]
    fn insert(&self, head: Frame, order: Order) {
        self.all.tags.set(head, order, self.root);
        self.all.lists(self.root).push(head, order);
    }

    #[inline]
    fn remove(&self, head: Frame, order: Order) {
        if let Some(domain) = self.all.tags.domain_of(head, order) {
            self.all.tags.clear(head);
            self.all.lists(domain).unlink(head, order);
        }
    }

    #[inline]
    fn take(&self, order: Order) -> Option<Frame> {
        let own = self.all.lists(self.root).pop(order);
        let head = match own {
            None if self.own().absorbed.get() != NO_DOMAIN => {
                let mut absorbed = self.all.absorbed(self.root);
                absorbed.find_map(|domain| self.all.lists(domain).pop(order))
            }
            own => own,
        }?;
        self.all.tags.clear(head);
        Some(head)
    }

    #[inline(always)]
    fn contains(&self, head: Frame, order: Order) -> bool {
        match self.all.tags.domain_of(head, order) {
            Some(domain) => domain == self.root || self.all.owner(domain) == self.root,
            None => false,
        }
    }

    fn blocks(&self, order: Order) -> u32 {
        let absorbed = self.all.absorbed(self.root);
        let lengths = absorbed.map(|domain| self.all.lists(domain).length(order));
        self.all.lists(self.root).length(order) + lengths.sum::<u32>()
    }

    fn largest(&self) -> Option<Order> {
        let mut orders = Order::up_to(self.all.max_order).rev();
        orders.find(|order| self.blocks(*order) > 0)
    }

    fn check(&self) -> Result<(), Violation> {
        core::iter::once(self.root)
            .chain(self.all.absorbed(self.root))
            .try_for_each(|domain| {
                check_lists(&self.all, domain)?;
                if self.all.owner(domain) == self.root {
                    Ok(())
                } else {
                    fail(0, "an absorbed domain belongs to another root")
                }
            })
    }
}

fn fail(index: u32, what: &'static str) -> Result<(), Violation> {
    let index = Index(index);
    Err(Violation { index, what })
}

/// Checks the lists of a record: links, lengths and words, and that no two buddies are in them.
fn check_lists<P: Platform>(all: &DomainTable<'_, P>, domain: u32) -> Result<(), Violation> {
    let lists = all.lists(domain);
    for order in Order::up_to(all.max_order) {
        lists.check(order, |head| {
            if all.tags.domain_of(head, order) != Some(domain) {
                return fail(
                    head.index().0,
                    "a free block's word names another domain or order",
                );
            }
            let buddies = order < all.max_order
                && all.tags.domain_of(head.buddy(order), order) == Some(domain);
            if buddies {
                fail(
                    head.index().0,
                    "two buddies of a domain are free and not coalesced",
                )
            } else {
                Ok(())
            }
        })?;
    }
    Ok(())
}

/// Checks that an unused record has no blocks and no other owner.
pub(crate) fn check_unused<P: Platform>(
    all: &DomainTable<'_, P>,
    domain: u32,
) -> Result<(), Violation> {
    let lists = all.lists(domain);
    if all.owner(domain) != domain {
        return fail(0, "an unused domain belongs to a root");
    }
    if Order::up_to(all.max_order).all(|order| lists.length(order) == 0) {
        Ok(())
    } else {
        fail(0, "an unused domain has blocks")
    }
}

/// All domains together, for checks while no CPU works.
pub(crate) struct AllDomains<'a, P: Platform>(pub(crate) DomainTable<'a, P>);

impl<P: Platform> Structure<P> for AllDomains<'_, P> {
    // Buddies in different domains are not coalesced. Buddies in one domain are covered by the check of its lists.
    const INDIVIDUAL: bool = true;

    fn table(&self) -> FrameTable<'_, P> {
        self.0.table
    }

    fn max_order(&self) -> Order {
        self.0.max_order
    }

    fn insert(&self, _: Frame, _: Order) {}

    fn remove(&self, _: Frame, _: Order) {}

    fn take(&self, _: Order) -> Option<Frame> {
        None
    }

    fn contains(&self, head: Frame, order: Order) -> bool {
        self.0.tags.domain_of(head, order).is_some()
    }

    fn blocks(&self, order: Order) -> u32 {
        self.0.blocks_of_all(order)
    }

    fn largest(&self) -> Option<Order> {
        None
    }

    fn order_at(&self, head: Frame) -> Option<Order> {
        self.0.tags.get(head).map(|(order, _)| order)
    }

    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }
}
