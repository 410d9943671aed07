//! Single frames from memory that is filled: to a given level, or so that only blocks of one order are free.
//!
//! Allocators that search slow down when little memory is free; `fill` shows at which level. But frames that are freed
//! at random leave single frames free at every level, so that nothing must be split. `split` leaves none.
//!
//! # Invariants
//! `fill`: the held frames are scattered over all of memory at random, one by one. `split`: of each two buddies one is
//! held. The number of held frames is the same at the start and the end of a section.

use everybuddy::Order;

use crate::random::Random;
use crate::{Body, Part, Program, Setting};

/// Frames per run: twice the batch of Linux's lists.
const RUN: u32 = 64;

/// Creates the program for runs of single frames where `percent` of the memory is held.
///
/// The first thread fills the memory for all threads: it allocates everything, and frees the frames that should not
/// be held, in random order.
pub(crate) fn fill(setting: &Setting, thread: u16, percent: u32) -> Program {
    let frames = if thread == 0 { setting.frames } else { 0 };
    let mut random = Random::new(setting.seed, thread);
    let mut leave: Vec<u32> = (0..frames).collect();
    random.shuffle(&mut leave);
    let stay = u64::from(frames) * u64::from(percent) / 100;
    leave.truncate((u64::from(frames) - stay) as usize);
    // A tiny memory at 99 % has no room for full runs.
    let free = u64::from(setting.frames) * u64::from(100 - percent) / 100;
    let run = RUN
        .min((free / (2 * u64::from(setting.threads.max(1)))) as u32)
        .max(1);
    let prepare = match frames {
        0 => Vec::new(),
        frames => Body::holes(Order::ZERO, frames, leave),
    };
    let count = setting.count(2000);
    Program::of_part(Part::Pair, frames + run, prepare, move || Body::Batches {
        order: Order::ZERO,
        slots: frames..frames + run,
        count,
    })
}

/// Creates the program for pairs of a single frame where all free memory consists of blocks of `order`.
///
/// The first thread prepares the memory for all threads: it allocates all of it in such blocks, and frees every second
/// one, in random order.
pub(crate) fn split(setting: &Setting, thread: u16, order: Order) -> Program {
    let blocks = match thread {
        0 => setting.frames >> order.get(),
        _ => 0,
    };
    let mut random = Random::new(setting.seed, thread);
    let mut leave: Vec<u32> = (0..blocks).step_by(2).collect();
    random.shuffle(&mut leave);
    let prepare = match blocks {
        0 => Vec::new(),
        blocks => Body::holes(order, blocks, leave),
    };
    let count = setting.count(100_000);
    Program::of_part(Part::Pair, blocks + 1, prepare, move || Body::Pairs {
        order: Order::ZERO,
        slot: blocks,
        count,
    })
}
