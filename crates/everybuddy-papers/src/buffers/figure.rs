//! The miss rate of lists over their residual: a curve of fixed lengths, and rings for other lists.
//!
//! # Purpose
//!
//! The figure compares an adaptive list with all fixed lists. Below the curve it is better than any of them; on the
//! curve, adapting has no benefit.
//!
//! # Invariants
//!
//! A curve connects the fixed lists of one source by increasing length. Both axes are logarithmic, so zeros are
//! omitted.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use crate::shared::method::{DIRECTIONS, MEAN};
use everybuddy_measure::rows::Row;

/// The number of sources, besides the mean, up to which each has its own curve: more would overlap.
const MOST: usize = 4;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let mut names = sources(rows.iter());
    names.retain(|name| name != MEAN);
    names.truncate(if names.len() > MOST { 0 } else { MOST });
    // Last, so that it is drawn on top.
    names.push(MEAN.to_string());
    let panels: Vec<Panel> = DIRECTIONS
        .iter()
        .zip(["allocations", "frees"])
        .map(|(operation, title)| panel(rows, &names, operation, title))
        .collect();
    let note = format!(
        "{}. Lines: lists of a fixed length; rings: lists that adapt themselves; both named next to the mean.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &[Row], names: &[String], operation: &str, title: &str) -> Panel {
    let mut series = Vec::new();
    for (at, source) in names.iter().enumerate() {
        let is_mean = source == MEAN;
        let kind = if is_mean { 0 } else { at + 1 };
        let own = || {
            let own = rows.iter().filter(|row| row.source == *source);
            own.filter(|row| row.operation == operation)
        };
        let number = |system: &str, metric| {
            let mut all = own().filter(|row| row.name() == system && row.metric == metric);
            let found = all.find(|row| row.statistic != "count");
            found.map(|row| row.value).filter(|value| *value > 0.0)
        };
        let point = |system: &str| {
            let (left, missed) = (number(system, "residual")?, number(system, "miss_rate")?);
            Some((left.log10(), (missed * 100.0).log10()))
        };
        let all = systems(own());
        let mut fixed: Vec<(u32, (f64, f64))> = all
            .iter()
            .filter_map(|system| Some((length(system)?, point(system)?)))
            .collect();
        fixed.sort_by_key(|own| own.0);
        series.push(Series {
            name: source.clone(),
            points: fixed.iter().map(|own| own.1).collect(),
            intervals: Vec::new(),
            labels: match is_mean {
                true => fixed.iter().map(|own| own.0.to_string()).collect(),
                false => Vec::new(),
            },
            shape: Shape::Interval,
            kind,
        });
        let adapting = all.iter().filter(|system| length(system).is_none());
        let rings: Vec<(String, (f64, f64))> = adapting
            .filter_map(|system| Some((system.clone(), point(system)?)))
            .collect();
        series.push(Series {
            name: source.clone(),
            points: rings.iter().map(|own| own.1).collect(),
            intervals: Vec::new(),
            labels: match is_mean {
                true => rings.into_iter().map(|own| own.0).collect(),
                false => Vec::new(),
            },
            shape: Shape::Ring,
            kind,
        });
    }
    let points = || series.iter().flat_map(|own| &own.points);
    Panel {
        title: title.to_string(),
        x: Axis {
            label: "frames left when a run ends".to_string(),
            range: chart::around(points().map(|point| point.0)),
            ticks: 8,
            base: Some(10.0),
            write: Box::new(chart::power),
        },
        y: Axis {
            label: "requests that miss (%)".to_string(),
            range: chart::around(points().map(|point| point.1)),
            ticks: 8,
            base: Some(10.0),
            write: Box::new(chart::power),
        },
        series,
        shade: None,
    }
}

/// Returns the length of a fixed list, from its name.
fn length(system: &str) -> Option<u32> {
    let mut options = system.split('+').skip(1);
    options.find_map(|option| option.strip_prefix("high=")?.parse().ok())
}
