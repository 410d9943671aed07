//! Shared by all figures: the series of rows.
//!
//! The figures of a paper can be compared with the results here. A figure reads exported rows only, and produces
//! plain data ([`Drawing`]), which is converted to SVG or to a chart of the page.
//!
//! # Invariants
//! Colours are those of Okabe and Ito, which people with any colour vision can tell apart, and
//! no series differs from another by colour alone.

pub use super::chart::Drawing;

use super::chart::{Bar, Series, Shape};
use super::experiment::Experiment;
use everybuddy_measure::rows::Row;

/// A way to draw the rows of an experiment.
pub(crate) type Draw = fn(&Experiment, &[Row]) -> Drawing;

/// Returns a list without what it already contains.
pub(crate) fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut known = Vec::new();
    for own in all {
        if !known.contains(&own) {
            known.push(own);
        }
    }
    known
}

/// Returns the sources of some rows, in the order of the rows.
pub(crate) fn sources<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
    let sources = distinct(rows.map(|row| &row.source));
    sources.into_iter().cloned().collect()
}

/// Returns the systems of some rows, in the order of the rows.
pub(crate) fn systems<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
    distinct(rows.map(Row::name))
}

/// The number after the `@` of a row.
pub(crate) fn position(row: &Row) -> Option<f64> {
    row.experiment.split_once('@')?.1.parse().ok()
}

/// The rows of a panel.
pub(crate) struct Chosen<'r>(Vec<&'r Row>);

impl<'r> Chosen<'r> {
    /// Chooses the rows that fit.
    pub(crate) fn new(
        rows: impl IntoIterator<Item = &'r Row>,
        fits: impl Fn(&Row) -> bool,
    ) -> Chosen<'r> {
        Chosen(rows.into_iter().filter(|row| fits(row)).collect())
    }

    /// Chooses those of a statistic.
    pub(crate) fn with(&self, statistic: &str) -> Chosen<'r> {
        Chosen::new(self.rows(), |row| row.statistic == statistic)
    }

    /// Returns the rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &'r Row> {
        self.0.iter().copied()
    }

    /// Returns the sources, in the order of the rows.
    pub(crate) fn sources(&self) -> Vec<String> {
        sources(self.rows())
    }

    /// Returns the systems, in the order of the rows.
    pub(crate) fn systems(&self) -> Vec<String> {
        systems(self.rows())
    }

    /// Returns the first row of a system, a source and a statistic.
    pub(crate) fn row(&self, system: &str, source: &str, statistic: &str) -> Option<&'r Row> {
        let is_it = |row: &&Row| row.source == source && row.statistic == statistic;
        self.rows().filter(is_it).find(|row| row.name() == system)
    }

    /// Returns the value of the first statistic, with the other two as the ends of its interval if they exist.
    pub(crate) fn bar(
        &self,
        (system, source): (&str, &str),
        [middle, least, most]: [&str; 3],
        scale: impl Fn(f64) -> f64,
    ) -> Option<Bar> {
        let find = |statistic| Some(scale(self.row(system, source, statistic)?.value));
        let value = find(middle)?;
        let ends = [least, most].map(|end| find(end).unwrap_or(value));
        Some((value, Some(ends.into())))
    }

    /// Returns the mean of a system and a source, with its confidence interval.
    pub(crate) fn mean(
        &self,
        system: &str,
        source: &str,
        scale: impl Fn(f64) -> f64,
    ) -> Option<Bar> {
        let mean = self.row(system, source, "mean")?.value;
        let half = self
            .row(system, source, "ci95")
            .map_or(0.0, |row| row.value);
        Some((scale(mean), Some((scale(mean - half), scale(mean + half)))))
    }

    /// Returns a series for each system: the points of its rows.
    pub(crate) fn curves(
        &self,
        shape: Shape,
        point: impl Fn(&Row) -> Option<(f64, f64)>,
    ) -> Vec<Series> {
        let curve = |(kind, name): (usize, String)| {
            let own = self.rows().filter(|row| row.name() == name);
            Series::new(name.clone(), kind, shape, own.filter_map(&point))
        };
        self.systems().into_iter().enumerate().map(curve).collect()
    }
}
