//! Runs the hot paths of every system, each from a known state, for an instruction counter.
//!
//! `ci/instructions.sh` runs this program under callgrind, which counts only inside the functions of the module
//! `measured` and writes its counts whenever the program calls `finish`. Before each of these calls the program prints
//! a line: the system, the path, and the number of operations. On its own, the program measures nothing.
//! Arguments choose systems; without any, all run.
//!
//! Each group of paths starts with all memory free and coalesced. For orders 0, 3 and 9:
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

use std::hint::black_box;
use std::mem::MaybeUninit;

use everybuddy::prelude::*;
use everybuddy::systems::ROWS;
use everybuddy::{Progress, Size};

/// Systems other than the rows.
const VARIANTS: &[&str] = &[
    "bs+lock=ticket",
    "bs+line=beside",
    "bs+zone=spaces",
    "bs+zone=domains",
    "lbs-1+zone=spaces",
    "lbs-1+zone=domains",
    "lbs-31+percpu=locked",
    "lbs-31+check=off",
    "lbs-31+percpu=locked+check=off",
    "lbs-31+lock=ticket+hold=when-contended",
    "lbs-31+hold=iteration",
    "lbs-31+bulk=rows",
    "lbs-31+zone=spaces",
    "lbs-31+zone=domains",
    "is+zone=one",
    "lis-1+zone=one",
    "lis-31+zone=one",
    "spring+zone=one",
    "spring+zone=spaces",
    "spring+bulk=rows",
    "watermark+list=linux",
    "delay-2+debt=on",
    "delay-2+reclaim=on",
    "delay-2+zone=spaces",
    "delay-2+list=linux",
    "delay-2+list=linux+debt=on",
    "delay-2+list=linux+zone=spaces",
    "delay-2+list=bypass",
    "delay-2+list=linux-6",
    "delay-2+list=spring",
    "delay-2+list=spring+zone=spaces",
    "serewa+structure=list",
    "serewa+structure=bitmap",
    "serewa+remnants=first",
    "serewa+sync=lock",
    "serewa+separate=off",
    "serewa+separate=off+structure=list",
    "serewa+separate=off+structure=bitmap",
    "linux-6+percpu=locked",
    "linux-6+check=off",
    "linux-6+percpu=locked+check=off",
    "linux-6+lock=ticket+hold=when-contended",
    "linux-6+bulk=rows",
    "lbs-31+drain=merged",
];

/// The systems that are also called through `dyn FrameAllocator`.
const INDIRECT: &[&str] = &["bs", "lbs-31", "is", "spring", "serewa", "linux-6"];

/// Frames of a long run of allocations: more than any list keeps.
const MANY: u32 = 6144;

type Cpu = <Native as Platform>::Cpu;

/// The functions inside which instructions are counted.
mod measured {
    use super::*;

    #[inline(never)]
    pub(super) fn allocate_frame<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
    ) -> Option<Pfn> {
        system.allocate(cpu, Request::FRAME).ok()
    }

    #[inline(never)]
    pub(super) fn free_frame<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        frame: Pfn,
    ) -> bool {
        system.free(cpu, Release::frame(frame)).is_ok()
    }

    #[inline(never)]
    pub(super) fn allocate_block<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        order: Order,
    ) -> Option<Pfn> {
        system.allocate(cpu, Request::order(order)).ok()
    }

    #[inline(never)]
    pub(super) fn free_block<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        start: Pfn,
        order: Order,
    ) -> bool {
        let release = Release {
            size: Size::Order(order),
            ..Release::frame(start)
        };
        system.free(cpu, release).is_ok()
    }

    #[inline(never)]
    pub(super) fn allocate_run<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        frames: u32,
    ) -> Option<Pfn> {
        system.allocate(cpu, Request::frames(frames)).ok()
    }

    #[inline(never)]
    pub(super) fn free_run<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        start: Pfn,
        frames: u32,
    ) -> bool {
        system.free(cpu, Release::frames(start, frames)).is_ok()
    }

    #[inline(never)]
    pub(super) fn allocate_bulk<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        out: &mut [Pfn],
    ) -> Option<usize> {
        system.allocate_bulk(cpu, Request::FRAME, out).ok()
    }

    #[inline(never)]
    pub(super) fn free_bulk<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        releases: &[Release],
    ) -> bool {
        system.free_bulk(cpu, releases).is_ok()
    }

    #[inline(never)]
    pub(super) fn serve<A: FrameAllocator<Native> + ?Sized>(
        system: &A,
        cpu: &mut Cpu,
        service: usize,
    ) -> bool {
        matches!(system.serve(cpu, service, 1 << 20), Progress::Idle)
    }
}

/// Callgrind writes down what it counted so far, and starts anew.
#[inline(never)]
fn finish(operations: u32) -> u32 {
    black_box(operations)
}

/// Callgrind forgets what it counted so far.
#[inline(never)]
fn discard(reason: &str) -> usize {
    black_box(reason).len()
}

/// A system whose paths are run.
struct Paths<'s, A: ?Sized> {
    name: &'s str,
    system: &'s A,
    /// The first run of all paths brings the system into the state of the second, which is reported.
    is_trial: bool,
}

impl<A: FrameAllocator<Native> + ?Sized> Paths<'_, A> {
    /// Ends a path: what was counted since the last one took the given number of operations.
    fn end(&self, path: &str, operations: u32) {
        if self.is_trial {
            discard(path);
        } else {
            println!("{}\t{path}\t{operations}", self.name);
            finish(operations);
        }
    }

    /// Drains all lists and coalesces everything.
    fn settle(&self, cpu: &mut Cpu) {
        self.system.quiesce(cpu).expect("no other CPU works");
    }

    fn allocate(&self, cpu: &mut Cpu, order: Order) -> Pfn {
        let start = match order {
            Order::ZERO => measured::allocate_frame(self.system, cpu),
            _ => measured::allocate_block(self.system, cpu, order),
        };
        start.expect("memory is larger than any path needs")
    }

    fn free(&self, cpu: &mut Cpu, start: Pfn, order: Order) {
        assert!(match order {
            Order::ZERO => measured::free_frame(self.system, cpu, start),
            _ => measured::free_block(self.system, cpu, start, order),
        });
    }

    fn all(&self, cpu: &mut Cpu) {
        for order in [0, 3, 9].into_iter().filter_map(Order::new) {
            self.pair(cpu, order);
            self.many(cpu, order);
        }
        self.bulk(cpu);
        self.runs(cpu);
        self.serve(cpu);
        self.refuse(cpu);
    }

    fn pair(&self, cpu: &mut Cpu, order: Order) {
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

    fn many(&self, cpu: &mut Cpu, order: Order) {
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
            discard("a hit");
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
        discard("what is left");
    }

    fn bulk(&self, cpu: &mut Cpu) {
        let mut frames = [Pfn(0); 31];
        self.settle(cpu);
        let given = measured::allocate_bulk(self.system, cpu, &mut frames);
        assert_eq!(given, Some(frames.len()));
        self.end("bulk 31", 1);
        let releases = frames.map(Release::frame);
        assert!(measured::free_bulk(self.system, cpu, &releases));
        self.end("free-bulk 31", 1);
    }

    fn runs(&self, cpu: &mut Cpu) {
        self.settle(cpu);
        let mut allocate = || {
            let start = measured::allocate_run(self.system, cpu, 260);
            self.end("run 260", 1);
            start.expect("memory is larger than that")
        };
        let whole = allocate();
        assert!(measured::free_run(self.system, cpu, whole, 260));
        self.end("free-run 260", 1);
        self.settle(cpu);
        let start = measured::allocate_run(self.system, cpu, 260).expect("as before");
        discard("as before");
        assert!(measured::free_run(self.system, cpu, start, 100));
        self.end("free-part 100", 1);
        assert!(measured::free_run(
            self.system,
            cpu,
            Pfn(start.0 + 100),
            160
        ));
        self.end("free-rest 160", 1);
    }

    fn refuse(&self, cpu: &mut Cpu) {
        const APART: u32 = 11;
        let largest = self.system.max_order();
        let free = |cpu: &mut Cpu, start: u32, frames: u32| {
            let release = match frames {
                1 => Release::frame(Pfn(start)),
                _ => Release::frames(Pfn(start), frames),
            };
            self.system.free(cpu, release).expect("it is allocated");
        };
        self.settle(cpu);
        let mut blocks = Vec::new();
        for order in (0..=largest.get()).rev().filter_map(Order::new) {
            while let Ok(start) = self.system.allocate(cpu, Request::order(order)) {
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
            discard(path);
            assert_eq!(measured::allocate_block(self.system, cpu, eight), None);
            self.end(path, 1);
        }
        for (start, frames) in blocks.iter().flat_map(parts).filter(|part| part.1 > 1) {
            free(cpu, start + 1, frames - 1);
        }
        discard("all is free");
    }

    fn serve(&self, cpu: &mut Cpu) {
        for (index, service) in self.system.services().iter().enumerate() {
            assert!(measured::serve(self.system, cpu, index), "it can end");
            self.end(&format!("serve {}", service.name), 1);
        }
    }
}

/// Runs the paths of a system, called directly, and of some systems also indirectly.
struct Visitor<'n>(&'n str);

impl WithSystem<Native> for Visitor<'_> {
    type Output = ();

    fn call<A: FrameAllocator<Native>>(self, _: &'static str, system: &A) {
        let cpus = NativeCpus::new(2);
        let mut cpu = cpus.claim(CpuId(0)).expect("no other thread has it");
        for is_trial in [true, false] {
            Paths {
                name: self.0,
                system,
                is_trial,
            }
            .all(&mut cpu);
            if INDIRECT.contains(&self.0) {
                let paths: Paths<'_, dyn FrameAllocator<Native>> = Paths {
                    name: &format!("dyn:{}", self.0),
                    system,
                    is_trial,
                };
                paths.all(&mut cpu);
            }
        }
    }
}

fn main() {
    let ranges = [FrameRange::new(0, 1 << 16)];
    let setup = Setup::new(&ranges, 2);
    let mut memory = vec![MaybeUninit::uninit(); 4 << 20];
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let rows = ROWS.iter().map(|row| row.name);
    let is_chosen = |name: &&str| chosen.is_empty() || chosen.iter().any(|own| own == name);
    for name in rows.chain(VARIANTS.iter().copied()).filter(is_chosen) {
        let spec: SystemSpec = name.parse().expect("a system of this name exists");
        with_system(&spec, &setup, &mut memory, Visitor(name)).expect("4 MiB suffice");
    }
}
