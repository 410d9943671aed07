//! The state of a Linux machine's page allocator: its free blocks, and the requests that they serve.
//!
//! Users ask which large blocks a machine still has. The answer is in `/proc`, in copies of its files, or in the tables
//! that the kernel logs when an allocation fails. This crate reads all of them into one model.
//!
//! | step | item | result |
//! |------|------|--------|
//! | read the machine | [`live::read`] | one [`State`] |
//! | read files | [`read::Reader`] | every [`State`] that they contain, as a stream |
//! | all inputs of a run | [`files::read`] | their states, and which frames are free |
//! | add frames | [`attach`], with the flags that [`frames`] reads | windows per zone, and what holds blocks |
//! | answer | [`answer::of_zone`] | free blocks by order, and which requests may use them |
//! | describe a request | [`Request`](request::Request) | its zones, nodes and classes, and what zones keep from it |
//! | decide | [`need::decide`] | whether a number of blocks is there, with an exit code |
//! | fuzz | [`fuzz_checks`] | rules for every text |
//! | over time | [`history`] | lines of JSON, and a page that draws them |
//! | in a browser | [`paste::answer`] | the same answers as HTML |
//! | print | [`show`] | a table, JSON, or metrics for Prometheus |
//!
//! [`command`] is the command line of `everybuddy memory` and of the program `everybuddy-memory`.
//!
//! # Invariants
//! A value that the input does not contain is `None`. No input causes a panic.

pub mod answer;
pub mod attach;
pub mod command;
pub mod error;
pub mod explain;
#[cfg(target_arch = "wasm32")]
mod exports;
pub mod files;
pub mod frames;
pub mod fuzz_checks;
pub mod history;
pub mod inputs;
pub mod live;
pub mod need;
pub mod paste;
pub mod read;
pub mod request;
pub mod show;
pub mod state;
pub mod usage;

pub use error::{MemoryError, Problem};
pub use state::{State, Zone};
