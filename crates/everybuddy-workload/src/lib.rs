//! Generators of requests: what a thread asks of an allocator, as deterministic iterators without I/O.
//!
//! Why it exists: benchmarks, the simulator and the stress tests must ask for the same things. A workload
//! knows nothing of allocators: it names *slots*, and whoever runs it keeps the block that each slot holds.
//!
//! Invariant: a workload allocates into a slot only while it is empty, frees only a full one, and the same
//! seed gives the same steps on every machine.
//!
//! To add a workload: one file with an iterator over [`Step`]s, and one line in [`WORKLOADS`].

mod churn;

pub use churn::{Churn, Mix};

use everybuddy::Size;

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Allocates into an empty slot. If it is refused, the slot holds nothing; its release is skipped.
    Allocate {
        /// The slot, below [`Workload::slots`].
        slot: u32,
        /// How much.
        size: Size,
    },
    /// Frees what a slot holds.
    Free {
        /// The slot.
        slot: u32,
    },
}

/// The steps of one thread.
pub trait Workload: Iterator<Item = Step> {
    /// Returns how many slots the steps name.
    fn slots(&self) -> u32;
}

/// A workload, described.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// All workloads.
pub const WORKLOADS: &[Row] = &[Row {
    name: "churn",
    summary: "Random replacement: each step empties a random slot, or fills it with a block of a mix of orders.",
    source: "orders as in iBuddy (000) figure 3: 98.4 % single frames",
}];
