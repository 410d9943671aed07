//! Operations on lists: single frames by trace, and blocks of each order.
//!
//! The first panel is the paper's gain, the second its price.
//!
//! # Invariants
//! Both panels show means per call. The first has requests and frees, the second requests from free memory.

use crate::shared::prelude::*;

/// The systems of the figure: the two structures.
const SYSTEMS: [&str; 2] = ["bs", "is"];

const LABEL: &str = "list operations per call";

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let counts = Chosen::new(rows, |row| {
        let is_shown = SYSTEMS.contains(&row.name().as_str());
        row.metric == "list_operations" && row.statistic == "mean" && is_shown
    });
    let is_free_memory = |row: &Row| row.source == "free-memory";
    let single = |row: &Row| !is_free_memory(row) && row.order == Some(0);
    let blocks = |row: &Row| is_free_memory(row) && row.operation == "allocate";
    let panels = [
        traces(&Chosen::new(counts.rows(), single)),
        orders(&Chosen::new(counts.rows(), blocks)),
    ];
    chart::drawing(experiment, panels, ". Means per call; counted.")
}

/// The panel of single frames by trace.
fn traces(rows: &Chosen<'_>) -> Panel {
    let names = rows.sources();
    let both = |system| DIRECTIONS.map(|operation| (system, operation));
    let series = SYSTEMS.into_iter().flat_map(both).enumerate();
    let series = series.map(|(kind, (system, operation))| {
        let own = rows.rows().filter(|row| row.operation == operation);
        let place = |row: &Row| names.iter().position(|name| *name == row.source);
        let own = own.filter(|row| row.name() == system);
        let points = own.filter_map(|row| Some((place(row)? as f64, row.value)));
        Series::new(
            format!("{system}, {operation}"),
            kind,
            Shape::Points,
            points,
        )
    });
    let series: Vec<Series> = series.collect();
    let y = Axis::plain(LABEL, chart::from_zero(chart::heights(&series)), 8);
    let x = Axis::of_sources("trace", names);
    Panel::new("a single frame, on traces", x, y, series)
}

/// The panel of blocks by their order.
fn orders(rows: &Chosen<'_>) -> Panel {
    let series = SYSTEMS.iter().enumerate().map(|(at, system)| {
        let own = rows.rows().filter(|row| row.name() == *system);
        let point = |row: &Row| Some((f64::from(row.order?), row.value.max(1.0).log10()));
        let name = format!("{system}, allocate");
        Series::new(name, 2 * at, Shape::Interval, own.filter_map(point))
    });
    let series: Vec<Series> = series.collect();
    let most = rows.rows().filter_map(|row| row.order).max().unwrap_or(1);
    let (range, ticks) = ((-0.3, f64::from(most) + 0.3), usize::from(most) + 1);
    let x = Axis::whole("order of the block", range, ticks);
    let y = Axis::log10(LABEL, chart::from_zero(chart::heights(&series)), 8);
    Panel::new("a block, from memory that is all free", x, y, series)
}
