//! Fragmentation and the number of domains over time, while programs start, run, end, and leave.
//!
//! # Purpose
//!
//! Results are compared with figure 13 of \[Spring\].
//!
//! # Invariants
//!
//! Shows every sample; both panels have the same time axis.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let panels = [
        panel(
            rows,
            "fragmentation_rate",
            "share of free frames outside blocks of 4 MiB",
            100.0,
            "fragmentation rate (%)",
        ),
        panel(
            rows,
            "domains",
            "parts of free memory, of systems that change their number",
            1.0,
            "domains",
        ),
    ];
    let note = format!("{}. Simulated, 25 CPUs; the first seed.", experiment.source);
    chart::drawing(experiment, panels.into(), note)
}

/// Returns the position of a row, in percent of the time.
fn at(row: &Row) -> Option<f64> {
    let (_, position) = row.experiment.split_once('@')?;
    let position: f64 = position.parse().ok()?;
    Some(position * 100.0)
}

fn panel(rows: &[Row], metric: &str, title: &str, factor: f64, label: &str) -> Panel {
    let own = || rows.iter().filter(move |row| row.metric == metric);
    let mut series = Vec::new();
    for (kind, name) in systems(own()).into_iter().enumerate() {
        let points: Vec<(f64, f64)> = own()
            .filter(|row| row.name() == name)
            .filter_map(|row| Some((at(row)?, row.value * factor)))
            .collect();
        let changes = points.windows(2).any(|pair| pair[0].1 != pair[1].1);
        if metric == "domains" && !changes {
            continue;
        }
        series.push(Series {
            name,
            points,
            intervals: Vec::new(),
            labels: Vec::new(),
            shape: Shape::Line,
            kind,
        });
    }
    let values = series
        .iter()
        .flat_map(|own| &own.points)
        .map(|point| point.1);
    let values = chart::from_zero(values);
    // The range in which the programs have ended and their memory is freed.
    let ends = |stage: &str| {
        let own = own().filter(move |row| row.source == stage);
        own.filter_map(at)
            .fold((f64::INFINITY, 0.0f64), |(least, most), x| {
                (least.min(x), most.max(x))
            })
    };
    let (from, to) = ends("c-end");
    let shade = (from < to).then(|| (from, to, "programs end".to_string()));
    Panel {
        title: title.to_string(),
        x: Axis {
            label: "time (% of the run)".to_string(),
            range: (0.0, 100.0),
            ticks: 10,
            base: None,
            write: Box::new(chart::plain),
        },
        y: Axis {
            label: label.to_string(),
            range: values,
            ticks: 8,
            base: None,
            write: Box::new(chart::plain),
        },
        series,
        shade,
    }
}
