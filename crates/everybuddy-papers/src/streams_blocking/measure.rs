//! How often requests are refused, and in which arena.
//!
//! Exists to be laid beside table 3 of Barkley and Lee (003), who don't say how large their arena was. It is fitted so
//! that the standard buddy refuses as often as theirs under M/M/m; every other number is a prediction.
//!
//! Invariant: the calls that the arena is fitted on are not those that are judged.

use crate::streams::fit::{Point, fit};
use crate::streams::recording::Recording;
use crate::streams::runs::{self, Failure};
use everybuddy::SystemSpec;
use everybuddy_workload::streams::UNIT;

use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, common, row};
use crate::streams::rows::{
    CALLS, FITTED, SEEDS, TRAFFIC, USERS, failed, published, record, seeds,
};
use everybuddy_measure::Error;
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::rows::Row;

/// The source of rows about arenas of different sizes: after the `@` their bytes.
pub(crate) const ARENA: &str = "arena";
/// Bytes of the arenas between which is searched, and by which they differ.
const SEARCHED: (u32, u32) = (48 << 10, 64 << 10);
const STEP: u32 = 512;
/// Bytes of the arenas that are shown, and by which they differ.
const SHOWN: (u32, u32) = (56 << 10, 66 << 10);
const SHOWN_STEP: u32 = 1 << 10;
/// Calls of a recording for the search, and of one that is judged.
const SEARCHING: usize = CALLS;
const JUDGED: usize = 2 * CALLS;

/// The sources of rows about runs that are short, and their traffic.
const SHORT: [(&str, usize); 3] = [
    ("short-M/M/m", 1),
    ("short-batch-4", 2),
    ("short-geometric-4", 3),
];
/// The sources of rows about the beginning and the end of long runs.
const ENDS: [&str; 2] = ["first-tenth", "last-tenth"];
/// Requests of a short run. The source's three shares under M/M/m are 10, 19 and 22 of 74,000 to all their digits, and
/// of no other number of requests below 147,900 (where they are twice as many).
const SHORT_REQUESTS: usize = 74_000;
/// Short runs.
const SHORT_RUNS: u64 = 200;

/// How many recordings are performed, about.
pub(crate) fn steps(experiment: &Experiment) -> u64 {
    let shown = (SHOWN.1 - SHOWN.0) / SHOWN_STEP + 1;
    experiment.systems.len() as u64 * (TRAFFIC.len() as u64 * SEEDS + u64::from(shown))
        + 2
        + SHORT.len() as u64
}

/// Fits the arena, then counts refusals.
pub(crate) fn run(
    experiment: &Experiment,
    conditions: &Conditions,
    bench: &mut Bench<'_>,
) -> Result<Vec<Row>, Error> {
    let specs = experiment.specs()?;
    let standard = specs.iter().find(|spec| spec.name() == "bs");
    let target = published(experiment, FITTED.0, "bs", "allocate", METRIC);
    let (standard, target) = standard.zip(target).ok_or_else(|| {
        let name = &experiment.name;
        let what =
            "the arena is fitted on `bs`, which must run, and of which a number must be published";
        Error::usage(format!("experiment {name}: {what}"))
    })?;
    // Rounds that are not judged.
    let fitting = SEEDS..2 * SEEDS;
    let fitting: Vec<Recording> = fitting
        .map(|round| record(FITTED.1, USERS, round, SEARCHING, conditions))
        .collect();
    let (found, seen) = fit(
        target,
        (SEARCHED.0 / UNIT, SEARCHED.1 / UNIT),
        STEP / UNIT,
        |units| refused(standard, units, &fitting),
    )
    .map_err(failed(standard))?;
    (bench.step)("fitted");
    let base = Row {
        operation: "allocate",
        ..common(experiment, conditions, "fit", standard, 1)
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
    for (source, timing) in TRAFFIC {
        let mut shares: Vec<Vec<f64>> = vec![Vec::new(); specs.len()];
        for seed in 0..SEEDS {
            let recording = record(timing, USERS, seed, JUDGED, conditions);
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
            // A system with options is none of the source's.
            let is_faithful = spec.options().reclaim.is_none();
            let expected = published(experiment, source, spec.name(), "allocate", METRIC);
            let expected = expected.filter(|_| is_faithful);
            rows.extend(seeds(shares, &common, METRIC, expected));
            rows.extend(expected.map(|value| row(&common, METRIC, "published", value)));
        }
    }
    for (source, traffic) in SHORT {
        rows.extend(short(
            experiment,
            conditions,
            (source, traffic),
            &specs,
            found.units,
        )?);
        (bench.step)(source);
    }
    rows.extend(drift(experiment, conditions, &specs, found.units)?);
    (bench.step)("drift");
    for spec in &specs {
        for size in (SHOWN.0..=SHOWN.1).step_by(SHOWN_STEP as usize) {
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

const METRIC: &str = "blocking_probability";

/// How far the number of refused requests differs between runs that are short.
fn short(
    experiment: &Experiment,
    conditions: &Conditions,
    (source, traffic): (&str, usize),
    specs: &[SystemSpec],
    units: u32,
) -> Result<Vec<Row>, Error> {
    let (printed, timing) = TRAFFIC[traffic];
    let mut counts: Vec<Vec<u64>> = vec![Vec::new(); specs.len()];
    for run in 0..(SHORT_RUNS / u64::from(conditions.shrink.max(1))).max(1) {
        // Half of the calls are requests.
        let round = 2 * SEEDS + run;
        let recording = record(timing, USERS, round, 2 * SHORT_REQUESTS, conditions);
        for (spec, counts) in specs.iter().zip(&mut counts) {
            let share = runs::blocking(spec, units, &recording).map_err(failed(spec))?;
            counts.push((share * SHORT_REQUESTS as f64).round() as u64);
        }
    }
    let mut rows = Vec::new();
    for (spec, counts) in specs.iter().zip(&mut counts) {
        let common = Row {
            operation: "allocate",
            ..common(experiment, conditions, source, spec, 1)
        };
        counts.sort_unstable();
        let is_faithful = spec.options().reclaim.is_none();
        let expected = published(experiment, printed, spec.name(), "allocate", METRIC);
        let expected = expected.map(|share| (share * SHORT_REQUESTS as f64).round());
        let middle = mean(counts.iter().map(|count| *count as f64)).unwrap_or_default();
        rows.push(Row {
            expected: expected.filter(|_| is_faithful),
            ..row(&common, "refusals", "mean", middle)
        });
        for (statistic, share) in [("p5", 0.05), ("p50", 0.5), ("p95", 0.95)] {
            let rank = (share * counts.len() as f64).ceil().max(1.0) as usize - 1;
            rows.push(row(&common, "refusals", statistic, counts[rank] as f64));
        }
        // How unusual the source's number would be.
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

/// How many blocks of each order are free on average under M/M/m, in the beginning and in the end of long runs.
fn drift(
    experiment: &Experiment,
    conditions: &Conditions,
    specs: &[SystemSpec],
    units: u32,
) -> Result<Vec<Row>, Error> {
    const PARTS: usize = 10;
    let mut rows = Vec::new();
    // By system and end: by seed, by order.
    let mut all: Vec<[Vec<Vec<f64>>; 2]> = vec![Default::default(); specs.len()];
    for seed in 0..SEEDS {
        let recording = record(FITTED.1, USERS, seed, JUDGED, conditions);
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

/// The mean share of refused requests over some recordings.
fn refused(spec: &SystemSpec, units: u32, recordings: &[Recording]) -> Result<f64, Failure> {
    let shares: Result<Vec<f64>, Failure> = recordings
        .iter()
        .map(|recording| runs::blocking(spec, units, recording))
        .collect();
    Ok(mean(shares?.into_iter()).unwrap_or_default())
}
