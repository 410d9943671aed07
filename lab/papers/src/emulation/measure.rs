//! \[Serewa\]'s emulation program: calls, steps and shares of time, by case and store.
//!
//! Results are compared with listings 2 and 3 of \[Serewa\]. They show whether the listings' gain remains in stores
//! that are better than a queue that is walked at each insertion. The program is in `crate::emulation`; here its
//! numbers become rows.
//!
//! # Invariants
//! Within a round both cases of its stores take turns. Stores that take long have one round. Every run checks its own
//! accounting.

use crate::emulation::function::Function;
use crate::emulation::manager::{Case, Heap};
use crate::emulation::paper;
use crate::emulation::program::ITERATIONS;
use crate::emulation::runs::{self, Counted, StoreRun, Timed};
use crate::emulation::store::StoreKind;
use crate::shared::prelude::*;

use crate::streams::rows::{over, seeds};
use serde::Deserializer;
use serde::de::Error as _;

/// The cases, as rows name them as sources.
const CASES: [&str; 2] = ["case 1", "case 2"];
/// The source of the ratio of case 2 to case 1.
const OVER: &str = "case 2 / case 1";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The stores, as rows name them as systems.
    #[serde(deserialize_with = "stores")]
    stores: Vec<StoreKind>,
    /// The number of seeds for counting.
    seeds: u32,
    /// The number of rounds for timing, on the first seed.
    rounds: u32,
    /// The divisor of the iterations for a queue with linear insertion.
    walked: u32,
}

/// Parses the names of stores.
fn stores<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StoreKind>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    let read = |name: &String| name.parse().map_err(D::Error::custom);
    names.iter().map(read).collect()
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::TimedSeeds(self.seeds)
    }

    fn design(&self, _: &Experiment, _: &Conditions) -> Result<Design, Error> {
        const TIMES: Metrics = Metrics::Only(&["latency", "time_ratio"]);
        const RATIOS: &[&str] = &["time_ratio", "steps_ratio"];
        // One cell: stores are timed in turns.
        let (mut about, mut steps) = (Vec::new(), 0);
        for store in &self.stores {
            let [seeds, rounds] = [self.seeds, self.rounds].map(|most| rounds(*store, most));
            steps += (seeds + rounds) as usize * CASES.len();
            let cases = CASES.map(|case| About::of(case, Metrics::But(RATIOS)));
            let ratio = About::of(OVER, Metrics::Only(RATIOS));
            about.extend(cases.into_iter().chain([ratio]).map(|own| {
                let own = own.system(store.name()).rounds(TIMES, rounds);
                own.rounds(Metrics::But(&["latency", "time_ratio"]), seeds)
            }));
        }
        Ok(Design::new(vec![Cell::new("all", steps, about)]))
    }

    /// Counts and times all stores.
    fn measure(&self, _: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let broken = |plan: StoreRun| {
            let (store, number, seed) = (plan.store, plan.case.number(), plan.seed);
            move |what: String| {
                let run = format!("emulation, {store}, case {number}, seed {seed}");
                Error::Broken(format!("{run}: {what}"))
            }
        };
        let mut counted: Vec<[Vec<Counted>; 2]> = vec![Default::default(); self.stores.len()];
        let mut timed: Vec<[Vec<Timed>; 2]> = vec![Default::default(); self.stores.len()];
        for (store, own) in self.stores.iter().copied().zip(&mut counted) {
            for seed in 0..rounds(store, self.seeds) {
                for (case, own) in Case::ALL.into_iter().zip(&mut *own) {
                    let plan = self.plan(store, case, seed, run);
                    own.push(runs::steps(plan).map_err(broken(plan))?);
                    run.step(format_args!("{store}, counted"));
                }
            }
        }
        for round in 0..self.rounds {
            let of_round = |(store, _): &(StoreKind, _)| round < rounds(*store, self.rounds);
            let stores = self.stores.iter().copied().zip(&mut timed);
            for (store, own) in stores.filter(of_round) {
                for (case, own) in Case::ALL.into_iter().zip(own) {
                    let plan = self.plan(store, case, 0, run);
                    own.push(runs::time(plan).map_err(broken(plan))?);
                    run.step(format_args!("{store}, timed"));
                }
            }
        }
        let mut rows = Vec::new();
        for ((store, counted), timed) in self.stores.iter().copied().zip(&counted).zip(&timed) {
            let iterations = self.plan(store, Case::SplitFirst, 0, run).iterations;
            let common = run.subject("", store.name(), 1);
            rows.extend(compared(&common, iterations, counted, timed));
            for (((source, case), counted), timed) in
                CASES.into_iter().zip(Case::ALL).zip(counted).zip(timed)
            {
                let common = common.about(source);
                let of = Of { case, iterations };
                rows.extend(of.all(&common, counted, timed));
                for line in paper::profile(case) {
                    let own = common.of(line.function.name());
                    rows.extend(of.function(&own, line, counted, timed));
                }
            }
        }
        Ok(rows)
    }
}

/// Returns the number of runs of a store: one if a run takes long, otherwise `most`.
fn rounds(store: StoreKind, most: u32) -> u32 {
    if store.is_walked() { 1 } else { most }
}

impl Parameters {
    fn plan(&self, store: StoreKind, case: Case, seed: u32, run: &Run<'_, '_>) -> StoreRun {
        let walked = if store.is_walked() { self.walked } else { 1 };
        let iterations = ITERATIONS / walked / run.shrink();
        StoreRun {
            heap: Heap::PAPER,
            case,
            store,
            // The C library's seed is 1 unless a program says otherwise.
            seed: (run.conditions.seed as u32).wrapping_add(seed),
            iterations: iterations.max(1000),
        }
    }
}

/// Returns the nanoseconds per iteration, for each round.
fn latencies(timed: &[Timed], iterations: u32) -> Vec<f64> {
    let nanos = |own: &Timed| own.sampled.time.as_secs_f64() * 1e9 / f64::from(iterations);
    timed.iter().map(nanos).collect()
}

/// Returns the steps per iteration, for each seed.
fn all_steps(counted: &[Counted], iterations: u32) -> Vec<f64> {
    let steps = |own: &Counted| own.steps.sum() as f64 / f64::from(iterations);
    counted.iter().map(steps).collect()
}

/// Returns the ratio of case 2 to case 1, in time and in steps.
fn compared(
    common: &Row,
    iterations: u32,
    counted: &[Vec<Counted>; 2],
    timed: &[Vec<Timed>; 2],
) -> Vec<Row> {
    let own = common.about(OVER);
    let [first, second] = Case::ALL.map(paper::seconds);
    let [one, two] = timed.each_ref().map(|own| latencies(own, iterations));
    let mut rows = seeds(&over(&two, &one), &own, "time_ratio", Some(second / first));
    let [one, two] = counted.each_ref().map(|own| all_steps(own, iterations));
    rows.extend(seeds(&over(&two, &one), &own, "steps_ratio", None));
    rows
}

/// The common data of the runs of a case.
struct Of {
    case: Case,
    iterations: u32,
}

impl Of {
    /// Returns the numbers of the whole program.
    fn all(&self, common: &Row, counted: &[Counted], timed: &[Timed]) -> Vec<Row> {
        let each = |number: fn(&Counted) -> u64| -> Vec<f64> {
            counted.iter().map(|own| number(own) as f64).collect()
        };
        let mut rows = seeds(&latencies(timed, self.iterations), common, "latency", None);
        let steps = all_steps(counted, self.iterations);
        rows.extend(seeds(&steps, common, "steps", None));
        // According to the accounting of the source's profile.
        let [splits, pairs] = paper::splits_and_pairs(self.case).map(|own| self.expected(own));
        let all = [
            ("splits", each(|own| own.work.splits), splits),
            ("coalescings", each(|own| own.work.pairs), pairs),
            ("refusals", each(|own| own.work.refused), Some(0.0)),
        ];
        for (metric, values, expected) in all {
            rows.extend(seeds(&values, common, metric, expected));
        }
        rows
    }

    /// Returns the number that the source printed, if the same number of iterations ran.
    fn expected(&self, printed: u64) -> Option<f64> {
        (self.iterations == ITERATIONS).then_some(printed as f64)
    }

    /// Returns the numbers of one function.
    fn function(
        &self,
        common: &Row,
        line: &paper::Line,
        counted: &[Counted],
        timed: &[Timed],
    ) -> Vec<Row> {
        let function: Function = line.function;
        let calls = |own: &Counted| own.work.calls.of(function) as f64;
        let each: Vec<f64> = counted.iter().map(calls).collect();
        let mut rows = seeds(&each, common, "calls", self.expected(line.calls));
        let steps = |own: &Counted| own.steps.of(function) as f64 / calls(own).max(1.0);
        let each: Vec<f64> = counted.iter().map(steps).collect();
        rows.extend(seeds(&each, common, "steps", None));
        if matches!(function, Function::AddChunk | Function::RemoveTheChunk) {
            let most = counted.iter().map(|own| own.most.of(function)).max();
            rows.put(common, "steps", "max", most.map(|most| most as f64));
        }
        let share = |own: &Timed| {
            let samples = &own.sampled.samples;
            samples.of(function) as f64 / samples.sum().max(1) as f64
        };
        let expected = line.seconds / paper::seconds(self.case);
        let own = common.expecting(Some(rounded(expected)));
        rows.put(&own, "time_share", "rate", mean(timed.iter().map(share)));
        rows
    }
}
