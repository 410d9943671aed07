//! The blocks that a CPU freed last, which its requests take first.
//!
//! A CPU has a list for each order and kind of block, in which the block that was freed last comes first. The head of a
//! block names its list.
//!
//! # Invariants
//! 1. A block enters the list only if it lies at or below the list's first-fit point. A search by address would soon
//!    find each such block, too. So the list does not keep high addresses in use. In a shortage, when address does not
//!    decide, a block of less than a word enters its list wherever it lies, unless its buddy is free: the two become a
//!    larger block. Frames of the words that the CPU fills enter it wherever they lie, too.
//! 2. Blocks of all trees enter a list. A listed block is allocated in the planes, and its head is zero.
//! 3. A frame of the current tree, or of the words that the CPU fills, may enter the list before it was ever allocated:
//!    the CPU owns the tree, so no other CPU can have the frame without asking, be it listed or not.
//! 4. The CPU *gathers* small blocks of one word that are freed one after the other and enter no list, except for the
//!    first. One change of the word frees them. Until then, they are in the state of listed blocks. In a shortage, the
//!    CPU gathers nothing.
//! 5. The CPU announces the frames that others cannot find before it acknowledges a request of another CPU, and before
//!    it parks. While there may be such frames, `keeps` is 1.

use crate::bit_runs::WORD;
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

use super::foreign::Shared;
use super::geometry::HEADS_OF_SMALL;
use super::heads::{head, order_of};
use super::local::{KindPlace, List, Local, NO_WORD};
use super::put_back::TreeRun;
use super::tree::{Among, Part};
use super::wanted::{CLOSED_ID, is_large};
use super::word::Kind;

impl<'m, P: Platform> Local<'m, P> {
    /// The hit of a request: takes the block of this order and kind that was freed last.
    #[inline(always)]
    pub(crate) fn hit(&self, shared: &Shared<'_, P>, order: Order, kind: Kind) -> Option<u32> {
        let list = self.list(order, kind)?;
        // An empty list has no such entry.
        let last = list.count.get().wrapping_sub(1);
        let start = list.entries.get(last as usize)?.get();
        let byte = shared.heads.of(start)?;
        // Two CPUs that freed the block simultaneously may both have listed it.
        if self.is_closed() || byte.get() != 0 {
            return None;
        }
        list.count.set(last);
        byte.set(head(order, kind));
        Some(start)
    }

    /// Returns the head that a block has that is of the kind that was freed last.
    #[inline(always)]
    pub(super) fn last_head(&self, order: Order) -> u8 {
        head(order, Kind::Staying) | self.last.get() & 1
    }

    /// The check of a free: removes the head of a small block of this order and of the kind that was freed last, and
    /// returns its list. `None` if it is another one.
    ///
    /// Most frees are of the same kind as the one before. So a processor need not wait for the kind, which it reads in
    /// the head, before it reads the list.
    #[inline(always)]
    pub(super) fn take_head(
        &self,
        shared: &Shared<'_, P>,
        start: u32,
        order: Order,
    ) -> Option<&List<'m, P>> {
        let last = self.last_head(order);
        // The head of a large block is removed by an exchange, elsewhere.
        let list = self.lists.get(..HEADS_OF_SMALL)?.get(usize::from(last))?;
        let byte = shared.heads.of(start)?;
        if byte.get() != last {
            return None;
        }
        byte.set(0);
        Some(list)
    }

    /// Moves the free blocks of a word into the list, lowest one last, by one change of the word: of the current tree,
    /// or of the words that the CPU fills.
    pub(crate) fn refill(&self, shared: &Shared<'_, P>, order: Order, kind: Kind) {
        // A list serves requests of its kind only.
        let (Some(list), Some((tree, header, among))) =
            (self.list(order, kind), self.refilling(shared, order, kind))
        else {
            return;
        };
        let listed = list.count.get();
        let room = list.entries.get(listed as usize..).unwrap_or_default();
        let taken = shared
            .trees
            .take_of_first(tree, header, among, (order, room.len()));
        let Some((start, mut blocks)) = taken else {
            return;
        };
        let count = blocks.count_ones();
        let entries = room.get(..count as usize).unwrap_or_default();
        for entry in entries.iter().rev() {
            entry.set(start + blocks.trailing_zeros());
            blocks &= blocks.wrapping_sub(1);
        }
        if self.keeps.load(Ordering::Relaxed) == 0 {
            self.keeps.store(1, Ordering::Relaxed);
        }
        // Frames that fill other words do not move the point: the list would keep high addresses.
        if among == Among::All
            && let Some(highest) = entries.first()
        {
            list.point.set(highest.get());
        }
        list.count.set(listed + count);
    }

    /// Takes a block of the list, and drops entries that are no longer free. If a request for a frame finds all lists
    /// empty, announces the frames that the CPU keeps.
    pub(crate) fn pop(&self, shared: &Shared<'_, P>, order: Order, kind: Kind) -> Option<u32> {
        let list = self.list(order, kind)?;
        while !list.is_empty() {
            let start = self.hit(shared, order, kind);
            // A CPU that was closed meanwhile drops nothing.
            if start.is_some() || self.is_closed() {
                return start;
            }
            list.count.set(list.count.get() - 1);
        }
        if order == Order::ZERO && self.may_keep() && self.lists.iter().all(List::is_empty) {
            self.free_gathered(shared, false);
            self.keeps_nothing();
        }
        None
    }

    /// Puts a block that the planes call allocated into a list, wherever it lies. Returns `false` if the list has no
    /// room, or if the CPU may not keep it.
    #[inline(always)]
    pub(super) fn push(&self, list: &List<'_, P>, start: u32) -> bool {
        // Relaxed: a hint, as in `owns`.
        if self.free_identity.load(Ordering::Relaxed) == CLOSED_ID {
            return false;
        }
        let count = list.count.get();
        let Some(entry) = list.entries.get(count as usize) else {
            return false;
        };
        if self.keeps.load(Ordering::Relaxed) == 0 {
            self.keeps.store(1, Ordering::Relaxed);
        }
        entry.set(start);
        list.count.set(count + 1);
        true
    }

    /// Moves a block of a list to its tree. Returns `false` if the planes or the head do not say that it is listed:
    /// then two CPUs freed it simultaneously.
    fn unlist(&self, shared: &Shared<'_, P>, start: u32, order: Order) -> bool {
        let frames = order.frames();
        let byte = shared.heads.of(start);
        byte.is_some_and(|byte| byte.get() == 0)
            && self.put_back(shared, false, &TreeRun { start, frames })
    }

    /// Announces all frames that the CPU keeps, so that the owners of their trees can allocate them, and empties the
    /// lists. Returns `true` if there was such a frame.
    pub(crate) fn announce_all(&self, shared: &Shared<'_, P>) -> bool {
        let mut any = self.may_keep() && self.empty_lists(shared, 0);
        any |= self.free_gathered(shared, false);
        self.keeps_nothing();
        any
    }

    /// Moves the blocks of the lists from a head on to their trees. Returns `true` if there was one.
    pub(super) fn empty_lists(&self, shared: &Shared<'_, P>, from: usize) -> bool {
        let mut any = false;
        let lists = self.lists.iter().zip(listed_orders());
        for (list, order) in lists.skip(from) {
            let blocks = list.blocks();
            list.count.set(0);
            for entry in blocks {
                any |= self.unlist(shared, entry.get(), order);
            }
        }
        if any {
            self.places.iter().for_each(KindPlace::has_more);
        }
        any
    }

    /// Gathers a block that enters no list, if the block before it that did not was of the same word.
    #[inline(always)]
    pub(super) fn gather(&self, start: u32, order: Order) -> bool {
        // Relaxed: a hint, as in `owns`.
        if self.pending.get() != start / WORD
            || is_large(order)
            || self.free_identity.load(Ordering::Relaxed) == CLOSED_ID
        {
            return false;
        }
        if self.keeps.load(Ordering::Relaxed) == 0 {
            self.keeps.store(1, Ordering::Relaxed);
        }
        let first = 1_u64 << (start % WORD);
        let frames = (first << order.frames()).wrapping_sub(first);
        self.gathered.set(self.gathered.get() | frames);
        true
    }

    /// Lets the CPU gather the next blocks of a word. Frees those that it gathered before.
    #[inline(always)]
    pub(super) fn gather_next(&self, shared: &Shared<'_, P>, start: u32) {
        if self.gathered.get() != 0 {
            self.free_gathered(shared, !self.is_closed());
        }
        self.pending.set(start / WORD);
    }

    /// Frees what the CPU gathered, by one change of its word. Returns `true` if there was something.
    #[inline(never)]
    pub(super) fn free_gathered(&self, shared: &Shared<'_, P>, may_keep: bool) -> bool {
        let (index, frames) = (self.pending.get(), self.gathered.get());
        self.pending.set(NO_WORD);
        self.gathered.set(0);
        let first = index.wrapping_mul(WORD);
        let Some(part) = shared.trees.part(first).filter(|_| frames != 0) else {
            return false;
        };
        let kind = part.header.kind_hint();
        let free = |frames| self.put_back(shared, may_keep, &Part { frames, ..part });
        if !free(frames) {
            // Another CPU freed one of them simultaneously.
            let each = (0..WORD).map(|bit| frames & 1 << bit);
            each.filter(|frame| *frame != 0).for_each(|frame| {
                free(frame);
            });
        }
        self.pass_over(kind, first + frames.trailing_zeros(), frames.count_ones());
        true
    }

    /// Notes that the CPU keeps no frame.
    fn keeps_nothing(&self) {
        if self.may_keep() {
            // Release: pairs with the acquire in `may_keep`: a CPU that reads this finds what was announced.
            self.keeps.store(0, Ordering::Release);
        }
    }

    /// Returns `true` if the CPU may keep frames. If not, a search that begins afterwards finds what it kept before.
    pub(crate) fn may_keep(&self) -> bool {
        // Acquire: pairs with the release in `keeps_nothing`.
        self.keeps.load(Ordering::Acquire) != 0
    }

    /// Returns the blocks of the lists: their first frames and their orders. A hint, unless the CPU is at rest.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (u32, Order)> {
        let lists = self.lists.iter().zip(listed_orders());
        let listed = lists.flat_map(|(list, order)| {
            let blocks = list.blocks().iter();
            blocks.map(move |start| (start.peek(), order))
        });
        let (index, frames) = (self.pending.peek(), self.gathered.peek());
        let gathered = (0..WORD).filter(move |bit| frames >> bit & 1 != 0);
        listed.chain(gathered.map(move |bit| (index.wrapping_mul(WORD) + bit, Order::ZERO)))
    }

    /// Returns the number of frames in the lists. A hint, unless the CPU is at rest.
    pub(crate) fn listed_frames(&self) -> u64 {
        // Horner's rule, from the largest order on: Linux asks for about every second page of its page cache. The first
        // lists are of no block, and empty.
        let orders = self.lists.chunks_exact(Kind::COUNT).skip(1).rev();
        let listed = orders.fold(0, |frames, lists| {
            let blocks = lists.iter().map(|list| u64::from(list.count.peek()));
            frames * 2 + blocks.sum::<u64>()
        });
        listed + u64::from(self.gathered.peek().count_ones())
    }
}

/// Returns the order of the blocks of each list. The first lists, of no block, count as those of single frames.
fn listed_orders() -> impl Iterator<Item = Order> {
    (0..=u8::MAX).map(|head| order_of(head).unwrap_or(Order::ZERO))
}
