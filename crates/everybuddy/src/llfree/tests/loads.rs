//! How many words a request reads: as many in large memory as in small memory.

use super::*;
use crate::Memory;
use crate::llfree::TREE;
use crate::systems::{Options, build};
use crate::testing::counting::{self, Counting};

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
    let before = counting::loads();
    for _ in 0..REQUESTS {
        blocks.push(system.allocate(&mut cpu, Request::order(size)).unwrap());
    }
    let loads = counting::loads() - before;
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
