//! Random but plausible numbers for systems with and without lists.
//!
//! Separate from the traces so that each file has one topic.
//!
//! # Invariants
//! Percentiles are computed from the same times as the histogram.

use everybuddy_metrics::Better;
use everybuddy_page::report::{Bin, Column, Latency, OverTrace, Samples, System, Table, Window};

/// A small generator: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a uniform number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a uniform number between two limits.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns an exponential number with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// The properties of a system.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) batch: u32,
    pub(crate) domains: bool,
    pub(crate) threads: u32,
    pub(crate) calls: u64,
}

/// Creates the numbers of a system.
pub(crate) fn system(
    name: &str,
    parameters: &str,
    kind: Kind,
    live: &[u64],
    managed: u64,
    random: &mut Random,
) -> System {
    let listed = kind.batch > 0;
    let miss = match kind.batch {
        0 => 1.0,
        1 => 0.8,
        batch => 1.2 / f64::from(batch),
    };
    let contended = match kind.threads {
        1 => 0.0,
        _ => miss * random.between(0.002, 0.02) * if kind.domains { 0.2 } else { 1.0 },
    };
    let left = f64::from(kind.batch) * random.between(0.4, 0.8);
    System {
        name: name.into(),
        parameters: parameters.into(),
        is_apart: false,
        latency: [
            latency(kind, random),
            Latency {
                window: Window::default(),
                ..latency(kind, random)
            },
        ],
        service_ratio: Some(if listed {
            random.between(-0.03, 0.6)
        } else {
            0.0
        }),
        miss_rate: Some(miss),
        locks_per_call: Some(miss * random.between(1.0, 1.06)),
        contention_rate: Some(contended),
        contention_rate_core: Some(contended / miss),
        residual: [Some(left), Some(left * 3.0)],
        splits: (kind.calls as f64 * random.between(0.1, 0.3)) as u64,
        coalescings: (kind.calls as f64 * random.between(0.1, 0.3)) as u64,
        refused: if name == "is" { 741 } else { 0 },
        samples: samples(kind, live, managed, random),
        maps: Vec::new(),
    }
}

/// Returns one time: a hit or a refill, and occasionally an outlier.
fn time(kind: Kind, random: &mut Random) -> f64 {
    let base = match kind.batch {
        0 => random.between(4.0, 16.0),
        _ => random.between(1.0, 7.0),
    };
    let refill = kind.batch > 1 && random.unit() < 1.0 / f64::from(kind.batch);
    let time = if refill {
        f64::from(kind.batch.min(200)) * random.between(3.5, 5.5)
    } else {
        base
    };
    let slow = match random.unit() {
        x if x < 0.0005 => random.exponential() * 900.0,
        x if x < 0.02 => random.exponential() * 20.0,
        _ => 0.0,
    };
    let ticks = ((time + slow) / 10.0).round() * 10.0;
    if ticks <= 10.0 {
        0.0
    } else {
        ticks - 0.3 * random.unit().round()
    }
}

fn latency(kind: Kind, random: &mut Random) -> Latency {
    let mut times: Vec<f64> = (0..30_000).map(|_| time(kind, random)).collect();
    let window = Window {
        first: kind.calls / 4,
        ns: times[..2000].to_vec(),
    };
    let mut over = OverTrace::default();
    for stretch in times.chunks(100) {
        let mut sorted = stretch.to_vec();
        sorted.sort_by(f64::total_cmp);
        over.p50.push(sorted[49]);
        over.p99.push(sorted[98]);
        over.max.push(sorted[99]);
    }
    times.sort_by(f64::total_cmp);
    let seen = |permille: usize| {
        let value = times[(times.len() * permille / 1000).min(times.len() - 1)];
        (value > 10.0).then_some(value)
    };
    Latency {
        mean: Some(times.iter().sum::<f64>() / times.len() as f64 + 5.0),
        stddev: Some(random.between(12.0, 60.0)),
        p50: seen(500),
        p99: seen(990),
        p999: seen(999),
        max: seen(1000),
        histogram: histogram(&times),
        over_trace: over,
        window,
    }
}

/// Returns a histogram with ten bins per decade from 10 ns to 100 us.
fn histogram(sorted: &[f64]) -> Vec<Bin> {
    let mut below = 0;
    (0..=40)
        .map(|tenth| {
            let upper = 10f64.powf(1.0 + f64::from(tenth) / 10.0);
            let all = sorted.partition_point(|time| *time <= upper) as u64;
            let count = all - below;
            below = all;
            Bin { upper, count }
        })
        .collect()
}

fn samples(kind: Kind, live: &[u64], managed: u64, random: &mut Random) -> Samples {
    let spread = random.between(0.5, 1.0);
    let mut samples = Samples {
        unusable: vec![Vec::new(); 11],
        ..Samples::default()
    };
    let mut domains = 1;
    for (i, live) in (0..).zip(live) {
        let free = managed.saturating_sub(*live);
        let large = (free as f64 / 1024.0 * spread * random.between(0.97, 1.0)) as u64;
        samples.positions.push(f64::from(i) / 200.0);
        samples.free_frames.push(free);
        samples.large_blocks.push(large);
        let worst = 1.0 - (large * 1024) as f64 / (free as f64).max(1.0);
        for (order, list) in (0..).zip(&mut samples.unusable) {
            list.push(worst.max(0.0) * f64::from(order) / 10.0);
        }
        if kind.domains && random.unit() < 0.1 {
            domains = 1 + (random.unit() * 3.0) as u64;
        }
        samples.domains.push(domains);
        let kept = f64::from(kind.batch) * random.between(0.5, 4.0);
        samples.buffered.push(kept as u64);
    }
    samples
}

/// Builds the table of some systems.
pub(crate) fn table(systems: &[System]) -> Table {
    type Value = fn(&System) -> Option<f64>;
    #[rustfmt::skip]
    let columns: [(&str, [&str; 2], Better, Value); 5] = [
        ("latency", ["alloc", "mean ns"], Better::Lower, |own| own.latency[0].mean),
        ("latency", ["alloc", "p99 ns"], Better::Lower, |own| own.latency[0].p99),
        ("latency", ["free", "mean ns"], Better::Lower, |own| own.latency[1].mean),
        ("service_ratio", ["kept", "local"], Better::Higher, |own| own.service_ratio),
        ("miss_rate", ["list", "misses"], Better::Lower, |own| own.miss_rate),
    ];
    let column = |(metric, head, better, value): (&str, [&str; 2], Better, Value)| {
        let finite = |own| value(own).filter(|value| value.is_finite());
        let values: Vec<Option<f64>> = systems.iter().map(finite).collect();
        let least = values
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        Column {
            metric: metric.into(),
            head: head.map(String::from),
            legend: format!("what {metric} is"),
            better,
            texts: values
                .iter()
                .map(|own| own.map_or(String::new(), |v| format!("{v:.2}")))
                .collect(),
            best: values.iter().map(|own| *own == Some(least)).collect(),
            values,
            overhead: match head[1] {
                "mean ns" => "0.49".into(),
                _ => String::new(),
            },
        }
    };
    Table {
        columns: columns.map(column).into(),
    }
}
