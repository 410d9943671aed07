//! One buddy domain: a set of free blocks with one holder at a time.
//!
//! Source: Spring Buddy (002) III-B1: split and merge stay inside one domain; III-B2: a part of its frames is passed
//! to a waiting ghost; III-B3: two domains are merged.
//!
//! Why it exists: passing half of a domain and merging two must take a bounded time, however many blocks they have.
//!
//! How: a *number* stands for a set of lists by order, and for the words that say where a free block belongs
//! ([`DomainTags`]). A domain is the number by which it is known, its *root*, and the numbers that it has absorbed.
//! Merging makes the other root an absorbed number of this one: a few words, no block is touched. Its blocks stay in
//! its lists, from which requests are served as well; with each later visit a few of them move into the root's
//! lists, and coalesce on the way with what the former border kept apart. An absorbed number whose lists are empty
//! is spent, and is used again for a new domain.
//!
//! Invariants:
//! 1. A domain is touched only by its holder: whoever took it by [`Number::try_hold`], or was given it.
//! 2. `owner` of a root is itself, of an absorbed number the root. Who holds a root changes the owners of its
//!    numbers, nobody else. So a free block whose number's owner is a root that the reader holds is in that domain:
//!    every change of that had to be made by a holder of it, and was seen by the next. Any other is a hint.
//! 3. Within one number's lists no two buddies are both free; in a domain that has absorbed nothing that did not
//!    move, no two at all.
//!
//! Decides (the paper says "a part of its pages"): see [`Held::pass`].
//!
//! Cost: passing O(orders + 64 blocks), merging O(numbers absorbed), each visit [`STEP`] blocks that move over, and one
//! for four that it moved itself.

use crate::cache_padded::CachePadded;
use crate::coalesce::{Coalesce, Eager};
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, FrameTable};
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::snapshot::Violation;
use crate::structure::Structure;
use crate::structure::domain_tags::DomainTags;
use crate::structure::levels::{LEVELS, Level, LevelLists};
use crate::wrapping_slice::WrappingSlice;

/// No number.
pub(crate) const NO_DOMAIN: u32 = u32::MAX;

/// Blocks that move out of absorbed lists with each visit, beside a quarter of those that the visit moved.
pub(crate) const MIGRATE_PER_VISIT: u32 = 16;

/// Blocks that are passed to a ghost at most.
const MAX_MOVED: u32 = 64;

/// A domain that nobody holds.
const FREE: u32 = 0;
/// A domain that somebody holds.
const HELD: u32 = 1;
/// A number that is no root.
const ABSORBED: u32 = 2;

/// What a number stands for. A visit touches the first line and those of its lists; who meets a block of another
/// domain reads the last.
#[repr(C, align(64))]
pub(crate) struct DomainRecord<P: Platform> {
    /// Whether it is a root, and somebody holds it.
    state: P::AtomicU32,
    /// Of a root: when it was taken last, on the spring's clock.
    taken: P::AtomicU32,
    /// Of a root: the first number that it has absorbed.
    absorbed: P::Cell<u32>,
    /// Of a root: the first number that is to be used again.
    reusable: P::Cell<u32>,
    /// Of an absorbed or a spent number: the next one.
    next: P::Cell<u32>,
    lists: CachePadded<[Level<P>; LEVELS]>,
    owner: CachePadded<P::AtomicU32>,
}

impl<P: Platform> DomainRecord<P> {
    /// Makes a number with empty lists: the first is a domain, the others are not in use.
    pub(crate) fn new(domain: u32) -> Self {
        Self {
            state: P::AtomicU32::new(if domain == 0 { FREE } else { ABSORBED }),
            taken: P::AtomicU32::new(0),
            absorbed: P::Cell::new(NO_DOMAIN),
            reusable: P::Cell::new(NO_DOMAIN),
            next: P::Cell::new(NO_DOMAIN),
            lists: CachePadded::new(core::array::from_fn(|_| Level::new())),
            owner: CachePadded::new(P::AtomicU32::new(domain)),
        }
    }

    /// Takes this domain, if it is one and nobody holds it.
    #[inline(always)]
    pub(crate) fn try_hold(&self) -> bool {
        // Acquire: pairs with the release in `release`: what its last holder did is seen.
        self.state
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Puts it back. For its holder.
    #[inline(always)]
    pub(crate) fn release(&self) {
        // Release: pairs with the acquire in `try_hold`.
        self.state.store(FREE, Ordering::Release);
    }

    /// Tells whether somebody holds it; a hint.
    pub(crate) fn is_held(&self) -> bool {
        self.state.load(Ordering::Relaxed) == HELD
    }

    /// Notes when it was taken.
    #[inline(always)]
    pub(crate) fn stamp(&self, clock: u32) {
        if self.taken.load(Ordering::Relaxed) != clock {
            self.taken.store(clock, Ordering::Relaxed);
        }
    }

    /// Returns when it was taken last; a hint.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// All numbers, and the words of all frames.
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

    /// Returns the lists of a number.
    #[inline(always)]
    pub(crate) fn lists(&self, domain: u32) -> LevelLists<'a, P> {
        LevelLists::new(self.table, &self.records.at(domain).lists)
    }

    /// Returns the root that a number belongs to; a hint unless the reader holds that root.
    #[inline(always)]
    pub(crate) fn owner(&self, domain: u32) -> u32 {
        // Relaxed: by invariant 2 the answer is used only if it names what the reader holds.
        self.records.at(domain).owner.load(Ordering::Relaxed)
    }

    /// Tells whether a domain has absorbed lists that are not empty yet.
    pub(crate) fn is_settled(&self, root: u32) -> bool {
        self.records.at(root).absorbed.get() == NO_DOMAIN
    }

    /// Returns the numbers of a chain.
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = u32> + use<'a, P> {
        let all = *self;
        let some = |domain: u32| (domain != NO_DOMAIN).then_some(domain);
        core::iter::successors(some(first), move |at| some(all.records.at(*at).next.get()))
    }

    /// Returns the numbers that a root has absorbed.
    pub(crate) fn absorbed(&self, root: u32) -> impl Iterator<Item = u32> + use<'a, P> {
        self.chain(self.records.at(root).absorbed.get())
    }

    /// Returns the numbers of a root that are to be used again.
    pub(crate) fn reusable(&self, root: u32) -> impl Iterator<Item = u32> + use<'a, P> {
        self.chain(self.records.at(root).reusable.get())
    }

    /// Returns how many free blocks of an order all domains have; a hint while others work. O(numbers).
    pub(crate) fn blocks_of_all(&self, order: Order) -> u32 {
        let lengths = (0..self.records.len()).map(|domain| self.lists(domain).peek_length(order));
        lengths.fold(0, u32::wrapping_add)
    }
}

/// A domain, for its holder: a structure of free blocks.
pub(crate) struct HeldDomain<'a, P: Platform> {
    all: DomainTable<'a, P>,
    root: u32,
}

impl<'a, P: Platform> HeldDomain<'a, P> {
    /// Returns the number by which the domain is known.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    #[inline(always)]
    fn own(&self) -> &'a DomainRecord<P> {
        self.all.records.at(self.root)
    }

    /// Takes the numbers out that are to be used again.
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

    /// Blocks of a number, and whether one is of `order` or more.
    fn blocks_and_reach(&self, domain: u32, order: Order) -> (u32, bool) {
        let lists = self.all.lists(domain);
        let mut found = (0, false);
        for at in Order::up_to(self.all.max_order) {
            let length = lists.length(at);
            found = (found.0 + length, found.1 || at >= order && length > 0);
        }
        found
    }

    /// Makes another domain, which the caller holds too, a part of this one. O(numbers that it has absorbed).
    fn absorb(&self, other: u32) {
        let (own, from) = (self.own(), self.all.records.at(other));
        let mut last = other;
        for domain in self.all.absorbed(other) {
            // Relaxed: whoever holds this domain next sees it by `release`, or by the word of its ghost.
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

    /// Merges two domains that the caller holds: the one with fewer blocks becomes a part of the other, so that
    /// fewer will move. O(orders + numbers absorbed).
    pub(crate) fn merge(self, other: Self, probe: &mut P::Probe) -> Self {
        probe.record(Event::Merge);
        let blocks = |held: &Self| held.blocks_and_reach(held.root, Order::ZERO).0;
        let (large, small) = match blocks(&self) >= blocks(&other) {
            true => (self, other),
            false => (other, self),
        };
        large.absorb(small.root);
        large
    }

    /// Moves up to `budget` blocks from absorbed lists into the root's, coalescing. Tells whether none is left.
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
            // Relaxed: who holds this domain next sees it by `release`. It must not read the old owner when it meets
            // a block of the domain that another CPU makes of this number: nothing orders the two.
            entry.owner.store(domain, Ordering::Relaxed);
            entry.next.set(own.reusable.get());
            own.reusable.set(domain);
        }
    }

    /// Passes a part of this domain to the domain `fresh`, which is empty and held too; `wants` is what the waiter
    /// asks for, nothing if it only gives back. Returns the part's root; nothing, and nothing has changed, when
    /// this domain can't serve the waiter and keep a block for itself.
    ///
    /// A part that was absorbed and has not moved yet is passed as it is, if it serves: that undoes a merging, at no
    /// cost, whatever the holder has left then. Otherwise half of the blocks of each order, rounded down, the largest
    /// first, 64 at most: so large blocks stay whole, none is walked past, and both can go on. If that holds nothing
    /// that serves the waiter, the smallest block that does follows, and is halved if it is the last of its size here.
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

    /// Makes a number the root of a domain, which its maker holds.
    fn make_root(&self, domain: u32) {
        let root = self.all.records.at(domain);
        // Relaxed: whom it is given to sees it by the word of its ghost, everybody else by `release`.
        root.owner.store(domain, Ordering::Relaxed);
        root.state.store(HELD, Ordering::Relaxed);
        root.taken.store(self.own().taken(), Ordering::Relaxed);
    }

    /// Passes the first block of an order.
    fn move_one(&self, to: u32, order: Order) {
        if let Some(head) = self.all.lists(self.root).pop(order) {
            self.push_to(to, head, order);
        }
    }

    /// Puts a block that is in no list into those of a number.
    fn push_to(&self, to: u32, head: Frame, order: Order) {
        self.all.tags.set(head, order, to);
        self.all.lists(to).push(head, order);
    }

    /// Passes the smallest block that serves `wants`: its upper half if no other here does.
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
                match self.all.owner(domain) == self.root {
                    true => Ok(()),
                    false => fail(0, "an absorbed domain belongs to another root"),
                }
            })
    }
}

fn fail(pfn: u32, what: &'static str) -> Result<(), Violation> {
    let pfn = Pfn(pfn);
    Err(Violation { pfn, what })
}

/// Checks the lists of a number: links, lengths, words, and that no two buddies are in.
fn check_lists<P: Platform>(all: &DomainTable<'_, P>, domain: u32) -> Result<(), Violation> {
    let lists = all.lists(domain);
    for order in Order::up_to(all.max_order) {
        lists.check(order, |head| {
            if all.tags.domain_of(head, order) != Some(domain) {
                return fail(
                    head.pfn().0,
                    "a free block's word names another domain or order",
                );
            }
            let buddies = order < all.max_order
                && all.tags.domain_of(head.buddy(order), order) == Some(domain);
            match buddies {
                true => fail(
                    head.pfn().0,
                    "two buddies of a domain are free and not coalesced",
                ),
                false => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// Checks that a number which is not in use has nothing.
pub(crate) fn check_unused<P: Platform>(
    all: &DomainTable<'_, P>,
    domain: u32,
) -> Result<(), Violation> {
    let lists = all.lists(domain);
    if all.owner(domain) != domain {
        return fail(0, "an unused domain belongs to a root");
    }
    match Order::up_to(all.max_order).all(|order| lists.length(order) == 0) {
        true => Ok(()),
        false => fail(0, "an unused domain has blocks"),
    }
}

/// All domains together, for checks while nobody works.
pub(crate) struct AllDomains<'a, P: Platform>(pub(crate) DomainTable<'a, P>);

impl<P: Platform> Structure<P> for AllDomains<'_, P> {
    // Buddies in different domains are not coalesced; those in one domain are looked at by its lists' check.
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
