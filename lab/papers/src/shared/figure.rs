//! Shared by all figures: the declaration of a figure, and the series of rows.
//!
//! # Purpose
//!
//! The figures of a paper can be compared with the results here. A figure reads exported rows only, and produces
//! plain data ([`Drawing`]), which is converted to SVG or to a chart of the page.
//!
//! # Invariants
//!
//! Colours are those of Okabe and Ito, which people with any colour vision can tell apart, and
//! no series differs from another by colour alone.

pub use super::chart::Drawing;

use super::chart::{Series, Shape};
use super::experiment::Experiment;
use everybuddy_measure::rows::Row;

/// A way to draw results.
pub struct Figure {
    /// The name in an experiment's file.
    pub name: &'static str,
    /// Draws the figure.
    pub draw: fn(&Experiment, &[Row]) -> Drawing,
}

impl Figure {
    pub(crate) const fn of(name: &'static str, draw: fn(&Experiment, &[Row]) -> Drawing) -> Figure {
        Figure { name, draw }
    }
}

/// Returns the sources of some rows, in the order of the rows.
pub(crate) fn sources<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
    let mut sources: Vec<String> = Vec::new();
    for row in rows {
        if !sources.contains(&row.source) {
            sources.push(row.source.clone());
        }
    }
    sources
}

/// Returns the systems of some rows, in the order of the rows.
pub(crate) fn systems<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
    let mut names = Vec::new();
    for row in rows {
        let name = row.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The value of a point, and its interval if it has one.
pub(crate) type Point = (f64, Option<(f64, f64)>);

/// Returns a series for each system: at each source, its point is `apart` from that of the next system. `find` returns
/// the point of a system and a source.
pub(crate) fn side_by_side(
    systems: &[String],
    sources: &[String],
    apart: f64,
    find: impl Fn(&str, &str) -> Option<Point>,
) -> Vec<Series> {
    let middle = (systems.len() as f64 - 1.0) / 2.0;
    let series = systems.iter().enumerate().map(|(kind, system)| {
        let (mut points, mut intervals) = (Vec::new(), Vec::new());
        for (at, source) in sources.iter().enumerate() {
            if let Some((value, interval)) = find(system, source) {
                points.push((at as f64 + (kind as f64 - middle) * apart, value));
                intervals.extend(interval);
            }
        }
        Series {
            name: system.clone(),
            points,
            intervals,
            labels: Vec::new(),
            shape: Shape::Points,
            kind,
        }
    });
    series.collect()
}
