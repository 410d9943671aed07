//! Machines for the simulator: their numbers, and where each number is from.
//!
//! The model of caches reads a [`Hardware`](everybuddy_sim::Hardware). A machine file contains its numbers, and a
//! source for each of them.
//!
//! | module | contents |
//! |---|---|
//! | `list` | the bundled machines; machines by name or path |
//! | `machine` | [`Machine`] |
//! | `number` | [`NUMBERS`]: key, unit and meaning of each number |
//! | `file` | machine files: reading, refusing, writing |
//! | `variation` | machines that differ from another one in one number |
//! | [`host`] | the measurement of this host |
//!
//! # Invariants
//! Every number of a [`Machine`] has a source, and [`Hardware::check`](everybuddy_sim::Hardware::check) accepts it.

mod file;
pub mod host;

mod list;
mod machine;
mod number;
mod variation;

pub use list::{all_machines, by_name_or_path, names};
pub use machine::{Machine, Source};
pub use number::{NUMBERS, Number, with};
pub use variation::{Variation, extremes, variations};
