//! Request generators: the requests of a thread, as deterministic iterators without I/O.
//!
//! Benchmarks, the simulator and the stress tests must make the same requests. A workload does not depend on an
//! allocator: it names *slots*, and its host stores the block that each slot holds.
//!
//! # Invariants
//! A workload allocates into a slot only while the slot is empty and frees only full slots. The same seed gives the
//! same steps on every machine.
//!
//! Steps are available in two forms: as a plain iterator ([`Workload`]), for stress tests and simulation, and as a
//! [`Program`] of prepared memory and timed sections, for benchmarks.
//!
//! To add a workload, write one file that creates [`Program`]s, and add one row to [`WORKLOADS`].

mod aged;
mod batch;
mod burst;
mod churn;
mod fill;
mod handover;
mod hot;
pub mod odd;
mod program;
mod published;
mod random;
mod relief;
mod rows;
mod steady;
pub mod streams;
mod today;
mod touch;

pub use batch::BATCH;
pub use burst::BURST;
pub use churn::{Churn, Mix};
pub use program::{Body, Pace, Part, Program, READS, Round, Runs, Section, Setting, Use, deal};
pub use rows::{Variant, WORKLOADS, WorkloadInfo};

use everybuddy::Size;

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Allocates into an empty slot. If the request fails, the slot stays empty and its free is skipped.
    Allocate {
        /// The slot, below [`Workload::slots`].
        slot: u32,
        /// The requested size.
        size: Size,
    },
    /// Frees what a slot holds.
    Free {
        /// The slot.
        slot: u32,
    },
    /// Passes the block in a slot to the next thread; the slot is empty afterwards.
    Hand {
        /// The slot.
        slot: u32,
    },
    /// Waits for a block from the previous thread and stores it in an empty slot.
    Receive {
        /// The slot.
        slot: u32,
    },
}

/// The steps of one thread.
pub trait Workload: Iterator<Item = Step> {
    /// Returns the number of slots that the steps use.
    fn slots(&self) -> u32;
}
