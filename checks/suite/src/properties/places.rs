//! The properties of requests for certain frames: given ones, frames of a place, runs, free blocks one by one.

use alloc::vec::Vec;

use everybuddy::{
    AllocateError, Block, Colours, CpuToken, Flags, FrameAllocator, FrameRange, Index, Node, Order,
    Pfn, Place, Platform, Reason, RegionError, Release, Request, Run, Setup, SystemSpec, Visit,
};

use spin::Mutex;

use super::is_as_new;
use crate::model::Model;
use crate::{Host, Random, Shadow, frames_of, order};
use crate::{allocate_frames, free_frames};

/// Given frames are allocated if all of them are free; otherwise the error names the first that is not, and nothing
/// changes. Several CPUs never share one.
pub fn given_frames_are_allocated<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[
        FrameRange::new(Pfn(0x1003), 300),
        FrameRange::new(Pfn(0x1200), 220),
        // In another part of the span.
        FrameRange::new(Pfn((64 << 28) + 17), 300),
    ];
    host.build(spec, &Setup::new(RANGES, 3), &mut |system| {
        host.run(1, |cpu| one_cpu_takes_given_frames(system, cpu, RANGES));
        // While others allocate and free, nothing is given twice.
        let shadow = Shadow::new(system.span().frames());
        host.run(3, |cpu| {
            let mut random = Random(u64::from(cpu.id().0) + 1);
            let mut held: Vec<(Index, u32)> = Vec::new();
            for _ in 0..120 {
                let start = random.below(u64::from(system.span().frames())) as u32;
                let frames = 1 + random.below(9) as u32;
                let physical = system.span().physical(Index(start));
                let got = if random.chance(50) {
                    let range = FrameRange::new(physical, u64::from(frames));
                    system.allocate_at(cpu, range).ok().map(|at| (at, frames))
                } else {
                    system.allocate(cpu, Request::FRAME).ok().map(|at| (at, 1))
                };
                if let Some((at, frames)) = got {
                    shadow.take(at, frames, 0);
                    held.push((at, frames));
                }
                if held.len() > 12 {
                    let (at, frames) = held.swap_remove(random.below(12) as usize);
                    shadow.give(at, frames, 0);
                    system.free(cpu, Release::frames(at, frames)).unwrap();
                }
            }
            for (at, frames) in held {
                shadow.give(at, frames, 0);
                system.free(cpu, Release::frames(at, frames)).unwrap();
            }
            system.park(cpu);
        });
        host.run(1, |cpu| is_as_new(system, cpu, RANGES));
    });
}

/// Random ranges, held against the model.
fn one_cpu_takes_given_frames<P: Platform>(
    system: &dyn FrameAllocator<P>,
    cpu: &mut P::Cpu,
    ranges: &[FrameRange],
) {
    let span = system.span();
    let outside = [
        (FrameRange::new(Pfn(0x1003), 0), RegionError::Empty),
        (
            FrameRange::new(span.physical(Index(span.frames() - 1)), 2),
            RegionError::OutsideSpan,
        ),
        (FrameRange::new(Pfn(u64::MAX), 2), RegionError::OutsideSpan),
    ];
    for (range, error) in outside {
        assert_eq!(system.allocate_at(cpu, range), Err(error));
    }
    let mut model = Model::new(span, ranges);
    let mut random = Random(5);
    let mut held: Vec<(Index, u32)> = Vec::new();
    for step in 0..200 {
        // Some frames go through lists, and so lists hold some.
        if step % 3 == 0
            && let Ok(frame) = system.allocate(cpu, Request::FRAME)
        {
            model.take(frame, 1);
            if step % 2 == 0 {
                held.push((frame, 1));
            } else {
                system.free(cpu, Release::frame(frame)).unwrap();
                model.give(frame, 1);
            }
        }
        let start = Index(random.below(u64::from(span.frames())) as u32);
        let most = (span.frames() - start.0).min(if step % 10 == 0 { 200 } else { 20 });
        let frames = 1 + random.below(u64::from(most)) as u32;
        let range = FrameRange::new(span.physical(start), u64::from(frames));
        let busy = (start.0..start.0 + frames).find(|frame| !model.is_free(Index(*frame)));
        let last = span.physical(Index(start.0 + frames - 1));
        let expected = match busy {
            _ if last.checked_add(1) != range.end() => Err(RegionError::OutsideSpan),
            None => Ok(start),
            Some(frame) => Err(RegionError::NotFree(span.physical(Index(frame)))),
        };
        assert_eq!(system.allocate_at(cpu, range), expected, "{range:?}");
        if expected.is_ok() {
            model.take(start, frames);
            held.push((start, frames));
        }
        if held.len() > 20 {
            let (start, frames) = held.swap_remove(random.below(20) as usize);
            system.free(cpu, Release::frames(start, frames)).unwrap();
            model.give(start, frames);
        }
        system.check(cpu).unwrap();
    }
    // A given block is a block like any other.
    for (start, frames) in held {
        let block = Order::covering(frames).filter(|order| order.frames() == frames);
        match block.filter(|order| start.is_aligned(*order) && *order <= system.max_order()) {
            Some(order) => system.free(cpu, Release::block(Block::new(start, order))),
            None => system.free(cpu, Release::frames(start, frames)),
        }
        .unwrap();
    }
    is_as_new(system, cpu, ranges);
}

/// Frames of a place are below its limit, aligned and of its colours; and all of them are found.
pub fn places_are_kept<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[
        FrameRange::new(Pfn(0x801), 200),
        FrameRange::new(Pfn(0x900), 150),
    ];
    let two_of_eight = Colours::new(0b1101, 1 << 2 | 1 << 5).unwrap();
    let places = [
        Place::ANYWHERE,
        Place::ANYWHERE.below(Pfn(0x880)),
        Place::ANYWHERE.aligned(order(5)),
        Place::ANYWHERE.coloured(two_of_eight),
        Place::ANYWHERE.below(Pfn(0x910)).coloured(two_of_eight),
        Place::ANYWHERE.below(Pfn(0x801)),
    ];
    host.build(spec, &Setup::new(RANGES, 2), &mut |system| {
        // Another CPU leaves frames in its list.
        host.run(2, |cpu| {
            if cpu.id().0 == 1 {
                let held: Vec<_> = allocate_frames(system, cpu, 30);
                free_frames(system, cpu, held);
            }
            system.park(cpu);
        });
        host.run(1, |cpu| {
            for place in places {
                for frames in [1u32, 4] {
                    let span = system.span();
                    let mut model = Model::new(span, RANGES);
                    let is_in = |start: u32| place.holds(span.physical(Index(start)), frames);
                    let mut held = Vec::new();
                    let error = loop {
                        match system.allocate_in(cpu, Request::frames(frames), &place) {
                            Ok(start) => {
                                assert!(is_in(start.0), "{start} for {place:?}");
                                model.take(start, frames);
                                held.push(start);
                            }
                            Err(error) => break error,
                        }
                    };
                    assert_eq!(error, AllocateError::Exhausted, "{place:?}");
                    let starts = (0..span.frames()).step_by(frames as usize);
                    let left = starts.filter(|start| {
                        is_in(*start) && (*start..start + frames).all(|f| model.is_free(Index(f)))
                    });
                    assert_eq!(left.count(), 0, "{place:?} of {frames}");
                    for start in held {
                        system.free(cpu, Release::frames(start, frames)).unwrap();
                    }
                    is_as_new(system, cpu, RANGES);
                }
            }
            // At the end of the address space, too.
            let beyond = Place::ANYWHERE.below(Pfn(u64::MAX)).aligned(Order::LIMIT);
            let refused = system.allocate_in(cpu, Request::FRAME, &beyond);
            assert_eq!(refused, Err(AllocateError::Exhausted));
            let too_many = Request::frames(system.max_order().frames() + 1);
            let largest = system.max_order();
            let refused = system.allocate_in(cpu, too_many, &places[1]);
            assert_eq!(refused, Err(AllocateError::TooLarge { largest }));
        });
    });
}

/// Frames that a test holds, and the model of all others.
struct Holder {
    model: Model,
    held: Vec<(Index, u32)>,
    random: Random,
}

impl Holder {
    /// Asks for frames, which may not wait, and compares a refusal with the model.
    fn ask<P: Platform>(
        &mut self,
        system: &dyn FrameAllocator<P>,
        cpu: &mut P::Cpu,
        place: &Place,
    ) {
        let frames = [1, 1, 2, 3, 4, 8][self.random.below(6) as usize];
        let request = Request::frames(frames).with_flags(Flags::NO_WAIT);
        let answer = if *place == Place::ANYWHERE {
            system.allocate(cpu, request)
        } else {
            system.allocate_in(cpu, request, place)
        };
        match answer {
            Ok(start) => {
                assert!(place.holds(system.span().physical(start), frames));
                self.model.take(start, frames);
                self.held.push((start, frames));
            }
            Err(AllocateError::Busy) => {}
            Err(error) => {
                assert_eq!(error, AllocateError::Exhausted);
                let can_serve = self.model.can_serve_in(system.span(), frames, place);
                assert!(!can_serve, "{frames} frames are free in {place:?}");
            }
        }
    }

    /// Frees a part of what is held.
    fn free<P: Platform>(&mut self, system: &dyn FrameAllocator<P>, cpu: &mut P::Cpu) {
        if self.held.is_empty() {
            return;
        }
        let index = self.random.below(self.held.len() as u64) as usize;
        let (start, frames) = self.held.swap_remove(index);
        let freed = 1 + self.random.below(frames.into()) as u32;
        let release = Release::frames(start, freed);
        system.free(cpu, release).unwrap();
        self.model.give(start, freed);
        if freed < frames {
            self.held.push((Index(start.0 + freed), frames - freed));
        }
    }
}

/// A request that must not wait is refused as exhausted only if no frames were free that suit it, in lists and queues
/// neither. Lists of another CPU hold some. It does not call, and parks in every second round.
pub fn hasty_requests_are_exhausted_only_without_free_frames<P: Platform, H: Host<P>>(
    host: &H,
    spec: &SystemSpec,
) {
    const RANGES: &[FrameRange] = &[
        FrameRange::new(Pfn(0x802), 100),
        FrameRange::new(Pfn(0x880), 30),
    ];
    let places = [
        Place::ANYWHERE,
        Place::ANYWHERE.below(Pfn(0x818)),
        Place::ANYWHERE.below(Pfn(0x840)).aligned(order(3)),
        Place::ANYWHERE.coloured(Colours::new(0b1100, 1 << 2).unwrap()),
    ];
    host.build(spec, &Setup::new(RANGES, 2), &mut |system| {
        let holder = Mutex::new(Holder {
            model: Model::new(system.span(), RANGES),
            held: Vec::new(),
            random: Random(11),
        });
        for round in 0..6 {
            host.run(2, |cpu| {
                if cpu.id().0 == 1 {
                    let mut holder = holder.lock();
                    (0..40).for_each(|_| holder.ask(system, cpu, &Place::ANYWHERE));
                    (0..30).for_each(|_| holder.free(system, cpu));
                    if round % 2 == 1 {
                        system.park(cpu);
                    }
                }
            });
            host.run(1, |cpu| {
                let mut holder = holder.lock();
                for step in 0..120 {
                    let place = &places[holder.random.below(4) as usize];
                    // Memory fills up and empties, by turns.
                    let fill = if (step / 30 + round) % 2 == 0 { 75 } else { 35 };
                    if holder.random.chance(fill) {
                        holder.ask(system, cpu, place)
                    } else {
                        holder.free(system, cpu)
                    }
                }
            });
        }
        host.run(2, |cpu| {
            if cpu.id().0 == 1 {
                let mut holder = holder.lock();
                for (start, frames) in holder.held.drain(..) {
                    system.free(cpu, Release::frames(start, frames)).unwrap();
                }
            }
            system.park(cpu);
        });
        host.run(1, |cpu| is_as_new(system, cpu, RANGES));
    });
}

/// Many frames come in one run if there is one, otherwise in the largest blocks that are free; if there are too few,
/// nothing is allocated, and the shortage says why.
pub fn many_frames_come_in_few_runs<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 512)];
    host.build(spec, &Setup::new(RANGES, 1), &mut |system| {
        host.run(1, |cpu| {
            let mut out = [Run::default(); 256];
            let most = system.max_order().frames().min(512);
            let runs = system.allocate_runs(cpu, most - 1, Order::ZERO, &mut out);
            assert_eq!(runs, Ok(1));
            system.free(cpu, out[0].release()).unwrap();
            // Every fifth frame is held: no run is longer than four.
            for frame in (0..512).step_by(5) {
                system
                    .allocate_at(cpu, FrameRange::new(Pfn(frame), 1))
                    .unwrap();
            }
            let shortage = system.shortage(cpu, Request::order(order(3)));
            assert_eq!(shortage.reason(), Reason::Fragmentation, "{shortage}");
            assert_eq!(shortage.largest(), Some(order(2)));
            // A system without nodes is node 0.
            let on = |node| Place::ANYWHERE.on(Node::Only(node));
            let frame = system.allocate_in(cpu, Request::FRAME, &on(0)).unwrap();
            system.free(cpu, Release::frame(frame)).unwrap();
            let refused = system.allocate_in(cpu, Request::FRAME, &on(1));
            assert_eq!(refused, Err(AllocateError::Exhausted));
            let shadow = Shadow::new(512);
            let runs = system
                .allocate_runs(cpu, 301, Order::ZERO, &mut out)
                .unwrap();
            for run in &out[..runs] {
                shadow.take(run.start, run.frames, 0);
            }
            assert_eq!(shadow.taken(), 301);
            // The free blocks of four come first, then pairs.
            let model = {
                let mut model = Model::new(system.span(), RANGES);
                (0..512)
                    .step_by(5)
                    .for_each(|frame| model.take(Index(frame), 1));
                model.coalesced(order(2))
            };
            let fours = out[..runs].iter().filter(|run| run.frames == 4).count();
            assert_eq!(fours as u32, model[2].min(301 / 4));
            assert!(out[..runs].is_sorted_by(|one, next| one.frames >= next.frames));
            system.quiesce(cpu).unwrap();
            let before = system.check(cpu).unwrap();
            let refused = [
                system.allocate_runs(cpu, 200, Order::ZERO, &mut out[..200]),
                system.allocate_runs(cpu, 40, Order::ZERO, &mut out[..2]),
                system.allocate_runs(cpu, 40, order(3), &mut out[..40]),
            ];
            assert_eq!(refused, [Err(AllocateError::Exhausted); 3]);
            system.quiesce(cpu).unwrap();
            let after = system.check(cpu).unwrap();
            assert_eq!(before.allocated, after.allocated);
            let shortage = system.shortage(cpu, Request::order(order(3)));
            assert_eq!(shortage.free.free_frames(), after.free);
        });
    });
}

/// Free blocks are visited one by one, kept or returned, also while other CPUs work.
pub fn free_blocks_are_visited<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(8), 1024)];
    host.build(spec, &Setup::new(RANGES, 3), &mut |system| {
        let size = order(3);
        host.run(1, |cpu| {
            let mut seen = Vec::new();
            let kept = system.visit_free(cpu, size, &mut |block| {
                seen.push(block.start);
                Visit::Return
            });
            assert_eq!((kept, seen.len() as u64), (0, frames_of(RANGES) / 8));
            is_as_new(system, cpu, RANGES);
            let kept = system.visit_free(cpu, size, &mut |block| match block.start.0 {
                ..32 => Visit::Return,
                32 => Visit::Keep,
                _ => Visit::KeepAndStop,
            });
            assert_eq!(kept, 2);
            for start in [32, 40] {
                system
                    .free(cpu, Release::block(Block::new(Index(start), size)))
                    .unwrap();
            }
            is_as_new(system, cpu, RANGES);
            system.park(cpu);
        });
        let shadow = Shadow::new(system.span().frames());
        let kept = Mutex::new(Vec::new());
        host.run(3, |cpu| {
            if cpu.id().0 == 0 {
                system.visit_free(cpu, size, &mut |block| {
                    shadow.take(block.start, 8, 0);
                    kept.lock().push(block);
                    Visit::Keep
                });
            } else {
                for _ in 0..60 {
                    if let Ok(frame) = system.allocate(cpu, Request::FRAME) {
                        shadow.take(frame, 1, 0);
                        shadow.give(frame, 1, 0);
                        system.free(cpu, Release::frame(frame)).unwrap();
                    }
                }
            }
            system.park(cpu);
        });
        host.run(1, |cpu| {
            for block in kept.lock().drain(..) {
                system.free(cpu, Release::block(block)).unwrap();
            }
            is_as_new(system, cpu, RANGES);
        });
    });
}
