//! The miss rate of lists over their residual: a curve of fixed lengths, dots for fixed lists with larger batches, and
//! rings for other lists.
//!
//! The figure compares an adaptive list with all fixed lists. Below the curve and the dots it is better than any of
//! them; among them, adapting has no benefit.
//!
//! # Invariants
//! A curve connects the fixed lists of one source that move a sixth of their length, by increasing length. Both axes
//! are logarithmic, so zeros are omitted.

use crate::shared::prelude::*;

/// The number of sources, besides the mean, up to which each has its own curve: more would overlap.
const MOST: usize = 4;
/// The colour of the fixed lists that move more than a sixth of their length.
const DOTS: usize = 6;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    // What was chosen elsewhere has the point of one of the other lists.
    let rows = Chosen::new(rows, |row| !experiment.others.contains(&row.name()));
    let mut names = rows.sources();
    names.retain(|name| name != MEAN);
    names.truncate(if names.len() > MOST { 0 } else { MOST });
    // Last, so that it is drawn on top.
    names.push(MEAN.to_string());
    let panels = DIRECTIONS.iter().zip(["allocations", "frees"]);
    let panels = panels.map(|(operation, title)| panel(&rows, &names, operation, title));
    let note = ". Lines: fixed lists that move a sixth of their length; dots: more of it; rings: lists that adapt \
                themselves. Names: the mean.";
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &Chosen<'_>, names: &[String], operation: &str, title: &str) -> Panel {
    let mut series = Vec::new();
    for (at, source) in names.iter().enumerate() {
        let is_mean = source == MEAN;
        let own = Chosen::new(rows.rows(), |row| {
            row.source == *source && row.operation == operation
        });
        let number = |system: &str, metric| {
            let mut all = own
                .rows()
                .filter(|row| row.name() == system && row.metric == metric);
            let found = all.find(|row| row.statistic != "count");
            found.map(|row| row.value).filter(|value| *value > 0.0)
        };
        let point = |system: &str| {
            let (left, missed) = (number(system, "residual")?, number(system, "miss_rate")?);
            Some((left.log10(), (missed * 100.0).log10()))
        };
        let mut add = |kind: Kind, name: &str, colour, shape| {
            let all = own
                .systems()
                .into_iter()
                .filter(|system| Kind::of(system) == kind);
            let named = all.filter_map(|system| Some((label(&system), point(&system)?)));
            let (labels, points): (Vec<String>, Vec<_>) = named.unzip();
            series.push(Series {
                labels: if is_mean && shape != Shape::Points {
                    labels
                } else {
                    Vec::new()
                },
                ..Series::new(name, colour, shape, points)
            });
        };
        let colour = if is_mean { 0 } else { at + 1 };
        add(Kind::Sixth, source, colour, Shape::Interval);
        // Other sources only show the curve and the rings: their dots would hide both.
        if is_mean {
            let name = format!("{source}, larger batches");
            add(Kind::Fixed, &name, DOTS, Shape::Points);
        }
        add(Kind::Adapting, source, colour, Shape::Ring);
    }
    let (across, up) = (chart::widths(&series), chart::heights(&series));
    let x = Axis::log10("frames left when a run ends", chart::around(across), 8);
    let y = Axis::log10("requests that miss (%)", chart::around(up), 8);
    Panel::new(title, x, y, series)
}

/// A kind of list, from its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Fixed, and a sixth of its length moves.
    Sixth,
    /// Fixed, and more of its length moves.
    Fixed,
    /// It adapts itself.
    Adapting,
}

impl Kind {
    fn of(system: &str) -> Kind {
        match (option(system, "batch="), option(system, "high=")) {
            (Some(batch), Some(high)) if high >= 5 * batch => Kind::Sixth,
            (Some(_), Some(_)) => Kind::Fixed,
            _ => Kind::Adapting,
        }
    }
}

/// Returns the text next to a point: the length of a fixed list, the option of a variant of `spring`, the name of
/// another.
fn label(system: &str) -> String {
    let name = system.strip_prefix("spring+").unwrap_or(system);
    option(system, "high=").map_or_else(|| name.to_string(), |length| length.to_string())
}

/// Returns the value of an option, from the name of a system.
fn option(system: &str, key: &str) -> Option<u32> {
    let mut options = system.split('+').skip(1);
    options.find_map(|option| option.strip_prefix(key)?.parse().ok())
}
