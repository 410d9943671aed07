//! What programs ask for, and how much of it a list serves: the observations that iBuddy starts from.
//!
//! # Purpose
//!
//! A system that is designed for single frames, and past a list, is as good as these two observations. Whether a
//! program of today fits them is a property of its trace.
//!
//! # Invariants
//!
//! Counted on one thread in the trace's order: the same numbers come out each time.

use std::collections::BTreeSet;

use crate::buffers::measure as buffers;
use crate::fill_levels::measure as workloads;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, Measure, common, replay_each, row};
use everybuddy_measure::Error;
use everybuddy_measure::bench;
use everybuddy_measure::replay::observe::Tally;
use everybuddy_measure::replay::outcome::share;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The system's name in rows about a trace alone.
const TRACE: &str = "trace";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {}

impl Measure for Parameters {
    /// Returns the number of replays and visits.
    fn steps(&self, experiment: &Experiment) -> u64 {
        let sources = experiment.traces().len() + experiment.workloads.len();
        (sources * experiment.systems.len()) as u64
    }

    /// Counts all systems on all workloads and traces.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        for variant in workloads::variants(experiment)? {
            let setting = workloads::setting(1, conditions);
            for spec in &experiment.specs()? {
                let tallies = bench::count(variant, setting, spec, bench.timer, bench.arena)?;
                let common = common(experiment, conditions, variant.name, spec, 1);
                rows.extend(numbers(&tallies, &common));
                (bench.step)(&format!("{} {spec}", variant.name));
            }
        }
        let replayed = replay_each(
            experiment,
            conditions,
            bench,
            |traced, spec, common, bench| {
                let tallies = buffers::count(&traced.script, &traced.memory, spec, bench)?;
                Ok(numbers(&tallies, common))
            },
        )?;
        rows.extend(replayed);
        // The share of single frames is a property of the source, whatever the system.
        let mut seen = BTreeSet::new();
        rows.retain(|row| row.system != TRACE || seen.insert(row.source.clone()));
        Ok(rows)
    }
}

/// Returns the share of single frames, and the share of them that lists served.
fn numbers([allocations, frees]: &[Tally; 2], common: &Row) -> Vec<Row> {
    let trace = Row {
        system: TRACE.to_string(),
        options: String::new(),
        operation: "allocate",
        ..common.clone()
    };
    let single = share(allocations.single_frames, allocations.operations);
    let mut all = *allocations;
    all.add(frees);
    let served = all.service_ratio();
    let single = single.map(|value| row(&trace, "single_frames", "value", value));
    let served = served.map(|value| row(common, "service_ratio", "value", value));
    single.into_iter().chain(served).collect()
}
