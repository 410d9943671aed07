//! Calls per second over the number of CPUs, for each workload.
//!
//! The figure shows where a system stops scaling, and how far it gets until then.
//!
//! # Invariants
//! Both axes are logarithmic, so a system that scales is a straight line. Only first readings are drawn, and of the
//! systems only those that the experiment's file names under `drawn`, if it names any.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let drawn = &experiment.drawn;
    let own = Chosen::new(rows, |row| {
        let is_drawn = || drawn.is_empty() || drawn.contains(&row.name());
        row.experiment == experiment.name && row.metric == "throughput" && is_drawn()
    });
    let own = own.with("rate");
    let panels = experiment
        .workloads
        .iter()
        .map(|workload| panel(&own, workload));
    let platform = experiment.platform.to_string();
    let note = format!(". Simulated: {}.", platform.trim_start_matches("sim:"));
    chart::drawing(experiment, panels, &note)
}

fn panel(rows: &Chosen<'_>, workload: &str) -> Panel {
    // A source is a workload with a number of CPUs, and a reading if it is not the first.
    let cpus = |row: &Row| {
        let own = row.source.strip_prefix(workload)?.strip_prefix('/')?;
        own.parse::<f64>().ok().map(f64::log2)
    };
    // Of the whole list, so that a system has the same colour in each panel.
    let series = rows.curves(Shape::Interval, |row| {
        let rate = (row.value / 1e6).log10();
        Some((cpus(row)?, rate)).filter(|_| rate.is_finite())
    });
    let most = chart::widths(&series).fold(0.0, f64::max);
    let x = Axis::log2("CPUs", (-0.2, most + 0.2), most as usize + 2);
    let range = chart::around(chart::heights(&series));
    let y = Axis::log10("million calls per second", range, 6);
    Panel::new(workload, x, y, series)
}
