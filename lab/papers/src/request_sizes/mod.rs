//! What programs ask for, and how much of it a list serves: the observations that iBuddy starts from.
//!
//! A system that is designed for single frames, and past a list, is as good as these two observations. Whether a
//! program of today fits them is a property of its trace.
//!
//! # Invariants
//! Counted on one thread in the trace's order: the same numbers come out each time.

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
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let steps = experiment.systems.len();
        let workloads = workloads::variants(experiment)?.into_iter();
        let workloads = workloads.map(|own| Cell::of(own.name, steps));
        let mut design = Design::of_traces(experiment, steps);
        design.cells.splice(0..0, workloads);
        Ok(design)
    }

    /// Counts all systems on a workload or a trace.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let workloads = workloads::variants(run.experiment)?;
        let mut rows = Vec::new();
        if let Some(variant) = workloads.get(cell) {
            let setting = workloads::setting(1, run.conditions);
            for spec in &run.specs()? {
                let (timer, arena) = (run.bench.timer, &mut *run.bench.arena);
                let tallies = bench::count(variant, setting, spec, timer, arena)?;
                rows.extend(numbers(&tallies, &run.common(variant.name, spec, 1)));
                run.step(format_args!("{} {spec}", variant.name));
            }
        } else {
            let trace = cell - workloads.len();
            rows = run.replay_on_each(trace, |traced, spec, common, bench| {
                Ok(numbers(&buffers::count(traced, spec, bench)?, common))
            })?;
        }
        // The share of single frames is a property of the source, whatever the system.
        let mut is_first = true;
        rows.retain(|row| row.system != TRACE || std::mem::take(&mut is_first));
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
