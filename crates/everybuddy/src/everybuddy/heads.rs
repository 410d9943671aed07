//! A byte for each frame, which says what was allocated there, or that the frame is reserved.
//!
//! A free looks at one byte and knows whether it frees an allocation, of which size, and into which list the frame
//! goes. So a free that enters a list is checked, and neither plane is read.
//!
//! # Invariants
//! 1. An allocation consists of *pieces*: blocks of 2^k frames that start at multiples of their size. A block is one
//!    piece; a run is as few pieces as possible, and so is what a free leaves of an allocation.
//! 2. The byte of the first frame of a piece is 2 (k + 1), plus the number of the kind of its list, or of its tree if
//!    it was in no list. Both are of one kind, except for movable frames in a tree for frames that stay. The byte of a
//!    reserved frame is [`RESERVED_BYTE`], which no piece has. All other bytes are zero: those of frames that are free,
//!    listed, a hole, or inside a piece.
//! 3. Only the holder of a piece writes its byte. An allocation writes it after it took the frames from a list or a
//!    tree, and a free removes it before it returns them.
//! 4. Several CPUs may hold parts of a piece, and free them simultaneously. Only one CPU divides pieces at a time, and
//!    the bytes of what is left have [`DIVIDED`] as well. Only a CPU that divides may remove such a byte, since the CPU
//!    that wrote it may not have had contact with the holder.
//! 5. Of several CPUs that remove the byte of a large piece simultaneously, which is misuse, only one succeeds, since
//!    it uses an exchange.
//!
//! Two CPUs that free a small piece simultaneously may both see the byte. Both frees then succeed, as if each had been
//! the only one. An exchange would cost as much as the rest of the free.

use crate::frame::{Index, Order};
use crate::platform::{Platform, SharedCell};

use super::wanted::is_large;
use super::word::Kind;

/// The bit in the byte of a piece that a free left of a larger one.
const DIVIDED: u8 = 0x80;

/// The bit in the byte of a large piece while a CPU removes it together with others.
const CLAIMED: u8 = 0x40;

/// The byte of a reserved frame.
const RESERVED_BYTE: u8 = 1;

/// The bytes of all frames.
pub(crate) struct Heads<'m, P: Platform> {
    bytes: &'m [P::Cell<u8>],
    /// The order of the largest piece.
    largest: Order,
}

impl<'m, P: Platform> Heads<'m, P> {
    pub(super) fn new(bytes: &'m [P::Cell<u8>], largest: Order) -> Self {
        Self { bytes, largest }
    }

    /// Returns the byte of a frame; `None` if it lies outside the memory.
    #[inline(always)]
    pub(super) fn of(&self, frame: u32) -> Option<&'m P::Cell<u8>> {
        self.bytes.get(frame as usize)
    }

    /// Notes a piece that was taken from a tree for a kind.
    #[inline(always)]
    pub(super) fn set(&self, start: u32, order: Order, kind: Kind) {
        if let Some(byte) = self.of(start) {
            byte.set(head(order, kind));
        }
    }

    /// Notes the pieces of a run that was taken from trees.
    pub(super) fn set_run(&self, start: u32, frames: u32, kind: Kind) {
        self.set_pieces(start, frames, kind, 0);
    }

    /// Notes the pieces of a run; `mark` is a part of each byte.
    fn set_pieces(&self, start: u32, frames: u32, kind: Kind, mark: u8) {
        let (mut at, mut left) = (start, frames);
        while left != 0 {
            let fitting = at.trailing_zeros().min(left.ilog2());
            let order = Order::saturating(fitting).min(self.largest);
            if let Some(byte) = self.of(at) {
                byte.set(mark | head(order, kind));
            }
            at = at.wrapping_add(order.frames());
            left -= order.frames();
        }
    }

    /// Removes a piece, if it starts there and has this order. Returns its kind.
    #[inline(always)]
    pub(super) fn take(&self, start: u32, order: Order) -> Option<Kind> {
        let byte = self.of(start)?;
        let seen = byte.get();
        let kind = kind_of(seen);
        if seen != head(order, kind) {
            return None;
        }
        if !is_large(order) {
            byte.set(0);
        } else if !byte.exchange(seen, 0) {
            return None;
        }
        Some(kind)
    }

    /// Returns `true` if a piece of an order starts at a frame, that is not the rest of a larger one. May be
    /// out of date, except for its holder.
    #[inline(always)]
    pub(super) fn is_piece(&self, start: u32, order: Order) -> bool {
        let byte = self.of(start).map(SharedCell::peek);
        byte.is_some_and(|byte| byte & !1 == head(order, Kind::Staying))
    }

    /// Returns `true` if a free left this piece of a larger one.
    pub(super) fn is_left(&self, start: u32, order: Order) -> bool {
        let byte = self.of(start).map(SharedCell::peek);
        byte.is_some_and(|byte| byte & !1 == DIVIDED | head(order, Kind::Staying))
    }

    /// Removes a run that consists of whole pieces, none of which a free left. Divides none.
    pub(super) fn take_pieces(&self, start: u32, frames: u32) -> bool {
        debug_assert!(frames > 0);
        let end = start + frames;
        // Returns the frame after a piece.
        let after = |at: u32, byte: u8| order_of(byte).map(|order| at + order.frames());
        let mut at = start;
        while at < end {
            let byte = self.of(at).map_or(0, SharedCell::peek);
            match after(at, byte) {
                Some(next) if byte & DIVIDED == 0 => at = next,
                _ => return false,
            }
        }
        at == end && self.remove(start, end)
    }

    /// Removes the pieces from `start` to `end`, or none if another CPU removes a large one of them simultaneously.
    fn remove(&self, start: u32, end: u32) -> bool {
        let mut claimed = start;
        while claimed < end
            && let Some(byte) = self.of(claimed)
            && let seen = byte.peek()
            && let Some(order) = order_of(seen)
            && (!is_large(order) || byte.exchange(seen, seen | CLAIMED))
        {
            claimed += order.frames();
        }
        let is_removed = claimed == end;
        let mut at = start;
        while at < claimed
            && let Some(byte) = self.of(at)
        {
            let seen = byte.peek();
            let order = order_of(seen & !CLAIMED);
            // Another CPU may have removed a small piece meanwhile, which nothing claims.
            if seen & CLAIMED != 0 || is_removed && order.is_some() {
                byte.set(if is_removed { 0 } else { seen & !CLAIMED });
            }
            at += order.map_or(1, Order::frames);
        }
        is_removed
    }

    /// Returns `true` if another CPU is removing the piece that starts at a frame together with others.
    pub(super) fn is_claimed_at(&self, start: u32) -> bool {
        self.of(start)
            .is_some_and(|byte| byte.peek() & CLAIMED != 0)
    }

    /// Returns `true` if another CPU is removing a piece of a run, or if the run consists of whole pieces: then such a
    /// CPU gave up, and a free of this run that was refused meanwhile may be repeated. O(frames).
    pub(super) fn is_claimed(&self, start: u32, frames: u32) -> bool {
        let end = start + frames;
        let around = (0..=self.largest.index()).map(|order| start >> order << order);
        if around.chain(start..end).any(|at| self.is_claimed_at(at)) {
            return true;
        }
        let mut at = start;
        while at < end
            && let Some((order, _)) = self.piece(at)
        {
            at += order.frames();
        }
        at == end
    }

    /// Removes a run, if all of its frames are allocated. What is left of its first piece and of its last one becomes
    /// pieces of its own. Only for the CPU that divides.
    pub(super) fn take_run(&self, start: u32, frames: u32) -> bool {
        let end = start + frames;
        let Some((head, ..)) = self.piece_of(start) else {
            return false;
        };
        let mut at = head;
        let mut last = (0, Kind::Staying);
        while at < end {
            let Some((order, kind)) = self.piece(at) else {
                return false;
            };
            at += order.frames();
            last = (at, kind);
        }
        let first = self.piece(head).map_or(Kind::Staying, |(_, kind)| kind);
        if !self.remove(head, last.0) {
            return false;
        }
        self.set_pieces(head, start - head, first, DIVIDED);
        self.set_pieces(end, last.0 - end, last.1, DIVIDED);
        true
    }

    /// Says of the frames that `bits` names, from `first` on, that they are reserved, or that they are not. They are
    /// absent, and the CPU owns their tree.
    pub(super) fn reserve(&self, first: u32, bits: u64, is_reserved: bool) {
        for bit in ones(bits) {
            if let Some(byte) = self.of(first + bit) {
                byte.set(if is_reserved { RESERVED_BYTE } else { 0 });
            }
        }
    }

    /// Returns those of the absent frames that `bits` names which are reserved. A hint, unless the CPU owns their tree.
    pub(super) fn reserved(&self, first: u32, bits: u64) -> u64 {
        let is_reserved = |bit: &u32| {
            self.of(first + bit)
                .is_some_and(|byte| byte.peek() == RESERVED_BYTE)
        };
        ones(bits).filter(is_reserved).map(|bit| 1 << bit).sum()
    }

    /// Returns the order and the kind of the piece that starts at a frame. A hint, except for its holder.
    pub(super) fn piece(&self, start: u32) -> Option<(Order, Kind)> {
        let byte = self.of(start)?.peek();
        let order = order_of(byte)?;
        Some((order, kind_of(byte)))
    }

    /// Returns `true` if one of the frames that `bits` names, from the first frame of a word on, is a part of an
    /// allocation. A hint, except for its holder.
    pub(super) fn has_piece(&self, first: u32, bits: u64) -> bool {
        // A piece starts at such a frame, or has the lowest one.
        ones(bits).any(|bit| self.piece(first + bit).is_some())
            || self.piece_of(first + bits.trailing_zeros()).is_some()
    }

    /// Returns all pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u32, Order)> {
        let all = 0..self.bytes.len() as u32;
        all.filter_map(|start| Some((start, self.piece(start)?.0)))
    }

    /// Returns the piece that has a frame: its first frame, and its order. A hint, except for its holder.
    pub(super) fn piece_of(&self, frame: u32) -> Option<(u32, Order)> {
        // No piece lies inside another one, so the nearest start decides.
        (0..=self.largest.index()).find_map(|order| {
            let start = frame >> order << order;
            let (found, _) = self.piece(start)?;
            Some((frame - start < found.frames()).then_some((start, found)))
        })?
    }

    /// Returns the allocated block that has a frame, as [`piece_of`](Self::piece_of) does.
    pub(super) fn block_of(&self, frame: Index) -> Option<(Index, Order)> {
        let (start, order) = self.piece_of(frame.0)?;
        Some((Index(start), order))
    }
}

/// Returns the byte of the first frame of a piece.
#[inline(always)]
pub(super) fn head(order: Order, kind: Kind) -> u8 {
    (order.index() as u8 + 1) << 1 | kind as u8
}

/// Returns the kind of a piece, by the byte of its first frame.
#[inline(always)]
pub(super) fn kind_of(byte: u8) -> Kind {
    let [staying, movable] = Kind::ALL;
    if byte & 1 == 0 { staying } else { movable }
}

/// Returns the order of a piece, by the byte of its first frame; `None` for the byte of another frame, and for that of
/// a piece that a CPU removes.
pub(super) fn order_of(byte: u8) -> Option<Order> {
    if byte & CLAIMED != 0 {
        return None;
    }
    let above = u32::from((byte & !DIVIDED) >> 1);
    above.checked_sub(1).map(Order::saturating)
}

/// Returns the places of the bits that are set, lowest first.
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let place = bits.trailing_zeros();
        let is_set = bits != 0;
        bits &= bits.wrapping_sub(1);
        is_set.then_some(place)
    })
}
