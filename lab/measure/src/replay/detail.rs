//! Data for charts that tables omit: distributions, the course of time, the placement of blocks.
//!
//! Percentiles hide shapes: whether latencies form two bands, whether they drift, which frames a system leaves free
//! between live ones. All of this comes from passes that are run anyway.
//!
//! # Invariants
//! On one thread, the latency of a call is its median over the rounds, as in [`pace`](crate::replay::pace). On several
//! threads, which interleave differently each time, it is the latency in the last round.

use crate::replay::adapter::REFUSED;
use crate::replay::clock::Timer;
use crate::replay::observe::{Counting, Listed};
use crate::replay::pace::{Round, repetitions};
use crate::replay::script::{MoveKind, Script};

/// The chart data of one system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detail {
    /// Allocations and frees.
    pub latency: [Latencies; 2],
    /// The first frame of each block, by its number; [`REFUSED`] if the request failed.
    pub places: Vec<u32>,
    /// The contents of lists at the moments of the maps; the last moment is the end.
    pub listed: Vec<Listed>,
}

/// Single latencies of allocations or of frees, in nanoseconds minus the cost of the timer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// The histogram, by increasing edges, without gaps; empty if there were no calls.
    pub histogram: Vec<Bin>,
    /// The course of time: equal sections of the calls.
    pub stretches: Vec<Stretch>,
    /// Consecutive calls from the middle of the trace.
    pub successive: Vec<f64>,
    /// The index of the first of these, counted from 0 in the calls of this kind (of the thread with most of them).
    pub first: usize,
}

/// Calls with about the same latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// The upper edge of the bin in nanoseconds: above every latency in it.
    pub to: f64,
    /// Number of calls.
    pub calls: u64,
}

impl Bin {
    /// The upper edge of the first bin.
    pub const FIRST: f64 = 5.011_872_336_272_722;
    /// The ratio of consecutive edges: ten bins per decade.
    pub const RATIO: f64 = 1.258_925_411_794_167_2;
}

/// The latencies in a section of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

impl Detail {
    /// The number of sections into which the calls are divided.
    pub const STRETCHES: usize = 300;
    /// The number of consecutive calls that are kept.
    pub const SUCCESSIVE: usize = 2000;

    /// Determines the placement of each block from the observers of a counting pass.
    pub(crate) fn places(script: &Script, observers: &[Counting]) -> Vec<u32> {
        let mut places = vec![REFUSED; script.blocks as usize];
        for (lane, observer) in script.lanes.iter().zip(observers) {
            let allocations = lane.moves.iter().filter(|m| m.kind == MoveKind::Allocate);
            for (allocation, place) in allocations.zip(&observer.places) {
                places[allocation.block as usize] = *place;
            }
        }
        places
    }

    /// Summarizes the single latencies of all rounds.
    pub(crate) fn latencies(rounds: &[Round], script: &Script, timer: &Timer) -> [Latencies; 2] {
        [0, 1].map(|direction| {
            let singles = |round: &Round| round.singles[direction].clone();
            match &script.lanes[..] {
                [_] => {
                    let rounds: Vec<&[u32]> =
                        rounds.iter().map(|r| &r.singles[direction][..]).collect();
                    let mut medians = Vec::new();
                    repetitions(&rounds, |sorted| medians.push(sorted[sorted.len() / 2]));
                    Latencies::of(&[medians], timer)
                }
                lanes => {
                    let mut all = rounds.last().map(singles).unwrap_or_default();
                    let mut threads = Vec::with_capacity(lanes.len());
                    for lane in lanes {
                        // Frees of failed allocations have no time, so the last lanes may have fewer.
                        let rest = all.split_off(lane.directions()[direction].min(all.len()));
                        threads.push(std::mem::replace(&mut all, rest));
                    }
                    Latencies::of(&threads, timer)
                }
            }
        })
    }
}

impl Latencies {
    /// Summarizes the ticks of each thread's calls, in order.
    fn of(threads: &[Vec<u32>], timer: &Timer) -> Latencies {
        let nanos = |ticks: &u32| timer.single(*ticks);
        let mut bins: Vec<u64> = Vec::new();
        for nanos in threads.iter().flatten().map(nanos) {
            let bin = bin_of(nanos);
            if bins.len() <= bin {
                bins.resize(bin + 1, 0);
            }
            bins[bin] += 1;
        }
        let histogram = bins.iter().enumerate().map(|(bin, calls)| Bin {
            to: edge(bin),
            calls: *calls,
        });
        let mut stretches = Vec::with_capacity(Detail::STRETCHES);
        for stretch in 0..Detail::STRETCHES {
            let of = |calls: &Vec<u32>| {
                let edge = |at: usize| calls.len() * at / Detail::STRETCHES;
                calls[edge(stretch)..edge(stretch + 1)].to_vec()
            };
            let mut ticks: Vec<u32> = threads.iter().flat_map(of).collect();
            ticks.sort_unstable();
            let rank = |percent: usize| (ticks.len() * percent).div_ceil(100).max(1) - 1;
            if let Some(max) = ticks.last() {
                stretches.push(Stretch {
                    p50: nanos(&ticks[rank(50)]),
                    p99: nanos(&ticks[rank(99)]),
                    max: nanos(max),
                });
            }
        }
        let longest = threads.iter().max_by_key(|calls| calls.len());
        let (first, successive) = longest.map_or((0, &[][..]), |calls| {
            let length = calls.len().min(Detail::SUCCESSIVE);
            let first = (calls.len() - length) / 2;
            (first, &calls[first..first + length])
        });
        Latencies {
            histogram: histogram.collect(),
            stretches,
            successive: successive.iter().map(nanos).collect(),
            first,
        }
    }
}

fn bin_of(nanos: f64) -> usize {
    if nanos < Bin::FIRST {
        0
    } else {
        1 + ((nanos / Bin::FIRST).ln() / Bin::RATIO.ln() + 1e-9) as usize
    }
}

/// Returns the upper edge of a bin.
fn edge(bin: usize) -> f64 {
    Bin::FIRST * Bin::RATIO.powi(bin as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_in_its_bin() {
        for nanos in [0.0, 5.0, 5.1, 9.99, 10.0, 10.01, 333.3, 1e6, 4e9] {
            let bin = bin_of(nanos);
            let from = if bin == 0 { 0.0 } else { edge(bin - 1) };
            assert!(from <= nanos * (1.0 + 1e-8), "{from} {nanos} {}", edge(bin));
            assert!(nanos < edge(bin), "{from} {nanos} {}", edge(bin));
        }
        assert!((Bin::RATIO.powi(10) - 10.0).abs() < 1e-9);
        assert!((edge(3) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn no_call_is_lost() {
        let timer = Timer::calibrated();
        let threads = [
            (0..1000).map(|i| i * 100).collect(),
            vec![50_000; 500],
            vec![],
        ];
        let latencies = Latencies::of(&threads, &timer);
        let calls: u64 = latencies.histogram.iter().map(|bin| bin.calls).sum();
        assert_eq!(calls, 1500);
        assert_eq!(latencies.stretches.len(), Detail::STRETCHES);
        assert_eq!(latencies.successive.len(), 1000);
        assert_eq!(latencies.first, 0);
        let ordered = |s: &Stretch| s.p50 <= s.p99 && s.p99 <= s.max;
        assert!(latencies.stretches.iter().all(ordered));
        assert_eq!(Latencies::of(&[], &timer), Latencies::default());
    }
}
