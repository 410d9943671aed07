//! The share of single frames by trace, and the share of them that a list serves.
//!
//! # Purpose
//!
//! Results are compared with figures 2 and 3 of \[iBuddy\].
//!
//! # Invariants
//!
//! Shares are per cent. A workload has no share of single frames that tells anything: it asks for nothing else.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let is_trace = |row: &&Row| !experiment.workloads.contains(&row.source);
    let of = |metric: &'static str| rows.iter().filter(move |row| row.metric == metric);
    let single: Vec<&Row> = of("single_frames").filter(is_trace).collect();
    let served: Vec<&Row> = of("service_ratio").collect();
    let panels = vec![
        panel(
            &single,
            "requests for a single frame",
            "of the requests (%)",
            2,
        ),
        panel(
            &served,
            "served by the CPU's list",
            "of the calls for single frames (%)",
            0,
        ),
    ];
    let note = format!("{}. Counted.", experiment.source);
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &[&Row], title: &str, label: &str, first: usize) -> Panel {
    let names = sources(rows.iter().copied());
    let series = systems(rows.iter().copied())
        .into_iter()
        .enumerate()
        .map(|(kind, name)| {
            let own = rows.iter().filter(|row| row.name() == name);
            let place = |row: &Row| names.iter().position(|known| *known == row.source);
            Series {
                points: own
                    .filter_map(|row| Some((place(row)? as f64, 100.0 * row.value)))
                    .collect(),
                name,
                intervals: Vec::new(),
                labels: Vec::new(),
                shape: Shape::Points,
                kind: first + kind,
            }
        });
    let series: Vec<Series> = series.collect();
    let least = rows.iter().map(|row| 100.0 * row.value).fold(0.0, f64::min);
    Panel {
        title: title.to_string(),
        x: Axis {
            label: "trace or workload".to_string(),
            range: (-0.5, names.len() as f64 - 0.5),
            ticks: names.len(),
            base: None,
            write: chart::names(names.clone()),
        },
        y: Axis {
            label: label.to_string(),
            range: (least * 1.08, 105.0),
            ticks: 8,
            base: None,
            write: Box::new(chart::plain),
        },
        series,
        shade: None,
    }
}
