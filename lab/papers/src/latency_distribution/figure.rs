//! Histograms of the times of single calls, with a panel per system and direction.
//!
//! Results are compared with figures 1 and 12 of \[iBuddy\], whose bands are the humps here. Like these figures, it has
//! the lazy buddy and lazy iBuddy only; the tables have all systems.
//!
//! # Invariants
//! Times in the shaded range are below the timer's spread and cannot be resolved.

use crate::shared::prelude::*;

/// Where an empty bin is drawn on the logarithmic axis: below a single allocation.
const NOTHING: f64 = -0.4;

/// The systems of the figure.
const SYSTEMS: [&str; 2] = ["lbs-31", "lis-1"];

/// The ends of sources' names: calls that a list served, and others; with their names in the legend.
const BANDS: [(&str, &str); 2] = [
    (":hit", "served by the CPU's list"),
    (":core", "entered the core layer"),
];

/// Returns the bin, as its number, that a row of a histogram is about.
fn bin(row: &Row, width: f64) -> Option<f64> {
    let (_, position) = row.experiment.split_once('@')?;
    let nanos: f64 = position.strip_suffix("ns")?.parse().ok()?;
    Some((nanos.log10() / width).round() * width)
}

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let parameter = experiment.parameters.get("bins_per_decade");
    let bins_per_decade = parameter.and_then(toml::Value::as_float).unwrap_or(10.0);
    // In decades.
    let width = 1.0 / bins_per_decade;
    let bin = |row: &Row| bin(row, width);
    let bins = Chosen::new(rows, |row| bin(row).is_some());
    let most = bins.rows().filter_map(bin).fold(1.0, f64::max) + 2.0 * width;
    let floor = rows.iter().find(|row| row.system == "timer");
    let floor = floor.map(|row| row.value.max(1.0).log10());
    let panel = |(system, operation): (&String, &str)| {
        let series = BANDS.into_iter().enumerate().map(|(kind, (band, legend))| {
            let own = bins.rows().filter(|row| {
                row.name() == *system && row.operation == operation && row.source.ends_with(band)
            });
            let counts = own.filter_map(|row| Some((bin(row)?, row.value.log10())));
            let counts: Vec<(f64, f64)> = counts.collect();
            Series::new(legend, kind, Shape::Line, outline(&counts, most, width))
        });
        let series: Vec<Series> = series.collect();
        let top = chart::from_zero(chart::heights(&series)).1;
        let x = Axis::log10("time of a call (ns)", (0.0, most), 8);
        let y = Axis::log10("calls in a bin", (NOTHING, top), 8);
        Panel {
            shade: floor.map(|floor| (0.0, floor, "below the timer's spread".to_string())),
            ..Panel::new(format!("{system}, {operation}"), x, y, series)
        }
    };
    let mut names = bins.systems();
    names.retain(|name| SYSTEMS.contains(&name.as_str()));
    let both = |name| DIRECTIONS.map(move |operation| (name, operation));
    let panels = names.iter().flat_map(both).map(panel);
    let note = format!(". Both axes logarithmic, {bins_per_decade} bins a decade; medians.");
    chart::drawing(experiment, panels, &note)
}

/// Returns the outline of a histogram: down to zero at an empty bin.
fn outline(counts: &[(f64, f64)], most: f64, width: f64) -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, NOTHING)];
    let bins = (most / width).round() as i32;
    for at in 0..bins {
        let from = f64::from(at) * width;
        let count = counts.iter().find(|own| (own.0 - from).abs() < width / 2.0);
        let height = count.map_or(NOTHING, |own| own.1);
        points.extend([(from, height), (from + width, height)]);
    }
    points.push((most, NOTHING));
    points
}
