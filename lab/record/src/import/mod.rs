//! Imports recordings of other tools as traces: perf, ftrace, trace-cmd, and CSV.
//!
//! Any recording of a kernel's page allocator becomes a trace, without installing anything on the recorded machine.
//!
//! | module | contents |
//! |------|--------------|
//! | `detect`, `others` | detection of the kind of a recording, or of other files |
//! | `encoding`, `copied`, `head`, `clock`, `graph`, `fields`, `text` | the parser for texts, line by line |
//! | `perf_data` | the parser for perf.data files, record by record |
//! | `symbols` | the parser for lists of a kernel's symbols |
//! | `events`, `system_calls` | the meaning of events, by name |
//! | `descriptors` | the frames of kernels that recorded addresses |
//! | `order` | the order of events, and repeated ones |
//! | `csv` | the parser for tables |
//! | `import_log` | what was read, and what was not? |
//!
//! # Invariants
//! The result replays by itself, or there is none; everything that was not used is counted in
//! [`ImportLog`] or [`Accounts`].

mod clock;
mod copied;
mod csv;
mod descriptors;
mod detect;
mod encoding;
mod error;
mod events;
mod fields;
mod graph;
mod head;
mod import_log;
mod order;
mod others;
mod perf_data;
mod symbols;
mod system_calls;
mod text;

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;
use std::str::FromStr;

pub use error::ImportError;
pub use import_log::ImportLog;

use self::encoding::Decoded;
use self::error::Fault;
use self::order::in_order;
use crate::assemble::{Accounts, Assembly, Scope};
use crate::functions::Functions;
use crate::kernel::KernelEvent;
use everybuddy_trace::{Leniency, Repairs, Trace, WaitsOnly, by_name, named};

named! {
    /// A kind of recording.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Source {
        /// A file of `perf record`.
        PerfData => "perf-data",
        /// The output of `perf script`.
        PerfScript => "perf-script",
        /// The kernel's trace file, `trace` or `trace_pipe` of tracefs.
        Ftrace => "ftrace",
        /// The output of `trace-cmd report`.
        TraceCmd => "trace-cmd",
        /// A table with the columns of a trace.
        Csv => "csv",
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let what = ["kind of recording", "kinds"];
        by_name(text, what, &Self::ALL, Self::name)
    }
}

/// The parameters of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The kind of the recording; `None` to detect it.
    pub source: Option<Source>,
    /// The tasks whose allocations are kept; CSV is kept completely.
    pub scope: Scope,
    /// Whether CSV that does not replay by itself is repaired. Recordings of events are always repaired, since they
    /// start and end anywhere.
    pub leniency: Leniency,
    /// The addresses of zones' locks as the recording prints them, if its call chains do not show them.
    pub zone_locks: Vec<u64>,
    /// The functions of the recorded kernel, for the call chains of perf.data: without them these cannot be
    /// interpreted.
    pub functions: Functions,
}

/// A trace, and how it was made.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The trace, which replays by itself and has at least one event, unless it contains only waits for zones' locks.
    pub trace: Trace,
    /// The log of the import.
    pub log: ImportLog,
    /// How its events became a trace; `None` for CSV.
    pub accounts: Option<Accounts>,
    /// The repairs of CSV, if lenient.
    pub repairs: Repairs,
}

/// Imports the recording in `file`.
///
/// The trace has the file's name without its last extension. Takes about 2 us and 100 bytes per event of the
/// recording: events are sorted by time, so all of them are in memory at the same time.
///
/// # Errors
///
/// Returns an [`ImportError`] with the file, the line or byte, and a remedy for files that are unreadable, unknown,
/// damaged, or without a recognized event or allocation.
pub fn import(file: &Path, options: ImportOptions) -> Result<Imported, ImportError> {
    match File::open(file) {
        Ok(input) => import_file(input, file, options),
        Err(error) => Err(Fault::Io(error).of(file)),
    }
}

/// Imports the contents of `input`, which represents `file`, for example a file with a progress bar. An input without
/// random access, such as a pipe, is read from start to end.
///
/// # Errors
///
/// Like [`import`].
pub fn import_file(
    mut input: impl Read + Seek,
    file: &Path,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let read = match input.stream_position() {
        Ok(_) => read_seekable(input, &options),
        Err(_) => read_stream(input, &options),
    };
    read.and_then(|read| read.into_trace(&name, &options))
        .map_err(|fault| fault.of(file))
}

/// Imports the contents of `input` under a name.
///
/// # Errors
///
/// Like [`import`]; the file of the error is the name.
pub fn import_stream(
    input: impl Read,
    name: &str,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    read_stream(input, &options)
        .and_then(|read| read.into_trace(name, &options))
        .map_err(|fault| fault.of(Path::new(name)))
}

/// The input before it is converted to a trace.
enum ReadSource {
    Events(Vec<KernelEvent>, ImportLog),
    Table(csv::CsvTable, ImportLog),
}

fn read_seekable(
    mut input: impl Read + Seek,
    options: &ImportOptions,
) -> Result<ReadSource, Fault> {
    let mut begin = Vec::new();
    let source = kind(&mut input, options, &mut begin)?;
    if source == Source::PerfData {
        let (events, log) = perf_data::read(input, &options.functions)?;
        return Ok(ReadSource::Events(events, log));
    }
    read_text(Cursor::new(begin).chain(input), source)
}

fn read_stream(mut input: impl Read, options: &ImportOptions) -> Result<ReadSource, Fault> {
    let mut begin = Vec::new();
    let source = kind(&mut input, options, &mut begin)?;
    if source == Source::PerfData {
        // Its sections may be anywhere in the file.
        input.read_to_end(&mut begin)?;
        let (events, log) = perf_data::read(Cursor::new(begin), &options.functions)?;
        return Ok(ReadSource::Events(events, log));
    }
    read_text(Cursor::new(begin).chain(input), source)
}

/// Detects the kind of an input by its beginning, which is stored in `begin`.
fn kind(
    input: &mut impl Read,
    options: &ImportOptions,
    begin: &mut Vec<u8>,
) -> Result<Source, Fault> {
    input.take(detect::LOOKED_AT as u64).read_to_end(begin)?;
    match options.source {
        Some(source) if !begin.is_empty() => Ok(source),
        _ => {
            let mut text = Vec::new();
            Decoded::new(&begin[..])?.read_to_end(&mut text)?;
            detect::detect(&text)
        }
    }
}

fn read_text(input: impl Read, source: Source) -> Result<ReadSource, Fault> {
    let input = BufReader::with_capacity(1 << 18, Decoded::new(input)?);
    if source == Source::Csv {
        let (table, log) = csv::read(input)?;
        return Ok(ReadSource::Table(table, log));
    }
    let (events, log) = text::read(input, source)?;
    Ok(ReadSource::Events(events, log))
}

impl ReadSource {
    fn into_trace(self, name: &str, options: &ImportOptions) -> Result<Imported, Fault> {
        let (events, mut log) = match self {
            ReadSource::Table(table, log) => {
                let mut repairs = Repairs::default();
                let trace = table.into_trace(name, options.leniency, &mut repairs)?;
                return Ok(Imported {
                    trace,
                    log,
                    accounts: None,
                    repairs,
                });
            }
            ReadSource::Events(events, log) => (events, log),
        };
        if events.is_empty() {
            return Err(nothing_understood(&log));
        }
        let events = in_order(events, &mut log)?;
        let mut assembly = Assembly::new(options.scope);
        assembly.name_zone_locks(&options.zone_locks);
        for event in events {
            assembly.push(event);
        }
        let made = assembly.finish(name);
        if made.trace.events.is_empty() {
            let waits_only = WaitsOnly::of(&made.trace);
            match waits_only.map(|own| (own.of_unknown, made.trace.acquisitions.len())) {
                None => return Err(nothing_kept(&log, options.scope, &made.accounts)),
                Some((unknown, 0)) if unknown > 0 => return Err(unknown_locks(unknown)),
                Some(_) => {}
            }
        }
        Ok(Imported {
            trace: made.trace,
            log,
            accounts: Some(made.accounts),
            repairs: Repairs::default(),
        })
    }
}

/// Returns the error of a recording whose allocations are there, but cannot be read.
fn unreadable(log: &ImportLog) -> Option<Fault> {
    if log.unknown_frames > 0 {
        return Some(descriptors::unknown(log.unknown_frames));
    }
    let is_about = |(_, what): &&(u64, String)| what.contains("mm_page_");
    let (place, what) = log.complaints.iter().find(is_about)?;
    Some(Fault::refuse(
        format!("{} {place}", log.place_name()),
        format!(
            "an event of the page allocator without a readable frame (`pfn`) and `order`: `{what}`"
        ),
        "print the fields of events, as `perf script --ns -F comm,pid,tid,cpu,time,event,trace` does, or select \
         another kind of recording with --from",
    ))
}

fn nothing_understood(log: &ImportLog) -> Fault {
    if let Some(fault) = unreadable(log) {
        return fault;
    }
    let (place, found) = match log.complaints.first() {
        Some((place, what)) => (
            format!("{} {place}", log.place_name()),
            format!("the contents are `{what}`"),
        ),
        None if !log.skipped.is_empty() => {
            let names: Vec<&str> = log.skipped.keys().take(3).map(String::as_str).collect();
            (
                String::new(),
                format!("it contains events such as {}", names.join(", ")),
            )
        }
        None => (String::new(), "it contains no events".to_string()),
    };
    Fault::refuse(
        place,
        format!(
            "no event of the page allocator, read as {}: {found}",
            log.source.name()
        ),
        "record kmem:mm_page_alloc and kmem:mm_page_free (lab/record/README.md has commands), or \
         select another kind of recording with --from",
    )
}

/// Returns the error of a recording of waits alone, of which nothing shows whose locks they were for.
fn unknown_locks(waits: u64) -> Fault {
    Fault::refuse(
        "",
        format!(
            "no events of the page allocator, and nothing shows which locks its {waits} waits were for"
        ),
        "record call chains (perf record -g, and import with --kallsyms; or ftrace's trigger `stacktrace` of \
         lock:contention_end), or name the address of the zone's lock with --zone-lock",
    )
}

fn nothing_kept(log: &ImportLog, scope: Scope, accounts: &Accounts) -> Fault {
    let understood = log.understood;
    let seen = accounts.allocations_seen + accounts.refusals_seen;
    match scope {
        Scope::Tree { root } => Fault::refuse(
            "",
            format!(
                "none of {understood} events is an allocation by process {root} or its descendants"
            ),
            "omit the process to keep everything, or select another process",
        ),
        Scope::Everything => unreadable(log).unwrap_or_else(|| {
            if seen > 0 {
                let reasons = accounts.left_out();
                let reasons = reasons.map(|(meaning, value)| format!("{value} {meaning}"));
                let reasons: Vec<String> = reasons.collect();
                return Fault::refuse(
                    "",
                    format!(
                        "none of {seen} allocations can be kept: {}",
                        reasons.join("; ")
                    ),
                    "record until allocations succeed; if frames are misaligned, check whether the text was changed: a \
                     block of 2^order frames starts at a multiple of its size",
                );
            }
            Fault::refuse(
                "",
                format!("none of {understood} events is an allocation"),
                "also record kmem:mm_page_alloc (lab/record/README.md has commands)",
            )
        }),
    }
}
