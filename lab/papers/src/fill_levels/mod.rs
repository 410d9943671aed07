//! Times on synthetic workloads, measured like `everybuddy bench`.
//!
//! Experiments and benchmarks mean the same by a number.
//!
//! # Invariants
//! Systems take turns in each round, on fresh memory of 1 GiB, on one thread.

use everybuddy_workload::{Setting, Variant};

use crate::shared::prelude::*;
use everybuddy_measure::bench::rows;
use everybuddy_measure::bench::{BenchPlan, ContenderSpec, measure};
use everybuddy_measure::choice;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::touched::Ablation;

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

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let variants = variants(experiment)?;
        let plan = self.plan(experiment, variants.clone(), &Conditions::WHOLE)?;
        let visits = plan.visits() as usize / variants.len().max(1);
        let cells = variants.iter().map(|own| Cell::of(own.name, visits));
        Ok(Design::new(cells.collect()))
    }

    /// Runs a workload on all systems.
    fn measure(&self, workload: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let variants = vec![variants(run.experiment)?[workload]];
        let plan = self.plan(run.experiment, variants, run.conditions)?;
        let bench = &mut *run.bench;
        let results = measure(&plan, bench.timer, bench.arena, |what| (bench.step)(what))?;
        let mut exported = rows::of(&results);
        for row in &mut exported {
            // `bench`, or `bench@ROUND`.
            row.experiment = row.experiment.replacen("bench", &run.experiment.name, 1);
        }
        Ok(exported)
    }
}

/// Returns the workloads of an experiment.
pub(crate) fn variants(experiment: &Experiment) -> Result<Vec<&'static Variant>, Error> {
    choice::workloads(&experiment.workloads)
}

/// Returns the parameters of the programs: a memory of 1 GiB, less in a shortened run.
pub(crate) fn setting(threads: u16, conditions: &Conditions) -> Setting {
    let frames = match conditions.shrink {
        1 => BenchPlan::FRAMES,
        shrink => (BenchPlan::FRAMES / shrink)
            .next_multiple_of(1024)
            .max(4096),
    };
    Setting {
        frames,
        threads,
        seed: conditions.seed,
        shrink: conditions.shrink,
    }
}

impl Parameters {
    fn plan(
        &self,
        experiment: &Experiment,
        variants: Vec<&'static Variant>,
        conditions: &Conditions,
    ) -> Result<BenchPlan, Error> {
        let specs = experiment.specs()?.into_iter();
        let Setting {
            frames,
            seed,
            shrink,
            ..
        } = setting(1, conditions);
        Ok(BenchPlan {
            contenders: specs.map(ContenderSpec::System).collect(),
            variants,
            threads: vec![1],
            memory: Memory::fresh(u64::from(frames)),
            rounds: if shrink == 1 { self.rounds } else { 1 },
            seed,
            shrink,
            ablation: Ablation::default(),
            is_strict: false,
        })
    }
}
