//! Text that several parts of the laboratory read or write: files that appear completely or not at all, files that
//! may be packed and their sums, sizes, and rows of files in `/proc`; and enums whose variants have names.
//!
//! One rule for each. Small programs use this crate too, so of other crates it depends on flate2 alone.
//!
//! # Invariants
//! No text causes a panic.

mod file;
mod lines;
mod named;
pub mod packed;
pub mod proc;
pub mod size;
pub mod sum;

pub use file::Pending;
pub use lines::{Lines, TextLine};
pub use named::by_name;
