//! The costs of a pair relative to the standard buddy, here and in the source.
//!
//! Microseconds of 1989 and operations of today have no common axis, but their ratios do.
//!
//! # Invariants
//! Every kind of traffic has its position on the horizontal axis, in the order of the experiment. Only the first arena
//! is shown. Systems with the same options share panels.

use crate::shared::prelude::*;

/// The distance between points of the same kind of traffic.
const APART: f64 = 0.11;

/// The systems, in the order of their colours.
const SYSTEMS: [&str; 2] = ["watermark", "delay-2"];

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    // Other fits of fixed costs have sources without counts.
    let counted = rows.iter().filter(|row| row.metric == "operations");
    let in_first = |source: &String| !source.contains("arena");
    let traffic: Vec<String> = sources(counted).into_iter().filter(in_first).collect();
    let panel = |options: &str, base: &str, systems: std::ops::Range<usize>, title: &str| {
        let [operations, times] =
            ["operations", "latency"].map(|what| format!("{what}_over_{base}"));
        let kinds = [
            ("the source", &operations),
            ("operations", &operations),
            ("time", &times),
        ];
        let mut series = Vec::new();
        for at in systems {
            let system = SYSTEMS[at];
            for (own, (kind, metric)) in kinds.into_iter().enumerate() {
                let colour = at * kinds.len() + own;
                let found = Chosen::new(rows, |row| {
                    row.experiment == experiment.name
                        && row.system == system
                        && row.options == options
                        && row.operation == "pair"
                        && row.metric == *metric
                });
                let bars = traffic.iter().enumerate().filter_map(|(place, source)| {
                    let x = place as f64 + (colour as f64 - 2.5) * APART;
                    let here = Chosen::new(found.rows(), |row| row.source == *source);
                    let row = here.with("mean").rows().next()?;
                    if own == 0 {
                        let expected = row.expected?;
                        return Some((x, (expected, Some((expected, expected)))));
                    }
                    Some((x, here.mean(&row.name(), source, |ratio| ratio)?))
                });
                let name = format!("{system}: {kind}");
                series.push(Series::of_bars(name, colour, Shape::Points, bars));
            }
        }
        let x = Axis::of_names("traffic", traffic.clone());
        let range = chart::from_zero(chart::heights(&series).chain([1.0]));
        let title = format!("an allocation and a release, over {title}, {options}");
        Panel::new(title, x, Axis::plain("ratio", range, 7), series)
    };
    let options = distinct(rows.iter().map(|row| &row.options));
    let panels = options.into_iter().flat_map(|options| {
        [
            panel(options, "bs", 0..2, "the standard buddy's"),
            panel(options, "watermark", 1..2, "those by watermarks"),
        ]
    });
    chart::drawing(experiment, panels, ". Bars: 95 % over ten seeds.")
}
