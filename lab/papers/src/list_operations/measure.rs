//! The events inside a system, per call, for each order.
//!
//! # Purpose
//!
//! A time depends on the machine, and on everything else that a call does. The argument of a paper is often about
//! something that can be counted: operations on lists, exchanges of spaces, frames that a list serves.
//!
//! Traces are counted call by call. Where the experiment asks for it, so is a memory that is all free, from which one
//! block of each order is allocated and freed: there, the numbers follow from the algorithm alone.
//!
//! # Invariants
//!
//! Counted on one thread in the trace's order: the same numbers come out each time.

use everybuddy::{Order, SystemSpec};
use everybuddy_metrics::METRICS;
use everybuddy_trace::{Resolved, Step, StepKind};

use crate::shared::experiment::Experiment;
use crate::shared::method::{
    Bench, Conditions, DIRECTIONS, Measure, common, memory, replay_each, row,
};
use everybuddy_measure::Error;
use everybuddy_measure::replay::adapter::{Adapter, REFUSED};
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::observe::{Observer, Tally};
use everybuddy_measure::replay::pass::{self, How};
use everybuddy_measure::replay::script::{Lane, Move, Script, Segment};
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The source of rows about memory that is all free.
const FREE: &str = "free-memory";

/// The orders that are told apart.
const ORDERS: usize = Order::TEN.index() + 1;

/// The tallies of each order: of allocations, of frees.
type ByOrder = [[Tally; 2]; ORDERS];

/// Counts each call by its order.
struct Counting(Box<ByOrder>);

impl Counting {
    fn new(_: &Lane) -> Counting {
        Counting(Box::new([[Tally::default(); 2]; ORDERS]))
    }

    fn tally(&mut self, order: Order, direction: usize) -> &mut Tally {
        &mut self.0[order.index().min(ORDERS - 1)][direction]
    }
}

impl Observer for Counting {
    fn allocations<P: Adapter>(
        &mut self,
        adapter: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        for (request, place) in moves.iter().zip(places) {
            let before = adapter.counts(request.token);
            *place = adapter.allocate(request);
            let after = adapter.counts(request.token);
            let order = request.order();
            self.tally(order, 0).note(order, &before, &after);
        }
    }

    fn frees<P: Adapter>(
        &mut self,
        adapter: &mut P,
        _: &Segment,
        moves: &[Move],
        places: &mut [u32],
    ) {
        for (release, place) in moves.iter().zip(places) {
            if *place != REFUSED {
                let before = adapter.counts(release.token);
                adapter.free(release, *place);
                let after = adapter.counts(release.token);
                let order = release.order();
                self.tally(order, 1).note(order, &before, &after);
            }
        }
    }
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The metrics: counts per call.
    metrics: Vec<String>,
    /// The orders up to which memory that is all free is examined, too.
    free_memory: Option<u8>,
}

impl Measure for Parameters {
    /// Returns the number of replays.
    fn steps(&self, experiment: &Experiment) -> u64 {
        let sources = experiment.traces().len() + usize::from(self.free_memory.is_some());
        (sources * experiment.systems.len()) as u64
    }

    fn sources(&self, experiment: &Experiment) -> Vec<String> {
        let traces = experiment.trace_names().into_iter();
        traces.chain([FREE.to_string()]).collect()
    }

    /// Replays every trace on every system.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = replay_each(
            experiment,
            conditions,
            bench,
            |traced, spec, common, bench| {
                let (counts, refused) = count(&traced.script, &traced.memory, spec, bench)?;
                let mut rows = self.rows(&counts, common);
                rows.push(row(common, "blocking_probability", "count", refused));
                Ok(rows)
            },
        )?;
        if let Some(largest) = self.free_memory {
            let largest = Order::new(largest).filter(|order| order.index() < ORDERS);
            let largest = largest.ok_or_else(|| Error::usage("free_memory: at most 10"))?;
            let script = Script::new(FREE, &one_of_each(largest), None)?;
            let memory = memory(experiment, &script, None)?;
            for spec in &experiment.specs()? {
                let (counts, _) = count(&script, &memory, spec, bench)?;
                let common = common(experiment, conditions, FREE, spec, script.cpus);
                rows.extend(self.rows(&counts, &common));
                (bench.step)(&format!("{FREE} {spec}"));
            }
        }
        Ok(rows)
    }
}

/// Replays on one system. Returns the tallies, and how many requests were refused.
fn count(
    script: &Script,
    memory: &Memory,
    spec: &SystemSpec,
    bench: &mut Bench<'_>,
) -> Result<(Box<ByOrder>, f64), Error> {
    let new = Counting::new;
    let done = pass::watch(script, memory, bench.arena, spec, How::COUNTED, new)?;
    let mut sum = Counting::new(&Lane::default());
    for own in &done.played.observers {
        for (sum, own) in sum.0.iter_mut().flatten().zip(own.0.iter().flatten()) {
            sum.add(own);
        }
    }
    Ok((sum.0, done.played.trouble.refused.total() as f64))
}

impl Parameters {
    /// Returns the numbers of each order, and of all calls.
    fn rows(&self, counts: &ByOrder, common: &Row) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut all = [Tally::default(); 2];
        for (order, tallies) in counts.iter().enumerate() {
            for ((direction, tally), all) in DIRECTIONS.iter().zip(tallies).zip(&mut all) {
                all.add(tally);
                if tally.operations > 0 {
                    let own = Row {
                        operation: direction,
                        order: Some(order as u8),
                        ..common.clone()
                    };
                    rows.extend(self.numbers(tally, &own));
                }
            }
        }
        let [mut both, frees] = all;
        both.add(&frees);
        for (operation, tally) in DIRECTIONS.into_iter().zip(all).chain([("all", both)]) {
            let own = Row {
                operation,
                ..common.clone()
            };
            rows.extend(self.numbers(&tally, &own));
            rows.push(row(&own, "calls", "count", tally.operations as f64));
        }
        rows
    }

    /// Returns the numbers of some calls.
    fn numbers(&self, tally: &Tally, common: &Row) -> Vec<Row> {
        let calls = tally.operations.max(1) as f64;
        let chosen = METRICS
            .iter()
            .filter(|own| self.metrics.iter().any(|name| name == own.name));
        let mut rows = Vec::new();
        for metric in chosen {
            if let Some(counted) = metric.counted {
                let count = (counted.read)(&tally.counts) as f64;
                rows.push(Row {
                    expected: common
                        .order
                        .filter(|_| metric.name == "list_operations" && is_argued(common))
                        .map(|order| f64::from(1u32 << order)),
                    ..row(common, metric.name, "mean", count / calls)
                });
                rows.push(row(common, metric.name, "count", count));
            }
        }
        rows
    }
}

/// Returns `true` if the paper says how many operations on lists there are: m for a block of m frames, in iBuddy.
fn is_argued(row: &Row) -> bool {
    row.system == "is" && row.source == FREE
}

/// Allocates and frees one block of each order, up to `largest`.
fn one_of_each(largest: Order) -> Resolved {
    let mut steps = Vec::new();
    for (block, order) in Order::up_to(largest).enumerate() {
        for kind in [StepKind::Allocate, StepKind::Free] {
            steps.push(Step {
                time_ns: steps.len() as u64,
                block: block as u32,
                task: 1,
                region: 0,
                left: 0,
                operand: 0,
                cpu: 0,
                order: order.get(),
                kind,
            });
        }
    }
    let blocks = u32::from(largest.get()) + 1;
    Resolved {
        steps,
        blocks,
        peak_frames: u64::from(largest.frames()),
        peak_blocks: 1,
        final_frames: 0,
        final_blocks: 0,
        largest_order: largest.get(),
        cpus: 1,
    }
}
