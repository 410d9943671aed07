//! The program: commands, tables for readers, files for other programs.
//!
//! One command answers "which of these allocators, for this program?". The binary `everybuddy` is a thin wrapper
//! around this library; the measurements are in `everybuddy_measure`.
//!
//! | folder | contents |
//! |--------|---------------|
//! | [`cmd`] | the command line: one file per subcommand |
//! | [`export`] | results as files: rows as JSON lines and CSV, the page |
//! | `run` | cells: which are finished, which are left, and what is shown of them |
//! | `sweep` | grids of cells, here and on clusters; searches |
//! | [`show`] | results for readers: tables, legends, progress |
//!
//! `docs/metrics.md` defines every number that is printed or exported.
//!
//! # Invariants
//! A command returns a complete result or an [`everybuddy_measure::Error`]; files appear completely or not at all.

pub mod cmd;
mod commit;
mod digest;
pub mod export;
pub mod left_out;
pub mod pages;
#[cfg(target_os = "linux")]
pub mod recording;
mod run;
pub mod show;
mod signals;
mod sweep;
pub mod time;
