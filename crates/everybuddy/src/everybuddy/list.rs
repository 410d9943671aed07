//! The frames that a CPU freed last, which its requests take first.
//!
//! A CPU has a list for each kind of frame, in which the frame that was freed last comes first.
//!
//! # Invariants
//! 1. A frame enters the list only if it lies at or below the CPU's first-fit point. A search by address would soon
//!    find each such frame, too. So the list does not keep high addresses in use.
//! 2. Frames of all trees enter a list. A listed frame is allocated in the planes, and its head is zero.
//! 3. A frame of the current tree may enter the list before it was ever allocated: the CPU owns the tree, so no other
//!    CPU can have the frame without asking, be it listed or not.
//! 4. The frames that the CPU returned to the word `pending` of another CPU's tree are *kept*: they are returned in the
//!    planes, and only this CPU knows.
//! 5. The CPU announces the frames that others cannot find before it acknowledges a request of another CPU, and before
//!    it parks. While there may be such frames, `keeps` is 1.

use crate::bit_runs::WORD;
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

use super::foreign::Shared;
use super::heads::head;
use super::local::{KindPlace, Local, NO_WORD};
use super::tree::Part;
use super::wanted::CLOSED_ID;
use super::word::Kind;

impl<'m, P: Platform> Local<'m, P> {
    /// The hit of a request: takes the frame that was freed last.
    #[inline(always)]
    pub(crate) fn hit(&self, shared: &Shared<'_, P>, kind: Kind) -> Option<u32> {
        let place = self.place(kind);
        let left = place.length.get().wrapping_sub(1);
        let frame = place.list.get(left as usize)?.get();
        if self.is_closed() {
            return None;
        }
        place.length.set(left);
        let byte = shared.heads.of(frame)?;
        // Two CPUs that freed the frame simultaneously may both have listed it.
        if byte.get() != 0 {
            return None;
        }
        byte.set(head(Order::ZERO, kind));
        Some(frame)
    }

    /// Moves the free frames of a word of the current tree into the list, lowest frame last, by one change of the word.
    /// Returns `false` if there are none.
    #[inline(always)]
    pub(crate) fn refill(&self, shared: &Shared<'_, P>, kind: Kind) -> bool {
        let place = self.place(kind);
        // A list serves requests of its kind only.
        let Some((tree, header)) = self.current(shared, &place.current, kind) else {
            return false;
        };
        let length = place.length.get();
        let room = place.list.get(length as usize..).unwrap_or_default();
        let taken = shared.trees.take_of_first(tree, header, true, room.len());
        let Some((start, mut frames)) = taken else {
            return false;
        };
        let count = frames.count_ones();
        let entries = room.get(..count as usize).unwrap_or_default();
        for entry in entries.iter().rev() {
            entry.set(start + frames.trailing_zeros());
            frames &= frames.wrapping_sub(1);
        }
        if self.keeps.load(Ordering::Relaxed) == 0 {
            self.keeps.store(1, Ordering::Relaxed);
        }
        if let Some(highest) = entries.first() {
            place.point.set(highest.get());
        }
        place.length.set(length + count);
        count != 0
    }

    /// Takes a frame of the list, and drops entries that are no longer free. If the lists are empty, announces the
    /// frames that the CPU keeps.
    pub(crate) fn pop(&self, shared: &Shared<'_, P>, kind: Kind) -> Option<u32> {
        while self.place(kind).length.get() > 0 && !self.is_closed() {
            let frame = self.hit(shared, kind);
            if frame.is_some() {
                return frame;
            }
        }
        if self.places.iter().all(|place| place.length.get() == 0) {
            self.announce_pending(shared);
            self.keeps_nothing();
        }
        None
    }

    /// Puts a frame that the planes call allocated into a list, if it lies at or below the first-fit point and the list
    /// has room. Returns `false` if it does not. The first-fit point is in memory.
    #[inline(always)]
    pub(super) fn enter(&self, place: &KindPlace<'m, P>, frame: u32) -> bool {
        // Relaxed: a hint, as in `owns`.
        if frame > place.point.get() || self.free_identity.load(Ordering::Relaxed) == CLOSED_ID {
            return false;
        }
        let length = place.length.get();
        let Some(entry) = place.list.get(length as usize) else {
            place.start_over();
            return false;
        };
        if self.keeps.load(Ordering::Relaxed) == 0 {
            self.keeps.store(1, Ordering::Relaxed);
        }
        entry.set(frame);
        place.length.set(length + 1);
        true
    }

    /// Moves a frame of the list to its tree. Returns `false` if the planes or the head do not say that it is listed:
    /// then two CPUs freed it simultaneously.
    fn unlist(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        let Some(part) = shared.trees.part(frame) else {
            return false;
        };
        if shared.heads.of(frame).is_none_or(|byte| byte.get() != 0) {
            return false;
        }
        // Relaxed: only this CPU makes itself an owner.
        if part.header.owner.load(Ordering::Relaxed) == self.id {
            return part.header.give(part.mask, part.word, part.frames);
        }
        if shared.claim(part.header, self.id) {
            let is_freed = part.header.give(part.mask, part.word, part.frames);
            shared.release(shared.trees.tree_of(frame), part.header);
            return is_freed;
        }
        part.is_allocated() && part.word.post(part.frames) && self.announce(shared, &part)
    }

    /// Tells the owner of a frame's tree that the frame is returned. Does nothing and returns `false` unless it is.
    fn announce(&self, shared: &Shared<'_, P>, part: &Part<'_, P>) -> bool {
        let is_returned = part.word.has_foreign(part.frames);
        if is_returned {
            let tree = part.index / shared.trees.words_per_tree();
            shared.tell(tree, part.header, part.mask);
        }
        is_returned
    }

    /// Announces all frames that the CPU keeps, so that the owners of their trees can allocate them, and empties the
    /// lists. Returns `true` if there was such a frame.
    pub(crate) fn announce_all(&self, shared: &Shared<'_, P>) -> bool {
        let mut any = false;
        let is_kept = self.may_keep();
        for place in &self.places {
            let length = place.length.get();
            place.length.set(0);
            if !is_kept {
                continue;
            }
            for entry in place.list.iter().take(length as usize) {
                any |= self.unlist(shared, entry.get());
            }
        }
        any |= self.announce_pending(shared);
        self.keeps_nothing();
        any
    }

    /// Returns a frame to a tree of another CPU, and keeps it until the CPU returns a frame of another word. So the
    /// header of the tree, which the tree's owner uses, is written once per word and not once per frame. Returns
    /// `false` if the frame is not allocated.
    pub(super) fn return_later(&self, shared: &Shared<'_, P>, part: &Part<'_, P>) -> bool {
        if !part.is_allocated() {
            return false;
        }
        if self.pending.get() != part.index {
            self.announce_pending(shared);
            self.pending.set(part.index);
        }
        // Before the frame is returned: a CPU that sees the returned frame also sees `keeps`.
        if !self.may_keep() {
            self.keeps.store(1, Ordering::Relaxed);
        }
        part.word.post(part.frames)
    }

    /// The same for another frame of that word, without a look at the header of its tree.
    #[inline(always)]
    pub(super) fn return_further(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        let index = frame / WORD;
        // Relaxed: a hint, as in `owns`.
        if self.pending.get() != index || self.free_identity.load(Ordering::Relaxed) == CLOSED_ID {
            return false;
        }
        let is_above = |place: &KindPlace<'m, P>| frame > place.point.get();
        match shared.trees.words.get(index as usize) {
            Some(word) if self.places.iter().all(is_above) => {
                word.post_further(1 << (frame % WORD))
            }
            _ => false,
        }
    }

    /// Announces the frames of the word that is pending. Returns `true` if there was one.
    fn announce_pending(&self, shared: &Shared<'_, P>) -> bool {
        let index = self.pending.get();
        self.pending.set(NO_WORD);
        match shared.trees.part(index.wrapping_mul(WORD)) {
            Some(part) if index != NO_WORD => {
                let frames = u64::MAX;
                self.announce(shared, &Part { frames, ..part })
            }
            _ => false,
        }
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

    /// Returns the number of entries of the lists. A hint, unless the CPU is at rest. O(1).
    pub(crate) fn listed(&self) -> u64 {
        let length =
            |place: &KindPlace<'m, P>| (place.length.peek() as usize).min(place.list.len());
        self.places.iter().map(length).sum::<usize>() as u64
    }

    /// Returns the entries of the lists. A hint, unless the CPU is at rest.
    pub(crate) fn entries(&self) -> impl Iterator<Item = u32> {
        let entries = |place: &KindPlace<'m, P>| {
            let entries = place.list.iter().take(place.length.peek() as usize);
            entries.map(P::Cell::peek)
        };
        self.places.iter().flat_map(entries)
    }
}
