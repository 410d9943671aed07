//! The steps of single calls, by the structure of the free blocks.
//!
//! \[Serewa\] §2.2.4 proposes balanced trees instead of queues, for speed and for a more deterministic duration. The
//! same eager buddy runs here on free lists, on balanced trees and on bits. Steps are counted, so that the worst call
//! is exact and does not depend on the machine.
//!
//! A step is a read or a write of a word that the system shares: a record, a link, a head, a word of bits, a count, the
//! lock.
//!
//! # Invariants
//! Counted on one thread: the same numbers come out each time. Every call of a trace counts.

use std::mem::MaybeUninit;

use everybuddy::platform::NativeCpus;
use everybuddy::systems::{BitBuddy, Buddy, TreeBuddy, build_as};
use everybuddy::{BuildError, CpuId, FrameAllocator, Memory, metadata_layout};
use everybuddy_trace::Resolved;

use crate::emulation::counting::{Counting, accesses};
use crate::shared::blocks::Blocks;
use crate::shared::prelude::*;
use crate::streams::tally::Histogram;
use everybuddy_measure::replay::memory::Memory as ReplayMemory;

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
    /// Replays a trace on every system.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        run.replay_on_each(trace, |traced, spec, common, _| {
            let seen = replay(spec, &traced.memory, &traced.resolved, self.samples)?;
            let common = Row {
                cpus: 1,
                ..common.clone()
            };
            let mut rows = Vec::new();
            for (own, steps) in directions(&common, &seen.steps) {
                rows.put(&own, "steps", "mean", steps.mean());
                rows.put(&own, "steps", "p99", f64::from(steps.quantile(0.99)));
                rows.put(&own, "steps", "p999", f64::from(steps.quantile(0.999)));
                rows.put(&own, "steps", "max", f64::from(steps.max()));
            }
            for (own, order) in orders(&common, &self.orders) {
                let unusable = seen.free.iter().map(|free| free.unusable_index(order));
                rows.put(&own, "unusable_index", "mean", mean(unusable));
            }
            Ok(rows)
        })
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
    let ranges = memory.ranges();
    let setup = memory.setup(None, &ranges, 1);
    let layout = metadata_layout::<Counting>(spec, &setup).map_err(refuse)?;
    let mut bytes = vec![MaybeUninit::uninit(); Memory::room(layout)];
    let memory = Memory::new(&mut bytes);
    let name = spec.to_string();
    if name.contains("structure=bitmap") {
        let system = build_as::<Counting, BitBuddy<'_, Counting>>(spec, &setup, memory);
        perform(system.map_err(refuse)?, resolved, samples)
    } else if name.contains("structure=list") || name == "bs" {
        let system = build_as::<Counting, Buddy<'_, Counting>>(spec, &setup, memory);
        perform(system.map_err(refuse)?, resolved, samples)
    } else {
        let system = build_as::<Counting, TreeBuddy<'_, Counting>>(spec, &setup, memory);
        perform(system.map_err(refuse)?, resolved, samples)
    }
}

/// Performs the calls of a trace.
fn perform<A: FrameAllocator<Counting>>(
    system: &A,
    resolved: &Resolved,
    samples: usize,
) -> Result<Seen, Error> {
    let cpus = NativeCpus::new(1);
    let taken = |_| Error::Broken("a token is taken".to_string());
    let mut cpu = cpus.claim(CpuId(0)).map_err(taken)?;
    let mut blocks = Blocks::of(resolved);
    let mut seen = Seen::default();
    let every = (resolved.steps.len() / samples.max(1)).max(1);
    for (at, step) in resolved.steps.iter().enumerate() {
        let before = accesses();
        if let Some(direction) = blocks.perform(system, &mut cpu, step)? {
            let steps = accesses() - before;
            seen.steps[direction].add(u32::try_from(steps).unwrap_or(u32::MAX));
        }
        if at % every == every - 1 {
            seen.free.push(system.snapshot(&mut cpu));
        }
    }
    Ok(seen)
}
