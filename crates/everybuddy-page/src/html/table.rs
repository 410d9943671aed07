//! The table of systems on a trace.
//!
//! # Purpose
//!
//! This is the first thing that readers see. It is plain HTML, so it works without JavaScript; with JavaScript, the
//! columns can be sorted.
//!
//! # Invariants
//!
//! A column without numbers is omitted. The best value of a column is marked by more than colour, and only if the
//! mark is informative.

use maud::{Markup, html};

use super::definitions;
use super::words::{count, percent, short};
use crate::report::{Report, System, Trace};

/// The direction in which values improve.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    Lower,
    Higher,
}

struct Column {
    group: &'static str,
    head: &'static str,
    meaning: &'static str,
    definition: &'static str,
    better: Better,
    values: Vec<Option<f64>>,
    texts: Vec<String>,
}

/// The largest number of systems that may share the mark of the best value.
const SHARED: usize = 3;

/// Renders the table.
pub(crate) fn table(report: &Report, trace: &Trace) -> Markup {
    let columns = columns(report, trace);
    let floor = trace.floor_ns.iter().any(Option::is_some) || trace.floor_throughput.is_some();
    html! {
        div.scroller role="region" tabindex="0" aria-label={ "Systems on " (trace.name) } {
            table.systems {
                thead {
                    tr.groups {
                        td {}
                        @for (group, wide) in groups(&columns) { th colspan=(wide) scope="colgroup" { (group) } }
                    }
                    tr {
                        th scope="col" data-sort="text" { span.head { "system" } }
                        @for column in &columns {
                            th scope="col" data-sort=(if column.better == Better::Lower { "lower" } else { "higher" })
                                title=(column.meaning) { span.head { (two_lines(column.head)) } }
                        }
                    }
                }
                tbody {
                    @for (at, system) in trace.systems.iter().enumerate() {
                        tr data-system=(system.name) {
                            th scope="row" title=(system.parameters) { (system.name) }
                            @for column in &columns { (cell(column, at)) }
                        }
                    }
                }
                @if floor { (replay_alone(trace, &columns)) }
            }
        }
        p.note {
            "★ best of its column. ↓ lower is better, ↑ higher is better. ≤" (format!("{:.0}", report.timer_floor_ns))
            " is below the resolution of this timer. "
            @if floor {
                "“Replay overhead” is the same replay without an allocator: its time is included in the numbers \
                 above it. "
            }
            "Columns: "
            @for (at, column) in columns.iter().enumerate() {
                @let first = columns[..at].iter().all(|c| c.definition != column.definition);
                @if first {
                    @if at > 0 { ", " }
                    a href={ "#" (column.definition) } { (definitions::name(column.definition)) }
                }
            }
            "."
        }
        details.parameters {
            summary { "Effective parameters of each system on this memory" }
            dl {
                @for system in &trace.systems { div { dt { (system.name) } dd { (system.parameters) } } }
            }
        }
    }
}

/// Renders a heading in two lines: the name, then the unit and the direction.
fn two_lines(head: &str) -> Markup {
    let (what, unit) = head.split_once(' ').unwrap_or((head, ""));
    html! { (what) " " span.unit { (unit) } }
}

fn cell(column: &Column, at: usize) -> Markup {
    let value = column.values[at].filter(|value| value.is_finite());
    let best = is_best(column, value);
    html! {
        td.best[best] data-value=[value] {
            (column.texts[at])
            @if best { span.hidden { " (best)" } }
        }
    }
}

fn is_best(column: &Column, value: Option<f64>) -> bool {
    let (Some(value), known) = (value, column.values.iter().flatten()) else {
        return false;
    };
    let known: Vec<f64> = known.copied().filter(|v| v.is_finite()).collect();
    let beats = |other: &f64| match column.better {
        Better::Lower => *other < value,
        Better::Higher => *other > value,
    };
    let alike = known.iter().filter(|other| **other == value).count();
    known.len() > 1 && !known.iter().any(beats) && alike <= SHARED && alike < known.len()
}

/// Renders the line of the replay overhead, below the systems.
fn replay_alone(trace: &Trace, columns: &[Column]) -> Markup {
    let of = |column: &Column| match (column.group, column.head) {
        ("allocate", "mean ns ↓") => trace.floor_ns[0].map(short),
        ("free", "mean ns ↓") => trace.floor_ns[1].map(short),
        ("", "Mcalls/s ↑") => trace.floor_throughput.map(|rate| short(rate / 1e6)),
        _ => None,
    };
    html! {
        tfoot {
            tr {
                th scope="row" { "replay overhead" }
                @for column in columns { td { (of(column).unwrap_or_default()) } }
            }
        }
    }
}

/// Returns adjacent columns of the same group, with their number.
fn groups(columns: &[Column]) -> Vec<(&'static str, usize)> {
    let mut groups: Vec<(&'static str, usize)> = Vec::new();
    for column in columns {
        match groups.last_mut() {
            Some((name, wide)) if *name == column.group => *wide += 1,
            _ => groups.push((column.group, 1)),
        }
    }
    groups
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .filter(|v| v.is_finite())
        .fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn columns(report: &Report, trace: &Trace) -> Vec<Column> {
    use Better::{Higher, Lower};
    let mut columns = Vec::new();
    let mut add = |names: [&'static str; 2],
                   better,
                   [definition, meaning]: [&'static str; 2],
                   value: &dyn Fn(&System) -> Option<f64>,
                   text: &dyn Fn(f64) -> String| {
        let finite = |system| value(system).filter(|value| value.is_finite());
        let values: Vec<Option<f64>> = trace.systems.iter().map(finite).collect();
        if values.iter().any(Option::is_some) {
            columns.push(Column {
                group: names[0],
                head: names[1],
                meaning,
                definition,
                better,
                texts: values
                    .iter()
                    .map(|v| v.map(text).unwrap_or_default())
                    .collect(),
                values,
            });
        }
    };
    let below = format!("≤{:.0}", report.timer_floor_ns);
    for (direction, group) in [(0, "allocate"), (1, "free")] {
        let latency = move |system: &System| system.latency[direction].clone();
        let of = ["def-latency", "mean time of a call, in nanoseconds"];
        add(
            [group, "mean ns ↓"],
            Lower,
            of,
            &|s| latency(s).mean,
            &short,
        );
        let of = ["def-latency", "99 of 100 calls took at most this"];
        // Values below the resolution of the timer are equal: they are shown as such, and they are best.
        let p99 = |s: &System| latency(s).mean.map(|_| latency(s).p99.unwrap_or(0.0));
        let text = |value: f64| match value {
            0.0 => below.clone(),
            value => short(value),
        };
        add([group, "p99 ns ↓"], Lower, of, &p99, &text);
    }
    let of = [
        "def-throughput",
        "million calls a second over the whole replay",
    ];
    add(
        ["", "Mcalls/s ↑"],
        Higher,
        of,
        &|s| Some(s.throughput / 1e6),
        &short,
    );
    let of = [
        "def-service",
        "frames asked for that did not cross the border of the lists",
    ];
    add(
        ["", "served % ↑"],
        Higher,
        of,
        &|s| s.service_ratio,
        &percent,
    );
    let of = ["def-miss", "order-0 calls that went beyond the lists"];
    add(["", "miss % ↓"], Lower, of, &|s| s.miss_rate, &percent);
    let of = [
        "def-residual",
        "frames in the list when a run of allocations ends",
    ];
    add(
        ["left in list", "alloc ↓"],
        Lower,
        of,
        &|s| s.residual[0],
        &short,
    );
    let of = [
        "def-residual",
        "frames in the list when a run of frees ends",
    ];
    add(
        ["left in list", "free ↓"],
        Lower,
        of,
        &|s| s.residual[1],
        &short,
    );
    let of = ["def-locks", "locks taken in a thousand calls"];
    let locks = |s: &System| s.locks_per_call.map(|locks| locks * 1000.0);
    add(["", "locks /1000 ↓"], Lower, of, &locks, &|v| {
        count(v.round() as u64)
    });
    if trace.threads > 1 {
        let of = ["def-contention", "calls that met a lock that was taken"];
        add(
            ["", "waits % ↓"],
            Lower,
            of,
            &|s| s.contention_rate,
            &percent,
        );
    }
    let large = |s: &System| mean(s.samples.large_blocks.iter().map(|n| *n as f64));
    let of = ["def-blocks", "free blocks of 4 MiB, mean over the trace"];
    add(["free 4 MiB", "mean ↑"], Higher, of, &large, &short);
    let least = |s: &System| s.samples.large_blocks.iter().min().map(|n| *n as f64);
    let of = ["def-blocks", "free blocks of 4 MiB, least over the trace"];
    add(["free 4 MiB", "least ↑"], Higher, of, &least, &|v| {
        count(v as u64)
    });
    let unusable = |s: &System| mean(s.samples.unusable.last()?.iter().copied());
    let of = [
        "def-unusable",
        "free memory not in blocks of the largest order, mean",
    ];
    add(["", "unusable % ↓"], Lower, of, &unusable, &percent);
    let changes = |s: &System| s.samples.domains.windows(2).any(|two| two[0] != two[1]);
    if trace.systems.iter().any(changes) {
        let domains = |s: &System| mean(s.samples.domains.iter().map(|n| *n as f64));
        let of = [
            "def-domains",
            "parts that free memory is divided into, mean",
        ];
        add(["", "domains ↓"], Lower, of, &domains, &short);
    }
    if trace.systems.iter().any(|s| s.refused > 0) {
        let of = ["def-refused", "requests that could not be served"];
        add(
            ["", "refused ↓"],
            Lower,
            of,
            &|s| Some(s.refused as f64),
            &|v| count(v as u64),
        );
    }
    let of = ["def-metadata", "metadata for each managed frame"];
    add(
        ["", "B/frame ↓"],
        Lower,
        of,
        &|s| Some(s.metadata_bytes_per_frame),
        &|v| format!("{v:.2}"),
    );
    columns
}
