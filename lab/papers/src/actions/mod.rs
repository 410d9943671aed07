//! The time of callers on traces if services do the dividing and linking, and the work of these services.
//!
//! Deferred work is not saved. The waiting times of callers are therefore reported together with the work of the
//! services, and with the effect of waiting work on free memory.
//!
//! The measurement is that of `compare`, and its rows are used. The variation over the rounds, and the sum of the
//! work of callers and services, are added. Services run concurrently, so their counts vary slightly between runs.
//!
//! # Invariants
//! Ratios are formed within a round.

use everybuddy::systems::SERVICES;

use crate::shared::prelude::*;
use crate::streams::rows::over;
use everybuddy_measure::replay::compare::{self, ComparePlan};
use everybuddy_measure::replay::memory::Initial;
use everybuddy_measure::replay::outcome::{Comparison, Outcome};
use everybuddy_measure::rows::comparison as rows;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of timed runs of each system, in turns.
    rounds: u32,
    /// The metrics that are copied from a comparison.
    metrics: Vec<String>,
}

impl Parameters {
    /// Returns the plan of a whole run, without its memory.
    fn plan(&self, experiment: &Experiment) -> Result<ComparePlan, Error> {
        Ok(ComparePlan {
            systems: experiment.specs()?,
            memory: None,
            initial: Initial::Fresh,
            seed: 1,
            rounds: self.rounds,
            touches: false,
        })
    }
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::RoundsAndCounted(self.rounds)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let passes = self.plan(experiment)?.passes();
        // The rows of single services have metrics of their own.
        let cell = |name: String| {
            let services = SERVICES.iter();
            let services =
                services.map(|own| About::of(format!("{name}:{}", own.name), Metrics::Some));
            let about = [About::all(&name)].into_iter().chain(services).collect();
            Cell::new(name, passes as usize, about)
        };
        let traces = experiment.trace_names().into_iter();
        Ok(Design::new(traces.map(cell).collect()))
    }

    /// Compares all systems on a trace.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let traced = run.traced(trace, None)?;
        let plan = ComparePlan {
            memory: Some(traced.memory.frames),
            seed: run.conditions.seed,
            rounds: run.rounds(self.rounds),
            ..self.plan(run.experiment)?
        };
        let (bench, name, script) = (&mut *run.bench, &traced.name, &traced.script);
        let (step, timer) = (&mut *bench.step, bench.timer);
        let compared = compare::compare(script, &plan, timer, bench.arena, || step(name))?;
        let mut rows = rows::of(&compared, timer, plan.seed, false);
        rows.retain(|row| {
            let is_copied = self.metrics.iter().any(|metric| metric == row.metric);
            is_copied && !row.experiment.contains('@')
        });
        for row in &mut rows {
            row.experiment.clone_from(&run.experiment.name);
        }
        for outcome in &compared.systems {
            let common = run.common(name, &outcome.spec, script.cpus);
            rows.extend(sums(&common, &compared, outcome));
        }
        Ok(rows)
    }
}

/// Returns the work of callers and services together, and the time of callers relative to the base system.
fn sums(common: &Row, compared: &Comparison, own: &Outcome) -> Vec<Row> {
    let services = own.background_work();
    let mut rows = Vec::new();
    rows.put(common, "background_work", "mean", services);
    rows.put(common, "total_work", "mean", work(own) + services);
    let base = |other: &&Outcome| other.spec.to_string() == BASE;
    let Some(base) = compared.systems.iter().find(base) else {
        return rows;
    };
    for (common, at) in directions(common, [0, 1]) {
        let of = |outcome: &Outcome| -> Vec<f64> {
            outcome.rounds.iter().map(|means| means[at]).collect()
        };
        let ratios = over(&of(own), &of(base));
        rows.extend(rounds(&common, "latency_over_bs", &ratios));
    }
    rows
}

/// Returns the time of callers per operation.
fn work(outcome: &Outcome) -> f64 {
    let latency = &outcome.pace.latency;
    let sum: f64 = latency.iter().map(|own| own.mean * own.count as f64).sum();
    let count: u64 = latency.iter().map(|own| own.count).sum();
    sum / count.max(1) as f64
}
