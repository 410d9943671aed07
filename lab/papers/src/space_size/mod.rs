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

    /// Returns the number of visits and replays.
    fn steps(&self, experiment: &Experiment) -> u64 {
        self.workloads.steps(experiment) + self.fragmentation.steps(experiment)
    }

    fn sources(&self, experiment: &Experiment) -> Vec<String> {
        let workloads = self.workloads.sources(experiment);
        [workloads, self.fragmentation.sources(experiment)].concat()
    }

    /// Runs the workloads, then the replays.
    fn measure(&self, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let mut rows = self.workloads.measure(run)?;
        rows.extend(self.fragmentation.measure(run)?);
        Ok(rows)
    }
}
