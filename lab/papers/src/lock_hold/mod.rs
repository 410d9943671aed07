//! The wait times and the hold times of locks.
//!
//! A hold policy and a kind of lock trade one for the other, and throughput hides which.
//!
//! The probe reads the clock when a lock is requested, acquired and released. A reading costs tens of nanoseconds, and
//! the reading at the acquisition is part of the hold time, so the timer's cost is subtracted from each measurement.
//!
//! # Invariants
//! A measurement that is longer than `longest_ns` is a thread that was switched out; it is counted and left out.

use crate::shared::prelude::*;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::moments::Moments;
use everybuddy_measure::replay::observe::{Timing, Whole};
use everybuddy_measure::replay::pass::{self, How};
use everybuddy_measure::replay::watch::{ExtraProbe, Watch};

/// The results of one system in one round.
#[derive(Clone, Copy, Default)]
pub(crate) struct Round {
    wait: Moments,
    hold: Moments,
    disturbed: u64,
}

impl Round {
    /// Returns the nanoseconds that were spent waiting for locks and holding them, on all CPUs together.
    pub(crate) fn time(&self, timer: &Timer) -> f64 {
        let of = |own: &Moments| timer.sum(own.sum as f64, own.count as usize);
        of(&self.wait) + of(&self.hold)
    }

    /// Returns the number of acquisitions whose hold counts.
    pub(crate) fn acquired(&self) -> f64 {
        self.hold.count as f64
    }
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of replays on each system, in turns.
    rounds: u32,
    /// The number of threads.
    threads: u16,
    /// Nanoseconds above which a wait or a hold is a disturbance.
    longest_ns: f64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Rounds(self.rounds)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let steps = experiment.systems.len() * self.rounds as usize;
        let cell = |name: String| {
            let about = About::all(&name).rounds(Metrics::All, self.rounds);
            Cell::new(name, steps, vec![about])
        };
        let traces = experiment.trace_names().into_iter();
        Ok(Design::new(traces.map(cell).collect()))
    }

    /// Replays a trace on all systems in turns.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let traced = run.traced(trace, Some(self.threads))?;
        let rounds = run.in_turns(self.rounds, &specs, &traced.name, |spec, bench| {
            replay(&traced, spec, self.longest_ns, bench)
        })?;
        let mut rows = Vec::new();
        for (spec, rounds) in specs.iter().zip(&rounds) {
            let common = run.common(&traced.name, spec, traced.script.cpus);
            rows.extend(summary(rounds, &common, run.bench.timer));
        }
        Ok(rows)
    }
}

/// Replays on one system, with a probe that reads the clock at each event of a lock.
pub(crate) fn replay(
    traced: &Traced,
    spec: &SystemSpec,
    longest_ns: f64,
    bench: &mut Bench<'_>,
) -> Result<Round, Error> {
    let timer = bench.timer;
    let how = How {
        probe: &|| Watch::locks(longest_ns),
        audit: false,
        ..How::COUNTED
    };
    let (script, memory) = (&traced.script, &traced.memory);
    let done = pass::watch(script, memory, bench.arena, spec, how, |lane| {
        Whole::new(timer, lane)
    })?;
    let mut round = Round::default();
    for own in &done.probes {
        if let ExtraProbe::Locks(own) = &own.extra {
            round.wait.join(&own.wait);
            round.hold.join(&own.hold);
            round.disturbed += own.disturbed;
        }
    }
    Ok(round)
}

/// Returns the medians over the rounds, and the mean of each round.
fn summary(rounds: &[Round], common: &Row, timer: &Timer) -> Vec<Row> {
    let mut rows = Vec::new();
    let waits = rounds.iter().map(|round| round.wait).collect();
    let holds = rounds.iter().map(|round| round.hold).collect();
    let both: [(&str, Vec<Moments>); 2] = [("lock_wait", waits), ("lock_hold", holds)];
    for (metric, all) in both {
        let own = all.iter().filter(|own| own.count > 0);
        let mean = |own: &Moments| timer.sum(own.sum as f64, own.count as usize) / own.count as f64;
        let means: Vec<f64> = own.map(mean).collect();
        if means.is_empty() {
            continue;
        }
        let deviations = all.iter().filter_map(Moments::stddev);
        let deviations = deviations.map(|ticks| timer.sum(ticks, 0)).collect();
        rows.put(common, metric, "mean", median(means.clone()));
        rows.put(common, metric, "stddev", median(deviations));
        for (round, mean) in means.into_iter().enumerate() {
            rows.put(&common.at(round), metric, "mean", mean);
        }
    }
    let count = |of: fn(&Round) -> u64| median(rounds.iter().map(|own| of(own) as f64).collect());
    let locks = count(|round| round.hold.count);
    rows.put(common, "lock_acquisitions", "count", locks);
    let disturbed = count(|round| round.disturbed);
    rows.put(common, "locks_disturbed", "count", disturbed);
    rows
}
