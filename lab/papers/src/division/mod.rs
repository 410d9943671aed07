//! The number of the first requests of a program that split a larger block, by the initial division of memory.
//!
//! \[Serewa\] §2.2.3 proposes to divide memory by statistics for the sake of the start, when all callers
//! wait. The figure therefore shows the start of each trace.
//!
//! A division is as good as its prediction. `serewa` is divided for 4,096 requests: the first of the same trace, which
//! is the best case; those from the middle of the trace on, as another run of the same program; or the first of another
//! program's trace. The statistics are those that a running system can gather itself. `serewa+division=off` starts with
//! largest blocks, like `bs`. Between calls, the services process all pending work. This models a machine that keeps
//! up.
//!
//! # Invariants
//! Counted on one thread: the same numbers come out each time.

pub(crate) mod figure;

use everybuddy::platform::NativeCpus;
use everybuddy::systems::{Presplit, StartStatistics};
use everybuddy::{Counts, CpuId, Order, Progress};
use everybuddy_trace::{Resolved, Step, StepKind};

use crate::shared::blocks::Blocks;
use crate::shared::prelude::*;
use everybuddy_measure::replay::host::AnySystem;
use everybuddy_measure::replay::watch::{ReadableProbe, Watch};

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
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let traces = experiment.trace_names();
        let numbers = std::iter::successors(Some(self.first), |last| last.checked_mul(2));
        let numbers: Vec<u64> = numbers.take_while(|number| *number <= self.last).collect();
        let steps = (traces.len() + 1) * experiment.systems.len();
        let cell = |name: &String| {
            let mut about = Vec::new();
            for by in lessons(name, &traces) {
                let numbers = numbers.iter().map(|number| format!("{name}:{number}{by}"));
                about.extend(numbers.map(About::all));
                about.push(About::all(format!("{name}:start{by}")));
            }
            Cell::new(name, steps, about)
        };
        Ok(Design::new(traces.iter().map(cell).collect()))
    }

    /// Starts a trace on every system, divided by each kind of statistics.
    fn measure(&self, trace: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let all = run.traces()?;
        let names: Vec<String> = all.iter().map(|own| own.0.clone()).collect();
        let traced = run.traced(trace, None)?;
        let half = Resolved {
            steps: traced.resolved.steps[traced.resolved.steps.len() / 2..].to_vec(),
            ..traced.resolved.clone()
        };
        let others = all.iter().filter(|other| other.0 != traced.name);
        let learned = [&traced.resolved, &half].into_iter();
        let learned = learned.chain(others.map(|other| &other.1));
        let mut rows = Vec::new();
        for (by, learned) in lessons(&traced.name, &names).iter().zip(learned) {
            let presplit = gather(learned, self.foreseen);
            for spec in &specs {
                rows.extend(self.start(run, &traced, (spec, by), presplit)?);
                run.step(format_args!("{}{by} {spec}", traced.name));
            }
        }
        Ok(rows)
    }
}

/// Returns the kinds of statistics for a trace, as the ends of sources: its own, those of its second half, and those of
/// each other trace.
fn lessons(name: &str, traces: &[String]) -> Vec<String> {
    let own = [String::new(), " by its other half".to_string()].into_iter();
    let others = traces.iter().filter(|other| *other != name);
    own.chain(others.map(|other| format!(" by {other}")))
        .collect()
}

/// Gathers the statistics of the first requests of some steps, as a running system would. Frees of blocks that were
/// allocated before do not count.
fn gather(resolved: &Resolved, requests: u64) -> Presplit {
    let mut statistics = StartStatistics::new(requests);
    // For each block, its order and its frames in use.
    let mut blocks = vec![(Order::ZERO, 0u32); resolved.blocks as usize];
    for Step {
        block, order, kind, ..
    } in &resolved.steps
    {
        let Some((own, left)) = blocks.get_mut(*block as usize) else {
            continue;
        };
        let Some(order) = Order::new(*order) else {
            continue;
        };
        if *kind == StepKind::Allocate {
            (*own, *left) = (order, order.frames());
            statistics.allocated(order);
        } else if *left > 0 {
            *left = left.saturating_sub(order.frames());
            if *left == 0 {
                statistics.freed(*own);
            }
        }
        if statistics.is_complete() {
            break;
        }
    }
    statistics.presplit()
}

impl Parameters {
    /// Starts a trace on a system in divided memory.
    fn start(
        &self,
        run: &mut Run<'_, '_>,
        traced: &Traced,
        (spec, by): (&SystemSpec, &str),
        presplit: Presplit,
    ) -> Result<Vec<Row>, Error> {
        let arena = &mut *run.bench.arena;
        arena.divide(presplit);
        let perform = |system: &AnySystem<'_, Watch>| perform(system, &traced.resolved, self);
        let seen = arena.build_any(spec, &traced.memory, 1, perform);
        arena.divide(Presplit::default());
        let (splits, seen) = seen??;
        let common = |number: &str| {
            let source = format!("{}:{number}{by}", traced.name);
            run.common(&source, spec, 1)
        };
        let mut rows = Vec::new();
        rows.put(&common("start"), "start_splits", "count", splits as f64);
        for (requests, broken) in seen {
            let common = common(&requests.to_string());
            rows.put(&common, "broken_blocks", "count", broken as f64);
            let share = broken as f64 / requests as f64;
            rows.put(&common, "broken_blocks", "rate", share);
        }
        Ok(rows)
    }
}

/// Requests so far, and how many of them had broken a larger block.
type Broken = Vec<(u64, u64)>;

/// Replays a trace. Returns the number of blocks that were split before, and the number of requests that had broken a
/// larger block, after given numbers of requests.
fn perform(
    system: &AnySystem<'_, Watch>,
    resolved: &Resolved,
    own: &Parameters,
) -> Result<(u64, Broken), Error> {
    let cpus = NativeCpus::new(2);
    let claim = |cpu| cpus.claim_probed::<Watch>(CpuId(cpu));
    let (Ok(mut caller), Ok(mut idle)) = (claim(0), claim(1)) else {
        return Err(Error::Broken("a token is taken".to_string()));
    };
    // A request that finds no block of its order delegates to services, or splits a block itself.
    let breaks = |counts: Counts| counts.splits + counts.queued + counts.queue_full;
    // Every split makes one block more than there would be in memory of largest blocks.
    let snapshot = system.snapshot(&mut caller);
    let blocks: u64 = snapshot.free_blocks.iter().copied().map(u64::from).sum();
    let frames = snapshot.free_frames();
    let largest = u64::from(Order::TEN.frames());
    let undivided = frames / largest + u64::from((frames % largest).count_ones());
    let splits = blocks.saturating_sub(undivided);
    let mut blocks = Blocks::of(resolved);
    let (mut requests, mut all, mut next) = (0, 0, own.first);
    let mut seen = Vec::new();
    for step in &resolved.steps {
        let before = breaks(caller.probe().read());
        blocks.perform(system, &mut caller, step)?;
        if step.kind == StepKind::Allocate {
            all += u64::from(breaks(caller.probe().read()) > before);
            requests += 1;
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
    Ok((splits, seen))
}

#[cfg(test)]
mod tests {
    use everybuddy_trace::{Leniency, Sizes, resolve};

    use super::*;

    /// What a running system gathers divides memory as the statistics of its whole trace do.
    #[test]
    fn a_system_gathers_what_its_trace_says() {
        let (trace, _) = everybuddy_measure::library::read("gcc_build", Leniency::Strict).unwrap();
        let resolved = resolve(&trace).unwrap();
        for requests in [1, 64, 4096] {
            let sizes = Sizes::of("gcc_build", &resolved, 1 << 30);
            let blocks = everybuddy_trace::division(&sizes, 1 << 30, requests, 18);
            assert_eq!(gather(&resolved, requests), Presplit::new(blocks));
        }
        // A half starts without the blocks of the other one.
        let half = Resolved {
            steps: resolved.steps[resolved.steps.len() / 2..].to_vec(),
            ..resolved.clone()
        };
        let blocks: u32 = gather(&half, 64).blocks().iter().sum();
        assert!((1..=64).contains(&blocks), "{blocks}");
    }
}
