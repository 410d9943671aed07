//! Times under fixed costs: one for each call, and one for each operation on lists and on the map.
//!
//! The microseconds of \[BL89\] are those of a machine of 1989. We assume that all operations took equally long there.
//! So two costs are fitted on two of its means, and the other means of its table 2 are predicted from counted
//! operations.
//!
//! # Invariants
//! Only the two cells that the experiment's file names influence the costs of a fit. Systems with the same options have
//! the same costs, under all traffic.

use crate::shared::experiment::Published;
use crate::shared::prelude::*;

/// The metric of predicted times.
const PREDICTED: &str = "predicted_latency";

/// Calls of one kind by one system, under some traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cell {
    system: String,
    traffic: String,
    operation: String,
}

/// The two cells on which the costs are fitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Fitted([Cell; 2]);

/// Returns the source of rows about the predictions of a fit, for the source of what was counted.
pub(super) fn source_of(fit: usize, counted: &str) -> String {
    match fit {
        0 => counted.to_string(),
        _ => format!("{counted} fit {}", fit + 1),
    }
}

/// The nanoseconds of a call without operations, and of each operation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Costs {
    call: f64,
    operation: f64,
}

impl Costs {
    /// Returns the costs with which both cells, each of operations and nanoseconds, have their times. `None` if both
    /// have the same number of operations.
    fn fit([(own, time), (other, its)]: [(f64, f64); 2]) -> Option<Costs> {
        let operation = (its - time) / (other - own);
        let call = time - operation * own;
        operation.is_finite().then_some(Costs { call, operation })
    }

    fn mean(&self, operations: f64) -> f64 {
        self.call + self.operation * operations
    }

    /// Returns the standard deviation of times. It does not contain the cost of a call, which is the same for all.
    fn stddev(&self, operations: f64) -> f64 {
        self.operation.abs() * operations
    }
}

impl Fitted {
    /// Returns the predicted times of all counted calls in `rows`, with what the source printed. The rows are those of
    /// the arena in which the cells are, and this is the fit with number `fit`.
    pub(super) fn rows(
        &self,
        fit: usize,
        rows: &[Row],
        printed: impl Fn(&Row) -> Option<Published>,
    ) -> Vec<Row> {
        let find = |own: &Row, statistic: &str, system: &str, source: &str, operation: &str| {
            let found = rows.iter().find(|row| {
                (row.metric, row.statistic) == ("operations", statistic)
                    && (row.system.as_str(), row.options.as_str()) == (system, own.options.as_str())
                    && (row.source.as_str(), row.operation) == (source, operation)
            });
            found.cloned()
        };
        let expected = |value: Option<f64>| value.map(|value| rounded(value * 1e3));
        let mut predicted = Vec::new();
        for own in rows {
            let is_mean = (own.metric, own.statistic) == ("operations", "mean");
            if !is_mean || !DIRECTIONS.contains(&own.operation) {
                continue;
            }
            let cell = |cell: &Cell| {
                let (system, source) = (cell.system.as_str(), cell.traffic.as_str());
                let found = find(own, "mean", system, source, &cell.operation)?;
                Some((found.value, printed(&found)?.mean * 1e3))
            };
            let [first, second] = &self.0;
            let cells = cell(first).zip(cell(second));
            let Some(costs) = cells.and_then(|(first, second)| Costs::fit([first, second])) else {
                continue;
            };
            let source = printed(own);
            let common = own.about(source_of(fit, &own.source));
            let mean = row(&common, PREDICTED, "mean", costs.mean(own.value));
            predicted.push(mean.expecting(expected(source.as_ref().map(|line| line.mean))));
            let spread = find(own, "stddev", &own.system, &own.source, own.operation);
            predicted.extend(spread.map(|counted| {
                row(&common, PREDICTED, "stddev", costs.stddev(counted.value))
                    .expecting(expected(source.as_ref().and_then(|line| line.stddev)))
            }));
            let line = source.map(|line| row(&common, PREDICTED, "published", line.mean * 1e3));
            predicted.extend(line.map(|line| line.expecting(None)));
        }
        predicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cells_determine_the_costs() {
        // 3 operations take 110 us and 5 take 170: an operation takes 30, a call 20.
        let costs = Costs::fit([(3.0, 110.0), (5.0, 170.0)]).unwrap();
        assert_eq!((costs.call, costs.operation), (20.0, 30.0));
        assert_eq!(costs.mean(2.0), 80.0);
        assert_eq!(costs.stddev(1.5), 45.0);
        assert_eq!(Costs::fit([(3.0, 110.0), (3.0, 170.0)]), None);
    }
}
