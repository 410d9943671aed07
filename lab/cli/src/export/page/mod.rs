//! Results as pages: converts the results of `everybuddy compare` to the types of [`everybuddy_page`].
//!
//! The pages do not depend on allocators, and the results do not depend on pages.
//!
//! # Invariants
//! Every number on the page is also in the tables or rows, or comes from the same passes; nothing is measured for the
//! page alone.

mod numbers;
mod owners;
mod statistics;

use std::borrow::Cow;
use std::path::Path;

use chrono::Utc;
use everybuddy::Order;
use everybuddy_page::document::{Document, Made};
use everybuddy_page::report as page;
use everybuddy_trace::{Resolved, Statistics, Trace, shown};

use crate::commit;
use crate::show::comparison::dealt;
use crate::show::output;
use everybuddy_measure::Error;
use everybuddy_measure::answer::{self, Answer};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::detail::{Detail, Latencies};
use everybuddy_measure::replay::outcome::{Comparison, Outcome};
use everybuddy_measure::replay::owners::OwnerMap;
use everybuddy_measure::replay::placement::{Frames, follow};
use everybuddy_measure::replay::script::Script;
use everybuddy_measure::rows::Row;
use everybuddy_measure::rows::table::{self, Column, Table, Which};
use everybuddy_measure::size;

use super::{Output, Outputs};

use owners::Owners;

/// The name of the owner of frames that are in use from the start, in aged memory.
const TAKEN: &str = "in use from the start";
/// The order of the counted free blocks: 4 MiB.
const LARGE: Order = Order::TEN;

/// The data of the page about the trace itself.
pub struct Subject {
    statistics: Statistics,
    owners: Owners,
}

impl Subject {
    /// Analyses a trace; `resolved` must belong to it.
    pub fn new(trace: &Trace, resolved: &Resolved) -> Subject {
        Subject {
            statistics: Statistics::of(trace, resolved),
            owners: Owners::of(trace, resolved),
        }
    }
}

/// A page that will be written.
pub struct Page {
    file: Output,
}

impl Page {
    /// The default file of the page, in the current directory.
    pub const DEFAULT: &str = "everybuddy-report.html";

    /// Prepares the file, so that an impossible one is rejected before the work starts.
    ///
    /// # Errors
    /// Like [`Outputs::open`].
    pub fn open(outputs: &mut Outputs, path: &Path) -> Result<Page, Error> {
        if path.as_os_str() == "-" {
            return Err(Error::usage(
                "--html -: a page is a file\nhelp: choose a name, such as page.html",
            ));
        }
        let file = outputs.open("--html", path)?;
        Ok(Page { file })
    }

    /// Prepares the file if one was named.
    ///
    /// # Errors
    /// As [`Page::open`].
    pub fn open_named(outputs: &mut Outputs, path: Option<&Path>) -> Result<Option<Page>, Error> {
        path.map(|path| Page::open(outputs, path)).transpose()
    }

    /// Prepares the default file. The user did not request it by name, so a file that cannot be written is only noted.
    ///
    /// # Errors
    /// Returns a usage error if the file is an input or another output.
    pub fn open_default(outputs: &mut Outputs) -> Result<Option<Page>, Error> {
        match outputs.open("the page", Path::new(Page::DEFAULT)) {
            Ok(file) => Ok(Some(Page { file })),
            Err(error @ Error::Write { .. }) => {
                output::note(&format!(
                    "no page will be written ({error}); use --html FILE to choose another file"
                ));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the page, and reports its path.
    ///
    /// # Errors
    /// Returns [`Error::Write`], with the file unchanged, or [`Error::Broken`] if this program lacks a part of the
    /// page.
    pub fn write(self, report: &page::Report) -> Result<(), Error> {
        let page = everybuddy_page::render(report);
        self.finish(&page.html)
    }

    /// Writes the page of a document, and reports its path.
    ///
    /// # Errors
    /// Like [`Page::write`].
    pub fn write_document(self, document: &Document) -> Result<(), Error> {
        self.finish(&everybuddy_page::render_document(document))
    }

    fn finish(self, html: &str) -> Result<(), Error> {
        let path = self.file.path().to_path_buf();
        self.file.finish(html.as_bytes())?;
        output::note(&format!(
            "page written: {} ({})",
            shown(&path),
            size::bytes(html.len() as f64)
        ));
        Ok(())
    }
}

/// The data that all traces of a page share.
pub struct Occasion<'o> {
    /// The heading.
    pub title: &'o str,
    /// The machine.
    pub machine: &'o HostInfo,
    /// The timer, if times were measured.
    pub timer: Option<&'o Timer>,
    /// The seed of the order in which systems took turns.
    pub seed: u64,
    /// The number of repetitions of each timed pass.
    pub rounds: u32,
}

/// Creates a page without traces.
pub fn report(occasion: &Occasion<'_>) -> page::Report {
    let Occasion { machine, timer, .. } = occasion;
    page::Report {
        title: occasion.title.to_string(),
        command: command_line(),
        date: date(),
        version: commit::version(),
        machine: self::machine(machine),
        timer_floor_ns: timer.map_or(0.0, Timer::floor),
        seed: occasion.seed,
        rounds: occasion.rounds,
        traces: Vec::new(),
    }
}

/// Returns a document that says how it was made.
pub fn made(document: Document) -> Document {
    let made = Made {
        command: command_line(),
        date: date(),
        version: commit::version(),
        ..document.made
    };
    Document { made, ..document }
}

fn date() -> String {
    Utc::now().format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Describes the machine.
fn machine(machine: &HostInfo) -> page::Machine {
    let quiet = match (machine.was_busy(), machine.load) {
        (true, _) => {
            "Other programs were running: the order and the ratios are more reliable than the times."
        }
        (false, Some(_)) => "No other program used much CPU time.",
        (false, None) => "",
    };
    page::Machine {
        processor: machine.processor.clone().unwrap_or_default(),
        cores: machine.cores.unwrap_or(0) as u32,
        kernel: machine.kernel.clone().unwrap_or_default(),
        quiet: quiet.to_string(),
        was_busy: machine.was_busy(),
    }
}

/// Returns the command line as a user would type it, with the program's plain name.
fn command_line() -> String {
    let quoted = |argument: String| {
        if argument.contains([' ', '\'', '"', '$', '*', ';']) {
            format!("'{}'", argument.replace('\'', r"'\''"))
        } else {
            argument
        }
    };
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| quoted(argument.to_string_lossy().into_owned()));
    let words: Vec<String> = std::iter::once("everybuddy".to_string())
        .chain(arguments)
        .collect();
    words.join(" ")
}

/// Converts a trace without systems.
pub fn trace(name: &str, subject: &Subject) -> page::Trace {
    let s = &subject.statistics;
    page::Trace {
        name: name.to_string(),
        calls: s.events,
        peak_frames: s.peak_frames,
        cpus: s.cpus,
        statistics: statistics::of(s),
        ..page::Trace::default()
    }
}

/// Converts a trace and the results of all systems on it. A comparison without systems is one whose rows are all that
/// is left of it.
pub fn compared(
    comparison: &Comparison,
    rows: &[Row],
    answer: Option<Answer>,
    (subject, script): (&Subject, &Script),
) -> page::Trace {
    let memory = &comparison.memory;
    let taken = memory.taken_frames();
    let mut owners = subject.owners.names.clone();
    // The owner after the last one; if all are used, it replaces the last one.
    let taken_by = if taken.is_empty() {
        0
    } else {
        owners.truncate(page::OWNERS - 1);
        owners.push(TAKEN.to_string());
        owners.len() as u8
    };
    let of_block: Vec<u8> = match taken_by {
        0 => subject.owners.of_block.clone(),
        taken_by => {
            let last = taken_by - 1;
            subject
                .owners
                .of_block
                .iter()
                .map(|owner| (*owner).min(last))
                .collect()
        }
    };
    if taken_by > 0 && subject.owners.names.len() >= page::OWNERS {
        owners[taken_by as usize - 2] = owners::OTHERS.to_string();
    }
    let orders = script.of_blocks(|own| own.order().get());
    let owner = |block: u32| match block {
        Frames::FREE => (page::FREE, 0),
        Frames::TAKEN => (taken_by, 0),
        block => (of_block[block as usize], orders[block as usize]),
    };
    let calls = f64::from(script.events.max(1));
    let maps = |outcome: &Outcome| {
        let Detail { places, listed, .. } = &outcome.detail;
        let mut maps = Vec::with_capacity(listed.len());
        let moments = listed.iter().map(|moment| moment.position);
        follow(script, memory, places, moments, |frames| {
            let mut pairs: Vec<(u8, u8)> = frames.blocks.iter().copied().map(owner).collect();
            for frame in listed
                .get(maps.len())
                .into_iter()
                .flat_map(|own| &own.frames)
            {
                // A frame that is in use is not in a list: the entry is outdated.
                let free = pairs.get_mut(*frame as usize);
                if let Some(own) = free.filter(|own| own.0 == page::FREE) {
                    *own = (page::LISTED, 0);
                }
            }
            maps.push(page::Map {
                regions: OwnerMap::of(frames, &script.owners.of_block).owners,
                ..page::Map::of(f64::from(frames.position) / calls, pairs)
            });
        });
        maps
    };
    // What is measured is drawn, too.
    let drawn = |own: page::System| {
        let mut measured = comparison.systems.iter();
        match measured.find(|outcome| outcome.spec.to_string() == own.name) {
            Some(outcome) => page::System {
                samples: samples(comparison, outcome),
                maps: maps(outcome),
                latency: drawn(own.latency, &outcome.detail.latency),
                ..own
            },
            None => own,
        }
    };
    let systems = numbers::systems(comparison, rows).into_iter().map(drawn);
    let owned_by = match subject.owners.are_programs {
        _ if comparison.systems.is_empty() => String::new(),
        are_programs => format!(
            " On maps, owners are {}. Regions count their owners by {}.",
            if are_programs {
                "programs"
            } else {
                "uses of memory, since few programs ran"
            },
            script.owners.kind.name()
        ),
    };
    page::Trace {
        managed_frames: memory.frames,
        cpus: u32::from(comparison.cpus),
        threads: comparison.threads as u32,
        dealt: dealt(comparison) + &owned_by,
        owners,
        systems: systems.collect(),
        table: table(comparison, rows),
        answer: answer.map(|answer| page::Answer {
            summary: answer.summary,
            matters: answer.matters,
            next: answer.next,
            systems: answer.systems,
            slower: answer.slower,
            limits: answer.limits,
            rule: answer.rule,
        }),
        ..trace(&comparison.trace, subject)
    }
}

/// The table of all systems, with the columns that the terminal has. Those that the answer judges by are first, so that
/// a telephone shows them.
fn table(comparison: &Comparison, rows: &[Row]) -> page::Table {
    let Table {
        names,
        competing,
        mut columns,
    } = table::compared(rows, Which::Defined, comparison.threads);
    columns.sort_by_key(|column| !answer::is_judged(column));
    // The last line is the overhead of the replay.
    let systems = names.len().saturating_sub(1);
    let column = |column: Column| {
        let best = column.best(&competing);
        let mut texts = column.texts;
        page::Column {
            metric: column.metric.to_string(),
            head: column.head.map(Cow::into_owned),
            legend: column.legend.into_owned(),
            better: column.better,
            overhead: texts.pop().unwrap_or_default(),
            values: column.values.into_iter().take(systems).collect(),
            texts,
            best: best.into_iter().take(systems).collect(),
        }
    };
    page::Table {
        columns: columns.into_iter().map(column).collect(),
    }
}

/// Adds the distributions and the courses of latencies to their numbers.
fn drawn(numbers: [page::Latency; 2], details: &[Latencies; 2]) -> [page::Latency; 2] {
    let mut details = details.iter();
    numbers.map(|numbers| {
        let Some(detail) = details.next() else {
            return numbers;
        };
        let bins = detail.histogram.iter().map(|bin| page::Bin {
            upper: bin.to,
            count: bin.calls,
        });
        page::Latency {
            histogram: bins.collect(),
            over_trace: page::OverTrace {
                p50: detail.stretches.iter().map(|stretch| stretch.p50).collect(),
                p99: detail.stretches.iter().map(|stretch| stretch.p99).collect(),
                max: detail.stretches.iter().map(|stretch| stretch.max).collect(),
            },
            window: page::Window {
                first: detail.first as u64,
                ns: detail.successive.clone(),
            },
            ..numbers
        }
    })
}

fn samples(comparison: &Comparison, outcome: &Outcome) -> page::Samples {
    let events = f64::from(comparison.events.max(1));
    let snapshots = || outcome.samples.iter().map(|sample| &sample.snapshot);
    let orders = Order::up_to(LARGE);
    page::Samples {
        positions: outcome
            .samples
            .iter()
            .map(|s| f64::from(s.position) / events)
            .collect(),
        free_frames: snapshots()
            .map(|s| s.free_frames() + s.buffered_frames)
            .collect(),
        large_blocks: snapshots().map(|s| s.available_blocks(LARGE)).collect(),
        unusable: orders
            .map(|order| outcome.unusable(order).collect())
            .collect(),
        domains: snapshots().map(|s| u64::from(s.domains)).collect(),
        buffered: snapshots().map(|s| s.buffered_frames).collect(),
    }
}
