//! The system against a naive model.

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::arena::Memory;
use crate::platform::{Native, NativeCpus};
use crate::probe::NoProbe;

/// What a naive model knows of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Free,
    Allocated,
    Hole,
    Reserved,
}

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(limit)) as u32
    }
}

/// Calls `body` with a system of so many frames, and the first and the last ones a hole.
fn with_system(
    (frames, holes): (u32, u32),
    cpus: u16,
    (tree, max_order): (Option<u32>, u8),
    body: impl FnOnce(&OwnedTrees<'_, Native>),
) {
    let ranges = [FrameRange::new(0, frames.into())];
    let max_order = Order::new(max_order).unwrap();
    let geometry = Geometry {
        span: Span::covering(&ranges, max_order).unwrap(),
        cpus,
        max_order,
        tree,
    };
    let bytes = OwnedTrees::<Native>::plan(ArenaPlan::default(), &geometry)
        .bytes()
        .unwrap();
    let memory: &'static mut [_] = Box::leak(vec![0u8; bytes + 64].into_boxed_slice());
    let mut memory: Vec<_> = memory
        .iter()
        .map(|byte| core::mem::MaybeUninit::new(*byte))
        .collect();
    let mut arena = Arena::new(Memory::new(&mut memory));
    let system = OwnedTrees::new(&mut arena, &geometry, bytes).unwrap();
    system.remove_before_use(0, holes);
    system.remove_before_use(frames - holes, system.frames_of_trees());
    body(&system);
}

struct Checked<'s, 'm> {
    system: &'s OwnedTrees<'m, Native>,
    cpus: Vec<crate::platform::NativeCpu<NoProbe>>,
    model: Vec<Is>,
    held: Vec<(u32, u32)>,
}

impl Checked<'_, '_> {
    fn all(&self, start: u32, frames: u32, is: Is) -> bool {
        let range = start as usize..(start + frames) as usize;
        self.model[range].iter().all(|own| *own == is)
    }

    fn set(&mut self, start: u32, frames: u32, from: Is, to: Is) {
        for own in &mut self.model[start as usize..(start + frames) as usize] {
            assert_eq!(*own, from, "frame from {start}");
            *own = to;
        }
    }

    /// Returns `true` if an aligned block is free.
    fn can_serve(&self, order: Order) -> bool {
        self.model
            .chunks_exact(order.frames() as usize)
            .any(|block| block.iter().all(|is| *is == Is::Free))
    }

    fn check(&mut self) {
        let census = self.system.check(&mut self.cpus[0]).unwrap();
        let count = |is| self.model.iter().filter(|own| **own == is).count() as u64;
        assert_eq!(census.free, count(Is::Free));
        assert_eq!(census.allocated, count(Is::Allocated));
        assert_eq!(
            (census.holes, census.reserved),
            (count(Is::Hole), count(Is::Reserved))
        );
    }

    fn allocate(&mut self, random: &mut Random) {
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let largest = u32::from(self.system.max_order().get()) + 1;
        let order = Order::new(random.below(largest) as u8).unwrap();
        let frames = match random.below(3) {
            0 => 1,
            1 => order.frames(),
            _ => 1 + random.below(order.frames()),
        };
        let request = match frames {
            1 => Request::FRAME,
            _ => Request::frames(frames),
        };
        let result = match random.below(8) {
            0 => self.system.allocate_nested(CpuId(cpu as u16), request),
            // The others park, so that none of them has to be asked in vain.
            _ => {
                for other in 0..self.cpus.len() {
                    if other != cpu && random.below(4) > 0 {
                        self.system.park(&mut self.cpus[other]);
                    }
                }
                let flags = match random.below(3) {
                    0 => crate::request::Flags::NO_WAIT,
                    _ => {
                        let other = |other: &usize| *other != cpu;
                        for other in (0..self.cpus.len()).filter(other) {
                            self.system.park(&mut self.cpus[other]);
                        }
                        crate::request::Flags::NONE
                    }
                };
                self.system
                    .allocate(&mut self.cpus[cpu], request.with_flags(flags))
            }
        };
        let covering = Order::covering(frames).unwrap();
        match result {
            Ok(start) => {
                assert!(start.is_aligned(covering));
                self.set(start.0, frames, Is::Free, Is::Allocated);
                self.held.push((start.0, frames));
            }
            Err(AllocateError::Exhausted) => assert!(!self.can_serve(covering), "{covering:?}"),
            Err(error) => assert_eq!(error, AllocateError::Busy),
        }
    }

    fn free(&mut self, random: &mut Random) {
        let index = random.below(self.held.len() as u32) as usize;
        let (start, frames) = self.held.swap_remove(index);
        let (from, length) = match random.below(2) {
            0 => (0, frames),
            _ => {
                let from = random.below(frames);
                (from, 1 + random.below(frames - from))
            }
        };
        let part = start + from;
        let release = match length {
            1 => Release::frame(Pfn(part)),
            _ => Release::frames(Pfn(part), length),
        };
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let freed = match random.below(4) {
            0 => self.system.free_nested(CpuId(cpu as u16), release),
            _ => self.system.free(&mut self.cpus[cpu], release),
        };
        assert_eq!(freed, Ok(()));
        self.set(part, length, Is::Allocated, Is::Free);
        let rest = frames - from - length;
        self.held.extend((from > 0).then_some((start, from)));
        self.held
            .extend((rest > 0).then_some((part + length, rest)));
    }

    /// A random run is freed, whatever it is.
    fn misuse(&mut self, random: &mut Random) {
        let start = random.below(self.model.len() as u32);
        let frames = 1 + random.below((self.model.len() as u32 - start).min(90));
        if self.all(start, frames, Is::Allocated) {
            return;
        }
        let first = self.model[start as usize..]
            .iter()
            .find(|is| **is != Is::Allocated);
        let expected = match first.unwrap() {
            Is::Hole => FreeError::Hole,
            Is::Reserved => FreeError::Reserved,
            _ => FreeError::NotAllocated,
        };
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let release = Release::frames(Pfn(start), frames);
        let refused = self.system.free(&mut self.cpus[cpu], release);
        assert_eq!(refused, Err(expected));
        let refused = self.system.free_nested(CpuId(cpu as u16), release);
        assert_eq!(refused, Err(expected));
    }

    fn range(&mut self, random: &mut Random) {
        let start = random.below(self.model.len() as u32);
        let frames = 1 + random.below((self.model.len() as u32 - start).min(200));
        let range = FrameRange::new(start.into(), frames.into());
        let (from, to) = match random.below(5) {
            0 => (Is::Free, Is::Allocated),
            1 => (Is::Free, Is::Hole),
            2 => (Is::Free, Is::Reserved),
            3 => (Is::Hole, Is::Free),
            _ => (Is::Reserved, Is::Free),
        };
        for other in 1..self.cpus.len() {
            self.system.park(&mut self.cpus[other]);
        }
        let (system, cpu) = (self.system, &mut self.cpus[0]);
        let result = match (from, to) {
            (_, Is::Allocated) => system.allocate_at(cpu, range).map(|_| ()),
            (_, Is::Hole) => system.remove(cpu, range),
            (_, Is::Reserved) => system.reserve(cpu, range),
            (Is::Hole, _) => system.add(cpu, range),
            _ => system.unreserve(cpu, range),
        };
        let first = (start..start + frames).find(|frame| self.model[*frame as usize] != from);
        let expected = first.map_or(Ok(()), |frame| {
            Err(match from {
                Is::Hole => RegionError::AlreadyManaged(Pfn(frame)),
                Is::Reserved => RegionError::NotReserved(Pfn(frame)),
                _ => RegionError::NotFree(Pfn(frame)),
            })
        });
        assert_eq!(result, expected);
        if result.is_ok() {
            self.set(start, frames, from, to);
            if to == Is::Allocated {
                self.held.push((start, frames));
            }
        }
    }

    fn state(&mut self, random: &mut Random) {
        let frame = random.below(self.model.len() as u32);
        let state = self.system.frame_state(Pfn(frame)).unwrap();
        let expected = match state {
            FrameState::Free { .. } => Is::Free,
            FrameState::Hole => Is::Hole,
            FrameState::Reserved => Is::Reserved,
            _ => Is::Allocated,
        };
        assert_eq!(self.model[frame as usize], expected);
    }
}

#[test]
fn random_operations_agree_with_a_naive_model() {
    let shapes = [
        ((64, 0), 1, (None, 6)),
        ((200, 3), 2, (None, 7)),
        ((1000, 70), 3, (Some(128), 8)),
        ((4096, 0), 2, (Some(4096), 10)),
        ((9000, 64), 2, (Some(1024), 11)),
    ];
    for (seed, (memory, cpus, tree)) in (0..).zip(shapes) {
        with_system(memory, cpus, tree, |system| {
            let set = NativeCpus::new(cpus);
            let frames = system.span().frames();
            let is = |frame: u32| match frame < memory.1 || frame >= memory.0 - memory.1 {
                true => Is::Hole,
                false => Is::Free,
            };
            let mut run = Checked {
                system,
                cpus: (0..cpus)
                    .map(|cpu| set.claim(CpuId(cpu)).unwrap())
                    .collect(),
                model: (0..frames).map(is).collect(),
                held: Vec::new(),
            };
            let mut random = Random(seed);
            for step in 0..6000 {
                let fill = if step % 1000 < 500 { 6 } else { 3 };
                match random.below(20) {
                    0 => run.range(&mut random),
                    1 => run.misuse(&mut random),
                    2 => run.state(&mut random),
                    3 => system.drain(&mut run.cpus[0]),
                    _ if random.below(10) < fill || run.held.is_empty() => {
                        run.allocate(&mut random);
                    }
                    _ => run.free(&mut random),
                }
                run.check();
            }
            while !run.held.is_empty() {
                run.free(&mut random);
            }
            for cpu in &mut run.cpus {
                system.park(cpu);
            }
            system.quiesce(&mut run.cpus[0]).unwrap();
            run.check();
            let snapshot = system.snapshot(&mut run.cpus[0]);
            let free = run.model.iter().filter(|is| **is == Is::Free).count();
            assert_eq!(snapshot.free_frames(), free as u64);
        });
    }
}
