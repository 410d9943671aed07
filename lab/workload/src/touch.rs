//! Frames that are used, not only handed out.
//!
//! What a frame costs its user depends on which frame it is: the youngest one is still in a cache, and one next to
//! others shares a huge page with them. A program that allocates, uses and frees pays for both the calls and the use.
//!
//! # Invariants
//! Each load makes the same requests whatever is done with the frames, so a load that does nothing has the time of the
//! calls alone.

use everybuddy::{Order, Size};

use crate::aged;
use crate::churn::Mix;
use crate::random::Random;
use crate::{Body, Part, Program, Section, Setting, Step, Use, steady};

/// Frames that are allocated in a section at full length.
const FRAMES: u32 = 4_000;

/// Frames of a process: at least as many as the first number, and less than both together.
const PROCESS: [u32; 2] = [64, 960];

/// The number of youngest frames among which most frees choose in [`young`].
const YOUNG: usize = 64;

/// Replacements of mixed orders that age memory for [`set`], and reads of its frames.
const AGING: u32 = 300_000;
const SCANNED: u32 = 400_000;

fn allocate(slot: u32) -> Step {
    Step::Allocate {
        slot,
        size: Size::Order(Order::ZERO),
    }
}

/// Creates the program for processes that start, use some frames and exit, while half of memory is held. A process
/// frees its frames in the order of their allocation, which is that of its addresses.
pub(crate) fn processes(setting: &Setting, thread: u16, used: Use) -> Program {
    let (slots, prepare, mut random) = steady::level(setting, thread, 50, Mix::Single);
    let most = (PROCESS[0] + PROCESS[1]).min((setting.share() / 4).max(1));
    let frames = setting.count(FRAMES);
    Program::of_part(Part::Pair, slots + most, prepare, move || {
        let (mut steps, mut left) = (Vec::new(), frames);
        while left > 0 {
            let own = (PROCESS[0] + random.below(PROCESS[1])).min(most).min(left);
            steps.extend((slots..slots + own).map(allocate));
            steps.extend((slots..slots + own).map(|slot| Step::Free { slot }));
            left -= own;
        }
        let own = slots..slots + most;
        Body::Touch { steps, used, own }
    })
}

/// Creates the program that replaces random frames at `percent` of memory.
pub(crate) fn replace(setting: &Setting, thread: u16, percent: u32, used: Use) -> Program {
    let (slots, prepare, mut random) = steady::level(setting, thread, percent, Mix::Single);
    let frames = setting.count(FRAMES);
    Program::of_part(Part::Pair, slots, prepare, move || {
        let replaced = (0..frames).map(|_| random.below(slots));
        let steps = replaced.flat_map(|slot| [Step::Free { slot }, allocate(slot)]);
        Body::Touch {
            steps: steps.collect(),
            used,
            own: 0..slots,
        }
    })
}

/// Creates the program in which frames die young: of eight that are replaced, seven are among the youngest.
pub(crate) fn young(setting: &Setting, thread: u16, used: Use) -> Program {
    let (slots, prepare, mut random) = steady::level(setting, thread, 50, Mix::Single);
    let frames = setting.count(FRAMES);
    // The slots of the youngest frames, the oldest of them first.
    let mut young: Vec<u32> = (0..slots.min(YOUNG as u32)).collect();
    Program::of_part(Part::Pair, slots, prepare, move || {
        let mut steps = Vec::with_capacity(2 * frames as usize);
        for _ in 0..frames {
            let slot = match random.below(8) {
                0 => random.below(slots),
                _ => young[random.below(young.len() as u32) as usize],
            };
            let oldest = young.iter().position(|own| *own == slot).unwrap_or(0);
            young.remove(oldest);
            young.push(slot);
            steps.extend([Step::Free { slot }, allocate(slot)]);
        }
        let own = 0..slots;
        Body::Touch { steps, used, own }
    })
}

/// Creates the program that takes a working set of `frames` frames from memory that has aged, writes a line of each,
/// and reads lines of them at random.
pub(crate) fn set(setting: &Setting, thread: u16, frames: u32) -> Program {
    let (first, aging) = aged::aging(setting, thread);
    let mut replace = aging.replace;
    let mut settle = aging.settle;
    settle.push(replace(setting.count(AGING), Mix::Mostly));
    let own = first..first + frames.min((setting.share() / 8).max(1));
    let mut random = Random::new(setting.seed, thread);
    let count = setting.count(SCANNED);
    let round = move || {
        let mut leave: Vec<u32> = own.clone().collect();
        random.shuffle(&mut leave);
        let steps = own.clone().map(allocate).collect();
        let (used, slots, own) = (Use::Line, own.clone(), own.clone());
        let sections = [
            (Part::Allocate, Body::Touch { steps, used, own }),
            (Part::Operation, Body::Scan { slots, count }),
            (Part::Free, Body::Free { slots: leave }),
        ];
        sections.map(|(part, body)| Section { part, body }).into()
    };
    let slots = first + frames.min((setting.share() / 8).max(1));
    Program::new(slots, aging.prepare, round).settling(settle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Setting = Setting {
        frames: 1 << 14,
        threads: 1,
        seed: 3,
        shrink: 10,
    };

    fn steps(mut program: Program) -> Vec<Step> {
        let sections = program.round();
        sections.iter().flat_map(|own| own.body.steps()).collect()
    }

    #[test]
    fn the_requests_do_not_depend_on_the_use() {
        let loads: [fn(&Setting, u16, Use) -> Program; 3] =
            [processes, young, |s, t, used| replace(s, t, 50, used)];
        for load in loads {
            let [one, other] = [Use::Nothing, Use::Read].map(|used| load(&SETTING, 0, used));
            assert_eq!(one.prepare(), other.prepare());
            let [one, other] = [one, other].map(steps);
            assert_eq!(one, other);
            let allocated = one
                .iter()
                .filter(|step| matches!(step, Step::Allocate { .. }));
            assert_eq!(allocated.count() as u32, FRAMES / 10);
        }
    }

    #[test]
    fn seven_of_eight_frees_are_of_one_of_the_youngest() {
        let frees = steps(young(&SETTING, 0, Use::Nothing));
        let slots = frees.iter().filter_map(|step| match step {
            Step::Free { slot } => Some(*slot),
            _ => None,
        });
        let slots: Vec<u32> = slots.collect();
        let is_young = |at: &usize| slots[at.saturating_sub(4 * YOUNG)..*at].contains(&slots[*at]);
        let young = (0..slots.len()).filter(is_young).count();
        let share = young as f64 / slots.len() as f64;
        assert!((0.75..0.95).contains(&share), "{share}");
    }
}
