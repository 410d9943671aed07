//! Loads that trouble page allocators today, as generators of their page requests.
//!
//! The programs of the papers ran on machines of up to 32 CPUs. What is discussed today are page faults of many
//! processes at the same time, allocators that purge, and huge pages that are wanted while small ones fill memory.
//!
//! # Invariants
//! As in [`published`](crate::published), nothing was adjusted to a result. [`TODAY`] says what is known and what is
//! assumed.

use everybuddy::{Order, Size};

use crate::published::Shape::{By, Each};
use crate::published::{Published, TOUCHING, published, size};
use crate::random::Random;
use crate::{Body, Pace, Part, Program, Setting, Step};

/// The frames of 128 MiB.
const MAPPING: u32 = 1 << 15;

/// The frames that a thread holds in `today:purges`: 64 MiB.
const HEAP: u32 = 1 << 14;

/// The mean number of frames of an extent. Assumed: 64 KiB.
const EXTENT: u32 = 16;

/// Requests of a section at full length.
const REQUESTS: u32 = 65_536;

/// The small requests for each huge one in `today:few-huge`. Assumed.
const SMALL: u32 = 250;

/// The huge blocks that a thread holds in `today:few-huge`. Assumed.
const HUGE: u32 = 8;

const NINE: Order = match Order::new(9) {
    Some(order) => order,
    None => Order::ZERO,
};

/// Today's loads.
///
/// - `page-faults`: will-it-scale's page_fault1 maps 128 MiB, writes to each page, and unmaps. A shortened run maps
///   16 MiB or more. Assumed: 4,000 cycles for a fault with a cleared frame, as for the papers' programs.
/// - `purges`: jemalloc gives unused extents back to the kernel by `madvise`, which frees their frames in a row. Later
///   writes fault them in again, one by one. Assumed: a heap of 64 MiB per thread, extents of geometrically distributed
///   size, and that any extent is as likely as any other.
/// - `few-huge`: single frames are replaced at random in memory that is 75 % full, and one request in 251 is for a
///   block of 2 MiB. Then the oldest of 8 such blocks is freed. Memory is mixed before: each frame was replaced once on
///   average. Assumed, all of it.
///
/// An exit storm, in which many processes free their frames at the same time, is `burst:random`.
pub(crate) const TODAY: &[Published; 3] = published! {
    "today:page-faults", "128 MiB, mapped, written once, unmapped", Each(MAPPING), TOUCHING, None;
    "today:purges", "extents of a heap, purged and written again",
        By { program: purges, largest: Order::ZERO }, TOUCHING, None;
    "today:few-huge", "single frames at 75 % full, a few blocks of 2 MiB",
        By { program: few_huge, largest: NINE }, Pace { allocate: 2000, free: 2000 }, None;
};

fn allocate(slot: u32, order: Order) -> Step {
    Step::Allocate {
        slot,
        size: Size::Order(order),
    }
}

/// Extents of a full heap are freed, and allocated again frame by frame.
fn purges(setting: &Setting, thread: u16) -> Program {
    let slots = HEAP.min(setting.share() / 2).max(1);
    let mut random = Random::new(setting.seed, thread);
    let count = setting.count(REQUESTS);
    let heap = Body::frames(0..slots);
    Program::of_part(Part::Operation, slots, vec![heap], move || {
        let mut steps = Vec::new();
        while steps.len() < count as usize {
            let start = random.below(slots);
            let end = slots.min(start + size(&mut random, EXTENT));
            steps.extend((start..end).map(|slot| Step::Free { slot }));
            steps.extend((start..end).map(|slot| allocate(slot, Order::ZERO)));
        }
        Body::Steps(steps)
    })
}

/// Single frames are replaced at random; now and then a huge block is requested, and then the oldest one is freed.
fn few_huge(setting: &Setting, thread: u16) -> Program {
    let level = setting.share() / 4 * 3;
    // At most half of what is held is huge.
    let huge = HUGE.min(level / 2 / NINE.frames());
    let small = (level - huge * NINE.frames()).max(1);
    let mut random = Random::new(setting.seed, thread);
    let pairs = setting.count(REQUESTS) / 2;
    let (mut left, mut oldest) = (SMALL, 0);
    let prepare = vec![
        Body::Allocate {
            order: NINE,
            slots: small..small + huge,
        },
        Body::frames(0..small),
        Body::Replace {
            entries: (0..small)
                .map(|_| (random.below(small), Order::ZERO))
                .collect(),
        },
    ];
    // One slot more: the oldest huge block is freed after the request for a new one.
    Program::of_part(Part::Operation, small + huge + 1, prepare, move || {
        let mut steps = Vec::new();
        for _ in 0..pairs.max(1) {
            if left == 0 && huge > 0 {
                let new = (oldest + huge) % (huge + 1);
                steps.extend([
                    allocate(small + new, NINE),
                    Step::Free {
                        slot: small + oldest,
                    },
                ]);
                oldest = (oldest + 1) % (huge + 1);
                left = SMALL;
                continue;
            }
            left = left.saturating_sub(1);
            let slot = random.below(small);
            steps.extend([Step::Free { slot }, allocate(slot, Order::ZERO)]);
        }
        Body::Steps(steps)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, frames: u32, threads: u16) -> Program {
        let own = TODAY.iter().find(|own| own.name == name).unwrap();
        let setting = Setting {
            frames,
            threads,
            seed: 1,
            shrink: 1,
        };
        own.program(&setting, 0)
    }

    fn steps(program: &mut Program) -> Vec<Step> {
        let sections = program.round();
        let all = sections.iter().flat_map(|section| section.body.steps());
        all.collect()
    }

    #[test]
    fn each_process_faults_its_own_mapping() {
        for threads in [1, 4] {
            let steps = steps(&mut program("today:page-faults", 1 << 20, threads));
            let is_free = |step: &&Step| matches!(step, Step::Free { .. });
            assert_eq!(steps.len(), 2 << 15);
            assert!(steps[..1 << 15].iter().all(|step| !is_free(&step)));
            assert!(steps[1 << 15..].iter().all(|step| is_free(&step)));
        }
    }

    #[test]
    fn a_purge_frees_neighbours_in_a_row_and_faults_them_again() {
        let steps = steps(&mut program("today:purges", 1 << 20, 4));
        let mut extents = Vec::new();
        let mut at = 0;
        while at < steps.len() {
            let freed = |step: &Step| match *step {
                Step::Free { slot } => Some(slot),
                _ => None,
            };
            let slots: Vec<u32> = steps[at..].iter().map_while(freed).collect();
            assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1));
            at += slots.len();
            let again: Vec<Step> = slots
                .iter()
                .map(|slot| allocate(*slot, Order::ZERO))
                .collect();
            assert_eq!(steps[at..at + slots.len()], again);
            at += slots.len();
            extents.push(slots.len() as f64);
        }
        let mean = extents.iter().sum::<f64>() / extents.len() as f64;
        assert!((14.5..17.5).contains(&mean), "{mean}");
    }

    #[test]
    fn one_request_in_251_is_huge() {
        let mut program = program("today:few-huge", 1 << 20, 4);
        let is_huge = |step: &&Step| matches!(step, Step::Allocate { size, .. } if *size == Size::Order(NINE));
        let mut all = Vec::new();
        for _ in 0..4 {
            all.extend(steps(&mut program));
        }
        let huge = all.iter().filter(is_huge).count();
        assert_eq!(huge, all.len() / 2 / 251);
    }
}
