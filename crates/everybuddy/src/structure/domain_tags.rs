//! Which domain a free block belongs to.
//!
//! Source: \[Spring\] III-B: a frame may be freed into any domain, so a domain is a set of blocks and no
//! range of addresses, and whoever frees a block must find out whether its buddy lies free in the same domain,
//! while other CPUs work on theirs. The paper says only that there is such a mapping.
//!
//! Why it exists: one word of 16 bits a frame, where the standard buddy has two bits. A bit for each block would lie
//! in a word with those of its neighbours, which belong to other domains: every change would be an atomic
//! read-modify-write. A frame's own word is written by plain moves.
//!
//! Invariant: a frame's word is the order and the domain's number while the frame is the head of a free block, and
//! [`NOTHING`] otherwise. A number's words are written, and cleared, only by the holder of the domain to which
//! that number belongs. So a word that names a domain which its reader holds is true, and stays so; any other is
//! a hint. See [`domain`](crate::zone::domain) for what belongs to whom.

use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{Platform, SharedCell};

/// The word of a frame that is no free block's head.
const NOTHING: u16 = u16::MAX;

/// Bits of a domain's number.
const DOMAIN_BITS: u32 = 11;

/// How many domains can be told apart.
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
    /// Takes over words made by [`clear_word`](Self::clear_word), one for each frame of whole largest blocks.
    pub(crate) fn new(words: &'a [P::Cell<u16>]) -> Self {
        Self { words }
    }

    /// Makes the word of a frame that is no free block's head.
    pub(crate) fn clear_word() -> P::Cell<u16> {
        P::Cell::new(NOTHING)
    }

    /// Returns the order and the number of the free block that starts here, if the reader holds that domain;
    /// otherwise a hint.
    #[inline(always)]
    pub(crate) fn get(&self, head: Frame) -> Option<(Order, u32)> {
        let word = u32::from(self.words.get(head.pfn().index())?.peek());
        let order = Order::new((word >> DOMAIN_BITS) as u8)?;
        Some((order, word & (MAX_DOMAINS - 1)))
    }

    /// Tells whether a free block of this order starts here, and returns its number; true or a hint, as above.
    #[inline(always)]
    pub(crate) fn domain_of(&self, head: Frame, order: Order) -> Option<u32> {
        let word = u32::from(self.words.get(head.pfn().index())?.peek());
        (word >> DOMAIN_BITS == order.get() as u32).then_some(word & (MAX_DOMAINS - 1))
    }

    /// Says that a free block of a domain that the writer holds starts here.
    #[inline(always)]
    pub(crate) fn set(&self, head: Frame, order: Order, domain: u32) {
        if let Some(word) = self.words.get(head.pfn().index()) {
            word.set(((order.get() as u32) << DOMAIN_BITS | domain) as u16);
        }
    }

    /// Says that no free block starts here.
    #[inline(always)]
    pub(crate) fn clear(&self, head: Frame) {
        if let Some(word) = self.words.get(head.pfn().index()) {
            word.set(NOTHING);
        }
    }
}
