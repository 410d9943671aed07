//! The actual lengths of runs over the predicted lengths: medians with quartiles, and the line of equality.
//!
//! # Purpose
//!
//! A prediction that is correct on average but wrong for each run is visible as such.
//!
//! # Invariants
//!
//! Both axes are logarithmic, a step per doubling; a point represents the predictions of one octave.

use crate::shared::chart::{self, Axis, Panel, Series, Shape};
use crate::shared::experiment::Experiment;
use crate::shared::figure::{Drawing, sources};
use crate::shared::method::DIRECTIONS;
use everybuddy_measure::rows::Row;

/// The minimum number of predictions in an octave for a meaningful median.
const ENOUGH: f64 = 8.0;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    // The list that predicts from everything; the others have tables.
    let first = experiment.systems.first();
    let is_first = |row: &&Row| first == Some(&row.name());
    let rows: Vec<Row> = rows.iter().filter(is_first).cloned().collect();
    let panels: Vec<Panel> = DIRECTIONS
        .iter()
        .zip(["requests", "frees"])
        .map(|(operation, title)| panel(&rows, operation, title))
        .collect();
    let note = format!(
        "{}. Medians by octaves, bars from the first quartile to the third.",
        experiment.source
    );
    chart::drawing(experiment, panels, note)
}

fn panel(rows: &[Row], operation: &str, title: &str) -> Panel {
    let all = || {
        let own = rows.iter().filter(|row| row.operation == operation);
        own.filter(|row| row.metric == "run_length")
    };
    let are_enough = |row: &&Row| {
        let is_count = |other: &&Row| {
            other.statistic == "count"
                && other.source == row.source
                && other.experiment == row.experiment
        };
        all()
            .find(is_count)
            .is_some_and(|count| count.value >= ENOUGH)
    };
    let own = || all().filter(are_enough);
    // No request followed: below one.
    let log = |value: f64| value.max(0.5).log2();
    let mut series = Vec::new();
    for (kind, source) in sources(rows.iter()).into_iter().enumerate() {
        let of = |statistic: &'static str| {
            let source = source.clone();
            let own = own().filter(move |row| row.source == source && row.statistic == statistic);
            own.filter_map(move |row| Some((bin(row)?, log(row.value))))
        };
        let ends = of("p25").map(|own| own.1).zip(of("p75").map(|own| own.1));
        series.push(Series {
            points: of("p50").collect(),
            intervals: ends.collect(),
            labels: Vec::new(),
            shape: Shape::Interval,
            name: source,
            kind,
        });
    }
    let across = || own().filter_map(bin);
    let (least, most) = (across().fold(20.0, f64::min), across().fold(0.0, f64::max));
    let range = if least < most {
        (least - 0.3, most + 0.3)
    } else {
        (0.0, 12.0)
    };
    series.push(Series {
        name: "as predicted".to_string(),
        points: vec![(range.0, range.0), (range.1, range.1)],
        intervals: Vec::new(),
        labels: Vec::new(),
        shape: Shape::Line,
        kind: 6,
    });
    let heights = series.iter().flat_map(|own| &own.intervals);
    let heights = heights.flat_map(|(least, most)| [*least, *most]);
    let power = |position: f64| match position.fract().abs() < 1e-9 {
        true if position < 0.0 => "0".to_string(),
        true => everybuddy_measure::size::count(position.exp2() as u64),
        false => String::new(),
    };
    Panel {
        title: title.to_string(),
        x: Axis {
            label: "frames predicted".to_string(),
            range,
            ticks: 12,
            base: Some(2.0),
            write: Box::new(power),
        },
        y: Axis {
            label: "frames that came".to_string(),
            range: chart::around(heights.chain([range.0, range.1])),
            ticks: 12,
            base: Some(2.0),
            write: Box::new(power),
        },
        series,
        shade: None,
    }
}

/// Returns the median of a row's predictions, as a power of two.
fn bin(row: &Row) -> Option<f64> {
    let (_, bin) = row.experiment.split_once('@')?;
    let bin: f64 = bin.parse().ok()?;
    Some(bin.max(0.5).log2())
}
