//! A short run in memory that is filled to a level.
//!
//! Why it exists: allocators that search slow down when little is left to be found; this shows where.
//!
//! Invariant: what is held lies scattered at random over all of memory, single frame by single frame; a
//! section begins and ends with as much held.

use everybuddy::Order;

use crate::random::Random;
use crate::{Body, Part, Program, Section, Setting};

/// Frames of a run: twice a batch of Linux's lists.
const RUN: u32 = 64;

/// Makes runs of single frames where `percent` of the memory is held.
///
/// The first thread fills the memory for all: it takes everything, and frees what is not to be held, in
/// random order.
pub(crate) fn fill(setting: &Setting, thread: u16, percent: u32) -> Program {
    let frames = if thread == 0 { setting.frames } else { 0 };
    let mut random = Random::new(setting.seed, thread);
    let mut leave: Vec<u32> = (0..frames).collect();
    random.shuffle(&mut leave);
    let stay = u64::from(frames) * u64::from(percent) / 100;
    leave.truncate((u64::from(frames) - stay) as usize);
    // A tiny memory has no room for full runs at its last percent.
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
