//! Loads of `everybuddy`, for an instruction counter.
//!
//! Memory has 1 GiB, except in `silent`. Each argument is a load; each runs in a system of its own. The program prints
//! a line for each: the load, the pairs of an allocation and a free, the requests that were refused, by order, the
//! blocks of 2 MiB that are free at the end, when all lists are empty, and the frames out of reach, in tenths of a
//! percent of memory. `ci/seam.sh` and `ci/mechanisms.sh` run it under callgrind, which counts only inside the module
//! `measured`.
//!
//! | load | calls |
//! |---|---|
//! | `relief:LEVEL` | blocks of 1 to 16 frames, all equally often, filled memory, which was emptied to the level |
//! | `steady:LEVEL` | memory is filled to the level; of 1,000 blocks, 984 are frames, and the others have 2 to 16 |
//! | `aged:LEVEL` | the same mixture, emptied from 90 % to the level; a million pairs |
//! | `hot:ORDER` | a block is allocated and freed |
//! | `burst:ORDER` | 8,192 blocks, or half of memory, are allocated, and freed at random |
//! | `exit:ORDER` | the same, freed in order |
//! | `handover:ORDER` | a CPU allocates 512 blocks, and another one frees them in order |
//! | `full:ORDER` | memory is full of the mixture of `steady`; eight requests that are refused, and then a pair |
//! | `silent:MIB` | CPUs fill half of such memory in turn, and free all in order; then one allocates until it fails |
//!
//! A level is the memory in use, in tenths of a percent; there, random blocks are freed, and others allocated. The
//! first 2,000 pairs are not counted. `LOAD/CPUS` builds the system for several CPUs, of which one calls; `LOAD*CPUS`
//! lets all call in turn, 64 times each. A CPU that is asked then answers in its turn only, so requests that ask others
//! wait in vain. In `silent`, this is what is measured: the others keep lists and trees, and call no more.

use std::hint::black_box;
use std::mem::MaybeUninit;

use everybuddy::System as _;
use everybuddy::prelude::*;
use everybuddy_example_instructions::Random;

type Cpu = <Native as Platform>::Cpu;
type System<'m> = <Everybuddy as everybuddy::systems::System>::Built<'m, Native>;

const FRAMES: u32 = 1 << 18;
const ORDERS: usize = 5;
/// The calls of a CPU in turn.
const TURN: usize = 64;

/// The functions inside which instructions are counted.
mod measured {
    use super::*;

    #[inline(never)]
    pub(super) fn allocate(system: &System<'_>, cpu: &mut Cpu, order: Order) -> Option<Index> {
        system.allocate(cpu, Request::order(order)).ok()
    }

    #[inline(never)]
    pub(super) fn allocate_bulk(
        system: &System<'_>,
        cpu: &mut Cpu,
        order: Order,
        out: &mut [Index],
    ) -> usize {
        system
            .allocate_bulk(cpu, Request::order(order), out)
            .unwrap_or(0)
    }

    #[inline(never)]
    pub(super) fn free_bulk(system: &System<'_>, cpu: &mut Cpu, releases: &[Release]) -> bool {
        system.free_bulk(cpu, releases).is_ok()
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

fn order(number: usize) -> Order {
    Order::new(number as u8).expect("a small order")
}

struct Run<'m> {
    system: &'m System<'m>,
    cpus: Vec<Cpu>,
    calls: usize,
    held: Vec<Block>,
    used: u32,
    random: Random,
    /// Whether most blocks are frames.
    is_mostly_single: bool,
    refused: [u32; ORDERS],
    /// Frames of the memory.
    frames: u32,
    out_of_reach: u32,
}

impl Run<'_> {
    fn is_above(&self, level: u32) -> bool {
        u64::from(self.used) * 1000 >= u64::from(self.frames) * u64::from(level)
    }

    fn cpu(&mut self) -> usize {
        self.calls += 1;
        self.calls / TURN % self.cpus.len()
    }

    fn allocate(&mut self) {
        let size = match self.is_mostly_single {
            false => self.random.below(ORDERS),
            true if self.random.below(1000) < 984 => 0,
            true => 1 + self.random.below(ORDERS - 1),
        };
        let cpu = self.cpu();
        match measured::allocate(self.system, &mut self.cpus[cpu], order(size)) {
            Some(start) => {
                self.held.push(Block::new(start, order(size)));
                self.used += order(size).frames();
            }
            None => self.refused[size] += 1,
        }
    }

    fn fill_to(&mut self, level: u32) {
        while !self.is_above(level) {
            self.allocate();
        }
    }

    fn empty_to(&mut self, level: u32) {
        while self.is_above(level) {
            let index = self.random.below(self.held.len());
            let block = self.held.swap_remove(index);
            self.used -= block.order.frames();
            let cpu = self.cpu();
            assert!(measured::free(self.system, &mut self.cpus[cpu], block));
        }
    }

    fn replace(&mut self, level: u32, pairs: usize) -> usize {
        self.refused = [0; ORDERS];
        for _ in 0..pairs {
            self.empty_to(level);
            self.allocate();
        }
        pairs
    }

    /// A block that is freed before the next one is allocated.
    fn hot(&mut self, size: usize) -> usize {
        let pairs = 65_536;
        for pair in 0..2 * pairs {
            if pair == pairs {
                discard("the first pairs take a tree");
            }
            let cpu = &mut self.cpus[0];
            let start = measured::allocate(self.system, cpu, order(size)).expect("all is free");
            let block = Block::new(start, order(size));
            assert!(measured::free(self.system, cpu, block));
        }
        pairs
    }

    /// Some blocks, allocated by the first CPU and freed by the last one.
    fn bursts(&mut self, size: usize, most: usize, is_random: bool) -> usize {
        let blocks = most.min(FRAMES as usize >> (size + 1));
        let rounds = (65_536 / blocks).max(2);
        for round in 0..=rounds {
            if round == 1 {
                discard("the first round takes trees");
            }
            for _ in 0..blocks {
                let cpu = &mut self.cpus[0];
                let start =
                    measured::allocate(self.system, cpu, order(size)).expect("half is free");
                self.held.push(Block::new(start, order(size)));
            }
            if !is_random {
                self.held.reverse();
            }
            while !self.held.is_empty() {
                let index = self.random.below(self.held.len());
                let block = if is_random {
                    self.held.swap_remove(index)
                } else {
                    self.held.swap_remove(self.held.len() - 1)
                };
                let cpu = self.cpus.last_mut().expect("a CPU");
                assert!(measured::free(self.system, cpu, block));
            }
        }
        rounds * blocks
    }

    /// Bulk calls of 512 blocks, up to 8,192, which are freed in order or at random.
    fn bulks(&mut self, size: usize, is_random: bool) -> usize {
        let blocks = 8_192.min(FRAMES as usize >> (size + 1));
        let rounds = (65_536 / blocks).max(4);
        for round in 0..=rounds {
            if round == 1 {
                discard("the first round takes trees");
            }
            let mut all = vec![Index(0); blocks];
            for out in all.chunks_mut(512) {
                let given =
                    measured::allocate_bulk(self.system, &mut self.cpus[0], order(size), out);
                assert_eq!(given, out.len());
            }
            if is_random {
                for at in (1..all.len()).rev() {
                    let other = self.random.below(at + 1);
                    all.swap(at, other);
                }
            }
            let free = |start: &Index| Release::block(Block::new(*start, order(size)));
            let releases: Vec<Release> = all.iter().map(free).collect();
            let cpu = self.cpus.last_mut().expect("a CPU");
            for some in releases.chunks(512) {
                assert!(measured::free_bulk(self.system, cpu, some));
            }
        }
        rounds * blocks
    }

    /// Processes that allocate frames in turn, `batch` at a time, and exit one after the other.
    fn storm(&mut self, processes: usize, batch: usize) -> usize {
        let each = 1024;
        let rounds = 65_536 / (each * processes) + 1;
        for round in 0..=rounds {
            if round == 1 {
                discard("the first round takes trees");
            }
            let mut all = vec![Vec::new(); processes];
            while all[processes - 1].len() < each {
                for of in &mut all {
                    for _ in 0..batch {
                        let cpu = &mut self.cpus[0];
                        of.push(measured::allocate(self.system, cpu, order(0)).expect("free"));
                    }
                }
            }
            for start in all.iter().flatten() {
                let cpu = self.cpus.last_mut().expect("a CPU");
                assert!(measured::free(
                    self.system,
                    cpu,
                    Block::new(*start, order(0))
                ));
            }
        }
        rounds * each * processes
    }

    /// Each CPU allocates its share of half of the memory and frees it again. The first CPU then allocates all that it
    /// gets, while the others do not call.
    fn fall_silent(&mut self) -> usize {
        let cpus = self.cpus.len();
        let mut held = vec![Vec::new(); cpus];
        for _ in 0..self.frames / 2 {
            let cpu = self.cpu();
            let start = measured::allocate(self.system, &mut self.cpus[cpu], order(0));
            held[cpu].extend(start);
        }
        for (cpu, starts) in self.cpus.iter_mut().zip(held) {
            for start in starts {
                let block = Block::new(start, order(0));
                assert!(measured::free(self.system, cpu, block));
            }
        }
        let mut reached = 0;
        while measured::allocate(self.system, &mut self.cpus[0], order(0)).is_some() {
            reached += 1;
        }
        self.out_of_reach = self.frames - reached;
        reached as usize
    }

    /// Runs a load. Returns the number of its pairs; `None` if the name is unknown.
    fn load(&mut self, name: &str, number: u32) -> Option<usize> {
        self.is_mostly_single = matches!(name, "steady" | "aged" | "full");
        match name {
            "relief" | "steady" => {
                if name == "relief" {
                    self.fill_to(999);
                    self.empty_to(number);
                }
                self.fill_to(number);
                self.replace(number, 2_000);
                discard("a shortage may still last");
                Some(self.replace(number, 20_000))
            }
            "aged" => {
                self.fill_to(900);
                self.empty_to(number);
                discard("memory is young");
                Some(self.replace(number, 1_000_000))
            }
            "full" => {
                self.fill_to(1000);
                discard("memory is filled once");
                for _ in 0..20 {
                    for _ in 0..8 {
                        let cpu = self.cpu();
                        let cpu = &mut self.cpus[cpu];
                        let found = measured::allocate(self.system, cpu, order(number as usize));
                        assert!(found.is_none(), "memory is full");
                    }
                    self.replace(1000, 1);
                }
                Some(160)
            }
            "hot" => Some(self.hot(number as usize)),
            "burst" => Some(self.bursts(number as usize, 8_192, true)),
            "exit" => Some(self.bursts(number as usize, 8_192, false)),
            "handoverrandom" => Some(self.bursts(number as usize, 512, true)),
            "bulk" => Some(self.bulks(number as usize, false)),
            "bulkrandom" => Some(self.bulks(number as usize, true)),
            "storm" => Some(self.storm(number as usize, 4)),
            "silent" => Some(self.fall_silent()),
            "handover" => Some(self.bursts(number as usize, 512, false)),
            _ => None,
        }
    }
}

/// Returns the parts of an argument: the load, its number, the CPUs of the system, and how many of them call.
fn parts(argument: &str) -> Option<(&str, u32, u16, u16)> {
    let at = argument.find(['/', '*']).unwrap_or(argument.len());
    let (load, cpus) = argument.split_at(at);
    let (name, number) = load.split_once(':')?;
    let count = cpus.get(1..).map_or(Some(1), |count| count.parse().ok())?;
    let calling = if cpus.starts_with('*') { count } else { 1 };
    Some((name, number.parse().ok()?, count, calling))
}

fn main() -> Result<(), String> {
    for argument in std::env::args().skip(1) {
        let unknown = || format!("loads: {argument}: unknown load");
        let (name, number, cpus, calling) = parts(&argument).ok_or_else(unknown)?;
        let frames = if name == "silent" {
            number << 8
        } else {
            FRAMES
        };
        let ranges = [FrameRange::new(Pfn(0), frames.into())];
        let setup = Setup::new(&ranges, cpus);
        let mut memory = vec![MaybeUninit::uninit(); 8 << 20];
        let system = Everybuddy::build(&setup, &mut memory[..]);
        let tokens = NativeCpus::new(cpus);
        let claim = |cpu| tokens.claim(CpuId(cpu)).expect("no other thread has it");
        let mut run = Run {
            system: system.expect("8 MiB suffice"),
            cpus: (0..calling).map(claim).collect(),
            calls: 0,
            held: Vec::new(),
            used: 0,
            random: Random(1),
            is_mostly_single: false,
            refused: [0; ORDERS],
            frames,
            out_of_reach: 0,
        };
        let pairs = run.load(name, number).ok_or_else(unknown)?;
        run.cpus.iter_mut().for_each(|cpu| run.system.park(cpu));
        let free = run.system.snapshot(&mut run.cpus[0]);
        let blocks = free.available_blocks(order(9));
        let silent = u64::from(run.out_of_reach) * 1000 / u64::from(frames);
        println!("{argument}\t{pairs}\t{:?}\t{blocks}\t{silent}", run.refused);
        finish(pairs);
    }
    Ok(())
}
