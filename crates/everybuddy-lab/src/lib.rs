//! The laboratory: replays real traces of page allocation on every system, and compares them.
//!
//! Exists so that one command answers "which of these allocators, for this program?". The program
//! `everybuddy` is a thin shell around this library.
//!
//! | folder | what is there |
//! |--------|---------------|
//! | [`cmd`] | the command line: one file a subcommand |
//! | [`run`] | the replay: preparing a trace, aging memory, timing, counting |
//! | [`experiment`] | papers' experiments as data, and their claims |
//! | [`figures`] | results as pictures: one file a figure |
//! | [`export`] | results as tidy rows, in JSON lines and CSV: one file a format |
//! | [`show`] | results for people: tables, legends, progress |
//!
//! Every number that is printed or exported is defined once, in `docs/metrics.md`.
//!
//! Invariant: a command gives a whole result or an [`Error`]; files appear complete or not at all.

pub mod choice;
pub mod cmd;
mod commit;
pub mod error;
pub mod experiment;
pub mod export;
pub mod figures;
pub mod library;
pub mod processes;
pub mod run;
pub mod show;
pub mod size;
pub mod sizes;
pub mod time;

pub use error::Error;
