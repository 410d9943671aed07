//! The caption of each figure: one or two sentences.
//!
//! A chart without a caption is hard to read. The first part of the caption explains how to read the chart; the
//! second states a result, computed from the numbers.
//!
//! # Invariants
//! A result covers all systems that compete, shown or not. If the numbers support no result, the caption has none.

use super::words::{count, duration, memory, percent, short};
use crate::report::{Report, System, Trace};

/// Returns the caption of a figure.
pub(crate) fn sentence(figure: &str, report: &Report, trace: &Trace) -> String {
    let systems = &trace.systems;
    let reading = match figure {
        "latency" => format!(
            "The share of calls that took longer than the time on the axis. Further left and lower is better. A \
             step marks a second kind of call, such as a refill of a whole batch. Below {:.0} ns (shaded), times \
             cannot be resolved by this timer.",
            report.timer_floor_ns
        ),
        "contention" => match trace.threads {
            0 | 1 => "Acquiring a lock costs time even without contention. This replay had one thread, so there \
                      was no contention: only acquisitions are counted."
                .to_string(),
            threads => format!(
                "Lock acquisitions, and calls that found a lock already held, on {threads} threads. The order \
                 of the systems is more reliable than the rates."
            ),
        },
        "demand" => demand(trace),
        figure => plain(figure).to_string(),
    };
    let finding = match figure {
        "latency" => fastest(systems),
        "lists" => extremes(systems, |s| s.miss_rate)
            .map(|[(best, rate), _]| format!("Fewest misses: {best}, {} %.", percent(rate))),
        "contention" => extremes(systems, |s| s.locks_per_call).map(|[(best, locks), _]| {
            let locks = short(locks * 1e3);
            format!("Fewest locks: {best}, {locks} per 1,000 calls.")
        }),
        "blocks" => blocks(systems),
        _ => None,
    };
    match finding {
        Some(finding) => format!("{reading} {finding}"),
        None => reading,
    }
}

/// Returns how to read a figure, where that depends on nothing.
fn plain(figure: &str) -> &'static str {
    match figure {
        "pace" => {
            "Each point summarizes one section of the trace and shows whether latency stays constant as memory \
             fills and empties."
        }
        "window" => {
            "Consecutive allocations in the middle of the trace, one dot each. A list that refills in batches \
             shows two bands: hits below, refills above. Without batches, there is no upper band."
        }
        "lists" => {
            "Two measures of the work that per-CPU lists save the zone layer: frames that stayed in the lists \
             (more is better), and calls that reached the zone layer (fewer is better; the scale is logarithmic)."
        }
        "blocks" => {
            "The number of 4 MiB blocks that could be allocated immediately, without draining any list: higher is \
             better."
        }
        "unusable" => {
            "The share of free memory that cannot serve a request of the order chosen below, because it is in \
             smaller blocks or in lists: lower is better."
        }
        "kept" => {
            "Frames in a list are available to its CPU only, and blocks of different domains never merge. This is \
             the cost of fewer misses and less waiting."
        }
        "map" => "A row is 1,024 frames (4 MiB), so a free 4 MiB block is one empty row.",
        "runs" => {
            "The share of all calls in runs of each length. Batches and predictions benefit from long runs."
        }
        _ => "",
    }
}

/// Returns the competing systems with the smallest and the largest value, and both values.
fn extremes(
    systems: &[System],
    value: impl Fn(&System) -> Option<f64>,
) -> Option<[(&str, f64); 2]> {
    let known = || {
        systems
            .iter()
            .filter(|s| !s.is_apart)
            .filter_map(|s| Some((s.name.as_str(), value(s).filter(|v| v.is_finite())?)))
    };
    let by = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
    let (least, most) = (known().min_by(by)?, known().max_by(by)?);
    (least.1 < most.1).then_some([least, most])
}

fn fastest(systems: &[System]) -> Option<String> {
    let [allocate, _] = extremes(systems, |s| s.latency[0].mean)?;
    let [free, _] = extremes(systems, |s| s.latency[1].mean)?;
    Some(format!(
        "Fastest on average: {} for allocations ({} ns), {} for frees ({} ns).",
        allocate.0,
        short(allocate.1),
        free.0,
        short(free.1)
    ))
}

fn blocks(systems: &[System]) -> Option<String> {
    let mean = |system: &System| {
        let blocks = &system.samples.large_blocks;
        (!blocks.is_empty()).then(|| blocks.iter().sum::<u64>() as f64 / blocks.len() as f64)
    };
    let [least, most] = extremes(systems, mean)?;
    Some(format!(
        "Mean over the trace: most with {} ({}), fewest with {} ({}).",
        most.0,
        short(most.1),
        least.0,
        short(least.1)
    ))
}

fn demand(trace: &Trace) -> String {
    let statistics = &trace.statistics;
    let single = statistics.orders.iter().find(|order| order.order == 0);
    let mut text = format!(
        "In {}, {} tasks made {} allocations",
        duration(statistics.duration_ns),
        count(u64::from(statistics.tasks)),
        count(statistics.allocations)
    );
    if let Some(single) = single {
        text += &format!(
            ", {} % of them of single frames",
            percent(single.allocation_share)
        );
    }
    text += &format!("; at most {} were in use. ", memory(trace.peak_frames));
    text += &format!(
        "Of the frees, {} % ran on another CPU than the allocation, and {} % were made by exiting tasks. Half of \
         the freed blocks had lived at most {}.",
        percent(statistics.cross_cpu_free_share),
        percent(statistics.exit_free_share),
        duration(statistics.lifetime_ns.p50)
    );
    text
}
