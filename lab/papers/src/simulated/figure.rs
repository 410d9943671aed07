//! Calls per second over the number of CPUs, for each workload.
//!
//! # Purpose
//!
//! The figure shows where a system stops scaling, and how far it gets until then.
//!
//! # Invariants
//!
//! Both axes are logarithmic, so a system that scales is a straight line. Only first readings are drawn, and of the
//! systems only those that the experiment's file names under `drawn`, if it names any.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, systems};
use everybuddy_measure::rows::Row;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let drawn = &experiment.drawn;
    let is_drawn = |row: &Row| drawn.is_empty() || drawn.contains(&row.name());
    let is_rate = |row: &&Row| row.metric == "throughput" && row.statistic == "rate";
    let own = rows.iter().filter(|row| row.experiment == experiment.name);
    let own: Vec<&Row> = own.filter(is_rate).filter(|row| is_drawn(row)).collect();
    let panels = experiment.workloads.iter();
    let panels = panels.map(|workload| panel(&own, workload));
    let note = format!(
        "{}. Simulated: {}.",
        experiment.source,
        experiment.platform.to_string().trim_start_matches("sim:")
    );
    chart::drawing(experiment, panels.collect(), note)
}

fn panel(rows: &[&Row], workload: &str) -> Panel {
    // A source is a workload with a number of CPUs, and a reading if it is not the first.
    let cpus = |row: &Row| {
        let own = row.source.strip_prefix(workload)?.strip_prefix('/')?;
        own.parse::<f64>().ok().map(f64::log2)
    };
    let own = || rows.iter().copied().filter(|row| cpus(row).is_some());
    // The whole list, so that a system has the same colour in each panel.
    let names = systems(rows.iter().copied()).into_iter().enumerate();
    let series = names.map(|(kind, name)| {
        let of = own().filter(|row| row.name() == name);
        let points = of.filter_map(|row| Some((cpus(row)?, (row.value / 1e6).log10())));
        Series {
            points: points.filter(|point| point.1.is_finite()).collect(),
            intervals: Vec::new(),
            labels: Vec::new(),
            shape: Shape::Interval,
            name,
            kind,
        }
    });
    let series: Vec<Series> = series.collect();
    let points = || series.iter().flat_map(|own| &own.points);
    let most = points().map(|point| point.0).fold(0.0, f64::max);
    Panel {
        title: workload.to_string(),
        x: Axis {
            label: "CPUs".to_string(),
            range: (-0.2, most + 0.2),
            ticks: most as usize + 2,
            base: Some(2.0),
            write: Box::new(|position| {
                if position.fract().abs() < 1e-9 {
                    chart::plain(position.exp2())
                } else {
                    String::new()
                }
            }),
        },
        y: Axis {
            label: "million calls per second".to_string(),
            range: chart::around(points().map(|point| point.1)),
            ticks: 6,
            base: Some(10.0),
            write: Box::new(chart::power),
        },
        series,
        shade: None,
    }
}
