//! Requests of sizes that are not powers of two: served exactly, or rounded up to a block.
//!
//! # Purpose
//!
//! Internal fragmentation is the first thing that \[Serewa\] wants to be rid of, and because being
//! rid of it has a price which he does not measure: remnants lie between runs.
//!
//! Every system performs the same choices twice. Where it serves exact numbers of frames it is called by its own name;
//! asked for the block that covers them it is called `NAME rounded`. Requests come at a steady pace, runs end at
//! random, large ones as soon as small ones, and a request that is refused is lost: so if nothing is refused, what is
//! live stays around a share of memory, the *load*. In the runs called `parts` a quarter of the runs that end are freed
//! in two or three pieces, each after a time of its own.
//!
//! # Invariants
//!
//! Counted on one thread: the same numbers come out each time. The load counts frames that are asked for,
//! so a system that needs more is refused more. At each sample every invariant of the system is checked.

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{Block, CpuId, NoProbe, Order, Pfn, Release, Request, Snapshot, SystemSpec};
use everybuddy_workload::odd::{Mix, Sizes};

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, Measure, common, row};
use everybuddy_measure::Error;
use everybuddy_measure::replay::host::AnySystem;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// What is added to the name of a system whose requests are rounded up.
const ROUNDED: &str = " rounded";

/// How a system is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Service {
    Exact,
    Rounded,
}

/// What a run asks for.
#[derive(Clone, Copy)]
struct Traffic {
    mix: Mix,
    /// The load, in percent of memory; none to fill a fresh memory until something is refused.
    load: Option<u32>,
    in_parts: bool,
    seed: u64,
    requests: u32,
    samples: u32,
    warm: u32,
}

/// What came out of a run.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Frames held over frames asked for, at each sample.
    internal: Vec<f64>,
    snapshots: Vec<Snapshot>,
    requests: u64,
    refused: u64,
    /// Frames asked for and live over those of memory, at each sample, or at the first refusal.
    live: Vec<f64>,
}

/// A run that is live, or what is left of one.
#[derive(Clone, Copy)]
struct Piece {
    start: Pfn,
    /// Frames that were asked for.
    asked: u32,
    /// Frames that are held.
    held: u32,
    /// The whole block, as long as nothing of it was freed and it was asked for as one.
    block: Option<Order>,
    /// How often it may still be divided.
    cuts: u32,
}

/// What the experiment's file sets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Frames of memory.
    frames: u64,
    /// Loads, in percent of memory.
    loads: Vec<u32>,
    /// The load at which runs are freed in pieces, too.
    in_parts: u32,
    /// The load at which hardly anything is refused, so that what rounding costs can be calculated.
    calculated: u32,
    /// Requests of a run.
    requests: u32,
    /// Requests before those, which do not count.
    warm: u32,
    /// Samples of a run.
    samples: u32,
    /// The orders for which free memory is judged at each sample.
    orders: Vec<u8>,
    /// Fresh memories that are filled until something is refused.
    filled: u64,
    /// What a service may do after each step.
    budget: u32,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Counted
    }

    /// How many runs there are.
    fn steps(&self, experiment: &Experiment) -> u64 {
        (experiment.systems.len() * 2 * Mix::ALL.len()) as u64
    }

    /// Runs every mix at every level on every system, in both ways.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let specs = experiment.specs()?;
        let mut rows = Vec::new();
        for (name, mix) in Mix::ALL {
            for spec in &specs {
                for service in [Service::Exact, Service::Rounded] {
                    let own = measure(
                        (name, mix),
                        spec,
                        service,
                        (experiment, self),
                        conditions,
                        bench,
                    )?;
                    rows.extend(own);
                    (bench.step)(&format!("{name} {spec}"));
                }
            }
        }
        Ok(rows)
    }
}

/// All runs of a mix on a system.
fn measure(
    (name, mix): (&str, Mix),
    spec: &SystemSpec,
    service: Service,
    (experiment, own): (&Experiment, &Parameters),
    conditions: &Conditions,
    bench: &mut Bench<'_>,
) -> Result<Vec<Row>, Error> {
    let shrink = conditions.shrink.max(1);
    let mut rows = Vec::new();
    let common = |source: String| {
        let row = common(experiment, conditions, &source, spec, 1);
        match service {
            Service::Exact => row,
            Service::Rounded => Row {
                system: row.name() + ROUNDED,
                options: String::new(),
                ..row
            },
        }
    };
    let mut perform = |traffic| {
        let memory = Memory {
            frames: own.frames,
            taken: 0,
            seed: None,
        };
        // Compiled once for all systems: nothing is timed.
        let visitor = |system: &AnySystem<'_, NoProbe>| perform(system, own, traffic, service);
        let seen = bench
            .arena
            .build_any::<NoProbe, _>(spec, &memory, 1, visitor)?;
        seen.map_err(|what| Error::Broken(format!("system {spec}: {what}")))
    };
    let traffic = Traffic {
        mix,
        load: None,
        in_parts: false,
        seed: conditions.seed,
        requests: (own.requests / shrink).max(100),
        samples: (own.samples / shrink).max(5),
        warm: own.warm / shrink,
    };
    let whole = own.loads.iter().map(|load| (*load, false));
    for (load, in_parts) in whole.chain([(own.in_parts, true)]) {
        let seen = perform(Traffic {
            load: Some(load),
            in_parts,
            ..traffic
        })?;
        let parts = if in_parts { " parts" } else { "" };
        let common = common(format!("{name} {load}{parts}"));
        let expected = match service {
            Service::Exact => Some(1.0),
            Service::Rounded => (load == own.calculated && !in_parts).then(|| mix.rounded_up()),
        };
        rows.extend(seen.rows(&common, &own.orders, expected));
    }
    let mut shares = Vec::new();
    for seed in 0..own.filled {
        let seed = conditions.seed << 16 | seed;
        let seen = perform(Traffic { seed, ..traffic })?;
        shares.extend(seen.live);
    }
    let common = common(format!("{name} filled"));
    let filled = mean(shares.iter().copied());
    rows.extend(filled.map(|share| row(&common, "peak_frames", "rate", share)));
    Ok(rows)
}

impl Seen {
    fn rows(&self, own: &Row, orders: &[u8], expected: Option<f64>) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut push = |metric, statistic, order: Option<Order>, value: Option<f64>| {
            let order = order.map(Order::get);
            let own = Row {
                order,
                ..own.clone()
            };
            rows.extend(value.map(|value| row(&own, metric, statistic, value)));
        };
        let internal = mean(self.internal.iter().copied());
        push("internal_fragmentation", "mean", None, internal);
        let live = mean(self.live.iter().copied());
        push("live_share", "mean", None, live);
        for order in orders.iter().copied().filter_map(Order::new) {
            let index = self.snapshots.iter().map(|own| own.unusable_index(order));
            push("unusable_index", "mean", Some(order), mean(index));
        }
        let refused = self.refused as f64 / self.requests.max(1) as f64;
        push("blocking_probability", "rate", None, Some(refused));
        for row in &mut rows {
            if row.metric == "internal_fragmentation" {
                row.expected = expected;
            }
        }
        rows
    }
}

/// A system, what is live in it, and the choices.
struct Run<'s> {
    system: &'s AnySystem<'s, NoProbe>,
    own: &'s Parameters,
    cpu: NativeCpu<NoProbe>,
    service: Service,
    sizes: Sizes,
    live: Vec<Piece>,
    /// Frames that are asked for and live.
    asked: u64,
}

fn perform(
    system: &AnySystem<'_, NoProbe>,
    own: &Parameters,
    traffic: Traffic,
    service: Service,
) -> Result<Seen, String> {
    let cpus = NativeCpus::new(1);
    let mut run = Run {
        system,
        own,
        cpu: cpus.claim(CpuId(0)).ok_or("its CPU is taken")?,
        service,
        sizes: Sizes::new(traffic.mix, traffic.seed),
        live: Vec::new(),
        asked: 0,
    };
    let mut seen = Seen::default();
    let Some(load) = traffic.load else {
        while let Some(size) = run.sizes.next() {
            if !run.allocate(size) {
                break;
            }
            run.serve();
        }
        seen.live.push(run.asked as f64 / own.frames as f64);
        return Ok(seen);
    };
    // The number of runs that are allocated if none is refused.
    let runs = own.frames as f64 * f64::from(load) / 100.0 / traffic.mix.mean();
    let every = (traffic.requests / traffic.samples).max(1);
    let mut due = 0.0;
    for step in 0..traffic.warm + traffic.requests {
        due += run.live.len() as f64 / runs;
        while due >= 1.0 && !run.live.is_empty() {
            run.free(traffic.in_parts)?;
            due -= 1.0;
        }
        let size = run.sizes.next().unwrap_or(1);
        let is_served = run.allocate(size);
        run.serve();
        if step < traffic.warm {
            continue;
        }
        seen.requests += 1;
        seen.refused += u64::from(!is_served);
        if (step - traffic.warm).is_multiple_of(every) {
            run.sample(&mut seen)?;
        }
    }
    while !run.live.is_empty() {
        run.free(false)?;
    }
    run.system
        .quiesce(&mut run.cpu)
        .map_err(|error| error.to_string())?;
    let free = run.system.snapshot(&mut run.cpu).free_frames();
    match free == own.frames {
        true => Ok(seen),
        false => Err(format!(
            "{free} of {} frames are free after all was freed",
            own.frames
        )),
    }
}

impl Run<'_> {
    /// Asks for a run; false if it was refused.
    fn allocate(&mut self, asked: u32) -> bool {
        let block = Order::covering(asked).filter(|_| self.service == Service::Rounded);
        let request = match block {
            Some(order) => Request::order(order),
            None => Request::frames(asked),
        };
        let Ok(start) = self.system.allocate(&mut self.cpu, request) else {
            return false;
        };
        self.live.push(Piece {
            start,
            asked,
            held: block.map_or(asked, Order::frames),
            block,
            cuts: 2,
        });
        self.asked += u64::from(asked);
        true
    }

    /// Frees a run that is chosen at random; of every fourth only the first part, where that is wanted.
    fn free(&mut self, in_parts: bool) -> Result<(), String> {
        let at = self.sizes.below(self.live.len() as u32) as usize;
        let mut piece = self.live.swap_remove(at);
        let is_divided = in_parts && piece.cuts > 0 && piece.asked > 1 && self.sizes.below(4) == 0;
        let first = match is_divided {
            true => 1 + self.sizes.below(piece.asked - 1),
            false => piece.asked,
        };
        let release = match (is_divided, piece.block) {
            (true, _) => Release::frames(piece.start, first),
            (false, Some(order)) => Release::block(Block::new(piece.start, order)),
            (false, None) => Release::frames(piece.start, piece.held),
        };
        let freed = self.system.free(&mut self.cpu, release);
        freed.map_err(|error| error.to_string())?;
        self.asked -= u64::from(first);
        if is_divided {
            piece.start = Pfn(piece.start.0 + first);
            piece.asked -= first;
            piece.held -= first;
            piece.block = None;
            piece.cuts -= 1;
            self.live.push(piece);
        }
        Ok(())
    }

    /// Looks at the system, and checks it.
    fn sample(&mut self, seen: &mut Seen) -> Result<(), String> {
        let census = self.system.check(&mut self.cpu);
        let census = census.map_err(|error| error.to_string())?;
        let snapshot = self.system.snapshot(&mut self.cpu);
        let counted = (snapshot.free_frames(), snapshot.buffered_frames);
        if counted != (census.free, census.buffered + census.queued) {
            return Err(format!("{snapshot:?} contradicts {census:?}"));
        }
        seen.internal
            .push(census.allocated as f64 / self.asked.max(1) as f64);
        seen.live.push(self.asked as f64 / self.own.frames as f64);
        seen.snapshots.push(snapshot);
        Ok(())
    }

    /// Lets the system's services work, where it has any.
    fn serve(&mut self) {
        for service in 0..self.system.services().len() {
            self.system.serve(&mut self.cpu, service, self.own.budget);
        }
    }
}
