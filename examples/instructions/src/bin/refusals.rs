//! Counts refused requests of a few frames in memory that is nearly full, and times a refusal.
//!
//! Arguments choose systems; without any, `everybuddy`, `bs` and `llfree` run. One CPU calls. Three states of memory:
//!
//! | state | how it came about |
//! |---|---|
//! | `scattered` | all memory was allocated frame by frame, then random frames were freed; blocks of each order are requested until one is refused |
//! | `mixed` | blocks of orders 0 to 4 replace each other at random, for ten times as many requests as memory has frames; each order asks for as many frames |
//! | `single` | the same, but 984 of 1,000 requests are for a frame, and the others evenly for orders 1 to 4 |
//!
//! The first two have 256 MiB, the last one also 1 and 4 GiB.
//!
//! The columns: the requests of an order; those that were refused; those of them for which a block was free, which must
//! be 0; and those for which enough frames were free, so that another placement of the earlier blocks could serve them.
//! Times are the medians of requests that were refused, in nanoseconds: the first one after a free, and a repeated one.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use everybuddy::prelude::*;
use everybuddy_example_instructions::Random;

type Cpu = <Native as Platform>::Cpu;

/// Frames for each MiB.
const MIB: u32 = 256;
/// The sizes of memory, in frames. Only the state `single` has them all.
const MEMORY: [u32; 3] = [256 * MIB, 1024 * MIB, 4096 * MIB];
const FULL: [u32; 3] = [50, 90, 99];
const FULL_OF_SINGLE: [u32; 3] = [95, 98, 99];
const ORDERS: usize = 5;

/// Which frames are free, as the caller knows it.
struct Known {
    /// For each order, the number of allocated frames of each block, from the lowest on.
    used: [Vec<u32>; ORDERS],
    /// For each order, the number of blocks without an allocated frame.
    whole: [usize; ORDERS],
    free: u32,
}

impl Known {
    fn new(frames: u32) -> Self {
        let blocks = |order: usize| (frames >> order) as usize;
        Self {
            used: core::array::from_fn(|order| vec![0; blocks(order)]),
            whole: core::array::from_fn(blocks),
            free: frames,
        }
    }

    fn set(&mut self, block: Block, is_used: bool) {
        let frames = block.order.frames();
        for frame in block.start.0..block.start.0 + frames {
            for (order, (used, whole)) in self.used.iter_mut().zip(&mut self.whole).enumerate() {
                let count = &mut used[(frame >> order) as usize];
                if is_used {
                    *whole -= usize::from(*count == 0);
                    *count += 1;
                } else {
                    *count -= 1;
                    *whole += usize::from(*count == 0);
                }
            }
        }
        if is_used {
            self.free -= frames
        } else {
            self.free += frames
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Row {
    requests: u64,
    refused: u64,
    wrongly: u64,
    by_placement: u64,
}

struct Run<'s, A> {
    name: &'s str,
    system: &'s A,
    cpu: Cpu,
    frames: u32,
    known: Known,
    held: Vec<Block>,
    rows: [Row; ORDERS],
    random: Random,
}

impl<A: FrameAllocator<Native>> Run<'_, A> {
    fn request(&mut self, order: usize) -> bool {
        let order_of = Order::new(order as u8).expect("a small order");
        let row = &mut self.rows[order];
        row.requests += 1;
        match self
            .system
            .allocate(&mut self.cpu, Request::order(order_of))
        {
            Ok(start) => {
                let block = Block::new(start, order_of);
                self.known.set(block, true);
                self.held.push(block);
                true
            }
            Err(_) => {
                row.refused += 1;
                row.wrongly += u64::from(self.known.whole[order] > 0);
                row.by_placement += u64::from(self.known.free >= order_of.frames());
                false
            }
        }
    }

    fn free(&mut self) {
        let index = self.random.below(self.held.len());
        let block = self.held.swap_remove(index);
        self.known.set(block, false);
        let freed = self.system.free(&mut self.cpu, Release::block(block));
        freed.expect("it is allocated");
    }

    fn is_full(&self, full: u32) -> bool {
        u64::from(self.frames - self.known.free) * 100 >= u64::from(self.frames) * u64::from(full)
    }

    fn free_all(&mut self) {
        while !self.held.is_empty() {
            self.free();
        }
        self.rows = [Row::default(); ORDERS];
    }

    fn report(&self, state: &str, full: u32) {
        for (order, row) in self.rows.iter().enumerate() {
            println!(
                "{:<12} {state:<10} {:>4} MiB {full:>3} % {order:>6} {:>9} {:>9} {:>8} {:>13}",
                self.name,
                self.frames / MIB,
                row.requests,
                row.refused,
                row.wrongly,
                row.by_placement
            );
        }
    }

    fn scattered(&mut self, full: u32) {
        while self.request(0) {}
        while self.is_full(full) {
            self.free();
        }
        self.rows = [Row::default(); ORDERS];
        for order in (1..ORDERS).rev() {
            while self.request(order) {}
        }
        self.report("scattered", full);
        let order = Order::new(4).expect("a small order");
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..2001 {
            // A single frame, so that the next request is refused again.
            self.free();
            for times in &mut times {
                let start = Instant::now();
                let result = black_box(self.system.allocate(&mut self.cpu, Request::order(order)));
                let took = start.elapsed().as_nanos();
                match result {
                    Ok(start) => {
                        let block = Block::new(start, order);
                        self.known.set(block, true);
                        self.held.push(block);
                    }
                    Err(_) => times.push(took),
                }
            }
        }
        let medians = times.map(|mut times| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        });
        println!(
            "{:<12} scattered  {full:>3} % order 4: a refusal after a free {} ns, another one {} ns",
            self.name, medians[0], medians[1]
        );
        self.free_all();
    }

    /// Replaces blocks at random. `order_of` chooses the order of a request.
    fn replace(&mut self, state: &str, full: u32, order_of: fn(&mut Random) -> usize) {
        for count in 0..10 * self.frames {
            if count == 5 * self.frames {
                self.rows = [Row::default(); ORDERS];
            }
            while self.is_full(full) {
                self.free();
            }
            let order = order_of(&mut self.random);
            if !self.request(order) && !self.held.is_empty() {
                self.free();
            }
        }
        self.report(state, full);
        self.free_all();
    }
}

/// Each order asks for as many frames.
fn mixed(random: &mut Random) -> usize {
    match random.below(31) {
        0..16 => 0,
        16..24 => 1,
        24..28 => 2,
        28..30 => 3,
        _ => 4,
    }
}

fn single(random: &mut Random) -> usize {
    match random.below(1000) {
        0..984 => 0,
        other => 1 + (other - 984) / 4,
    }
}

struct Visitor<'n> {
    name: &'n str,
    frames: u32,
}

impl WithSystem<Native> for Visitor<'_> {
    type Output = ();

    fn call<A: FrameAllocator<Native>>(self, _: &'static str, system: &A) {
        let cpus = NativeCpus::new(2);
        let mut run = Run {
            name: self.name,
            system,
            cpu: cpus.claim(CpuId(0)).expect("no other thread has it"),
            frames: self.frames,
            known: Known::new(self.frames),
            held: Vec::new(),
            rows: [Row::default(); ORDERS],
            random: Random(1),
        };
        if self.frames == MEMORY[0] {
            for full in FULL {
                run.scattered(full);
                run.replace("mixed", full, mixed);
            }
        }
        for full in FULL_OF_SINGLE {
            run.replace("single", full, single);
        }
    }
}

fn main() {
    let mut memory = vec![MaybeUninit::uninit(); 64 << 20];
    let mut chosen: Vec<String> = std::env::args().skip(1).collect();
    if chosen.is_empty() {
        chosen = ["everybuddy", "bs", "llfree"].map(String::from).into();
    }
    println!(
        "system       state        memory  full    order  requests   refused  wrongly  by placement"
    );
    for name in &chosen {
        let spec: SystemSpec = match name.parse() {
            Ok(spec) => spec,
            Err(error) => {
                eprintln!("refusals: {name}: {error}");
                std::process::exit(2);
            }
        };
        for frames in MEMORY {
            let ranges = [FrameRange::new(Pfn(0), frames.into())];
            let setup = Setup::new(&ranges, 2);
            let visitor = Visitor { name, frames };
            with_system(&spec, &setup, &mut memory, visitor).expect("64 MiB suffice");
        }
    }
}
