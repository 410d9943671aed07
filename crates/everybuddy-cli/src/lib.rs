//! The program: commands, tables for people, files for programs.
//!
//! Exists so that one command answers "which of these allocators, for this program?". The program
//! `everybuddy` is a thin shell around this library; what it measures with is `everybuddy_measure`.
//!
//! | folder | what is there |
//! |--------|---------------|
//! | [`cmd`] | the command line: one file a subcommand |
//! | [`export`] | results as files: rows in JSON lines and CSV, the page |
//! | [`show`] | results for people: tables, legends, progress |
//!
//! Every number that is printed or exported is defined once, in `docs/metrics.md`.
//!
//! Invariant: a command gives a whole result or an [`everybuddy_measure::Error`]; files appear complete or not at all.

pub mod cmd;
mod commit;
pub mod export;
pub mod processes;
#[cfg(target_os = "linux")]
pub mod recording;
pub mod show;
pub mod time;
