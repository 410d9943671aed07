//! Measurements: the requests of real programs are replayed on every system, timed and counted.
//!
//! The program and the papers' experiments measure in the same way.
//!
//! | folder | contents |
//! |--------|---------------|
//! | [`replay`] | the replay of traces: preparation, aging of memory, timing, counting |
//! | [`mod@bench`] | synthetic workloads on all contenders |
//! | [`refusals`] | requests and refusals by order |
//! | [`mod@touched`] | real memory behind the frames |
//! | [`rows`] | results as tidy rows |
//! | [`claim`] | claims and their verdicts |
//! | [`answer`] | the systems that no other one beats |
//! | [`advise`] | whether the allocator is a machine's problem, and what Linux's own setting would change |
//!
//! `docs/metrics.md` defines every exported number.
//!
//! # Invariants
//! This crate never prints, and does not depend on a command line. A measurement is complete or an [`Error`].

pub mod advise;
pub mod answer;
pub mod bench;
pub mod choice;
pub mod claim;
pub mod error;
pub mod library;
pub mod refusals;
pub mod replay;
pub mod rows;
pub mod size;
pub mod sizes;
pub mod streams;
pub mod touched;

pub use error::Error;
