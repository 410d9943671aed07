//! Calls of any traffic, performed on systems without lists: timed, counted, in an arena that grows.
//!
//! The experiments of \[BL89\] run on them. What is timed is compiled here, for two compositions, and not by each
//! method.

pub mod interval;
pub mod manager;
pub mod perform;
pub mod recording;
pub mod runs;
pub mod tally;
