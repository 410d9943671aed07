//! Fragmentation inside blocks, between them, and in total, for each mix of requests.
//!
//! # Purpose
//!
//! The three panels show what a system gains inside blocks next to what it loses between them.
//!
//! # Invariants
//!
//! Every system has the same place in each panel.

use crate::shared::chart::{self, Axis, Panel};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, side_by_side, sources, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = |metric: &'static str, statistic: &'static str| {
        rows.iter().filter(move |row| {
            row.experiment == experiment.name && row.metric == metric && row.statistic == statistic
        })
    };
    let places = sources(own("total_fragmentation", "mean"));
    let labels = places
        .iter()
        .map(|source| source.replace(" uniform-lifetimes", ", u.l."));
    let labels: Vec<String> = labels.collect();
    let names = systems(own("total_fragmentation", "mean"));
    // The unit: internal fragmentation is a ratio, the others are shares.
    let panel = |metric: &'static str, title: &str, label: &str, unit: f64| {
        let series = side_by_side(&names, &places, 0.1, |name, source| {
            let find = |statistic| {
                let row = own(metric, statistic)
                    .find(|row| row.name() == name && row.source == source)?;
                Some(row.value)
            };
            let (mean, half) = (find("mean")?, find("ci95").unwrap_or(0.0));
            Some((
                mean * unit,
                Some(((mean - half) * unit, (mean + half) * unit)),
            ))
        });
        let ends = series.iter().flat_map(|own| &own.intervals);
        Panel {
            title: title.to_string(),
            x: Axis::of_names("sizes of requests", labels.clone()),
            y: Axis {
                label: label.to_string(),
                range: chart::around(ends.flat_map(|end| [end.0, end.1])),
                ticks: 7,
                base: None,
                write: Box::new(chart::plain),
            },
            series,
            shade: None,
        }
    };
    let panels = vec![
        panel(
            "internal_fragmentation",
            "inside blocks",
            "units held over units asked for",
            1.0,
        ),
        panel(
            "external_fragmentation",
            "between blocks: free when a request is refused",
            "% of memory",
            100.0,
        ),
        panel(
            "total_fragmentation",
            "in total: without live data when a request is refused",
            "% of memory",
            100.0,
        ),
    ];
    let note = format!(
        "{}. Counted. Bars: 95 % over the seeds. u.l.: uniform lifetimes.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}
