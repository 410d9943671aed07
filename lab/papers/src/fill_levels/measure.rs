//! Times on synthetic workloads, measured like `everybuddy bench`.
//!
//! # Purpose
//!
//! Experiments and benchmarks mean the same by a number.
//!
//! # Invariants
//!
//! Systems take turns in each round, on fresh memory of 1 GiB, on one thread.

use everybuddy_workload::{Setting, Variant, WORKLOADS};

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, Measure};
use everybuddy_measure::Error;
use everybuddy_measure::bench::rows;
use everybuddy_measure::bench::{BenchPlan, ContenderSpec, measure};
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of timed runs of each system, in turns.
    rounds: u32,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Rounds(self.rounds)
    }

    /// Returns the number of visits.
    fn steps(&self, experiment: &Experiment) -> u64 {
        plan(experiment, self.rounds, None).map_or(0, |plan| plan.visits())
    }

    fn sources_of(&self, experiment: &Experiment, _: &str) -> Vec<String> {
        experiment.workloads.clone()
    }

    /// Runs all workloads of the experiment on all of its systems.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let plan = plan(experiment, self.rounds, Some(conditions))?;
        let results = measure(&plan, bench.timer, bench.arena, |what| (bench.step)(what))?;
        let mut exported = rows::of(&results);
        for row in &mut exported {
            // `bench`, or `bench@ROUND`.
            let round = row.experiment.split_once('@').map(|(_, round)| round);
            row.experiment = match round {
                Some(round) => format!("{}@{round}", experiment.name),
                None => experiment.name.clone(),
            };
        }
        Ok(exported)
    }
}

/// Returns the workloads of an experiment.
pub(crate) fn variants(experiment: &Experiment) -> Result<Vec<&'static Variant>, Error> {
    let find = |name: &String| {
        let mut all = WORKLOADS.iter().flat_map(|row| row.variants);
        let found = all.find(|variant| variant.name == name);
        let unknown = || {
            Error::usage(format!(
                "experiment {}: no workload `{name}`",
                experiment.name
            ))
        };
        found.ok_or_else(unknown)
    };
    experiment.workloads.iter().map(find).collect()
}

/// Returns the parameters of the programs: a memory of 1 GiB, less in a shortened run.
pub(crate) fn setting(threads: u16, conditions: &Conditions) -> Setting {
    Setting {
        frames: frames(conditions.shrink),
        threads,
        seed: conditions.seed,
        shrink: conditions.shrink,
    }
}

fn frames(shrink: u32) -> u32 {
    match shrink {
        1 => BenchPlan::FRAMES,
        _ => (BenchPlan::FRAMES / shrink)
            .next_multiple_of(1024)
            .max(4096),
    }
}

fn plan(
    experiment: &Experiment,
    rounds: u32,
    conditions: Option<&Conditions>,
) -> Result<BenchPlan, Error> {
    let shrink = conditions.map_or(1, |conditions| conditions.shrink);
    Ok(BenchPlan {
        contenders: experiment
            .specs()?
            .into_iter()
            .map(ContenderSpec::System)
            .collect(),
        variants: variants(experiment)?,
        threads: vec![1],
        frames: frames(shrink),
        rounds: if shrink == 1 { rounds } else { 1 },
        seed: conditions.map_or(1, |conditions| conditions.seed),
        shrink,
    })
}
