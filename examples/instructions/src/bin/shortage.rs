//! Replaces blocks in memory that was full, for an instruction counter.
//!
//! 1 GiB is filled to 99.9 % with blocks of 1 to 16 frames, all sizes equally often, and emptied at random to a level.
//! Then random blocks are freed, and others allocated. The program prints a line for each level after the first 2,000
//! pairs of a free and an allocation: the level in tenths of a percent, the pairs, and the requests of each order that
//! were refused. `ci/seam.sh` runs it under callgrind, which counts only inside the module `measured`.
//!
//! Arguments are levels; without any, 700, 800, 900, 980 and 990.

use std::hint::black_box;
use std::mem::MaybeUninit;

use everybuddy::System as _;
use everybuddy::prelude::*;
use everybuddy_example_instructions::Random;

type Cpu = <Native as Platform>::Cpu;
type System<'m> = <Everybuddy as everybuddy::systems::System>::Built<'m, Native>;

const FRAMES: u32 = 1 << 18;
const FULL: u32 = 999;
const ORDERS: usize = 5;
/// The pairs after which a shortage must be over.
const FIRST: usize = 2_000;
const PAIRS: usize = 20_000;

/// The functions inside which instructions are counted.
mod measured {
    use super::*;

    #[inline(never)]
    pub(super) fn allocate(system: &System<'_>, cpu: &mut Cpu, order: Order) -> Option<Index> {
        system.allocate(cpu, Request::order(order)).ok()
    }

    #[inline(never)]
    pub(super) fn free(system: &System<'_>, cpu: &mut Cpu, block: Block) -> bool {
        system.free(cpu, Release::block(block)).is_ok()
    }
}

/// Callgrind writes down what it counted so far, and starts anew.
#[inline(never)]
fn finish(pairs: usize) -> usize {
    black_box(pairs)
}

/// Callgrind forgets what it counted so far.
#[inline(never)]
fn discard(reason: &str) -> usize {
    black_box(reason).len()
}

struct Run<'m> {
    system: &'m System<'m>,
    cpu: Cpu,
    held: Vec<Block>,
    used: u32,
    random: Random,
    refused: [u32; ORDERS],
}

impl Run<'_> {
    fn is_above(&self, level: u32) -> bool {
        u64::from(self.used) * 1000 >= u64::from(FRAMES) * u64::from(level)
    }

    fn allocate(&mut self) {
        let size = self.random.below(ORDERS);
        let order = Order::new(size as u8).expect("a small order");
        match measured::allocate(self.system, &mut self.cpu, order) {
            Some(start) => {
                self.held.push(Block::new(start, order));
                self.used += order.frames();
            }
            None => self.refused[size] += 1,
        }
    }

    fn empty_to(&mut self, level: u32) {
        while self.is_above(level) {
            let index = self.random.below(self.held.len());
            let block = self.held.swap_remove(index);
            self.used -= block.order.frames();
            assert!(measured::free(self.system, &mut self.cpu, block));
        }
    }

    fn replace(&mut self, level: u32, pairs: usize) {
        self.refused = [0; ORDERS];
        for _ in 0..pairs {
            self.empty_to(level);
            self.allocate();
        }
    }
}

fn main() {
    let chosen = std::env::args().skip(1);
    let mut levels: Vec<u32> = chosen.filter_map(|level| level.parse().ok()).collect();
    if levels.is_empty() {
        levels = vec![700, 800, 900, 980, 990];
    }
    for level in levels {
        let ranges = [FrameRange::new(Pfn(0), FRAMES.into())];
        let setup = Setup::new(&ranges, 1);
        let mut memory = vec![MaybeUninit::uninit(); 4 << 20];
        let system = Everybuddy::build(&setup, &mut memory[..]);
        let mut run = Run {
            system: system.expect("4 MiB suffice"),
            cpu: NativeCpus::new(1)
                .claim(CpuId(0))
                .expect("no other thread has it"),
            held: Vec::new(),
            used: 0,
            random: Random(1),
            refused: [0; ORDERS],
        };
        while !run.is_above(FULL) {
            run.allocate();
        }
        run.empty_to(level);
        run.replace(level, FIRST);
        discard("the shortage may still last");
        run.replace(level, PAIRS);
        println!("{level}\t{PAIRS}\t{:?}", run.refused);
        finish(PAIRS);
    }
}
