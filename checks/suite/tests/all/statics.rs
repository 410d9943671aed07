//! Systems of different types are kept in statics, and used from several threads.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use everybuddy::prelude::*;
use everybuddy::systems::{Lbs, Spring, SpringBuddy};

const FRAMES: u32 = 1 << 13;
const THREADS: u16 = 4;

static LINUX: OnceLock<&'static Lbs<'static, Native>> = OnceLock::new();
static SPRING: OnceLock<&'static SpringBuddy<'static, Native>> = OnceLock::new();
static CPUS: NativeCpus = NativeCpus::new(THREADS);

/// Whether each frame of both systems is allocated, as the threads know it.
static ALLOCATED: [[AtomicBool; FRAMES as usize]; 2] =
    [const { [const { AtomicBool::new(false) }; FRAMES as usize] }; 2];

fn build_static<S: System>(first: u64) -> &'static S::Built<'static, Native> {
    let ranges = [FrameRange::new(Pfn(first), u64::from(FRAMES))];
    let setup = Setup::new(&ranges, THREADS);
    let layout = layout::<S, Native>(&Options::NONE, &setup).unwrap();
    let memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
    build::<S, Native>(&Options::NONE, &setup, Memory::new(memory.leak())).unwrap()
}

/// Allocates and frees blocks of orders 0 to 3, and checks that no frame is allocated twice.
fn work<A: FrameAllocator<Native>>(
    system: &A,
    allocated: &[AtomicBool],
    cpu: &mut <Native as Platform>::Cpu,
    seed: u32,
) {
    let mark = |block: Block, from: bool| {
        for frame in &allocated[block.start.as_usize()..][..block.order.frames() as usize] {
            // Relaxed: a frame that two threads have simultaneously is seen by one of the two exchanges.
            assert_eq!(frame.swap(!from, Ordering::Relaxed), from, "{block:?}");
        }
    };
    let mut blocks = Vec::new();
    for step in 0..20_000_u32 {
        let random = (step ^ seed).wrapping_mul(0x9e37_79b9) >> 16;
        if blocks.len() < 100 || random.is_multiple_of(2) {
            let order = Order::new((random % 32).min(3) as u8).unwrap();
            if let Ok(start) = system.allocate(cpu, Request::order(order)) {
                let block = Block::new(start, order);
                mark(block, false);
                blocks.push(block);
            }
        } else {
            let block = blocks.swap_remove(random as usize % blocks.len());
            mark(block, true);
            system.free(cpu, Release::block(block)).unwrap();
        }
    }
    for block in blocks {
        mark(block, true);
        system.free(cpu, Release::block(block)).unwrap();
    }
    system.park(cpu);
}

fn all_is_free<A: FrameAllocator<Native>>(system: &A) {
    let mut cpu = CPUS.claim(CpuId(0)).expect("all threads have ended");
    system.quiesce(&mut cpu).expect("all CPUs are parked");
    let census = system.check(&mut cpu).expect("every invariant holds");
    assert_eq!(census.free, u64::from(FRAMES));
    CPUS.release(cpu);
}

#[test]
fn two_systems_in_statics_serve_several_threads() {
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                let mut cpu = CPUS.claim(CpuId(number)).expect("one thread per CPU");
                // The first thread builds. Both ranges start at a largest block, so frame numbers start at zero.
                let linux = *LINUX.get_or_init(|| build_static::<Lbs31>(0x400));
                let spring = *SPRING.get_or_init(|| build_static::<Spring>(1 << 20));
                let seed = u32::from(number) << 20;
                work(linux, &ALLOCATED[0], &mut cpu, seed);
                work(spring, &ALLOCATED[1], &mut cpu, seed);
                CPUS.release(cpu);
            });
        }
    });
    all_is_free(*LINUX.get().expect("the threads built it"));
    all_is_free(*SPRING.get().expect("the threads built it"));
}
