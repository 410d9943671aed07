//! What programs ask for, and how much of it a list serves: the observations that iBuddy starts from.
//!
//! A system that is designed for single frames, and past a list, is as good as these two observations. Whether a
//! program of today fits them is a property of its trace.
//!
//! # Invariants
//! Counted on one thread in the trace's order: the same numbers come out each time.

use std::collections::BTreeSet;

use crate::buffers;
use crate::fill_levels as workloads;
use crate::shared::prelude::*;
use everybuddy_measure::bench;
use everybuddy_measure::replay::observe::Tally;
use everybuddy_measure::replay::outcome::share;

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
    fn measure(&self, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        for variant in workloads::variants(run.experiment)? {
            let setting = workloads::setting(1, run.conditions);
            for spec in &run.specs()? {
                let (timer, arena) = (run.bench.timer, &mut *run.bench.arena);
                let tallies = bench::count(variant, setting, spec, timer, arena)?;
                rows.extend(numbers(&tallies, &run.common(variant.name, spec, 1)));
                run.step(format_args!("{} {spec}", variant.name));
            }
        }
        rows.extend(run.replay_each(|traced, spec, common, bench| {
            Ok(numbers(&buffers::count(traced, spec, bench)?, common))
        })?);
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
        ..common.of("allocate")
    };
    let single = share(allocations.single_frames, allocations.operations);
    let mut all = *allocations;
    all.add(frees);
    let mut rows = Vec::new();
    rows.put(&trace, "single_frames", "value", single);
    rows.put(common, "service_ratio", "value", all.service_ratio());
    rows
}
