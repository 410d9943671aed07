//! Free 4 MiB blocks while several traces are replayed on one memory.
//!
//! # Purpose
//!
//! Fragmentation becomes visible only after several programs have started and ended. The traces run one after
//! another, and concurrently; the memory that they leave allocated stays until the end, when everything is freed.
//! Traces that differ in what they ask for can be replayed in groups of their own.
//!
//! # Invariants
//!
//! Runs on one thread, so the numbers are reproducible.

use everybuddy::{Order, SystemSpec};
use everybuddy_trace::Resolved;

use crate::shared::experiment::Experiment;
use crate::shared::method::{
    Bench, Conditions, Measure, common, memory, refusal_rows, row, traces,
};
use everybuddy_measure::Error;
use everybuddy_measure::refusals::Refusals;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::merge;
use everybuddy_measure::replay::observe::{Counting, Sample};
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::replay::pass::{self, How};
use everybuddy_measure::replay::script::Script;
use everybuddy_measure::rows::{Row, rounded};
use serde::Deserialize;

/// The source of rows about consecutive traces, after the group's name if there is one.
const SEQUENCE: &str = "sequence";
/// The source of rows about concurrent traces, likewise.
const AT_ONCE: &str = "at-once";

/// Traces that are replayed together. The rows of a group of one trace have its name as their source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The name, before `:sequence` and `:at-once`.
    name: String,
    /// The traces, which are among those of the experiment.
    traces: Vec<String>,
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The order of the blocks that are counted.
    order: u8,
    /// The groups of traces; all traces together if there are none.
    #[serde(default)]
    groups: Vec<Group>,
    /// The seed by which memory is aged before each replay; it is not aged if there is none.
    aged: Option<u64>,
}

impl Measure for Parameters {
    /// Returns the number of replays.
    fn steps(&self, experiment: &Experiment) -> u64 {
        (self.sources(experiment).len() * experiment.systems.len()) as u64
    }

    fn sources(&self, _: &Experiment) -> Vec<String> {
        if self.groups.is_empty() {
            return [SEQUENCE, AT_ONCE].map(String::from).to_vec();
        }
        let of = |group: &Group| match group.traces.len() {
            1 => vec![group.name.clone()],
            _ => [SEQUENCE, AT_ONCE]
                .map(|how| format!("{}:{how}", group.name))
                .to_vec(),
        };
        self.groups.iter().flat_map(of).collect()
    }

    /// Replays on all systems.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let order = Order::new(self.order)
            .ok_or_else(|| Error::usage(format!("order {}: there is none so large", self.order)))?;
        let specs = experiment.specs()?;
        let mut rows = Vec::new();
        for replay in self.replays(experiment, order, conditions)? {
            for spec in &specs {
                let samples = replay.perform(spec, bench)?;
                let common = common(
                    experiment,
                    conditions,
                    &replay.source,
                    spec,
                    replay.script.cpus,
                );
                rows.extend(replay.rows(&samples, &common));
                (bench.step)(&format!("{} {spec}", replay.source));
            }
        }
        Ok(rows)
    }
}

/// The combined traces and their memory.
struct Replay {
    source: String,
    /// The order of the blocks that are counted.
    order: Order,
    script: Script,
    memory: Memory,
    /// The number of calls of the traces; the following calls free the rest.
    traced: u32,
}

/// Free memory over time, and after everything was freed and drained.
struct Samples {
    over_time: Vec<Sample>,
    home: Option<u64>,
    refusals: Refusals,
}

impl Parameters {
    /// Prepares the replays of all groups.
    fn replays(
        &self,
        experiment: &Experiment,
        order: Order,
        conditions: &Conditions,
    ) -> Result<Vec<Replay>, Error> {
        let named = traces(experiment, conditions)?;
        let all: Vec<Resolved> = named.iter().map(|(_, resolved)| resolved.clone()).collect();
        let aged = self.aged;
        let prepare = |source, merged| Replay::new(experiment, source, order, merged, aged);
        if self.groups.is_empty() {
            return Ok(vec![
                prepare(SEQUENCE.to_string(), merge::in_sequence(&all))?,
                prepare(AT_ONCE.to_string(), merge::at_once(&all))?,
            ]);
        }
        let mut replays = Vec::new();
        for Group { name, traces } in &self.groups {
            let mut own: Vec<Resolved> = Vec::new();
            for trace in traces {
                let found = named.iter().find(|(known, _)| known == trace);
                let missing =
                    || Error::usage(format!("group {name}: `{trace}` is not in `traces`"));
                own.push(found.ok_or_else(missing)?.1.clone());
            }
            if own.len() == 1 {
                replays.push(prepare(name.clone(), merge::in_sequence(&own))?);
                continue;
            }
            replays.push(prepare(
                format!("{name}:{SEQUENCE}"),
                merge::in_sequence(&own),
            )?);
            replays.push(prepare(format!("{name}:{AT_ONCE}"), merge::at_once(&own))?);
        }
        Ok(replays)
    }
}

impl Replay {
    /// Prepares combined traces.
    fn new(
        experiment: &Experiment,
        source: String,
        order: Order,
        merged: Resolved,
        aged: Option<u64>,
    ) -> Result<Replay, Error> {
        let traced = merged.steps.len() as u32;
        let script = Script::new(&source, &merge::emptied(merged), None)?;
        let memory = memory(experiment, &script, aged)?;
        Ok(Replay {
            source,
            order,
            script,
            memory,
            traced,
        })
    }

    /// Replays on one system.
    fn perform(&self, spec: &SystemSpec, bench: &mut Bench<'_>) -> Result<Samples, Error> {
        let (script, memory, how) = (&self.script, &self.memory, How::COUNTED);
        let done = pass::watch(script, memory, bench.arena, spec, how, Counting::new)?;
        let observers = done.played.observers.into_iter();
        Ok(Samples {
            over_time: observers.flat_map(|observer| observer.samples).collect(),
            home: done.home.map(|home| home.available_blocks(self.order)),
            refusals: Refusals {
                requests: script.requests(),
                refused: done.played.trouble.refused,
            },
        })
    }

    /// Returns the mean over the samples while a trace ran.
    fn mean(&self, samples: &Samples) -> Option<f64> {
        mean(self.during(samples))
    }

    fn during<'s>(&'s self, samples: &'s Samples) -> impl Iterator<Item = f64> + 's {
        let traced = samples
            .over_time
            .iter()
            .filter(|s| s.position < self.traced);
        traced.map(|sample| sample.snapshot.available_blocks(self.order) as f64)
    }

    fn rows(&self, samples: &Samples, common: &Row) -> Vec<Row> {
        let order = Some(self.order.get());
        let blocks = |statistic, value: f64| Row {
            order,
            ..row(common, "free_blocks", statistic, value)
        };
        let mut rows = Vec::new();
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for value in self.during(samples) {
            (least, most) = (least.min(value), most.max(value));
        }
        if let Some(mean) = self.mean(samples) {
            rows.push(blocks("mean", mean));
            rows.push(blocks("min", least));
            rows.push(blocks("max", most));
        }
        if let Some(home) = samples.home {
            rows.push(Row {
                expected: Some((self.memory.frames / u64::from(self.order.frames())) as f64),
                ..blocks("value", home as f64)
            });
        }
        let calls = f64::from(self.script.events);
        rows.extend(refusal_rows(&samples.refusals, common));
        rows.push(row(common, "calls", "count", calls));
        for sample in &samples.over_time {
            let position = f64::from(sample.position) / calls.max(1.0);
            let value = sample.snapshot.available_blocks(self.order) as f64;
            rows.push(Row {
                experiment: format!("{}@{:.4}", common.experiment, rounded(position)),
                ..blocks("value", value)
            });
        }
        rows
    }
}
