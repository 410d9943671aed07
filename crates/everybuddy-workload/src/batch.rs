//! 512 frames in, 512 out, again and again.
//!
//! Why it exists: a batch is larger than what a CPU keeps, and smaller than what empties the zone: every
//! refill is soon followed by a drain.
//!
//! Invariant: a section begins and ends with nothing held.

use everybuddy::Order;

use crate::{Body, Part, Program, Section, Setting};

/// Frames of a batch.
pub const BATCH: u32 = 512;

/// Makes batches of single frames.
pub(crate) fn batch(setting: &Setting) -> Program {
    let count = setting.count(200);
    Program::new(BATCH, Vec::new(), move || {
        let body = Body::Batches {
            order: Order::ZERO,
            slots: 0..BATCH,
            count,
        };
        vec![Section {
            part: Part::Pair,
            body,
        }]
    })
}
