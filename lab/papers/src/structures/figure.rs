//! The mean and the worst number of steps of a call, by structure.
//!
//! A structure with a good mean may have a bad worst case.
//!
//! # Invariants
//! Every trace has its place on the horizontal axis; the steps are on a logarithmic one.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = Chosen::new(rows, |row| row.metric == "steps");
    let (traces, names) = (own.sources(), own.systems());
    let panel = |operation: &str, title: &str| {
        let own = Chosen::new(own.rows(), |row| row.operation == operation);
        let series = side_by_side(&names, &traces, 0.18, |name, trace| {
            own.bar((name, trace), ["mean", "mean", "max"], |steps| {
                steps.max(1.0).log10()
            })
        });
        let x = Axis::of_names("trace", traces.clone());
        let range = chart::from_zero(chart::tops(&series));
        Panel::new(title, x, Axis::log10("steps", range, 6), series)
    };
    let panels = [panel("allocate", "an allocation"), panel("free", "a free")];
    chart::drawing(
        experiment,
        panels,
        ". Marks: the mean; bars end at the worst call.",
    )
}
