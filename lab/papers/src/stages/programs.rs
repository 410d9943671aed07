//! The requests of the threads of five programs: runs from address regions, and the kernel's own requests in between.
//!
//! The effect of Spring Buddy's domains is visible only if many CPUs allocate simultaneously, and no trace of so many
//! CPUs is available. These programs use only the properties that the paper reports.
//!
//! # Source
//! \[Spring\] IV-A1 and table II.
//!
//! # Design decisions
//! A thread maps a region, requests its frames in runs of the table's mean length (geometric), and frees all of them
//! in order when it unmaps the region. The region is as long as the table's mean run of frees, or as a thread's share
//! of memory if that is less. Between two runs the kernel makes its own requests, up to 16: blocks in the
//! distribution of \[iBuddy\] figure 3, which outlive the region and are freed by any thread of the program.
//!
//! # Invariants
//! The actions of a thread depend on the seed and its number; its results also depend on the schedule.

use std::cell::RefCell;
use std::collections::VecDeque;

use everybuddy::{Block, FrameAllocator, Hint, Order, Release, Request};
use everybuddy_sim::{Sim, SimCpu};

use everybuddy_measure::replay::random::Random;
use serde::Deserialize;

/// A program, by the mean lengths of its runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// Its name; for readers of the file.
    #[serde(rename = "name")]
    _name: String,
    requests: u32,
    releases: u32,
}

/// The kernel's own requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    /// The maximum number of requests at a time.
    burst: u64,
    /// The number of blocks that the kernel keeps for a program.
    kept: usize,
    /// The relative frequency of each order, starting with order 0.
    orders: Vec<u64>,
}

/// Blocks that outlive their region; any thread of a program frees them.
pub(crate) type Kept = RefCell<VecDeque<Block>>;

/// A thread on its CPU.
pub(crate) struct Thread<'t> {
    pub(crate) system: &'t dyn FrameAllocator<Sim>,
    pub(crate) kept: &'t Kept,
    pub(crate) task: u32,
    /// Instructions between two requests.
    pub(crate) pause: u32,
    pub(crate) kernel: &'t Kernel,
    pub(crate) random: Random,
}

impl Thread<'_> {
    /// Maps and unmaps regions of at most `share` frames until `end`, and frees everything.
    pub(crate) fn run(&mut self, cpu: &mut SimCpu, program: &Program, share: u32, end: u64) {
        let mut region = 0;
        while cpu.now() < end {
            region += 1;
            let longest = u64::from(program.releases.min(share).max(2));
            let length = (longest / 2 + self.random.below(longest)) as u32;
            self.region(cpu, region, length, program.requests, end);
        }
        self.forget(cpu);
        // A CPU that goes idle has empty lists, as in Linux after a second or two.
        self.system.drain(cpu);
        self.system.park(cpu);
    }

    /// Frees the blocks that outlived the regions.
    pub(crate) fn forget(&self, cpu: &mut SimCpu) {
        loop {
            let Some(block) = self.kept.borrow_mut().pop_front() else {
                break;
            };
            self.give(cpu, block, Hint::NONE);
        }
    }

    /// Requests the frames of a region in runs of mean length `run`, and frees them.
    pub(crate) fn region(
        &mut self,
        cpu: &mut SimCpu,
        region: u32,
        length: u32,
        run: u32,
        end: u64,
    ) {
        let task = self.task;
        let hint = |left| Hint { task, region, left };
        let mut frames = Vec::with_capacity(length as usize);
        for left in (1..=length).rev() {
            if cpu.now() >= end {
                break;
            }
            if self.random.below(u64::from(run)) == 0 {
                for _ in 0..=self.random.below(self.kernel.burst) {
                    self.kernel(cpu);
                }
            }
            cpu.work(self.pause);
            let request = Request::FRAME.with_hint(hint(left));
            match self.system.allocate(cpu, request) {
                Ok(frame) => frames.push(frame),
                Err(_) => break,
            }
        }
        for (left, frame) in (1..=frames.len() as u32).rev().zip(frames) {
            self.give(cpu, Block::new(frame, Order::ZERO), hint(left));
        }
    }

    /// Requests a block of the kernel's own, and frees an old one.
    fn kernel(&mut self, cpu: &mut SimCpu) {
        let mut left = self.random.below(self.kernel.orders.iter().sum());
        let is_it = |weight: &u64| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found
        };
        let order = self.kernel.orders.iter().position(is_it).unwrap_or(0) as u8;
        let order = Order::new(order).unwrap_or(Order::ZERO);
        if let Ok(start) = self.system.allocate(cpu, Request::order(order)) {
            self.kept.borrow_mut().push_back(Block::new(start, order));
        }
        let old = {
            let mut kept = self.kept.borrow_mut();
            (kept.len() > self.kernel.kept)
                .then(|| kept.pop_front())
                .flatten()
        };
        if let Some(block) = old {
            self.give(cpu, block, Hint::NONE);
        }
    }

    fn give(&self, cpu: &mut SimCpu, block: Block, hint: Hint) {
        cpu.work(self.pause / 4);
        let freed = self.system.free(cpu, Release::block(block).with_hint(hint));
        debug_assert!(freed.is_ok(), "{block:?}: {freed:?}");
    }
}
