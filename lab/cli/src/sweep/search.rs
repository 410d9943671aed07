//! A search for the best options, by Optuna.
//!
//! Optuna proposes systems with options, this program runs their cells, and Optuna learns from the numbers.
//!
//! # Invariants
//! The proposals depend on the grid, the search and the numbers alone, not on what runs the cells. A cell that is
//! finished is not run again, so a search that is repeated takes no time, and one that was interrupted continues.

use std::collections::BTreeMap;

use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::rows::Row;
use serde_json::{Value, json};

use super::cell::Cell;
use super::grid::Grid;
use super::measure::{Bound, Measure};
use crate::run::driver::Driver;
use crate::run::elsewhere::Failure;
use crate::show::systems;

/// The program that asks Optuna.
const OPTUNA: &str = include_str!("../../python/_search.py");

/// What is searched for.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// The number that shall be small, or large.
    pub(crate) goal: Measure,
    /// Whether it shall be large.
    pub(crate) is_maximized: bool,
    /// The bounds.
    pub(crate) bounds: Vec<Bound>,
    /// The number of proposals.
    pub(crate) trials: u32,
    /// How many of them are made before their numbers are known.
    pub(crate) batch: u32,
    /// The seed.
    pub(crate) seed: u64,
}

/// The numbers of a system.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundSystem {
    /// The system, with its options.
    pub(crate) system: String,
    /// The mean of the goal over all cells.
    pub(crate) value: f64,
    /// The worst value of each bounded number.
    pub(crate) bounded: Vec<f64>,
}

/// What a search has tried.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// The systems that could be measured, by name.
    pub(crate) found: BTreeMap<String, FoundSystem>,
    /// The systems that could not, and why.
    pub(crate) failed: BTreeMap<String, Failure>,
}

/// What runs cells: returns the rows of each, or why a cell has none.
pub(crate) type Rows<'r> = dyn FnMut(&[Cell]) -> Result<Vec<Result<Vec<Row>, Failure>>, Error> + 'r;

impl Search {
    /// Runs the search. Calls `tried` with each system that was proposed.
    ///
    /// # Errors
    /// A usage error if Python or Optuna is missing, or if no system has the numbers of the search; and the [`Error`]
    /// of `rows`.
    pub(crate) fn run(
        &self,
        grid: &Grid,
        python: &str,
        rows: &mut Rows<'_>,
        tried: &mut dyn FnMut(&str),
    ) -> Result<Results, Error> {
        let option = if self.is_maximized {
            "--maximize"
        } else {
            "--minimize"
        };
        let space = self.space(grid)?;
        let mut driver = Driver::start(option, python, OPTUNA, &space.to_string(), "optuna")?;
        let mut results = Results::default();
        loop {
            let answer = driver.receive()?;
            let Some(trials) = answer["trials"].as_array() else {
                return Ok(results);
            };
            let names: Vec<String> = trials.iter().map(system).collect();
            self.measure(grid, &names, rows, &mut results)?;
            let mut values = Vec::new();
            for (trial, name) in trials.iter().zip(&names) {
                tried(name);
                let number = &trial["number"];
                values.push(match results.found.get(name) {
                    None => json!({ "number": number }),
                    Some(found) => json!({
                        "number": number,
                        "value": found.value,
                        "excesses": self.excesses(found),
                    }),
                });
            }
            driver.send(&json!({ "values": values }))?;
        }
    }

    /// Describes the search and its space for Optuna.
    fn space(&self, grid: &Grid) -> Result<Value, Error> {
        let mut systems = Vec::new();
        for name in &grid.systems {
            let options = grid.options_of(name)?.into_iter();
            let options =
                options.map(|(key, choice)| json!({ "key": key, "values": choice.to_json() }));
            systems.push(json!({ "name": name, "options": options.collect::<Vec<_>>() }));
        }
        Ok(json!({
            "systems": systems,
            "trials": self.trials,
            "batch": self.batch,
            "seed": self.seed,
            "direction": if self.is_maximized { "maximize" } else { "minimize" },
        }))
    }

    /// Measures the systems that are not known yet.
    fn measure(
        &self,
        grid: &Grid,
        names: &[String],
        rows: &mut Rows<'_>,
        results: &mut Results,
    ) -> Result<(), Error> {
        let mut new: Vec<(String, Vec<Cell>)> = Vec::new();
        for name in names {
            let is_known = results.found.contains_key(name) || results.failed.contains_key(name);
            if is_known || new.iter().any(|own| own.0 == *name) {
                continue;
            }
            match check(name) {
                Ok(()) => {
                    let cells = grid.cells(std::slice::from_ref(name))?;
                    new.push((name.clone(), cells));
                }
                Err(error) => {
                    results
                        .failed
                        .insert(name.clone(), Failure::new(error.to_string()));
                }
            }
        }
        let cells: Vec<Cell> = new.iter().flat_map(|own| own.1.iter().cloned()).collect();
        let mut all = rows(&cells)?.into_iter();
        let mut missing = None;
        for (name, cells) in new {
            // All cells of the system, although one may have failed: the next ones are of the next system.
            let own: Vec<Result<Vec<Row>, Failure>> = all.by_ref().take(cells.len()).collect();
            let own: Result<Vec<Vec<Row>>, Failure> = own.into_iter().collect();
            match own {
                Ok(own) => match self.found(&name, &own) {
                    Ok(found) => drop(results.found.insert(name, found)),
                    Err(what) => {
                        results.failed.insert(name, Failure::new(&what));
                        missing.get_or_insert(what);
                    }
                },
                // What a check of the program found is not a property of the options.
                Err(failure) if failure.is_check => return Err(failure.error()),
                Err(failure) => {
                    results.failed.insert(name, failure);
                }
            }
        }
        // Some systems lack a number. If all lack it, it is misspelt, or another command has it.
        match missing {
            Some(what) if results.found.is_empty() => Err(Error::usage(what)),
            _ => Ok(()),
        }
    }

    /// Returns the numbers of a system, from the rows of its cells.
    ///
    /// # Errors
    /// Which number does not exist.
    fn found(&self, system: &str, cells: &[Vec<Row>]) -> Result<FoundSystem, String> {
        let mut sum = 0.0;
        let mut bounded: Vec<Option<f64>> = vec![None; self.bounds.len()];
        for rows in cells {
            sum += self.goal.value(rows, system)?;
            for (bound, worst) in self.bounds.iter().zip(&mut bounded) {
                let value = bound.measure.value(rows, system)?;
                *worst = Some(worst.map_or(value, |worst| bound.worse(worst, value)));
            }
        }
        Ok(FoundSystem {
            system: system.to_string(),
            value: sum / cells.len() as f64,
            bounded: bounded.into_iter().flatten().collect(),
        })
    }

    /// Returns how far the numbers of a system are beyond the bounds.
    fn excesses(&self, found: &FoundSystem) -> Vec<f64> {
        let pairs = self.bounds.iter().zip(&found.bounded);
        pairs.map(|(bound, value)| bound.excess(*value)).collect()
    }

    /// Returns the systems that keep all bounds, the best first; of equal ones, the first by name.
    pub(crate) fn ranked<'f>(&self, results: &'f Results) -> Vec<&'f FoundSystem> {
        let is_met =
            |found: &&FoundSystem| self.excesses(found).iter().all(|excess| *excess <= 0.0);
        let mut all: Vec<&FoundSystem> = results.found.values().filter(is_met).collect();
        all.sort_by(|one, other| {
            if self.is_maximized {
                other.value.total_cmp(&one.value)
            } else {
                one.value.total_cmp(&other.value)
            }
        });
        all
    }
}

/// Returns the system that Optuna proposes, in its usual form if it is possible.
fn system(trial: &Value) -> String {
    let mut name = trial["system"].as_str().unwrap_or_default().to_string();
    for option in trial["options"].as_array().into_iter().flatten() {
        let key = option["key"].as_str().unwrap_or_default();
        name += &match &option["value"] {
            Value::String(value) => format!("+{key}={value}"),
            value => format!("+{key}={value}"),
        };
    }
    choice::one(&name).map_or(name, |spec| spec.to_string())
}

/// Checks that a system can be built.
///
/// # Errors
/// A usage error if its options exclude each other.
fn check(system: &str) -> Result<(), Error> {
    systems::built(&choice::one(system)?).map(drop)
}
