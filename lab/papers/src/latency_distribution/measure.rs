//! The distribution of the times of single calls, and whether they reached the zone layer.
//!
//! # Purpose
//!
//! A mean hides two bands: calls that a list serves, and those that wait for a batch.
//!
//! A counting pass determines the calls that reach the zone layer. On one thread a timed pass repeats it call by call.
//! The time of each call is the median of its repetitions, so that a single context switch does not matter.
//!
//! Whether calls that are timed one by one take as long as in a program is measured, too: the same calls are timed in
//! segments, and the mean of these times is the expected value of the mean.
//!
//! # Invariants
//!
//! All of the passes perform the same calls in the same order.

use everybuddy::SystemSpec;

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, DIRECTIONS, Measure, Traced, common, replays, row};
use everybuddy_measure::Error;
use everybuddy_measure::replay::adapter::{Adapter, REFUSED};
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::observe::{Observer, Ticks};
use everybuddy_measure::replay::pace::repetitions;
use everybuddy_measure::replay::pass::{self, How, Times};
use everybuddy_measure::replay::script::{Lane, Move, Script, Segment};
use everybuddy_measure::rows::{Row, rounded};
use serde::Deserialize;

/// The numbers of allocations, and those of frees.
type Directions<T> = [Vec<T>; 2];

/// Records for each allocation, and each free, whether it reached the zone layer.
struct Entered {
    marks: Directions<bool>,
}

impl Observer for Entered {
    fn allocations<P: Adapter>(
        &mut self,
        adapter: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        for (request, place) in moves.iter().zip(places) {
            let before = adapter.counts(request.token);
            *place = adapter.allocate(request);
            let after = adapter.counts(request.token);
            self.marks[0].push(after.locks > before.locks);
        }
    }

    fn frees<P: Adapter>(
        &mut self,
        adapter: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        for (release, place) in moves.iter().zip(places) {
            if *place != REFUSED {
                let before = adapter.counts(release.token);
                adapter.free(release, *place);
                let after = adapter.counts(release.token);
                self.marks[1].push(after.locks > before.locks);
            }
        }
    }
}

/// The calls that a list served and those that reached the zone layer, as rows name them after the trace.
const BANDS: [&str; 2] = [":hit", ":core"];

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of timed runs of each system, in turns.
    rounds: usize,
    /// Bins per decade of the histogram.
    bins_per_decade: f64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Calls(self.rounds as u32)
    }

    /// Returns the number of replays.
    fn steps(&self, experiment: &Experiment) -> u64 {
        (experiment.systems.len() * experiment.traces().len() * (self.rounds + 1)) as u64
    }

    fn sources(&self, experiment: &Experiment) -> Vec<String> {
        let traces = experiment.trace_names().into_iter();
        let bands = |name: String| {
            let bands = [""].into_iter().chain(BANDS);
            bands.map(move |band| format!("{name}{band}"))
        };
        traces.flat_map(bands).collect()
    }

    /// Replays each trace on all systems in turns.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let specs = experiment.specs()?;
        let mut rows = Vec::new();
        for traced in replays(experiment, conditions, None)? {
            let Traced {
                name,
                script,
                memory,
                ..
            } = traced?;
            let mut all = Vec::new();
            for spec in &specs {
                all.push(Timed {
                    marks: marks(&script, &memory, spec, bench)?,
                    ..Timed::default()
                });
                (bench.step)(&format!("{name} {spec}"));
            }
            for round in 0..self.rounds {
                for turn in 0..specs.len() {
                    let who = (turn + round) % specs.len();
                    let mut time = |times| times_of(&script, &memory, &specs[who], times, bench);
                    let (singles, segments) = (time(Times::Singles)?, time(Times::Segments)?);
                    all[who].singles.push(singles.directions);
                    all[who].segments.push(segments.directions);
                    all[who].operations = segments.operations;
                    (bench.step)(&format!("{name} {}", specs[who]));
                }
            }
            for (spec, timed) in specs.iter().zip(&all) {
                let common = common(experiment, conditions, &name, spec, script.cpus);
                rows.extend(timed.rows(&common, self.bins_per_decade, bench.timer));
            }
            let common = Row {
                system: "timer".to_string(),
                ..common(experiment, conditions, &name, &specs[0], script.cpus)
            };
            let floor = Row {
                options: String::new(),
                ..row(&common, "latency", "value", bench.timer.floor())
            };
            rows.push(floor);
        }
        Ok(rows)
    }
}

/// The results of a system.
#[derive(Default)]
struct Timed {
    /// Whether each call reached the zone layer.
    marks: Directions<bool>,
    /// The ticks of each call, by round.
    singles: Vec<Directions<u32>>,
    /// The ticks of each segment, by round.
    segments: Vec<Directions<u32>>,
    /// The calls in all segments of a round.
    operations: [u64; 2],
}

impl Timed {
    /// Returns the numbers and histograms of both directions, and the numbers of all calls.
    fn rows(&self, common: &Row, bins_per_decade: f64, timer: &Timer) -> Vec<Row> {
        let mut rows = Vec::new();
        let (mut all, mut expected, mut calls) = (Vec::new(), 0.0, 0);
        for (direction, operation) in DIRECTIONS.into_iter().enumerate() {
            let own = Row {
                operation,
                ..common.clone()
            };
            let ticks = medians(&self.singles, direction);
            let segments = medians(&self.segments, direction);
            let sum = segments.iter().map(|ticks| f64::from(*ticks)).sum();
            let nanos = timer.sum(sum, segments.len());
            let operations = self.operations[direction];
            let mean = share_of(nanos, operations);
            let marks = &self.marks[direction];
            rows.extend(summary(marks, &ticks, (&own, mean), bins_per_decade, timer));
            all.extend(ticks);
            expected += nanos;
            calls += operations;
        }
        rows.extend(numbers(&all, common, share_of(expected, calls), timer));
        rows
    }
}

/// Returns the mean of a sum; `None` of nothing.
fn share_of(nanos: f64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| nanos / calls as f64)
}

fn marks(
    script: &Script,
    memory: &Memory,
    spec: &SystemSpec,
    bench: &mut Bench<'_>,
) -> Result<Directions<bool>, Error> {
    let new = |lane: &Lane| Entered {
        marks: lane.directions().map(Vec::with_capacity),
    };
    let done = pass::watch(script, memory, bench.arena, spec, How::COUNTED, new)?;
    let mut all = Directions::default();
    for own in done.played.observers {
        for (all, own) in all.iter_mut().zip(own.marks) {
            all.extend(own);
        }
    }
    Ok(all)
}

/// Times calls one by one, or segments.
fn times_of(
    script: &Script,
    memory: &Memory,
    spec: &SystemSpec,
    times: Times,
    bench: &mut Bench<'_>,
) -> Result<Ticks, Error> {
    let played = pass::time(script, memory, bench.arena, spec, bench.timer, times)?;
    // One thread performs everything.
    let first = played.observers.into_iter().next();
    Ok(first.unwrap_or_default())
}

/// Returns the median of the repetitions of each call, or of each segment, in a direction.
fn medians(rounds: &[Directions<u32>], direction: usize) -> Vec<u32> {
    let rounds: Vec<&[u32]> = rounds.iter().map(|round| &round[direction][..]).collect();
    let mut medians = Vec::new();
    repetitions(&rounds, |sorted| medians.push(sorted[sorted.len() / 2]));
    medians
}

/// Returns numbers of all calls of a direction and of each band, and the histograms of the bands.
fn summary(
    marks: &[bool],
    ticks: &[u32],
    (common, expected): (&Row, Option<f64>),
    bins_per_decade: f64,
    timer: &Timer,
) -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(numbers(ticks, common, expected, timer));
    for (entered, band) in [false, true].into_iter().zip(BANDS) {
        let own = marks
            .iter()
            .zip(ticks)
            .filter(|(mark, _)| **mark == entered);
        let own: Vec<u32> = own.map(|(_, ticks)| *ticks).collect();
        let common = Row {
            source: format!("{}{band}", common.source),
            ..common.clone()
        };
        rows.extend(numbers(&own, &common, None, timer));
        rows.extend(histogram(&own, &common, bins_per_decade, timer));
    }
    rows
}

/// Returns numbers of some calls, with the mean that is expected of them.
fn numbers(ticks: &[u32], common: &Row, expected: Option<f64>, timer: &Timer) -> Vec<Row> {
    let mut rows = vec![row(common, "latency", "count", ticks.len() as f64)];
    if ticks.is_empty() {
        return rows;
    }
    let count = ticks.len() as f64;
    let mut nanos: Vec<f64> = ticks.iter().map(|ticks| timer.single(*ticks)).collect();
    nanos.sort_by(f64::total_cmp);
    let sum = ticks.iter().map(|ticks| f64::from(*ticks)).sum();
    let mean = timer.sum_of_singles(sum, ticks.len()) / count;
    let middle = nanos.iter().sum::<f64>() / count;
    let variance = nanos.iter().map(|n| (n - middle).powi(2)).sum::<f64>() / count;
    // Nearest rank: a time that actually occurred.
    let at = |permille: usize| nanos[(nanos.len() * permille).div_ceil(1000).max(1) - 1];
    rows.push(Row {
        expected: expected.map(rounded),
        ..row(common, "latency", "mean", mean)
    });
    // Over many calls. It includes the timer's own deviation, so it is not less than the allocator's.
    rows.push(row(common, "latency", "stddev", variance.sqrt()));
    let seen = [
        ("p50", at(500)),
        ("p99", at(990)),
        ("p999", at(999)),
        ("max", at(1000)),
    ];
    for (statistic, value) in seen {
        if value > timer.floor() {
            rows.push(row(common, "latency", statistic, value));
        }
    }
    rows
}

/// Returns a row for each non-empty bin, with the bin's lower edge after the `@`.
fn histogram(ticks: &[u32], common: &Row, bins_per_decade: f64, timer: &Timer) -> Vec<Row> {
    let mut bins = std::collections::BTreeMap::new();
    for ticks in ticks {
        // Everything below a nanosecond is in the first bin.
        let bin = (timer.single(*ticks).max(1.0).log10() * bins_per_decade).floor() as i32;
        *bins.entry(bin).or_insert(0u64) += 1;
    }
    let of = |(bin, count): (i32, u64)| Row {
        experiment: format!(
            "{}@{:.2}ns",
            common.experiment,
            10f64.powf(f64::from(bin) / bins_per_decade)
        ),
        ..row(common, "latency", "count", count as f64)
    };
    bins.into_iter().map(of).collect()
}
