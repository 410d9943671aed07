//! Message buffers of 16 to 2048 bytes out of a small arena: the experiment with which \[BL89\] §5
//! compared coalescing policies.
//!
//! # Purpose
//!
//! What a policy costs, how often it refuses and how much memory it takes depend on traffic in time,
//! which no page trace of today has. A unit of 16 bytes stands for a frame; the traffic is
//! [`everybuddy_workload::streams`].
//!
//! | file | one idea |
//! |------|----------|
//! | [`recording`] | the calls, made once and performed on every manager |
//! | [`manager`] | what serves them: a buddy system, fast fits, or nothing |
//! | [`fast_fits`] | Stephenson's Cartesian tree of free blocks |
//! | [`perform`] | ways to perform: timed, counted, in an arena that grows |
//! | [`tally`] | what calls did inside |
//! | [`fit`] | the arena in which a manager refuses as often as a paper says |
//! | [`runs`] | the same, for systems by name |
//! | [`adversary`] | an order of releases that makes one coalesce as much as it can |
//! | [`interval`] | means of several seeds, and how sure they are |
//! | `rows` | their numbers as rows |
//!
//! # Invariants
//!
//! Every manager is asked the same in the same order; a request that is refused is lost, and nothing else
//! changes.

pub mod adversary;
pub mod fast_fits;
pub mod fit;
pub mod interval;
pub mod manager;
pub mod perform;
pub mod recording;
pub(crate) mod rows;
pub mod runs;
pub mod tally;
