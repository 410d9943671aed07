//! Code shared by all experiments.
//!
//! The directory of an experiment contains only what is specific to it.
//!
//! | file | contents |
//! |------|---------------|
//! | [`experiment`] | the fields of an experiment's file |
//! | [`design`] | the cells that a method measures, and what follows from them |
//! | [`method`] | the declaration of a method, its input, its tools |
//! | `prelude` | the names that most experiments use |
//! | `rows` | the conversion of numbers to rows |
//! | `blocks` | the blocks of a trace |
//! | `repeats` | the number of repetitions |
//! | [`figure`] | the series of rows |
//! | `layout` | figures that are data |
//! | [`chart`] | panels, axes, legend, colours |
//! | [`grid`] | a table of the results, as numbers |
//!
//! # Invariants
//! Nothing here depends on an experiment.

pub(crate) mod blocks;
pub mod chart;
pub mod design;
pub mod experiment;
pub mod figure;
pub mod grid;
pub(crate) mod layout;
pub mod method;
pub(crate) mod prelude;
mod repeats;
pub(crate) mod rows;

pub use experiment::{Experiment, Published, TableSpec};
pub use repeats::Repeats;
