//! Times under fixed costs: one for each call, and one for each operation on lists and on the map.
//!
//! # Purpose
//!
//! The microseconds of \[BL89\] are those of a machine of 1989, where an operation took about as long as any other. So
//! two costs are fitted on two of its means, and the other means of its table 2 are predicted from counted operations.
//!
//! # Invariants
//!
//! Only the two cells that the experiment's file names influence the costs. Systems with the same options have the same
//! costs, under all traffic and in all arenas.

use everybuddy_measure::rows::{Row, rounded};
use serde::Deserialize;

use crate::shared::experiment::{Experiment, Published};
use crate::shared::method::{DIRECTIONS, row};

/// The metric of predicted times.
const PREDICTED: &str = "predicted_latency";

/// The cells on which the costs are fitted: an allocation and a free of one system under some traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    system: String,
    traffic: String,
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
    /// Returns the predicted times of all counted calls in `rows`, with what the source printed. `traffic_of` returns
    /// the traffic of a source in all arenas, as it is printed.
    pub(super) fn rows(
        &self,
        experiment: &Experiment,
        rows: &[Row],
        printed: impl Fn(&Row) -> Option<Published>,
    ) -> Vec<Row> {
        let is_mean = |row: &&Row| row.metric == "operations" && row.statistic == "mean";
        let mut predicted = Vec::new();
        for own in rows.iter().filter(is_mean) {
            if !DIRECTIONS.contains(&own.operation) || own.experiment != experiment.name {
                continue;
            }
            let cell = |operation: &str| {
                let found = rows.iter().filter(is_mean).find(|row| {
                    row.experiment == own.experiment
                        && row.options == own.options
                        && row.system == self.system
                        && row.source == self.traffic
                        && row.operation == operation
                })?;
                Some((found.value, printed(found)?.mean * 1e3))
            };
            let cells = DIRECTIONS.map(cell);
            let costs = match cells {
                [Some(own), Some(other)] => Costs::fit([own, other]),
                _ => None,
            };
            let Some(costs) = costs else { continue };
            let spread = rows.iter().find(|row| {
                let place =
                    |row: &Row| (row.source.clone(), row.system.clone(), row.options.clone());
                row.metric == "operations"
                    && row.statistic == "stddev"
                    && row.operation == own.operation
                    && place(row) == place(own)
            });
            let source = printed(own);
            let expected = |value: Option<f64>| value.map(|value| rounded(value * 1e3));
            let bare = Row {
                expected: None,
                ..own.clone()
            };
            predicted.push(Row {
                expected: expected(source.as_ref().map(|line| line.mean)),
                ..row(&bare, PREDICTED, "mean", costs.mean(own.value))
            });
            predicted.extend(spread.map(|counted| Row {
                expected: expected(source.as_ref().and_then(|line| line.stddev)),
                ..row(&bare, PREDICTED, "stddev", costs.stddev(counted.value))
            }));
            let line = source.map(|line| row(&bare, PREDICTED, "published", line.mean * 1e3));
            predicted.extend(line);
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
