//! Fragmentation inside blocks, between them, and in total, for each mix of requests.
//!
//! The three panels show what a system gains inside blocks next to what it loses between them.
//!
//! # Invariants
//! Every system has the same place in each panel.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = |metric: &str| {
        let name = &experiment.name;
        Chosen::new(rows, |row| row.experiment == *name && row.metric == metric)
    };
    let all = own("total_fragmentation").with("mean");
    let (places, names) = (all.sources(), all.systems());
    let short = |source: &String| source.replace(" uniform-lifetimes", ", u.l.");
    // The unit: internal fragmentation is a ratio, the others are shares.
    let panel = |metric: &str, title: &str, label: &str, unit: f64| {
        let own = own(metric);
        let series = side_by_side(&names, &places, 0.1, |name, source| {
            own.mean(name, source, |value| value * unit)
        });
        let x = Axis::of_names("sizes of requests", places.iter().map(short).collect());
        let range = chart::around(chart::spans(&series));
        Panel::new(title, x, Axis::plain(label, range, 7), series)
    };
    let inside = "units held over units asked for";
    let between = "between blocks: free when a request is refused";
    let total = "in total: without live data when a request is refused";
    let share = "% of memory";
    let panels = [
        panel("internal_fragmentation", "inside blocks", inside, 1.0),
        panel("external_fragmentation", between, share, 100.0),
        panel("total_fragmentation", total, share, 100.0),
    ];
    let note = ". Counted. Bars: 95 % over the seeds. u.l.: uniform lifetimes.";
    chart::drawing(experiment, panels, note)
}
