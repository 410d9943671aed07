//! A system with two CPUs and 256 MiB, shared by tests of frames that change CPUs.

use everybuddy::platform::NativeCpus;
use everybuddy::{Counts, Flags, FrameRange, Index, Pfn, Release, Request, Setup};
use everybuddy_suite::{
    Cpu, Random, System, all_at_once, any, claim, for_each_spec, free_frames, on_cpus,
};

/// 256 MiB: a magazine has 31 frames.
pub(crate) const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 1 << 16)];

/// Runs `body` with a system and the tokens of two CPUs. Returns the events that both counted.
pub(crate) fn with(name: &str, body: impl FnOnce(&System<'_>, &mut Cpu, &mut Cpu)) -> Counts {
    on_cpus(name, RANGES, |system, [first, second]| {
        body(system, first, second);
        let mut counts = first.probe().counts;
        counts.add(&second.probe().counts);
        // All frames are free again and coalesced.
        system.park(second);
        system.quiesce(first).unwrap();
        let census = system.check(first).unwrap();
        assert_eq!((census.free, census.buffered), (1 << 16, 0), "{name}");
        assert_eq!(system.snapshot(first).free_blocks[10], 64, "{name}");
        counts
    })
}

/// Allocates frames one by one.
pub(crate) fn allocate(system: &System<'_>, cpu: &mut Cpu, frames: u64) -> Vec<Index> {
    let frame = |_| system.allocate(cpu, Request::FRAME).unwrap();
    (0..frames).map(frame).collect()
}

/// Frees frames one by one.
pub(crate) fn free(system: &System<'_>, cpu: &mut Cpu, frames: &[Index]) {
    free_frames(system, cpu, frames);
}

/// The parts of an allocation may have several owners, as those of a page that a kernel splits.
#[test]
fn two_cpus_free_parts_of_one_allocation() {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 256)];
    for_each_spec(|spec| {
        any(spec, &Setup::new(RANGES, 2), |system| {
            let cpus = NativeCpus::new(2);
            for _ in 0..20 {
                let mut first = claim(&cpus, 0);
                let run = system.allocate(&mut first, Request::frames(8)).unwrap();
                cpus.release(first);
                all_at_once(2, |id| {
                    let mut cpu = claim(&cpus, id);
                    for frame in (run.0 + u32::from(id)..run.0 + 8).step_by(2) {
                        let part = Release::frames(Index(frame), 1);
                        system.free(&mut cpu, part).unwrap();
                    }
                    system.park(&mut cpu);
                    cpus.release(cpu);
                });
            }
            let cpu = &mut claim(&cpus, 0);
            system.quiesce(cpu).unwrap();
            let census = system.check(cpu).unwrap();
            assert_eq!((census.free, census.allocated), (256, 0));
        });
    });
}

/// The number of free frames is exact after each call, whichever CPU lists, owns or keeps them.
#[test]
fn free_frames_are_counted_without_a_token() {
    const FRAMES: u64 = 4096;
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(3), FRAMES)];
    for_each_spec(|spec| {
        any(spec, &Setup::new(RANGES, 2), |system| {
            let cpus = NativeCpus::new(2);
            let mut tokens = [0, 1].map(|cpu| claim(&cpus, cpu));
            let (mut random, mut held, mut used) = (Random(5), Vec::new(), 0);
            for step in 0..1200 {
                let cpu = &mut tokens[random.below(2) as usize];
                let frames = [1, 1, 1, 2, 7, 64][random.below(6) as usize];
                // The other CPU answers no request for what it keeps.
                let request = Request::frames(frames).with_flags(Flags::NO_WAIT);
                let is_full = used > FRAMES * 3 / 4;
                if is_full || random.chance(if step % 400 < 200 { 35 } else { 65 }) {
                    let at = random.below(held.len().max(1) as u64) as usize;
                    if at < held.len() {
                        let (start, frames): (Index, u32) = held.swap_remove(at);
                        system.free(cpu, Release::frames(start, frames)).unwrap();
                        used -= u64::from(frames);
                    }
                } else if let Ok(start) = system.allocate(cpu, request) {
                    held.push((start, frames));
                    used += u64::from(frames);
                }
                assert_eq!(system.free_frames(), FRAMES - used, "{spec} at {step}");
            }
        });
    });
}

/// A range is emptied piece by piece, and used again.
#[test]
fn a_range_in_use_is_isolated_before_it_is_removed() {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(2), 2046)];
    for_each_spec(|spec| {
        any(spec, &Setup::new(RANGES, 1), |system| {
            let cpu = &mut claim(&NativeCpus::new(1), 0);
            let range = FrameRange::new(Pfn(1100), 500);
            let used = [1100, 1234, 1235, 1599].map(|frame| {
                let page = FrameRange::new(Pfn(frame), 1);
                system.allocate_at(cpu, page).unwrap()
            });
            assert_eq!(system.isolate(cpu, range), Ok(4), "{spec}");
            assert_eq!(system.isolate(cpu, range), Ok(4), "{spec}");
            let others = allocate(system, cpu, 2046 - 500);
            assert!(others.iter().all(|frame| {
                let frame = system.span().physical(*frame);
                frame < range.start || frame >= range.end().unwrap()
            }));
            assert!(system.allocate(cpu, Request::FRAME).is_err(), "{spec}");
            free(system, cpu, &others);
            for (left, frame) in [3, 2, 1, 0].into_iter().zip(used) {
                system.free(cpu, Release::frames(frame, 1)).unwrap();
                assert_eq!(system.isolate(cpu, range), Ok(left), "{spec}");
            }
            system.quiesce(cpu).unwrap();
            assert_eq!(system.check(cpu).unwrap().reserved, 500, "{spec}");
            system.unreserve(cpu, range).unwrap();
            assert_eq!(system.free_frames(), 2046, "{spec}");
        });
    });
}
