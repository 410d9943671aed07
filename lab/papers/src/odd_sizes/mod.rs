//! Requests of sizes that are not powers of two: served exactly, or rounded up to a block.
//!
//! Internal fragmentation is the first problem that \[Serewa\] wants to solve. The solution has a cost that the paper
//! does not measure: remnants between runs.
//!
//! Every system performs the same choices twice. A row with the system's own name requests exact numbers of frames; a
//! row `NAME rounded` requests the covering block. Requests arrive at a steady rate, runs end at random, independent
//! of their size, and a failed request is lost. If no request fails, the memory in use therefore stays at about a
//! given share of memory, the *load*. In the runs called `parts`, a quarter of the ending runs are freed in two or
//! three pieces, each after its own time.
//!
//! # Invariants
//! Counted on one thread: the numbers are reproducible. The load counts requested frames, so a system that needs more
//! frames fails more requests. At each sample every invariant of the system is checked.

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{Block, CpuId, Index, Order, Release, Request, Snapshot};
use everybuddy_workload::odd::{Mix, Sizes};

use crate::shared::prelude::*;
use everybuddy_measure::replay::host::AnySystem;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::watch::Watch;

/// The suffix of a system's name if its requests are rounded up.
const ROUNDED: &str = " rounded";

/// The requests of a run.
#[derive(Clone, Copy)]
struct Traffic {
    mix: Mix,
    /// The load, in percent of memory; `None` to fill a new memory until a request fails.
    load: Option<u32>,
    in_parts: bool,
    /// Whether requests are rounded up to blocks.
    is_rounded: bool,
    seed: u64,
    requests: u32,
    samples: u32,
    warm: u32,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The ratio of frames in use to frames requested, at each sample.
    internal: Vec<f64>,
    snapshots: Vec<Snapshot>,
    requests: u64,
    refused: u64,
    /// The ratio of requested live frames to the memory, at each sample, or at the first failure.
    live: Vec<f64>,
}

/// A live run, or the rest of one.
#[derive(Clone, Copy)]
struct Piece {
    start: Index,
    /// The number of requested frames.
    asked: u32,
    /// The number of frames in use.
    held: u32,
    /// The whole block, if it was requested as a block and nothing of it was freed.
    block: Option<Order>,
    /// The number of times that it may still be divided.
    cuts: u32,
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Frames of memory.
    frames: u64,
    /// Loads, in percent of memory.
    loads: Vec<u32>,
    /// The load at which runs are also freed in pieces.
    in_parts: u32,
    /// The load at which hardly any request fails, so that the cost of rounding can be calculated.
    calculated: u32,
    /// Requests of a run.
    requests: u32,
    /// Warm-up requests, which do not count.
    warm: u32,
    /// Samples of a run.
    samples: u32,
    /// The orders for which free memory is evaluated at each sample.
    orders: Vec<u8>,
    /// The number of new memories that are filled until a request fails.
    filled: u64,
    /// The work that a service may do after each step.
    budget: u32,
}

impl Parameters {
    /// Returns the loads, and whether runs are freed in pieces.
    fn loads(&self) -> impl Iterator<Item = (u32, bool)> {
        let whole = self.loads.iter().map(|load| (*load, false));
        whole.chain([(self.in_parts, true)])
    }
}

/// Returns the source of rows about a load of a mix.
fn source(mix: &str, load: u32, in_parts: bool) -> String {
    let parts = if in_parts { " parts" } else { "" };
    format!("{mix} {load}{parts}")
}

/// Returns the source of rows about memories that are filled with a mix.
fn filled_source(mix: &str) -> String {
    format!("{mix} filled")
}

impl Measure for Parameters {
    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let cell = |(name, _): &(&str, Mix)| {
            let loads = self.loads();
            let loads = loads.map(|(load, in_parts)| source(name, load, in_parts));
            // Peaks belong to the memories that are filled.
            let loads = loads.map(|source| About::of(source, Metrics::But(&["peak_frames"])));
            let filled = About::of(filled_source(name), Metrics::Only(&["peak_frames"]));
            let about = loads.chain([filled]).collect();
            Cell::new(*name, 2 * experiment.systems.len(), about)
        };
        Ok(Design::new(Mix::ALL.iter().map(cell).collect()))
    }

    /// Runs a mix at every level on every system, in both ways.
    fn measure(&self, mix: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (name, mix) = Mix::ALL[mix];
        let mut rows = Vec::new();
        for spec in &run.specs()? {
            for is_rounded in [false, true] {
                rows.extend(self.runs((name, mix), spec, is_rounded, run)?);
                run.step(format_args!("{name} {spec}"));
            }
        }
        Ok(rows)
    }
}

impl Parameters {
    /// Performs all runs of a mix on a system.
    fn runs(
        &self,
        (name, mix): (&str, Mix),
        spec: &SystemSpec,
        is_rounded: bool,
        run: &mut Run<'_, '_>,
    ) -> Result<Vec<Row>, Error> {
        let shrink = run.shrink();
        let mut common = run.common("", spec, 1);
        if is_rounded {
            (common.system, common.options) = (common.name() + ROUNDED, String::new());
        }
        let memory = Memory::fresh(self.frames);
        let mut perform = |traffic| {
            // Compiled once for all systems, because nothing is timed.
            let visitor = |system: &AnySystem<'_, Watch>| perform(system, self, traffic);
            let seen = run.bench.arena.build_any(spec, &memory, 1, visitor)?;
            seen.map_err(|what| Error::Broken(format!("system {spec}: {what}")))
        };
        let traffic = Traffic {
            mix,
            load: None,
            in_parts: false,
            is_rounded,
            seed: run.conditions.seed,
            requests: (self.requests / shrink).max(100),
            samples: (self.samples / shrink).max(5),
            warm: self.warm / shrink,
        };
        let mut rows = Vec::new();
        for (load, in_parts) in self.loads() {
            let seen = perform(Traffic {
                load: Some(load),
                in_parts,
                ..traffic
            })?;
            let expected = if is_rounded {
                (load == self.calculated && !in_parts).then(|| mix.rounded_up())
            } else {
                Some(1.0)
            };
            let common = common.about(source(name, load, in_parts));
            rows.extend(seen.rows(&common, &self.orders, expected));
        }
        let mut shares = Vec::new();
        for seed in 0..self.filled {
            let seed = traffic.seed << 16 | seed;
            shares.extend(perform(Traffic { seed, ..traffic })?.live);
        }
        let common = common.about(filled_source(name));
        rows.put(&common, "peak_frames", "rate", mean(shares.into_iter()));
        Ok(rows)
    }
}

impl Seen {
    fn rows(&self, own: &Row, of_orders: &[u8], expected: Option<f64>) -> Vec<Row> {
        let mut rows = Vec::new();
        let internal = mean(self.internal.iter().copied());
        let expecting = own.expecting(expected);
        rows.put(&expecting, "internal_fragmentation", "mean", internal);
        let live = mean(self.live.iter().copied());
        rows.put(own, "live_share", "mean", live);
        for (own, order) in orders(own, of_orders) {
            let index = self.snapshots.iter().map(|own| own.unusable_index(order));
            rows.put(&own, "unusable_index", "mean", mean(index));
        }
        let refused = self.refused as f64 / self.requests.max(1) as f64;
        rows.put(own, "blocking_probability", "rate", refused);
        rows
    }
}

/// A system, its live runs, and the random choices.
struct Serving<'s> {
    system: &'s AnySystem<'s, Watch>,
    own: &'s Parameters,
    cpu: NativeCpu<Watch>,
    is_rounded: bool,
    sizes: Sizes,
    live: Vec<Piece>,
    /// The number of requested live frames.
    asked: u64,
}

fn perform(
    system: &AnySystem<'_, Watch>,
    own: &Parameters,
    traffic: Traffic,
) -> Result<Seen, String> {
    let cpus = NativeCpus::new(1);
    let mut run = Serving {
        system,
        own,
        cpu: cpus
            .claim_probed(CpuId(0))
            .map_err(|error| error.to_string())?,
        is_rounded: traffic.is_rounded,
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
    // The number of runs that are in use if no request fails.
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
    if free == own.frames {
        Ok(seen)
    } else {
        Err(format!(
            "{free} of {} frames are free after all was freed",
            own.frames
        ))
    }
}

impl Serving<'_> {
    /// Requests a run. Returns `false` if the request failed.
    fn allocate(&mut self, asked: u32) -> bool {
        let block = Order::covering(asked).filter(|_| self.is_rounded);
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

    /// Frees a run chosen at random; if `in_parts`, of every fourth run only the first part.
    fn free(&mut self, in_parts: bool) -> Result<(), String> {
        let at = self.sizes.below(self.live.len() as u32) as usize;
        let mut piece = self.live.swap_remove(at);
        let is_divided = in_parts && piece.cuts > 0 && piece.asked > 1 && self.sizes.below(4) == 0;
        let first = if is_divided {
            1 + self.sizes.below(piece.asked - 1)
        } else {
            piece.asked
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
            piece.start = Index(piece.start.0 + first);
            piece.asked -= first;
            piece.held -= first;
            piece.block = None;
            piece.cuts -= 1;
            self.live.push(piece);
        }
        Ok(())
    }

    /// Samples the system, and checks it.
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

    /// Runs the system's services, if there are any.
    fn serve(&mut self) {
        for service in 0..self.system.services().len() {
            self.system.serve(&mut self.cpu, service, self.own.budget);
        }
    }
}
