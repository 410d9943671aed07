//! The time of a call on traces, with any number of threads, and the share of it that locks take.
//!
//! The papers compare systems by the mean time of a request over whole programs. `compare` reports it for one number
//! of threads; here a trace is replayed with several.
//!
//! # Invariants
//! Systems take turns in each round, and each round starts with another system. Times are of systems without a probe;
//! locks are timed in a replay of their own.

use crate::lock_hold as locks;
use crate::shared::prelude::*;
use everybuddy_measure::choice;
use everybuddy_measure::replay::pass::{self, Times};

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of timed replays of each system, in turns.
    rounds: u32,
    /// The numbers of threads. With more than one, sources are named `TRACE:THREADS`.
    threads: Vec<u16>,
    /// The system that the speedup is over.
    base: String,
    /// Nanoseconds above which a wait for a lock, or a hold, is a disturbance; `None` if locks are not timed.
    longest_ns: Option<f64>,
}

/// A number of a round: operation, metric, value.
pub(crate) type Number = (&'static str, &'static str, f64);

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Rounds(self.rounds)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let steps = experiment.systems.len() * self.rounds as usize;
        let traces = experiment.trace_names();
        let cells = self.threads.iter().flat_map(|threads| {
            let own = traces.iter();
            own.map(move |name| Cell::of(source(name, *threads), steps))
        });
        Ok(Design::new(cells.collect()))
    }

    /// Replays a trace on all systems in turns.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let base: SystemSpec = choice::one(&self.base)?;
        let missing = || Error::usage(format!("base: `{base}` is not one of the systems"));
        let base = specs.iter().position(|own| *own == base);
        let base = base.ok_or_else(missing)?;
        let traces = run.experiment.traces().len();
        let threads = self.threads[cell / traces];
        let traced = run.traced(cell % traces, Some(threads))?;
        let source = source(&traced.name, threads);
        let rounds = run.rounds(self.rounds);
        let all = run.in_turns(rounds, &specs, &source, |spec, bench| {
            self.round(&traced, spec, bench)
        })?;
        let mut rows = Vec::new();
        for (spec, own) in specs.iter().zip(&all) {
            let common = run.common(&source, spec, traced.script.cpus);
            rows.extend(summary(&with_speedup(own, &all[base]), &common));
        }
        Ok(rows)
    }
}

/// Returns the name of a trace on some threads.
fn source(trace: &str, threads: u16) -> String {
    match threads {
        1 => trace.to_string(),
        threads => format!("{trace}:{threads}"),
    }
}

impl Parameters {
    /// Replays on one system, once for each quantity.
    fn round(
        &self,
        traced: &Traced,
        spec: &SystemSpec,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Number>, Error> {
        let (timer, script, memory) = (bench.timer, &traced.script, &traced.memory);
        let mut time = |times| pass::time(script, memory, bench.arena, spec, timer, times, None);
        let (segments, whole) = (time(Times::Segments)?, time(Times::Stretches)?);
        let mut numbers = Vec::new();
        // Nanoseconds and calls, of both directions.
        let mut both = (0.0, 0.0);
        for (direction, operation) in DIRECTIONS.into_iter().enumerate() {
            let own = || segments.observers.iter();
            let ticks = own().flat_map(|ticks| &ticks.directions[direction]);
            let sum = ticks.clone().map(|ticks| f64::from(*ticks)).sum();
            let nanos = timer.sum(sum, ticks.count());
            let calls = own().map(|ticks| ticks.operations[direction]).sum::<u64>() as f64;
            numbers.push((operation, "latency", nanos / calls.max(1.0)));
            both = (both.0 + nanos, both.1 + calls);
        }
        let events = f64::from(script.events.max(1));
        numbers.push(("all", "latency", both.0 / both.1.max(1.0)));
        let whole = whole.elapsed.as_nanos() as f64 / events;
        numbers.push(("all", "replay_time", whole));
        if let Some(longest) = self.longest_ns {
            let locks = locks::replay(traced, spec, longest, bench)?;
            numbers.push(("all", "lock_time", locks.time(timer) / events));
            numbers.push(("all", "acquisitions_per_call", locks.acquired() / events));
        }
        Ok(numbers)
    }
}

/// Adds to each round how many times faster a call is than in the same round of the base.
fn with_speedup(own: &[Vec<Number>], base: &[Vec<Number>]) -> Vec<Vec<Number>> {
    let time = |round: &[Number]| {
        let is_all = |own: &&Number| (own.0, own.1) == ("all", "latency");
        round.iter().find(is_all).map(|own| own.2)
    };
    let both = own.iter().zip(base).map(|(own, base)| {
        let speedup = time(base).zip(time(own)).map(|(base, own)| base / own);
        let speedup = speedup.map(|value| ("all", "speedup", value));
        own.iter().copied().chain(speedup).collect()
    });
    both.collect()
}

/// Returns the median, the minimum and the maximum over the rounds, and the number of each round.
pub(crate) fn summary(all: &[Vec<Number>], common: &Row) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, (operation, metric, _)) in all.first().into_iter().flatten().enumerate() {
        let values: Vec<f64> = all.iter().map(|round| round[at].2).collect();
        let common = common.of(operation);
        rows.extend(rounds(&common, metric, &values));
        for (round, value) in values.into_iter().enumerate() {
            rows.put(&common.at(round), metric, "value", value);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_median_and_its_rounds() {
        let round = |value| vec![("all", "latency", value), ("free", "latency", 2.0 * value)];
        let rows = summary(&[round(3.0), round(1.0), round(2.0)], &Row::default());
        let of = |operation: &str, statistic: &str| -> Vec<f64> {
            let own = rows
                .iter()
                .filter(|row| (row.operation, row.statistic) == (operation, statistic));
            own.map(|row| row.value).collect()
        };
        assert_eq!(of("all", "p50"), [2.0]);
        assert_eq!(of("free", "max"), [6.0]);
        assert_eq!(of("all", "value"), [3.0, 1.0, 2.0]);
        let faster = with_speedup(&[round(1.0)], &[round(1.5)]);
        assert_eq!(faster[0][2], ("all", "speedup", 1.5));
        assert_eq!((source("a", 1), source("a", 2)), ("a".into(), "a:2".into()));
    }
}
