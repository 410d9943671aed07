//! Workloads on a simulated machine.
//!
//! # Purpose
//!
//! Published numbers of machines with many CPUs become targets of the simulator: an experiment names the machine, the
//! numbers of CPUs and the claims.
//!
//! # Invariants
//!
//! Every number is simulated: it is the same on every host, and the rows say so. A source is a workload with a number
//! of CPUs, `burst:in-order/16`, so that a table has a column for each.

use std::num::NonZero;
use std::thread;

use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::rows::{Platform, Row};
use everybuddy_simulate::{Load, Phases, Plan, Services};
use serde::Deserialize;

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, MEAN, Measure};

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The numbers of CPUs, ascending.
    cpus: Vec<u16>,
    /// The mean number of cycles between two calls.
    think: u32,
    /// The factor by which the workloads are shortened.
    shrink: u32,
    /// The number of seeds.
    seeds: u64,
}

impl Parameters {
    /// Returns the name of a workload with a number of CPUs.
    fn source(workload: &str, cpus: u16) -> String {
        format!("{workload}/{cpus}")
    }

    /// Returns what is simulated.
    fn plan(&self, experiment: &Experiment, conditions: &Conditions) -> Result<Plan, Error> {
        let name = &experiment.name;
        let refuse = |what: String| Error::usage(format!("experiment {name}: {what}"));
        let Platform::Sim(machine) = &experiment.platform else {
            return Err(refuse(
                "platform: the method `simulated` needs `sim:MACHINE`".to_string(),
            ));
        };
        let machine = everybuddy_machines::by_name_or_path(machine)
            .map_err(|error| refuse(format!("platform: {error}")))?;
        let most = machine.hardware.cpus();
        if self
            .cpus
            .iter()
            .any(|cpus| u32::from(*cpus) > most || *cpus == 0)
        {
            return Err(refuse(format!(
                "[parameters]: cpus: {} has {most} CPUs",
                machine.name
            )));
        }
        let frames = experiment.frames().map_err(refuse)?;
        let frames = frames.and_then(|frames| u32::try_from(frames).ok());
        let frames = frames.ok_or_else(|| refuse("memory: a size below 16 TiB".to_string()))?;
        let seeds = self.seeds.max(1);
        Ok(Plan {
            machine: machine.name,
            hardware: machine.hardware,
            loads: choice::workloads(&experiment.workloads)?
                .into_iter()
                .map(Load::Workload)
                .collect(),
            specs: experiment.specs()?,
            cpus: self.cpus.clone(),
            frames,
            think: self.think,
            shrink: self.shrink.max(1).saturating_mul(conditions.shrink.max(1)),
            phases: Phases::Together,
            slice: u64::from(u32::MAX),
            services: Services::Callers,
            seeds: (conditions.seed..conditions.seed + seeds).collect(),
        })
    }
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Counted
    }

    fn steps(&self, experiment: &Experiment) -> u64 {
        let cells = experiment.workloads.len() * experiment.systems.len() * self.cpus.len();
        cells as u64 * self.seeds.max(1)
    }

    fn sources(&self, experiment: &Experiment) -> Vec<String> {
        let with = |workload: &String| {
            let own = self.cpus.iter();
            let named = own.map(|cpus| Parameters::source(workload, *cpus));
            named.collect::<Vec<String>>()
        };
        let own = experiment.workloads.iter().flat_map(with);
        own.chain([MEAN.to_string()]).collect()
    }

    /// Simulates all cells, several at the same time.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let plan = self.plan(experiment, conditions)?;
        let jobs = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let nothing = vec![None; plan.cells().len()];
        let (rows, _) = plan.run(jobs, nothing, &mut |id, _| {
            (bench.step)(&plan.name(id));
            Ok(())
        })?;
        // Rows about a part of the metadata, or about all numbers of CPUs, are those of `simulate`.
        let loads: Vec<&str> = plan.loads.iter().map(Load::name).collect();
        let is_own = |row: &Row| loads.contains(&row.source.as_str()) && row.metric != "linearity";
        let own = rows.into_iter().filter(is_own);
        let own = own
            .filter(|row| row.metric != "scaling_limit")
            .map(|row| Row {
                experiment: experiment.name.clone(),
                source: Parameters::source(&row.source, row.cpus),
                ..row
            });
        Ok(mean(own.collect(), plan.seeds.len()))
    }
}

/// Replaces the rows of all seeds by their means.
fn mean(rows: Vec<Row>, seeds: usize) -> Vec<Row> {
    let same = |a: &Row, b: &Row| {
        let key = |row: &Row| (row.operation, row.metric, row.statistic, row.order);
        key(a) == key(b) && (&a.source, a.name()) == (&b.source, b.name())
    };
    let mut means: Vec<(Row, usize)> = Vec::new();
    for row in rows {
        match means.iter_mut().find(|(mean, _)| same(mean, &row)) {
            Some((mean, count)) => {
                mean.value += row.value;
                *count += 1;
            }
            None => means.push((row, 1)),
        }
    }
    // What one seed lacks, such as the time of waits, has no mean over all.
    let whole = means.into_iter().filter(|(_, count)| *count == seeds);
    whole
        .map(|(row, count)| Row {
            value: row.value / count as f64,
            seed: 0,
            ..row
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_all_seeds() {
        let row = |source: &str, seed, value| Row {
            source: source.to_string(),
            seed,
            value,
            ..Row::default()
        };
        let rows = vec![row("a", 1, 2.0), row("b", 1, 8.0), row("a", 2, 4.0)];
        assert_eq!(mean(rows, 2), [row("a", 0, 3.0)]);
    }
}
