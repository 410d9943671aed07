//! Measuring: what real programs asked for is asked of every system, timed and counted.
//!
//! Exists so that the program and the papers' experiments measure in the same way.
//!
//! | folder | what is there |
//! |--------|---------------|
//! | [`replay`] | the replay of traces: preparing, aging memory, timing, counting |
//! | [`bench`] | synthetic workloads on all contenders |
//! | [`rows`] | results as tidy rows |
//! | [`claim`] | what has to come out, and whether it did |
//!
//! Every number that is exported is defined once, in `docs/metrics.md`.
//!
//! Invariant: nothing here prints, and nothing here knows a command line; a measurement is whole or an [`Error`].

pub mod bench;
pub mod choice;
pub mod claim;
pub mod error;
pub mod library;
pub mod replay;
pub mod rows;
pub mod size;
pub mod sizes;

pub use error::Error;
