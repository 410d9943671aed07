//! The mean and the worst number of steps of a call, by structure.
//!
//! # Purpose
//!
//! A structure with a good mean may have a bad worst case.
//!
//! # Invariants
//!
//! Every trace has its place on the horizontal axis; the steps are on a logarithmic one.

use crate::shared::chart::{self, Axis, Panel};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, side_by_side, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = || rows.iter().filter(|row| row.metric == "steps");
    let (traces, names) = (sources(own()), systems(own()));
    let panel = |operation: &str, title: &str| {
        let series = side_by_side(&names, &traces, 0.18, |name, trace| {
            let value = |statistic: &str| {
                let found = own().find(|row| {
                    row.source == trace
                        && row.name() == name
                        && row.operation == operation
                        && row.statistic == statistic
                });
                found.map(|row| row.value.max(1.0).log10())
            };
            let (mean, worst) = (value("mean")?, value("max")?);
            Some((mean, Some((mean, worst))))
        });
        let ends = series.iter().flat_map(|own| &own.intervals);
        Panel {
            title: title.to_string(),
            x: Axis::of_names("trace", traces.clone()),
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
