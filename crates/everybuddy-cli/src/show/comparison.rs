//! The table of systems on a trace, its legend, and notes on the method.
//!
//! # Purpose
//!
//! A result to show to others: a headline with the conditions, a self-explanatory table, and notes.
//!
//! # Invariants
//!
//! Every column that can appear has one line of legend.

use everybuddy::Order;

use everybuddy_measure::replay::bystanders::Machine;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::outcome::{Comparison, Outcome, least, mean};
use everybuddy_measure::replay::pace::Latency;
use everybuddy_measure::replay::script::Assignment;
use everybuddy_measure::size;

use super::output::Style;
use super::table::{self, Better, Column};

/// The order of the counted blocks: 4 MiB, the largest of Linux and of the papers.
const LARGE: Order = Order::TEN;

/// Renders the headline and the table of a trace.
pub fn text(comparison: &Comparison, timer: &Timer, style: &Style) -> String {
    let mut out = headline(comparison, style);
    let mut names: Vec<String> = comparison
        .systems
        .iter()
        .map(|outcome| outcome.spec.to_string())
        .collect();
    let competing = names.len();
    names.push("(replay alone)".to_string());
    out += &table::text(&names, &columns(comparison, timer), 0..competing, style);
    out += &parameters(comparison, style);
    out.push('\n');
    out
}

/// Describes the threads and the memory of a replay in a sentence.
pub(crate) fn dealt(comparison: &Comparison) -> String {
    let aged = match comparison.memory.seed {
        Some(seed) => format!("; memory aged by seed {seed}"),
        None => String::new(),
    };
    format!("Replayed on {}{aged}.", threads(comparison))
}

/// Describes the threads that perform the calls.
fn threads(comparison: &Comparison) -> String {
    let cpus = comparison.cpus;
    match (comparison.assignment, comparison.threads) {
        (Assignment::InOrder, _) => format!("1 thread in trace order, as {cpus} CPUs"),
        (Assignment::TraceCpus, threads) => format!("{threads} threads, the trace's CPUs"),
        (Assignment::TaskModulo, 1) => "1 thread, as 1 CPU".to_string(),
        (Assignment::TaskModulo, threads) => {
            format!("{threads} threads; CPU = thread id modulo {threads}, not the trace's")
        }
    }
}

fn headline(comparison: &Comparison, style: &Style) -> String {
    let Comparison {
        events,
        peak_frames,
        memory,
        ..
    } = comparison;
    let threads = threads(comparison);
    let aged = match memory.seed {
        Some(seed) => format!(
            ", aged by seed {seed}: {} of it taken from the start",
            size::frames(memory.taken)
        ),
        None => String::new(),
    };
    let what = format!(
        "{}  {} calls · peak {} · managed {}{aged} · {threads}",
        comparison.trace,
        size::count(u64::from(*events)),
        size::frames(*peak_frames),
        size::frames(memory.frames),
    );
    // The name is made bold after wrapping, so that no escape code counts as text.
    let text = style.wrapped("", 0, &what);
    let rest = text.strip_prefix(&comparison.trace).unwrap_or(&text);
    style.bold(&comparison.trace) + rest
}

/// Renders the line below the table: the effective parameters of the systems on this memory.
fn parameters(comparison: &Comparison, style: &Style) -> String {
    let systems = comparison.systems.iter();
    let parts: Vec<String> = systems
        .map(|outcome| {
            let text = format!("{} {}", outcome.spec, outcome.parameters);
            // Kept together if it fits into a line, otherwise broken after a comma.
            match text.chars().count() {
                0..=50 => text.replace(' ', "\u{a0}"),
                _ => text.replace(' ', "\u{a0}").replace(",\u{a0}", ", "),
            }
        })
        .collect();
    let text = style.wrapped("", 1, &parts.join("\u{a0}· "));
    text.lines().map(|line| style.dim(line) + "\n").collect()
}

/// Returns `true` if the number of domains of any system changed; otherwise it is a parameter, not a result.
fn has_elastic_domains(comparison: &Comparison) -> bool {
    let changes = |outcome: &Outcome| {
        let first = outcome.domains().next();
        outcome.domains().any(|domains| Some(domains) != first)
    };
    comparison.systems.iter().any(changes)
}

/// Returns `true` if any system uses more frames than requested, which is impossible if all requests are for whole
/// blocks.
fn has_internal(comparison: &Comparison) -> bool {
    let holds_more = |outcome: &Outcome| outcome.internal().any(|held| (held - 1.0).abs() > 5e-4);
    comparison.systems.iter().any(holds_more)
}

fn columns(comparison: &Comparison, timer: &Timer) -> Vec<Column> {
    use Better::{Higher, Lower};
    let systems = &comparison.systems;
    let mut columns = Vec::new();
    let mut add = |head: [&'static str; 2],
                   better,
                   expendable,
                   values: Vec<Option<f64>>,
                   show: &dyn Fn(f64) -> String| {
        let texts = values
            .iter()
            .map(|value| value.map_or(String::new(), show))
            .collect();
        columns.push(Column {
            head: head.map(Into::into),
            better,
            values,
            texts,
            expendable,
        });
    };
    let of =
        |value: &dyn Fn(&Outcome) -> Option<f64>| systems.iter().map(value).collect::<Vec<_>>();
    let latencies = |direction: usize, value: &dyn Fn(&Latency) -> Option<f64>| {
        let floor = std::iter::once(&comparison.floor.latency[direction]);
        let all = systems
            .iter()
            .map(|outcome| &outcome.pace.latency[direction])
            .chain(floor);
        all.map(value).collect::<Vec<_>>()
    };
    let below = format!("≤{:.0}", timer.floor());
    for (direction, name) in [(0, "alloc"), (1, "free")] {
        let some = |latency: &Latency| (latency.count > 0).then_some(latency.mean);
        add([name, "ns"], Lower, 0, latencies(direction, &some), &short);
        // Values below the timer's resolution are equal, and are shown as such.
        let p99 = |l: &Latency| (l.count > 0).then(|| l.p99().unwrap_or(0.0));
        let show = |value: f64| {
            if value > 0.0 {
                short(value)
            } else {
                below.clone()
            }
        };
        add(["p99", "ns"], Lower, 1, latencies(direction, &p99), &show);
    }
    let mut throughput = of(&|outcome| Some(outcome.pace.throughput / 1e6));
    throughput.push(Some(comparison.floor.throughput / 1e6));
    add(["Mops", "/s"], Higher, 0, throughput, &short);
    let percent = |value: f64| format!("{:.1}", value + 0.0);
    let of_all = |ratio: &dyn Fn(&Outcome) -> Option<f64>| {
        systems
            .iter()
            .map(|o| ratio(o).map(|value| value * 100.0))
            .collect::<Vec<_>>()
    };
    add(
        ["served", "%"],
        Higher,
        0,
        of_all(&|o| o.all().service_ratio()),
        &percent,
    );
    add(
        ["miss", "%"],
        Lower,
        0,
        of_all(&|o| o.all().miss_rate()),
        &percent,
    );
    // Separate columns: an empty list suits frees, a full one allocations.
    for (direction, name) in [(0, "alloc"), (1, "free")] {
        let residual = of(&|o| o.tallies[direction].residual());
        add(["left", name], Lower, 0, residual, &short);
    }
    let locks = of(&|o| o.all().locks().map(|locks| locks * 1000.0));
    add(["locks", "/1000"], Lower, 0, locks, &|v| format!("{v:.0}"));
    if comparison.threads > 1 {
        let contended = of_all(&|o| o.all().contention_rate());
        add(["waits", "%"], Lower, 0, contended, &|v| format!("{v:.2}"));
    }
    let whole = |value: f64| format!("{value:.0}");
    add(
        ["4 MiB", "mean"],
        Higher,
        0,
        of(&|o| mean(o.available(LARGE))),
        &|v| format!("{v:.1}"),
    );
    add(
        ["4 MiB", "least"],
        Higher,
        4,
        of(&|o| least(o.available(LARGE))),
        &whole,
    );
    let unusable = of_all(&|o| mean(o.unusable(o.max_order)));
    add(["unusable", "%"], Lower, 0, unusable, &percent);
    if has_elastic_domains(comparison) {
        let domains = of(&|o| mean(o.domains()));
        add(["domains", "mean"], Lower, 0, domains, &|v| {
            format!("{v:.1}")
        });
    }
    if has_internal(comparison) {
        let internal = of(&|o| mean(o.internal()));
        add(["held", "/asked"], Lower, 0, internal, &|v| {
            format!("{v:.3}")
        });
    }
    if systems.iter().any(|outcome| outcome.refused > 0) {
        let refused = of(&|o| Some(o.refused as f64));
        add(["refused", ""], Lower, 0, refused, &|v| {
            size::count(v as u64)
        });
    }
    let frames = comparison.memory.frames as f64;
    let metadata = of(&|o| Some(o.metadata_bytes as f64 / frames));
    add(["meta", "B/frame"], Lower, 2, metadata, &|v| {
        format!("{v:.2}")
    });
    columns
}

/// Formats about three digits: `0.95`, `12.3`, `110`, `1,240`.
fn short(value: f64) -> String {
    match value {
        v if v < 9.95 => format!("{v:.2}"),
        v if v < 99.5 => format!("{v:.1}"),
        v => size::count(v.round() as u64),
    }
}

/// The definition of each column.
const LEGEND: [(&str, &str); 15] = [
    (
        "alloc, free",
        "mean time of an allocation and of a free, by runs of up to 64 calls",
    ),
    (
        "p99",
        "99 of 100 calls took at most this, each timed singly; ≤N: below the timer's spread",
    ),
    (
        "Mops/s",
        "million calls a second, over the whole replay, waiting included",
    ),
    (
        "served",
        "1 - frames that crossed the border of the per-CPU lists / order-0 calls",
    ),
    (
        "miss",
        "order-0 calls that went past or beyond the lists (refill, drain, bypass)",
    ),
    (
        "left",
        "frames in the CPU's list at the end of a run of one task and region (residual); mean",
    ),
    ("locks", "lock acquisitions in 1,000 calls"),
    ("waits", "calls that had to wait for another CPU"),
    (
        "4 MiB",
        "free blocks of order 10 that could be given: mean over the trace, and least",
    ),
    (
        "unusable",
        "unusable free space index: free memory not in 4 MiB blocks, lists included; mean",
    ),
    (
        "domains",
        "parts that free memory is divided into, within which blocks split and coalesce",
    ),
    (
        "held/asked",
        "internal fragmentation: frames held over frames asked for; shown where it is not 1",
    ),
    ("refused", "requests that could not be served"),
    ("meta", "metadata, in bytes for each frame managed"),
    (
        "(replay alone)",
        "the same replay with nothing behind it: contained in the numbers above it",
    ),
];

/// Renders the legend and the notes on the method, below all tables.
pub fn closing(
    comparisons: &[Comparison],
    machine: &Machine,
    timer: &Timer,
    style: &Style,
) -> String {
    let several_threads = comparisons.iter().any(|c| c.threads > 1);
    let refused = comparisons
        .iter()
        .flat_map(|c| &c.systems)
        .any(|o| o.refused > 0);
    let domains = comparisons.iter().any(has_elastic_domains);
    let internal = comparisons.iter().any(has_internal);
    let rounds = comparisons
        .first()
        .map_or(0, |comparison| comparison.rounds);
    let switches: u64 = comparisons
        .iter()
        .map(|comparison| comparison.switches)
        .sum();
    let mut out = String::new();
    for (name, meaning) in LEGEND {
        let is_shown = match name {
            "waits" => several_threads,
            "refused" => refused,
            "domains" => domains,
            "held/asked" => internal,
            _ => true,
        };
        if is_shown {
            out += &style.wrapped(name, 16, meaning);
        }
    }
    out.push('\n');
    let how = format!(
        "Each call is replayed as the traced program made it. The systems take turns in {rounds} rounds, \
         each pass on a new system; {} (docs/metrics.md). Counts come from a separate pass. \
         Reading the clock costs {:.1} ns, which is subtracted; its spread is {:.0} ns. Frames are \
         never touched.",
        match several_threads {
            true => "medians of the rounds",
            false => "disturbed repetitions are ignored",
        },
        timer.mean(),
        timer.floor(),
    );
    out += &style.wrapped("measured", 10, &how);
    let mut on: Vec<String> = Vec::new();
    on.extend(machine.processor.clone());
    on.extend(machine.cores.map(|cores| format!("{cores} CPUs")));
    on.extend(
        machine
            .load
            .map(|load| format!("load {load:.2} before the run")),
    );
    on.push(format!("switched out {switches} times while timed"));
    out += &style.wrapped("machine", 10, &on.join(" · "));
    if machine.was_busy() {
        let counts = match several_threads {
            true => "counts vary little",
            false => "counts are exact",
        };
        let busy = format!(
            "other programs were running: the order and the ratios are more reliable than the times; \
             {counts}"
        );
        out += &style.warning(&style.wrapped("busy", 10, &busy));
    }
    out
}
