//! The cost of an allocation and of a free, by policy and traffic.
//!
//! # Purpose
//!
//! Results are compared with table 2 of \[BL89\], whose microseconds are those of a machine of 1989. Operations on
//! lists and on the map of free blocks are counted, and times are measured as well.
//!
//! # Invariants
//!
//! Systems take turns within each seed. A time is the mean of its undisturbed repetitions, so work that a system does
//! each time counts. (Not their median: a clock with steps of ten nanoseconds is accurate only on average.)

use crate::streams::perform::Counted;
use crate::streams::runs;
use crate::streams::tally::Tally;

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, DIRECTIONS, Measure, common, row};
use crate::streams::rows::{Arrivals, Recordings, failed, over, published, record, seeds};
use everybuddy_measure::Error;
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::rows::Row;
use everybuddy_workload::streams::UNIT;
use serde::Deserialize;

/// An allocation and the free of its block, by its name in rows.
const PAIR: &str = "pair";

/// The base systems, and the metrics of the ratios of operations and of times.
const BASELINES: [(&str, [&str; 2]); 2] = [
    ("bs", ["operations_over_bs", "latency_over_bs"]),
    (
        "watermark",
        ["operations_over_watermark", "latency_over_watermark"],
    ),
];

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
    /// The number of calls of a timed recording.
    timed: usize,
    /// The number of repetitions of each timed call.
    repeats: usize,
    /// The minimum duration of a disturbed repetition, in nanoseconds.
    long_ns: f64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(self.recordings.seeds as u32)
    }

    /// Returns the number of recordings.
    fn steps(&self, experiment: &Experiment) -> u64 {
        self.traffic.len() as u64 * self.recordings.seeds * experiment.systems.len() as u64
    }

    fn sources(&self, _: &Experiment) -> Vec<String> {
        self.traffic.iter().map(|own| own.name.clone()).collect()
    }

    /// Counts and times all systems.
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
            let mut all: Vec<Numbers> = specs.iter().map(|_| Numbers::default()).collect();
            for seed in 0..seeds {
                let recording = record((*timing, users), seed, (warm, calls), conditions);
                for (spec, own) in specs.iter().zip(&mut all) {
                    let counted = runs::count(spec, units, &recording).map_err(failed(spec))?;
                    for (values, tally) in own.operations.iter_mut().zip(&counted.tallies) {
                        values.push(tally.operations.mean());
                    }
                    own.counted.join(&counted);
                    (bench.step)(&format!("{source} {spec}"));
                }
                let recording = record((*timing, users), seed, (warm, self.timed), conditions);
                let now = || bench.timer.now();
                let mut times: Vec<Times> = Vec::new();
                times.resize_with(specs.len() + 1, Times::default);
                for turn in 0..self.repeats * times.len() {
                    // Every system is first once.
                    let who = (turn + turn / times.len()) % times.len();
                    // The last one has no system: the cost of performing the calls and of reading the clock.
                    let spec = specs.get(who);
                    let fail = |failure| match spec {
                        Some(spec) => failed(spec)(failure),
                        None => Error::Broken("performing alone failed".to_string()),
                    };
                    let whole = runs::time(spec, units, &recording, &now).map_err(fail)?;
                    times[who].whole.push(whole);
                    let each = runs::time_each(spec, units, &recording, &now).map_err(fail)?;
                    times[who].each.push(each);
                }
                let long = bench.timer.ticks(self.long_ns);
                let floor = times.pop().unwrap_or_default().summary(long);
                for (own, times) in all.iter_mut().zip(times) {
                    own.time(bench, times.summary(long), &floor);
                }
            }
            for (spec, own) in specs.iter().zip(&all) {
                let common = common(experiment, conditions, source, spec, 1);
                rows.extend(own.rows(experiment, &common));
            }
            for (other, metrics) in BASELINES {
                let against = specs
                    .iter()
                    .zip(&all)
                    .find(|(spec, _)| spec.name() == other);
                let Some((_, against)) = against else {
                    continue;
                };
                for (spec, own) in specs.iter().zip(&all) {
                    let common = common(experiment, conditions, source, spec, 1);
                    let printed = |system: &str, operation: &str| {
                        published(experiment, source, system, operation, "latency")
                    };
                    rows.extend(own.ratios(against, &common, (other, metrics), printed));
                }
            }
        }
        Ok(rows)
    }
}

/// The numbers of one system under some traffic, for each seed.
#[derive(Default)]
struct Numbers {
    /// Operations per allocation and per free.
    operations: [Vec<f64>; 2],
    /// Nanoseconds of each, and of a pair.
    times: [Vec<f64>; 3],
    /// Standard deviations of the first two.
    spreads: [Vec<f64>; 2],
    /// The sum over all seeds.
    counted: Counted,
}

/// Times of one system on one recording, in ticks.
#[derive(Default)]
struct Times {
    whole: Vec<Vec<u32>>,
    each: Vec<[Vec<u32>; 2]>,
}

/// Total ticks, and means, standard deviations and numbers of both kinds of calls.
struct Summary {
    whole: f64,
    each: [(f64, f64, usize); 2],
}

impl Times {
    /// Summarizes; a repetition is disturbed if it takes twice the median of its call plus `long`.
    fn summary(self, long: u64) -> Summary {
        let whole = calm(&self.whole.iter().collect::<Vec<_>>(), long);
        let each = [0, 1].map(|direction| {
            let repeats: Vec<&Vec<u32>> = self.each.iter().map(|each| &each[direction]).collect();
            let ticks = calm(&repeats, long);
            let mean = mean(ticks.iter().copied()).unwrap_or_default();
            let squares: f64 = ticks.iter().map(|ticks| (ticks - mean).powi(2)).sum();
            let count = ticks.len();
            (mean, (squares / count.max(1) as f64).sqrt(), count)
        });
        Summary {
            whole: whole.iter().sum(),
            each,
        }
    }
}

/// Returns the mean of the undisturbed repetitions at each position: those of at most twice the median plus `long`.
fn calm(repeats: &[&Vec<u32>], long: u64) -> Vec<f64> {
    let count = repeats.iter().map(|times| times.len()).min().unwrap_or(0);
    let calm = |at: usize| {
        let mut ticks: Vec<u64> = repeats.iter().map(|times| times[at].into()).collect();
        ticks.sort_unstable();
        let limit = 2 * ticks[ticks.len() / 2] + long;
        let calm = ticks.iter().take_while(|ticks| **ticks <= limit);
        mean(calm.map(|ticks| *ticks as f64)).unwrap_or_default()
    };
    (0..count).map(calm).collect()
}

impl Numbers {
    /// Adds the times of a seed, minus those of performing the calls alone.
    fn time(&mut self, bench: &Bench<'_>, own: Summary, floor: &Summary) {
        let nanos = |ticks: f64| bench.timer.sum(ticks.max(0.0), 0);
        for (direction, (own, floor)) in own.each.iter().zip(&floor.each).enumerate() {
            self.times[direction].push(nanos(own.0 - floor.0));
            self.spreads[direction].push(nanos(own.1));
        }
        let pairs = own.each[0].2.max(1) as f64;
        self.times[2].push(nanos((own.whole - floor.whole) / pairs));
    }

    /// Returns the operations per pair, for each seed.
    fn pairs(&self) -> Vec<f64> {
        let [allocate, free] = &self.operations;
        allocate.iter().zip(free).map(|(a, f)| a + f).collect()
    }

    fn rows(&self, experiment: &Experiment, common: &Row) -> Vec<Row> {
        let mut rows = Vec::new();
        for (direction, operation) in DIRECTIONS.into_iter().enumerate() {
            let own = Row {
                operation,
                ..common.clone()
            };
            let tally = &self.counted.tallies[direction];
            rows.extend(seeds(&self.operations[direction], &own, "operations", None));
            rows.extend(counts(tally, &own));
            rows.extend(seeds(&self.times[direction], &own, "latency", None));
            let spread = mean(self.spreads[direction].iter().copied());
            rows.extend(spread.map(|value| row(&own, "latency", "stddev", value)));
            let printed = published(experiment, &own.source, &own.system, operation, "latency");
            // The source's own number, so that a table can also show it.
            rows.extend(printed.map(|value| row(&own, "latency", "published", value * 1e3)));
        }
        let own = Row {
            operation: PAIR,
            ..common.clone()
        };
        rows.extend(seeds(&self.pairs(), &own, "operations", None));
        rows.extend(seeds(&self.times[2], &own, "latency", None));
        rows
    }

    /// Returns the costs relative to another system, for each seed.
    fn ratios(
        &self,
        other: &Numbers,
        common: &Row,
        (name, [operations, times]): (&str, [&'static str; 2]),
        printed: impl Fn(&str, &str) -> Option<f64>,
    ) -> Vec<Row> {
        let pair = |system: &str| {
            let [a, f] = DIRECTIONS.map(|operation| printed(system, operation));
            Some(a? + f?)
        };
        let ratio = |own: Option<f64>, other: Option<f64>| Some(own? / other?);
        let mut rows = Vec::new();
        for (direction, operation) in DIRECTIONS.into_iter().enumerate() {
            let own = Row {
                operation,
                ..common.clone()
            };
            let system = common.system.as_str();
            let expected = ratio(printed(system, operation), printed(name, operation));
            let values = over(&self.operations[direction], &other.operations[direction]);
            rows.extend(seeds(&values, &own, operations, expected));
            let values = over(&self.times[direction], &other.times[direction]);
            rows.extend(seeds(&values, &own, times, expected));
        }
        let own = Row {
            operation: PAIR,
            ..common.clone()
        };
        let expected = ratio(pair(&common.system), pair(name));
        let values = over(&self.pairs(), &other.pairs());
        rows.extend(seeds(&values, &own, operations, expected));
        let values = over(&self.times[2], &other.times[2]);
        rows.extend(seeds(&values, &own, times, expected));
        rows
    }
}

/// Returns rows about the calls of one kind, over all seeds.
fn counts(tally: &Tally, common: &Row) -> Vec<Row> {
    let calls = tally.operations.count().max(1) as f64;
    vec![
        row(common, "operations", "stddev", tally.operations.stddev()),
        row(
            common,
            "operations",
            "max",
            f64::from(tally.operations.max()),
        ),
        row(common, "operations", "count", calls),
        row(
            common,
            "list_operations",
            "mean",
            tally.links as f64 / calls,
        ),
        row(common, "map_operations", "mean", tally.marks as f64 / calls),
        row(common, "splits", "mean", tally.splits.mean()),
        row(common, "coalescings", "mean", tally.delays.mean()),
    ]
}
