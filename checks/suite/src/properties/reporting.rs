//! The properties of reporting: free memory is given back once, and a block that comes back can be given again.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everybuddy::platform::AtomicWord;
use everybuddy::{
    AllocateError, Block, CpuToken, FrameAllocator, FrameRange, Index, Order, Pfn, Platform,
    Progress, Release, Report, Reporting, Request, Setup, SystemSpec,
};

use spin::Mutex;

use super::is_as_new;
use crate::{Host, Random, Shadow, frames_of, order};

const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(8), 1024)];

/// The order of the blocks that are reported.
const SIZE: u8 = 2;

/// Returns words without marks for a system.
fn words<P: Platform>(system: &dyn FrameAllocator<P>) -> Vec<P::AtomicU64> {
    let words = Reporting::<P>::words(order(SIZE), system.span().frames());
    (0..words).map(|_| P::AtomicU64::new(0)).collect()
}

/// Reports in steps of `budget` until the end of memory, and returns the blocks.
fn report<P: Platform>(
    reporting: &Reporting<'_, P>,
    system: &dyn FrameAllocator<P>,
    cpu: &mut P::Cpu,
    budget: u32,
) -> Vec<Block> {
    let mut blocks = Vec::new();
    loop {
        let before = blocks.len();
        let progress = reporting.pass(system, cpu, budget, &mut |block| {
            blocks.push(block);
            Report::Given
        });
        assert!(blocks.len() - before <= budget as usize);
        if progress == Progress::Idle {
            return blocks;
        }
    }
}

/// Free blocks are reported once, in as few calls as their sizes allow, and again after a part of them was allocated.
/// No frame is in two hands, also while other CPUs work, and each allocation of what was reported is noticed.
pub fn free_blocks_are_reported_once<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    host.build(spec, &Setup::new(RANGES, 3), &mut |system| {
        let words = words(system);
        let reporting = Reporting::new(system, order(SIZE), &words).unwrap();
        host.run(1, |cpu| {
            one_cpu_reports(system, &reporting, cpu);
            system.park(cpu);
        });
        let world = World {
            shadow: Shadow::new(system.span().frames()),
            marked: (0..system.span().frames() >> SIZE)
                .map(|_| AtomicBool::new(true))
                .collect(),
            noticed: AtomicU32::new(0),
            expected: AtomicU32::new(0),
        };
        host.run(3, |cpu| {
            if cpu.id().0 == 0 {
                for _ in 0..4 {
                    reporting.pass(system, cpu, 300, &mut |block| world.report(block));
                }
            } else {
                let mut random = Random(u64::from(cpu.id().0));
                for _ in 0..60 {
                    let size = order(random.below(4) as u8);
                    if let Ok(start) = system.allocate(cpu, Request::order(size)) {
                        world.allocated(&reporting, start, size.frames());
                        let block = Block::new(start, size);
                        world.shadow.give(start, size.frames(), 1);
                        system.free(cpu, Release::block(block)).unwrap();
                    }
                }
            }
            system.park(cpu);
        });
        host.run(1, |cpu| {
            is_as_new(system, cpu, RANGES);
            let (noticed, expected) = (&world.noticed, &world.expected);
            assert_eq!(
                noticed.load(Ordering::Relaxed),
                expected.load(Ordering::Relaxed)
            );
            // What is reported now is exactly what was allocated since it was reported.
            for block in report(&reporting, system, cpu, 300) {
                for base in Block::cover(block.start, block.order.frames(), order(SIZE)) {
                    let marked = &world.marked[(base.start.0 >> SIZE) as usize];
                    assert!(!marked.swap(true, Ordering::Relaxed), "{base:?}");
                }
            }
            let mut marked = world.marked.iter();
            assert!(marked.all(|marked| marked.load(Ordering::Relaxed)));
            is_as_new(system, cpu, RANGES);
        });
    });
}

fn one_cpu_reports<P: Platform>(
    system: &dyn FrameAllocator<P>,
    reporting: &Reporting<'_, P>,
    cpu: &mut P::Cpu,
) {
    // What a monitor refuses stays unreported.
    let refused = Mutex::new(Vec::new());
    let progress = reporting.pass(system, cpu, u32::MAX, &mut |block| {
        refused.lock().push(block);
        Report::Refused
    });
    assert_eq!((refused.lock().len(), progress), (1, Progress::More));
    // The other blocks, and then the one that was refused, which a list may have cached.
    let mut blocks = report(reporting, system, cpu, 7);
    system.quiesce(cpu).unwrap();
    blocks.extend(report(reporting, system, cpu, 7));
    let frames: u64 = blocks
        .iter()
        .map(|block| u64::from(block.order.frames()))
        .sum();
    assert_eq!(frames, frames_of(RANGES));
    blocks.sort_by_key(|block| block.start);
    let follows = |pair: &[Block]| pair[0].start.0 + pair[0].order.frames() == pair[1].start.0;
    assert!(blocks.windows(2).all(follows), "no frame is reported twice");
    assert!(blocks.iter().all(|block| block.order >= order(SIZE)));
    is_as_new(system, cpu, RANGES);
    assert_eq!(report(reporting, system, cpu, u32::MAX), []);
    // A frame that lists or trees held before it was allocated clears only the mark of its block.
    let frame = reporting.allocate(system, cpu, Request::FRAME).unwrap();
    assert_eq!(reporting.allocated(frame, 1), 0, "it was recorded");
    system.free(cpu, Release::frame(frame)).unwrap();
    is_as_new(system, cpu, RANGES);
    let whole = Block::new(Index(frame.0 >> SIZE << SIZE), order(SIZE));
    assert_eq!(report(reporting, system, cpu, u32::MAX), [whole]);
    let too_large = Request::frames(Order::LIMIT.frames() + 1);
    let refused = reporting.allocate(system, cpu, too_large);
    assert!(matches!(refused, Err(AllocateError::TooLarge { .. })));
    is_as_new(system, cpu, RANGES);
}

/// What the monitor and the holders of frames know.
struct World {
    /// The monitor is owner 0 of what it is called with, and holders are owner 1.
    shadow: Shadow,
    /// Which blocks were reported since one of their frames was allocated.
    marked: Vec<AtomicBool>,
    /// Marks that allocations found, and those that they should have found.
    noticed: AtomicU32,
    expected: AtomicU32,
}

impl World {
    fn report(&self, block: Block) -> Report {
        let frames = block.order.frames();
        self.shadow.take(block.start, frames, 0);
        for base in Block::cover(block.start, frames, order(SIZE)) {
            let marked = &self.marked[(base.start.0 >> SIZE) as usize];
            assert!(
                !marked.swap(true, Ordering::Relaxed),
                "{base:?} was reported"
            );
        }
        self.shadow.give(block.start, frames, 0);
        Report::Given
    }

    fn allocated<P: Platform>(&self, reporting: &Reporting<'_, P>, start: Index, frames: u32) {
        self.shadow.take(start, frames, 1);
        let blocks = start.0 >> SIZE..=(start.0 + frames - 1) >> SIZE;
        let swap = |block: &u32| self.marked[*block as usize].swap(false, Ordering::Relaxed);
        let expected = blocks.filter(swap).count() as u32;
        self.expected.fetch_add(expected, Ordering::Relaxed);
        let noticed = reporting.allocated(start, frames);
        self.noticed.fetch_add(noticed, Ordering::Relaxed);
    }
}
