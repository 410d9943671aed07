//! The operations of single calls, and the coalescings of single frees.
//!
//! Delayed coalescing makes most frees cheap and some expensive. Figure 4 of \[BL89\] shows this in microseconds.
//! Here it is counted and timed, and the most expensive free that a search finds is compared with the bound.
//!
//! # Invariants
//! Every call of every seed is in the distribution of counts. A time is that of one call: the mean of its undisturbed
//! repetitions, minus the mean cost of reading the clock. Systems take turns.

pub(crate) mod figure;

use crate::shared::prelude::*;
use crate::streams::perform::Counted;
use crate::streams::tally::Histogram;
use crate::streams::{adversary, runs};
use everybuddy::Order;

use crate::streams::rows::{Arrivals, Recordings, failed, in_turns, record};
use crate::streams_costs::calm;
use everybuddy_workload::streams::UNIT;

/// The source of rows about the worst free that a search found.
const SEARCH: &str = "search";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Bytes of the arena.
    arena: u32,
    /// Arrivals and departures.
    traffic: Vec<Arrivals>,
    /// The recordings.
    recordings: Recordings,
    /// The order of the search's memory, in units.
    searched: u8,
    /// The number of exchanges of the search.
    exchanges: u32,
    /// The calls that are timed.
    timed: Timed,
}

/// The parameters of timed calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Timed {
    /// Arrivals and departures.
    traffic: Vec<Arrivals>,
    /// The number of calls.
    calls: usize,
    /// The number of repetitions of each call.
    repeats: usize,
    /// The minimum duration of a disturbed repetition, in nanoseconds.
    long_ns: f64,
    /// The width of a bin of the density, in nanoseconds.
    bin_ns: f64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::TimedSeeds(self.recordings.seeds as u32)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        const TIMES: &[&str] = &["latency"];
        let systems = experiment.systems.len();
        let seeds = self.recordings.seeds as usize;
        let counted = self.traffic.iter().map(|own| {
            let about = About::of(&own.name, Metrics::But(TIMES));
            Cell::new(&own.name, systems * seeds, vec![about])
        });
        let timed = self.timed.traffic.iter().map(|own| {
            let about = About::of(&own.name, Metrics::Only(TIMES));
            Cell::new(format!("{}, timed", own.name), 1, vec![about])
        });
        // The search adds rows of one metric: the delayed blocks per class.
        let about = About::of(SEARCH, Metrics::Only(&["delays_per_class"]));
        let search = Cell::new(SEARCH, systems, vec![about]);
        Ok(Design::new(counted.chain(timed).chain([search]).collect()))
    }

    /// Counts or times all systems under some traffic, or searches for their worst frees.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        if let Some(traffic) = self.traffic.get(cell) {
            return self.counts(run, &specs, traffic);
        }
        if let Some(traffic) = self.timed.traffic.get(cell - self.traffic.len()) {
            let rows = self.times(run, &specs, traffic)?;
            run.step(format_args!("{} timed", traffic.name));
            return Ok(rows);
        }
        let conditions = run.conditions;
        let mut rows = Vec::new();
        let order = Order::new(self.searched).unwrap_or_default();
        for spec in &specs {
            let exchanges = self.exchanges / conditions.shrink.max(1);
            let worst = adversary::worst(spec, order, exchanges, conditions.seed);
            let worst = worst.map_err(failed(spec))?;
            let own = run.common(SEARCH, spec, 1).of("free");
            rows.extend(delays(&worst, self.searched, &own));
            let total = worst.iter().sum::<u32>();
            rows.put(&own, "coalescings", "max", f64::from(total));
            run.step(format_args!("worst of {spec}"));
        }
        Ok(rows)
    }
}

impl Parameters {
    /// Returns the distributions of the operations and of the coalescings of single calls.
    fn counts(
        &self,
        run: &mut Run<'_, '_>,
        specs: &[SystemSpec],
        traffic: &Arrivals,
    ) -> Result<Vec<Row>, Error> {
        let units = self.arena / UNIT;
        let Recordings {
            users,
            seeds,
            calls,
            warm,
        } = self.recordings;
        let Arrivals {
            name: source,
            timing,
        } = traffic;
        let mut all: Vec<Counted> = specs.iter().map(|_| Counted::default()).collect();
        for seed in 0..seeds {
            let recording = record((*timing, users), seed, (warm, calls), run.conditions);
            for (spec, sum) in specs.iter().zip(&mut all) {
                let counted = runs::count(spec, units, &recording).map_err(failed(spec))?;
                sum.join(&counted);
                run.step(format_args!("{source} {spec}"));
            }
        }
        let mut rows = Vec::new();
        for (spec, counted) in specs.iter().zip(&all) {
            let common = run.common(source, spec, 1);
            for (own, tally) in directions(&common, &counted.tallies) {
                rows.extend(histogram(&tally.operations, &own, "operations"));
                rows.extend(histogram(&tally.delays, &own, "coalescings"));
            }
            let own = common.of("free");
            rows.extend(delays(&counted.tallies[1].worst, self.searched, &own));
        }
        Ok(rows)
    }

    /// Returns the distribution of the times of single calls.
    fn times(
        &self,
        run: &Run<'_, '_>,
        specs: &[SystemSpec],
        traffic: &Arrivals,
    ) -> Result<Vec<Row>, Error> {
        let own = &self.timed;
        let calls = (self.recordings.warm, own.calls);
        let users = self.recordings.users;
        let recording = record((traffic.timing, users), 0, calls, run.conditions);
        let timer = run.bench.timer;
        let now = || timer.now();
        let (times, alone) = in_turns(specs, own.repeats, |spec| {
            runs::time_each(spec, self.arena / UNIT, &recording, &now)
        })?;
        let long = timer.ticks(own.long_ns);
        let calm = |each: &[[Vec<u32>; 2]], direction: usize| {
            let repeats: Vec<&Vec<u32>> = each.iter().map(|each| &each[direction]).collect();
            calm(&repeats, long)
        };
        let floors = [0, 1].map(|direction| mean(calm(&alone, direction).into_iter()));
        let mut rows = Vec::new();
        for (spec, each) in specs.iter().zip(&times) {
            let common = run.common(&traffic.name, spec, 1);
            for (own, direction) in directions(&common, [0, 1]) {
                let floor = floors[direction].unwrap_or_default();
                let nanos = |ticks: f64| timer.sum((ticks - floor).max(0.0), 0);
                let nanos = calm(each, direction).into_iter().map(nanos).collect();
                rows.extend(self.density(nanos, &own));
            }
        }
        Ok(rows)
    }

    /// Returns the rows of times in nanoseconds: their summary, and the number of calls in each bin.
    fn density(&self, mut nanos: Vec<f64>, common: &Row) -> Vec<Row> {
        const METRIC: &str = "latency";
        nanos.sort_unstable_by(f64::total_cmp);
        let Some(last) = nanos.len().checked_sub(1) else {
            return Vec::new();
        };
        let middle = nanos.iter().sum::<f64>() / nanos.len() as f64;
        let squares: f64 = nanos.iter().map(|own| (own - middle).powi(2)).sum();
        let mut rows = vec![
            row(common, METRIC, "mean", middle),
            row(
                common,
                METRIC,
                "stddev",
                (squares / nanos.len() as f64).sqrt(),
            ),
        ];
        for (statistic, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            let rank = (share * nanos.len() as f64).ceil().max(1.0) as usize - 1;
            rows.put(common, METRIC, statistic, nanos[rank.min(last)]);
        }
        let mut bins = Histogram::default();
        for own in &nanos {
            bins.add((own / self.timed.bin_ns) as u32);
        }
        let filled = (0..).zip(&bins.counts).filter(|(_, calls)| **calls > 0);
        rows.extend(filled.map(|(bin, calls)| {
            let from = f64::from(bin) * self.timed.bin_ns;
            row(common, METRIC, "count", *calls as f64).at(from)
        }));
        rows
    }
}

/// Returns the rows of a distribution: its summary, and the share of calls with each number.
fn histogram(own: &Histogram, common: &Row, metric: &'static str) -> Vec<Row> {
    let count = own.count().max(1) as f64;
    let mut rows = vec![
        row(common, metric, "mean", own.mean()),
        row(common, metric, "stddev", own.stddev()),
        row(common, metric, "p99", f64::from(own.quantile(0.99))),
        row(common, metric, "p999", f64::from(own.quantile(0.999))),
        row(common, metric, "max", f64::from(own.max())),
    ];
    let shares = own
        .counts
        .iter()
        .enumerate()
        .filter(|(_, calls)| **calls > 0);
    rows.extend(
        shares.map(|(number, calls)| row(common, metric, "rate", *calls as f64 / count).at(number)),
    );
    rows
}

/// Returns rows of the maximum number of coalescings of one free at each order above its own, with the bound; and of
/// the maximum over all orders, with the source's bound applied to a call.
fn delays(worst: &[u32], searched: u8, common: &Row) -> Vec<Row> {
    const METRIC: &str = "delays_per_class";
    let mut rows: Vec<Row> = (0u8..)
        .zip(worst)
        .take_while(|(above, _)| *above < searched)
        .map(|(above, delays)| {
            row(common, METRIC, "max", f64::from(*delays))
                .of_order(Some(above))
                .expecting(Some(f64::from(2u32 << above)))
        })
        .collect();
    let most = worst.iter().copied().max().unwrap_or(0);
    rows.push(row(common, METRIC, "max", f64::from(most)).expecting(Some(2.0)));
    rows
}
