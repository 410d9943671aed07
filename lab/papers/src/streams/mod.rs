//! Message buffers of 16 to 2048 bytes out of a small arena: the experiment with which \[BL89\] §5
//! compared coalescing policies.
//!
//! The cost of a policy, its failure rate and its memory consumption depend on traffic in time, which today's page
//! traces do not contain. A unit of 16 bytes stands for a frame; the traffic is [`everybuddy_workload::streams`].
//!
//! | file | contents |
//! |------|----------|
//! | [`recording`] | the calls, generated once and performed on every manager |
//! | [`manager`] | the systems that serve them: a buddy system, fast fits, or none |
//! | [`fast_fits`] | Stephenson's Cartesian tree of free blocks |
//! | [`perform`] | ways to perform: timed, counted, in an arena that grows |
//! | [`tally`] | the internal events of calls |
//! | [`fit`] | the arena in which a manager fails as often as a paper reports |
//! | [`runs`] | the same, for systems by name |
//! | [`adversary`] | an order of frees that makes one of them coalesce as much as possible |
//! | [`interval`] | means over several seeds, with confidence intervals |
//! | `rows` | their numbers as rows |
//!
//! # Invariants
//! Every manager receives the same requests in the same order; a failed request is lost, and nothing else changes.

pub mod adversary;
pub mod fast_fits;
pub mod fit;
pub(crate) mod rows;
pub mod runs;

pub use everybuddy_measure::streams::{interval, manager, perform, recording, tally};
