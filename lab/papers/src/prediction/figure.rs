//! The actual lengths of runs over the predicted lengths: medians with quartiles, and the line of equality.
//!
//! A prediction that is correct on average but wrong for each run is visible as such.
//!
//! # Invariants
//! Both axes are logarithmic, a step per doubling; a point represents the predictions of one octave.

use crate::shared::prelude::*;

/// The minimum number of predictions in an octave for a meaningful median.
const ENOUGH: f64 = 8.0;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    // The list that predicts from everything; the others have tables.
    let first = experiment.systems.first();
    let rows = Chosen::new(rows, |row| first == Some(&row.name()));
    let panels = DIRECTIONS.iter().zip(["requests", "frees"]);
    let panels = panels.map(|(operation, title)| panel(&rows, operation, title));
    let note = ". Medians by octaves, bars from the first quartile to the third.";
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &Chosen<'_>, operation: &str, title: &str) -> Panel {
    let all = Chosen::new(rows.rows(), |row| {
        row.operation == operation && row.metric == "run_length"
    });
    let counts = all.with("count");
    let own = Chosen::new(all.rows(), |row| {
        let mut here = counts.rows().filter(|count| count.source == row.source);
        let count = here.find(|count| count.experiment == row.experiment);
        count.is_some_and(|count| count.value >= ENOUGH)
    });
    // No request followed: below one.
    let log = |value: f64| value.max(0.5).log2();
    let series = rows
        .sources()
        .into_iter()
        .enumerate()
        .map(|(kind, source)| {
            let own = Chosen::new(own.rows(), |row| row.source == source);
            let [least, middle, most] = ["p25", "p50", "p75"].map(|statistic| own.with(statistic));
            let values = |own: &Chosen<'_>| -> Vec<f64> {
                let known = own.rows().filter(|row| bin(row).is_some());
                known.map(|row| log(row.value)).collect()
            };
            let points = middle
                .rows()
                .filter_map(|row| Some((bin(row)?, log(row.value))));
            Series {
                intervals: values(&least).into_iter().zip(values(&most)).collect(),
                ..Series::new(source.clone(), kind, Shape::Interval, points)
            }
        });
    let mut series: Vec<Series> = series.collect();
    let across = || own.rows().filter_map(bin);
    let (least, most) = (across().fold(20.0, f64::min), across().fold(0.0, f64::max));
    let range = if least < most {
        (least - 0.3, most + 0.3)
    } else {
        (0.0, 12.0)
    };
    let diagonal = [range.0, range.1].map(|at| (at, at));
    series.push(Series::new("as predicted", 6, Shape::Line, diagonal));
    let y = Axis::counts("frames that came", chart::around(chart::spans(&series)), 12);
    Panel::new(
        title,
        Axis::counts("frames predicted", range, 12),
        y,
        series,
    )
}

/// Returns the median of a row's predictions, as a power of two.
fn bin(row: &Row) -> Option<f64> {
    Some(position(row)?.max(0.5).log2())
}
