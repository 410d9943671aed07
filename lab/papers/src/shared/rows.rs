//! The conversion of numbers to rows.
//!
//! A row repeats most columns of its neighbours. A method states what differs.
//!
//! # Invariants
//! All values of rows are rounded in one place.

use std::fmt::Display;

use everybuddy::Order;
use everybuddy_measure::refusals::Refusals;
use everybuddy_measure::replay::outcome::{least, mean, median};
use everybuddy_measure::rows::{Row, rounded};

/// The operations, by their names in rows.
pub(crate) const DIRECTIONS: [&str; 2] = ["allocate", "free"];

/// The base system of ratios.
pub(crate) const BASE: &str = "bs";

/// The source of rows about the mean over all sources.
pub(crate) const MEAN: &str = "mean";

/// The rows that differ from a row in one column.
pub(crate) trait Columns {
    /// Returns the row of another operation.
    fn of(&self, operation: &'static str) -> Row;
    /// Returns the row of another source.
    fn about(&self, source: impl Display) -> Row;
    /// Returns the row of another order.
    fn of_order(&self, order: Option<u8>) -> Row;
    /// Returns the row at a position, or of a round: what follows the `@`.
    fn at(&self, position: impl Display) -> Row;
    /// Returns the row with the number of the source.
    fn expecting(&self, expected: Option<f64>) -> Row;
}

impl Columns for Row {
    fn of(&self, operation: &'static str) -> Row {
        Row {
            operation,
            ..self.clone()
        }
    }

    fn about(&self, source: impl Display) -> Row {
        Row {
            source: source.to_string(),
            ..self.clone()
        }
    }

    fn of_order(&self, order: Option<u8>) -> Row {
        Row {
            order,
            ..self.clone()
        }
    }

    fn at(&self, position: impl Display) -> Row {
        Row {
            experiment: format!("{}@{position}", self.experiment),
            ..self.clone()
        }
    }

    fn expecting(&self, expected: Option<f64>) -> Row {
        Row {
            expected,
            ..self.clone()
        }
    }
}

/// A list that grows by rows.
pub(crate) trait Put {
    /// Adds a row with a number, if there is one.
    fn put(
        &mut self,
        common: &Row,
        metric: &'static str,
        statistic: &'static str,
        value: impl Into<Option<f64>>,
    );
}

impl Put for Vec<Row> {
    fn put(
        &mut self,
        common: &Row,
        metric: &'static str,
        statistic: &'static str,
        value: impl Into<Option<f64>>,
    ) {
        let value = value.into();
        self.extend(value.map(|value| row(common, metric, statistic, value)));
    }
}

/// Returns the operations with their common columns, and something of each.
pub(crate) fn directions<T>(
    common: &Row,
    each: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (Row, T)> {
    let rows = DIRECTIONS.map(|operation| common.of(operation));
    rows.into_iter().zip(each)
}

/// Returns the orders that exist, with their common columns.
pub(crate) fn orders(common: &Row, orders: &[u8]) -> impl Iterator<Item = (Row, Order)> {
    let known = orders.iter().copied().filter_map(Order::new);
    known.map(|order| (common.of_order(Some(order.get())), order))
}

/// Returns the mean over the sources of each number that fits.
pub(crate) fn means_over_sources(rows: &[Row], fits: impl Fn(&Row) -> bool) -> Vec<Row> {
    let alike = |a: &Row, b: &Row| {
        let key = |row: &Row| (row.operation, row.metric, row.statistic, row.order);
        key(a) == key(b) && a.name() == b.name()
    };
    let mut means: Vec<Row> = Vec::new();
    for first in rows.iter().filter(|row| fits(row)) {
        if means.iter().any(|known| alike(known, first)) {
            continue;
        }
        let own = rows.iter().filter(|row| alike(row, first));
        let value = mean(own.map(|row| row.value));
        means.put(&first.about(MEAN), first.metric, first.statistic, value);
    }
    means
}

/// Returns rows for a number with a value per round: its median, minimum and maximum.
pub(crate) fn rounds(common: &Row, metric: &'static str, values: &[f64]) -> Vec<Row> {
    let mut rows = Vec::new();
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        return rows;
    }
    let most = values.iter().copied().max_by(f64::total_cmp);
    rows.push(row(common, metric, "p50", median(values.clone())));
    let least = least(values.iter().copied());
    rows.extend(least.map(|value| row(common, metric, "min", value)));
    rows.extend(most.map(|value| row(common, metric, "max", value)));
    rows
}

/// Creates the rows about refused requests: of all requests, of those above order 0, and of each order.
pub(crate) fn refusal_rows(refusals: &Refusals, common: &Row) -> Vec<Row> {
    let entries = refusals.entries().into_iter();
    let own = |(order, metric, statistic, value)| Row {
        order,
        ..row(common, metric, statistic, value)
    };
    entries.map(own).collect()
}

/// Creates a row with a number.
pub(crate) fn row(common: &Row, metric: &'static str, statistic: &'static str, value: f64) -> Row {
    Row {
        metric,
        statistic,
        value: rounded(value),
        ..common.clone()
    }
}
