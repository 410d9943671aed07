//! The distribution of the times of single allocations, and whether they reached the zone layer.
//!
//! # Purpose
//!
//! A mean hides two bands: allocations that a list serves, and those that wait for a batch.
//!
//! A counting pass determines the allocations that reach the zone layer. On one thread a timed pass repeats it
//! allocation by allocation. The time of each allocation is the median of its repetitions, so that a single context
//! switch does not matter.
//!
//! # Invariants
//!
//! All of the passes perform the same allocations in the same order.

use everybuddy::SystemSpec;

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, Measure, Traced, common, replays, row};
use everybuddy_measure::Error;
use everybuddy_measure::replay::adapter::{Adapter, REFUSED};
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::observe::Observer;
use everybuddy_measure::replay::pass::{self, How, Times};
use everybuddy_measure::replay::script::{Lane, Move, Script, Segment};
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// Records for each allocation whether it reached the zone layer.
struct Entered {
    marks: Vec<bool>,
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
            self.marks.push(after.locks > before.locks);
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
                adapter.free(release, *place);
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
            let mut all: Vec<(Vec<bool>, Vec<Vec<u32>>)> = Vec::new();
            for spec in &specs {
                all.push((marks(&script, &memory, spec, bench)?, Vec::new()));
                (bench.step)(&format!("{name} {spec}"));
            }
            for round in 0..self.rounds {
                for turn in 0..specs.len() {
                    let who = (turn + round) % specs.len();
                    let ticks = times(&script, &memory, &specs[who], bench)?;
                    all[who].1.push(ticks);
                    (bench.step)(&format!("{name} {}", specs[who]));
                }
            }
            for (spec, (marks, rounds)) in specs.iter().zip(&all) {
                let common = Row {
                    operation: "allocate",
                    ..common(experiment, conditions, &name, spec, script.cpus)
                };
                rows.extend(summary(
                    marks,
                    &medians(rounds),
                    &common,
                    self.bins_per_decade,
                    bench.timer,
                ));
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

fn marks(
    script: &Script,
    memory: &Memory,
    spec: &SystemSpec,
    bench: &mut Bench<'_>,
) -> Result<Vec<bool>, Error> {
    let new = |lane: &Lane| Entered {
        marks: Vec::with_capacity(lane.directions()[0]),
    };
    let done = pass::watch(script, memory, bench.arena, spec, How::COUNTED, new)?;
    Ok(done
        .played
        .observers
        .into_iter()
        .flat_map(|own| own.marks)
        .collect())
}

fn times(
    script: &Script,
    memory: &Memory,
    spec: &SystemSpec,
    bench: &mut Bench<'_>,
) -> Result<Vec<u32>, Error> {
    let timer = bench.timer;
    let played = pass::time(script, memory, bench.arena, spec, timer, Times::Singles)?;
    let ticks = played.observers.into_iter().map(|own| own.directions);
    Ok(ticks.flat_map(|[allocations, _]| allocations).collect())
}

/// Returns the median of each allocation's repetitions.
fn medians(rounds: &[Vec<u32>]) -> Vec<u32> {
    let length = rounds.iter().map(Vec::len).min().unwrap_or(0);
    let median = |at: usize| {
        let mut own: Vec<u32> = rounds.iter().map(|round| round[at]).collect();
        own.sort_unstable();
        own[own.len() / 2]
    };
    (0..length).map(median).collect()
}

/// Numbers of all allocations and of each band, and the histograms of the bands.
fn summary(
    marks: &[bool],
    ticks: &[u32],
    common: &Row,
    bins_per_decade: f64,
    timer: &Timer,
) -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(numbers(ticks, common, timer));
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
        rows.extend(numbers(&own, &common, timer));
        rows.extend(histogram(&own, &common, bins_per_decade, timer));
    }
    rows
}

fn numbers(ticks: &[u32], common: &Row, timer: &Timer) -> Vec<Row> {
    let mut rows = vec![row(common, "latency", "count", ticks.len() as f64)];
    if ticks.is_empty() {
        return rows;
    }
    let count = ticks.len() as f64;
    let mut nanos: Vec<f64> = ticks.iter().map(|ticks| timer.single(*ticks)).collect();
    nanos.sort_by(f64::total_cmp);
    let sum = ticks.iter().map(|ticks| f64::from(*ticks)).sum();
    let mean = timer.sum(sum, ticks.len()) / count;
    let middle = nanos.iter().sum::<f64>() / count;
    let variance = nanos.iter().map(|n| (n - middle).powi(2)).sum::<f64>() / count;
    // Nearest rank: a time that actually occurred.
    let at = |permille: usize| nanos[(nanos.len() * permille).div_ceil(1000).max(1) - 1];
    rows.push(row(common, "latency", "mean", mean));
    // Over many allocations. It includes the timer's own deviation, so it is not less than the allocator's.
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
