//! The names that most methods and figures use.
//!
//! A method begins with what is its own.
//!
//! # Invariants
//! Nothing is defined here.

pub(crate) use everybuddy::SystemSpec;
pub(crate) use everybuddy_measure::Error;
pub(crate) use everybuddy_measure::replay::outcome::{mean, median};
pub(crate) use everybuddy_measure::rows::{Row, rounded};
pub(crate) use serde::Deserialize;

pub(crate) use super::chart::{self, Axis, Drawing, Panel, Series, Shape};
pub(crate) use super::design::{About, Cell, Design, Metrics};
pub(crate) use super::experiment::Experiment;
pub(crate) use super::figure::{Chosen, distinct, position, sources, systems};
pub(crate) use super::method::{Bench, Conditions, Measure, Run, Traced, batch, refusals};
pub(crate) use super::repeats::Repeats;
pub(crate) use super::rows::{
    BASE, Columns, DIRECTIONS, MEAN, Put, directions, means_over_sources, orders, refusal_rows,
    rounds, row,
};
