//! The failure rate of requests, and the arena.
//!
//! # Purpose
//!
//! Results are compared with table 3 of \[BL89\], which does not report the size of its arena. It is fitted so that
//! the standard buddy fails as often as theirs under M/M/m; every other number is a prediction.
//!
//! # Invariants
//!
//! The calls for fitting the arena are different from the evaluated calls.

use crate::streams::fit::{Point, fit};
use crate::streams::recording::Recording;
use crate::streams::runs::{self, Failure};
use everybuddy::SystemSpec;
use everybuddy_workload::streams::UNIT;

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, Measure, common, row};
use crate::streams::rows::{Arrivals, Recordings, failed, published, record, seeds};
use everybuddy_measure::Error;
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The source of rows about arenas of different sizes, with their bytes after the `@`.
const ARENA: &str = "arena";

/// The sources of rows about the start and the end of long runs.
const ENDS: [&str; 2] = ["first-tenth", "last-tenth"];
/// The source of rows about the search for the arena.
const FIT: &str = "fit";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Arrivals and departures.
    traffic: Vec<Arrivals>,
    /// The recordings.
    recordings: Recordings,
    /// The traffic for fitting the arena.
    fitted: Arrivals,
    /// The range of arenas for the search.
    searched: Sizes,
    /// The arenas in the figure.
    shown: Sizes,
    /// The number of calls of an evaluated recording.
    judged: usize,
    /// The short runs.
    short: Short,
}

/// Sizes of arenas, in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    from: u32,
    to: u32,
    step: u32,
}

impl Sizes {
    fn all(&self) -> impl Iterator<Item = u32> {
        (self.from..=self.to).step_by(self.step.max(1) as usize)
    }
}

/// The parameters of short runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Short {
    /// Arrivals and departures.
    traffic: Vec<Arrivals>,
    /// The number of requests of a run.
    requests: usize,
    /// The number of runs.
    runs: u64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(self.recordings.seeds as u32)
    }

    /// Returns the approximate number of recordings.
    fn steps(&self, experiment: &Experiment) -> u64 {
        let shown = self.shown.all().count() as u64;
        experiment.systems.len() as u64
            * (self.traffic.len() as u64 * self.recordings.seeds + shown)
            + 2
            + self.short.traffic.len() as u64
    }

    fn sources(&self, _: &Experiment) -> Vec<String> {
        let traffic = self.traffic.iter().map(|own| own.name.clone());
        let short = self.short.traffic.iter().map(short_name);
        let others = [FIT, ARENA].into_iter().chain(ENDS).map(String::from);
        traffic.chain(short).chain(others).collect()
    }

    /// Fits the arena, then counts failures.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let Recordings {
            users,
            seeds: rounds,
            calls,
            warm,
        } = self.recordings;
        let specs = experiment.specs()?;
        let standard = specs.iter().find(|spec| spec.name() == "bs");
        let target = published(experiment, &self.fitted.name, "bs", "allocate", METRIC);
        let (standard, target) = standard.zip(target).ok_or_else(|| {
        let name = &experiment.name;
        let what =
            "the arena is fitted on `bs`, which must run, and of which a number must be published";
        Error::usage(format!("experiment {name}: {what}"))
    })?;
        // Rounds that are not evaluated.
        let fitting = rounds..2 * rounds;
        let fitting: Vec<Recording> = fitting
            .map(|round| {
                record(
                    (self.fitted.timing, users),
                    round,
                    (warm, calls),
                    conditions,
                )
            })
            .collect();
        let (found, seen) = fit(
            target,
            (self.searched.from / UNIT, self.searched.to / UNIT),
            self.searched.step / UNIT,
            |units| refused(standard, units, &fitting),
        )
        .map_err(failed(standard))?;
        (bench.step)("fitted");
        let base = Row {
            operation: "allocate",
            ..common(experiment, conditions, FIT, standard, 1)
        };
        let bytes = |units: u32| f64::from(units * UNIT);
        let mut rows = vec![row(&base, "arena", "value", bytes(found.units))];
        rows.extend(seen.iter().map(|Point { units, refused }| Row {
            experiment: format!("{}@{}", experiment.name, units * UNIT),
            ..row(&base, METRIC, "rate", *refused)
        }));
        rows.push(Row {
            expected: Some(target),
            ..row(&base, METRIC, "rate", found.refused)
        });
        for Arrivals {
            name: source,
            timing,
        } in &self.traffic
        {
            let mut shares: Vec<Vec<f64>> = vec![Vec::new(); specs.len()];
            for seed in 0..rounds {
                let recording = record((*timing, users), seed, (warm, self.judged), conditions);
                for (spec, shares) in specs.iter().zip(&mut shares) {
                    let share = runs::blocking(spec, found.units, &recording);
                    shares.push(share.map_err(failed(spec))?);
                    (bench.step)(&format!("{source} {spec}"));
                }
            }
            for (spec, shares) in specs.iter().zip(&shares) {
                let common = Row {
                    operation: "allocate",
                    ..common(experiment, conditions, source, spec, 1)
                };
                // The source has no system with options.
                let is_faithful = spec.options().reclaim.is_none();
                let expected = published(experiment, source, spec.name(), "allocate", METRIC);
                let expected = expected.filter(|_| is_faithful);
                rows.extend(seeds(shares, &common, METRIC, expected));
                rows.extend(expected.map(|value| row(&common, METRIC, "published", value)));
            }
        }
        for traffic in &self.short.traffic {
            rows.extend(short(
                (experiment, self),
                conditions,
                traffic,
                &specs,
                found.units,
            )?);
            (bench.step)(&traffic.name);
        }
        rows.extend(drift((experiment, self), conditions, &specs, found.units)?);
        (bench.step)("drift");
        for spec in &specs {
            for size in self.shown.all() {
                let share = refused(spec, size / UNIT, &fitting).map_err(failed(spec))?;
                let own = Row {
                    experiment: format!("{}@{size}", experiment.name),
                    operation: "allocate",
                    ..common(experiment, conditions, ARENA, spec, 1)
                };
                rows.push(row(&own, METRIC, "rate", share));
                (bench.step)(&format!("{size} bytes {spec}"));
            }
        }
        Ok(rows)
    }
}

const METRIC: &str = "blocking_probability";

/// Returns the source of rows about short runs.
fn short_name(traffic: &Arrivals) -> String {
    format!("short-{}", traffic.name)
}

/// Returns the variation of the number of failed requests between short runs.
fn short(
    (experiment, own): (&Experiment, &Parameters),
    conditions: &Conditions,
    traffic: &Arrivals,
    specs: &[SystemSpec],
    units: u32,
) -> Result<Vec<Row>, Error> {
    let source = short_name(traffic);
    let (requests, all) = (own.short.requests, &own.recordings);
    let mut counts: Vec<Vec<u64>> = vec![Vec::new(); specs.len()];
    for run in 0..(own.short.runs / u64::from(conditions.shrink.max(1))).max(1) {
        // Half of the calls are requests.
        let round = 2 * all.seeds + run;
        let recording = record(
            (traffic.timing, all.users),
            round,
            (all.warm, 2 * requests),
            conditions,
        );
        for (spec, counts) in specs.iter().zip(&mut counts) {
            let share = runs::blocking(spec, units, &recording).map_err(failed(spec))?;
            counts.push((share * requests as f64).round() as u64);
        }
    }
    let mut rows = Vec::new();
    for (spec, counts) in specs.iter().zip(&mut counts) {
        let common = Row {
            operation: "allocate",
            ..common(experiment, conditions, &source, spec, 1)
        };
        counts.sort_unstable();
        let is_faithful = spec.options().reclaim.is_none();
        let expected = published(experiment, &traffic.name, spec.name(), "allocate", METRIC);
        let expected = expected.map(|share| (share * requests as f64).round());
        let middle = mean(counts.iter().map(|count| *count as f64)).unwrap_or_default();
        rows.push(Row {
            expected: expected.filter(|_| is_faithful),
            ..row(&common, "refusals", "mean", middle)
        });
        for (statistic, share) in [("p5", 0.05), ("p50", 0.5), ("p95", 0.95)] {
            let rank = (share * counts.len() as f64).ceil().max(1.0) as usize - 1;
            rows.push(row(&common, "refusals", statistic, counts[rank] as f64));
        }
        // The significance of the difference to the source's number.
        if let Some(expected) = expected.filter(|_| is_faithful) {
            let fewer = counts
                .iter()
                .filter(|count| **count as f64 <= expected)
                .count();
            let share = fewer as f64 / counts.len() as f64;
            rows.push(row(&common, "refusals", "rate", share));
        }
    }
    Ok(rows)
}

/// Returns the mean number of free blocks of each order under M/M/m, in the first and the last tenth of long runs.
fn drift(
    (experiment, own): (&Experiment, &Parameters),
    conditions: &Conditions,
    specs: &[SystemSpec],
    units: u32,
) -> Result<Vec<Row>, Error> {
    const PARTS: usize = 10;
    let mut rows = Vec::new();
    // By system and end: by seed, by order.
    let mut all: Vec<[Vec<Vec<f64>>; 2]> = vec![Default::default(); specs.len()];
    let Recordings {
        users,
        seeds: rounds,
        warm,
        ..
    } = own.recordings;
    for seed in 0..rounds {
        let traffic = (own.fitted.timing, users);
        let recording = record(traffic, seed, (warm, own.judged), conditions);
        for (spec, all) in specs.iter().zip(&mut all) {
            let parts = runs::free_blocks(spec, units, &recording, PARTS).map_err(failed(spec))?;
            for (all, part) in all.iter_mut().zip([parts.first(), parts.last()]) {
                all.extend(part.cloned());
            }
        }
    }
    for (spec, all) in specs.iter().zip(&all) {
        for (source, all) in ENDS.into_iter().zip(all) {
            for order in 0..=7u8 {
                let common = Row {
                    order: Some(order),
                    ..common(experiment, conditions, source, spec, 1)
                };
                let blocks: Vec<f64> = all.iter().map(|own| own[usize::from(order)]).collect();
                rows.extend(seeds(&blocks, &common, "free_blocks", None));
            }
        }
    }
    Ok(rows)
}

/// Returns the mean share of failed requests over some recordings.
fn refused(spec: &SystemSpec, units: u32, recordings: &[Recording]) -> Result<f64, Failure> {
    let shares: Result<Vec<f64>, Failure> = recordings
        .iter()
        .map(|recording| runs::blocking(spec, units, recording))
        .collect();
    Ok(mean(shares?.into_iter()).unwrap_or_default())
}
