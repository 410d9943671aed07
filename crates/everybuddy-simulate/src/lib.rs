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
//! # Not modelled
//!
//! What the model of caches leaves out ([`Caches`](everybuddy_sim::Caches)). The instructions between two accesses,
//! except as an average over all systems ([`INSTRUCTIONS`](cell::INSTRUCTIONS)). Interrupts and preemption: each
//! thread has a CPU of its own. Services on CPUs of their own: a system with services runs them when a request needs
//! them. Accesses to the frames themselves.
//!
//! # Invariants
//!
//! Everything is simulated: the same plan gives the same rows on every host. Every row says so.

pub mod cell;
pub mod plan;

pub use cell::{Cell, Latency, PartTraffic};
pub use plan::{Plan, Scaling};
