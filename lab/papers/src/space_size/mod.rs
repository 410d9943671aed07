//! The effect of the size of a buddy space on times and on fragmentation.
//!
//! The two effects may conflict, so both are measured on one list of systems.
//!
//! # Invariants
//! Times are those of `workloads`, counts those of `fragmentation`.

use crate::fill_levels as workloads;
use crate::fragmentation;
use crate::shared::prelude::*;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The parameters of the workloads.
    workloads: workloads::Parameters,
    /// The parameters of the replays.
    fragmentation: fragmentation::Parameters,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        match self.workloads.repeats() {
            Repeats::Rounds(rounds) => Repeats::RoundsAndCounted(rounds),
            other => other,
        }
    }

    fn design(&self, experiment: &Experiment, whole: &Conditions) -> Result<Design, Error> {
        let mut design = self.workloads.design(experiment, whole)?;
        let replays = self.fragmentation.design(experiment, whole)?;
        design.cells.extend(replays.cells);
        Ok(design)
    }

    /// Runs a workload, or after all of them a replay.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        match cell.checked_sub(workloads::variants(run.experiment)?.len()) {
            None => self.workloads.measure(cell, run),
            Some(replay) => self.fragmentation.measure(replay, run),
        }
    }
}
