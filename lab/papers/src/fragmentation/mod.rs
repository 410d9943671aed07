//! Free 4 MiB blocks while several traces are replayed on one memory.
//!
//! Fragmentation becomes visible only after several programs have started and ended. The traces run one after
//! another, and concurrently; the memory that they leave allocated stays until the end, when everything is freed.
//! Traces that differ in what they ask for can be replayed in groups of their own.
//!
//! # Invariants
//! Runs on one thread, so the numbers are reproducible.

pub(crate) mod figure;

use everybuddy::Order;
use everybuddy_trace::Resolved;

use crate::shared::prelude::*;
use everybuddy_measure::choice;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::merge;
use everybuddy_measure::replay::observe::Counting;
use everybuddy_measure::replay::outcome::least;
use everybuddy_measure::replay::pass::{self, Done, How};
use everybuddy_measure::replay::script::Script;

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
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let known = experiment.trace_names();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for Group { name, traces } in &self.groups {
            let refuse = |what| {
                let experiment = &experiment.name;
                Error::usage(format!(
                    "experiment {experiment}: [parameters]: group {name}: {what}"
                ))
            };
            if traces.is_empty() {
                return Err(refuse("it has no traces".to_string()));
            }
            choice::all_known("trace", traces, &known).map_err(refuse)?;
        }
        let cell = |(source, ..): (String, _, _)| Cell::of(source, experiment.systems.len());
        Ok(Design::new(
            self.parts(experiment).into_iter().map(cell).collect(),
        ))
    }

    /// Replays some traces together on all systems.
    fn measure(&self, part: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let order = Order::new(self.order)
            .ok_or_else(|| Error::usage(format!("order {}: there is none so large", self.order)))?;
        let specs = run.specs()?;
        let (source, traces, merge) = self.parts(run.experiment).swap_remove(part);
        let known = run.experiment.trace_names();
        let own = traces.iter();
        let own = own.filter_map(|own| known.iter().position(|known| known == own));
        let own: Result<Vec<Resolved>, Error> = own.map(|trace| Ok(run.trace(trace)?.1)).collect();
        let merged = merge(&own?);
        let traced = merged.steps.len() as u32;
        let script = Script::new(&source, &merge::emptied(merged), None)?;
        let memory = run.memory(&script, self.aged)?;
        let replay = Replay {
            order,
            script,
            memory,
            traced,
        };
        let mut rows = Vec::new();
        for spec in &specs {
            let (script, arena) = (&replay.script, &mut *run.bench.arena);
            let how = How::COUNTED;
            let done = pass::watch(script, &replay.memory, arena, spec, how, Counting::new)?;
            let common = run.common(&source, spec, script.cpus);
            rows.extend(replay.rows(&done, &common));
            run.step(format_args!("{source} {spec}"));
        }
        Ok(rows)
    }
}

/// A way to replay traces together.
type Merge = fn(&[Resolved]) -> Resolved;

impl Parameters {
    /// Returns the sources, each with its traces and how they are replayed together.
    fn parts(&self, experiment: &Experiment) -> Vec<(String, Vec<String>, Merge)> {
        let both = |traces: &[String], prefix: &str| {
            let ways = [
                (SEQUENCE, merge::in_sequence as Merge),
                (AT_ONCE, merge::at_once),
            ];
            ways.map(|(name, way)| (format!("{prefix}{name}"), traces.to_vec(), way))
        };
        if self.groups.is_empty() {
            return both(&experiment.trace_names(), "").into();
        }
        let parts = |Group { name, traces }: &Group| match traces.len() {
            1 => vec![(name.clone(), traces.clone(), merge::in_sequence as Merge)],
            _ => both(traces, &format!("{name}:")).into(),
        };
        self.groups.iter().flat_map(parts).collect()
    }
}

/// The combined traces and their memory.
struct Replay {
    /// The order of the blocks that are counted.
    order: Order,
    script: Script,
    memory: Memory,
    /// The number of calls of the traces; the following calls free the rest.
    traced: u32,
}

impl Replay {
    /// Returns the rows of free memory over time, and after everything was freed and drained.
    fn rows(&self, done: &Done<Counting>, common: &Row) -> Vec<Row> {
        let of_order = common.of_order(Some(self.order.get()));
        let mut rows = Vec::new();
        let samples = done.played.observers.iter().flat_map(|own| &own.samples);
        let blocks = samples.map(|own| {
            let blocks = own.snapshot.available_blocks(self.order) as f64;
            (own.position, blocks)
        });
        let during = || {
            let traced = blocks
                .clone()
                .filter(|(position, _)| *position < self.traced);
            traced.map(|own| own.1)
        };
        rows.put(&of_order, "free_blocks", "mean", mean(during()));
        rows.put(&of_order, "free_blocks", "min", least(during()));
        rows.put(
            &of_order,
            "free_blocks",
            "max",
            during().max_by(f64::total_cmp),
        );
        if let Some(home) = &done.home {
            let all = self.memory.frames / u64::from(self.order.frames());
            let own = of_order.expecting(Some(all as f64));
            let home = home.available_blocks(self.order) as f64;
            rows.put(&own, "free_blocks", "value", home);
        }
        let calls = f64::from(self.script.events);
        rows.extend(refusal_rows(&refusals(&self.script, done), common));
        rows.put(common, "calls", "count", calls);
        for (position, blocks) in blocks {
            let position = rounded(f64::from(position) / calls.max(1.0));
            let own = of_order.at(format_args!("{position:.4}"));
            rows.put(&own, "free_blocks", "value", blocks);
        }
        rows
    }
}
