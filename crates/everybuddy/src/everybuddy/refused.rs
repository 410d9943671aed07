//! What was refused stays refused until such a block may be free.
//!
//! A refusal costs a search of all trees, during which no other CPU owns one. Until something is freed, the next
//! request of that size would fail in the same way. So the system remembers the smallest block that it refused, and
//! refuses requests for as much without a search.
//!
//! Most frees do not change that: a block is not free while another allocation has a frame of it. So a free ends what
//! is remembered only if its CPU finds no such frame in the blocks of that order that the free touches. It looks for
//! *pieces*, which are the truth about allocations, and not at the planes, which call listed frames allocated.
//!
//! A hit must not write or read a shared word for that. A free hits if the owner of the tree is the CPU's *free
//! identity*, which is [`CLOSED_ID`] while a refusal is remembered. So the frees of each CPU miss after a refusal, are
//! counted, and look. This costs more than a hit, so it ends after more frees than there are trees: then the refusal is
//! forgotten, and has cost about as much as the searches that it saved. Allocations keep their identity, and hit.
//!
//! # Invariants
//! 1. While a block is remembered as refused, each block of that order has a frame that is a part of an allocation, or
//!    absent, or in a free that has begun and is not counted yet.
//! 2. A free removes its pieces before it is counted, and looks for others afterwards. So of two CPUs that free the
//!    last two pieces of a block, the one that is counted last sees that the other piece is gone.
//! 3. A request that searches in vain reads the number of frees (`moment`) before it asks the other CPUs for their
//!    trees, and remembers its size only if the number is still the same. It therefore sees each free or is stopped by
//!    it:
//!    - The CPU that frees has not acknowledged the request yet. It does so after the free, and the search sees the
//!      free.
//!    - It has acknowledged the request. Then it counts the free before the free changes a plane, and after the request
//!      read the number.
//!    - The free is nested, and belongs to no operation of a CPU. Such frees announce themselves in a word of their
//!      CPU, and the request looks there before it searches. A nested free that comes later sees the request and is
//!      counted.

use crate::bit_runs::{WORD, first};
use crate::frame::Order;
use crate::percpu::drain::Drains;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

use super::OwnedTrees;
use super::local::Local;
use super::wanted::{CLOSED_ID, is_large};

/// The bits with the order of the smallest block that was refused, plus one; 0 if none is remembered.
const ORDER: u64 = 0xff;
/// The unit of the bits with the number of frees after which the refusal is forgotten.
const FREES_LEFT: u64 = 1 << 8;
/// The largest such number.
const MOST_FREES_LEFT: u32 = 0xffff;
/// The unit of the other bits, which count frees.
const FREED: u64 = 1 << 24;

/// The number of words with allocated frames in which a free looks for another allocation.
const WORDS_LOOKED_AT: u32 = 4;

/// The memory of refusals.
pub(super) struct Refused<P: Platform>(P::AtomicU64);

impl<P: Platform> Refused<P> {
    pub(super) fn new() -> Self {
        Self(P::AtomicU64::new(0))
    }

    /// Returns the smallest block that is remembered as refused. A hint.
    pub(super) fn order(&self) -> Option<Order> {
        order_of(self.0.load(Ordering::Relaxed))
    }

    /// Returns `true` if a request for `frames` frames is refused now.
    #[inline(always)]
    pub(super) fn covers(&self, frames: u32) -> bool {
        self.0.load(Ordering::Relaxed) & ORDER != 0 && self.covers_now(frames)
    }

    #[cold]
    #[inline(never)]
    fn covers_now(&self, frames: u32) -> bool {
        let covers = |word| order_of(word).is_some_and(|order| frames >= order.frames());
        // An addition reads the latest value, so a free that ended before this request is seen. The load before keeps
        // the line shared while other requests are served. Relaxed: the answer depends on no other memory.
        covers(self.0.load(Ordering::Relaxed)) && covers(self.0.fetch_add(0, Ordering::Relaxed))
    }

    /// Returns the number of frees that were counted. A request reads it before it asks other CPUs.
    pub(super) fn moment(&self) -> u64 {
        // Relaxed: the exchanges that begin the request release this load.
        self.0.load(Ordering::Relaxed) / FREED
    }

    /// Remembers that no block of an order is free, until `frees` frees were counted. Returns `false` if one was
    /// counted since `moment`.
    pub(super) fn remember(&self, moment: u64, order: Order, frees: u32) -> bool {
        let code = u64::from(order.get()) + 1;
        let left = u64::from(frees.min(MOST_FREES_LEFT)) * FREES_LEFT;
        // Release: pairs with the acquire in `count`: a CPU that counts sees no piece that was gone before the search.
        let seen = self.update(Ordering::Release, |seen| {
            let known = seen & ORDER;
            let is_known = known != 0 && known <= code;
            let word = if is_known {
                seen
            } else {
                (moment * FREED) | left | code
            };
            (seen / FREED == moment).then_some(word)
        });
        seen / FREED == moment
    }

    /// Counts a free that begins. Returns what is remembered as refused after that.
    fn count(&self) -> Option<Order> {
        // Acquire and release: pairs with itself. The CPU that counts last sees that the pieces of the others are gone.
        let seen = self.update(Ordering::AcqRel, |seen| {
            let is_last = seen % FREED < FREES_LEFT;
            let left = if is_last {
                0
            } else {
                seen % FREED - FREES_LEFT
            };
            Some((seen / FREED).wrapping_add(1).wrapping_mul(FREED) | left)
        });
        order_of(seen).filter(|_| seen % FREED >= FREES_LEFT)
    }

    /// Counts a free that begins, and forgets what was refused.
    pub(super) fn forget(&self) {
        // Relaxed: what the free changes afterwards is released by other words, and this exchange with it.
        self.update(Ordering::Relaxed, |seen| {
            Some((seen / FREED).wrapping_add(1).wrapping_mul(FREED))
        });
    }

    /// Changes the word, unless `change` returns `None`. Returns the word before.
    fn update(&self, success: Ordering, change: impl Fn(u64) -> Option<u64>) -> u64 {
        let mut seen = self.0.load(Ordering::Relaxed);
        while let Some(new) = change(seen) {
            match self
                .0
                .compare_exchange(seen, new, success, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        seen
    }
}

fn order_of(word: u64) -> Option<Order> {
    Order::new(((word & ORDER) as u8).wrapping_sub(1))
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Prepares a free of a run that did not hit and has no pieces any more. Returns `true` if the CPU may keep trees.
    #[inline]
    pub(super) fn begin_free(&self, local: &Local<'_, P>, run: (u32, u32)) -> bool {
        // Relaxed: a CPU that is asked while it works notices it in its next operation.
        if local.free_identity.load(Ordering::Relaxed) != CLOSED_ID {
            return true;
        }
        self.resume(local);
        let mut open = false;
        // Twice, so that the identity is back, unless another CPU was refused meanwhile. A free does not wait for that.
        for _ in 0..2 {
            open = self.service(local);
            if local.free_identity.load(Ordering::Relaxed) != CLOSED_ID {
                return true;
            }
            // After the last acknowledgement: a request that this CPU has acknowledged must count the free.
            let is_remembered = self.note_free(run);
            if !open || is_remembered {
                break;
            }
        }
        open
    }

    /// Counts a free of a run that has no pieces any more, and forgets what was refused if the run may make such a
    /// block free. Returns `true` if a refusal is still remembered.
    #[cold]
    #[inline(never)]
    fn note_free(&self, (start, frames): (u32, u32)) -> bool {
        let Some(order) = self.requests.refused.count() else {
            return false;
        };
        let block_of = |frame: u32| frame >> order.index();
        let (first, last) = (block_of(start), block_of(start + (frames - 1)));
        // A run that reaches a third block has a whole one.
        let is_refused = last - first <= 1
            && (first..=last).all(|block| self.is_held(block << order.index(), order));
        if !is_refused {
            self.requests.refused.forget();
        }
        is_refused
    }

    /// Returns `true` if a block has a frame that is a part of an allocation or absent, as far as a look at some of its
    /// words shows.
    fn is_held(&self, start: u32, order: Order) -> bool {
        let trees = &self.shared.trees;
        let mut looks = WORDS_LOOKED_AT;
        for (tree, from, length) in trees.by_tree(start, order.frames()) {
            let Some(header) = trees.header(tree) else {
                // No block reaches beyond the last tree.
                return true;
            };
            let words = trees.mask_of(from, length.div_ceil(WORD));
            let mut split = header.split.peek() & words;
            while split != 0 {
                let mask = split & split.wrapping_neg();
                let index = tree * trees.words_per_tree() + split.trailing_zeros();
                split &= split - 1;
                let Some(word) = trees.words.get(index as usize) else {
                    return true;
                };
                let inside = first(length) << (from % WORD);
                // Of a smaller block, the planes would say which frame is absent. But another CPU may change both, and
                // this one may see the change of one plane only. Without it, the refusal is forgotten, which is right.
                if is_large(order) && header.absent.peek() & mask != 0 {
                    return true;
                }
                let allocated = !(word.own.peek() | word.foreign.load(Ordering::Relaxed));
                let taken = allocated & inside;
                let base = index * WORD;
                if taken != 0 && self.shared.heads.has_piece(base, taken) {
                    return true;
                }
                looks -= u32::from(taken != 0);
                if looks == 0 {
                    return false;
                }
            }
        }
        false
    }

    /// Calls `free` for code that may have interrupted an operation of the CPU. It frees a run that has no pieces any
    /// more.
    pub(super) fn with_nested_free<T>(
        &self,
        local: &Local<'_, P>,
        run: (u32, u32),
        free: impl FnOnce() -> T,
    ) -> T {
        // Acquire: pairs with the release in `has_nested_free`: if the request looked before, this CPU sees below that
        // it is pending.
        local.nested_frees.fetch_add(1, Ordering::Acquire);
        // If none is pending, this CPU sees what earlier requests remembered.
        let is_pending = self.requests.drains.is_pending();
        if is_pending || self.requests.refused.order().is_some() {
            self.note_free(run);
        }
        let result = free();
        // Release: pairs with the acquire in `has_nested_free`: the search sees what was freed.
        local.nested_frees.fetch_sub(1, Ordering::Release);
        result
    }

    /// Returns `true` if a nested free has begun and not ended. If not, this CPU sees all nested frees before.
    pub(super) fn has_nested_free(&self) -> bool {
        // An addition reads the latest value. Acquire: pairs with the release at the end of `with_nested_free`.
        // Release: pairs with the acquire at its begin.
        let has = |local: &Local<'_, P>| local.nested_frees.fetch_add(0, Ordering::AcqRel) != 0;
        self.locals.iter().any(has)
    }
}
