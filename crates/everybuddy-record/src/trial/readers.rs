//! Readers of files, for fuzzing: what they accept must be a trace.
//!
//! Exists so that a fuzzer, and the test that replays what fuzzers found, judge by the same rules.
//!
//! Invariant: a function here returns for every input, or panics with the rule that was broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Scope;
use crate::import::{ImportOptions, Imported, Source, import_stream};
use everybuddy_trace::{Event, ExportFormat, Leniency, Op, Trace, export, read, resolve, write};

/// Reads bytes as perf.data.
///
/// # Panics
///
/// When what is accepted is no trace, or does not survive being written and read.
pub fn perf_data(bytes: &[u8]) {
    events(bytes, Source::PerfData);
}

/// Reads bytes as what `perf script` prints.
///
/// # Panics
///
/// As [`perf_data`].
pub fn perf_script(bytes: &[u8]) {
    events(bytes, Source::PerfScript);
}

/// Reads bytes as the kernel's trace file.
///
/// # Panics
///
/// As [`perf_data`].
pub fn ftrace(bytes: &[u8]) {
    events(bytes, Source::Ftrace);
}

/// Reads bytes as what `trace-cmd report` prints.
///
/// # Panics
///
/// As [`perf_data`].
pub fn trace_cmd(bytes: &[u8]) {
    events(bytes, Source::TraceCmd);
}

/// Reads bytes as CSV, strictly and leniently.
///
/// # Panics
///
/// As [`perf_data`], or when a table that is accepted strictly is changed when lenient.
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
            "leniency changed a right table"
        );
    } else if let Some(lenient) = lenient {
        assert!(
            !lenient.repairs.is_empty(),
            "nothing was repaired, yet it was refused"
        );
        accepted(&lenient.trace);
    }
}

/// Reads bytes as the three files of a trace, strictly and leniently: two lengths of 32 bits, then
/// the calls, the faults, and the regions.
///
/// # Panics
///
/// As [`csv`].
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
    let folder = Folder::new();
    let path = folder.0.join("input.parquet");
    let _ = fs::write(&path, calls);
    for (kind, bytes) in [("faults", faults), ("vmas", regions)] {
        if !bytes.is_empty() {
            let _ = fs::write(folder.0.join(format!("input.{kind}.parquet")), bytes);
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
                "leniency changed a right trace"
            );
        }
        (Err(_), Ok((lenient, repairs))) => {
            assert!(
                !repairs.is_empty(),
                "nothing was repaired, yet it was refused"
            );
            accepted(&lenient);
        }
        (Err(_), Err(error)) => assert!(!error.to_string().is_empty()),
    }
}

/// Imports events: everybody's, and those of a tree.
fn events(bytes: &[u8], source: Source) {
    let all = import(bytes, Some(source), Scope::Everything, Leniency::Strict);
    if let Some(made) = &all {
        assert!(made.heard.understood > 0 && !made.heard.to_string().is_empty());
        accepted(&made.trace);
    }
    let tree = Scope::Tree { root: 1 };
    if let Some(made) = import(bytes, Some(source), tree, Leniency::Strict) {
        replays(&made.trace);
        assert!(all.is_some(), "a tree is a part of everything");
    }
    // Whatever it looks like, looking at it must be safe.
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
    assert!(resolved.is_ok(), "it does not replay: {:?}", resolved.err());
}

/// Checks what was accepted: it replays, and survives every format.
///
/// The second takes a hundred times as long as reading does. A fuzzer lives on many inputs, so one in
/// eight is drawn for it, by what it holds: the same input is judged in the same way each time.
fn accepted(trace: &Trace) {
    replays(trace);
    let sum =
        |sum: u64, event: &Event| sum.wrapping_mul(31).wrapping_add(event.pfn ^ event.time_ns);
    let drawn = trace.events.iter().fold(trace.events.len() as u64, sum);
    if drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 != 0 {
        return;
    }
    let folder = Folder::new();
    let path = folder.0.join(format!("{}.parquet", name_of(trace)));
    let written = write(trace, &path);
    assert!(written.is_ok(), "it can't be written: {:?}", written.err());
    match read(&path, Leniency::Strict) {
        Ok((again, _)) => {
            let name = trace.name.clone();
            assert_eq!(
                &Trace { name, ..again },
                trace,
                "it is read otherwise than written"
            );
        }
        Err(error) => panic!("what was written is refused: {error}"),
    }

    let table = text_of(trace, ExportFormat::Csv);
    let again = import(&table, None, Scope::Everything, Leniency::Strict);
    let again = again.map(|made| text_of(&made.trace, ExportFormat::Csv));
    assert!(
        again.as_ref() == Some(&table),
        "CSV is read otherwise than written"
    );

    let script = text_of(trace, ExportFormat::PerfScript);
    if trace.events.iter().all(can_be_told_by_perf) {
        let again = import(&script, None, Scope::Everything, Leniency::Strict);
        let again = again.map(|made| calls(&made.trace.events));
        assert!(
            again == Some(calls(&trace.events)),
            "a call is lost in perf's text"
        );
    }
}

/// Returns whether perf's text can tell a call: frame 0 stands for none there, a free has no
/// mobility and no flags.
fn can_be_told_by_perf(event: &Event) -> bool {
    event.pfn != 0 && (event.op == Op::Allocate || (event.migratetype == -1 && event.gfp == 0))
}

/// What perf's text tells of calls, from the first on; all else as in a call of which it is unknown.
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
    assert!(written.is_ok(), "memory takes everything");
    bytes
}

fn name_of(trace: &Trace) -> &str {
    match trace.name.is_empty() || trace.name.contains('/') {
        true => "trial",
        false => &trace.name,
    }
}

/// A folder that disappears with its owner, in memory where there is such a place.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let place = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        let folder = place.join(format!("everybuddy-trial-{}-{number}", std::process::id()));
        let made = fs::create_dir_all(&folder);
        assert!(made.is_ok(), "no folder for a trial: {:?}", made.err());
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover in a folder for such things harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
