//! Random replacement at a constant level.
//!
//! This workload models a machine that has been running for a long time: the blocks that are freed are unrelated to
//! the blocks that are allocated, and at 90 % large blocks are rare. Failed requests are counted.
//!
//! # Invariants
//! Each thread has as many slots as its share of the level has blocks. After the preparation, every slot has been
//! replaced once on average.

use everybuddy::Order;

use crate::churn::Mix;
use crate::random::Random;
use crate::{Body, Part, Program, Setting};

/// Replacements per section at full length.
const REPLACEMENTS: u32 = 100_000;

/// Creates the program for replacements at `percent` of the memory, with a mix of orders.
pub(crate) fn steady(setting: &Setting, thread: u16, percent: u32, mix: Mix) -> Program {
    let (slots, prepare, mut random) = level(setting, thread, percent, mix);
    let count = setting.count(REPLACEMENTS);
    Program::of_part(Part::Pair, slots, prepare, move || {
        let entries = (0..count).map(|_| (random.below(slots), order(&mut random, mix)));
        Body::Replace {
            entries: entries.collect(),
        }
    })
}

fn order(random: &mut Random, mix: Mix) -> Order {
    match mix {
        Mix::Single => Order::ZERO,
        _ => mix.order(|limit| random.below(limit)),
    }
}

/// Returns the slots that hold `percent` of the memory, what fills each and replaces it once on average, and the
/// random numbers that follow.
pub(crate) fn level(
    setting: &Setting,
    thread: u16,
    percent: u32,
    mix: Mix,
) -> (u32, Vec<Body>, Random) {
    let mut random = Random::new(setting.seed, thread);
    // `Mostly` takes 1,104 frames for 1,000 blocks: 984 + 16 x (2 + 4 + 8 + 16) / 4.
    let frames_per_thousand = if mix == Mix::Single { 1000 } else { 1104 };
    let level = u64::from(setting.share()) * u64::from(percent) / 100;
    let slots = ((level * 1000 / frames_per_thousand) as u32).max(1);
    // Empty slots are "replaced" when they are filled for the first time.
    let mut first: Vec<u32> = (0..slots).collect();
    random.shuffle(&mut first);
    let mut entries: Vec<(u32, Order)> = Vec::with_capacity(2 * slots as usize);
    entries.extend(first.iter().map(|slot| (*slot, order(&mut random, mix))));
    entries.extend((0..slots).map(|_| (random.below(slots), order(&mut random, mix))));
    (slots, vec![Body::Replace { entries }], random)
}
