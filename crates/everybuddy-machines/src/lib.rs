//! Machines for the simulator: their numbers, and where each number is from.
//!
//! # Purpose
//!
//! The model of caches reads a [`Hardware`](everybuddy_sim::Hardware). A machine file contains its numbers, and a
//! source for each of them.
//!
//! | module | contents |
//! |---|---|
//! | `machine` | [`Machine`], the bundled ones, machines by name or path |
//! | `number` | [`NUMBERS`]: key, unit and meaning of each number |
//! | `file` | machine files: reading, refusing, writing |
//! | [`host`] | the measurement of this host |
//!
//! # Invariants
//!
//! Every number of a [`Machine`] has a source, and [`Hardware::check`](everybuddy_sim::Hardware::check) accepts it.

mod file;
pub mod host;

mod machine;
mod number;

pub use machine::{Machine, Source, all_machines, by_name_or_path, names};
pub use number::{NUMBERS, Number};
