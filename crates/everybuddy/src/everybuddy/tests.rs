//! The system against a naive model.

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::local::List;
use super::*;
use crate::arena::Memory;
use crate::bit_runs::WORD;
use crate::frame::Pfn;
use crate::platform::{Native, NativeCpu, NativeCpus, SharedCell as _};
use crate::probe::NoProbe;
use crate::request::Class;
use crate::testing::{Random, order};

mod aged;
mod asked;
mod bulk;
mod claimed;
mod details;
mod fitting;
mod fragments;
mod heads;
mod judged;
mod kept;
mod kinds;
mod listed;
mod owned;
mod reads;
mod refused;
mod relief;
mod searches;
mod twice;

/// What a naive model knows of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Free,
    Allocated,
    Hole,
    Reserved,
}

type Trees<'m> = OwnedTrees<'m, Native>;
type Cpu = NativeCpu<NoProbe>;

const EXHAUSTED: Result<Index, AllocateError> = Err(AllocateError::Exhausted);
const BUSY: Result<Index, AllocateError> = Err(AllocateError::Busy);

/// The frames of a tree of [`with_two_cpus`].
const TREE_OF_TWO: u32 = 128;

/// Calls `body` with four trees and two CPUs.
fn with_two_cpus(body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    let tree = TREE_OF_TWO;
    with_cpus((4 * tree, 0), (Some(tree), 8), |system, [zero, one]| {
        body(system, zero, one)
    });
}

/// Does the same as [`with_system`], and passes the tokens of the CPUs.
fn with_cpus<const CPUS: usize>(
    memory: (u32, u32),
    tree: (Option<u32>, u8),
    body: impl FnOnce(&Trees<'_>, [&mut Cpu; CPUS]),
) {
    with_system(memory, CPUS as u16, tree, |system| {
        let set = NativeCpus::new(CPUS as u16);
        let mut cpus = core::array::from_fn(|cpu| set.claim(CpuId(cpu as u16)).unwrap());
        body(system, cpus.each_mut());
    });
}

/// Allocates single frames.
fn allocate_frames(system: &Trees<'_>, cpu: &mut Cpu, frames: u32) {
    for _ in 0..frames {
        system.allocate(cpu, Request::FRAME).unwrap();
    }
}

/// Calls `body` with a system of `frames` frames, of which the first `holes` and the last `holes` are holes.
fn with_system(
    memory: (u32, u32),
    cpus: u16,
    tree: (Option<u32>, u8),
    body: impl FnOnce(&Trees<'_>),
) {
    with_system_on(memory, cpus, tree, body);
}

/// Does the same on any platform.
fn with_system_on<P: Platform>(
    (frames, holes): (u32, u32),
    cpus: u16,
    (tree, max_order): (Option<u32>, u8),
    body: impl FnOnce(&OwnedTrees<'_, P>),
) {
    let ranges = [FrameRange::new(Pfn(0), frames.into())];
    let max_order = Order::new(max_order).unwrap();
    let geometry = Geometry {
        span: Span::covering(&ranges, max_order).unwrap(),
        cpus,
        max_order,
        tree,
    };
    let bytes = OwnedTrees::<P>::plan(&geometry).bytes().unwrap();
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
    cpus: Vec<Cpu>,
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

    /// Returns `true` if a run is free where a block that covers it could start.
    fn can_serve(&self, frames: u32) -> bool {
        let covering = Order::covering(frames).unwrap();
        self.model
            .chunks(covering.frames() as usize)
            .filter_map(|block| block.get(..frames as usize))
            .any(|run| run.iter().all(|is| *is == Is::Free))
    }

    fn check(&mut self) {
        let census = self.system.check(&mut self.cpus[0]).unwrap();
        let count = |is| self.model.iter().filter(|own| **own == is).count() as u64;
        assert_eq!(census.free + census.buffered, count(Is::Free));
        assert_eq!(census.allocated, count(Is::Allocated));
        assert_eq!(census.holes, count(Is::Hole));
        assert_eq!(census.reserved, count(Is::Reserved));
    }

    fn allocate(&mut self, random: &mut Random) {
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let largest = u32::from(self.system.max_order().get()) + 1;
        let order = Order::new(random.below(largest) as u8).unwrap();
        let kind = random.below(3);
        let frames = match kind {
            0 => 1,
            1 => order.frames(),
            _ => 1 + random.below(order.frames()),
        };
        let request = match (kind, frames) {
            (0, _) | (_, 1) => Request::FRAME,
            (1, _) => Request::order(order),
            _ => Request::frames(frames),
        };
        let request = request.with_class(Class::ALL[random.below(4) as usize]);
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
                let (cpu, request) = (&mut self.cpus[cpu], request.with_flags(flags));
                self.system.allocate(cpu, request)
            }
        };
        self.allocated(frames, result);
    }

    /// A request that may not wait.
    fn allocate_now(&mut self, random: &mut Random) {
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let frames = match random.below(4) {
            0 => 1 + random.below(20),
            _ => 1,
        };
        let request = match frames {
            1 => Request::FRAME,
            _ => Request::frames(frames),
        };
        let flags = Flags::NO_WAIT.with_class(Class::ALL[random.below(4) as usize]);
        let request = request.with_flags(flags);
        let result = match random.below(20) {
            0 => self.system.allocate_nested(CpuId(cpu as u16), request),
            _ => self.system.allocate(&mut self.cpus[cpu], request),
        };
        self.allocated(frames, result);
    }

    fn allocated(&mut self, frames: u32, result: Result<Index, AllocateError>) {
        let covering = Order::covering(frames).unwrap();
        match result {
            Ok(start) => {
                assert!(start.is_aligned(covering));
                self.set(start.0, frames, Is::Free, Is::Allocated);
                self.held.push((start.0, frames));
            }
            Err(AllocateError::Exhausted) => assert!(!self.can_serve(frames), "{frames} frames"),
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
            1 => Release::frame(Index(part)),
            _ => Release::frames(Index(part), length),
        };
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let how = random.below(4);
        let mut free = |release| match how {
            0 => self.system.free_nested(CpuId(cpu as u16), release),
            _ => self.system.free(&mut self.cpus[cpu], release),
        };
        let freed = match free(release) {
            // A part that is one frame is not a frame that was allocated as such.
            Err(FreeError::WrongOrder { .. } | FreeError::InsideBlock { .. })
                if length == 1 && frames > 1 =>
            {
                free(Release::frames(Index(part), 1))
            }
            freed => freed,
        };
        assert_eq!(freed, Ok(()));
        self.set(part, length, Is::Allocated, Is::Free);
        let rest = frames - from - length;
        self.held.extend((from > 0).then_some((start, from)));
        self.held
            .extend((rest > 0).then_some((part + length, rest)));
    }

    /// Frees a random run, whatever its state. Half of the runs are whole words.
    fn misuse(&mut self, random: &mut Random) {
        let all = self.model.len() as u32;
        let (start, frames) = match random.below(2) {
            0 if all >= WORD => {
                let start = random.below(all / WORD) * WORD;
                (start, WORD * (1 + random.below((all - start) / WORD)))
            }
            _ => {
                let start = random.below(all);
                (start, 1 + random.below((all - start).min(90)))
            }
        };
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
        let release = Release::frames(Index(start), frames);
        let refused = self.system.free(&mut self.cpus[cpu], release);
        assert_eq!(refused, Err(expected));
        let refused = self.system.free_nested(CpuId(cpu as u16), release);
        assert_eq!(refused, Err(expected));
    }

    fn range(&mut self, random: &mut Random) {
        let start = random.below(self.model.len() as u32);
        let frames = 1 + random.below((self.model.len() as u32 - start).min(200));
        let range = FrameRange::new(Pfn(start.into()), frames.into());
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
            let frame = Pfn(u64::from(frame));
            Err(match from {
                Is::Hole => RegionError::AlreadyManaged(frame),
                Is::Reserved => RegionError::NotReserved(frame),
                _ => RegionError::NotFree(frame),
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
        let state = self.system.frame_state(Index(frame)).unwrap();
        let expected = match state {
            FrameState::Free { .. } | FrameState::Buffered { .. } => Is::Free,
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
        // Four windows of a group each; the last group has fewer trees.
        ((12_800, 0), 25, (Some(64), 7)),
    ];
    for (seed, (memory, cpus, tree)) in (0..).zip(shapes) {
        with_system(memory, cpus, tree, |system| {
            let set = NativeCpus::new(cpus);
            let frames = system.span().frames();
            let is = |frame: u32| {
                if frame < memory.1 || frame >= memory.0 - memory.1 {
                    Is::Hole
                } else {
                    Is::Free
                }
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
                    4 => run.allocate_bulk(&mut random),
                    5 => run.free_bulk(&mut random),
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

/// Frees frames as a CPU does whose list takes none.
fn free_into_tree(system: &Trees<'_>, cpu: &mut Cpu, start: u32, frames: u32) {
    let local = system.local(cpu.id()).unwrap();
    let freed = system.free_part(cpu, local, Index(start), Size::Frames(Frames(frames)));
    freed.unwrap();
}

/// Returns a CPU's list of single frames.
fn singles<'s, 'm>(system: &'s Trees<'m>, cpu: usize, kind: Kind) -> &'s List<'m, Native> {
    system.locals[cpu].list(Order::ZERO, kind).unwrap()
}

/// Calls `body` with a system of one tree that CPU 0 owns, and its token.
fn with_own_tree(body: impl FnOnce(&Trees<'_>, &mut Cpu)) {
    with_cpus((4096, 0), (Some(4096), 10), |system, [cpu]| {
        let frame = system.allocate(cpu, Request::FRAME).unwrap();
        system.free(cpu, Release::frame(frame)).unwrap();
        body(system, cpu);
        system.check(cpu).unwrap();
    });
}

#[test]
fn a_block_of_several_words_is_not_freed_if_another_cpu_freed_a_frame_of_it() {
    with_own_tree(|system, cpu| {
        let nine = order(9);
        let start = system.allocate(cpu, Request::order(nine)).unwrap();
        let middle = Index(start.0 + 100);
        system
            .free_nested(CpuId(0), Release::frames(middle, 1))
            .unwrap();
        let block = Release::block(crate::Block::new(start, nine));
        let allocated = order(6);
        let refused = Err(FreeError::WrongOrder { allocated });
        assert_eq!(system.free(cpu, block), refused);
        let again = system.free_nested(CpuId(0), Release::frames(middle, 1));
        assert_eq!(again, Err(FreeError::NotAllocated));
        let census = system.check(cpu).unwrap();
        let free = census.free + census.buffered;
        assert_eq!((census.allocated, free), (511, 4096 - 511));
        for (start, frames) in [(start, 100), (Index(start.0 + 101), 411)] {
            system.free(cpu, Release::frames(start, frames)).unwrap();
        }
        assert_eq!(system.check(cpu).unwrap().allocated, 0);
    });
}

#[test]
fn a_free_frame_above_the_first_fit_point_waits_for_its_turn() {
    with_own_tree(|system, cpu| {
        let frames = [(); 6].map(|()| system.allocate(cpu, Request::FRAME).unwrap());
        assert_eq!(frames.map(|frame| frame.0), [0, 1, 2, 3, 4, 5]);
        // Below the point, the frame that was freed last comes first.
        for frame in [1, 3] {
            system.free(cpu, Release::frame(Index(frame))).unwrap();
        }
        for expected in [3, 1, 6] {
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(expected)));
        }
        // The list has the rest of the word. A block above it is freed frame by frame: none of them enters the list.
        let order = order(3);
        let block = system.allocate(cpu, Request::order(order)).unwrap();
        assert_eq!(block, Index(WORD));
        for frame in WORD..WORD + 8 {
            system.free(cpu, Release::frames(Index(frame), 1)).unwrap();
        }
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(7)));
    });
}

#[test]
fn each_frame_of_a_word_is_a_hole_or_reserved_by_itself() {
    with_cpus((128, 0), (Some(64), 6), |system, [cpu]| {
        let range = |from, frames| FrameRange::new(Pfn(from), frames);
        system.remove(cpu, range(60, 8)).unwrap();
        system.reserve(cpu, range(3, 2)).unwrap();
        let census = system.check(cpu).unwrap();
        assert_eq!((census.holes, census.reserved), (8, 2));
        for (frame, error) in [(3, FreeError::Reserved), (60, FreeError::Hole)] {
            let freed = system.free(cpu, Release::frame(Index(frame)));
            assert_eq!(freed, Err(error));
            let nested = system.free_nested(CpuId(0), Release::frame(Index(frame)));
            assert_eq!(nested, Err(error));
        }
        let wrong = system.unreserve(cpu, range(4, 2));
        assert_eq!(wrong, Err(RegionError::NotReserved(Pfn(5))));
        let wrong = system.add(cpu, range(4, 1));
        assert_eq!(wrong, Err(RegionError::AlreadyManaged(Pfn(4))));
        assert_eq!(system.check(cpu).unwrap(), census);
        system.unreserve(cpu, range(3, 2)).unwrap();
        system.add(cpu, range(60, 8)).unwrap();
        assert_eq!(system.check(cpu).unwrap().free, 128);
        system
            .allocate(cpu, Request::order(Order::new(6).unwrap()))
            .unwrap();
    });
}

#[test]
fn trees_are_smaller_where_memory_is_small_for_the_cpus() {
    let geometry = |frames: u64, cpus| Geometry {
        span: Span::covering(&[FrameRange::new(Pfn(0), frames)], Order::TEN).unwrap(),
        cpus,
        max_order: Order::TEN,
        tree: None,
    };
    let sizes = |frames, cpus| {
        let of = geometry(frames, cpus).dimensions();
        (of.tree(), of.trees(), of.owned())
    };
    assert_eq!(sizes(1 << 24, 64), (4096, 4096, 60));
    assert_eq!(sizes(1 << 18, 2), (4096, 64, 30));
    assert_eq!(sizes(1 << 16, 8), (1024, 64, 7));
    assert_eq!(sizes(100, 4), (64, 2, 2));
}

/// Memory that ends with the run, in a tree and over several.
#[test]
fn a_run_needs_no_more_than_its_frames() {
    for (tree, frames) in [
        (4096, 65),
        (4096, 127),
        (4096, 700),
        (256, 300),
        (64, 65),
        (128, 1000),
    ] {
        with_cpus((frames, 0), (Some(tree), 10), |system, [cpu]| {
            for request in [
                Request::frames(frames),
                Request::frames(frames).with_flags(Flags::NO_WAIT),
            ] {
                assert_eq!(
                    system.allocate(cpu, request),
                    Ok(Index(0)),
                    "{frames} in {tree}"
                );
                assert_eq!(system.allocate(cpu, Request::FRAME), EXHAUSTED);
                system.check(cpu).unwrap();
                system.free(cpu, Release::frames(Index(0), frames)).unwrap();
            }
            let nested = system.allocate_nested(CpuId(0), Request::frames(frames));
            assert!(matches!(nested, Ok(Index(0)) | Err(AllocateError::Busy)));
        });
    }
}

#[test]
fn a_free_far_beyond_the_span_is_foreign() {
    with_cpus((4096, 0), (Some(4096), 10), |system, [cpu]| {
        for order in (0..=10).map(order) {
            for start in [4096, 4097, u32::MAX - 1, u32::MAX].map(Index) {
                let block = Release::block(crate::Block { start, order });
                assert_eq!(system.free(cpu, block), Err(FreeError::Foreign));
                assert_eq!(system.free_nested(CpuId(0), block), Err(FreeError::Foreign));
            }
        }
        for frames in [2, u32::MAX] {
            let run = Release::frames(Index(4095), frames);
            assert_eq!(system.free(cpu, run), Err(FreeError::Foreign));
        }
    });
}

#[test]
fn a_block_of_absent_words_is_not_freed() {
    with_own_tree(|system, cpu| {
        let absent = FrameRange::new(Pfn(256), 128);
        system.reserve(cpu, absent).unwrap();
        let frame = system.allocate(cpu, Request::FRAME).unwrap();
        let block = Release::frames(Index(256), 128);
        assert_eq!(system.free(cpu, block), Err(FreeError::Reserved));
        assert_eq!(system.check(cpu).unwrap().reserved, 128);
        system.free(cpu, Release::frame(frame)).unwrap();
        system.unreserve(cpu, absent).unwrap();
    });
}

#[test]
fn a_tree_with_returned_frames_is_not_taken_for_a_whole_one() {
    with_cpus((256, 0), (Some(64), 7), |system, [cpu]| {
        // The first tree is whole, and the second one has an allocated and a returned frame.
        let held = FrameRange::new(Pfn(70), 2);
        assert_eq!(system.allocate_at(cpu, held), Ok(Index(70)));
        let returned = Release::frames(Index(71), 1);
        system.free_nested(CpuId(0), returned).unwrap();
        let order = order(7);
        let block = system.allocate(cpu, Request::order(order));
        assert_eq!(block, Ok(Index(128)));
        assert_eq!(system.check(cpu).unwrap().allocated, 129);
    });
}

#[test]
fn a_tree_that_is_kept_after_frees_is_not_passed_over() {
    with_system((256, 0), 2, (Some(64), 6), |system| {
        let set = NativeCpus::new(2);
        let mut cpus: Vec<Cpu> = (0..2).map(|id| set.claim(CpuId(id)).unwrap()).collect();
        let [first, second] = &mut cpus[..] else {
            panic!("two CPUs")
        };
        let frames: Vec<Index> = (0..256)
            .map(|_| system.allocate(first, Request::FRAME).unwrap())
            .collect();
        system.drain(first);
        // The second CPU has freed three times into the last tree when that is spent again.
        for frame in [192, 194, 196] {
            system.locals[1].pending.set(local::NO_WORD);
            system.free(second, Release::frame(Index(frame))).unwrap();
        }
        allocate_frames(system, first, 3);
        system.drain(first);
        system.free(second, Release::frames(Index(200), 2)).unwrap();
        let pair = Request::order(order(1));
        let tried = system.allocate(
            first,
            Request {
                flags: crate::Flags::NO_WAIT,
                ..pair
            },
        );
        assert_eq!(tried, BUSY, "the other CPU keeps it");
        system.park(second);
        assert_eq!(system.allocate(first, pair), Ok(Index(200)));
        assert_eq!(frames.len(), 256);
    });
}
