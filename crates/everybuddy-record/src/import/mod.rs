//! Makes traces of recordings by other tools: perf, ftrace, trace-cmd, and CSV.
//!
//! Exists so that whoever has a recording of a kernel's page allocator has a trace, without
//! installing anything on the machine where it was made.
//!
//! | room | its question |
//! |------|--------------|
//! | `detect` | what kind of recording is this? |
//! | `lines`, `head`, `fields`, `text` | what does a text say, line by line? |
//! | `perf_data` | what does a perf.data file say, record by record? |
//! | `events`, `system_calls` | what does an event mean, by its name? |
//! | `csv` | what does a table say? |
//! | `heard` | what was read, and what was not? |
//!
//! Invariant: what comes out replays by itself, or nothing does; whatever was not used is counted in
//! [`Heard`] or [`Accounts`].

mod csv;
mod detect;
mod error;
mod events;
mod fields;
mod head;
mod heard;
mod lines;
mod perf_data;
mod system_calls;
mod text;

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;
use std::str::FromStr;

pub use error::ImportError;
pub use heard::Heard;

use self::error::Fault;
use crate::assemble::{Accounts, Assembly, Scope};
use crate::kernel::KernelEvent;
use everybuddy_trace::Trace;
use everybuddy_trace::{Leniency, Repairs};

/// A kind of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A file of `perf record`.
    PerfData,
    /// What `perf script` prints.
    PerfScript,
    /// The kernel's trace file, `trace` or `trace_pipe` of tracefs.
    Ftrace,
    /// What `trace-cmd report` prints.
    TraceCmd,
    /// A table with the columns of a trace.
    Csv,
}

impl Source {
    /// Every kind.
    pub const ALL: [Source; 5] = [
        Source::PerfData,
        Source::PerfScript,
        Source::Ftrace,
        Source::TraceCmd,
        Source::Csv,
    ];

    /// Returns the kind's name, as a command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Source::PerfData => "perf-data",
            Source::PerfScript => "perf-script",
            Source::Ftrace => "ftrace",
            Source::TraceCmd => "trace-cmd",
            Source::Csv => "csv",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.name())
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let found = Source::ALL.into_iter().find(|source| source.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Source::ALL.iter().map(|source| source.name()).collect();
            format!(
                "no kind of recording is named `{text}`; there are {}",
                names.join(", ")
            )
        })
    }
}

/// What to make of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The kind of the recording; `None` to find it by looking.
    pub source: Option<Source>,
    /// Whose allocations to keep; of CSV all are.
    pub scope: Scope,
    /// Whether CSV that does not replay by itself is repaired. Recordings of events always are,
    /// since they begin and end anywhere.
    pub leniency: Leniency,
}

impl Default for ImportOptions {
    /// Everything, of a kind found by looking.
    fn default() -> ImportOptions {
        ImportOptions {
            source: None,
            scope: Scope::Everything,
            leniency: Leniency::Strict,
        }
    }
}

/// A trace, and how it came about.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The trace; it replays by itself, and has at least one event.
    pub trace: Trace,
    /// What was read of the recording.
    pub heard: Heard,
    /// How its events became a trace; `None` for CSV, which is one.
    pub accounts: Option<Accounts>,
    /// What was repaired: of CSV, when lenient.
    pub repairs: Repairs,
}

/// Imports the recording in `file`.
///
/// The trace has the file's name without its last extension. Takes about 2 us and 100 bytes for each
/// event of the recording: events are put in order of time, so all of them are held at once.
///
/// # Errors
///
/// An [`ImportError`] with the file, the line or byte, and what to do: files that can't be read, of no
/// known kind, damaged, without a single event that is understood, or without an allocation.
pub fn import(file: &Path, options: ImportOptions) -> Result<Imported, ImportError> {
    match File::open(file) {
        Ok(input) => import_file(input, file, options),
        Err(error) => Err(Fault::Io(error).of(file)),
    }
}

/// Imports what `input` gives, which stands for `file`: such as a file that is watched while it is
/// read. One that can't be read from any place, a pipe, is read from its beginning to its end.
///
/// # Errors
///
/// As [`import`].
pub fn import_file(
    mut input: impl Read + Seek,
    file: &Path,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let read = match input.stream_position() {
        Ok(_) => read_seekable(input, options),
        Err(_) => read_stream(input, options),
    };
    read.and_then(|read| read.into_trace(&name, options))
        .map_err(|fault| fault.of(file))
}

/// Imports what `input` gives, under a name.
///
/// # Errors
///
/// As [`import`]; the error's file is the name.
pub fn import_stream(
    input: impl Read,
    name: &str,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    read_stream(input, options)
        .and_then(|read| read.into_trace(name, options))
        .map_err(|fault| fault.of(Path::new(name)))
}

/// What was read, before it is a trace.
enum ReadSource {
    Events(Vec<KernelEvent>, Heard),
    Table(csv::Table, Heard),
}

fn read_seekable(mut input: impl Read + Seek, options: ImportOptions) -> Result<ReadSource, Fault> {
    let mut begin = Vec::new();
    let source = kind(&mut input, options, &mut begin)?;
    if source == Source::PerfData {
        let (events, heard) = perf_data::read(input)?;
        return Ok(ReadSource::Events(events, heard));
    }
    read_text(Cursor::new(begin).chain(input), source)
}

fn read_stream(mut input: impl Read, options: ImportOptions) -> Result<ReadSource, Fault> {
    let mut begin = Vec::new();
    let source = kind(&mut input, options, &mut begin)?;
    if source == Source::PerfData {
        // Its parts lie anywhere in it.
        input.read_to_end(&mut begin)?;
        let (events, heard) = perf_data::read(Cursor::new(begin))?;
        return Ok(ReadSource::Events(events, heard));
    }
    read_text(Cursor::new(begin).chain(input), source)
}

/// Finds the kind of an input by its beginning, which is put into `begin`.
fn kind(
    input: &mut impl Read,
    options: ImportOptions,
    begin: &mut Vec<u8>,
) -> Result<Source, Fault> {
    input.take(detect::LOOKED_AT as u64).read_to_end(begin)?;
    match options.source {
        Some(source) if !begin.is_empty() => Ok(source),
        _ => detect::detect(begin),
    }
}

fn read_text(input: impl Read, source: Source) -> Result<ReadSource, Fault> {
    let input = BufReader::with_capacity(1 << 18, input);
    if source == Source::Csv {
        let (table, heard) = csv::read(input)?;
        return Ok(ReadSource::Table(table, heard));
    }
    let (events, heard) = text::read(input, source)?;
    Ok(ReadSource::Events(events, heard))
}

impl ReadSource {
    fn into_trace(self, name: &str, options: ImportOptions) -> Result<Imported, Fault> {
        let (events, mut heard) = match self {
            ReadSource::Table(table, heard) => {
                let mut repairs = Repairs::default();
                let trace = table.into_trace(name, options.leniency, &mut repairs)?;
                return Ok(Imported {
                    trace,
                    heard,
                    accounts: None,
                    repairs,
                });
            }
            ReadSource::Events(events, heard) => (events, heard),
        };
        if events.is_empty() {
            return Err(nothing_understood(&heard));
        }
        let events = in_order(events, &mut heard);
        let mut assembly = Assembly::new(options.scope);
        for event in events {
            assembly.push(event);
        }
        let made = assembly.finish(name);
        if made.trace.events.is_empty() {
            return Err(nothing_kept(&heard, options.scope));
        }
        Ok(Imported {
            trace: made.trace,
            heard,
            accounts: Some(made.accounts),
            repairs: Repairs::default(),
        })
    }
}

/// Sorts events by time; those of the same time keep their order.
fn in_order(mut events: Vec<KernelEvent>, heard: &mut Heard) -> Vec<KernelEvent> {
    let mut latest = 0;
    for event in &events {
        heard.out_of_order += u64::from(event.time_ns < latest);
        latest = latest.max(event.time_ns);
    }
    if heard.out_of_order > 0 {
        events.sort_by_key(|event| event.time_ns);
    }
    events
}

fn nothing_understood(heard: &Heard) -> Fault {
    let (place, found) = match heard.complaints.first() {
        Some((place, what)) => (
            format!("{} {place}", heard.place_name()),
            format!("there stands `{what}`"),
        ),
        None if !heard.skipped.is_empty() => {
            let names: Vec<&str> = heard.skipped.keys().take(3).map(String::as_str).collect();
            (
                String::new(),
                format!("there are events like {}", names.join(", ")),
            )
        }
        None => (String::new(), "there are no events".to_string()),
    };
    Fault::refuse(
        place,
        format!(
            "no event of the page allocator, read as {}: {found}",
            heard.source
        ),
        "record kmem:mm_page_alloc and kmem:mm_page_free (docs/importing.md has the commands), or \
         name another kind of recording with --from",
    )
}

fn nothing_kept(heard: &Heard, scope: Scope) -> Fault {
    let understood = heard.understood;
    match scope {
        Scope::Tree { root } => Fault::refuse(
            "",
            format!(
                "none of {understood} events is an allocation by process {root} or its children"
            ),
            "leave the process out to keep everything, or name another",
        ),
        Scope::Everything => Fault::refuse(
            "",
            format!("none of {understood} events is an allocation"),
            "record kmem:mm_page_alloc too (docs/importing.md has the commands)",
        ),
    }
}
