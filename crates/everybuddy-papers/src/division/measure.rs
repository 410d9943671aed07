//! The number of the first requests of a program that split a larger block, by the initial division of memory.
//!
//! # Purpose
//!
//! \[Serewa\] §2.2.3 proposes to divide memory by statistics for the sake of the start, when all callers
//! wait. The figure therefore shows the start of each trace.
//!
//! A division is as good as its prediction. `serewa` is divided for the first 4,096 requests of the same trace, which
//! is the best case; `serewa+division=off` starts with largest blocks, like `bs`. Between calls, the services process
//! all pending work: this models a machine that keeps up.
//!
//! # Invariants
//!
//! Counted on one thread: the same numbers come out each time.

use everybuddy::platform::NativeCpus;
use everybuddy::systems::Presplit;
use everybuddy::{Block, Counts, CpuId, CpuToken, Order, Pfn, Progress, Release, Request};
use everybuddy_trace::{Resolved, Sizes, StepKind};

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, Measure, Traced, common, replays, row};
use everybuddy_measure::Error;
use everybuddy_measure::replay::host::AnySystem;
use everybuddy_measure::replay::watch::{ReadableProbe, Watch};
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of requests for which memory is divided.
    foreseen: u64,
    /// The number of requests after which split blocks are first counted; each following number is twice as large.
    first: u64,
    /// The last number.
    last: u64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Counted
    }

    /// Returns the number of replays.
    fn steps(&self, experiment: &Experiment) -> u64 {
        (experiment.traces().len() * experiment.systems.len()) as u64
    }

    fn sources(&self, experiment: &Experiment) -> Vec<String> {
        let traces = experiment.trace_names().into_iter();
        let numbers = |name: String| {
            let numbers = std::iter::successors(Some(self.first), |last| last.checked_mul(2));
            let numbers = numbers.take_while(|number| *number <= self.last);
            numbers.map(move |number| format!("{name}:{number}"))
        };
        traces.flat_map(numbers).collect()
    }

    /// Starts every trace on every system.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let specs = experiment.specs()?;
        let mut rows = Vec::new();
        for traced in replays(experiment, conditions, None)? {
            let Traced {
                name,
                script,
                memory,
                resolved,
            } = traced?;
            let sizes = Sizes::of(&name, &resolved, memory.frames);
            let largest = script.largest_order.max(Order::TEN).get();
            let blocks = everybuddy_trace::division(&sizes, memory.frames, self.foreseen, largest);
            for spec in &specs {
                bench.arena.divide(Presplit::new(blocks));
                let perform = |system: &AnySystem<'_, Watch>| perform(system, &resolved, self);
                let seen = bench.arena.build_any(spec, &memory, 1, perform);
                bench.arena.divide(Presplit::default());
                for (requests, broken) in seen?? {
                    let source = format!("{name}:{requests}");
                    let common = common(experiment, conditions, &source, spec, 1);
                    rows.push(row(&common, "broken_blocks", "count", broken as f64));
                    let share = broken as f64 / requests as f64;
                    rows.push(row(&common, "broken_blocks", "rate", share));
                }
                (bench.step)(&format!("{name} {spec}"));
            }
        }
        Ok(rows)
    }
}

/// Replays a trace. Returns the number of requests that had broken a larger block, after given numbers of requests.
fn perform(
    system: &AnySystem<'_, Watch>,
    resolved: &Resolved,
    own: &Parameters,
) -> Result<Vec<(u64, u64)>, Error> {
    let broken = |what: String| Error::Broken(what);
    let cpus = NativeCpus::new(2);
    let claim = |cpu| cpus.claim::<Watch>(CpuId(cpu));
    let (Some(mut caller), Some(mut idle)) = (claim(0), claim(1)) else {
        return Err(broken("a token is taken".to_string()));
    };
    // A request that finds no block of its order delegates to services, or splits a block itself.
    let breaks = |counts: Counts| counts.splits + counts.queued + counts.queue_full;
    let mut starts: Vec<Option<Pfn>> = vec![None; resolved.blocks as usize];
    let (mut requests, mut all, mut next) = (0, 0, own.first);
    let mut seen = Vec::new();
    for step in &resolved.steps {
        let Some(order) = Order::new(step.order) else {
            continue;
        };
        let Some(start) = starts.get_mut(step.block as usize) else {
            continue;
        };
        if step.kind == StepKind::Allocate {
            let before = breaks(caller.probe().read());
            *start = system.allocate(&mut caller, Request::order(order)).ok();
            all += u64::from(breaks(caller.probe().read()) > before);
            requests += 1;
        } else if let Some(head) = *start {
            let at = Pfn(head.0 + step.offset);
            let release = match step.kind {
                StepKind::Free => Release::block(Block { start: at, order }),
                _ => Release::frames(at, order.frames()),
            };
            let freed = system.free(&mut caller, release);
            freed.map_err(|error| broken(format!("a release: {error}")))?;
        }
        for service in 0..system.services().len() {
            while system.serve(&mut idle, service, 64) == Progress::More {}
        }
        if requests == next {
            seen.push((requests, all));
            next *= 2;
            if next > own.last {
                break;
            }
        }
    }
    Ok(seen)
}
