//! The numbers that a claim applies to: rows, found and joined.
//!
//! A claim names a metric, a statistic, operations, sources and systems. Only this module searches their rows.
//!
//! # Invariants
//! A number's interval contains the number.

use super::{Claim, Kind};
use crate::bench::ratio::Ratio;
use crate::rows::Row;

/// A number with the interval of its rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Number {
    /// Returns a number without an interval.
    pub(super) fn exact(value: f64) -> Number {
        let (least, most) = (value, value);
        Number { value, least, most }
    }

    /// Forms the ratio of two numbers.
    pub(super) fn over(self, other: Number) -> Number {
        Number {
            value: self.value / other.value,
            least: self.least / other.most,
            most: self.most / other.least,
        }
    }

    /// Forms the difference of two numbers.
    pub(super) fn minus(self, other: Number) -> Number {
        Number {
            value: self.value - other.value,
            least: self.least - other.most,
            most: self.most - other.least,
        }
    }
}

/// One case of a claim: the operation, the source, the number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell<'f> {
    pub(super) operation: &'f str,
    pub(super) source: &'f str,
    pub(super) cpus: u16,
}

/// Finds the rows that a claim applies to.
pub(super) struct Finder<'f> {
    pub(super) claim: &'f Claim,
    pub(super) experiment: &'f str,
    pub(super) rows: &'f [Row],
}

impl<'f> Finder<'f> {
    /// Returns the cells, by operation and in the order of the rows.
    pub(super) fn cells(&self) -> Vec<Cell<'f>> {
        let claim = self.claim;
        // A benchmark omits what a system does not support; an experiment lacks a number then.
        let only_own = claim.kind == Kind::Bound || !claim.rivals.is_empty();
        let is_meant = |row: &&Row| {
            row.experiment == self.experiment
                && row.metric == claim.metric
                && row.statistic == claim.statistic
                && row.order == claim.order
                && (claim.sources.is_empty() || claim.sources.contains(&row.source))
                && claim.cpus.is_none_or(|cpus| cpus == row.cpus)
                && (!only_own || claim.systems.is_empty() || claim.systems.contains(&row.name()))
        };
        let mut cells: Vec<Cell<'f>> = Vec::new();
        for operation in claim.operation.list() {
            let rows = self.rows.iter().filter(is_meant);
            for row in rows.filter(|row| row.operation == operation) {
                let cell = Cell {
                    operation: row.operation,
                    source: &row.source,
                    cpus: row.cpus,
                };
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
        }
        cells
    }

    /// Returns the sources that the claim names but no row has.
    pub(super) fn missing(&self, cells: &[Cell<'_>]) -> Vec<&'f str> {
        let has = |source: &&String| !cells.iter().any(|cell| cell.source == *source);
        if self.claim.kind == Kind::Bound || !self.claim.rivals.is_empty() {
            Vec::new()
        } else {
            self.claim
                .sources
                .iter()
                .filter(has)
                .map(String::as_str)
                .collect()
        }
    }

    /// Returns `true` if a cell is about a source and an operation.
    pub(super) fn is_at(&self, cell: &Cell<'_>, source: &str, operation: &str) -> bool {
        cell.source == source && cell.operation == operation
    }

    /// Returns `true` if a system has a row with a statistic.
    pub(super) fn has(&self, system: &str, cell: Cell<'_>, statistic: &str) -> bool {
        self.row_of(system, cell, statistic).is_some()
    }

    /// Returns the systems in the rows of a cell, in the order of the rows. What measuring itself costs is not a
    /// system: a claim names it, or is not about it.
    pub(super) fn systems(&self, cell: Cell<'_>) -> Vec<String> {
        let statistic = &self.claim.statistic;
        let mut names: Vec<String> = Vec::new();
        for row in self.rows {
            let is_own = self.is_in(row, cell, &self.claim.metric, statistic);
            if is_own && row.is_of_system() && !names.contains(&row.name()) {
                names.push(row.name());
            }
        }
        names
    }

    fn is_in(&self, row: &Row, cell: Cell<'_>, metric: &str, statistic: &str) -> bool {
        row.experiment == self.experiment
            && row.metric == metric
            && row.statistic == statistic
            && row.operation == cell.operation
            && row.source == cell.source
            && row.cpus == cell.cpus
    }

    fn row_of(&self, system: &str, cell: Cell<'_>, statistic: &str) -> Option<&'f Row> {
        let is_own = |row: &&Row| {
            self.is_in(row, cell, &self.claim.metric, statistic)
                && row.order == self.claim.order
                && row.name() == system
        };
        self.rows.iter().find(is_own)
    }

    /// Returns the row of a system.
    pub(super) fn row(&self, system: &str, cell: Cell<'_>) -> Option<&'f Row> {
        self.row_of(system, cell, &self.claim.statistic)
    }

    /// Returns the cost of a system; see [`Claim::against`].
    pub(super) fn price(&self, system: &str, cell: Cell<'_>) -> Option<f64> {
        let metric = self.claim.against.as_deref()?;
        let is_own = |row: &&Row| self.is_in(row, cell, metric, "mean") && row.name() == system;
        self.rows.iter().find(is_own).map(|row| row.value)
    }

    /// Returns the number of a system, with the interval of its rounds.
    pub(super) fn number(&self, system: &str, cell: Cell<'_>) -> Option<Number> {
        let value = self.row(system, cell)?.value;
        // Medians of rounds have a minimum and a maximum.
        let end = |statistic| {
            let row = self.row_of(system, cell, statistic);
            row.filter(|_| self.claim.statistic == "p50")
                .map(|row| row.value)
        };
        // Means of rounds have their own rows.
        let means: Vec<f64> = if self.claim.statistic == "mean" {
            self.rounds(system, cell, "mean")
                .into_iter()
                .map(|own| own.1)
                .collect()
        } else {
            Vec::new()
        };
        let all = || means.iter().copied().chain(end("min")).chain(end("max"));
        Some(Number {
            value,
            least: all().fold(value, f64::min),
            most: all().fold(value, f64::max),
        })
    }

    /// Returns the ratio of two systems, formed within each round.
    pub(super) fn paired(&self, own: &str, other: &str, cell: Cell<'_>) -> Option<Number> {
        let rounds = |system| -> Vec<f64> {
            let rounds = self.rounds(system, cell, "value");
            rounds.into_iter().map(|own| own.1).collect()
        };
        let Ratio {
            median,
            least,
            most,
        } = Ratio::of(&rounds(own), &rounds(other))?;
        let value = median;
        Some(Number { value, least, most })
    }

    /// Returns `true` if a system had a round with only disturbed sections, or its row is missing.
    pub(super) fn is_disturbed(&self, system: &str, cell: Cell<'_>) -> bool {
        let is_own = |row: &&Row| {
            row.experiment == self.experiment
                && row.metric == "rounds_disturbed"
                && row.source == cell.source
                && row.cpus == cell.cpus
                && row.name() == system
        };
        self.rows
            .iter()
            .find(is_own)
            .is_some_and(|row| row.value > 0.0)
    }

    /// Returns the numbers of the rounds with their own rows, and the names of the rounds.
    pub(super) fn rounds(
        &self,
        system: &str,
        cell: Cell<'_>,
        statistic: &str,
    ) -> Vec<(&'f str, f64)> {
        let claim = self.claim;
        let round = |row: &'f Row| {
            let (experiment, round) = row.experiment.split_once('@')?;
            let is_own = experiment == self.experiment
                && row.metric == claim.metric
                && row.statistic == statistic
                && row.operation == cell.operation
                && row.source == cell.source
                && row.cpus == cell.cpus
                && row.order == claim.order
                && row.name() == system;
            is_own.then_some((round, row.value))
        };
        self.rows.iter().filter_map(round).collect()
    }
}

/// Formats about three digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v != 0.0 && v < 0.000_095 => format!("{value:.0e}"),
        v if v != 0.0 && v < 0.00995 => format!("{value:.5}"),
        v if v != 0.0 && v < 0.0995 => format!("{value:.3}"),
        v if v < 9.95 => format!("{value:.2}"),
        v if v < 99.5 => format!("{value:.1}"),
        v if v < 1e6 => format!("{value:.0}"),
        _ => format!("{value:.3e}"),
    }
}
