//! Short runs of allocations in memory that is filled to a given level.
//!
//! # Purpose
//!
//! Allocators that search slow down when little memory is free; this workload shows at which level.
//!
//! # Invariants
//!
//! The held frames are scattered over all of memory at random, one by one. The number of held frames is the same at
//! the start and the end of a section.

use everybuddy::Order;

use crate::random::Random;
use crate::{Body, Part, Program, Section, Setting};

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
    let mut prepare = Vec::new();
    if frames > 0 {
        prepare.push(Body::Allocate {
            order: Order::ZERO,
            slots: 0..frames,
        });
        prepare.push(Body::Arrange { slots: 0..frames });
        prepare.push(Body::Free { slots: leave });
    }
    let count = setting.count(2000);
    Program::new(frames + run, prepare, move || {
        let body = Body::Batches {
            order: Order::ZERO,
            slots: frames..frames + run,
            count,
        };
        vec![Section {
            part: Part::Pair,
            body,
        }]
    })
}
