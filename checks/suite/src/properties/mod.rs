//! The properties of every system. Each one builds its own memory and runs on any host.

mod cpus;
mod interface;
mod places;
mod refusals;
mod reporting;

pub use cpus::{
    cpus_return_while_they_are_drained, offline_cpus_are_drained, unknown_cpus_are_refused,
};
pub use interface::{
    memory_can_arrive_later, misuse_is_an_error_and_changes_nothing, nested_and_bulk,
    ranges_come_and_go, taken_frames_are_allocated,
};

pub use places::{
    free_blocks_are_visited, given_frames_are_allocated,
    hasty_requests_are_exhausted_only_without_free_frames, many_frames_come_in_few_runs,
    places_are_kept,
};

pub use refusals::one_frame_is_exhausted_only_if_all_are_asked_for;

pub use reporting::free_blocks_are_reported_once;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use everybuddy::{
    AllocateError, CpuToken, FrameAllocator, FrameRange, FreeError, Index, Order, Pfn, Platform,
    Release, Request, Setup, SystemSpec,
};

use spin::Mutex;

use crate::model::Model;
use crate::{Host, MEMORIES, Random, Shadow, frames_of, order};
use crate::{allocate_frames, free_frames};

/// Checks that everything is free, coalesced and in place, as when the system was built.
fn is_as_new<P: Platform>(system: &dyn FrameAllocator<P>, cpu: &mut P::Cpu, ranges: &[FrameRange]) {
    system.quiesce(cpu).unwrap();
    let census = system.check(cpu).unwrap();
    assert_eq!(census.free, frames_of(ranges));
    assert_eq!(census.allocated, 0);
    assert_eq!(census.buffered, 0);
    assert_eq!(system.free_frames(), frames_of(ranges));
    let snapshot = system.snapshot(cpu);
    assert_eq!(snapshot.buffered_frames, 0);
    let model = Model::new(system.span(), ranges);
    assert_eq!(
        snapshot.free_blocks[..=system.max_order().index()],
        model.coalesced(system.max_order())[..]
    );
}

/// Every frame can be allocated, once; freed in any order, all memory is coalesced again.
pub fn all_memory_can_be_had_and_comes_back<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    for ranges in MEMORIES {
        let ranges: &'static [FrameRange] = ranges;
        host.build(spec, &Setup::new(ranges, 2), &mut |system| {
            host.run(1, |cpu| {
                let shadow = Shadow::new(system.span().frames());
                let mut held = Vec::new();
                loop {
                    match system.allocate(cpu, Request::FRAME) {
                        Ok(frame) => {
                            shadow.take(frame, 1, 0);
                            held.push(frame);
                        }
                        Err(error) => {
                            assert_eq!(error, AllocateError::Exhausted);
                            break;
                        }
                    }
                }
                assert_eq!(
                    held.len() as u64,
                    frames_of(ranges),
                    "every frame was given"
                );
                let mut random = Random(7);
                while !held.is_empty() {
                    let frame = held.swap_remove(random.below(held.len() as u64) as usize);
                    shadow.give(frame, 1, 0);
                    system.free(cpu, Release::frame(frame)).unwrap();
                }
                is_as_new(system, cpu, ranges);
            });
        });
    }
}

/// Blocks of every order are aligned, disjoint, and as many as there can be.
pub fn blocks_are_aligned_and_disjoint<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(5), 5000)];
    host.build(spec, &Setup::new(RANGES, 1), &mut |system| {
        host.run(1, |cpu| {
            for size in Order::up_to(system.max_order()) {
                let shadow = Shadow::new(system.span().frames());
                let mut held = Vec::new();
                while let Ok(start) = system.allocate(cpu, Request::order(size)) {
                    assert!(start.is_aligned(size));
                    shadow.take(start, size.frames(), 0);
                    held.push(start);
                }
                let model = Model::new(system.span(), RANGES);
                let usable: u64 = Order::up_to(system.max_order())
                    .zip(model.coalesced(system.max_order()))
                    .filter(|(o, _)| *o >= size)
                    .map(|(o, blocks)| u64::from(blocks) << (o.get() - size.get()))
                    .sum();
                assert_eq!(held.len() as u64, usable, "all blocks of order {size}");
                for start in held {
                    let block = everybuddy::Block::new(start, size);
                    system.free(cpu, Release::block(block)).unwrap();
                }
                is_as_new(system, cpu, RANGES);
            }
            let too_large = Order::new(system.max_order().get() + 1).unwrap();
            let largest = system.max_order();
            let expected = Err(AllocateError::TooLarge { largest });
            assert_eq!(system.allocate(cpu, Request::order(too_large)), expected);
            let frames = largest.frames() + 1;
            assert_eq!(system.allocate(cpu, Request::frames(frames)), expected);
            let zero = system.allocate(cpu, Request::frames(0));
            assert_eq!(zero, Err(AllocateError::ZeroFrames));
        });
    });
}

/// Random requests of all kinds, by one CPU, held against the model after every step.
pub fn random_requests_agree_with_the_model<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    for (seed, ranges) in MEMORIES.iter().enumerate() {
        let ranges: &'static [FrameRange] = ranges;
        host.build(spec, &Setup::new(ranges, 1), &mut |system| {
            host.run(1, |cpu| {
                let mut random = Random(seed as u64);
                let mut model = Model::new(system.span(), ranges);
                // Runs that are held: start and frames; some whole by order, some to be freed in parts.
                let mut held: Vec<(Index, u32)> = Vec::new();
                for step in 0..1500 {
                    let fill = if step % 300 < 150 { 70 } else { 30 };
                    let hint = everybuddy::Hint {
                        task: step / 40,
                        region: step / 11,
                        left: step % 50,
                    };
                    if random.chance(fill) || held.is_empty() {
                        let most = u64::from(system.max_order().get().min(5));
                        let exact = random.chance(30);
                        let frames = if exact {
                            1 + random.below(u64::from(system.max_order().frames().min(60))) as u32
                        } else {
                            order(random.below(most + 1) as u8).frames()
                        };
                        let covering = Order::covering(frames).unwrap();
                        let request = if exact {
                            Request::frames(frames)
                        } else {
                            Request::order(covering)
                        };
                        match system.allocate(cpu, request.with_hint(hint)) {
                            Ok(start) => {
                                assert!(start.is_aligned(covering));
                                model.take(start, frames);
                                held.push((start, frames));
                            }
                            Err(error) => {
                                assert_eq!(error, AllocateError::Exhausted);
                                assert!(!model.can_serve(covering), "{covering:?} could be served");
                            }
                        }
                    } else {
                        let index = random.below(held.len() as u64) as usize;
                        let (start, frames) = held.swap_remove(index);
                        let block = Order::covering(frames).filter(|o| o.frames() == frames);
                        match block {
                            Some(size) if start.is_aligned(size) && random.chance(50) => {
                                let block = everybuddy::Block::new(start, size);
                                // A part of an allocation that looks like a block is not one.
                                match system.free(cpu, Release::block(block).with_hint(hint)) {
                                    Ok(()) => {}
                                    Err(
                                        FreeError::InsideBlock { .. }
                                        | FreeError::WrongOrder { .. },
                                    ) => {
                                        system.free(cpu, Release::frames(start, frames)).unwrap();
                                    }
                                    Err(error) => panic!("{error}"),
                                }
                                model.give(start, frames);
                            }
                            _ => {
                                // A random part in the middle; what remains is held on.
                                let from = random.below(u64::from(frames)) as u32;
                                let length = 1 + random.below(u64::from(frames - from)) as u32;
                                let part = Index(start.0 + from);
                                system
                                    .free(cpu, Release::frames(part, length).with_hint(hint))
                                    .unwrap();
                                model.give(part, length);
                                if from > 0 {
                                    held.push((start, from));
                                }
                                let rest = frames - from - length;
                                if rest > 0 {
                                    held.push((Index(part.0 + length), rest));
                                }
                            }
                        }
                    }
                    if random.chance(3) {
                        system.drain(cpu);
                    }
                    if step % 16 == 0 {
                        let census = system.check(cpu).unwrap();
                        assert!(census.free <= model.free_frames());
                        assert_eq!(system.free_frames(), model.free_frames());
                    }
                }
                for (start, frames) in held {
                    system.free(cpu, Release::frames(start, frames)).unwrap();
                }
                is_as_new(system, cpu, ranges);
            });
        });
    }
}

/// Sets a flag when it is dropped, also by a failed assertion: threads that wait for the flag end then.
struct AtEnd<'a>(&'a AtomicUsize);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

/// Frames that lie in other CPUs' lists, parked or not, are found before a request fails.
pub fn frames_in_other_lists_are_found<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 256)];
    const CPUS: u16 = 4;
    host.build(spec, &Setup::new(RANGES, CPUS), &mut |system| {
        // Each CPU leaves some frames in its list, and parks. Then one takes everything.
        host.run(CPUS, |cpu| {
            let held: Vec<_> = allocate_frames(system, cpu, 20);
            free_frames(system, cpu, held);
            system.park(cpu);
        });
        host.run(1, |cpu| {
            let mut held = Vec::new();
            while let Ok(frame) = system.allocate(cpu, Request::FRAME) {
                held.push(frame);
            }
            assert_eq!(held.len(), 256);
            free_frames(system, cpu, held);
            system.park(cpu);
        });
        // The same with the others running: each goes on taking a frame and giving it back. A request fails
        // only when every frame is held, so at that moment the one has all but what the others hold.
        let done = AtomicUsize::new(0);
        host.run(CPUS, |cpu| {
            if cpu.id().0 == 0 {
                let _done = AtEnd(&done);
                for _ in 0..20 {
                    let mut held = Vec::new();
                    let error = loop {
                        match system.allocate(cpu, Request::FRAME) {
                            Ok(frame) => held.push(frame),
                            Err(error) => break error,
                        }
                    };
                    assert_eq!(error, AllocateError::Exhausted);
                    assert!(
                        held.len() > 256 - usize::from(CPUS),
                        "{} of 256",
                        held.len()
                    );
                    free_frames(system, cpu, held);
                }
            } else {
                while done.load(Ordering::Relaxed) == 0 {
                    if let Ok(frame) = system.allocate(cpu, Request::FRAME) {
                        system.free(cpu, Release::frame(frame)).unwrap();
                    }
                }
            }
            system.park(cpu);
        });
        host.run(1, |cpu| is_as_new(system, cpu, RANGES));
    });
}

/// Returns how often a property that only some schedules can break is tried: `EVERYBUDDY_ROUNDS`, 8 by default. Each
/// round starts threads, which is what it costs.
///
/// # Panics
/// If the variable is not a number.
pub fn rounds() -> u64 {
    #[cfg(feature = "std")]
    if let Ok(rounds) = std::env::var("EVERYBUDDY_ROUNDS") {
        return rounds.parse().expect("EVERYBUDDY_ROUNDS is a number");
    }
    8
}

/// While others give back what they hold, one takes all: when it is refused, all frames are held, whatever
/// lists they went through.
pub fn a_request_fails_only_when_all_is_held<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 256)];
    const CPUS: u16 = 3;
    host.build(spec, &Setup::new(RANGES, CPUS), &mut |system| {
        for round in 0..rounds() {
            // The others hold 100 frames each, and begin with empty lists.
            let held: Vec<Mutex<Vec<Index>>> = (0..CPUS).map(|_| Mutex::default()).collect();
            host.run(CPUS, |cpu| {
                if cpu.id().0 > 0 {
                    let mut held = held[cpu.id().index()].lock();
                    held.extend((0..100).map(|_| system.allocate(cpu, Request::FRAME).unwrap()));
                }
                system.park(cpu);
            });
            let in_hand = AtomicUsize::new(100 * usize::from(CPUS - 1));
            host.run(CPUS, |cpu| {
                let mut own = held[cpu.id().index()].lock();
                if cpu.id().0 > 0 {
                    let mut random = Random(round + u64::from(cpu.id().0));
                    for frame in own.drain(..) {
                        // Counted as given back before it is: the one may be short of one frame for each.
                        in_hand.fetch_sub(1, Ordering::Relaxed);
                        system.free(cpu, Release::frame(frame)).unwrap();
                        for _ in 0..random.below(600) {
                            core::hint::spin_loop();
                        }
                    }
                } else {
                    for _ in 0..20 {
                        let error = loop {
                            let before = in_hand.load(Ordering::Relaxed);
                            match system.allocate(cpu, Request::FRAME) {
                                Ok(frame) => own.push(frame),
                                Err(error) => break (error, before),
                            }
                        };
                        assert_eq!(error.0, AllocateError::Exhausted);
                        let known = own.len() + error.1 + usize::from(CPUS - 1);
                        assert!(
                            known >= 256,
                            "{} taken, {} held by others",
                            own.len(),
                            error.1
                        );
                    }
                    free_frames(system, cpu, own.drain(..));
                }
                system.park(cpu);
            });
        }
        host.run(1, |cpu| is_as_new(system, cpu, RANGES));
    });
}

/// Random requests by several CPUs; a frame freed by another than its taker; nothing given twice.
pub fn many_cpus_never_share_a_frame<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(2), 600), FrameRange::new(Pfn(700), 500)];
    for cpus in [2u16, 5] {
        host.build(spec, &Setup::new(RANGES, cpus), &mut |system| {
            let shadow = Shadow::new(system.span().frames());
            // Frames handed from one CPU to another: taken by the first CPU that looks.
            let handed = Mutex::new(Vec::new());
            host.run(cpus, |cpu| {
                let me = u32::from(cpu.id().0);
                let mut random = Random(u64::from(me) + 1);
                let mut held: Vec<(Index, u32)> = Vec::new();
                for step in 0..600 {
                    if random.chance(55) {
                        let frames = match random.below(10) {
                            0 => {
                                order(random.below(u64::from(system.max_order().get().min(4)) + 1)
                                    as u8)
                                .frames()
                            }
                            1 => {
                                1 + random.below(u64::from(system.max_order().frames().min(12)))
                                    as u32
                            }
                            _ => 1,
                        };
                        let hint = everybuddy::Hint {
                            task: me,
                            region: step / 7,
                            left: 5,
                        };
                        match system.allocate(cpu, Request::frames(frames).with_hint(hint)) {
                            Ok(start) => {
                                shadow.take(start, frames, 0);
                                held.push((start, frames));
                            }
                            Err(AllocateError::Exhausted | AllocateError::Busy) => {}
                            Err(error) => panic!("{error}"),
                        }
                    } else if let Some((start, frames)) = held.pop() {
                        if random.chance(20) {
                            handed.lock().push((start, frames));
                        } else {
                            shadow.give(start, frames, 0);
                            let hint = everybuddy::Hint {
                                task: me,
                                region: step / 5,
                                left: 80,
                            };
                            system
                                .free(cpu, Release::frames(start, frames).with_hint(hint))
                                .unwrap();
                        }
                    }
                    if random.chance(10) {
                        let other = handed.lock().pop();
                        if let Some((start, frames)) = other {
                            shadow.give(start, frames, 0);
                            system.free(cpu, Release::frames(start, frames)).unwrap();
                        }
                    }
                    if random.chance(2) {
                        system.park(cpu);
                        // A hint, which must not disturb the others.
                        core::hint::black_box(system.free_frames());
                    }
                }
                for (start, frames) in held {
                    shadow.give(start, frames, 0);
                    system.free(cpu, Release::frames(start, frames)).unwrap();
                }
                system.park(cpu);
            });
            host.run(1, |cpu| {
                let held: u64 = handed.lock().iter().map(|run| u64::from(run.1)).sum();
                assert_eq!(system.free_frames() + held, frames_of(RANGES));
                for (start, frames) in handed.lock().drain(..) {
                    shadow.give(start, frames, 0);
                    system.free(cpu, Release::frames(start, frames)).unwrap();
                }
                assert_eq!(shadow.taken(), 0);
                is_as_new(system, cpu, RANGES);
            });
        });
    }
}
