//! Allocates many blocks in a row, then frees them all.
//!
//! Programs allocate in long runs, and on exit they free in long runs. Per-CPU lists refill and drain, and the zone
//! layer does work.
//!
//! # Invariants
//! No block is held at the start or the end of a round.

use everybuddy::Order;

use crate::random::Random;
use crate::{Program, Section, Setting};

/// Blocks per burst.
pub const BURST: u32 = 8192;

/// Blocks per burst where much happens between two calls.
const APART: u32 = 1024;

/// Bursts per round; a single burst is short.
const BURSTS: usize = 4;

/// Creates the program for bursts whose blocks are freed in the same order, or in random order.
pub(crate) fn burst(setting: &Setting, thread: u16, in_order: bool) -> Program {
    // A small memory must hold the bursts of all threads.
    let blocks = BURST.min(setting.share() / 2);
    let bursts = setting.count(BURSTS as u32);
    bursts_of(setting, thread, (blocks, Order::ZERO), bursts, in_order)
}

/// Creates the program for a burst whose calls are timed one by one, freed in the same order.
pub(crate) fn apart(setting: &Setting, thread: u16) -> Program {
    let blocks = APART.min(setting.share() / 2);
    let blocks = (blocks / setting.shrink.max(1)).max(16);
    bursts_of(setting, thread, (blocks, Order::ZERO), 1, true)
}

/// Creates the program that allocates half of the memory in blocks of an order, and then frees it in the same order.
pub(crate) fn bulk(setting: &Setting, thread: u16, order: Order) -> Program {
    let blocks = (setting.share() / 2 / order.frames()).max(1);
    bursts_of(setting, thread, (blocks, order), 1, true)
}

/// Creates the program for `bursts` bursts in each round.
fn bursts_of(
    setting: &Setting,
    thread: u16,
    (blocks, order): (u32, Order),
    bursts: u32,
    in_order: bool,
) -> Program {
    let mut random = Random::new(setting.seed, thread);
    Program::new(blocks, Vec::new(), move || {
        let mut sections = Vec::with_capacity(2 * bursts as usize);
        for _ in 0..bursts {
            let mut slots: Vec<u32> = (0..blocks).collect();
            if !in_order {
                random.shuffle(&mut slots);
            }
            sections.extend(Section::fill_and_free(order, slots));
        }
        sections
    })
}
