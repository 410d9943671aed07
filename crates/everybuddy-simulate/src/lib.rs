//! Workloads on simulated machines with hundreds of CPUs.
//!
//! # Purpose
//!
//! Runs the workloads of the benchmark on the virtual machine of `everybuddy-sim`, with its model of caches, and says
//! up to how many CPUs each system scales, and which part of its metadata it waits for.
//!
//! | module | contents |
//! |---|---|
//! | [`cell`] | one system on one workload with one number of CPUs |
//! | [`plan`] | all cells of a run, and their rows |
//!
//! # Invariants
//!
//! Everything is simulated: the same plan gives the same rows on every host. Every row says so.

pub mod cell;
pub mod plan;

pub use cell::{Cell, Latency, PartTraffic};
pub use plan::{Plan, Scaling};
