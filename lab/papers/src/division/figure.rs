//! The number of requests that split a larger block, over the number of requests.
//!
//! The figure shows what dividing memory beforehand saves at the start of a program, and how long that lasts.
//!
//! # Invariants
//! One panel per trace; a system that did not reach a number of requests has no point there.

use crate::shared::prelude::*;

/// The system whose memory is divided beforehand.
const LEARNS: &str = "serewa";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let own = Chosen::new(rows, |row| {
        row.experiment == experiment.name && row.metric == "broken_blocks"
    });
    let own = own.with("rate");
    // The trace, the number of requests, and whose statistics memory is divided by.
    let split = |row: &Row| {
        let (trace, rest) = row.source.split_once(':')?;
        let (requests, by) = match rest.split_once(" by ") {
            Some((requests, by)) => (requests, format!(" by {by}")),
            None => (rest, String::new()),
        };
        Some((trace.to_string(), requests.parse::<f64>().ok()?, by))
    };
    // A line has the same colour in every panel.
    let kinds = distinct(own.rows().map(|row| {
        let by = split(row).map(|own| own.2).unwrap_or_default();
        match row.name() {
            name if name == LEARNS => name + &by,
            name => name,
        }
    }));
    let panel = |trace: String| {
        // The others do not depend on statistics.
        let all = own.systems().into_iter().map(|name| (name, String::new()));
        let learns = own.rows().filter(|row| row.name() == LEARNS);
        let learned = learns.filter_map(split).filter(|own| own.0 == trace);
        let lines = all.chain(learned.map(|own| (LEARNS.to_string(), own.2)));
        let series = distinct(lines).into_iter().map(|(name, by)| {
            let points = own.rows().filter(|row| row.name() == name);
            let points = points.filter_map(|row| {
                let (of, requests, own) = split(row)?;
                (of == trace && own == by).then(|| (requests.log2(), row.value * 100.0))
            });
            let line = format!("{name}{by}");
            let kind = kinds.iter().position(|known| *known == line).unwrap_or(0);
            Series::new(line, kind, Shape::Line, points)
        });
        let series: Vec<Series> = series.collect();
        let across = chart::around(chart::widths(&series));
        let up = chart::from_zero(chart::heights(&series));
        let x = Axis::log2("requests so far", across, 10);
        let y = Axis::plain("of these broke a block (%)", up, 7);
        Panel::new(trace, x, y, series)
    };
    let traces = distinct(own.rows().filter_map(split).map(|own| own.0));
    let panels: Vec<Panel> = traces.into_iter().map(panel).collect();
    chart::drawing(experiment, panels, ". Counted once.")
}
