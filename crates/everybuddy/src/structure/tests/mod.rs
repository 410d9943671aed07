//! Tests of the structures, and an empty structure's memory for the tests of the layers above.
//!
//! # Invariants
//! What [`with_part`] provides is laid out as in a zone layer, without its locks.

mod figures;
mod properties;

use std::vec::Vec;

use super::levels::Level;
use super::local_lists::BlockClass;
use super::{Bits, StructurePlace};
use crate::cache_padded::CachePadded;
use crate::frame::Order;
use crate::frame_table::{FrameTable, Record, Tag};
use crate::platform::{Platform, SharedCell};

/// Calls `test` with the memory of an empty structure of `frames` frames with plain bits. All frames have `tag`.
pub(crate) fn with_structure<P: Platform, R>(
    frames: u32,
    largest: u8,
    tag: Tag,
    test: impl FnOnce(StructurePlace<'_, P>) -> R,
) -> R {
    with_part(frames, largest, (tag, Bits::Plain), (frames, 0), test)
}

/// Calls `test` with the memory of the part `which` of a zone layer whose parts have `part` frames each.
pub(crate) fn with_part<P: Platform, R>(
    frames: u32,
    largest: u8,
    (tag, bits): (Tag, Bits),
    (part, which): (u32, u32),
    test: impl FnOnce(StructurePlace<'_, P>) -> R,
) -> R {
    let max_order = Order::new(largest).unwrap();
    let blocks = part.div_ceil(max_order.frames());
    let records: Vec<_> = (0..frames).map(|_| Record::<P>::new(tag)).collect();
    let words = bits.words(blocks, max_order);
    let words: Vec<_> = (0..words).map(|_| P::Cell::new(0)).collect();
    let more = core::array::from_fn::<_, 3, _>(|_| {
        CachePadded::new(core::array::from_fn(|_| Level::new()))
    });
    test(StructurePlace {
        table: FrameTable::new(&records),
        levels: &core::array::from_fn(|_| Level::new()),
        more_levels: &more,
        classes: &core::array::from_fn::<BlockClass<P>, { super::levels::LEVELS }, _>(|_| {
            BlockClass::new()
        }),
        bits: &words,
        first: (which * blocks) << largest,
        blocks,
        max_order,
    })
}
