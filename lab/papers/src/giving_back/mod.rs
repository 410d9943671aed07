//! What a guest gives back to its monitor, by the order of the blocks and by the delay.
//!
//! A monitor chooses from which order on, and how long after a free, a guest reports free blocks. Small blocks and
//! short delays give back more. They also cost more calls, and more frames that the guest soon accesses again.
//!
//! What is measured, and how, is in `world`.
//!
//! # Invariants
//! All systems run the same steps. The same numbers come out each time.

pub(crate) mod guest;
pub(crate) mod world;

use everybuddy::Order;
use everybuddy_measure::replay::host::AnySystem;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::watch::Watch;

use self::guest::{Guest, Model};
use self::world::{LARGE, SAMPLES, Seen, Setting, perform};
use crate::shared::prelude::*;
use crate::streams::rows::means;

/// Frames of a GiB.
const GIB: f64 = 262_144.0;
/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Frames of a guest that is a model, and of one that is recorded.
    frames: u64,
    recorded_frames: u64,
    /// After how many frames a pass ends.
    pass_frames: u64,
    /// Seeds of the guests.
    seeds: u64,
    /// Frames that are always allocated.
    resident: u32,
    /// Milliseconds in which 1 GiB is allocated.
    gib_ms: u64,
    /// The guests that are models.
    guests: Vec<Load>,
    /// The grid of the guests that are recorded: the experiment's traces.
    recorded: Grid,
    /// The two delays of a ratio, in milliseconds, and the order for which the source has one.
    ratio_delays_ms: [u64; 2],
    ratio_order: u8,
}

/// A guest in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    /// The name in sources: `NAME:ORDER/DELAYms`, or `NAME:never`.
    name: String,
    /// Frames that a program allocates and frees in a round.
    frames: u32,
    /// Milliseconds of a round in which none is allocated.
    other_ms: u64,
    /// Rounds.
    rounds: u32,
    /// The number of frames that the program allocates while the kernel replaces a resident one.
    replaced: u32,
    /// What is reported, and when.
    grid: Grid,
    /// Memory that is faulted again in a round with the short delay / with the long one, as the source counted it.
    ratio: Option<f64>,
}

/// The name of a guest, its grid, and the ratio that its source has, if any.
type Subject<'a> = (&'a str, &'a Grid, Option<f64>);

impl Load {
    fn subject(&self) -> Subject<'_> {
        (&self.name, &self.grid, self.ratio)
    }
}

/// The combinations of orders and delays.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grid {
    /// The smallest orders that are reported.
    orders: Vec<u8>,
    /// The delays, in milliseconds.
    delays_ms: Vec<u64>,
}

impl Grid {
    /// Returns all combinations with the names of their rows, and last the guest that reports nothing.
    fn settings(&self, name: &str) -> Vec<(String, Setting)> {
        let mut settings = Vec::new();
        for order in self.orders.iter().filter_map(|order| Order::new(*order)) {
            for delay_ms in &self.delays_ms {
                let delay_ns = Some(delay_ms * MS);
                let source = source(name, order, *delay_ms);
                settings.push((source, Setting { order, delay_ns }));
            }
        }
        let never = Setting {
            order: LARGE,
            delay_ns: None,
        };
        settings.push((format!("{name}:never"), never));
        settings
    }
}

fn source(name: &str, order: Order, delay_ms: u64) -> String {
    format!("{name}:{order}/{delay_ms}ms")
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(u32::try_from(self.seeds).unwrap_or(u32::MAX))
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let guest = |name: &str, grid: &Grid, ratio: Option<f64>, seeds: u64| {
            let about = |(source, setting): (String, Setting)| {
                let metrics = match setting.delay_ns {
                    None => Metrics::Only(&["unusable_index"]),
                    own if ratio.is_some() && own == self.short_ns() => Metrics::All,
                    Some(_) => Metrics::But(&["fault_ratio"]),
                };
                About::of(source, metrics)
            };
            let steps = experiment.systems.len() * seeds as usize;
            let settings = grid.settings(name).into_iter();
            Cell::new(name, steps, settings.map(about).collect())
        };
        let modelled = self.guests.iter();
        let modelled = modelled.map(|load| guest(&load.name, &load.grid, load.ratio, self.seeds));
        let traces = experiment.trace_names();
        let recorded = traces.iter();
        let recorded = recorded.map(|name| guest(name, &self.recorded, None, 1));
        Ok(Design::new(modelled.chain(recorded).collect()))
    }

    /// Runs a guest on every system, with every order and delay.
    fn measure(&self, guest: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (shrink, seed) = (run.shrink(), run.conditions.seed);
        let Some(load) = self.guests.get(guest) else {
            let (name, trace) = run.trace(guest - self.guests.len())?;
            let guests = [Guest::recorded(&trace)].into_iter();
            let subject = (name.as_str(), &self.recorded, None);
            return self.of(run, subject, self.recorded_frames, guests);
        };
        let model = Model {
            resident: self.resident,
            frames: (load.frames / shrink).max(1000),
            taking_ms: u64::from(load.frames) * self.gib_ms / GIB as u64,
            other_ms: load.other_ms,
            replaced: load.replaced,
            rounds: load.rounds.min(if shrink > 1 { 2 } else { load.rounds }),
        };
        let seeds = if shrink > 1 { 1 } else { self.seeds };
        let guests = (0..seeds).map(|own| Guest::modelled(model, seed << 16 | own));
        self.of(run, load.subject(), self.frames, guests)
    }
}

impl Parameters {
    /// Returns the short delay of a ratio.
    fn short_ns(&self) -> Option<u64> {
        Some(self.ratio_delays_ms[0] * MS)
    }

    /// Runs the same guest, once for each seed, on every system, with every order and delay.
    fn of(
        &self,
        run: &mut Run<'_, '_>,
        (name, grid, ratio): Subject<'_>,
        frames: u64,
        guests: impl Iterator<Item = Guest>,
    ) -> Result<Vec<Row>, Error> {
        let (specs, settings) = (run.specs()?, grid.settings(name));
        let mut all = vec![vec![Vec::new(); settings.len()]; specs.len()];
        for guest in guests {
            for (spec, seen) in specs.iter().zip(&mut all) {
                for ((_, setting), seen) in settings.iter().zip(seen) {
                    seen.push(self.perform(run, spec, frames, &guest, *setting)?);
                }
                run.step(format_args!("{name} {spec}"));
            }
        }
        let mut rows = Vec::new();
        for (spec, seen) in specs.iter().zip(&all) {
            rows.extend(self.rows(run, spec, (name, &settings, ratio), seen));
        }
        Ok(rows)
    }

    fn perform(
        &self,
        run: &mut Run<'_, '_>,
        spec: &SystemSpec,
        frames: u64,
        guest: &Guest,
        setting: Setting,
    ) -> Result<Seen, Error> {
        let memory = Memory::fresh(frames);
        let perform =
            |system: &AnySystem<'_, Watch>| perform(system, guest, setting, self.pass_frames);
        let seen = run.bench.arena.build_any(spec, &memory, 1, perform)?;
        seen.map_err(|what| Error::Broken(format!("system {spec}: {what}")))
    }

    /// Returns the rows of a guest on a system, from what was seen with each setting and each seed.
    fn rows(
        &self,
        run: &Run<'_, '_>,
        spec: &SystemSpec,
        (name, settings, ratio): (&str, &[(String, Setting)], Option<f64>),
        all: &[Vec<Seen>],
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        for ((own, setting), seen) in settings.iter().zip(all) {
            let common = run.common(own, spec, 1);
            let mut put = |common: &Row, metric, number: &dyn Fn(&Seen) -> f64| {
                let values: Vec<f64> = seen.iter().map(number).collect();
                rows.extend(means(&values, common, metric, None));
            };
            let of_large = common.of_order(Some(LARGE.get()));
            put(&of_large, "unusable_index", &|seen| {
                seen.unusable / f64::from(SAMPLES)
            });
            if setting.delay_ns.is_none() {
                continue;
            }
            put(&common, "given_back", &|seen| seen.given / GIB / 1e9);
            put(&common, "given_share", &|seen| {
                seen.given / seen.idle.max(1.0)
            });
            put(&common, "faulted_again", &|seen| seen.faulted as f64 / GIB);
            put(&common, "report_calls", &|seen| seen.calls as f64);
            let Some(expected) = ratio.filter(|_| setting.delay_ns == self.short_ns()) else {
                continue;
            };
            // The same guest with the long delay is the base of the ratio.
            let base = source(name, setting.order, self.ratio_delays_ms[1]);
            let base = settings.iter().position(|other| other.0 == base);
            let base = base.and_then(|at| all.get(at)).map_or(&[][..], |base| base);
            let ratio =
                |(short, long): (&Seen, &Seen)| short.faulted as f64 / long.faulted.max(1) as f64;
            let ratios: Vec<f64> = seen.iter().zip(base).map(ratio).collect();
            let expected = (setting.order.get() == self.ratio_order).then_some(expected);
            rows.extend(means(&ratios, &common, "fault_ratio", expected));
        }
        rows
    }
}
