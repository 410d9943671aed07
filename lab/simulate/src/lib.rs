//! Workloads and traces on simulated machines with hundreds of CPUs.
//!
//! Runs the workloads of the benchmark, and traces, on the virtual machine of `everybuddy-sim` with its model of
//! caches. Says up to how many CPUs each system scales, and which part of its metadata it waits for.
//!
//! | module | contents |
//! |---|---|
//! | [`machines`] | machines in numbers, each with its source; the measurement of this host |
//! | [`load`] | what the CPUs do |
//! | `caller` | a CPU that makes calls and measures them |
//! | `workload` | the threads of a workload |
//! | [`trace`] | a trace, and how its tasks are dealt out to CPUs |
//! | `tasks` | the tasks of a trace |
//! | `regions` | the regions that the calls of a published program are for |
//! | `services` | the services of a system, on CPUs of their own or on those that wait |
//! | `counted` | what a CPU measures |
//! | [`digest`] | digests of behaviour |
//! | [`cell`] | one system under one load with one number of CPUs |
//! | [`plan`] | all cells of a run |
//! | `jobs` | several cells at the same time |
//! | [`rows`] | the rows of a plan |
//! | [`sensitivity`] | which conclusions change with an assumption |
//! | [`timeline`] | what happened in a cell, in Perfetto's format |
//! | [`work`] | the instructions of an allocator's paths |
//!
//! # Not modelled
//! What the model of caches leaves out ([`Caches`](everybuddy_sim::Caches)). The instructions between two accesses,
//! except as an average over a path ([`Work`](work::Work)). Interrupts. Accesses to the frames themselves.
//!
//! # Invariants
//! Everything is simulated: the same plan gives the same rows on every host. Every row says so.

mod caller;
pub mod cell;
#[cfg(test)]
mod clerk;
mod counted;
pub mod digest;
pub mod jobs;
pub mod load;
pub mod machines;
pub mod plan;
mod program;
mod regions;
pub mod rows;
pub mod sensitivity;
mod services;
mod tasks;
pub mod timeline;
pub mod trace;
pub mod work;
mod workload;

pub use cell::{Cell, Latency, PartTraffic, Zones};
pub use load::Load;
pub use plan::{CellId, Plan};
pub use program::Program;
pub use rows::Scaling;
pub use services::Services;
pub use trace::Traced;
pub use workload::{Frees, Phases};
