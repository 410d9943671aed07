//! The tables of a benchmark: one per workload, with a line per contender and a column per variant.
//!
//! # Purpose
//!
//! Shows at a glance which contender is fast at which workload, and by how much.
//!
//! # Invariants
//!
//! The floor comes first and does not compete. An empty cell means that the contender cannot run the workload.

use everybuddy_workload::{Part, Variant, WORKLOADS, WorkloadInfo};

use super::output::Style;
use super::table::{self, Better, Column};
use everybuddy_measure::bench::outcome::extremes;
use everybuddy_measure::bench::ratio::Ratio;
use everybuddy_measure::bench::start::Start;
use everybuddy_measure::bench::{Cell, Results, Verdict};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::outcome::median;
use everybuddy_measure::size;

/// The number of columns that leaves enough room for the names within 120 characters.
const MOST_COLUMNS: usize = 10;

/// The contents of the time cells.
#[derive(Clone, Copy)]
enum View {
    /// Nanoseconds.
    Times,
    /// Ratios to the contender at this position.
    Ratios(usize),
}

/// The timed parts of a section, and their abbreviations in column headings.
pub(super) const PARTS: [(Part, &str); 4] = [
    (Part::Pair, ""),
    (Part::Allocate, "alloc "),
    (Part::Free, "free "),
    (Part::Operation, ""),
];

/// Renders the tables of all measured workloads.
pub fn text(results: &Results, style: &Style) -> String {
    tables(results, View::Times, style)
}

/// Renders the same tables with ratios to the contender at `baseline`. A ratio whose interval over the rounds
/// contains 1 is marked `=`.
pub fn ratios(results: &Results, baseline: usize, style: &Style) -> String {
    let name = results.contenders()[baseline].name();
    let text = format!(
        "Time relative to {name}: median of the ratios within each round; =: not significant, the rounds \
         disagree"
    );
    let tables = tables(results, View::Ratios(baseline), style);
    format!("{}\n{tables}", style.wrapped("", 0, &text))
}

fn tables(results: &Results, view: View, style: &Style) -> String {
    let measured = |row: &&WorkloadInfo| columns_of(results, row).next().is_some();
    let rows = WORKLOADS.iter().filter(measured);
    rows.map(|row| workload(results, row, view, style))
        .collect()
}

/// Renders the headline and the table of a workload.
fn workload(results: &Results, row: &WorkloadInfo, view: View, style: &Style) -> String {
    let mut out = style.wrapped("", 0, &format!("{}: {}", row.name, row.summary));
    let columns = match view {
        View::Times => columns(results, row),
        View::Ratios(baseline) => ratio_columns(results, row, baseline),
    };
    // Wide workloads are split into several tables of equal width.
    let tables = columns.len().div_ceil(MOST_COLUMNS).max(1);
    for part in columns.chunks(columns.len().div_ceil(tables).max(1)) {
        out += &lay_out(results, part, style);
        out.push('\n');
    }
    out
}

fn lay_out(results: &Results, columns: &[Column], style: &Style) -> String {
    let names: Vec<String> = results.contenders().iter().map(|e| e.name()).collect();
    let floors = results.contenders().iter().take_while(|e| e.is_floor());
    table::text(&names, columns, floors.count()..names.len(), style)
}

fn columns_of<'r>(
    results: &'r Results,
    row: &'r WorkloadInfo,
) -> impl Iterator<Item = (&'static Variant, u16, &'r [Cell])> {
    let all = results.columns.iter().zip(&results.cells);
    let own = all.filter(|(column, _)| row.variants.iter().any(|v| v.name == column.0.name));
    own.map(|(column, cells)| (column.0, column.1, &cells[..]))
}

fn columns(results: &Results, row: &WorkloadInfo) -> Vec<Column> {
    let mut columns = Vec::new();
    for (variant, threads, cells) in columns_of(results, row) {
        let short = short_name(row, variant);
        let make = |what: &str, better, values: Vec<Option<f64>>, show: &dyn Fn(f64) -> String| {
            let texts = values.iter().map(|value| value.map_or(String::new(), show));
            Column {
                metric: "",
                legend: "".into(),
                head: [short.clone().into(), format!("{what}{threads}T").into()],
                better,
                texts: texts.collect(),
                values,
            }
        };
        for (part, what) in PARTS {
            let values: Vec<_> = cells.iter().map(|cell| cell.median(part)).collect();
            if values.iter().any(Option::is_some) {
                columns.push(make(what, Better::Lower, values, &nanos));
            } else {
                continue;
            }
            // Unreliable values are marked.
            if let Some(column) = columns.last_mut() {
                for (row, cell) in cells.iter().enumerate().filter(|(_, c)| c.is_disturbed) {
                    if column.values[row].take().is_some() && !cell.is_refusing() {
                        column.texts[row].insert(0, '~');
                    }
                }
            }
        }
        // Only if some requests failed.
        if cells.iter().any(|cell| cell.refused > 0) {
            let refusals = cells.iter().map(Cell::refusals).collect();
            let percent = |share| format!("{:.1}%", share * 100.0);
            columns.push(make("refused ", Better::Lower, refusals, &percent));
        }
        for order in everybuddy_measure::bench::visit::LARGE_ORDERS {
            let blocks = |cell: &Cell| {
                let own = cell.large_blocks.iter().find(|own| own.0 == order);
                own.map(|own| own.1 as f64)
            };
            let values: Vec<_> = cells.iter().map(blocks).collect();
            if values.iter().any(Option::is_some) {
                let what = format!("order {order} ");
                let whole = |blocks| format!("{blocks:.0}");
                columns.push(make(&what, Better::Higher, values, &whole));
            }
        }
    }
    columns
}

/// Returns columns of ratios to one contender.
fn ratio_columns(results: &Results, row: &WorkloadInfo, baseline: usize) -> Vec<Column> {
    let mut columns = Vec::new();
    for (variant, threads, cells) in columns_of(results, row) {
        for (part, what) in PARTS {
            let of = |cell: &Cell| Ratio::of(cell, &cells[baseline], part);
            let ratios: Vec<Option<Ratio>> = cells.iter().map(of).collect();
            if ratios.iter().all(Option::is_none) {
                continue;
            }
            let text = |(row, ratio): (usize, &Option<Ratio>)| match ratio {
                Some(ratio) if ratio.is_undecided() && row != baseline => {
                    format!("{}=", nanos(ratio.median))
                }
                Some(ratio) => nanos(ratio.median),
                None => String::new(),
            };
            columns.push(Column {
                metric: "",
                legend: "".into(),
                head: [
                    short_name(row, variant).into(),
                    format!("{what}{threads}T").into(),
                ],
                better: Better::Lower,
                texts: ratios.iter().enumerate().map(text).collect(),
                values: ratios.iter().map(|r| r.map(|r| r.median)).collect(),
            });
        }
    }
    columns
}

/// Returns the variant's name without the workload's name.
fn short_name(row: &WorkloadInfo, variant: &Variant) -> String {
    let rest = variant.name.strip_prefix(row.name).unwrap_or(variant.name);
    match rest.strip_prefix(':') {
        Some(rest) => rest.replace("scattered", "scatt"),
        None => String::new(),
    }
}

/// Formats three significant digits.
fn nanos(nanos: f64) -> String {
    match nanos {
        n if n < 9.95 => format!("{n:.2}"),
        n if n < 99.5 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// Describes the variants.
pub fn variants(results: &Results, style: &Style) -> String {
    let mut named: Vec<&Variant> = results.columns.iter().map(|column| column.0).collect();
    named.dedup_by_key(|variant| variant.name);
    let lines = named
        .iter()
        .map(|variant| style.wrapped(&format!("  {}", variant.name), 24, variant.summary));
    format!("Workloads\n{}", lines.collect::<String>())
}

/// Renders the table of start-up times.
pub fn starts(starts: &[Start], style: &Style) -> String {
    let names: Vec<String> = starts.iter().map(|start| start.contender.name()).collect();
    let times: Vec<f64> = starts.iter().map(|s| median(s.millis.clone())).collect();
    let frames = f64::from(everybuddy_measure::bench::start::FRAMES);
    let bytes: Vec<Option<f64>> = starts
        .iter()
        .map(|start| start.metadata_bytes.map(|bytes| bytes as f64 / frames))
        .collect();
    let show = |value: &Option<f64>| value.map_or("unknown".to_string(), |v| format!("{v:.2}"));
    let columns = [
        Column {
            metric: "",
            legend: "".into(),
            head: ["start".into(), "ms".into()],
            better: Better::Lower,
            texts: times.iter().map(|time| format!("{time:.2}")).collect(),
            values: times.iter().copied().map(Some).collect(),
        },
        Column {
            metric: "",
            legend: "".into(),
            head: ["metadata".into(), "B/frame".into()],
            better: Better::Lower,
            texts: bytes.iter().map(show).collect(),
            values: bytes,
        },
    ];
    let floors = starts.iter().take_while(|s| s.contender.is_floor()).count();
    let text = table::text(&names, &columns, floors..names.len(), style);
    format!("start: a million frames (4 GiB), metadata in fresh memory\n{text}\n")
}

/// Renders the table of instruction counts: one line per contender, one column per workload.
pub fn instructions(
    names: &[String],
    floors: usize,
    counts: &[(&'static Variant, Vec<Option<f64>>)],
    style: &Style,
) -> String {
    let column = |(variant, counts): &(&'static Variant, Vec<Option<f64>>)| {
        let (head, rest) = variant.name.split_once(':').unwrap_or((variant.name, ""));
        Column {
            metric: "",
            legend: "".into(),
            head: [head.into(), rest.replace("scattered", "scatt").into()],
            better: Better::Lower,
            texts: counts
                .iter()
                .map(|count| count.map_or(String::new(), |c| format!("{c:.0}")))
                .collect(),
            values: counts.clone(),
        }
    };
    let columns: Vec<Column> = counts.iter().map(column).collect();
    let mut out =
        "instructions per operation (half a pair), one thread, counted by callgrind\n".to_string();
    for part in columns.chunks(MOST_COLUMNS) {
        out += &table::text(names, part, floors..names.len(), style);
        out.push('\n');
    }
    out
}

/// Renders the result of a check.
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let faulty = verdicts.iter().filter(|verdict| verdict.faults > 0);
    let mut out: String = faulty
        .map(|v| {
            format!(
                "{} on {} with {} threads: {} of {} blocks were in the wrong state\n",
                v.contender,
                v.variant,
                v.threads,
                size::count(v.faults),
                size::count(v.checked.unwrap_or(0)),
            )
        })
        .collect();
    let checked: u64 = verdicts.iter().filter_map(|verdict| verdict.checked).sum();
    let faults: u64 = verdicts.iter().map(|verdict| verdict.faults).sum();
    out += &format!(
        "checked {} allocated and freed blocks of {} contenders on workloads: {} in the wrong state\n",
        size::count(checked),
        verdicts.len(),
        size::count(faults),
    );
    out
}

/// Renders the notes on the method.
pub fn closing(results: &Results, machine: &HostInfo, timer: &Timer, style: &Style) -> String {
    let (counted, dropped) = results.sections();
    let all = || results.cells.iter().flatten();
    let spreads: Vec<f64> = all()
        .flat_map(|cell| &cell.parts)
        .filter_map(|(_, rounds)| {
            let (least, most) = extremes(rounds)?;
            Some((most - least) / median(rounds.clone()).max(1e-9))
        })
        .collect();
    let spread = match spreads.is_empty() {
        true => 0.0,
        false => median(spreads) * 100.0,
    };
    let mut out = variants(results, style);
    out += "\nNotes\n";
    let frames = size::frames(u64::from(results.plan.frames));
    let threads_note = "per thread while all threads run";
    out += &style.wrapped(
        "  numbers",
        12,
        &format!(
            "nanoseconds per pair of one allocation and one free (burst: per call; churn: per \
             operation), {threads_note}; median of {} rounds. nT: on n pinned threads. \
             Empty: unsupported, or most requests fail. {frames} of frames, which are never touched.",
            results.plan.rounds,
        ),
    );
    out += &style.wrapped(
        "  trust",
        12,
        &format!(
            "half of the cells vary by less than {spread:.0} % from round to round ((maximum - minimum) / \
             median). {} sections were measured; {} more were dropped because of a context switch or \
             little overlap of the threads{}. The cost of the timer, {:.1} ns, is subtracted.",
            size::count(counted),
            size::count(dropped),
            match all().filter(|cell| cell.is_disturbed).count() {
                0 => String::new(),
                1 => "; 1 cell, marked ~, had only disturbed sections in some round".to_string(),
                cells => format!("; {cells} cells, marked ~, had only disturbed sections in some round"),
            },
            timer.mean(),
        ),
    );
    let processor = machine.processor.as_deref().unwrap_or("unknown processor");
    let cores = machine
        .cores
        .map_or(String::new(), |c| format!(", {c} CPUs"));
    out += &style.wrapped("  machine", 12, &format!("{processor}{cores}"));
    if machine.was_busy() {
        let load = machine.load.unwrap_or(0.0);
        let text = format!(
            "the machine was busy (load {load:.1} before the run): ratios are more reliable than times"
        );
        out += &style.warning(&style.wrapped("  beware", 12, &text));
    }
    out
}
