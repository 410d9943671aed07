//! What a guest gives back to its monitor, by the order of the blocks and by the delay.
//!
//! # Purpose
//!
//! A monitor chooses from which order on, and how long after a free, a guest reports free blocks. Small blocks and short
//! delays give back more. They also cost more calls, and more frames that the guest soon accesses again.
//!
//! What is measured, and how, is in `world`.
//!
//! # Invariants
//!
//! All systems run the same steps. The same numbers come out each time.

use everybuddy::{NoProbe, Order};
use everybuddy_measure::replay::host::AnySystem;
use everybuddy_measure::replay::memory::Memory;

use super::guest::{Guest, Model};
use super::world::{Seen, Setting, perform};
use crate::shared::prelude::*;
use crate::streams::rows::means;

/// Frames of a GiB.
const GIB: f64 = 262_144.0;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Frames of the guest.
    frames: u64,
    /// After how many frames a pass ends.
    pass_frames: u64,
    /// Seeds of the guests.
    seeds: u64,
    /// Frames that are always allocated.
    resident: u32,
    /// Milliseconds in which 1 GiB is allocated.
    gib_ms: u64,
    /// The guests.
    guests: Vec<Load>,
    /// The two delays of a ratio, in milliseconds, and the order for which the source has one.
    ratio_delays_ms: [u64; 2],
    ratio_order: u8,
}

/// A guest in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    /// The name in sources: `NAME:ORDER/DELAYms`.
    name: String,
    /// Frames that a program allocates and frees in a round.
    frames: u32,
    /// Milliseconds of a round in which none is allocated.
    other_ms: u64,
    /// Rounds.
    rounds: u32,
    /// Of so many frames that the program allocates, the kernel replaces a resident one.
    replaced: u32,
    /// The smallest orders that are reported.
    orders: Vec<u8>,
    /// The delays, in milliseconds.
    delays_ms: Vec<u64>,
    /// Memory that is faulted again in a round with the short delay / with the long one, as the source counted it.
    ratio: Option<f64>,
}

impl Load {
    /// Returns the combinations of orders and delays, with the names of their rows.
    fn settings(&self) -> Vec<(String, Setting)> {
        let orders = self.orders.iter().filter_map(|order| Order::new(*order));
        let each = orders.flat_map(|order| {
            self.delays_ms.iter().map(move |delay_ms| {
                let delay_ns = delay_ms * 1_000_000;
                (self.source(order, *delay_ms), Setting { order, delay_ns })
            })
        });
        each.collect()
    }

    fn source(&self, order: Order, delay_ms: u64) -> String {
        format!("{}:{order}/{delay_ms}ms", self.name)
    }
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(u32::try_from(self.seeds).unwrap_or(u32::MAX))
    }

    fn steps(&self, experiment: &Experiment) -> u64 {
        (self.guests.len() * experiment.systems.len()) as u64 * self.seeds
    }

    fn sources(&self, _: &Experiment) -> Vec<String> {
        let settings = self.guests.iter().flat_map(Load::settings);
        settings.map(|own| own.0).collect()
    }

    fn sources_of(&self, experiment: &Experiment, metric: &str) -> Vec<String> {
        if metric != "fault_ratio" {
            return self.sources(experiment);
        }
        let guests = self.guests.iter().filter(|load| load.ratio.is_some());
        let settings = guests.flat_map(Load::settings);
        let short = settings.filter(|own| own.1.delay_ns == self.ratio_delays_ms[0] * 1_000_000);
        short.map(|own| own.0).collect()
    }

    /// Runs every guest on every system, with every order and delay.
    fn measure(&self, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (specs, shrink, seed) = (run.specs()?, run.shrink(), run.conditions.seed);
        let mut rows = Vec::new();
        for load in &self.guests {
            let model = Model {
                resident: self.resident,
                frames: (load.frames / shrink).max(1000),
                taking_ms: u64::from(load.frames) * self.gib_ms / GIB as u64,
                other_ms: load.other_ms,
                replaced: load.replaced,
                rounds: load.rounds.min(if shrink > 1 { 2 } else { load.rounds }),
            };
            let settings = load.settings();
            let mut all = vec![vec![Vec::new(); settings.len()]; specs.len()];
            for own in 0..self.seeds {
                let guest = Guest::modelled(model, seed << 16 | own);
                for (spec, seen) in specs.iter().zip(&mut all) {
                    for ((_, setting), seen) in settings.iter().zip(seen) {
                        seen.push(self.perform(run, spec, &guest, *setting)?);
                    }
                    run.step(format_args!("{} {spec}", load.name));
                }
            }
            for (spec, seen) in specs.iter().zip(&all) {
                rows.extend(self.rows(run, spec, load, seen));
            }
        }
        Ok(rows)
    }
}

impl Parameters {
    fn perform(
        &self,
        run: &mut Run<'_, '_>,
        spec: &SystemSpec,
        guest: &Guest,
        setting: Setting,
    ) -> Result<Seen, Error> {
        let memory = Memory::fresh(self.frames);
        let perform =
            |system: &AnySystem<'_, NoProbe>| perform(system, guest, setting, self.pass_frames);
        let seen = run.bench.arena.build_any(spec, &memory, 1, perform)?;
        seen.map_err(|what| Error::Broken(format!("system {spec}: {what}")))
    }

    /// Returns the rows of a guest on a system, from what was seen with each setting and each seed.
    fn rows(
        &self,
        run: &Run<'_, '_>,
        spec: &SystemSpec,
        load: &Load,
        all: &[Vec<Seen>],
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        let settings = load.settings();
        let [short, long] = self.ratio_delays_ms;
        for ((source, setting), seen) in settings.iter().zip(all) {
            let common = run.common(source, spec, 1);
            let mut put = |metric, number: &dyn Fn(&Seen) -> f64| {
                let values: Vec<f64> = seen.iter().map(number).collect();
                rows.extend(means(&values, &common, metric, None));
            };
            put("given_back", &|seen| seen.given / GIB / 1e9);
            put("given_share", &|seen| seen.given / seen.idle.max(1.0));
            put("faulted_again", &|seen| seen.faulted as f64 / GIB);
            put("report_calls", &|seen| seen.calls as f64);
            let Some(expected) = load.ratio.filter(|_| setting.delay_ns == short * 1_000_000)
            else {
                continue;
            };
            // The same guest with the long delay is the base of the ratio.
            let base = load.source(setting.order, long);
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
