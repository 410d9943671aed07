//! The events inside a system, per call, for each order.
//!
//! A time depends on the machine, and on everything else that a call does. The argument of a paper is often about
//! something that can be counted: operations on lists, exchanges of spaces, frames that a list serves.
//!
//! Traces are counted call by call. Where the experiment asks for it, so is a memory that is all free, from which one
//! block of each order is allocated and freed: there, the numbers follow from the algorithm alone.
//!
//! # Invariants
//! Counted on one thread in the trace's order: the same numbers come out each time.

use everybuddy::{Counts, Order};
use everybuddy_metrics::METRICS;
use everybuddy_trace::{Resolved, Step, StepKind};

use crate::shared::prelude::*;
use everybuddy_measure::replay::observe::{Notes, Tally};
use everybuddy_measure::replay::script::{Lane, Move, MoveKind, Script};

/// The source of rows about memory that is all free.
const FREE: &str = "free-memory";

/// The orders that are told apart.
const ORDERS: usize = Order::TEN.index() + 1;

/// The tallies of each order: of allocations, of frees.
type ByOrder = [[Tally; 2]; ORDERS];

/// Counts each call by its order.
struct Counting(Box<ByOrder>);

impl Notes for Counting {
    fn note(&mut self, _: u32, performed: &Move, before: &Counts, after: &Counts) {
        let order = performed.order();
        let direction = usize::from(performed.kind != MoveKind::Allocate);
        let tallies = &mut self.0[order.index().min(ORDERS - 1)];
        tallies[direction].note(order, before, after);
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
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let steps = experiment.systems.len();
        let mut design = Design::of_traces(experiment, steps);
        let free = self.free_memory.map(|_| {
            let about = About::of(FREE, Metrics::But(&["blocking_probability"]));
            Cell::new(FREE, steps, vec![about])
        });
        design.cells.extend(free);
        Ok(design)
    }

    /// Replays a trace, or a call for each order in free memory, on every system.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let traced = if cell < run.experiment.traces().len() {
            run.traced(cell, None)?
        } else {
            let largest = self.free_memory.and_then(Order::new);
            let largest = largest.filter(|order| order.index() < ORDERS);
            let largest = largest.ok_or_else(|| Error::usage("free_memory: at most 10"))?;
            let resolved = one_of_each(largest);
            let script = Script::new(FREE, &resolved, None)?;
            Traced {
                name: FREE.to_string(),
                memory: run.memory(&script, None)?,
                resolved,
                script,
            }
        };
        let mut rows = Vec::new();
        for spec in &run.specs()? {
            let done = traced.counted(spec, run.bench, |_: &Lane| {
                Counting(Box::new([[Tally::default(); 2]; ORDERS]))
            })?;
            let observers = &done.played.observers;
            let counts =
                (0..ORDERS).map(|order| Tally::sums(observers.iter().map(|own| &own.0[order])));
            let common = run.common(&traced.name, spec, traced.script.cpus);
            rows.extend(self.rows(counts, &common));
            if traced.name != FREE {
                let refused = done.played.trouble.refused.total() as f64;
                rows.put(&common, "blocking_probability", "count", refused);
            }
            run.step(format_args!("{} {spec}", traced.name));
        }
        Ok(rows)
    }
}

impl Parameters {
    /// Returns the numbers of each order, and of all calls.
    fn rows(&self, counts: impl Iterator<Item = [Tally; 2]>, common: &Row) -> Vec<Row> {
        let mut rows = Vec::new();
        let counts: Vec<[Tally; 2]> = counts.collect();
        for (order, tallies) in (0..).zip(&counts) {
            for (own, tally) in directions(&common.of_order(Some(order)), tallies) {
                if tally.operations > 0 {
                    rows.extend(self.numbers(tally, &own));
                }
            }
        }
        let all = Tally::sums(&counts);
        let [mut both, frees] = all;
        both.add(&frees);
        for (own, tally) in directions(common, all).chain([(common.clone(), both)]) {
            rows.extend(self.numbers(&tally, &own));
            rows.put(&own, "calls", "count", tally.operations as f64);
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
                let argued = common
                    .order
                    .filter(|_| metric.name == "list_operations" && is_argued(common));
                let argued = argued.map(|order| f64::from(1u32 << order));
                rows.put(
                    &common.expecting(argued),
                    metric.name,
                    "mean",
                    count / calls,
                );
                rows.put(common, metric.name, "count", count);
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
