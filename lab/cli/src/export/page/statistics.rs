//! Converts the statistics of a trace to the types of the page.
//!
//! Separate because these numbers do not depend on systems.
//!
//! # Invariants
//! Only units and bins are converted; nothing is computed here.

use everybuddy_page::report as page;
use everybuddy_trace::{Context, RunLengths, Statistics};

/// Converts the statistics of a trace.
pub(super) fn of(s: &Statistics) -> page::Statistics {
    let orders = s.orders.iter().map(|order| page::OrderShare {
        order: order.order,
        allocations: order.allocations,
        allocation_share: order.allocation_share,
        frame_share: order.frame_share,
    });
    let live = s.live.iter().map(|sample| page::LiveSample {
        time_ns: sample.time_ns,
        frames: sample.frames,
    });
    let contexts = Context::ALL.iter().zip(s.context_shares);
    let contexts = contexts
        .filter(|(_, share)| *share > 0.0)
        .map(|(context, share)| page::Share {
            name: context.name().to_string(),
            share,
        });
    page::Statistics {
        allocations: s.allocations,
        frees: s.frees,
        partial_frees: s.partial_frees,
        duration_ns: s.duration_ns,
        orders: orders.collect(),
        final_frames: s.final_frames,
        live: live.collect(),
        task_runs: [&s.allocation_runs, &s.free_runs].map(runs),
        region_runs: [&s.region_allocation_runs, &s.region_free_runs].map(runs),
        region_share: s.region_share,
        cross_cpu_free_share: s.cross_cpu_free_share,
        exit_free_share: s.exit_free_share,
        lifetime_ns: page::Quantiles {
            p50: s.lifetime_ns.p50,
            p90: s.lifetime_ns.p90,
            p99: s.lifetime_ns.p99,
            max: s.lifetime_ns.max,
        },
        lifetimes: lifetimes(&s.lifetimes),
        contexts: contexts.collect(),
        cpus: s.cpus,
        tasks: s.tasks,
        regions: s.regions,
    }
}

fn runs(runs: &RunLengths) -> page::RunLengths {
    let used = runs
        .calls
        .iter()
        .rposition(|calls| *calls > 0)
        .map_or(0, |last| last + 1);
    page::RunLengths {
        runs: runs.length.count,
        mean: runs.length.mean,
        median: runs.length.p50,
        p90: runs.length.p90,
        p99: runs.length.p99,
        max: runs.length.max,
        long_share: runs.share_in_long,
        histogram: runs.calls[..used].to_vec(),
    }
}

/// Returns bins of doubling width, from the shortest to the longest lifetime that occurs.
fn lifetimes(bins: &[u64; 64]) -> Vec<page::Bin> {
    let occupied = |bin: &u64| *bin > 0;
    let (Some(first), Some(last)) = (
        bins.iter().position(occupied),
        bins.iter().rposition(occupied),
    ) else {
        return Vec::new();
    };
    let bin = |power: usize| page::Bin {
        upper: (power as f64 + 1.0).exp2(),
        count: bins[power],
    };
    (first..=last).map(bin).collect()
}
