//! Many blocks allocated in a run, then all freed.
//!
//! Why it exists: programs allocate in long runs, and their exit frees in long runs: per-CPU lists are
//! refilled and drained, and the zone works.
//!
//! Invariant: a round begins and ends with nothing held.

use everybuddy::Order;

use crate::random::Random;
use crate::{Body, Part, Program, Section, Setting};

/// Blocks of a burst.
pub const BURST: u32 = 8192;

/// Bursts are short: so many make a round.
const BURSTS: usize = 4;

/// Makes bursts whose frees come in the same order, or in random order.
pub(crate) fn burst(setting: &Setting, thread: u16, in_order: bool) -> Program {
    // A small memory must hold the bursts of all threads.
    let blocks = BURST.min(setting.share() / 2);
    let mut random = Random::new(setting.seed, thread);
    let bursts = setting.count(BURSTS as u32);
    Program::new(blocks, Vec::new(), move || {
        let mut sections = Vec::with_capacity(2 * BURSTS);
        for _ in 0..bursts {
            let mut slots: Vec<u32> = (0..blocks).collect();
            if !in_order {
                random.shuffle(&mut slots);
            }
            sections.push(Section {
                part: Part::Allocate,
                body: Body::Allocate {
                    order: Order::ZERO,
                    slots: 0..blocks,
                },
            });
            sections.push(Section {
                part: Part::Free,
                body: Body::Free { slots },
            });
        }
        sections
    })
}
