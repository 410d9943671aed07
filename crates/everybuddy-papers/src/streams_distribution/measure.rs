//! The operations of single calls, and the coalescings of single frees.
//!
//! # Purpose
//!
//! Delayed coalescing makes most frees cheap and some expensive. Figure 4 of \[BL89\] shows this in microseconds.
//! Here it is counted, and the most expensive free that a search finds is compared with the bound.
//!
//! # Invariants
//!
//! Every call of every seed is in the distribution.

use crate::streams::perform::Counted;
use crate::streams::tally::Histogram;
use crate::streams::{adversary, runs};
use everybuddy::Order;

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, DIRECTIONS, Measure, common, row};
use crate::streams::rows::{Arrivals, Recordings, failed, record};
use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_workload::streams::UNIT;
use serde::Deserialize;

/// The source of rows about the worst free that a search found.
const SEARCH: &str = "search";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Bytes of the arena.
    arena: u32,
    /// Arrivals and departures.
    traffic: Vec<Arrivals>,
    /// The recordings.
    recordings: Recordings,
    /// The order of the search's memory, in units.
    searched: u8,
    /// The number of exchanges of the search.
    exchanges: u32,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(self.recordings.seeds as u32)
    }

    /// Returns the number of recordings.
    fn steps(&self, experiment: &Experiment) -> u64 {
        experiment.systems.len() as u64 * (self.traffic.len() as u64 * self.recordings.seeds + 1)
    }

    fn sources(&self, _: &Experiment) -> Vec<String> {
        let traffic = self.traffic.iter().map(|own| own.name.clone());
        traffic.chain([SEARCH.to_string()]).collect()
    }

    /// Counts on all systems.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let specs = experiment.specs()?;
        let units = self.arena / UNIT;
        let Recordings {
            users,
            seeds,
            calls,
            warm,
        } = self.recordings;
        let mut rows = Vec::new();
        for Arrivals {
            name: source,
            timing,
        } in &self.traffic
        {
            let mut all: Vec<Counted> = specs.iter().map(|_| Counted::default()).collect();
            for seed in 0..seeds {
                let recording = record((*timing, users), seed, (warm, calls), conditions);
                for (spec, sum) in specs.iter().zip(&mut all) {
                    let counted = runs::count(spec, units, &recording).map_err(failed(spec))?;
                    sum.join(&counted);
                    (bench.step)(&format!("{source} {spec}"));
                }
            }
            for (spec, counted) in specs.iter().zip(&all) {
                let common = common(experiment, conditions, source, spec, 1);
                for (operation, tally) in DIRECTIONS.into_iter().zip(&counted.tallies) {
                    let own = Row {
                        operation,
                        ..common.clone()
                    };
                    rows.extend(histogram(&tally.operations, &own, "operations"));
                    rows.extend(histogram(&tally.delays, &own, "coalescings"));
                }
                let own = Row {
                    operation: "free",
                    ..common
                };
                rows.extend(delays(&counted.tallies[1].worst, self.searched, &own));
            }
        }
        let order = Order::new(self.searched).unwrap_or_default();
        for spec in &specs {
            let exchanges = self.exchanges / conditions.shrink.max(1);
            let worst = adversary::worst(spec, order, exchanges, conditions.seed);
            let worst = worst.map_err(failed(spec))?;
            let own = Row {
                operation: "free",
                ..common(experiment, conditions, SEARCH, spec, 1)
            };
            rows.extend(delays(&worst, self.searched, &own));
            let total = worst.iter().sum::<u32>();
            rows.push(row(&own, "coalescings", "max", f64::from(total)));
            (bench.step)(&format!("worst of {spec}"));
        }
        Ok(rows)
    }
}

/// Returns the rows of a distribution: its summary, and the share of calls with each number.
fn histogram(own: &Histogram, common: &Row, metric: &'static str) -> Vec<Row> {
    let count = own.count().max(1) as f64;
    let mut rows = vec![
        row(common, metric, "mean", own.mean()),
        row(common, metric, "stddev", own.stddev()),
        row(common, metric, "p99", f64::from(own.quantile(0.99))),
        row(common, metric, "p999", f64::from(own.quantile(0.999))),
        row(common, metric, "max", f64::from(own.max())),
    ];
    let shares = own
        .counts
        .iter()
        .enumerate()
        .filter(|(_, calls)| **calls > 0);
    rows.extend(shares.map(|(number, calls)| Row {
        experiment: format!("{}@{number}", common.experiment),
        ..row(common, metric, "rate", *calls as f64 / count)
    }));
    rows
}

/// Returns rows of the maximum number of coalescings of one free at each order above its own, with the bound; and of
/// the maximum over all orders, with the source's bound applied to a call.
fn delays(worst: &[u32], searched: u8, common: &Row) -> Vec<Row> {
    const METRIC: &str = "delays_per_class";
    let mut rows: Vec<Row> = (0u8..)
        .zip(worst)
        .take_while(|(above, _)| *above < searched)
        .map(|(above, delays)| Row {
            order: Some(above),
            expected: Some(f64::from(2u32 << above)),
            ..row(common, METRIC, "max", f64::from(*delays))
        })
        .collect();
    let most = worst.iter().copied().max().unwrap_or(0);
    rows.push(Row {
        expected: Some(2.0),
        ..row(common, METRIC, "max", f64::from(most))
    });
    rows
}
