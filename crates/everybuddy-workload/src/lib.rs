//! Generators of requests: what a thread asks of an allocator, as deterministic iterators without I/O.
//!
//! Why it exists: benchmarks, the simulator and the stress tests must ask for the same things. A workload
//! knows nothing of allocators: it names *slots*, and whoever runs it keeps the block that each slot holds.
//!
//! Invariant: a workload allocates into a slot only while it is empty, frees only a full one, and the same
//! seed gives the same steps on every machine.
//!
//! Steps come in two forms: as a plain iterator ([`Workload`]), for stress and simulation, and as a
//! [`Program`] of prepared memory and timed sections, for benchmarks.
//!
//! To add a workload: one file that makes [`Program`]s, and one row in [`WORKLOADS`].

mod batch;
mod burst;
mod churn;
mod fill;
mod handover;
mod hot;
pub mod odd;
mod program;
mod random;
mod rows;
mod steady;
pub mod streams;

pub use batch::BATCH;
pub use burst::BURST;
pub use churn::{Churn, Mix};
pub use program::{Body, Part, Program, Round, Section, Setting};
pub use rows::{Row, Variant, WORKLOADS};

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
    /// Hands what a slot holds to the next thread; the slot is empty then.
    Hand {
        /// The slot.
        slot: u32,
    },
    /// Waits for what the thread before hands over, and puts it into an empty slot.
    Receive {
        /// The slot.
        slot: u32,
    },
}

/// The steps of one thread.
pub trait Workload: Iterator<Item = Step> {
    /// Returns how many slots the steps name.
    fn slots(&self) -> u32;
}
