//! The mean and the worst number of steps of a call, by structure.
//!
//! # Purpose
//!
//! A structure with a good mean may have a bad worst case.
//!
//! # Invariants
//!
//! Every trace has its place on the horizontal axis; the steps are on a logarithmic one.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = || rows.iter().filter(|row| row.metric == "steps");
    let (traces, names) = (sources(own()), systems(own()));
    let panel = |operation: &str, title: &str| {
        let mut series = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let value = |trace: &String, statistic: &str| {
                let found = own().find(|row| {
                    row.source == *trace
                        && row.name() == *name
                        && row.operation == operation
                        && row.statistic == statistic
                });
                found.map(|row| row.value.max(1.0).log10())
            };
            let shift = (at as f64 - (names.len() - 1) as f64 / 2.0) * 0.18;
            let (mut points, mut intervals) = (Vec::new(), Vec::new());
            for (place, trace) in traces.iter().enumerate() {
                if let (Some(mean), Some(worst)) = (value(trace, "mean"), value(trace, "max")) {
                    points.push((place as f64 + shift, mean));
                    intervals.push((mean, worst));
                }
            }
            series.push(Series {
                name: name.clone(),
                points,
                intervals,
                labels: Vec::new(),
                shape: Shape::Points,
                kind: at,
            });
        }
        let ends = series.iter().flat_map(|own: &Series| &own.intervals);
        Panel {
            title: title.to_string(),
            x: Axis {
                label: "trace".to_string(),
                range: (-0.5, traces.len() as f64 - 0.5),
                ticks: traces.len() + 1,
                base: None,
                write: chart::names(traces.clone()),
            },
            y: Axis {
                label: "steps".to_string(),
                range: chart::from_zero(ends.map(|interval| interval.1)),
                ticks: 6,
                base: Some(10.0),
                write: Box::new(chart::power),
            },
            series,
            shade: None,
        }
    };
    let panels = vec![panel("allocate", "an allocation"), panel("free", "a free")];
    let note = format!(
        "{}. Marks: the mean; bars end at the worst call.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}
