//! Random replacement after memory was full.
//!
//! A system that serves requests in another way while memory is short has to notice when it no longer is. Memory that
//! was full and was emptied at random looks short for longest: many frames are free, but few large blocks.
//!
//! # Invariants
//! Memory is filled to 99.9 % with blocks of 1 to 16 frames, all sizes equally often, and freed at random to the level.
//! Then blocks are replaced at that level. The first replacements belong to the preparation.

use everybuddy::Order;

use crate::churn::Mix;
use crate::random::Random;
use crate::{Body, Part, Program, Setting};

/// Replacements per section at full length.
const REPLACEMENTS: u32 = 100_000;
/// The replacements after which a shortage must be over, of all threads together.
const FIRST: u32 = 2_000;
/// How full memory was, in tenths of a percent.
const FULL: u64 = 999;

/// Creates the program for replacements at `percent` of the memory.
pub(crate) fn relief(setting: &Setting, thread: u16, percent: u32) -> Program {
    let mut random = Random::new(setting.seed, thread);
    let order = |random: &mut Random| Mix::Even(Mix::LARGEST).order(|limit| random.below(limit));
    let share = u64::from(setting.share());
    let mut used = 0;
    let mut first: Vec<(u32, Order)> = Vec::new();
    loop {
        let order = order(&mut random);
        used += u64::from(order.frames());
        if used * 1000 > share * FULL {
            break;
        }
        first.push((first.len() as u32, order));
    }
    used = first
        .iter()
        .map(|(_, order)| u64::from(order.frames()))
        .sum();
    let slots = (first.len() as u32).max(1);
    let mut leave: Vec<u32> = (0..first.len() as u32).collect();
    random.shuffle(&mut leave);
    let mut stay = Vec::new();
    while let Some((_, order)) = leave.last().and_then(|slot| first.get(*slot as usize)) {
        if used * 100 <= share * u64::from(percent) {
            break;
        }
        used -= u64::from(order.frames());
        stay.extend(leave.pop());
    }
    // What was popped is freed; the rest is replaced.
    std::mem::swap(&mut leave, &mut stay);
    let mut orders: Vec<Order> = first.iter().map(|(_, order)| *order).collect();
    // Two slots exchange their orders, so that the level stays what it is.
    let mut replace = move |count: u32| {
        let mut entries = Vec::with_capacity(count as usize + 1);
        while entries.len() < count as usize && !stay.is_empty() {
            let [one, other] = [0; 2].map(|_| stay[random.below(stay.len() as u32) as usize]);
            orders.swap(one as usize, other as usize);
            entries.extend([one, other].map(|slot| (slot, orders[slot as usize])));
        }
        Body::Replace { entries }
    };
    let settle = vec![
        Body::Free { slots: leave },
        replace((FIRST / u32::from(setting.threads.max(1))).max(1)),
    ];
    let count = setting.count(REPLACEMENTS);
    let prepare = vec![Body::Replace { entries: first }];
    Program::of_part(Part::Pair, slots, prepare, move || replace(count)).settling(settle)
}
