//! The hot paths of every system, each from a known state, for programs that count instructions or accesses.
//!
//! `ci/instructions.sh` runs the program `paths` under callgrind, which counts only inside the functions of the module
//! [`measured`] and writes its counts whenever [`finish`] is called. Before each of these calls a line is printed: the
//! system, the path, and the number of operations. On its own, the program measures nothing.
//!
//! The program `accesses` runs the same paths on the virtual machine, and each line ends with the accesses to shared
//! memory. The simulator divides the counted instructions by these accesses, so both must be of the same calls: a line
//! of each program contains a digest of all calls up to its end, and `ci/work.sh` compares them.
//!
//! Each group of paths starts with all memory free and coalesced. For orders 0, 3, 5 and 9:
//!
//! | path | operation |
//! |---|---|
//! | `first` | the first allocation: refills the list; without a list, splits a largest block |
//! | `next` | the second allocation: hits the list; without a list, takes a free block of this order |
//! | `free-next` | frees the second block: hits the list; without a list, does not coalesce |
//! | `free-first` | frees the first block: hits the list; without a list, coalesces up to the largest block |
//! | `many`, `free-many` | enough allocations (frees) that refills (drains) are among them |
//! | `drain` | the first free that finds the list full |
//!
//! `bulk` and `free-bulk` move 31 frames. `run` allocates exactly 260 frames and `free-run` frees them; `free-part`
//! frees 100 of such a run, `free-rest` the other 160. `serve` runs a service until it is idle. `refuse` and
//! `refuse-again` are requests for 8 frames where every eleventh frame is free, and no two that are adjacent.
//!
//! Two more run natively only, and in a system of their own: `burst` allocates 6,144 frames one by one, and frees them
//! in another order; in `handover` a CPU allocates 256 frames and another one frees them.

use std::cell::Cell;
use std::hint::black_box;
use std::marker::PhantomData;

use everybuddy::platform::NativeCpu;
use everybuddy::prelude::*;
use everybuddy::systems::ROWS;
use everybuddy::{CpuToken, Progress, Size};

/// A small generator (splitmix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `limit`.
    #[inline]
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

/// Systems other than the rows.
const VARIANTS: &[&str] = &[
    "bs+lock=ticket",
    "bs+line=beside",
    "bs+state=record",
    "bs+zone=spaces",
    "bs+zone=domains",
    "lbs-1+zone=spaces",
    "lbs-1+zone=domains",
    "lbs-1+state=record",
    "lbs-31+state=record",
    "lbs-31+percpu=locked",
    "lbs-31+lock=ticket+hold=when-contended",
    "lbs-31+hold=iteration",
    "lbs-31+zone=spaces",
    "lbs-31+zone=domains",
    "is+zone=one",
    "lis-1+zone=one",
    "lis-31+zone=one",
    "delay-2+debt=on",
    "delay-2+reclaim=on",
    "serewa+structure=list",
    "serewa+structure=bitmap",
    "serewa+remnants=first",
    "serewa+sync=lock",
    "serewa+separate=off",
    "serewa+separate=off+structure=list",
    "serewa+separate=off+structure=bitmap",
    "linux-6+percpu=locked",
    "linux-6+lock=ticket+hold=when-contended",
    "lbs-31+drain=merged",
];

/// Names the rows and the variants, or those of them that `chosen` names if it names any.
pub fn systems(chosen: &[String]) -> impl Iterator<Item = &'static str> {
    let rows = ROWS.iter().map(|row| row.name);
    let all = rows.chain(VARIANTS.iter().copied());
    all.filter(move |name| chosen.is_empty() || chosen.iter().any(|own| own == name))
}

/// The frames of the systems' memory.
pub const FRAMES: FrameRange = FrameRange::new(Pfn(0), 1 << 16);

/// The bytes that suffice for the metadata of each system.
pub const METADATA: usize = 4 << 20;

/// Frames of a long run of allocations: more than any list keeps.
const MANY: u32 = 6144;

/// A token that reports the number of accesses of its CPU.
pub trait Counting: CpuToken {
    /// The accesses so far. `None` if they are not counted.
    fn accesses(&self) -> Option<u64>;
}

impl Counting for NativeCpu {
    fn accesses(&self) -> Option<u64> {
        None
    }
}

#[cfg(feature = "accesses")]
impl Counting for everybuddy_sim::SimCpu {
    fn accesses(&self) -> Option<u64> {
        Some(everybuddy_sim::SimCpu::accesses(self))
    }
}

/// The functions inside which instructions are counted.
#[allow(missing_docs, reason = "each is the call of that name")]
pub mod measured {
    use super::*;

    #[inline(never)]
    pub fn allocate_frame<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
    ) -> Option<Index> {
        system.allocate(cpu, Request::FRAME).ok()
    }

    #[inline(never)]
    pub fn free_frame<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        frame: Index,
    ) -> bool {
        system.free(cpu, Release::frame(frame)).is_ok()
    }

    #[inline(never)]
    pub fn allocate_block<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        order: Order,
    ) -> Option<Index> {
        system.allocate(cpu, Request::order(order)).ok()
    }

    #[inline(never)]
    pub fn free_block<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        start: Index,
        order: Order,
    ) -> bool {
        let release = Release {
            size: Size::Order(order),
            ..Release::frame(start)
        };
        system.free(cpu, release).is_ok()
    }

    #[inline(never)]
    pub fn allocate_run<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        frames: u32,
    ) -> Option<Index> {
        system.allocate(cpu, Request::frames(frames)).ok()
    }

    #[inline(never)]
    pub fn free_run<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        start: Index,
        frames: u32,
    ) -> bool {
        system.free(cpu, Release::frames(start, frames)).is_ok()
    }

    #[inline(never)]
    pub fn allocate_bulk<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        out: &mut [Index],
    ) -> Option<usize> {
        system.allocate_bulk(cpu, Request::FRAME, out).ok()
    }

    #[inline(never)]
    pub fn free_bulk<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        releases: &[Release],
    ) -> bool {
        system.free_bulk(cpu, releases).is_ok()
    }

    #[inline(never)]
    pub fn serve<P: Platform, A: FrameAllocator<P> + ?Sized>(
        system: &A,
        cpu: &mut P::Cpu,
        service: usize,
    ) -> bool {
        matches!(system.serve(cpu, service, 1 << 20), Progress::Idle)
    }
}

/// Callgrind writes down what it counted so far, and starts anew.
#[inline(never)]
pub fn finish(operations: u32) -> u32 {
    black_box(operations)
}

/// Callgrind forgets what it counted so far.
#[inline(never)]
pub fn discard(reason: &str) -> usize {
    black_box(reason).len()
}

/// A system whose paths are run.
pub struct Paths<'s, P, A: ?Sized> {
    name: &'s str,
    system: &'s A,
    /// The first run of all paths brings the system into the state of the second, which is reported.
    is_trial: Cell<bool>,
    /// The accesses of the calls since the last path, if they are counted.
    accesses: Cell<Option<u64>>,
    /// A digest of all calls so far, whether they are counted or not.
    calls: Cell<u64>,
    platform: PhantomData<P>,
}

impl<'s, P: Platform<Cpu: Counting>, A: FrameAllocator<P> + ?Sized> Paths<'s, P, A> {
    /// Runs the paths of one CPU in a new system, twice, and reports the second run.
    pub fn run(name: &'s str, system: &'s A, cpu: &mut P::Cpu) {
        Self::twice(name, system, |paths| paths.all(cpu));
    }

    /// Runs bursts and handovers in a new system, twice, and reports the second run. `other` frees what `cpu` has.
    pub fn run_two(name: &'s str, system: &'s A, cpu: &mut P::Cpu, other: &mut P::Cpu) {
        Self::twice(name, system, |paths| {
            paths.burst(cpu);
            paths.handover(cpu, other);
        });
    }

    fn twice(name: &'s str, system: &'s A, mut run: impl FnMut(&Self)) {
        let paths = Self {
            name,
            system,
            is_trial: Cell::new(true),
            accesses: Cell::new(None),
            calls: Cell::new(0),
            platform: PhantomData,
        };
        run(&paths);
        paths.is_trial.set(false);
        run(&paths);
    }

    /// Ends a path: what was counted since the last one took the given number of operations.
    fn end(&self, path: &str, operations: u32) {
        if self.is_trial.get() {
            return self.discard(path);
        }
        let calls = self.calls.get();
        print!("{}\t{path}\t{operations}\t{calls:016x}", self.name);
        match self.accesses.take() {
            Some(accesses) => println!("\t{accesses}"),
            None => println!(),
        }
        finish(operations);
    }

    /// Forgets what was counted since the last path.
    fn discard(&self, reason: &str) {
        self.accesses.set(None);
        discard(reason);
    }

    /// Notes a call by its kind, its operands and its result.
    fn note(&self, kind: &str, values: &[u32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let all = kind.bytes().chain(bytes);
        // FNV-1a.
        let digest = all.fold(self.calls.get(), |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.calls.set(digest.wrapping_add(1));
    }

    /// Calls a function of the module `measured`, and adds its accesses to those of the path.
    fn count<T>(&self, cpu: &mut P::Cpu, call: impl FnOnce(&A, &mut P::Cpu) -> T) -> T {
        let before = cpu.accesses();
        let result = call(self.system, cpu);
        let made = cpu.accesses().zip(before).map(|(now, before)| now - before);
        let sum = made.map(|made| made + self.accesses.get().unwrap_or(0));
        self.accesses.set(sum);
        result
    }

    /// Drains all lists and coalesces everything.
    fn settle(&self, cpu: &mut P::Cpu) {
        self.system.quiesce(cpu).expect("no other CPU works");
        self.note("settle", &[]);
    }

    fn allocate(&self, cpu: &mut P::Cpu, order: Order) -> Index {
        let start = self.count(cpu, |system, cpu| match order {
            Order::ZERO => measured::allocate_frame(system, cpu),
            _ => measured::allocate_block(system, cpu, order),
        });
        let start = start.expect("memory is larger than any path needs");
        self.note("allocate", &[u32::from(order.get()), start.0]);
        start
    }

    fn free(&self, cpu: &mut P::Cpu, start: Index, order: Order) {
        let is_freed = self.count(cpu, |system, cpu| match order {
            Order::ZERO => measured::free_frame(system, cpu, start),
            _ => measured::free_block(system, cpu, start, order),
        });
        assert!(is_freed);
        self.note("free", &[u32::from(order.get()), start.0]);
    }

    fn all(&self, cpu: &mut P::Cpu) {
        for order in [0, 3, 5, 9].into_iter().filter_map(Order::new) {
            self.pair(cpu, order);
            self.many(cpu, order);
        }
        self.bulk(cpu);
        self.runs(cpu);
        self.serve(cpu);
        self.refuse(cpu);
    }

    fn pair(&self, cpu: &mut P::Cpu, order: Order) {
        let end = |path: &str| self.end(&format!("{path} {}", order.get()), 1);
        self.settle(cpu);
        let first = self.allocate(cpu, order);
        end("first");
        let next = self.allocate(cpu, order);
        end("next");
        self.free(cpu, next, order);
        end("free-next");
        self.free(cpu, first, order);
        end("free-first");
    }

    fn many(&self, cpu: &mut P::Cpu, order: Order) {
        let all = MANY >> order.get();
        let end = |path: &str, operations| self.end(&format!("{path} {}", order.get()), operations);
        let kept = || self.system.buffered_frames(CpuId(0));
        self.settle(cpu);
        let mut blocks: Vec<_> = (0..all).map(|_| self.allocate(cpu, order)).collect();
        end("many", all);
        self.settle(cpu);
        for start in &blocks {
            self.free(cpu, *start, order);
        }
        end("free-many", all);
        blocks.fill_with(|| self.allocate(cpu, order));
        self.settle(cpu);
        // Hits fill the list, until a free drains it.
        let mut before = 0;
        while let Some(start) = blocks.pop() {
            self.discard("a hit");
            self.free(cpu, start, order);
            if kept() <= before {
                break;
            }
            before = kept();
        }
        if before > 0 {
            end("drain", 1);
        }
        for start in blocks {
            self.free(cpu, start, order);
        }
        self.discard("what is left");
    }

    /// A burst beyond the list, whose frames are freed in another order.
    fn burst(&self, cpu: &mut P::Cpu) {
        /// Has no factor in common with the number of frames, so each frame is freed once.
        const STRIDE: u32 = 2741;
        self.settle(cpu);
        let frames: Vec<_> = (0..MANY).map(|_| self.allocate(cpu, Order::ZERO)).collect();
        for at in 0..MANY {
            let frame = frames[(at * STRIDE % MANY) as usize];
            self.free(cpu, frame, Order::ZERO);
        }
        self.end("burst 0", 2 * MANY);
    }

    /// A CPU allocates frames and another one frees them.
    fn handover(&self, cpu: &mut P::Cpu, other: &mut P::Cpu) {
        const ROUNDS: u32 = 24;
        self.settle(cpu);
        let mut frames = [Index(0); 256];
        for _ in 0..ROUNDS {
            frames.fill_with(|| self.allocate(cpu, Order::ZERO));
            for frame in frames {
                self.free(other, frame, Order::ZERO);
            }
        }
        self.end("handover 0", 2 * ROUNDS * frames.len() as u32);
        self.system.park(other);
    }

    fn bulk(&self, cpu: &mut P::Cpu) {
        let mut frames = [Index(0); 31];
        self.settle(cpu);
        let given = self.count(cpu, |system, cpu| {
            measured::allocate_bulk(system, cpu, &mut frames)
        });
        assert_eq!(given, Some(frames.len()));
        self.note("bulk", &frames.map(|frame| frame.0));
        self.end("bulk 31", 1);
        let releases = frames.map(Release::frame);
        assert!(self.count(cpu, |system, cpu| measured::free_bulk(
            system, cpu, &releases
        )));
        self.end("free-bulk 31", 1);
    }

    fn runs(&self, cpu: &mut P::Cpu) {
        self.settle(cpu);
        let allocate = |cpu: &mut P::Cpu| {
            let start = self.count(cpu, |system, cpu| measured::allocate_run(system, cpu, 260));
            let start = start.expect("memory is larger than that");
            self.note("run", &[260, start.0]);
            start
        };
        let free = |cpu: &mut P::Cpu, start: Index, frames, path| {
            assert!(self.count(cpu, |system, cpu| measured::free_run(
                system, cpu, start, frames
            )));
            self.note("free-run", &[frames, start.0]);
            self.end(path, 1);
        };
        let whole = allocate(cpu);
        self.end("run 260", 1);
        free(cpu, whole, 260, "free-run 260");
        self.settle(cpu);
        let start = allocate(cpu);
        self.discard("as before");
        free(cpu, start, 100, "free-part 100");
        free(cpu, Index(start.0 + 100), 160, "free-rest 160");
    }

    fn refuse(&self, cpu: &mut P::Cpu) {
        const APART: u32 = 11;
        let largest = self.system.max_order();
        let free = |cpu: &mut P::Cpu, start: u32, frames: u32| {
            // A part of a block, also where it is one frame.
            let release = Release::frames(Index(start), frames);
            self.system.free(cpu, release).expect("it is allocated");
            self.note("free-run", &[frames, start]);
        };
        self.settle(cpu);
        let mut blocks = Vec::new();
        for order in (0..=largest.get()).rev().filter_map(Order::new) {
            while let Ok(start) = self.system.allocate(cpu, Request::order(order)) {
                self.note("allocate", &[u32::from(order.get()), start.0]);
                blocks.push(Block::new(start, order));
            }
        }
        let parts = |block: &Block| {
            let end = block.start.0 + block.order.frames();
            let starts = (block.start.0..end).step_by(APART as usize);
            starts.map(move |start| (start, (end - start).min(APART)))
        };
        for (start, _) in blocks.iter().flat_map(parts) {
            free(cpu, start, 1);
        }
        let eight = Order::new(3).expect("an order");
        for path in ["refuse 3", "refuse-again 3"] {
            self.discard(path);
            let given = self.count(cpu, |system, cpu| {
                measured::allocate_block(system, cpu, eight)
            });
            assert_eq!(given, None);
            self.note("refuse", &[3]);
            self.end(path, 1);
        }
        for (start, frames) in blocks.iter().flat_map(parts).filter(|part| part.1 > 1) {
            free(cpu, start + 1, frames - 1);
        }
        self.discard("all is free");
    }

    fn serve(&self, cpu: &mut P::Cpu) {
        for (index, service) in self.system.services().iter().enumerate() {
            let ends = self.count(cpu, |system, cpu| measured::serve(system, cpu, index));
            assert!(ends, "it can end");
            self.note("serve", &[index as u32]);
            self.end(&format!("serve {}", service.name), 1);
        }
    }
}
