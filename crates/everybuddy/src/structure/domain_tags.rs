//! Which domain a free block belongs to.
//!
//! There is one word of 16 bits per frame, where the standard buddy has two bits. A bit per block would share a word
//! with the bits of its neighbours, which belong to other domains: every change would be an atomic read-modify-write.
//! A frame's own word is written by plain moves.
//!
//! # Source
//! \[Spring\] §III-B: a frame may be freed into any domain, so a domain is a set of blocks and not a range of
//! addresses. A CPU that frees a block must find out whether its buddy is free in the same domain, while other CPUs
//! work on theirs. The paper says only that such a mapping exists.
//!
//! # Invariants
//! A frame's word is the order and the id of the domain's record while the frame is the head of a free block, and
//! [`NOTHING`] otherwise. Only the holder of the domain to which a record belongs writes or clears the words that
//! name the record. A word that names a domain which its reader holds is therefore true, and stays true; any other is
//! a hint. See [`domain`](crate::zone::domain) for what belongs to which domain.

use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{Platform, SharedCell};

/// The word of a frame that is not the head of a free block.
const NOTHING: u16 = u16::MAX;

/// Bits of the id of a domain's record.
const DOMAIN_BITS: u32 = 11;

/// The maximum number of records of domains.
pub(crate) const MAX_DOMAINS: u32 = 1 << DOMAIN_BITS;

/// The words of all frames.
pub(crate) struct DomainTags<'a, P: Platform> {
    words: &'a [P::Cell<u16>],
}

impl<P: Platform> Clone for DomainTags<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for DomainTags<'_, P> {}

impl<'a, P: Platform> DomainTags<'a, P> {
    /// Wraps words made by [`clear_word`](Self::clear_word), one per frame of whole largest blocks.
    pub(crate) fn new(words: &'a [P::Cell<u16>]) -> Self {
        Self { words }
    }

    /// Creates the word of a frame that is not the head of a free block.
    pub(crate) fn clear_word() -> P::Cell<u16> {
        P::Cell::new(NOTHING)
    }

    /// Returns the order and the record id of the free block that starts here, if the reader holds that domain;
    /// otherwise a hint.
    #[inline(always)]
    pub(crate) fn get(&self, head: Frame) -> Option<(Order, u32)> {
        let word = u32::from(self.words.get(head.index().as_usize())?.peek());
        let order = Order::new((word >> DOMAIN_BITS) as u8)?;
        Some((order, word & (MAX_DOMAINS - 1)))
    }

    /// Returns the record id of the free block of this order that starts here, if there is one; true or a hint, as
    /// above.
    #[inline(always)]
    pub(crate) fn domain_of(&self, head: Frame, order: Order) -> Option<u32> {
        let word = u32::from(self.words.get(head.index().as_usize())?.peek());
        (word >> DOMAIN_BITS == order.get() as u32).then_some(word & (MAX_DOMAINS - 1))
    }

    /// Marks the start of a free block of a domain that the writer holds.
    #[inline(always)]
    pub(crate) fn set(&self, head: Frame, order: Order, domain: u32) {
        if let Some(word) = self.words.get(head.index().as_usize()) {
            word.set(((order.get() as u32) << DOMAIN_BITS | domain) as u16);
        }
    }

    /// Marks that no free block starts here.
    #[inline(always)]
    pub(crate) fn clear(&self, head: Frame) {
        if let Some(word) = self.words.get(head.index().as_usize()) {
            word.set(NOTHING);
        }
    }
}
