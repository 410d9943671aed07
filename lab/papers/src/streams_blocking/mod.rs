//! The failure rate of requests, and the arena.
//!
//! Results are compared with table 3 of \[BL89\], which does not report the size of its arena. It is fitted so that
//! the standard buddy fails as often as theirs, once under M/M/m and once with batches; every other number is a
//! prediction. Runs are as long as the paper's apparently were, and start with an empty arena.
//!
//! # Invariants
//! The calls for fitting an arena are different from the evaluated calls.

pub(crate) mod figure;

use crate::shared::prelude::*;
use crate::streams::fit::{Point, fit};
use crate::streams::recording::Recording;
use crate::streams::runs::{self, Failure};
use everybuddy_workload::streams::UNIT;

use crate::streams::rows::{Arrivals, Recordings, failed, means, published, record, seeds};

/// The source of rows about arenas of different sizes, with their bytes after the `@`.
const ARENA: &str = "arena";

/// The sources of rows about the start and the end of long runs.
const ENDS: [&str; 2] = ["first-tenth", "last-tenth"];

/// The share of failed requests.
const METRIC: &str = "blocking_probability";

/// Rounds of short runs, of the runs for fitting and of long runs start here, so that all runs differ.
const ROUNDS: [u64; 3] = [0, 10_000, 20_000];

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of users, as in the paper.
    users: f64,
    /// The traffic for fitting each arena; the names of rows in the first arena are those of their traffic.
    fitted: Vec<Arrivals>,
    /// The number of runs for fitting an arena.
    fitting: u64,
    /// The range of arenas for the search.
    searched: Sizes,
    /// The arenas in the figure.
    shown: Sizes,
    /// The evaluated runs; the names of rows of the first kind are those of their traffic.
    runs: Vec<Runs>,
    /// Arrivals and departures of long runs.
    long: Vec<Arrivals>,
    /// The long runs.
    recordings: Recordings,
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

/// Runs of the same length.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runs {
    /// Arrivals and departures.
    traffic: Vec<Arrivals>,
    /// The number of requests of a run.
    requests: usize,
    /// The number of runs.
    count: u64,
}

/// A size of memory, with its place in the names of rows.
#[derive(Clone, Copy)]
struct Place {
    units: u32,
    arena: usize,
}

impl Runs {
    /// Records the calls of a run, from an empty arena on.
    fn record(
        &self,
        traffic: &Arrivals,
        users: f64,
        round: u64,
        conditions: &Conditions,
    ) -> Recording {
        // Half of the calls are requests.
        let calls = (0, 2 * self.requests);
        record((traffic.timing, users), round, calls, conditions)
    }
}

impl Parameters {
    /// Returns the kind of runs that arenas are fitted with.
    fn judged(&self) -> Result<&Runs, Error> {
        let what = "experiment streams-blocking: [parameters]: no runs";
        self.runs.first().ok_or_else(|| Error::usage(what))
    }

    /// Returns the source of rows about runs of some kind in an arena.
    fn source(&self, kind: usize, traffic: &Arrivals, arena: usize) -> String {
        let name = match self.runs.get(kind) {
            Some(runs) if kind > 0 => format!("{} of {}", traffic.name, runs.requests),
            _ => traffic.name.clone(),
        };
        match arena {
            0 => name,
            _ => format!("{name}, arena {}", arena + 1),
        }
    }

    /// Returns all kinds of runs with their traffic.
    fn all_runs(&self) -> impl Iterator<Item = (usize, &Runs, &Arrivals)> {
        let kinds = self.runs.iter().enumerate();
        kinds.flat_map(|(kind, runs)| runs.traffic.iter().map(move |own| (kind, runs, own)))
    }
}

/// Returns the source of rows about the search for an arena.
fn fit_name(traffic: &Arrivals) -> String {
    format!("fitted on {}", traffic.name)
}

/// Returns the source of rows about long runs.
fn long_name(traffic: &Arrivals) -> String {
    format!("long-{}", traffic.name)
}

/// Returns `true` for a system that the paper describes.
fn is_faithful(spec: &SystemSpec) -> bool {
    let options = spec.options();
    options.reclaim.is_none() && options.lazy.is_none() && options.speedup.is_none()
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(self.runs.first().map_or(0, |runs| runs.count) as u32)
    }

    fn design(&self, _: &Experiment, _: &Conditions) -> Result<Design, Error> {
        // One cell: all depends on the arenas that are fitted first.
        let mut about = Vec::new();
        for arena in 0..self.fitted.len() {
            let runs = self.all_runs();
            about.extend(runs.map(|(kind, _, own)| self.source(kind, own, arena)));
        }
        about.extend(self.fitted.iter().map(fit_name));
        about.extend([ARENA].into_iter().chain(ENDS).map(String::from));
        about.extend(self.long.iter().map(long_name));
        let kinds = self.all_runs().count() + 1;
        let steps = self.fitted.len() * kinds + self.long.len() + 2;
        let about = about.into_iter().map(About::all).collect();
        Ok(Design::new(vec![Cell::new("all", steps, about)]))
    }

    /// Fits the arenas, then counts failures.
    fn measure(&self, _: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let mut rows = Vec::new();
        let mut units = Vec::new();
        for traffic in &self.fitted {
            let found = self.fit(run, &specs, traffic, &mut rows)?;
            units.push(found);
            run.step(fit_name(traffic));
        }
        for (kind, runs, traffic) in self.all_runs() {
            for (arena, units) in units.iter().copied().enumerate() {
                let place = Place { units, arena };
                let source = self.source(kind, traffic, arena);
                let runs = (runs, traffic, source.as_str());
                rows.extend(self.short(run, &specs, runs, place)?);
                run.step(&source);
            }
        }
        // The largest order does not matter to what follows.
        let of_first = |spec: &SystemSpec| spec.options().order == specs[0].options().order;
        let specs: Vec<SystemSpec> = specs
            .iter()
            .filter(|spec| of_first(spec))
            .cloned()
            .collect();
        let first = units.first().copied().unwrap_or_default();
        for traffic in &self.long {
            rows.extend(self.long(run, &specs, traffic, first)?);
            run.step(long_name(traffic));
        }
        rows.extend(self.drift(run, &specs, first)?);
        run.step("drift");
        rows.extend(self.curves(run, &specs)?);
        run.step(ARENA);
        Ok(rows)
    }
}

impl Parameters {
    /// Records the runs for fitting an arena.
    fn fitting(
        &self,
        traffic: &Arrivals,
        conditions: &Conditions,
    ) -> Result<Vec<Recording>, Error> {
        let runs = self.judged()?;
        let rounds = ROUNDS[1]..ROUNDS[1] + (self.fitting / u64::from(conditions.shrink)).max(1);
        let record = |round| runs.record(traffic, self.users, round, conditions);
        Ok(rounds.map(record).collect())
    }

    /// Finds the arena in which the standard buddy fails as often as the source reports for some traffic.
    fn fit(
        &self,
        run: &Run<'_, '_>,
        specs: &[SystemSpec],
        traffic: &Arrivals,
        rows: &mut Vec<Row>,
    ) -> Result<u32, Error> {
        let standard = specs.iter().find(|spec| spec.name() == "bs");
        let target = published(run.experiment, &traffic.name, "bs", "allocate", METRIC);
        let (standard, target) = standard.zip(target).ok_or_else(|| {
            let name = &run.experiment.name;
            let what =
                "an arena is fitted on `bs`, which must run, and of which a number must be published";
            Error::usage(format!("experiment {name}: {what}"))
        })?;
        let fitting = self.fitting(traffic, run.conditions)?;
        let (found, seen) = fit(
            target,
            (self.searched.from / UNIT, self.searched.to / UNIT),
            self.searched.step / UNIT,
            |units| refused(standard, units, &fitting),
        )
        .map_err(failed(standard))?;
        let base = run.common(&fit_name(traffic), standard, 1).of("allocate");
        rows.put(&base, "arena", "value", f64::from(found.units * UNIT));
        rows.extend(seen.iter().map(|Point { units, refused }| {
            row(&base, METRIC, "rate", *refused).at(format_args!("{}", units * UNIT))
        }));
        rows.push(row(&base, METRIC, "rate", found.refused).expecting(Some(target)));
        Ok(found.units)
    }

    /// Returns the share of failed requests, and its variation between runs.
    fn short(
        &self,
        run: &Run<'_, '_>,
        specs: &[SystemSpec],
        (runs, traffic, source): (&Runs, &Arrivals, &str),
        place: Place,
    ) -> Result<Vec<Row>, Error> {
        let rounds = 0..(runs.count / u64::from(run.shrink())).max(1);
        let record = |round| runs.record(traffic, self.users, ROUNDS[0] + round, run.conditions);
        let shares = shares(specs, place.units, rounds.map(record))?;
        let mut rows = Vec::new();
        for (spec, shares) in specs.iter().zip(&shares) {
            let common = run.common(source, spec, 1).of("allocate");
            // The source has no system with options.
            let expected = published(
                run.experiment,
                &traffic.name,
                spec.name(),
                "allocate",
                METRIC,
            );
            let expected = expected.filter(|_| is_faithful(spec));
            rows.extend(means(shares, &common, METRIC, expected));
            if place.arena == 0 {
                rows.put(&common, METRIC, "published", expected);
            }
            rows.extend(spread(shares, runs.requests, &common, expected));
        }
        Ok(rows)
    }

    /// Returns the share of failed requests in long runs, which start when memory has filled.
    fn long(
        &self,
        run: &Run<'_, '_>,
        specs: &[SystemSpec],
        traffic: &Arrivals,
        units: u32,
    ) -> Result<Vec<Row>, Error> {
        let record = |seed| self.record_long(traffic, seed, run.conditions);
        let shares = shares(specs, units, (0..self.recordings.seeds).map(record))?;
        let rows = specs.iter().zip(&shares).flat_map(|(spec, shares)| {
            let common = run.common(&long_name(traffic), spec, 1).of("allocate");
            means(shares, &common, METRIC, None)
        });
        Ok(rows.collect())
    }

    fn record_long(&self, traffic: &Arrivals, seed: u64, conditions: &Conditions) -> Recording {
        let Recordings {
            users, calls, warm, ..
        } = self.recordings;
        let round = ROUNDS[2] + seed;
        record((traffic.timing, users), round, (warm, calls), conditions)
    }

    /// Returns the mean number of free blocks of each order, in the first and the last tenth of long runs.
    fn drift(
        &self,
        run: &Run<'_, '_>,
        specs: &[SystemSpec],
        units: u32,
    ) -> Result<Vec<Row>, Error> {
        const PARTS: usize = 10;
        let mut rows = Vec::new();
        // By system and end: by seed, by order.
        let mut all: Vec<[Vec<Vec<f64>>; 2]> = vec![Default::default(); specs.len()];
        let Some(traffic) = self.long.first() else {
            return Ok(rows);
        };
        for seed in 0..self.recordings.seeds {
            let recording = self.record_long(traffic, seed, run.conditions);
            for (spec, all) in specs.iter().zip(&mut all) {
                let parts =
                    runs::free_blocks(spec, units, &recording, PARTS).map_err(failed(spec))?;
                for (all, part) in all.iter_mut().zip([parts.first(), parts.last()]) {
                    all.extend(part.cloned());
                }
            }
        }
        for (spec, all) in specs.iter().zip(&all) {
            for (source, all) in ENDS.into_iter().zip(all) {
                for order in 0..=7u8 {
                    let common = run.common(source, spec, 1).of_order(Some(order));
                    let blocks: Vec<f64> = all.iter().map(|own| own[usize::from(order)]).collect();
                    rows.extend(seeds(&blocks, &common, "free_blocks", None));
                }
            }
        }
        Ok(rows)
    }

    /// Returns the share of failed requests over the size of the arena, under the traffic of the first fit.
    fn curves(&self, run: &Run<'_, '_>, specs: &[SystemSpec]) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let Some(traffic) = self.fitted.first() else {
            return Ok(rows);
        };
        let fitting = self.fitting(traffic, run.conditions)?;
        for spec in specs {
            for size in self.shown.all() {
                let share = refused(spec, size / UNIT, &fitting).map_err(failed(spec))?;
                let own = run.common(ARENA, spec, 1).at(size).of("allocate");
                rows.put(&own, METRIC, "rate", share);
            }
        }
        Ok(rows)
    }
}

/// Returns the share of failed requests of each system in each recording.
fn shares(
    specs: &[SystemSpec],
    units: u32,
    recordings: impl Iterator<Item = Recording>,
) -> Result<Vec<Vec<f64>>, Error> {
    let mut shares: Vec<Vec<f64>> = vec![Vec::new(); specs.len()];
    for recording in recordings {
        for (spec, shares) in specs.iter().zip(&mut shares) {
            let share = runs::blocking(spec, units, &recording);
            shares.push(share.map_err(failed(spec))?);
        }
    }
    Ok(shares)
}

/// Returns rows of the numbers of failed requests in single runs.
fn spread(shares: &[f64], requests: usize, common: &Row, expected: Option<f64>) -> Vec<Row> {
    let count = |share: f64| (share * requests as f64).round();
    let mut counts: Vec<f64> = shares.iter().copied().map(count).collect();
    counts.sort_unstable_by(f64::total_cmp);
    let expected = expected.map(count);
    let middle = mean(counts.iter().copied()).unwrap_or_default();
    let mut rows = vec![row(common, "refusals", "mean", middle).expecting(expected)];
    for (statistic, share) in [("p5", 0.05), ("p50", 0.5), ("p95", 0.95)] {
        let rank = (share * counts.len() as f64).ceil().max(1.0) as usize - 1;
        rows.put(common, "refusals", statistic, counts[rank]);
    }
    // The significance of the difference to the source's number.
    if let Some(expected) = expected {
        let fewer = counts.iter().filter(|count| **count <= expected).count();
        let share = fewer as f64 / counts.len() as f64;
        rows.put(common, "refusals", "rate", share);
    }
    rows
}

/// Returns the mean share of failed requests over some recordings.
fn refused(spec: &SystemSpec, units: u32, recordings: &[Recording]) -> Result<f64, Failure> {
    let shares: Result<Vec<f64>, Failure> = recordings
        .iter()
        .map(|recording| runs::blocking(spec, units, recording))
        .collect();
    Ok(mean(shares?.into_iter()).unwrap_or_default())
}
