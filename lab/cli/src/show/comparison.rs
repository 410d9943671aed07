//! The table of systems on a trace, its legend, and notes on the method.
//!
//! A result to show to others: a headline with the conditions, the answer, a self-explanatory table, and notes.
//!
//! # Invariants
//! Every column that can appear has one line of legend.

use std::collections::BTreeSet;

use everybuddy_measure::answer::Answer;
use everybuddy_measure::choice;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::memory::{Initial, Memory};
use everybuddy_measure::replay::outcome::Comparison;
use everybuddy_measure::replay::script::Assignment;
use everybuddy_measure::rows::Row;
use everybuddy_measure::rows::table::{self, OVERHEAD, Table, Which};
use everybuddy_measure::size;

use everybuddy_page::document::{Block, Look, Section};

use super::output;
use super::table as show;

/// Returns the headline, the answer and the table of a trace.
pub fn blocks(
    comparison: &Comparison,
    rows: &[Row],
    answer: Option<&Answer>,
    which: Which,
) -> Vec<Block> {
    let section = Section {
        name: comparison.trace.clone(),
        ..Section::default()
    };
    let mut blocks = vec![
        Block::Section(section).on_page(),
        Block::title(&comparison.trace, headline(comparison)),
    ];
    blocks.extend(answer.into_iter().flat_map(self::answer));
    let Table {
        names,
        competing,
        columns,
    } = table::compared(rows, which, comparison.threads);
    blocks.push(Block::Table(show::table(&names, &columns, competing)));
    // An earlier run, of which only rows are left, has no systems.
    if !comparison.systems.is_empty() {
        blocks.push(parameters(comparison));
    }
    blocks.push(Block::Space);
    blocks
}

/// Returns the legend of all columns that the tables have, and the rules of the answers, each once.
pub fn legend(
    comparisons: &[Comparison],
    rows: &[Vec<Row>],
    answers: &[Option<Answer>],
    which: Which,
) -> Vec<Block> {
    let tables = comparisons.iter().zip(rows);
    let tables: Vec<Table> = tables
        .map(|(comparison, rows)| table::compared(rows, which, comparison.threads))
        .collect();
    let columns = tables.iter().flat_map(|table| &table.columns);
    let section = Section {
        name: "legend".to_string(),
        ..Section::default()
    };
    let mut blocks = vec![Block::Section(section).on_page()];
    let mut heads: Vec<String> = Vec::new();
    for column in columns {
        let head = column.head.join(" ");
        if !heads.contains(&head) {
            blocks.push(Block::entry(&head, 22, &*column.legend));
            heads.push(head);
        }
    }
    let apart = tables.iter().flat_map(|table| &table.names);
    let apart: BTreeSet<&str> = apart
        .map(String::as_str)
        .filter(|name| choice::no_kernel_has(name))
        .collect();
    if !apart.is_empty() {
        let names: Vec<&str> = apart.into_iter().collect();
        let meaning = "not judged: no kernel has such lists without locks";
        blocks.push(Block::entry(names.join(", "), 22, meaning));
    }
    let meaning = "the same replay with no allocator; all other times include it";
    blocks.push(Block::entry(OVERHEAD, 22, meaning));
    let mut rules: Vec<&str> = Vec::new();
    for Answer { rule, .. } in answers.iter().flatten() {
        if !rules.contains(&rule.as_str()) {
            blocks.push(Block::entry("answer", 22, rule));
            rules.push(rule);
        }
    }
    blocks
}

/// Describes the threads and the memory of a replay in a sentence.
pub(crate) fn dealt(comparison: &Comparison) -> String {
    let memory = &comparison.memory;
    let initial = match &memory.initial {
        Initial::Fresh => String::new(),
        Initial::Aged(seed) => format!("; memory aged by seed {seed}"),
        Initial::As(map) => format!("; {}", map.described()),
    };
    let room = room(memory);
    let lists = match comparison.machine {
        Some(machine) => format!("; {machine}"),
        None => String::new(),
    };
    format!(
        "Replayed on {}, with {room} managed{initial}{lists}.",
        threads(comparison)
    )
}

/// Describes the size of a room: what the systems manage; of a machine's memory, what was free.
fn room(memory: &Memory) -> String {
    match memory.initial {
        Initial::As(_) if memory.taken > 0 => format!(
            "{} free of {}",
            size::frames(memory.free()),
            size::frames(memory.frames)
        ),
        _ => size::frames(memory.frames),
    }
}

/// Describes the threads that perform the calls.
fn threads(comparison: &Comparison) -> String {
    let cpus = comparison.cpus;
    match (comparison.assignment, comparison.threads) {
        (Assignment::InOrder, _) => format!(
            "1 thread in trace order, as {}",
            size::cpus(u64::from(cpus))
        ),
        (Assignment::TraceCpus, threads) => format!("{threads} threads, the trace's CPUs"),
        (Assignment::TaskModulo, 1) => "1 thread, as 1 CPU".to_string(),
        (Assignment::TaskModulo, threads) => {
            format!("{threads} threads; CPU = thread id modulo {threads}, not the trace's")
        }
    }
}

/// Returns the conditions, which follow the name of the trace.
fn headline(comparison: &Comparison) -> String {
    let Comparison {
        events,
        peak_frames,
        memory,
        ..
    } = comparison;
    let threads = threads(comparison);
    let initial = match &memory.initial {
        Initial::Fresh => String::new(),
        Initial::Aged(seed) => format!(
            ", aged by seed {seed}: {} of it taken from the start",
            size::frames(memory.taken)
        ),
        Initial::As(map) => format!(", {}", map.described()),
    };
    let machine = match comparison.machine {
        Some(machine) => format!(" · {machine}"),
        None => String::new(),
    };
    format!(
        " {} calls · peak {}{machine} · managed {}{initial} · {threads}",
        size::count(u64::from(*events)),
        size::frames(*peak_frames),
        room(memory),
    )
}

/// Returns the answer: which system to take, whether it matters, what to do next, and the others that one could choose.
fn answer(answer: &Answer) -> Vec<Block> {
    let names = answer.systems.iter().map(|(name, _)| name.chars().count());
    let indent = names.max().unwrap_or(0).max("matters".len()) + 2;
    let systems = answer.systems.iter();
    let systems = systems.map(|(name, text)| (name.as_str(), text.as_str()));
    let entries = [
        ("answer", answer.summary.as_str()),
        ("matters", &answer.matters),
        ("next", &answer.next),
    ];
    let entries = entries.into_iter().chain(systems);
    let entries = entries.chain([("slower", answer.slower.as_str())]);
    let entries = entries.filter(|(_, text)| !text.is_empty());
    let entries = entries.chain([("unknown", answer.limits.as_str())]);
    let entry = |(name, text)| Block::entry(name, indent, text).looking(Look::Entry);
    entries.map(entry).chain([Block::Space]).collect()
}

/// Returns the line below the table: the effective parameters of the systems on this machine.
fn parameters(comparison: &Comparison) -> Block {
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
    Block::entry("", 1, parts.join("\u{a0}· ")).looking(Look::Dim)
}

/// Returns the legend and the notes on the method, below all tables.
pub fn closing(
    comparisons: &[Comparison],
    rows: &[Vec<Row>],
    answers: &[Option<Answer>],
    which: Which,
    machine: &HostInfo,
    timer: &Timer,
) -> Vec<Block> {
    let several_threads = comparisons.iter().any(|c| c.threads > 1);
    let rounds = comparisons
        .first()
        .map_or(0, |comparison| comparison.rounds);
    let switches: u64 = comparisons
        .iter()
        .map(|comparison| comparison.switches)
        .sum();
    let mut blocks = legend(comparisons, rows, answers, which);
    let is_linux = |row: &Row| row.name() == choice::LINUX;
    if rows.iter().flatten().any(is_linux) {
        let meaning = "today's Linux, with the locks of its lists";
        blocks.push(Block::entry(choice::LINUX, 22, meaning));
    }
    if which == Which::Default {
        let text = "--all-columns shows the other columns; --json, --csv and --parquet FILE export all numbers";
        blocks.push(Block::text(text).in_terminal());
    }
    blocks.push(Block::Space);
    let how = format!(
        "Each call is replayed as the traced program made it. The systems take turns in {rounds} rounds, \
         each pass on a new system; {} (docs/metrics.md). Counts come from a separate pass. \
         Reading the clock costs {:.1} ns, which is subtracted; its spread is {:.0} ns.",
        if several_threads {
            "medians of the rounds"
        } else {
            "disturbed repetitions are ignored"
        },
        timer.mean(),
        timer.floor(),
    );
    blocks.push(Block::entry("measured", 10, how));
    let mut on = output::machine(machine);
    on.push(format!("switched out {switches} times while timed"));
    blocks.push(Block::entry("machine", 10, on.join(" · ")));
    if machine.was_busy() {
        let counts = if several_threads {
            "counts vary little"
        } else {
            "counts are exact"
        };
        let busy = format!(
            "other programs were running: the order and the ratios are more reliable than the times; \
             {counts}"
        );
        blocks.push(Block::entry("busy", 10, busy).looking(Look::Warning));
    }
    blocks
}
