//! The steps of single calls, by the structure of the free blocks.
//!
//! # Purpose
//!
//! \[Serewa\] §2.2.4 proposes balanced trees instead of queues, for speed and for a more deterministic duration. The
//! same eager buddy runs here on free lists, on balanced trees and on bits. Steps are counted, so that the worst call
//! is exact and does not depend on the machine.
//!
//! A step is a read or a write of a word that the system shares: a record, a link, a head, a word of bits, a count, the
//! lock.
//!
//! # Invariants
//!
//! Counted on one thread: the same numbers come out each time. Every call of a trace counts.

use std::mem::MaybeUninit;

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::systems::{BitBuddy, Buddy, TreeBuddy, build_as};
use everybuddy::{
    Block, BuildError, CpuId, FrameAllocator, Memory, NoProbe, Order, Pfn, Release, Request, Setup,
    SystemSpec, metadata_layout,
};
use everybuddy_trace::{Resolved, StepKind};

use crate::emulation::counting::{Counting, accesses};
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, DIRECTIONS, Measure, replay_each, row};
use crate::streams::tally::Histogram;
use everybuddy_measure::Error;
use everybuddy_measure::replay::memory::Memory as ReplayMemory;
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of samples of free memory.
    samples: usize,
    /// The orders for which free memory is evaluated at each sample.
    orders: Vec<u8>,
}

impl Measure for Parameters {
    /// Replays every trace on every system.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        replay_each(experiment, conditions, bench, |traced, spec, common, _| {
            let seen = replay(spec, &traced.memory, &traced.resolved, self.samples)?;
            let common = Row {
                cpus: 1,
                ..common.clone()
            };
            Ok(self.rows(&common, &seen))
        })
    }
}

impl Parameters {
    /// Returns the rows of a replay.
    fn rows(&self, common: &Row, seen: &Seen) -> Vec<Row> {
        let mut rows = Vec::new();
        for (operation, steps) in DIRECTIONS.into_iter().zip(&seen.steps) {
            let own = Row {
                operation,
                ..common.clone()
            };
            for (statistic, value) in [
                ("mean", steps.mean()),
                ("p99", f64::from(steps.quantile(0.99))),
                ("p999", f64::from(steps.quantile(0.999))),
                ("max", f64::from(steps.max())),
            ] {
                rows.push(row(&own, "steps", statistic, value));
            }
        }
        for order in self.orders.iter().copied().filter_map(Order::new) {
            let own = Row {
                order: Some(order.get()),
                ..common.clone()
            };
            let unusable = seen.free.iter().map(|free| free.unusable_index(order));
            rows.extend(mean(unusable).map(|value| row(&own, "unusable_index", "mean", value)));
        }
        rows
    }
}

/// The results of a replay.
#[derive(Default)]
struct Seen {
    /// Steps of each successful allocation and of each free.
    steps: [Histogram; 2],
    /// Free memory at each sample.
    free: Vec<everybuddy::Snapshot>,
}

/// Replays a trace on a system whose accesses are counted.
fn replay(
    spec: &SystemSpec,
    memory: &ReplayMemory,
    resolved: &Resolved,
    samples: usize,
) -> Result<Seen, Error> {
    let refuse = |error: BuildError| Error::usage(format!("system {spec}: {error}"));
    let ranges = [memory.range()];
    let setup = Setup::new(&ranges, 1);
    let layout = metadata_layout::<Counting>(spec, &setup).map_err(refuse)?;
    let mut bytes = vec![MaybeUninit::uninit(); layout.size() + layout.align()];
    let memory = Memory::new(&mut bytes);
    let name = spec.to_string();
    match (
        name.contains("structure=bitmap"),
        name.contains("structure=list") || name == "bs",
    ) {
        (true, _) => {
            let system = build_as::<Counting, BitBuddy<'_, Counting>>(spec, &setup, memory);
            perform(system.map_err(refuse)?, resolved, samples)
        }
        (_, true) => {
            let system = build_as::<Counting, Buddy<'_, Counting>>(spec, &setup, memory);
            perform(system.map_err(refuse)?, resolved, samples)
        }
        _ => {
            let system = build_as::<Counting, TreeBuddy<'_, Counting>>(spec, &setup, memory);
            perform(system.map_err(refuse)?, resolved, samples)
        }
    }
}

/// Performs the calls of a trace.
fn perform<A: FrameAllocator<Counting>>(
    system: &A,
    resolved: &Resolved,
    samples: usize,
) -> Result<Seen, Error> {
    let broken = |what: String| Error::Broken(what);
    let cpus = NativeCpus::new(1);
    let mut cpu: NativeCpu<NoProbe> = cpus
        .claim(CpuId(0))
        .ok_or_else(|| broken("a token is taken".to_string()))?;
    let mut starts: Vec<Option<Pfn>> = vec![None; resolved.blocks as usize];
    let mut seen = Seen::default();
    let every = (resolved.steps.len() / samples.max(1)).max(1);
    for (at, step) in resolved.steps.iter().enumerate() {
        let (Some(order), Some(start)) =
            (Order::new(step.order), starts.get_mut(step.block as usize))
        else {
            continue;
        };
        let before = accesses();
        let direction = if step.kind == StepKind::Allocate {
            *start = system.allocate(&mut cpu, Request::order(order)).ok();
            start.map(|_| 0)
        } else if let Some(head) = *start {
            let at = Pfn(head.0 + step.offset());
            let release = match step.kind {
                StepKind::Free => Release::block(Block { start: at, order }),
                _ => Release::frames(at, order.frames()),
            };
            let freed = system.free(&mut cpu, release);
            freed.map_err(|error| broken(format!("a release: {error}")))?;
            Some(1)
        } else {
            None
        };
        if let Some(direction) = direction {
            let steps = accesses() - before;
            seen.steps[direction].add(u32::try_from(steps).unwrap_or(u32::MAX));
        }
        if at % every == every - 1 {
            seen.free.push(system.snapshot(&mut cpu));
        }
    }
    Ok(seen)
}
