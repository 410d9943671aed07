//! Fuzzing of file readers: every accepted input must be a valid trace.
//!
//! A fuzzer, and the test that replays its findings, apply the same rules.
//!
//! # Invariants
//! A function here returns for every input, or panics with the broken rule.

use std::fs;
use std::path::Path;

use crate::Scope;
use crate::functions::Functions;
use crate::import::{ImportOptions, Imported, Source, import_stream};
use everybuddy_trace::{Event, ExportFormat, Leniency, Op, Trace, export, read, resolve, write};
use tempfile::TempDir;

/// Functions for call chains of perf.data.
const SYMBOLS: &str =
    "ffffffff81000000 T _text\nffffffff81000010 T rmqueue\nffffffff81200000 T _raw_spin_lock";

/// Declares a function for each kind of recording.
macro_rules! recordings {
    ($($(#[$about:meta])* $name:ident: $source:ident;)+) => {
        $($(#[$about])*
        ///
        /// # Panics
        ///
        /// If an accepted input is not a valid trace, or is changed by writing and reading it.
        pub fn $name(bytes: &[u8]) {
            events(bytes, Source::$source);
        })+
    };
}

recordings! {
    /// Reads bytes as perf.data.
    perf_data: PerfData;
    /// Reads bytes as the output of `perf script`.
    perf_script: PerfScript;
    /// Reads bytes as the kernel's trace file.
    ftrace: Ftrace;
    /// Reads bytes as the output of `trace-cmd report`.
    trace_cmd: TraceCmd;
}

/// Reads bytes as CSV, strictly and leniently.
///
/// # Panics
///
/// Like [`perf_data`], or if lenient reading changes a table that strict reading accepts.
pub fn csv(bytes: &[u8]) {
    let strict = import(
        bytes,
        Some(Source::Csv),
        Scope::Everything,
        Leniency::Strict,
    );
    let lenient = import(
        bytes,
        Some(Source::Csv),
        Scope::Everything,
        Leniency::Lenient,
    );
    if let Some(strict) = &strict {
        accepted(&strict.trace);
        let lenient = lenient.as_ref().map(|lenient| &lenient.trace);
        assert_eq!(
            lenient,
            Some(&strict.trace),
            "lenient reading changed a valid table"
        );
    } else if let Some(lenient) = lenient {
        assert!(
            !lenient.repairs.is_empty(),
            "rejected although nothing had to be repaired"
        );
        accepted(&lenient.trace);
    }
}

/// Reads bytes as the three files of a trace, strictly and leniently: two lengths of 32 bits, then
/// the calls, the faults, and the regions.
///
/// # Panics
///
/// Like [`csv`].
pub fn trace_parquet(bytes: &[u8]) {
    let Some((lengths, bytes)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let length = |at: usize| {
        let bytes = [
            lengths[at],
            lengths[at + 1],
            lengths[at + 2],
            lengths[at + 3],
        ];
        u32::from_le_bytes(bytes) as usize
    };
    let (calls, rest) = bytes.split_at(length(0).min(bytes.len()));
    let (faults, regions) = rest.split_at(length(4).min(rest.len()));
    let folder = folder();
    let path = folder.path().join("input.parquet");
    let _ = fs::write(&path, calls);
    for (kind, bytes) in [("faults", faults), ("vmas", regions)] {
        if !bytes.is_empty() {
            let _ = fs::write(folder.path().join(format!("input.{kind}.parquet")), bytes);
        }
    }
    let strict = read(&path, Leniency::Strict);
    let lenient = read(&path, Leniency::Lenient);
    match (strict, lenient) {
        (Ok((strict, _)), lenient) => {
            accepted(&strict);
            let lenient = lenient.ok();
            assert!(
                lenient.is_some_and(|(trace, repairs)| trace == strict && repairs.is_empty()),
                "lenient reading changed a valid trace"
            );
        }
        (Err(_), Ok((lenient, repairs))) => {
            assert!(
                !repairs.is_empty(),
                "rejected although nothing had to be repaired"
            );
            accepted(&lenient);
        }
        (Err(_), Err(error)) => assert!(!error.to_string().is_empty()),
    }
}

/// Imports all events, and those of one process tree.
fn events(bytes: &[u8], source: Source) {
    let all = import(bytes, Some(source), Scope::Everything, Leniency::Strict);
    if let Some(made) = &all {
        assert!(made.log.understood > 0 && !made.log.to_string().is_empty());
        accepted(&made.trace);
    }
    let tree = Scope::Tree { root: 1 };
    if let Some(made) = import(bytes, Some(source), tree, Leniency::Strict) {
        replays(&made.trace);
        assert!(all.is_some(), "a process tree is a subset of all events");
    }
    // Detecting the format must be safe for any bytes.
    import(bytes, None, Scope::Everything, Leniency::Strict);
}

fn import(
    bytes: &[u8],
    source: Option<Source>,
    scope: Scope,
    leniency: Leniency,
) -> Option<Imported> {
    let options = ImportOptions {
        source,
        scope,
        leniency,
        zone_locks: Vec::new(),
        // The bytes are usually not a valid symbol list; then `SYMBOLS` is used.
        functions: Functions::read_from(bytes).unwrap_or_else(|_| Functions::parse(SYMBOLS)),
    };
    match import_stream(bytes, "trial", options) {
        Ok(made) => Some(made),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fn replays(trace: &Trace) {
    assert!(!trace.events.is_empty(), "an empty trace was accepted");
    let resolved = resolve(trace);
    assert!(
        resolved.is_ok(),
        "the trace does not replay: {:?}",
        resolved.err()
    );
}

/// Checks an accepted trace: it replays, and every format preserves it.
///
/// The format check takes a hundred times as long as reading. A fuzzer depends on many inputs, so the check runs for
/// one in eight, selected by the contents: the result for the same input is always the same.
fn accepted(trace: &Trace) {
    replays(trace);
    let sum =
        |sum: u64, event: &Event| sum.wrapping_mul(31).wrapping_add(event.pfn ^ event.time_ns);
    let drawn = trace.events.iter().fold(trace.events.len() as u64, sum);
    if drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 != 0 {
        return;
    }
    let folder = folder();
    let path = folder.path().join(format!("{}.parquet", name_of(trace)));
    let written = write(trace, &path);
    assert!(written.is_ok(), "writing failed: {:?}", written.err());
    match read(&path, Leniency::Strict) {
        Ok((again, _)) => {
            let name = trace.name.clone();
            assert_eq!(
                &Trace { name, ..again },
                trace,
                "Parquet: the trace read differs from the trace written"
            );
        }
        Err(error) => panic!("the written trace was rejected: {error}"),
    }

    let table = text_of(trace, ExportFormat::Csv);
    let again = import(&table, None, Scope::Everything, Leniency::Strict);
    let again = again.map(|made| text_of(&made.trace, ExportFormat::Csv));
    assert!(
        again.as_ref() == Some(&table),
        "CSV: the trace read differs from the trace written"
    );

    let script = text_of(trace, ExportFormat::PerfScript);
    if trace.events.iter().all(can_be_told_by_perf) {
        let again = import(&script, None, Scope::Everything, Leniency::Strict);
        let again = again.map(|made| calls(&made.trace.events));
        assert!(
            again == Some(calls(&trace.events)),
            "perf's text lost a call"
        );
    }
}

/// Returns `true` if perf's text can represent a call: there, frame 0 means no frame, and a free has no mobility and
/// no flags.
fn can_be_told_by_perf(event: &Event) -> bool {
    event.pfn != 0 && (event.op == Op::Allocate || (event.migratetype == -1 && event.gfp == 0))
}

/// Returns the calls as perf's text represents them; all other fields are unknown.
fn calls(events: &[Event]) -> Vec<Event> {
    let begin = events.first().map_or(0, |event| event.time_ns);
    let call = |e: &Event| Event {
        migratetype: e.migratetype,
        gfp: e.gfp,
        ..Event::new(e.time_ns - begin, e.cpu, e.pid, e.op, e.pfn, e.order)
    };
    events.iter().map(call).collect()
}

fn text_of(trace: &Trace, format: ExportFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = export(trace, format, &mut bytes);
    assert!(written.is_ok(), "writing to memory cannot fail");
    bytes
}

fn name_of(trace: &Trace) -> &str {
    if trace.name.is_empty() || trace.name.contains('/') {
        "trial"
    } else {
        &trace.name
    }
}

/// Creates a directory that is deleted when its value is dropped; in memory if there is such a file system.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap_or_else(|error| panic!("failed to create a temporary directory: {error}"))
}
