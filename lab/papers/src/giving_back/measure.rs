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
use super::world::{HUGE, Seen, Setting, perform};
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
    /// The smallest orders that are reported.
    orders: Vec<u8>,
    /// The delays, in milliseconds.
    delays_ms: Vec<u64>,
    /// After how many frames a pass ends.
    pass_frames: u64,
    /// Seeds of the modelled guests.
    seeds: u64,
    /// Frames that are always allocated in a modelled guest.
    resident: u32,
    /// Of so many frames that a program allocates there, the kernel replaces a resident one.
    replaced: u32,
    /// Milliseconds in which 1 GiB is allocated there.
    gib_ms: u64,
    /// `churn`: frames of a round, milliseconds of a round in which none is allocated, and rounds.
    churn: [u32; 3],
    /// `burst`: the same.
    burst: [u32; 3],
    /// How often a recorded program runs, and the milliseconds that the guest rests after each.
    recorded: [u32; 2],
    /// Faults of a round of `churn` with the short delay / with the long one, as the source counted them, and these
    /// delays in milliseconds.
    churn_ratio: f64,
    churn_delays_ms: [u64; 2],
}

/// The guests that are models.
const MODELS: [&str; 2] = ["churn", "burst"];

/// Without reports.
const NEVER: &str = "never";

impl Parameters {
    fn model(&self, name: &str, shrink: u32) -> Model {
        let [frames, other_ms, rounds] = match name {
            "churn" => self.churn,
            _ => self.burst,
        };
        Model {
            resident: self.resident,
            frames: (frames / shrink).max(1000),
            taking_ms: u64::from(frames) * self.gib_ms / GIB as u64,
            other_ms: other_ms.into(),
            replaced: self.replaced,
            rounds: rounds.min(if shrink > 1 { 2 } else { rounds }),
        }
    }

    /// Returns the combinations of orders and delays, with the names of their rows.
    fn settings(&self, guest: &str) -> Vec<(String, Setting)> {
        let orders = self.orders.iter().filter_map(|order| Order::new(*order));
        let each = orders.flat_map(|order| {
            self.delays_ms.iter().map(move |delay_ms| {
                let setting = Setting {
                    order,
                    delay_ns: Some(delay_ms * 1_000_000),
                };
                (source(guest, order, *delay_ms), setting)
            })
        });
        let never = Setting {
            order: Order::TEN,
            delay_ns: None,
        };
        [(format!("{guest}:{NEVER}"), never)]
            .into_iter()
            .chain(each)
            .collect()
    }
}

/// Returns the source of a guest's rows.
fn source(guest: &str, order: Order, delay_ms: u64) -> String {
    format!("{guest}:{order}/{delay_ms}ms")
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Seeds(u32::try_from(self.seeds).unwrap_or(u32::MAX))
    }

    fn steps(&self, experiment: &Experiment) -> u64 {
        let guests = MODELS.len() * self.seeds as usize + experiment.traces().len();
        (guests * experiment.systems.len()) as u64
    }

    fn sources(&self, experiment: &Experiment) -> Vec<String> {
        let models = MODELS.iter().map(|name| (*name).to_string());
        let guests = models.chain(experiment.trace_names());
        guests
            .flat_map(|guest| self.settings(&guest))
            .map(|setting| setting.0)
            .collect()
    }

    fn sources_of(&self, experiment: &Experiment, metric: &str) -> Vec<String> {
        let short = self.churn_delays_ms[0];
        let mut sources = self.sources(experiment);
        sources.retain(|source| match metric {
            "fault_ratio" => {
                source.starts_with("churn:") && source.ends_with(&format!("/{short}ms"))
            }
            _ => true,
        });
        sources
    }

    /// Runs every guest on every system, with every order and delay.
    fn measure(&self, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let (specs, shrink, seed) = (run.specs()?, run.shrink(), run.conditions.seed);
        let mut rows = Vec::new();
        for name in MODELS {
            let model = self.model(name, shrink);
            let mut all = vec![vec![Vec::new(); self.settings(name).len()]; specs.len()];
            for own in 0..self.seeds {
                let guest = Guest::modelled(model, seed << 16 | own);
                for (spec, seen) in specs.iter().zip(&mut all) {
                    for ((_, setting), seen) in self.settings(name).into_iter().zip(seen) {
                        seen.push(self.perform(run, spec, &guest, setting)?);
                    }
                    run.step(format_args!("{name} {spec}"));
                }
            }
            for (spec, seen) in specs.iter().zip(&all) {
                rows.extend(self.rows(run, spec, name, seen));
            }
        }
        let [rounds, rest_ms] = self.recorded;
        for (name, resolved) in run.traces()? {
            let guest = Guest::recorded(&resolved, rounds, rest_ms.into());
            for spec in &specs {
                let mut seen = Vec::new();
                for (_, setting) in self.settings(&name) {
                    seen.push(vec![self.perform(run, spec, &guest, setting)?]);
                }
                rows.extend(self.rows(run, spec, &name, &seen));
                run.step(format_args!("{name} {spec}"));
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
        name: &str,
        all: &[Vec<Seen>],
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        let settings = self.settings(name);
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
            let huge = common.of_order(Some(HUGE));
            let values: Vec<f64> = seen.iter().map(|seen| seen.huge_blocks).collect();
            rows.extend(means(&values, &huge, "free_blocks", None));
            let refused: u64 = seen.iter().map(|seen| seen.refused).sum();
            rows.put(&common, "blocking_probability", "count", refused as f64);
            // The same guest with the long delay is the base of the ratio.
            let [short, long] = self.churn_delays_ms;
            if name == "churn" && setting.delay_ns == Some(short * 1_000_000) {
                let base = self::source(name, setting.order, long);
                let base = settings.iter().position(|other| other.0 == base);
                let base = base.and_then(|at| all.get(at)).map_or(&[][..], |base| base);
                let ratio = |(short, long): (&Seen, &Seen)| {
                    short.faulted as f64 / long.faulted.max(1) as f64
                };
                let ratios: Vec<f64> = seen.iter().zip(base).map(ratio).collect();
                let expected = (setting.order.get() == HUGE).then_some(self.churn_ratio);
                rows.extend(means(&ratios, &common, "fault_ratio", expected));
            }
        }
        rows
    }
}
