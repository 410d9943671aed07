//! What all experiments share.
//!
//! # Purpose
//!
//! A folder of an experiment holds only what is its own.
//!
//! | file | what is there |
//! |------|---------------|
//! | [`experiment`] | the fields of an experiment's file |
//! | [`method`] | how a method is declared, what it is given, how numbers become rows |
//! | `repeats` | how often a method measures |
//! | [`figure`] | how a figure is declared |
//! | [`chart`] | panels, axes, legend, colours: what all figures draw with |
//! | [`grid`] | a table of the results, as numbers |
//!
//! # Invariants
//!
//! Nothing here knows an experiment.

pub mod chart;
pub mod experiment;
pub mod figure;
pub mod grid;
pub mod method;
mod repeats;

pub use experiment::{Experiment, Published, TableSpec};
pub use repeats::Repeats;
