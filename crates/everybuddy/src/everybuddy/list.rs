//! The frames that a CPU freed last, which its requests take first.
//!
//! # Purpose
//!
//! A CPU has a list for each kind of frame, in which the frame that was freed last comes first.
//!
//! # Invariants
//!
//! 1. A frame enters the list only if it lies at or below the CPU's first-fit point. A search by address would soon
//!    find each such frame, too. So the list does not keep high addresses in use.
//! 2. Without `check=border`, only frames of the CPU's own trees enter a list. They are free in the planes, and an
//!    entry is a hint.
//! 3. With `check=border`, frames of all trees enter a list, and a listed frame is allocated in the planes. It is
//!    checked when it leaves the list for its tree.
//! 4. The frames that the CPU returned to the word `pending` of another CPU's tree are *kept*: they are returned in the
//!    planes, and only this CPU knows.
//! 5. The CPU announces the frames that others cannot find before it acknowledges a request of another CPU, and before
//!    it parks. While there may be such frames, `keeps` is 1.

use crate::bit_runs::WORD;
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

use super::foreign::Shared;
use super::heads::head;
use super::local::{CLOSED_ID, KindPlace, Local, NO_WORD};
use super::tree::Part;
use super::word::Kind;

impl<'m, P: Platform> Local<'m, P> {
    /// The hit of a request: takes the frame that was freed last.
    #[inline(always)]
    pub(crate) fn hit(&self, shared: &Shared<'_, P>, kind: Kind) -> Option<u32> {
        let place = self.place(kind);
        let left = place.length.get().wrapping_sub(1);
        let frame = place.list.get(left as usize)?.get();
        place.length.set(left);
        let part = shared.trees.part(frame)?;
        // The tree may be for another kind now.
        let is_meant = self.owns(&part.header.owner) && part.header.kind() == kind;
        (is_meant && part.header.take(part.mask, part.word, part.frames)).then_some(frame)
    }

    /// The same with `check=border`: the planes say already that the frame is allocated.
    #[inline(always)]
    pub(crate) fn hit_listed(&self, kind: Kind) -> Option<u32> {
        let place = self.place(kind);
        let left = place.length.get().wrapping_sub(1);
        let frame = place.list.get(left as usize)?.get();
        if self.is_closed() {
            return None;
        }
        place.length.set(left);
        Some(frame)
    }

    /// The same with `check=heads`.
    #[inline(always)]
    pub(crate) fn hit_by_head(&self, shared: &Shared<'_, P>, kind: Kind) -> Option<u32> {
        let frame = self.hit_listed(kind)?;
        let byte = shared.heads.of(frame)?;
        // Two CPUs that freed the frame simultaneously may both have listed it.
        if byte.get() != 0 {
            return None;
        }
        byte.set(head(Order::ZERO, kind));
        Some(frame)
    }

    /// With `check=heads`: moves the free frames of a word of the current tree into the list, lowest frame last, by one
    /// change of the word. Returns `false` if there are none. The CPU owns the tree, so no other CPU can have them
    /// without asking, be they listed or not.
    #[inline(always)]
    pub(crate) fn refill(&self, shared: &Shared<'_, P>, kind: Kind) -> bool {
        let place = self.place(kind);
        let tree = place.current.get();
        let Some(header) = shared.trees.header(tree) else {
            return false;
        };
        // A list serves requests of its kind only.
        if !self.owns(&header.owner) || header.kind() != kind {
            return false;
        }
        let length = place.length.get();
        let room = place.list.get(length as usize..).unwrap_or_default();
        let taken = shared.trees.take_word(tree, header, room);
        let Some(highest) = room.first().filter(|_| taken != 0) else {
            return false;
        };
        if self.keeps.load(Ordering::Relaxed) == 0 {
            self.keeps.store(1, Ordering::Relaxed);
        }
        place.point.set(highest.get());
        place.length.set(length + taken);
        true
    }

    /// Takes a frame of the list, and drops entries that are no longer free. If the lists are empty, announces the
    /// frames that the CPU keeps.
    pub(crate) fn pop(&self, shared: &Shared<'_, P>, kind: Kind) -> Option<u32> {
        while self.place(kind).length.get() > 0 && !self.is_closed() {
            let frame = match self.border {
                true if shared.heads.are_used() => self.hit_by_head(shared, kind),
                true => self.hit_listed(kind),
                false => self.hit(shared, kind),
            };
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

    /// The hit of a free: frees a frame of an own tree, if it is allocated.
    #[inline(always)]
    pub(crate) fn free(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        let Some(part) = shared.trees.part(frame) else {
            return false;
        };
        if !self.frees_into(&part.header.owner)
            || !part.header.give(part.mask, part.word, part.frames)
        {
            return false;
        }
        let place = self.place_of_free(part.header.kind());
        if frame <= place.point.get() {
            let length = place.length.get();
            match place.list.get(length as usize) {
                Some(entry) => {
                    entry.set(frame);
                    place.length.set(length + 1);
                }
                None => place.start_over(),
            }
        }
        if part.header.is_whole(part.mask) {
            self.became_whole(shared, frame, part.header);
        }
        true
    }

    /// The hit of a free with `check=border`, for a frame that enters no list.
    #[inline(always)]
    pub(crate) fn free_unlisted(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        shared
            .trees
            .part(frame)
            .is_some_and(|part| self.give(shared, &part, frame, 1))
    }

    /// The hit of a free with `check=border`: puts a frame into the list, whatever its tree. The planes keep saying
    /// that it is allocated, and are not read. As in [`free`](Self::free), the frame lies at or below the first-fit
    /// point, which is in memory. Returns `false` if the frame does not enter the list.
    #[inline(always)]
    pub(crate) fn list(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        let Some(header) = shared.trees.header(shared.trees.tree_of(frame)) else {
            return false;
        };
        self.enter(self.place_of_free(header.kind_hint()), frame)
    }

    /// Puts a frame that the planes call allocated into a list, if it lies at or below the first-fit point and the list
    /// has room. Returns `false` if it does not enter the list.
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

    /// Frees a frame that was in the list. This is where it is checked: if it is not allocated, it was freed twice, or
    /// never allocated. Returns `true` if it was allocated.
    fn unlist(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        let Some(part) = shared.trees.part(frame) else {
            return false;
        };
        let is_head = shared.heads.of(frame).is_some_and(|byte| byte.get() != 0);
        // Relaxed: only this CPU makes itself an owner.
        let is_freed = if is_head {
            false
        } else if part.header.owner.load(Ordering::Relaxed) == self.id {
            part.header.give(part.mask, part.word, part.frames)
        } else {
            part.is_allocated() && part.word.post(part.frames)
        };
        if is_freed {
            self.announce(shared, &part);
        } else {
            // Relaxed: it is read when the CPU is at rest.
            self.misused.store(frame + 1, Ordering::Relaxed);
        }
        is_freed
    }

    /// Frees a frame of a tree without owner as its owner, if the CPU may own another tree and the frame lies at or
    /// below the first-fit point. Further frees into the tree then hit.
    #[inline(always)]
    pub(crate) fn free_and_own(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        // A CPU that only frees has a first-fit point of 0. This test avoids the call.
        let is_below = |place: &KindPlace<'m, P>| frame <= place.point.get();
        self.places.iter().any(is_below) && self.take_over(shared, frame)
    }

    #[inline(never)]
    fn take_over(&self, shared: &Shared<'_, P>, frame: u32) -> bool {
        // Relaxed: a hint, as in `owns`.
        let is_closed = self.free_identity.load(Ordering::Relaxed) == CLOSED_ID;
        let Some(part) = shared.trees.part(frame).filter(|_| !is_closed) else {
            return false;
        };
        let place = self.place(part.header.kind_hint());
        if frame > place.point.get()
            || !part.is_allocated()
            || !self.may_own_more()
            || !shared.claim(part.header, self.id)
        {
            return false;
        }
        let tree = shared.trees.tree_of(frame);
        // Searches pass over marked trees: the mark of its last owner must not stay. The tree is still spent here.
        shared.unmark_own(tree, part.header);
        self.insert(tree, part.header);
        self.note_emptied(shared, tree, part.header);
        self.free(shared, frame)
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
        let is_kept = self.border && self.may_keep();
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
        // Before the frame is returned: a CPU that sees the returned frame also sees `keeps` and the header's flag.
        if !self.may_keep() {
            self.keeps.store(1, Ordering::Relaxed);
        }
        part.header.note_kept();
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

    /// Returns the last frame that was found not to be allocated when it left the list, if there was one.
    pub(crate) fn misused(&self) -> Option<u32> {
        self.misused.load(Ordering::Relaxed).checked_sub(1)
    }
}
