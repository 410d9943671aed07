//! Trees that a CPU does not own: claims, releases, and frees into the trees of others.
//!
//! One exchange claims a tree that has no owner. A free into a tree that another CPU owns takes one exchange on the
//! word. A second exchange names the word in the tree's inbox. Frames of the word that are freed one after the other
//! are gathered, and these two exchanges serve all of them. A free never waits.
//!
//! # Invariants
//! 1. A CPU that has claimed a tree may use it as its owner until the release.
//! 2. A tree with a free frame is not marked as spent, except while a CPU changes the tree. A request that found
//!    nothing in trees without a mark therefore searches all trees before it fails as exhausted.

use core::iter;
use core::ops::Range;

use crate::bit_runs;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell, WaitLimit};

use super::heads::Heads;
use super::tree::{AllTrees, Part, Rate};
use super::wanted::{NESTED, Wanted};
use super::word::Header;

/// The trees, and a mark for each tree that has nothing to allocate.
pub(crate) struct Shared<'m, P: Platform> {
    pub(crate) trees: AllTrees<'m, P>,
    /// A bit for each tree that has nothing to allocate. A word has the marks of a group of trees.
    pub(crate) spent: &'m [P::AtomicU64],
    pub(crate) heads: Heads<'m, P>,
    pub(crate) windows: Windows,
}

/// The trees of a group: as many as a word of marks has bits.
pub(crate) const GROUP: u32 = u64::BITS;
/// The CPUs that search from the same place. In many processors, about as many CPUs share a last-level cache.
const CPUS_PER_WINDOW: u32 = 8;

/// Where the CPUs begin to search.
///
/// A window is a number of groups. CPUs of different windows search in different trees and read different lines of
/// marks, while their own windows have what they need. With few CPUs there is one window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// The number of groups of all trees.
    groups: u32,
    /// The number of windows: 1 to `groups`.
    count: u32,
}

impl Windows {
    pub(crate) const fn new(trees: u32, cpus: u16) -> Self {
        let groups = match trees.div_ceil(GROUP) {
            0 => 1,
            groups => groups,
        };
        let count = match (cpus as u32).div_ceil(CPUS_PER_WINDOW) {
            0 => 1,
            wanted if wanted > groups => groups,
            wanted => wanted,
        };
        Self { groups, count }
    }

    /// Returns the window of a CPU.
    pub(crate) fn home(self, cpu: u32) -> u32 {
        cpu / CPUS_PER_WINDOW % self.count
    }

    /// Returns the groups of a window. All windows have equally many, or one more.
    pub(crate) fn groups(self, window: u32) -> Range<u32> {
        if self.count == 1 {
            // Without a division: each search asks.
            return 0..self.groups;
        }
        let start =
            |window| (u64::from(window) * u64::from(self.groups) / u64::from(self.count)) as u32;
        start(window)..start(window + 1)
    }

    /// Returns all windows, from `home` on.
    pub(crate) fn from(self, home: u32) -> impl Iterator<Item = u32> {
        (home..self.count).chain(0..home)
    }

    /// Returns the number of words of marks, including those that are not used.
    pub(crate) const fn words(self) -> usize {
        (self.groups as usize) << self.spread()
    }

    /// Returns the base-2 logarithm of the distance of two words of marks. With several windows, it is a cache line.
    const fn spread(self) -> u32 {
        match self.count {
            1 => 0,
            _ => 3,
        }
    }
}

/// The outcome of a search among the trees that no CPU owns.
pub(crate) enum Found {
    /// A tree, which is now claimed, and the first frame.
    Taken(u32, u32),
    /// No such tree has the block. The value is `true` if a tree that another CPU owns may have it.
    Nothing(bool),
}

impl<P: Platform> Shared<'_, P> {
    /// Claims a tree, if no CPU owns it.
    #[inline]
    pub(crate) fn claim(&self, header: &Header<P>, id: u32) -> bool {
        header.set_owner(Some(id))
    }

    /// Ends the ownership of a tree.
    #[inline]
    pub(crate) fn release(&self, tree: u32, header: &Header<P>) {
        self.mark(tree, header);
        header.set_owner(None);
    }

    /// Updates the mark of an own tree: it is set if the tree has nothing to allocate.
    #[inline]
    pub(crate) fn mark(&self, tree: u32, header: &Header<P>) {
        if !self.trees.is_spent(header) {
            self.unmark_own(tree, header);
            return;
        }
        let Some((word, bit)) = self.spent_bit(tree) else {
            return;
        };
        // Relaxed: only the owner sets the bit.
        let is_marked = word.load(Ordering::Relaxed) & bit != 0;
        if is_marked || header.inbox.load(Ordering::Relaxed) != 0 {
            return;
        }
        header.marked.set(1);
        let mut seen = word.load(Ordering::Relaxed);
        // Acquire and release: pairs with the exchanges in `tell`. The second of the two CPUs to change this word sees
        // the earlier write of the other one: the bit, or the inbox.
        while let Err(now) =
            word.compare_exchange(seen, seen | bit, Ordering::AcqRel, Ordering::Relaxed)
        {
            seen = now;
        }
        // An addition reads the latest value. Relaxed: the exchange above orders it.
        if header.inbox.fetch_add(0, Ordering::Relaxed) != 0 {
            unmark(word, bit);
        }
    }

    /// Removes the mark of an own tree.
    #[inline]
    pub(crate) fn unmark_own(&self, tree: u32, header: &Header<P>) {
        if header.marked.get() != 0
            && let Some((word, bit)) = self.spent_bit(tree)
        {
            unmark(word, bit);
            header.marked.set(0);
        }
    }

    /// Returns the marks of a group.
    #[inline]
    fn marks(&self, group: u32) -> Option<&P::AtomicU64> {
        self.spent.get((group as usize) << self.windows.spread())
    }

    #[inline]
    fn spent_bit(&self, tree: u32) -> Option<(&P::AtomicU64, u64)> {
        Some((self.marks(tree / GROUP)?, 1 << (tree % GROUP)))
    }

    /// Returns `true` if a tree is marked as one that has nothing to allocate.
    pub(crate) fn is_marked(&self, tree: u32) -> bool {
        self.spent_bit(tree)
            .is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Tells the owner of a tree, present or future, that words of the tree have returned frames.
    fn tell(&self, tree: u32, header: &Header<P>, words: u64) {
        // Relaxed: after a post, this load sees at least the inbox that the last collection of the word left.
        let mut seen = header.inbox.load(Ordering::Relaxed);
        while seen & words != words {
            // Release: pairs with the acquire in `collect`: the posts are seen. Acquire: orders the addition below.
            match header.inbox.compare_exchange(
                seen,
                seen | words,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(0) => {
                    if let Some((word, bit)) = self.spent_bit(tree)
                        // Acquire and release: pairs with the exchange in `mark`. An addition reads the latest value.
                        && word.fetch_add(0, Ordering::AcqRel) & bit != 0
                    {
                        unmark(word, bit);
                    }
                    return;
                }
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Returns `true` if no CPU owns a tree. This CPU then sees all writes of the last owner.
    pub(crate) fn is_unowned(&self, header: &Header<P>) -> bool {
        // Acquire: pairs with the release in `set_owner`.
        header.owner.load(Ordering::Acquire) == 0
    }

    /// Reads the owner of a tree, so that this CPU sees all writes of the last CPU that released it: hints about the
    /// tree are then no older than its release. Whether a CPU owns the tree now does not matter: the claim decides.
    fn see_last_owner(&self, header: &Header<P>) {
        self.is_unowned(header);
    }

    /// Takes a block of a tree that no CPU owns. The tree stays claimed by `id`.
    ///
    /// The search begins with the window `home`, of which it passes over the trees below `first`. In each window, a
    /// small request takes the lowest tree of the best [`Rate`], and a large one the lowest tree that has the block.
    /// Unless `any` is true, only trees for frames of this kind and wholly free trees serve.
    pub(crate) fn search(
        &self,
        id: u32,
        (home, first): (u32, u32),
        wanted: Wanted,
        any: bool,
    ) -> Found {
        let mut elsewhere = false;
        for window in self.windows.from(home) {
            let first = if window == home { first } else { 0 };
            let trees = || self.unmarked(self.windows.groups(window), first);
            let found = if wanted.is_large() {
                self.take_lowest(id, trees(), wanted, any)
            } else {
                match self.take_best(id, trees(), wanted, any) {
                    // Trees may be left: of each rate, only the lowest tree was tried.
                    None => self.take_lowest(id, trees(), wanted, any),
                    Some(found) => found,
                }
            };
            match found {
                Found::Nothing(busy) => elsewhere |= busy,
                found => return found,
            }
        }
        Found::Nothing(elsewhere)
    }

    /// Returns the trees of some groups from `first` on that are not marked as spent.
    fn unmarked(&self, groups: Range<u32>, first: u32) -> impl Iterator<Item = (u32, &Header<P>)> {
        (groups.start.max(first / GROUP)..groups.end).flat_map(move |group| {
            let marks = self.marks(group).map(|word| word.load(Ordering::Relaxed));
            let below = bit_runs::first(first.saturating_sub(group * GROUP));
            let mut trees = !(marks.unwrap_or(u64::MAX) | below);
            iter::from_fn(move || {
                if trees == 0 {
                    return None;
                }
                let tree = group * GROUP + trees.trailing_zeros();
                trees &= trees - 1;
                Some((tree, self.trees.header(tree)?))
            })
        })
    }

    /// Takes a block of the best of some trees that have no owner. Returns `None` if trees are left that may serve.
    fn take_best<'t>(
        &self,
        id: u32,
        mut trees: impl Iterator<Item = (u32, &'t Header<P>)>,
        wanted: Wanted,
        any: bool,
    ) -> Option<Found> {
        let (mut elsewhere, mut is_tried) = (false, any);
        let mut lowest = [None; Rate::COUNT];
        let take = |tree| match self.take_unowned(id, tree, wanted, any) {
            Found::Nothing(_) => None,
            found => Some(found),
        };
        let found = trees.find_map(|(tree, header)| {
            if !self.is_unowned(header) {
                elsewhere |= self.is_of_another(header, id);
                return None;
            }
            let rate = self.trees.rate(header, wanted, any)?;
            is_tried = true;
            if rate == Rate::Partly {
                return take((tree, header));
            }
            if let Some(place) = lowest.get_mut(rate as usize) {
                place.get_or_insert((tree, header));
            }
            None
        });
        if found.is_some() {
            return found;
        }
        let found = lowest.into_iter().flatten().find_map(take);
        found.or_else(|| (!is_tried).then_some(Found::Nothing(elsewhere)))
    }

    /// Takes a block of the lowest of some trees that have no owner and may serve.
    fn take_lowest<'t>(
        &self,
        id: u32,
        mut trees: impl Iterator<Item = (u32, &'t Header<P>)>,
        wanted: Wanted,
        any: bool,
    ) -> Found {
        let mut elsewhere = false;
        let found = trees.find_map(|(tree, header)| {
            if !self.is_unowned(header) {
                elsewhere |= self.is_of_another(header, id);
                return None;
            }
            // A request that must not wait is refused after such a search. There, a hint alone excludes no tree.
            let may_serve = any && self.trees.must_be_claimed(header, wanted.frames)
                || self.trees.may_serve(header, wanted.frames, wanted.order);
            if !may_serve || !(any || self.trees.suits(header, wanted.kind)) {
                return None;
            }
            match self.take_unowned(id, (tree, header), wanted, any) {
                Found::Nothing(busy) => {
                    elsewhere |= busy;
                    None
                }
                found => Some(found),
            }
        });
        found.unwrap_or(Found::Nothing(elsewhere))
    }

    /// Takes a block from one of the given trees: the first one that has no owner and is partly free. The tree stays
    /// claimed by `id`.
    pub(crate) fn search_below(
        &self,
        id: u32,
        wanted: Wanted,
        mut trees: impl Iterator<Item = u32>,
    ) -> Option<(u32, u32)> {
        trees.find_map(|tree| {
            let header = self.trees.header(tree)?;
            let is_partly = self.is_unowned(header)
                && self.trees.rate(header, wanted, false) == Some(Rate::Partly);
            let found = is_partly.then(|| self.take_unowned(id, (tree, header), wanted, false));
            match found {
                Some(Found::Taken(tree, start)) => Some((tree, start)),
                _ => None,
            }
        })
    }

    /// Claims a tree and takes a block of it.
    fn take_unowned(
        &self,
        id: u32,
        (tree, header): (u32, &Header<P>),
        wanted: Wanted,
        any: bool,
    ) -> Found {
        if !self.claim(header, id) {
            return Found::Nothing(self.is_of_another(header, id));
        }
        // Another CPU may have claimed the tree meanwhile, and changed its kind.
        if (any || self.trees.suits(header, wanted.kind))
            && let Some(start) = self.take(tree, header, wanted)
        {
            return Found::Taken(tree, start);
        }
        self.release(tree, header);
        Found::Nothing(false)
    }

    /// Returns `true` unless this CPU owns a tree. The nested requests of all CPUs share one number.
    fn is_of_another(&self, header: &Header<P>, id: u32) -> bool {
        id == NESTED || header.owner.load(Ordering::Relaxed) != id
    }

    /// Collects the returned frames of an own tree, then takes a block of it.
    pub(crate) fn take(&self, tree: u32, header: &Header<P>, wanted: Wanted) -> Option<u32> {
        if header.inbox.load(Ordering::Relaxed) != 0 {
            self.trees.collect(tree, header);
        }
        let is_half_whole = self.trees.is_half_whole(header);
        let start = match wanted.frames {
            1 => self.trees.take_frame(tree, header),
            frames => self.trees.take(tree, header, frames, wanted.order),
        }?;
        if is_half_whole {
            header.dedicate(wanted.kind);
        }
        Some(start)
    }

    /// Claims the trees from `first` to `last`, in ascending order. If it `waits`, it does so for those that have an
    /// owner, all together. If that fails, none of the trees is claimed.
    pub(crate) fn claim_all(&self, id: u32, first: u32, last: u32, waits: bool) -> bool {
        let (mut polls, mut limit) = (0, WaitLimit::<P>::new());
        for tree in first..=last {
            let Some(header) = self.trees.header(tree) else {
                return true;
            };
            let mut attempt = 0;
            while !self.claim(header, id) {
                if !waits || limit.is_over(polls) {
                    if tree > first {
                        self.release_all(first, tree - 1);
                    }
                    return false;
                }
                let seen = header.owner.load(Ordering::Relaxed);
                if seen != 0 {
                    P::wait(&header.owner, seen, attempt);
                }
                polls = polls.saturating_add(1);
                attempt = attempt.saturating_add(1);
            }
        }
        true
    }

    /// Releases the trees from `first` to `last`.
    pub(crate) fn release_all(&self, first: u32, last: u32) {
        for tree in first..=last {
            if let Some(header) = self.trees.header(tree) {
                self.release(tree, header);
            }
        }
    }

    /// Returns the places of a block that is larger than a tree: the first tree, and the last one.
    fn places(&self, wanted: Wanted) -> impl Iterator<Item = (u32, u32)> + use<'_, P> {
        let step = wanted.order.frames() >> self.trees.shift;
        let needed = wanted.frames.div_ceil(1 << self.trees.shift);
        let (count, all) = (
            self.trees.count(),
            (0..self.trees.count()).step_by(step as usize),
        );
        all.take_while(move |first| count - first >= needed)
            .map(move |first| (first, first + needed - 1))
    }

    /// Takes a block that is larger than a tree, or such a run, of trees that have no owner.
    pub(crate) fn take_trees(&self, id: u32, wanted: Wanted) -> Found {
        let mut elsewhere = false;
        for (first, last) in self.places(wanted) {
            // Of the last tree, the run may need a part.
            let mut whole = first..first + (wanted.frames >> self.trees.shift);
            let may_be_free = whole.all(|tree| {
                self.trees.header(tree).is_some_and(|header| {
                    self.see_last_owner(header);
                    self.trees.is_whole(header) || header.inbox.load(Ordering::Relaxed) != 0
                })
            });
            if !may_be_free {
                continue;
            }
            if !self.claim_all(id, first, last, false) {
                elsewhere = true;
                continue;
            }
            let is_taken = self.take_claimed(first, last, wanted);
            self.release_all(first, last);
            if is_taken {
                return Found::Taken(first, first << self.trees.shift);
            }
        }
        Found::Nothing(elsewhere)
    }

    /// Takes a block that is larger than a tree, while the CPU owns all trees.
    pub(crate) fn take_own_trees(&self, wanted: Wanted) -> Option<u32> {
        self.places(wanted)
            .find(|(first, last)| self.take_claimed(*first, *last, wanted))
            .map(|(first, _)| first << self.trees.shift)
    }

    fn take_claimed(&self, first: u32, last: u32, wanted: Wanted) -> bool {
        let headers = || (first..=last).filter_map(|tree| self.trees.header(tree));
        let parts = || self.trees.parts(first << self.trees.shift, wanted.frames);
        for (tree, header) in (first..=last).zip(headers()) {
            self.trees.collect(tree, header);
        }
        let is_free = |part: Part<'_, P>| {
            part.header.is_whole(part.mask) || part.word.free() & part.frames == part.frames
        };
        if !parts().all(is_free) {
            return false;
        }
        for header in headers() {
            if self.trees.is_half_whole(header) {
                header.dedicate(wanted.kind);
            }
        }
        parts().all(|part| part.header.take(part.mask, part.word, part.frames))
    }

    /// Frees frames of a tree that has another owner, word by word. The caller has checked that they are allocated.
    /// Returns `false` if another CPU frees one of them simultaneously.
    pub(crate) fn post<'t>(
        &self,
        tree: u32,
        header: &Header<P>,
        parts: impl Iterator<Item = Part<'t, P>>,
    ) -> bool
    where
        P: 't,
    {
        let (mut words, mut is_posted) = (0, true);
        for part in parts {
            if part.word.post(part.frames) {
                words |= part.mask;
            } else {
                is_posted = false;
            }
        }
        if words != 0 {
            self.tell(tree, header, words);
        }
        is_posted
    }
}

/// Clears a bit.
fn unmark<W: AtomicWord<u64>>(word: &W, bit: u64) {
    let mut seen = word.load(Ordering::Relaxed);
    while seen & bit != 0 {
        // Acquire and release: pairs with the exchanges in `mark` and `tell`.
        match word.compare_exchange(seen, seen & !bit, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}
