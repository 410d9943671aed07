//! One thread allocates, another frees.
//!
//! Why it exists: a pipe, a network card, a file that one process writes and another deletes: frames are
//! freed where they were not allocated, so one CPU's list only fills and the other's only empties.
//!
//! Invariant: even threads hand to the odd thread after them; as many blocks are received as are handed.

use everybuddy::Order;

use crate::{Body, Part, Program, Section, Setting};

/// Blocks of a section at full length.
const BLOCKS: u32 = 100_000;

/// Makes a thread that hands single frames over, or one that receives them.
pub(crate) fn handover(setting: &Setting, thread: u16) -> Program {
    let order = Order::ZERO;
    let count = setting.count(BLOCKS);
    let is_last_alone = thread + 1 == setting.threads && thread.is_multiple_of(2);
    Program::new(1, Vec::new(), move || {
        let (part, body) = match thread % 2 {
            // Nobody is there to receive.
            0 if is_last_alone => (
                Part::Pair,
                Body::Pairs {
                    order,
                    slot: 0,
                    count,
                },
            ),
            0 => (Part::Pair, Body::Hand { order, count }),
            _ => (Part::Pair, Body::Receive { order, count }),
        };
        vec![Section { part, body }]
    })
}
