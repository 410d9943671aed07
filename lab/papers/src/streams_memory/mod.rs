//! The growth of memory if no request may fail.
//!
//! Results are compared with figure 5 of \[BL89\]: a policy that delays coalescing requires more memory for the same
//! blocks, and the difference depends on the load.
//!
//! # Invariants
//! Memory starts with one step, grows by one step when a request requires it, and never shrinks.

pub(crate) mod figure;

use crate::shared::prelude::*;
use crate::streams::fast_fits::Choice;
use crate::streams::runs::{self, Grower};
use everybuddy_workload::streams::{Timing, UNIT};

use crate::streams::rows::{failed, means as mean_rows, over, record, seeds};

/// Stephenson's method, by its names in rows.
const FAST_FITS: [(&str, Choice); 2] = [
    ("fast-fits", Choice::Leftmost),
    ("fast-fits-better", Choice::Better),
];
/// The name of the memory of the blocks themselves.
const HELD: &str = "held";

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The loads: numbers of users, which need not be whole.
    users: Vec<f64>,
    /// The number of seeds.
    seeds: u64,
    /// The number of counted calls of a recording.
    calls: usize,
    /// The number of calls before them, while the level rises.
    warm: usize,
    /// Bytes by which memory grows.
    step: u32,
    /// The source's statement about DELAY-2 relative to the standard buddy.
    printed: Printed,
}

/// The source's statement about DELAY-2 relative to the standard buddy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    /// The mean ratio.
    average: f64,
    /// The largest ratio.
    worst: f64,
    /// The largest difference, in bytes.
    more: f64,
}

/// Returns the source of rows about a load.
fn load_name(users: f64) -> String {
    match users {
        1.0 => "1-user".to_string(),
        users => format!("{users}-users"),
    }
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(self.seeds as u32)
    }

    fn design(&self, _: &Experiment, _: &Conditions) -> Result<Design, Error> {
        // One cell: the means of each seed are over all loads.
        let loads = self.users.iter().map(|users| About::all(load_name(*users)));
        let mean = About::of(MEAN, Metrics::Some);
        let steps = self.users.len() * self.seeds as usize;
        let cell = Cell::new("all", steps, loads.chain([mean]).collect());
        Ok(Design::new(vec![cell]))
    }

    /// Lets memory grow under all loads.
    fn measure(&self, _: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (experiment, conditions) = (run.experiment, run.conditions);
        let specs = run.specs()?;
        let standard = specs.first().ok_or_else(|| {
            let name = &experiment.name;
            Error::usage(format!("experiment {name}: needs systems"))
        })?;
        let named = |name: &str| run.subject("", name, 1);
        let systems = specs
            .iter()
            .map(|spec| (run.common("", spec, 1), Grower::System(spec)));
        let fast = FAST_FITS.map(|(name, choice)| (named(name), Grower::FastFits(choice)));
        let growers: Vec<(Row, Grower<'_>)> = systems.chain(fast).collect();
        let of_held = named(HELD);
        let mut rows = Vec::new();
        // For each grower, the ratio to the first one, for each load and seed.
        let mut ratios: Vec<Vec<Vec<f64>>> = vec![Vec::new(); growers.len()];
        let mut most = vec![0.0; growers.len()];
        for users in self.users.iter().copied() {
            let source = load_name(users);
            let mut peaks: Vec<Vec<f64>> = vec![Vec::new(); growers.len() + 1];
            for seed in 0..self.seeds {
                let (traffic, calls) = ((Timing::Exponential, users), (self.warm, self.calls));
                let recording = record(traffic, seed, calls, conditions);
                for (at, (_, grower)) in growers.iter().enumerate() {
                    let grown = runs::grow(*grower, self.step / UNIT, &recording);
                    let (units, held) = grown.map_err(failed(standard))?;
                    peaks[at].push(f64::from(units * UNIT));
                    if at == 0 {
                        peaks[growers.len()].push(f64::from(held * UNIT));
                    }
                }
                run.step(&source);
            }
            let all = growers.iter().map(|(row, _)| row).chain([&of_held]);
            for (own, values) in all.zip(&peaks) {
                let own = own.about(&source);
                rows.extend(seeds(values, &own, "peak_memory", None));
                if own.system != HELD {
                    let ratio = over(values, &peaks[0]);
                    rows.extend(seeds(&ratio, &own, "peak_memory_ratio", None));
                }
            }
            for (at, ratios) in ratios.iter_mut().enumerate() {
                ratios.push(over(&peaks[at], &peaks[0]));
                let more = peaks[at].iter().zip(&peaks[0]);
                let more = more.map(|(own, standard)| own - standard);
                most[at] = more.fold(most[at], f64::max);
            }
        }
        for (((own, _), ratios), more) in growers.iter().zip(&ratios).zip(most) {
            let own = own.about(MEAN);
            let is_judged = own.system == "delay-2" && !own.options.contains("reclaim");
            // The mean over the loads, for each seed.
            let of_seed = |seed| {
                let loads = ratios.iter();
                mean(loads.filter_map(|own: &Vec<f64>| own.get(seed).copied()))
            };
            let means: Vec<f64> = (0..self.seeds as usize).filter_map(of_seed).collect();
            let expected = is_judged.then_some(self.printed.average);
            rows.extend(mean_rows(&means, &own, "peak_memory_ratio", expected));
            let most = ratios.iter().flatten().copied().fold(0.0, f64::max);
            rows.push(
                row(&own, "peak_memory_ratio", "max", most)
                    .expecting(is_judged.then_some(self.printed.worst)),
            );
            rows.push(
                row(&own, "peak_memory_excess", "max", more)
                    .expecting(is_judged.then_some(self.printed.more)),
            );
        }
        Ok(rows)
    }
}
