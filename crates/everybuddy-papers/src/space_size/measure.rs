//! What the size of a buddy space does to times and to fragmentation.
//!
//! Exists because the two pull in different directions, if at all: so both are measured on one list of
//! systems.
//!
//! Invariant: times are those of `workloads`, counts those of `fragmentation`.

use crate::fill_levels::measure as workloads;
use crate::fragmentation::measure as fragmentation;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions};
use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;

/// How many visits and replays there are.
pub(crate) fn steps(experiment: &Experiment) -> u64 {
    workloads::steps(experiment) + fragmentation::steps(experiment)
}

/// Runs the workloads, then the replays.
pub(crate) fn run(
    experiment: &Experiment,
    conditions: &Conditions,
    bench: &mut Bench<'_>,
) -> Result<Vec<Row>, Error> {
    let mut rows = workloads::run(experiment, conditions, bench)?;
    rows.extend(fragmentation::run(experiment, conditions, bench)?);
    Ok(rows)
}
