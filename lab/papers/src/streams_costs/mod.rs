//! The cost of an allocation and of a free, by policy and traffic.
//!
//! Results are compared with table 2 of \[BL89\], whose microseconds are those of a machine of 1989. Operations on
//! lists and on the map of free blocks are counted, and times are measured as well.
//!
//! # Invariants
//! Systems take turns within each seed. A time is the mean of its undisturbed repetitions, so work that a system does
//! each time counts. (Not their median: a clock with steps of ten nanoseconds is accurate only on average.)

pub(crate) mod figure;
mod fixed;

use crate::shared::prelude::*;
use crate::streams::perform::Counted;
use crate::streams::runs;
use crate::streams::tally::Tally;

use self::fixed::Fitted;
use crate::streams::rows::{
    Arrivals, Recordings, failed, in_turns, means, over, printed, published, record, seeds,
};
use everybuddy_measure::replay::clock::Timer;
use everybuddy_workload::streams::{Timing, UNIT};

/// An allocation and the free of its block, by its name in rows.
const PAIR: &str = "pair";

/// The base systems, and the metrics of the ratios of operations and of times.
const BASELINES: [(&str, [&str; 2]); 2] = [
    ("bs", ["operations_over_bs", "latency_over_bs"]),
    (
        "watermark",
        ["operations_over_watermark", "latency_over_watermark"],
    ),
];

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Bytes of each arena. Times are measured in the first one.
    arenas: Vec<u32>,
    /// Arrivals and departures.
    traffic: Vec<Arrivals>,
    /// The recordings.
    recordings: Recordings,
    /// The number of seeds for counting with deterministic times, where a seed chooses only the phases of the users.
    phases: u64,
    /// The number of calls of a timed recording.
    timed: usize,
    /// The number of repetitions of each timed call.
    repeats: usize,
    /// The minimum duration of a disturbed repetition, in nanoseconds.
    long_ns: f64,
    /// The cells on which the costs for the source's machine are fitted, one fit after the other.
    #[serde(default)]
    fitted: Vec<Fitted>,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::TimedSeeds(self.recordings.seeds as u32)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        // Counts have no rows of single seeds.
        const TIMES: [&str; 3] = ["latency", BASELINES[0].1[1], BASELINES[1].1[1]];
        let seeds = self.recordings.seeds as u32;
        let cells = self.parts().map(|(arena, traffic)| {
            let steps = experiment.systems.len() * if arena == 0 { 2 } else { 1 };
            let metrics = match arena {
                0 => Metrics::All,
                _ => Metrics::But(&TIMES),
            };
            let about = About::of(source(traffic, arena), metrics);
            let about = about.rounds(Metrics::Only(&TIMES), seeds);
            Cell::new(source(traffic, arena), steps, vec![about])
        });
        // Predictions of other fits than the first one have sources of their own.
        let of_fit = |fit| {
            let own = self.traffic.iter();
            own.map(move |own| About::of(fixed::source_of(fit, &own.name), Metrics::Some))
        };
        let fits = (1..self.fitted.len()).flat_map(of_fit);
        Ok(Design::new(cells.collect()).concluding(fits))
    }

    /// Counts all systems, and times them in the first arena.
    fn measure(&self, cell: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let Some((arena, traffic)) = self.parts().nth(cell) else {
            return Ok(Vec::new());
        };
        let specs = run.specs()?;
        let source = source(traffic, arena);
        let mut all: Vec<Numbers> = specs.iter().map(|_| Numbers::default()).collect();
        let units = self.arenas[arena] / UNIT;
        self.count((&specs, &mut all), (traffic, units), run.conditions)?;
        for spec in &specs {
            run.step(format_args!("{source} {spec}, counted"));
        }
        if arena == 0 {
            self.time((&specs, &mut all), (traffic, units), run)?;
            for spec in &specs {
                run.step(format_args!("{source} {spec}, timed"));
            }
        }
        Ok(all_rows(run, (traffic, &source), &specs, &all))
    }

    fn conclude(
        &self,
        experiment: &Experiment,
        _: &Conditions,
        cells: Vec<Vec<Row>>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = cells.concat();
        let line = |row: &Row| {
            let (system, operation) = (row.system.as_str(), row.operation);
            printed(experiment, &row.source, system, operation, "latency")
        };
        let in_first = |row: &&Row| self.traffic.iter().any(|own| own.name == row.source);
        let counted: Vec<Row> = rows.iter().filter(in_first).cloned().collect();
        for (fit, cells) in self.fitted.iter().enumerate() {
            rows.extend(cells.rows(fit, &counted, line));
        }
        Ok(rows)
    }
}

/// Returns the source of rows about traffic in an arena.
fn source(traffic: &Arrivals, arena: usize) -> String {
    match arena {
        0 => traffic.name.clone(),
        _ => format!("{}, arena {}", traffic.name, arena + 1),
    }
}

/// Returns `true` if a system is the named one, with the same options as another.
fn is_base(spec: &SystemSpec, name: &str, of: &SystemSpec) -> bool {
    spec.name() == name && spec.options() == of.options()
}

/// Returns the rows of all systems under some traffic, and their ratios to the base systems with the same options.
fn all_rows(
    run: &Run<'_, '_>,
    (traffic, source): (&Arrivals, &str),
    specs: &[SystemSpec],
    all: &[Numbers],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (spec, own) in specs.iter().zip(all) {
        let common = run.common(source, spec, 1);
        let printed = |system: &str, operation: &str| {
            published(run.experiment, &traffic.name, system, operation, "latency")
        };
        rows.extend(own.rows(&common, printed));
        for (name, metrics) in BASELINES {
            let base = specs
                .iter()
                .zip(all)
                .find(|other| is_base(other.0, name, spec));
            if let Some((_, base)) = base {
                rows.extend(own.ratios(base, &common, (name, metrics), printed));
            }
        }
    }
    rows
}

impl Parameters {
    /// Returns what is measured: the number of an arena, and traffic.
    fn parts(&self) -> impl Iterator<Item = (usize, &Arrivals)> {
        let arenas = 0..self.arenas.len();
        arenas.flat_map(|arena| self.traffic.iter().map(move |own| (arena, own)))
    }

    /// Counts the operations of all systems.
    fn count(
        &self,
        (specs, all): (&[SystemSpec], &mut [Numbers]),
        (traffic, units): (&Arrivals, u32),
        conditions: &Conditions,
    ) -> Result<(), Error> {
        let Recordings {
            users,
            seeds,
            calls,
            warm,
        } = self.recordings;
        let seeds = match traffic.timing {
            Timing::Deterministic => self.phases,
            _ => seeds,
        };
        for seed in 0..seeds {
            let recording = record((traffic.timing, users), seed, (warm, calls), conditions);
            for (spec, own) in specs.iter().zip(&mut *all) {
                let counted = runs::count(spec, units, &recording).map_err(failed(spec))?;
                for (values, tally) in own.operations.iter_mut().zip(&counted.tallies) {
                    values.push(tally.operations.mean());
                }
                own.counted.join(&counted);
            }
        }
        Ok(())
    }

    /// Measures the times of all systems, which take turns.
    fn time(
        &self,
        (specs, all): (&[SystemSpec], &mut [Numbers]),
        (traffic, units): (&Arrivals, u32),
        run: &Run<'_, '_>,
    ) -> Result<(), Error> {
        let Recordings {
            users, seeds, warm, ..
        } = self.recordings;
        let timer = run.bench.timer;
        for seed in 0..seeds {
            let calls = (warm, self.timed);
            let recording = record((traffic.timing, users), seed, calls, run.conditions);
            let now = || timer.now();
            let (all_times, alone) = in_turns(specs, self.repeats, |spec| {
                let whole = runs::time(spec, units, &recording, &now)?;
                Ok((whole, runs::time_each(spec, units, &recording, &now)?))
            })?;
            let long = timer.ticks(self.long_ns);
            let floor = Summary::of(&alone, long);
            for (own, times) in all.iter_mut().zip(&all_times) {
                own.time(timer, &Summary::of(times, long), &floor);
            }
        }
        Ok(())
    }
}

/// The numbers of one system under some traffic, for each seed.
#[derive(Default)]
struct Numbers {
    /// Operations per allocation and per free.
    operations: [Vec<f64>; 2],
    /// Nanoseconds of each, and of a pair.
    times: [Vec<f64>; 3],
    /// Standard deviations of the first two.
    spreads: [Vec<f64>; 2],
    /// The sum over all seeds.
    counted: Counted,
}

/// The ticks of a repetition: of segments, and of each call of both kinds.
type Times = (Vec<u32>, [Vec<u32>; 2]);

/// Total ticks, and means, standard deviations and numbers of both kinds of calls.
struct Summary {
    whole: f64,
    each: [(f64, f64, usize); 2],
}

impl Summary {
    /// Summarizes; a repetition is disturbed if it takes twice the median of its call plus `long`.
    fn of(times: &[Times], long: u64) -> Summary {
        let whole: Vec<&Vec<u32>> = times.iter().map(|own| &own.0).collect();
        let each = [0, 1].map(|direction| {
            let repeats: Vec<&Vec<u32>> = times.iter().map(|own| &own.1[direction]).collect();
            let ticks = calm(&repeats, long);
            let mean = mean(ticks.iter().copied()).unwrap_or_default();
            let squares: f64 = ticks.iter().map(|ticks| (ticks - mean).powi(2)).sum();
            let count = ticks.len();
            (mean, (squares / count.max(1) as f64).sqrt(), count)
        });
        Summary {
            whole: calm(&whole, long).iter().sum(),
            each,
        }
    }
}

/// Returns the mean of the undisturbed repetitions at each position: those of at most twice the median plus `long`.
pub(crate) fn calm(repeats: &[&Vec<u32>], long: u64) -> Vec<f64> {
    let count = repeats.iter().map(|times| times.len()).min().unwrap_or(0);
    let calm = |at: usize| {
        let mut ticks: Vec<u64> = repeats.iter().map(|times| times[at].into()).collect();
        ticks.sort_unstable();
        let limit = 2 * ticks[ticks.len() / 2] + long;
        let calm = ticks.iter().take_while(|ticks| **ticks <= limit);
        mean(calm.map(|ticks| *ticks as f64)).unwrap_or_default()
    };
    (0..count).map(calm).collect()
}

impl Numbers {
    /// Adds the times of a seed, minus those of performing the calls alone.
    fn time(&mut self, timer: &Timer, own: &Summary, floor: &Summary) {
        let nanos = |ticks: f64| timer.sum(ticks.max(0.0), 0);
        for (direction, (own, floor)) in own.each.iter().zip(&floor.each).enumerate() {
            self.times[direction].push(nanos(own.0 - floor.0));
            self.spreads[direction].push(nanos(own.1));
        }
        let pairs = own.each[0].2.max(1) as f64;
        self.times[2].push(nanos((own.whole - floor.whole) / pairs));
    }

    /// Returns the operations per pair, for each seed.
    fn pairs(&self) -> Vec<f64> {
        let [allocate, free] = &self.operations;
        allocate.iter().zip(free).map(|(a, f)| a + f).collect()
    }

    fn rows(&self, common: &Row, printed: impl Fn(&str, &str) -> Option<f64>) -> Vec<Row> {
        let mut rows = Vec::new();
        for (own, direction) in directions(common, [0, 1]) {
            rows.extend(means(&self.operations[direction], &own, "operations", None));
            rows.extend(counts(&self.counted.tallies[direction], &own));
            rows.extend(seeds(&self.times[direction], &own, "latency", None));
            let spread = mean(self.spreads[direction].iter().copied());
            rows.put(&own, "latency", "stddev", spread);
            // The source's own number, so that a table can also show it.
            let printed = printed(&own.system, own.operation).filter(|_| !self.times[2].is_empty());
            rows.put(
                &own,
                "latency",
                "published",
                printed.map(|value| value * 1e3),
            );
        }
        let own = common.of(PAIR);
        rows.extend(means(&self.pairs(), &own, "operations", None));
        rows.extend(seeds(&self.times[2], &own, "latency", None));
        rows
    }

    /// Returns the costs relative to another system, for each seed.
    fn ratios(
        &self,
        other: &Numbers,
        common: &Row,
        (name, [operations, times]): (&str, [&'static str; 2]),
        printed: impl Fn(&str, &str) -> Option<f64>,
    ) -> Vec<Row> {
        let printed = |system: &str, operation: &str| {
            let [a, f] = DIRECTIONS.map(|operation| printed(system, operation));
            match operation {
                PAIR => Some(a? + f?),
                "allocate" => a,
                _ => f,
            }
        };
        let (pairs, of_other) = (self.pairs(), other.pairs());
        let [allocate, free] = &self.operations;
        let counts = [allocate, free, &pairs];
        let [allocate, free] = &other.operations;
        let others = [allocate, free, &of_other];
        let mut rows = Vec::new();
        let kinds = DIRECTIONS.into_iter().chain([PAIR]);
        for (at, own) in kinds.map(|kind| common.of(kind)).enumerate() {
            let [this, that] = [&common.system, name].map(|system| printed(system, own.operation));
            let expected = this.zip(that).map(|(own, other)| own / other);
            let values = over(counts[at], others[at]);
            rows.extend(means(&values, &own, operations, expected));
            let values = over(&self.times[at], &other.times[at]);
            rows.extend(seeds(&values, &own, times, expected));
        }
        rows
    }
}

/// Returns rows about the calls of one kind, over all seeds.
fn counts(tally: &Tally, common: &Row) -> Vec<Row> {
    let calls = tally.operations.count().max(1) as f64;
    let numbers = [
        ("operations", "stddev", tally.operations.stddev()),
        ("operations", "max", f64::from(tally.operations.max())),
        ("operations", "count", calls),
        ("list_operations", "mean", tally.links as f64 / calls),
        ("map_operations", "mean", tally.marks as f64 / calls),
        ("splits", "mean", tally.splits.mean()),
        ("coalescings", "mean", tally.delays.mean()),
    ];
    let mut rows = Vec::new();
    for (metric, statistic, value) in numbers {
        rows.put(common, metric, statistic, value);
    }
    rows
}

#[cfg(test)]
mod tests {
    use crate::list;

    /// \[BL89\] 5, on a live load: 200 operations per second, almost 100 us saved per allocation and free, up to 2 %
    /// of the machine. Both follow from table 2 under D/D/m, if an operation is such a pair.
    #[test]
    fn the_saved_capacity_of_the_source_follows_from_its_table() {
        let own = list::named(&["streams-costs".to_string()]).unwrap();
        let pair = |system: &str| -> f64 {
            let what = format!("D/D/m: {system}");
            let lines = own[0].published.iter().filter(|line| line.what == what);
            lines.map(|line| line.mean).sum()
        };
        let saved_us = pair("bs") - pair("delay-2");
        assert!((95.0..100.0).contains(&saved_us), "{saved_us}");
        let share = 200.0 * saved_us / 1e6;
        assert!((0.015..=0.02).contains(&share), "{share}");
    }
}
