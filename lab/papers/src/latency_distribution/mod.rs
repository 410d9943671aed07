//! The distribution of the times of single calls, and whether they reached the zone layer.
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
//! All of the passes perform the same calls in the same order.

pub(crate) mod figure;

use std::collections::BTreeMap;

use everybuddy::Counts;

use crate::shared::prelude::*;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::observe::{Notes, Ticks};
use everybuddy_measure::replay::pace::repetitions;
use everybuddy_measure::replay::pass::{self, Times};
use everybuddy_measure::replay::script::{Lane, Move, MoveKind};

/// The numbers of allocations, and those of frees.
type Directions<T> = [Vec<T>; 2];

/// Records for each allocation, and each free, whether it reached the zone layer.
struct Entered {
    marks: Directions<bool>,
}

impl Notes for Entered {
    fn note(&mut self, _: u32, performed: &Move, before: &Counts, after: &Counts) {
        let direction = usize::from(performed.kind != MoveKind::Allocate);
        self.marks[direction].push(after.locks > before.locks);
    }
}

/// The calls that a list served and those that reached the zone layer, as rows name them after the trace.
const BANDS: [&str; 2] = [":hit", ":core"];

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of timed runs of each system, in turns.
    rounds: u32,
    /// Bins per decade of the histogram.
    bins_per_decade: f64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Calls(self.rounds)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let steps = experiment.systems.len() * (self.rounds as usize + 1);
        let cell = |name: String| {
            let names = [""].into_iter().chain(BANDS);
            let about = names
                .map(|band| About::all(format!("{name}{band}")))
                .collect();
            Cell::new(name, steps, about)
        };
        let traces = experiment.trace_names().into_iter();
        Ok(Design::new(traces.map(cell).collect()))
    }

    /// Replays a trace on all systems in turns.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let traced = run.traced(trace, None)?;
        let (name, cpus) = (&traced.name, traced.script.cpus);
        let mut marks = Vec::new();
        for spec in &specs {
            marks.push(marks_of(&traced, spec, run.bench)?);
            run.step(format_args!("{name} {spec}"));
        }
        let all = run.in_turns(self.rounds, &specs, name, |spec, bench| {
            let mut time = |times| times_of(&traced, spec, times, bench);
            Ok([time(Times::Singles)?, time(Times::Segments)?])
        })?;
        let timer = run.bench.timer;
        let mut rows = Vec::new();
        for ((spec, marks), rounds) in specs.iter().zip(marks).zip(&all) {
            let common = run.common(name, spec, cpus);
            rows.extend(timed(&marks, rounds, &common, self.bins_per_decade, timer));
        }
        let common = run.subject(name, "timer", cpus);
        rows.put(&common, "latency", "value", timer.floor());
        Ok(rows)
    }
}

/// Returns the numbers and histograms of both directions, and the numbers of all calls. A round has the ticks of each
/// call, and those of each segment.
fn timed(
    marks: &Directions<bool>,
    rounds: &[[Ticks; 2]],
    common: &Row,
    bins_per_decade: f64,
    timer: &Timer,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut all, mut expected, mut calls) = (Vec::new(), 0.0, 0);
    for (own, direction) in directions(common, [0, 1]) {
        let [ticks, segments] = [0, 1].map(|kind| {
            // The median of the repetitions of each call, or of each segment.
            let rounds = rounds
                .iter()
                .map(|round| &round[kind].directions[direction][..]);
            let mut medians = Vec::new();
            repetitions(&rounds.collect::<Vec<_>>(), |sorted| {
                medians.push(sorted[sorted.len() / 2]);
            });
            medians
        });
        let sum = segments.iter().map(|ticks| f64::from(*ticks)).sum();
        let nanos = timer.sum(sum, segments.len());
        let operations = rounds
            .last()
            .map_or(0, |round| round[1].operations[direction]);
        let mean = share_of(nanos, operations);
        let marks = &marks[direction];
        rows.extend(summary(marks, &ticks, (&own, mean), bins_per_decade, timer));
        all.extend(ticks);
        expected += nanos;
        calls += operations;
    }
    rows.extend(numbers(&all, common, share_of(expected, calls), timer));
    rows
}

/// Returns the mean of a sum; `None` of nothing.
fn share_of(nanos: f64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| nanos / calls as f64)
}

fn marks_of(
    traced: &Traced,
    spec: &SystemSpec,
    bench: &mut Bench<'_>,
) -> Result<Directions<bool>, Error> {
    let done = traced.counted(spec, bench, |lane: &Lane| Entered {
        marks: lane.directions().map(Vec::with_capacity),
    })?;
    let mut all = Directions::default();
    for own in done.played.observers {
        all.iter_mut()
            .zip(own.marks)
            .for_each(|(all, own)| all.extend(own));
    }
    Ok(all)
}

/// Times calls one by one, or segments.
fn times_of(
    traced: &Traced,
    spec: &SystemSpec,
    times: Times,
    bench: &mut Bench<'_>,
) -> Result<Ticks, Error> {
    let (script, memory) = (&traced.script, &traced.memory);
    let played = pass::time(script, memory, bench.arena, spec, bench.timer, times, None)?;
    // One thread performs everything.
    let first = played.observers.into_iter().next();
    Ok(first.unwrap_or_default())
}

/// Returns numbers of all calls of a direction and of each band, and the histograms of the bands.
fn summary(
    marks: &[bool],
    ticks: &[u32],
    (common, expected): (&Row, Option<f64>),
    bins_per_decade: f64,
    timer: &Timer,
) -> Vec<Row> {
    let mut rows = numbers(ticks, common, expected, timer);
    for (entered, band) in [false, true].into_iter().zip(BANDS) {
        let own = marks
            .iter()
            .zip(ticks)
            .filter(|(mark, _)| **mark == entered);
        let own: Vec<u32> = own.map(|(_, ticks)| *ticks).collect();
        let common = common.about(format_args!("{}{band}", common.source));
        rows.extend(numbers(&own, &common, None, timer));
        rows.extend(histogram(&own, &common, bins_per_decade, timer));
    }
    rows
}

/// Returns numbers of some calls, with the mean that is expected of them.
fn numbers(ticks: &[u32], common: &Row, expected: Option<f64>, timer: &Timer) -> Vec<Row> {
    let count = ticks.len() as f64;
    let mut rows = Vec::new();
    rows.put(common, "latency", "count", count);
    if ticks.is_empty() {
        return rows;
    }
    let mut nanos: Vec<f64> = ticks.iter().map(|ticks| timer.single(*ticks)).collect();
    nanos.sort_by(f64::total_cmp);
    let sum = ticks.iter().map(|ticks| f64::from(*ticks)).sum();
    let mean = timer.sum_of_singles(sum, ticks.len()) / count;
    let middle = nanos.iter().sum::<f64>() / count;
    let variance = nanos.iter().map(|n| (n - middle).powi(2)).sum::<f64>() / count;
    let expecting = common.expecting(expected.map(rounded));
    rows.put(&expecting, "latency", "mean", mean);
    // Over many calls. It includes the timer's own deviation, so it is not less than the allocator's.
    rows.put(common, "latency", "stddev", variance.sqrt());
    for (statistic, permille) in [("p50", 500), ("p99", 990), ("p999", 999), ("max", 1000)] {
        // Nearest rank: a time that actually occurred.
        let value = nanos[(nanos.len() * permille).div_ceil(1000).max(1) - 1];
        let value = Some(value).filter(|value| *value > timer.floor());
        rows.put(common, "latency", statistic, value);
    }
    rows
}

/// Returns a row for each non-empty bin, with the bin's lower edge after the `@`.
fn histogram(ticks: &[u32], common: &Row, bins_per_decade: f64, timer: &Timer) -> Vec<Row> {
    let mut bins = BTreeMap::new();
    for ticks in ticks {
        // Everything below a nanosecond is in the first bin.
        let bin = (timer.single(*ticks).max(1.0).log10() * bins_per_decade).floor() as i32;
        *bins.entry(bin).or_insert(0u64) += 1;
    }
    let mut rows = Vec::new();
    for (bin, count) in bins {
        let from = 10f64.powf(f64::from(bin) / bins_per_decade);
        let own = common.at(format_args!("{from:.2}ns"));
        rows.put(&own, "latency", "count", count as f64);
    }
    rows
}
