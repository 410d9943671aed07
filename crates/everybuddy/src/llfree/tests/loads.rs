//! How many words a request reads: as many in large memory as in small memory.

use std::cell::Cell;
use std::thread_local;

use super::*;
use crate::llfree::TREE;
use crate::platform::{CellValue, NativeAtomicU32, NativeCell, NativeCpu, Platform};
use crate::systems::{Options, build};
use crate::{Memory, NoProbe};

thread_local! {
    static LOADS: Cell<u64> = const { Cell::new(0) };
}

/// A word that counts how often a thread loads it.
struct Counted(NativeAtomicU64);

impl AtomicWord<u64> for Counted {
    fn new(value: u64) -> Self {
        Self(NativeAtomicU64::new(value))
    }
    fn load(&self, ordering: Ordering) -> u64 {
        LOADS.set(LOADS.get() + 1);
        self.0.load(ordering)
    }
    fn store(&self, value: u64, ordering: Ordering) {
        self.0.store(value, ordering);
    }
    fn swap(&self, value: u64, ordering: Ordering) -> u64 {
        self.0.swap(value, ordering)
    }
    fn compare_exchange(
        &self,
        old: u64,
        new: u64,
        yes: Ordering,
        no: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(old, new, yes, no)
    }
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        self.0.fetch_add(value, ordering)
    }
    fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
        self.0.fetch_sub(value, ordering)
    }
}

struct Counting;

// SAFETY: words, cells and tokens are those of `Native`; loads are counted as well.
#[allow(unsafe_code)]
unsafe impl Platform for Counting {
    type AtomicU32 = NativeAtomicU32;
    type AtomicU64 = Counted;
    type Cell<T: CellValue> = NativeCell<T>;
    type Cpu = NativeCpu;
    type Probe = NoProbe;

    fn probe(cpu: &mut NativeCpu) -> &mut NoProbe {
        cpu.probe()
    }
    fn wait(_: &NativeAtomicU32, _: u32, _: u32) {}
    fn wake(_: &NativeAtomicU32) {}
}

/// The number of requests that are counted.
const REQUESTS: usize = 64;

/// Returns the loads of [`REQUESTS`] requests for a block, in memory of some trees. If `scattered`, every second frame
/// of the CPU's own tree is free before them, and all frames of the others.
fn loads(trees: u32, size: Order, scattered: bool) -> u64 {
    let ranges = [FrameRange::new(Pfn(0), u64::from(trees * TREE))];
    let setup = Setup::new(&ranges, 1);
    let mut memory = std::vec![MaybeUninit::uninit(); 1 << 22];
    let system = build::<LlFree, Counting>(&Options::NONE, &setup, Memory::from(&mut memory[..]));
    let system = system.unwrap();
    let cpus = NativeCpus::new(1);
    let mut cpu = cpus.claim(CpuId(0)).unwrap();
    if scattered {
        let all: Vec<Index> = (0..TREE)
            .map(|_| system.allocate(&mut cpu, Request::FRAME).unwrap())
            .collect();
        for frame in all.into_iter().step_by(2) {
            system.free(&mut cpu, Release::frame(frame)).unwrap();
        }
    }
    let mut blocks = Vec::new();
    let before = LOADS.get();
    for _ in 0..REQUESTS {
        blocks.push(system.allocate(&mut cpu, Request::order(size)).unwrap());
    }
    let loads = LOADS.get() - before;
    blocks.sort_unstable_by_key(|start| start.0);
    blocks.dedup();
    assert_eq!(blocks.len(), REQUESTS);
    loads
}

#[test]
fn requests_read_no_more_words_in_large_memory() {
    // The other trees are wholly free or used up: none is partly used when a request needs another one.
    let cases = [(9, false), (10, false), (3, true), (6, true), (9, true)];
    for (size, scattered) in cases {
        let [small, large] = [64, 512].map(|trees| loads(trees, order(size), scattered));
        assert!(
            large <= small + small / 8,
            "order {size}: {small} and {large} loads"
        );
    }
}
