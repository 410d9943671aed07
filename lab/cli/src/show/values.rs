//! Values of one system out of rows.
//!
//! Tables of a simulation show one number for the values with all seeds.
//!
//! # Invariants
//! A number without rows is `None`, and not 0.

use everybuddy_measure::rows::Row;

/// Returns a number of a system on a number of CPUs: its values with all seeds, joined.
pub(super) fn value_at(
    load: &str,
    system: &str,
    cpus: u16,
    rows: &[Row],
    key: (&str, &str, &str),
    join: impl Fn(&[f64]) -> f64,
) -> Option<f64> {
    let is_one = |row: &&Row| {
        (row.metric, row.statistic, row.operation) == key
            && (row.cpus, row.source.as_str()) == (cpus, load)
            && row.name() == system
    };
    let values: Vec<f64> = rows.iter().filter(is_one).map(|row| row.value).collect();
    (!values.is_empty()).then(|| join(&values))
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
