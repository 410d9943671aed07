//! The costs of a pair relative to the standard buddy, here and in the source.
//!
//! # Purpose
//!
//! Microseconds of 1989 and operations of today have no common axis, but their ratios do.
//!
//! # Invariants
//!
//! Every kind of traffic has its position on the horizontal axis, in the order of the experiment. Only the first arena
//! is shown. Systems with the same options share panels.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources};
use everybuddy_measure::rows::Row;

/// The distance between points of the same kind of traffic.
const APART: f64 = 0.11;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let in_first = |source: &String| !source.contains("arena");
    let traffic: Vec<String> = sources(rows.iter()).into_iter().filter(in_first).collect();
    let mut options: Vec<&str> = Vec::new();
    for row in rows {
        if !options.contains(&row.options.as_str()) {
            options.push(&row.options);
        }
    }
    let panel =
        |options: &str, metrics: [&'static str; 2], systems: &[(usize, &str)], title: &str| {
            let mut series = Vec::new();
            for (at, system) in systems {
                let find = |source: &str, metric: &str, statistic: &str| {
                    rows.iter().find(|row| {
                        row.experiment == experiment.name
                            && row.system == *system
                            && row.options == options
                            && row.source == source
                            && row.operation == "pair"
                            && row.metric == metric
                            && row.statistic == statistic
                    })
                };
                let kinds = [
                    ("the source", metrics[0]),
                    ("operations", metrics[0]),
                    ("time", metrics[1]),
                ];
                for (own, (kind, metric)) in kinds.into_iter().enumerate() {
                    let shift = ((at * kinds.len() + own) as f64 - 2.5) * APART;
                    let (mut points, mut intervals) = (Vec::new(), Vec::new());
                    for (place, source) in traffic.iter().enumerate() {
                        let Some(row) = find(source, metric, "mean") else {
                            continue;
                        };
                        let x = place as f64 + shift;
                        let half = find(source, metric, "ci95").map_or(0.0, |row| row.value);
                        match (own, row.expected) {
                            (0, None) => continue,
                            (0, Some(expected)) => {
                                points.push((x, expected));
                                intervals.push((expected, expected));
                            }
                            _ => {
                                points.push((x, row.value));
                                intervals.push((row.value - half, row.value + half));
                            }
                        }
                    }
                    series.push(Series {
                        name: format!("{system}: {kind}"),
                        points,
                        intervals,
                        labels: Vec::new(),
                        shape: Shape::Points,
                        kind: at * kinds.len() + own,
                    });
                }
            }
            let values = series.iter().flat_map(|own| &own.points);
            Panel {
                title: format!("{title}, {options}"),
                x: Axis::of_names("traffic", traffic.clone()),
                y: Axis {
                    label: "ratio".to_string(),
                    range: chart::from_zero(values.map(|point| point.1).chain([1.0])),
                    ticks: 7,
                    base: None,
                    write: Box::new(chart::plain),
                },
                series,
                shade: None,
            }
        };
    let of = |options: &&str| {
        [
            panel(
                options,
                ["operations_over_bs", "latency_over_bs"],
                &[(0, "watermark"), (1, "delay-2")],
                "an allocation and a release, over the standard buddy's",
            ),
            panel(
                options,
                ["operations_over_watermark", "latency_over_watermark"],
                &[(1, "delay-2")],
                "an allocation and a release, over those by watermarks",
            ),
        ]
    };
    let panels: Vec<Panel> = options.iter().flat_map(of).collect();
    let note = format!("{}. Bars: 95 % over ten seeds.", experiment.source);
    chart::drawing(experiment, panels, note)
}
