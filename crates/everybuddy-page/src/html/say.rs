//! What to see in a figure, in a sentence or two.
//!
//! Exists because a chart without a sentence is a riddle. The first part says how to read it, the
//! second what came out, from the numbers.
//!
//! Invariant: a finding names what the numbers say of all systems, shown or not; where they say
//! nothing, there is no finding.

use super::words::{count, duration, memory, percent, short};
use crate::report::{Report, System, Trace};

/// Makes the sentence of a figure.
pub(crate) fn sentence(figure: &str, report: &Report, trace: &Trace) -> String {
    let systems = &trace.systems;
    let (reading, finding) = match figure {
        "latency" => (
            format!(
                "The share of calls that took longer than the time below: further left and lower is better, and a \
                 step is a second kind of call, such as a refill of a whole batch. Left of {:.0} ns (shaded) this \
                 timer sees nothing.",
                report.timer_floor_ns
            ),
            fastest(systems),
        ),
        "pace" => (
            "Each point sums up a stretch of the trace: see whether a system stays even as memory fills and empties."
                .to_string(),
            None,
        ),
        "window" => (
            "Successive allocations in the middle of the trace, one dot each: a list that refills by batches shows two \
             bands, hits below and whole refills above; where frames come one by one the upper band is absent."
                .to_string(),
            None,
        ),
        "lists" => (
            "Two ways to count what a CPU’s list spares the core: frames that never crossed the border (more is \
             better), and calls that had to (fewer is better; the scale is logarithmic)."
                .to_string(),
            extremes(systems, |s| s.miss_rate)
                .map(|[(best, rate), _]| format!("Fewest misses: {best}, {} %.", percent(rate))),
        ),
        "contention" => (
            match trace.threads {
                0 | 1 => "Every lock taken costs even where nobody waits. This replay had one thread, so nothing could \
                          wait: only locks are counted."
                    .to_string(),
                threads => format!(
                    "Locks that were taken, and calls that met a taken one, on {threads} threads. Trust the order of \
                     systems rather than the rates."
                ),
            },
            extremes(systems, |s| s.locks_per_call)
                .map(|[(best, locks), _]| format!("Fewest locks: {best}, {} in 1,000 calls.", short(locks * 1e3))),
        ),
        "blocks" => (
            "How many blocks of 4 MiB could be given at once, without touching any list: higher is better.".to_string(),
            blocks(systems),
        ),
        "unusable" => (
            "The share of free memory that can’t serve a request of the order chosen below, since it lies in smaller \
             pieces or in lists: lower is better."
                .to_string(),
            None,
        ),
        "kept" => (
            "What a list keeps is at hand for its CPU and out of reach for all others, and blocks of different domains \
             never merge: this is the price of few misses and little waiting."
                .to_string(),
            None,
        ),
        "map" => (
            "A row is 1,024 frames, 4 MiB, so a free 4 MiB block is a whole empty row.".to_string(),
            None,
        ),
        "demand" => (demand(trace), None),
        "runs" => (
            "Of all calls, the share in runs of each length: long runs are what batches and predictions live on."
                .to_string(),
            None,
        ),
        _ => (String::new(), None),
    };
    match finding {
        Some(finding) => format!("{reading} {finding}"),
        None => reading,
    }
}

/// The systems with the least and the most, and how much.
fn extremes(
    systems: &[System],
    value: impl Fn(&System) -> Option<f64>,
) -> Option<[(&str, f64); 2]> {
    let known = || {
        systems
            .iter()
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
        "Of the frees, {} % came from another CPU than the allocation and {} % from tasks that were exiting; half of \
         what was freed had lived at most {}.",
        percent(statistics.cross_cpu_free_share),
        percent(statistics.exit_free_share),
        duration(statistics.lifetime_ns.p50)
    );
    text
}
