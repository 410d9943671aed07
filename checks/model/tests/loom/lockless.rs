//! Programs for the systems without lists, under loom: `llfree`, `nbbs` and `everybuddy`.
//!
//! In these systems CPUs allocate from one structure without a lock, so the same programs test each of them. The
//! parameters are the sizes and the last operation of each CPU. A CPU of `everybuddy` parks, since other CPUs may ask
//! for its tree.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everybuddy::{AllocateError, Block, CpuId, Index, Order, Release, Request};
use everybuddy_model::{Loom, Machine, Worker};

pub(crate) type Cpu<'w> = Worker<'w, Loom>;

/// A program, or the end of one.
pub(crate) type Step = fn(&mut Cpu<'_>);

/// A part of a block: its first frame, counted from the block's start, and its number of frames.
pub(crate) type Part = (u32, u32);

/// Each CPU holds at most one of two frames.
pub(crate) fn two_cpus_share_the_last_two_frames(machine: &Machine<'_, Loom>, end: Step) {
    let both = |w: &mut Cpu<'_>| {
        w.churn(0);
        w.churn(0);
        end(w);
    };
    machine.at_once(&[&both, &both]);
}

/// Two CPUs free the only two frames while a third searches.
pub(crate) fn a_frame_that_comes_back_during_a_search_is_found(machine: &Machine<'_, Loom>) {
    let (a, b) = machine.on(0, |w| (w.allocate(0), w.allocate(0)));
    machine.on(0, |w| w.hand(b, 1));
    machine.at_once(&[
        &|w| {
            w.free(a);
            w.try_churn(0);
        },
        &|w| w.free(b),
        &|w| w.try_churn(0),
    ]);
}

/// Two CPUs free a frame while the CPU that allocated it runs a program of its own.
pub(crate) fn one_of_two_frees_of_a_frame_is_refused(
    machine: &Machine<'_, Loom>,
    owner: Option<Step>,
    end: Step,
) {
    let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
    let freed = AtomicU32::new(0);
    let race = |w: &mut Cpu<'_>| {
        let accepted = w.try_free_untracked(Release::frame(frame));
        freed.fetch_add(accepted.into(), Ordering::Relaxed);
        end(w);
    };
    match &owner {
        Some(owner) => machine.at_once(&[owner, &race, &race]),
        None => machine.at_once(&[&race, &race]),
    }
    machine.on(0, end);
    assert_eq!(freed.into_inner(), 1);
}

/// Two CPUs free different parts of a block, the second part after the first.
pub(crate) fn two_cpus_free_parts_of_a_block(
    machine: &Machine<'_, Loom>,
    order: u8,
    (first, second): (Part, Part),
) {
    let (start, frames) = whole(machine, order);
    let free = |(at, frames): Part| {
        move |w: &mut Cpu<'_>| w.free_untracked(Release::frames(Index(start + at), frames))
    };
    machine.at_once(&[&free(first), &free(second)]);
    let [first_end, second_end] = [first, second].map(|(at, frames)| at + frames);
    let rest = [
        (0, first.0),
        (first_end, second.0 - first_end),
        (second_end, frames - second_end),
    ];
    let rest = rest.into_iter().filter(|(_, frames)| *frames > 0);
    machine.on(0, |w| rest.for_each(|part| free(part)(w)));
}

/// A CPU allocates a frame and frees the last `rest` frames of a block, of which another CPU frees the others.
pub(crate) fn a_part_of_a_block_is_taken_while_another_is_freed(
    machine: &Machine<'_, Loom>,
    order: u8,
    rest: u32,
) {
    let (start, frames) = whole(machine, order);
    let others = frames - rest;
    machine.at_once(&[
        &|w| w.free_untracked(Release::frames(Index(start), others)),
        &|w| {
            let frame = w.try_allocate_untracked(Request::FRAME);
            w.free_untracked(Release::frames(Index(start + others), rest));
            if let Ok(frame) = frame {
                w.free_untracked(Release::frame(frame));
            }
        },
    ]);
}

/// A CPU frees a block, and another one the last frame of that block.
pub(crate) fn a_block_that_is_freed_whole_and_in_part_is_freed_once(
    machine: &Machine<'_, Loom>,
    order: u8,
) {
    let (start, frames) = whole(machine, order);
    let block = Block::new(Index(start), Order::new(order).expect("an order"));
    let freed = [AtomicU32::new(2), AtomicU32::new(2)];
    let free = |which: usize, release| {
        let freed = &freed[which];
        move |w: &mut Cpu<'_>| {
            // A system that records orders refuses the whole block because of its order.
            let (system, cpu) = w.raw();
            let accepted = system.free(cpu, release).is_ok();
            freed.store(accepted.into(), Ordering::Relaxed);
        }
    };
    machine.at_once(&[
        &free(0, Release::block(block)),
        &free(1, Release::frames(Index(start + frames - 1), 1)),
    ]);
    let freed = freed.map(AtomicU32::into_inner);
    assert!(freed == [1, 0] || freed == [0, 1], "{freed:?}");
    if freed == [0, 1] {
        machine.on(0, |w| {
            w.free_untracked(Release::frames(Index(start), frames - 1));
        });
    }
}

/// A CPU frees the first half of a block as a part of it, while another one frees the second half by its order: which
/// is misuse before the block is divided, and right afterwards.
pub(crate) fn a_half_is_freed_by_its_order_while_the_other_is_freed(
    machine: &Machine<'_, Loom>,
    order: u8,
) {
    let (start, frames) = whole(machine, order);
    let half = Order::new(order - 1).expect("an order");
    let first = Release::frames(Index(start), frames / 2);
    let second = Release::block(Block::new(Index(start + frames / 2), half));
    let accepted = AtomicU32::new(0);
    machine.at_once(&[&|w| w.free_untracked(first), &|w| {
        let (system, cpu) = w.raw();
        let is_accepted = system.free(cpu, second).is_ok();
        accepted.store(is_accepted.into(), Ordering::Relaxed);
    }]);
    if accepted.into_inner() == 0 {
        machine.on(0, |w| w.free_untracked(second));
    }
}

/// Allocates a block of all frames; returns its start and its number of frames.
fn whole(machine: &Machine<'_, Loom>, order: u8) -> (u32, u32) {
    let order = Order::new(order).expect("an order");
    let start = machine.on(0, |w| w.allocate_untracked(Request::order(order)));
    (start.0, order.frames())
}

/// Code that interrupted CPU 0 frees a frame.
pub(crate) fn frees_nested(w: &mut Cpu<'_>, frame: Index, is_back: &AtomicBool) {
    let freed = w.raw().0.free_nested(CpuId(0), Release::frame(frame));
    assert_eq!(freed, Ok(()));
    is_back.store(true, Ordering::Relaxed);
}

/// A request that must succeed if its frames came back before.
pub(crate) fn wants(w: &mut Cpu<'_>, are_back: &AtomicBool, request: Request) {
    // The models run on one host thread, so this orders nothing.
    let must_succeed = are_back.load(Ordering::Relaxed);
    match w.try_allocate_untracked(request) {
        Ok(start) => w.free_untracked(Release {
            size: request.size,
            ..Release::frame(start)
        }),
        Err(error) => assert!(
            !must_succeed && error == AllocateError::Exhausted,
            "{error}: the frames are free"
        ),
    }
}

/// The first frames are reserved and come back, while another CPU wants frames.
pub(crate) fn a_range_is_reserved_while_its_frames_are_wanted(
    machine: &Machine<'_, Loom>,
    frames: u32,
    want: Step,
    end: Step,
) {
    machine.at_once(&[
        &|w| {
            if w.reserve(Index(0), frames) {
                w.unreserve(Index(0), frames);
            }
            end(w);
        },
        &|w| {
            w.allow_busy();
            want(w);
            end(w);
        },
    ]);
}

/// Code that interrupted CPU 0 frees `held`, allocates a frame and frees it, between any two steps of CPU 0.
pub(crate) fn a_nested_request_comes_between(
    machine: &Machine<'_, Loom>,
    held: Option<Index>,
    may_be_busy: bool,
    end: Step,
) {
    machine.at_once(&[
        &|w| {
            w.churn(0);
            end(w);
        },
        &|w| {
            let (system, interrupted) = (w.raw().0, CpuId(0));
            let free = |frame| {
                let freed = system.free_nested(interrupted, Release::frame(frame));
                assert_eq!(freed, Ok(()));
            };
            held.into_iter().for_each(free);
            match system.allocate_nested(interrupted, Request::FRAME) {
                Ok(frame) => free(frame),
                Err(error) => assert!(may_be_busy && error == AllocateError::Busy, "{error}"),
            }
        },
    ]);
}
