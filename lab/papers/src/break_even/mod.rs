//! The point at which a queue to another thread costs more than the splits and merges that it saves.
//!
//! The source argues with what a caller no longer does, and not with what it does instead. So what is
//! saved is varied, from ten splits to none, and so is how much time the services have.
//!
//! One caller runs on new memory that consists of blocks of order 10, by the loop of
//! [`pairs`](everybuddy_measure::replay::pairs). Without pauses between calls, the times of segments are reported.
//! Queues and splits are counted in a separate pass.
//!
//! # Invariants
//! Systems take turns, and ratios are formed within a round, of visits that follow each other.

pub(crate) mod figure;

use everybuddy::{Counts, NoProbe, Order};

use crate::shared::prelude::*;
use crate::streams::rows::over;
use everybuddy::systems::SERVICES;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::AnySystem;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::outcome::share;
use everybuddy_measure::replay::pairs::{Paired, Pairs};
use everybuddy_measure::replay::services::{LONGEST, Served};
use everybuddy_measure::replay::timed;
use everybuddy_measure::replay::watch::Watch;

/// What rows about the host itself have as their system.
const HOST: &str = "host";

/// The call pattern of the caller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    /// The source of its rows.
    name: String,
    /// The number of blocks that it allocates before it frees as many.
    burst: usize,
    /// Nanoseconds from the end of a call to the next.
    pause_ns: f64,
    /// The number of timed allocations.
    calls: usize,
}

/// The results of a system in a round.
struct Visit {
    calls: [Calls; 2],
    /// The mean of uninterrupted pairs.
    pair: f64,
    services: Vec<Served>,
}

/// The calls of one kind.
#[derive(Clone, Copy, Default)]
struct Calls {
    /// The mean of uninterrupted calls.
    mean: f64,
    /// The mean of all calls.
    all: f64,
    /// The 99th percentile.
    p99: f64,
    /// The share of interrupted calls.
    disturbed: f64,
}

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The number of timed runs of each system, in turns.
    rounds: usize,
    /// The number of blocks of order 10 in the memory.
    blocks: u64,
    /// The requested orders.
    orders: Vec<u8>,
    /// The call patterns.
    loads: Vec<Load>,
    /// Pairs per segment.
    segment: usize,
    /// The time of a pair, in nanoseconds, below which no ratio to it is formed.
    least_ns: f64,
}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Rounds(self.rounds as u32)
    }

    fn design(&self, experiment: &Experiment, _: &Conditions) -> Result<Design, Error> {
        let visits = self.orders.len() * (self.rounds + 1) * experiment.systems.len();
        // The rows of single services have metrics of their own.
        let cell = |load: &Load| {
            let services = SERVICES
                .iter()
                .map(|own| format!("{}:{}", load.name, own.name));
            let services = services.map(|name| About::of(name, Metrics::Some));
            let about = [About::all(&load.name)].into_iter().chain(services);
            Cell::new(&load.name, visits, about.collect())
        };
        Ok(Design::new(self.loads.iter().map(cell).collect()))
    }

    /// Visits all systems in turns, with each order of a load.
    fn measure(&self, load: usize, run: &mut Run<'_, '_>) -> Result<Vec<Row>, Error> {
        let specs = run.specs()?;
        let memory = Memory::fresh(self.blocks << Order::TEN.get());
        let rounds = run.rounds(self.rounds as u32);
        let mut rows = Vec::new();
        let load = &self.loads[load];
        let calls = (load.calls / run.shrink() as usize).max(64);
        for order in self.orders.iter().copied().filter_map(Order::new) {
            let plan = Plan {
                load,
                own: self,
                order,
                calls,
                memory: &memory,
            };
            let mut transfers = Vec::new();
            let mut turns = 0;
            let visits = run.in_turns(rounds, &specs, &load.name, |spec, bench| {
                if turns % specs.len() == 0 {
                    transfers.extend(everybuddy_simulate::machines::host::transfer());
                }
                turns += 1;
                plan.time(spec, bench)
            })?;
            let order = Some(order.get());
            let transfer = (!transfers.is_empty()).then(|| median(transfers));
            let host = run.subject(&load.name, HOST, 1).of_order(order);
            rows.put(&host, "line_transfer", "p50", transfer);
            let base = specs.iter().position(|spec| spec.to_string() == BASE);
            let base = base.map_or(&[][..], |base| &visits[base]);
            for (spec, own) in specs.iter().zip(&visits) {
                let common = run.common(&load.name, spec, 1).of_order(order);
                let base = (base, transfer);
                rows.extend(plan.times(&common, own, base, run.bench.timer));
                rows.extend(plan.counts(&common, spec, run.bench)?);
                run.step(format_args!("{} {spec}, counted", load.name));
            }
        }
        Ok(rows)
    }
}

/// One load with one order.
struct Plan<'m> {
    load: &'m Load,
    own: &'m Parameters,
    order: Order,
    calls: usize,
    memory: &'m Memory,
}

impl Plan<'_> {
    /// Times a system once.
    fn time(&self, spec: &SystemSpec, bench: &mut Bench<'_>) -> Result<Visit, Error> {
        let timer = bench.timer;
        let mut done = Err(Error::Broken("the system was not called".to_string()));
        timed::with(bench.arena, spec, self.memory, 1, &mut |system| {
            done = self.pairs().time(system, timer, &NoProbe::default);
        })?;
        let Paired {
            ticks, services, ..
        } = done?;
        let calls = ticks.singles.map(|ticks| Calls::of(ticks, timer));
        Ok(Visit {
            calls,
            pair: if ticks.segments.is_empty() {
                calls.iter().map(|calls| calls.mean).sum()
            } else {
                by_segment(&ticks.segments, self.own.segment, timer)
            },
            services,
        })
    }

    /// Counts the events of a system.
    fn counts(
        &self,
        common: &Row,
        spec: &SystemSpec,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let timer = bench.timer;
        let visit =
            |system: &AnySystem<'_, Watch>| self.pairs().time(system, timer, &Watch::default);
        let Paired {
            services, heard, ..
        } = bench.arena.build_any(spec, self.memory, 1, visit)??;
        let mut all = Counts::default();
        heard.iter().for_each(|own| all.add(&own.counts));
        let each = |count: u64| count as f64 / self.pairs().performed() as f64;
        let mut rows = Vec::new();
        // The caller's own counts come first.
        if let Some(own) = heard.first() {
            rows.put(common, "splits", "mean", each(own.counts.splits));
            rows.put(common, "coalescings", "mean", each(own.counts.coalescings));
        }
        if !services.is_empty() {
            let mean = share(all.queue_lengths, all.queued);
            rows.put(common, "queue_length", "mean", mean);
            rows.put(common, "queue_length", "max", all.queue_longest as f64);
            rows.put(common, "queue_full", "mean", each(all.queue_full));
        }
        Ok(rows)
    }

    /// Returns the calls: those before the timed part let services start to work.
    fn pairs(&self) -> Pairs {
        Pairs {
            order: self.order,
            burst: self.load.burst,
            pause_ns: self.load.pause_ns,
            before: self.calls / 8,
            singles: self.calls,
            segments: if self.load.pause_ns > 0.0 {
                0
            } else {
                self.calls.div_ceil(self.own.segment)
            },
            segment: self.own.segment,
        }
    }

    /// Returns rows about times: next to those of the base system, and to the time of a load from a line that the other
    /// CPU wrote, in nanoseconds.
    fn times(
        &self,
        common: &Row,
        own: &[Visit],
        (base, transfer): (&[Visit], Option<f64>),
        timer: &Timer,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        let each = |visits: &[Visit], number: &dyn Fn(&Visit) -> f64| -> Vec<f64> {
            visits.iter().map(number).collect()
        };
        let middle = |number: &dyn Fn(&Visit) -> f64| median(each(own, number));
        let ratios = |number: &dyn Fn(&Visit) -> f64| {
            let base = each(base, number);
            if base.iter().all(|nanos| *nanos >= self.own.least_ns) {
                over(&each(own, number), &base)
            } else {
                Vec::new()
            }
        };
        for (common, at) in directions(common, [0, 1]) {
            let mean = |visit: &Visit| visit.calls[at].mean;
            rows.put(&common, "latency", "mean", middle(&mean));
            let p99 = Some(middle(&|visit| visit.calls[at].p99));
            let p99 = p99.filter(|nanos| *nanos > timer.floor());
            rows.put(&common, "latency", "p99", p99);
            rows.extend(rounds(&common, "latency_over_bs", &ratios(&mean)));
        }
        let pair = common.of("pair");
        let of = |number: fn(&Calls) -> f64| {
            move |visit: &Visit| visit.calls.iter().map(number).sum::<f64>()
        };
        let (mean, all) = (|visit: &Visit| visit.pair, of(|calls| calls.all));
        let disturbed = of(|calls| calls.disturbed / 2.0);
        rows.put(&pair, "latency", "mean", middle(&mean));
        rows.put(&pair, "latency_disturbed", "mean", middle(&all));
        rows.put(&pair, "calls_disturbed", "rate", middle(&disturbed));
        rows.extend(rounds(&pair, "latency_over_bs", &ratios(&mean)));
        if let Some(transfer) = transfer {
            let visits = own.iter().zip(base);
            let more = visits.map(|(own, base)| (own.pair - base.pair) / transfer);
            rows.extend(rounds(
                &pair,
                "latency_in_transfers",
                &more.collect::<Vec<_>>(),
            ));
        }
        // The services also process work from before the timed part.
        let pairs = self.pairs().performed() as f64;
        let services = |visit: &Visit| {
            let steady = visit.services.iter().map(|s| s.steady.as_nanos() as f64);
            steady.fold(0.0, |sum, steady| sum + steady) / pairs
        };
        let total = |visit: &Visit| mean(visit) + services(visit);
        rows.put(&pair, "background_work", "mean", middle(&services));
        rows.put(&pair, "total_work", "mean", middle(&total));
        rows.extend(rounds(&pair, "total_work_over_bs", &ratios(&total)));
        let first = own.first().into_iter().flat_map(|visit| &visit.services);
        for (at, service) in first.enumerate() {
            let busy = |visit: &Visit| {
                let busy = visit.services.get(at).map(|s| s.busy.as_nanos() as f64);
                busy.unwrap_or(0.0) / pairs
            };
            let own = pair.about(format_args!("{}:{}", common.source, service.name));
            rows.put(&own, "background_time", "mean", middle(&busy));
        }
        rows
    }
}

/// Returns the mean of a pair over the uninterrupted segments.
fn by_segment(segments: &[u32], pairs: usize, timer: &Timer) -> f64 {
    let longest = timer.ticks(2.0 * LONGEST.as_nanos() as f64);
    let calm = segments
        .iter()
        .filter(|ticks| u64::from(**ticks) <= longest);
    let (count, sum) = calm.fold((0, 0.0), |(count, sum), ticks| {
        (count + 1, sum + f64::from(*ticks))
    });
    timer.sum(sum, count) / (count * pairs).max(1) as f64
}

impl Calls {
    fn of(mut ticks: Vec<u32>, timer: &Timer) -> Calls {
        ticks.sort_unstable();
        let longest = timer.ticks(LONGEST.as_nanos() as f64);
        let calm = ticks.partition_point(|ticks| u64::from(*ticks) <= longest);
        let mean = |ticks: &[u32]| {
            let sum = ticks.iter().map(|ticks| f64::from(*ticks)).sum();
            timer.sum(sum, ticks.len()) / ticks.len().max(1) as f64
        };
        // Nearest rank: a time that actually occurred.
        let p99 = ticks.get((ticks.len() * 99).div_ceil(100).max(1) - 1);
        Calls {
            mean: mean(&ticks[..calm]),
            all: mean(&ticks),
            p99: p99.map_or(0.0, |ticks| timer.sum(f64::from(*ticks), 1)),
            disturbed: 1.0 - calm as f64 / ticks.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_measure::replay::host::Arena;

    /// The parameters of the experiment that belongs to the program.
    fn parameters() -> Parameters {
        let file: toml::Table = include_str!("experiment.toml").parse().unwrap();
        file["parameters"].clone().try_into().unwrap()
    }

    #[test]
    fn a_pair_of_the_standard_buddy_splits_as_often_as_orders_lie_between() {
        let (timer, mut arena) = (Timer::calibrated(), Arena::default());
        let mut bench = Bench {
            timer: &timer,
            arena: &mut arena,
            step: &mut |_| (),
        };
        let own = parameters();
        let memory = Memory::fresh(own.blocks << Order::TEN.get());
        for load in &own.loads {
            for order in own.orders.iter().copied().filter_map(Order::new) {
                let plan = Plan {
                    load,
                    own: &own,
                    order,
                    calls: 64,
                    memory: &memory,
                };
                let spec = BASE.parse().unwrap();
                let rows = plan.counts(&Row::default(), &spec, &mut bench).unwrap();
                let of = |metric| rows.iter().find(|row| row.metric == metric).unwrap().value;
                let (splits, apart) = (of("splits"), f64::from(10 - order.get()));
                assert_eq!(splits, of("coalescings"), "all comes back together");
                match load.burst {
                    1 => assert_eq!(splits, apart),
                    _ => assert!(splits <= 1.0 + apart / 64.0, "{} {order}", load.name),
                }
            }
        }
    }

    #[test]
    fn interrupted_calls_are_in_one_mean_only() {
        let timer = Timer::calibrated();
        let long = timer.ticks(1e9) as u32;
        let calm = timer.ticks(1e3) as u32;
        let calls = Calls::of(vec![calm, long, calm, calm], &timer);
        assert_eq!(calls.disturbed, 0.25);
        assert!(calls.mean < 1.1e3 && calls.all > 2e8);
        assert_eq!(calls.p99, timer.sum(f64::from(long), 1));
    }
}
