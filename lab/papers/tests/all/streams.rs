//! Every policy under every kind of traffic: no block is handed out twice or lost, and runs are reproducible.

use everybuddy::SystemSpec;
use everybuddy_papers::streams::fast_fits::Choice;
use everybuddy_papers::streams::recording::Recording;
use everybuddy_papers::streams::runs::{self, Failure, Grower};
use everybuddy_workload::streams::{Timing, Traffic};

const SYSTEMS: [&str; 6] = [
    "bs+order=7",
    "watermark+order=7",
    "watermark+order=7+lazy=0.25+speedup=0.4",
    "delay-2+order=7",
    "delay-2+order=7+reclaim=on",
    "delay-2+order=7+debt=on",
];
const TIMINGS: [Timing; 4] = [
    Timing::Deterministic,
    Timing::Exponential,
    Timing::Batches(4),
    Timing::Geometric(4),
];

fn recording(timing: Timing, seed: u64) -> Recording {
    let traffic = Traffic {
        timing,
        users: 3.0,
        seed,
    };
    Recording::of(traffic, 2000, 40_000)
}

fn spec(system: &str) -> SystemSpec {
    system.parse().unwrap()
}

#[test]
fn every_arena_is_whole_in_the_end_and_counts_repeat() {
    for timing in TIMINGS {
        let recording = recording(timing, 3);
        for system in SYSTEMS {
            // Not a power of two, and not even whole largest blocks; the last one is far too small.
            for units in [3776, 4096, 1500] {
                // `count` finally frees everything, checks, and reads the free memory.
                let counted = runs::count(&spec(system), units, &recording).unwrap();
                assert_eq!(
                    runs::count(&spec(system), units, &recording),
                    Ok(counted.clone())
                );
                let blocking = runs::blocking(&spec(system), units, &recording).unwrap();
                assert_eq!(counted.blocking(), blocking, "{system} {units}");
                assert_eq!(units == 1500, counted.blocking() > 0.1, "{system} {units}");
                let [allocations, releases] = &counted.tallies;
                let served = counted.requests - counted.refused;
                assert_eq!(allocations.operations.count(), served);
                let apart = releases.operations.count().abs_diff(served);
                assert!(apart < 1000, "what is held at the two ends: {apart}");
                // With reclaim=on an allocation may coalesce, and with debt=on it pays.
                let may = system.contains("reclaim") || system.contains("debt");
                assert!(allocations.delays.sum() == 0 || may);
                if system.contains("debt") {
                    let both = counted.tallies.iter().flat_map(|tally| &tally.worst);
                    assert!(both.max() <= Some(&2), "{system} {units}");
                }
                assert_eq!(releases.splits.sum(), 0);
            }
        }
    }
}

/// The main effect of the policies, on the same calls.
#[test]
fn delays_save_splits_and_cost_refusals() {
    let recording = recording(Timing::Exponential, 1);
    let count = |system: &str| runs::count(&spec(system), 3200, &recording).unwrap();
    let (standard, delayed) = (count("bs+order=7"), count("delay-2+order=7"));
    let splits =
        |counted: &everybuddy_papers::streams::perform::Counted| counted.tallies[0].splits.sum();
    assert!(splits(&delayed) < splits(&standard));
    assert!(delayed.blocking() > standard.blocking());
    let reclaiming = count("delay-2+order=7+reclaim=on");
    assert!(reclaiming.blocking() < delayed.blocking());
    // One free of the standard buddy coalesces once at each order.
    assert!(standard.tallies[1].worst.iter().all(|worst| *worst <= 1));
    for (above, worst) in delayed.tallies[1].worst.iter().enumerate() {
        assert!(*worst <= 2 << above, "{worst} delays {above} orders up");
    }
}

#[test]
fn memory_grows_to_what_is_needed_and_no_further() {
    for timing in TIMINGS {
        let recording = recording(timing, 2);
        let systems = SYSTEMS.map(spec);
        let mut growers: Vec<Grower<'_>> = systems.iter().map(Grower::System).collect();
        growers.extend([Choice::Leftmost, Choice::Better].map(Grower::FastFits));
        for step in [16, 128] {
            let mut all = Vec::new();
            for grower in &growers {
                let (units, held) = runs::grow(*grower, step, &recording).unwrap();
                assert!(units >= held && units.is_multiple_of(step), "{grower:?}");
                all.push((units, held));
            }
            assert!(
                all.iter().all(|own| own.1 == all[0].1),
                "the calls are the same"
            );
        }
    }
}

#[test]
fn other_compositions_are_refused() {
    let recording = recording(Timing::Deterministic, 1);
    for system in ["is", "bs+zone=spaces", "lbs-31", "spring"] {
        let refused = runs::count(&spec(system), 4096, &recording);
        assert!(
            matches!(refused, Err(Failure::Build(_))),
            "{system}: {refused:?}"
        );
    }
}

#[test]
fn times_are_of_the_calls_that_count() {
    let recording = recording(Timing::Exponential, 1);
    let counted = runs::count(&spec("delay-2+order=7"), 3000, &recording).unwrap();
    // A clock that advances when it is read.
    let clock = std::cell::Cell::new(0u64);
    let now = || {
        clock.set(clock.get() + 1);
        clock.get()
    };
    let system = Some(spec("delay-2+order=7"));
    let times = runs::time_each(system.as_ref(), 3000, &recording, &now).unwrap();
    for (times, tally) in times.iter().zip(&counted.tallies) {
        assert_eq!(times.len() as u64, tally.operations.count());
        assert!(times.iter().all(|ticks| *ticks == 1));
    }
    for system in [system.as_ref(), None] {
        let times = runs::time(system, 3000, &recording, &now).unwrap();
        assert_eq!(times.len(), (40_000usize).div_ceil(256));
        assert!(times.iter().all(|ticks| *ticks == 1));
    }
}

#[test]
fn what_is_free_and_what_is_held_is_the_arena() {
    let recording = recording(Timing::Exponential, 1);
    for system in SYSTEMS {
        let parts = runs::free_blocks(&spec(system), 4096, &recording, 4).unwrap();
        assert_eq!(parts.len(), 4);
        for blocks in parts {
            let free: f64 = (0..)
                .zip(&blocks)
                .map(|(order, blocks)| blocks * f64::from(1 << order))
                .sum();
            // The load of table 1: three users hold 30 KiB on average.
            let held = (4096.0 - free) * 16.0 / 1024.0;
            assert!((25.0..35.0).contains(&held), "{system}: {held} KiB");
        }
    }
}
