//! Internal, external and total fragmentation of buddy systems with different sizes.
//!
//! More sizes waste less inside blocks and more between them. Only the sum shows which system holds more.
//!
//! # Method
//! A request that finds no block waits; blocks are freed until it is served. Memory is therefore always as full as the
//! system can make it. Whenever a request is refused for the first time, memory is sampled. If lifetimes are
//! exponential, the freed block is a random one, since such lifetimes have no memory. If they are uniform, it is the
//! one whose time ends first.
//!
//! # Invariants
//! All systems have the same memory and serve the same requests; each seed is a run of its own. At the end of a run
//! every invariant of the area is checked, everything is freed, and the area must be whole again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::schemes::{Area, Held, Scheme, Sizes};
use crate::shared::prelude::*;
use everybuddy_workload::odd::{self, Mix};

use crate::streams::rows::means;

/// The largest lifetime, in units of virtual time, if lifetimes are uniform.
const LONGEST: u32 = 1 << 24;

/// The distribution of lifetimes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lifetimes {
    Exponential,
    Uniform,
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Units of memory.
    units: u32,
    /// Units of a region of the dual system: each is a system of its own.
    regions: Vec<u32>,
    /// By how much the external fragmentation of the dual system exceeds that of the binary one at most, according to
    /// the source: a share of memory.
    dual_excess: f64,
    /// The number of seeds.
    seeds: u32,
    /// Requests of a run.
    requests: u32,
    /// Requests before them, which do not count.
    warm: u32,
}

impl Parameters {
    /// Returns the systems, the binary one first.
    fn schemes(&self) -> Vec<Scheme> {
        let trees = [
            Scheme::Binary,
            Scheme::Fibonacci { distance: 2 },
            Scheme::Fibonacci { distance: 3 },
            Scheme::Weighted,
        ];
        let regions = self.regions.iter();
        let duals = regions.map(|region| Scheme::Dual { region: *region });
        trees.into_iter().chain(duals).collect()
    }
}

/// Returns the sources of rows, with what they stand for.
fn mixes() -> impl Iterator<Item = (String, Mix, Lifetimes)> {
    Mix::ALL.into_iter().flat_map(|(name, mix)| {
        [
            (name.to_string(), mix, Lifetimes::Exponential),
            (format!("{name} uniform-lifetimes"), mix, Lifetimes::Uniform),
        ]
    })
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(self.seeds)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let is_region = |units: &u32| {
            units.is_multiple_of(6) && (units / 6).is_power_of_two() && *units >= odd::LARGEST
        };
        if self.units < odd::LARGEST || !self.regions.iter().all(is_region) {
            let needs =
                "needs memory and regions for the largest request, and regions of 3 * 2^k units";
            let name = &experiment.name;
            return Err(Error::usage(format!("experiment {name}: {needs}")));
        }
        let cells = mixes().map(|(name, ..)| Cell::of(name, self.schemes().len()));
        Ok(Design::new(cells.collect()))
    }

    /// Fills memory with a mix, on every system.
    fn measure(&self, mix: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (seed, shrink) = (run.conditions.seed, run.shrink());
        let calls = (self.warm / shrink, (self.requests / shrink).max(100));
        let mut rows = Vec::new();
        let Some((source, mix, lifetimes)) = mixes().nth(mix) else {
            return Ok(rows);
        };
        let mut binary = None;
        for scheme in self.schemes() {
            let sizes = Sizes::new(scheme, self.units);
            let common = run.subject(&source, &scheme.to_string(), 1);
            let mut values: [Vec<f64>; 3] = Default::default();
            for own in 0..u64::from(self.seeds) {
                let serving = Serving {
                    area: Area::new(sizes.clone(), self.units),
                    random: odd::Sizes::new(mix, seed << 16 | own),
                    lifetimes,
                    live: Vec::new(),
                    due: BinaryHeap::new(),
                    now: 0,
                    asked: 0,
                };
                let broken = |what| Error::Broken(format!("system {scheme}: {what}"));
                let sums = serving.perform(calls).map_err(broken)?;
                values
                    .iter_mut()
                    .zip(sums)
                    .for_each(|(all, own)| all.push(own));
            }
            let covering = |units| sizes.covering(units).map_or(0, |class| sizes.units(class));
            let calculated = mix.mean_of(covering) / mix.mean();
            let expected = match scheme {
                Scheme::Dual { .. } => binary.map(|binary: f64| binary + self.dual_excess),
                _ => None,
            };
            if scheme == Scheme::Binary {
                binary = mean(values[1].iter().copied());
            }
            let metrics = [
                ("internal_fragmentation", Some(calculated)),
                ("external_fragmentation", expected),
                ("total_fragmentation", None),
            ];
            for ((metric, expected), values) in metrics.into_iter().zip(&values) {
                rows.extend(means(values, &common, metric, expected));
            }
            run.step(format_args!("{source} {scheme}"));
        }
        Ok(rows)
    }
}

/// A live block: its start, and the requested units.
type Live = (u32, u32);

/// A system, its live blocks, and the random choices.
struct Serving {
    area: Area,
    random: odd::Sizes,
    lifetimes: Lifetimes,
    /// The live blocks, if lifetimes are exponential.
    live: Vec<Live>,
    /// The live blocks with the ends of their lifetimes, if these are uniform.
    due: BinaryHeap<Reverse<(u64, Live)>>,
    now: u64,
    /// The requested units that are live.
    asked: u32,
}

impl Serving {
    /// Serves all requests. Returns the means of internal, external and total fragmentation over the counted ones that
    /// were refused at first.
    fn perform(mut self, (warm, requests): (u32, u32)) -> Result<[f64; 3], String> {
        let units = f64::from(self.area.len());
        let (mut sums, mut samples) = ([0.0; 3], 0u32);
        for request in 0..warm + requests {
            let size = self.random.next().unwrap_or(1);
            if self.allocate(size) {
                continue;
            }
            if request >= warm {
                let [held, asked] = [self.area.held(), self.asked].map(f64::from);
                let own = [
                    held / asked.max(1.0),
                    1.0 - held / units,
                    1.0 - asked / units,
                ];
                sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                samples += 1;
            }
            while !self.allocate(size) {
                if !self.free_one()? {
                    return Err(format!("{size} units are refused while nothing is live"));
                }
            }
        }
        self.area.check().map_err(|error| error.to_string())?;
        while self.free_one()? {}
        if self.area.is_initial() {
            Ok(sums.map(|sum| sum / f64::from(samples.max(1))))
        } else {
            Err("memory is not whole after everything was freed".to_string())
        }
    }

    /// Requests a block. Returns `false` if the request is refused.
    fn allocate(&mut self, size: u32) -> bool {
        let Some(Held { start, .. }) = self.area.allocate(size) else {
            return false;
        };
        match self.lifetimes {
            Lifetimes::Exponential => self.live.push((start, size)),
            Lifetimes::Uniform => {
                let end = self.now + u64::from(self.random.below(LONGEST));
                self.due.push(Reverse((end, (start, size))));
            }
        }
        self.asked += size;
        true
    }

    /// Frees the block whose lifetime ends next. Returns `false` if no block is live.
    fn free_one(&mut self) -> Result<bool, String> {
        let next = match self.lifetimes {
            Lifetimes::Exponential if self.live.is_empty() => None,
            Lifetimes::Exponential => {
                let at = self.random.below(self.live.len() as u32) as usize;
                Some(self.live.swap_remove(at))
            }
            Lifetimes::Uniform => self.due.pop().map(|Reverse((end, live))| {
                self.now = end;
                live
            }),
        };
        let Some((start, size)) = next else {
            return Ok(false);
        };
        self.asked -= size;
        self.area.free(start).map_err(|error| error.to_string())?;
        Ok(true)
    }
}
