//! One thread allocates, another frees.
//!
//! In a pipe, a network card, or a file that one process writes and another deletes, frames are not freed where they
//! were allocated. One CPU's list only fills up and the other's only empties.
//!
//! # Invariants
//! Each even thread hands blocks to the odd thread after it; the number of blocks received equals the number handed
//! over.

use everybuddy::Order;

use crate::{Body, Part, Program, Setting};

/// Blocks per section at full length.
const BLOCKS: u32 = 100_000;

/// Creates the program of a thread that hands over single frames, or of one that receives them.
pub(crate) fn handover(setting: &Setting, thread: u16) -> Program {
    let order = Order::ZERO;
    let count = setting.count(BLOCKS);
    let is_last_alone = thread + 1 == setting.threads && thread.is_multiple_of(2);
    Program::of_part(Part::Pair, 1, Vec::new(), move || match thread % 2 {
        // No thread exists to receive.
        0 if is_last_alone => Body::Pairs {
            order,
            slot: 0,
            count,
        },
        0 => Body::Hand { order, count },
        _ => Body::Receive { order, count },
    })
}
