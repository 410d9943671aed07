//! Repeatedly allocates 512 frames, then frees them.
//!
//! A batch exceeds the capacity of a per-CPU list but does not empty the zone: every refill is soon followed by a
//! drain.
//!
//! # Invariants
//! No block is held at the start or the end of a section.

use everybuddy::Order;

use crate::{Body, Part, Program, Setting};

/// Frames per batch.
pub const BATCH: u32 = 512;

/// Creates the program for batches of single frames.
pub(crate) fn batch(setting: &Setting) -> Program {
    let count = setting.count(200);
    Program::of_part(Part::Pair, BATCH, Vec::new(), move || Body::Batches {
        order: Order::ZERO,
        slots: 0..BATCH,
        count,
    })
}
