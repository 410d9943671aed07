//! How a request that did not hit finds frames, and where a free that did not hit goes.
//!
//! A request that did not hit takes these steps, from the cheapest to the most certain:
//!
//! 1. `refill`: the free blocks of a word of the current tree enter the list, if the request is for a small block. For
//!    movable frames, it may be a word [between frames that stay](super::fragments).
//! 2. `find_own`: in a shortage the smallest block that suffices, of [some trees](super::fit); the list; partly free
//!    trees without an owner that lie below the CPU's own ones, for blocks of at most half a word; the CPU's own
//!    trees for its kind, lowest address first, or, for a frame, from the first-fit point on if they are many.
//! 3. `find_unowned`: trees for its kind that no CPU owns, window by window; the CPU's own trees for other sizes and
//!    for the other kind; trees for the other kind that no CPU owns. Once more, if the CPU kept frames: it announces
//!    them first.
//! 4. `find_drained`: the third step after all CPUs released their trees. Then a block of whole words is refused if no
//!    header has one and nothing is freed meanwhile. Anything else is searched in all trees together, while this CPU
//!    owns all of them.
//!
//! # Invariants
//! A request is refused as exhausted only if at some moment nothing suitable was free: while all lists are empty, and
//! either nothing is freed, or a CPU owns all trees, so that no other CPU allocates, and a free that was complete
//! before is in a plane. A request that must not wait takes the fourth step only if all other CPUs are parked, and
//! otherwise fails as busy: its search looks at one tree after the other, and a hit leaves no trace. A nested request
//! never takes it, and is exhausted only if a refusal is remembered, or if the system has one CPU, which keeps nothing.

use crate::error::{AllocateError, FreeError};
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};
use crate::probe::{Event, Probe};
use crate::request::Flags;

use super::OwnedTrees;
use super::foreign::Found;
use super::local::{Local, Scope};
use super::put_back::TreeRun;
use super::wanted::{NESTED, Wanted};
use super::word::Header;

impl<P: Platform> OwnedTrees<'_, P> {
    /// Returns `true` if a block of this order is larger than a tree.
    #[inline(always)]
    pub(super) fn exceeds_tree(&self, order: Order) -> bool {
        order.index() as u32 > self.shared.trees.shift
    }

    /// Serves a request that did not hit.
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_slow(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        wanted: Wanted,
        flags: Flags,
    ) -> Result<u32, AllocateError> {
        let is_hasty = flags.contains(Flags::NO_WAIT);
        let open = self.begin(local);
        if self.requests.refused.covers(wanted.frames) {
            local.fell_short(&self.shared, wanted);
            self.end(local, open);
            P::probe(cpu).record(Event::Bypass(wanted.order));
            return Err(AllocateError::Exhausted);
        }
        let found = match self.find_own(cpu, local, wanted) {
            Some(start) => Ok(start),
            None => {
                P::probe(cpu).record(Event::Bypass(wanted.order));
                self.find_unowned(local, wanted)
            }
        };
        self.end(local, open);
        let elsewhere = match found {
            Ok(start) => return Ok(start),
            Err(elsewhere) => elsewhere,
        };
        let found = if is_hasty && (elsewhere || !self.is_alone(local)) {
            Err(AllocateError::Busy)
        } else {
            self.find_drained(cpu, local, wanted, !is_hasty)
        };
        if found == Err(AllocateError::Exhausted) || found.is_err() && !elsewhere {
            local.fell_short(&self.shared, wanted);
        }
        found
    }

    /// Finds a block among what this CPU has: by fit in a shortage, in its list, or by address in its own trees. Small
    /// blocks may be in a lower tree without an owner that is partly free: a CPU that preferred its own trees could
    /// have high ones for ever, since it frees into them, too.
    fn find_own(&self, cpu: &mut P::Cpu, local: &Local<'_, P>, wanted: Wanted) -> Option<u32> {
        let found = match self.find_smallest(cpu, local, wanted) {
            None if wanted.is_block() => local.pop(&self.shared, wanted.order, wanted.kind),
            found => found,
        };
        if found.is_some() || self.exceeds_tree(wanted.order) || local.lacks(wanted) {
            return found;
        }
        let own = local.own_serving(&self.shared, wanted, Scope::Meant);
        let mut own = own.peekable();
        if !wanted.is_large() {
            let (first, _) = own.peek()?;
            let below = local.look_below(&self.shared, *first);
            if let Some((tree, start)) = self.shared.search_below(local.id, wanted, below) {
                return Some(self.keep_found(local, tree, wanted, start));
            }
        }
        let found = self.find_in(local, wanted, own);
        if found.is_none() {
            local.note_lack(wanted);
        }
        found
    }

    /// Takes a block of the first of some own trees that has one.
    fn find_in<'h>(
        &self,
        local: &Local<'_, P>,
        wanted: Wanted,
        mut own: impl Iterator<Item = (u32, &'h Header<P>)>,
    ) -> Option<u32> {
        let (tree, header, start) = own.find_map(|(tree, header)| {
            let start = self.shared.take(tree, header, wanted)?;
            Some((tree, header, start))
        })?;
        local.moved(tree, header, wanted, start);
        Some(start)
    }

    /// Finds a block in trees that no CPU owns, or in trees for frames of another kind. If there is none, the error
    /// says whether a tree of another CPU may have one.
    fn find_unowned(&self, local: &Local<'_, P>, wanted: Wanted) -> Result<u32, bool> {
        if self.exceeds_tree(wanted.order) {
            local.release_all(&self.shared);
            return match self.shared.take_trees(local.id, wanted) {
                Found::Taken(_, start) => Ok(start),
                Found::Nothing(elsewhere) => Err(elsewhere),
            };
        }
        let search = |first, any| {
            self.shared
                .search(local.id, (local.home, first), wanted, any)
        };
        loop {
            let found = match local.search_start(wanted) {
                0 => search(0, false),
                first => match search(first, false) {
                    Found::Nothing(_) => search(0, false),
                    found => found,
                },
            };
            let busy = match found {
                Found::Taken(tree, start) => {
                    return Ok(self.keep_found(local, tree, wanted, start));
                }
                Found::Nothing(busy) => busy,
            };
            for scope in [Scope::Kind, Scope::All] {
                let own = local.own_serving(&self.shared, wanted, scope);
                if let Some(start) = self.find_in(local, wanted, own) {
                    return Ok(start);
                }
            }
            match search(0, true) {
                Found::Taken(tree, start) => {
                    return Ok(self.keep_found(local, tree, wanted, start));
                }
                // Once more, if the CPU kept frames.
                Found::Nothing(_) if local.announce_all(&self.shared) => (),
                Found::Nothing(still) => return Err(busy || still),
            }
        }
    }

    /// Finds a block after all other CPUs released what they own: as before, or among all trees together.
    fn find_drained(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        wanted: Wanted,
        waits: bool,
    ) -> Result<u32, AllocateError> {
        P::probe(cpu).record(Event::Reclaim);
        let moment = self.requests.refused.moment();
        self.with_all_drained(cpu, local, waits, |all_drained| {
            match self.find_unowned(local, wanted) {
                Ok(start) => Ok(start),
                Err(_) if !all_drained => Err(AllocateError::Busy),
                Err(_) if self.is_refused_unclaimed(wanted, moment) => {
                    Err(AllocateError::Exhausted)
                }
                Err(_) if !waits && self.is_of_words(wanted) => Err(AllocateError::Busy),
                Err(_) => self.find_among_all(local, wanted, (moment, waits)),
            }
        })
    }

    /// Returns `true` for a block of whole words of one tree: the header of a tree says whether the tree has one.
    fn is_of_words(&self, wanted: Wanted) -> bool {
        wanted.is_large() && wanted.is_block() && !self.exceeds_tree(wanted.order)
    }

    /// Refuses a block of whole words without a claim of any tree, if the headers say that there is none, and remembers
    /// it. All CPUs were drained for a request that read the number of frees, `moment`, before.
    ///
    /// Each free since then is counted before it changes a plane. So if none was, trees only lose blocks, unless a CPU
    /// collects returned frames. This shows in a tree that has an owner, or returned frames.
    fn is_refused_unclaimed(&self, wanted: Wanted, moment: u64) -> bool {
        let trees = &self.shared.trees;
        let has_none = |header: &Header<P>| {
            // In this order. Acquire: pairs with the exchange in `collect`. If another CPU has emptied the inbox, it
            // has claimed the tree before, and what it collected is seen if it has released the tree.
            header.inbox.load(Ordering::Acquire) == 0
                && self.shared.is_unowned(header)
                && !trees.has_words(header, wanted.order)
        };
        self.is_of_words(wanted)
            && !self.has_nested_free()
            && trees.headers.iter().all(has_none)
            && self.remember_refusal(moment, wanted)
    }

    /// Remembers a request as refused. Returns `false` if something was freed since `moment`.
    fn remember_refusal(&self, moment: u64, wanted: Wanted) -> bool {
        let frees = self.shared.trees.count();
        self.requests.refused.remember(moment, wanted.order, frees)
    }

    /// Keeps a claimed tree of which a block was taken. Returns the block's first frame.
    pub(super) fn keep_found(
        &self,
        local: &Local<'_, P>,
        tree: u32,
        wanted: Wanted,
        start: u32,
    ) -> u32 {
        if let Some(header) = self.shared.trees.header(tree) {
            let is_kept = if wanted.is_large() {
                local.adopt_large(&self.shared, tree, header, wanted)
            } else {
                local.adopt(&self.shared, tree, wanted.kind);
                true
            };
            if is_kept {
                local.moved(tree, header, wanted, start);
            }
        }
        start
    }

    /// Finds a block while this CPU owns all trees. No other CPU keeps one. If there is none, this is remembered unless
    /// something was freed since `moment`.
    fn find_among_all(
        &self,
        local: &Local<'_, P>,
        wanted: Wanted,
        (moment, waits): (u64, bool),
    ) -> Result<u32, AllocateError> {
        local.release_all(&self.shared);
        let has_nested_free = self.has_nested_free();
        let trees = &self.shared.trees;
        let last = trees.count().saturating_sub(1);
        if !self.shared.claim_all(local.id, 0, last, waits) {
            return Err(AllocateError::Busy);
        }
        let take = |tree| {
            let header = trees.header(tree)?;
            // The exchange of the inbox reads what was posted last.
            trees.collect(tree, header);
            self.shared.take(tree, header, wanted)
        };
        let found = if self.exceeds_tree(wanted.order) {
            self.shared.take_own_trees(wanted)
        } else {
            (0..=last).find_map(take)
        };
        if found.is_none() && !has_nested_free {
            self.remember_refusal(moment, wanted);
        }
        self.shared.release_all(0, last);
        found.ok_or(AllocateError::Exhausted)
    }

    /// Returns `true` if a CPU other than `id` may keep frames.
    pub(super) fn may_be_kept(&self, id: Option<u32>) -> bool {
        let mut others = self.locals.iter().filter(|local| Some(local.id) != id);
        others.any(Local::may_keep)
    }

    /// Serves a request of code that may have interrupted an operation of the same CPU: it touches only trees that no
    /// CPU owns.
    pub(super) fn allocate_unowned(&self, home: u32, wanted: Wanted) -> Result<u32, AllocateError> {
        if self.requests.refused.covers(wanted.frames) {
            return Err(AllocateError::Exhausted);
        }
        let exceeds_tree = self.exceeds_tree(wanted.order);
        let may_be_missed = self.locals.len() > 1 || self.may_be_kept(None);
        let search = |any| self.shared.search(NESTED, (home, 0), wanted, any);
        let found = if exceeds_tree {
            self.shared.take_trees(NESTED, wanted)
        } else {
            match search(false) {
                Found::Nothing(busy) => match search(true) {
                    Found::Nothing(still) => Found::Nothing(busy || still),
                    found => found,
                },
                found => found,
            }
        };
        match found {
            Found::Nothing(elsewhere) if elsewhere || may_be_missed => Err(AllocateError::Busy),
            Found::Nothing(_) => Err(AllocateError::Exhausted),
            Found::Taken(tree, start) => {
                if !exceeds_tree && let Some(header) = self.shared.trees.header(tree) {
                    self.shared.release(tree, header);
                }
                Ok(start)
            }
        }
    }

    /// Frees frames of several words.
    pub(super) fn free_words(
        &self,
        local: &Local<'_, P>,
        open: bool,
        start: u32,
        frames: u32,
    ) -> Result<(), FreeError> {
        // A free into one tree checks all frames before it changes any.
        let tree_of = |frame| self.shared.trees.tree_of(frame);
        if tree_of(start) != tree_of(start + (frames - 1)) {
            self.check_allocated(start, frames)?;
        }
        let mut is_freed = true;
        for (_, start, frames) in self.shared.trees.by_tree(start, frames) {
            is_freed &= local.put_back(&self.shared, open, &TreeRun { start, frames });
        }
        if is_freed {
            Ok(())
        } else {
            Err(self.diagnose(start, frames))
        }
    }

    /// Frees frames for code that may have interrupted an operation of the same CPU.
    pub(super) fn free_foreign(&self, start: u32, frames: u32) -> Result<(), FreeError> {
        self.check_allocated(start, frames)?;
        let trees = &self.shared.trees;
        let mut is_freed = true;
        for (tree, from, length) in trees.by_tree(start, frames) {
            let header = trees.header(tree).ok_or(FreeError::Foreign)?;
            is_freed &= self.shared.post(tree, header, trees.parts(from, length));
        }
        is_freed.then_some(()).ok_or(FreeError::NotAllocated)
    }

    /// Checks that all frames of a run are allocated, and says what the first other one is.
    fn check_allocated(&self, start: u32, frames: u32) -> Result<(), FreeError> {
        let mut parts = self.shared.trees.parts(start, frames);
        if parts.all(|part| part.is_allocated()) {
            Ok(())
        } else {
            Err(self.diagnose(start, frames))
        }
    }
}
