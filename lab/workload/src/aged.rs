//! Random replacement in memory that has aged.
//!
//! Random replacement that starts with empty memory keeps most of the memory in one piece, since the first blocks were
//! allocated in order of address. On a machine that has run for days, nearly every frame has been in use, and the free
//! frames are scattered. Huge pages are then scarce, and allocators differ in whether such blocks become whole again.
//!
//! # Invariants
//! Memory is filled to 90 % with mixed orders. All blocks are shuffled and dealt out to the threads anew, and freed at
//! random until the level is 40 %. Then blocks are replaced at that level.

use everybuddy::Order;

use crate::churn::{Mix, OPERATIONS, ROUNDS};
use crate::random::Random;
use crate::{Body, Part, Program, Setting};

/// The first level and the second one, in percent.
const LEVELS: [u64; 2] = [90, 40];

/// How memory ages, and what replaces blocks in it afterwards.
pub(crate) struct Aging<R> {
    pub(crate) prepare: Vec<Body>,
    pub(crate) settle: Vec<Body>,
    /// Replaces the given number of blocks, with this mix of orders.
    pub(crate) replace: R,
}

/// Creates the program for replacements with a mix of orders. Before single frames are replaced, as many blocks of
/// mixed orders are.
pub(crate) fn churn(setting: &Setting, thread: u16, mix: Mix) -> Program {
    let (slots, aging) = aging(setting, thread);
    let (mut settle, mut replace) = (aging.settle, aging.replace);
    let replacements = setting.count(OPERATIONS / u32::from(setting.threads.max(1)));
    if mix == Mix::Single {
        settle.push(replace(replacements, Mix::Mostly));
    }
    let round = move || replace((replacements / ROUNDS).max(1), mix);
    Program::of_part(Part::Pair, slots, aging.prepare, round).settling(settle)
}

/// Returns the slots of aged memory, and how it ages.
pub(crate) fn aging(
    setting: &Setting,
    thread: u16,
) -> (u32, Aging<impl FnMut(u32, Mix) -> Body + use<>>) {
    let mut random = Random::new(setting.seed, thread);
    // As in `steady`: 1,104 frames for 1,000 blocks.
    let blocks = |percent: u64| (u64::from(setting.share()) * percent * 10 / 1104).max(1) as u32;
    let [slots, stay] = LEVELS.map(blocks);
    let order = move |random: &mut Random, mix: Mix| mix.order(|limit| random.below(limit));
    let first: Vec<(u32, Order)> = (0..slots)
        .map(|slot| (slot, order(&mut random, Mix::Mostly)))
        .collect();
    // Dealing has shuffled the slots, so it does not matter which of them are emptied.
    let mut leave: Vec<u32> = (stay..slots).collect();
    random.shuffle(&mut leave);
    let replace = move |count: u32, mix: Mix| {
        let entries = (0..count).map(|_| (random.below(stay), order(&mut random, mix)));
        Body::Replace {
            entries: entries.collect(),
        }
    };
    let (threads, seed) = (setting.threads.max(1), setting.seed);
    let settle = vec![
        Body::Give { slots: 0..slots },
        Body::Take {
            slots: 0..slots,
            thread,
            threads,
            seed,
        },
        Body::Free { slots: leave },
    ];
    let prepare = vec![Body::Replace { entries: first }];
    let aging = Aging {
        prepare,
        settle,
        replace,
    };
    (slots, aging)
}
