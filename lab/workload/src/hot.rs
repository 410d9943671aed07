//! Repeatedly allocates one block and frees it immediately.
//!
//! This workload exercises only the fast path and measures the cost of a hit.
//!
//! # Invariants
//! Between two pairs, the thread holds only the blocks that keep memory scattered.

use everybuddy::Order;

use crate::random::Random;
use crate::{Body, Part, Program, Setting};

/// Pairs per section at full length.
const PAIRS: u32 = 1_000_000;

/// Frames of a region that is scattered or left free as a whole: the papers' largest block.
const STRETCH: u32 = 1 << 10;

/// Creates the program for pairs of `order` in empty memory.
pub(crate) fn empty(setting: &Setting, order: Order) -> Program {
    pairs(0, Vec::new(), setting, order)
}

/// Creates the program for pairs of `order` in memory where every other frame of a random half is held.
///
/// The first thread scatters the memory for all threads: it allocates everything, keeps the frames that should be
/// held, and frees the rest in random order.
pub(crate) fn scattered(setting: &Setting, thread: u16, order: Order) -> Program {
    if thread > 0 {
        return empty(setting, order);
    }
    let mut random = Random::new(setting.seed, thread);
    let frames = setting.frames;
    let mut stretches: Vec<u32> = (0..frames.div_ceil(STRETCH)).collect();
    random.shuffle(&mut stretches);
    let (mixed, whole) = stretches.split_at(stretches.len() / 2);
    let frames_of = |stretch: &u32| stretch * STRETCH..((stretch + 1) * STRETCH).min(frames);
    let mut leave: Vec<u32> = mixed.iter().flat_map(|s| frames_of(s).step_by(2)).collect();
    leave.extend(whole.iter().flat_map(frames_of));
    random.shuffle(&mut leave);
    let prepare = Body::holes(Order::ZERO, frames, leave);
    pairs(frames, prepare, setting, order)
}

fn pairs(held: u32, prepare: Vec<Body>, setting: &Setting, order: Order) -> Program {
    let count = setting.count(PAIRS);
    Program::of_part(Part::Pair, held + 1, prepare, move || Body::Pairs {
        order,
        slot: held,
        count,
    })
}
