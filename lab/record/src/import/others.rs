//! Files that are not recordings of the page allocator's calls, and how to obtain such a recording instead.
//!
//! Users pass what they have. A message that names the file and says what to do takes one step; "unknown format"
//! takes several.
//!
//! # Invariants
//! A file is recognized only by words that no recording contains.

use everybuddy_trace::CSV_COLUMNS;

use super::csv;
use super::error::Fault;

/// What to do about a file that contains a state of memory.
const STATE: &str = "it contains a state, not the calls that led to it: record kmem:mm_page_alloc and \
    kmem:mm_page_free (lab/record/README.md has commands)";
/// What to do about a summary of a tool of perf.
const SUMMARY: &str =
    "import the file perf.data that it was made from, or the output of `perf script --ns`";
/// What to do about an archive or a compressed file without a well-known tool for pipes.
const UNPACK: &str = "unpack it, and import the file in it";

/// Formats: their first bytes, a description, and a remedy.
#[rustfmt::skip]
const BYTES: [(&[u8], &str, &str); 13] = [
    (b"PAR1", "a Parquet file", "no import is necessary: pass the file as a trace"),
    (b"\x17\x08\x44tracing", "a file of trace-cmd", "import the output of `trace-cmd report -t FILE`"),
    (b"PERFFILE", "a perf.data file of version 1, which perf wrote up to Linux 3.2",
        "import the output of `perf script -i FILE`"),
    (b"ELIFFREP",
        "a perf.data file of version 1, which perf wrote up to Linux 3.2, of a machine with another byte order",
        "import the output of `perf script -i FILE`"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "`zstdcat FILE | everybuddy trace import -`"),
    (b"\x1f\x8b", "compressed with gzip", "`zcat FILE | everybuddy trace import -`"),
    (b"\xfd7zXZ", "compressed with xz", "`xzcat FILE | everybuddy trace import -`"),
    (b"BZh", "compressed with bzip2", "`bzcat FILE | everybuddy trace import -`"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "`lz4cat FILE | everybuddy trace import -`"),
    (b"\x1f\x9d", "compressed with compress", "`zcat FILE | everybuddy trace import -`"),
    (b"PK\x03\x04", "a zip archive", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (b"\x7fELF", "a program or a memory dump (ELF)",
        "import a recording of the page allocator's events (lab/record/README.md has commands)"),
];

/// Texts: words that one line contains, a description, and a remedy. The first that fits counts.
#[rustfmt::skip]
const TEXTS: [(&[&str], &str, &str); 21] = [
    (&["kmem:mm_page_alloc("], "the output of `perf trace`",
        "import the output of `perf script --ns` (lab/record/README.md), which has the page's frame and order"),
    (&["mm_page_", "{ cpu_id"], "a text of LTTng", "record with perf or ftrace (lab/record/README.md has commands)"),
    (&["Page allocated via order"], "a copy of page_owner", STATE),
    (&["PFN ", " Block ", " Flags "], "a copy of page_owner", STATE),
    (&["Page block order:"], "a copy of /proc/pagetypeinfo", STATE),
    (&["Free pages count per migrate type"], "a copy of /proc/pagetypeinfo", STATE),
    (&["per-node stats"], "a copy of /proc/zoneinfo", STATE),
    (&["  pages free "], "a copy of /proc/zoneinfo", STATE),
    (&["Node ", ", zone "], "a copy of /proc/buddyinfo", STATE),
    (&["oom-killer"], "a report of the kernel that it ran out of memory", STATE),
    (&["Out of memory: Kill"], "a report of the kernel that it ran out of memory", STATE),
    (&["page allocation failure"], "a report of the kernel of a failed allocation", STATE),
    (&["Mem-Info:"], "a report of the kernel about its memory", STATE),
    (&["MemTotal:"], "a copy of /proc/meminfo", STATE),
    (&["nr_free_pages "], "a copy of /proc/vmstat", STATE),
    (&["slabinfo - version"], "a copy of /proc/slabinfo", STATE),
    (&["SUMMARY (", "allocator)"], "the output of `perf kmem`", SUMMARY),
    (&["Performance counter stats for"], "the output of `perf stat`",
        "it contains sums: record with `perf record` instead (lab/record/README.md has commands)"),
    (&["# Overhead"], "the output of `perf report`", SUMMARY),
    (&["Attaching ", "probe"], "the output of bpftrace",
        "record with perf or ftrace (lab/record/README.md has commands)"),
    (&["<html"], "a page of a browser", "import the recording that it was made from"),
];

/// Rejects a file that its first bytes identify.
pub(crate) fn check_bytes(begin: &[u8]) -> Result<(), Fault> {
    let found = BYTES.iter().find(|(magic, ..)| begin.starts_with(magic));
    found.map_or(Ok(()), |(_, what, help)| Err(refuse(what, help)))
}

/// Rejects a text without a line of a known recording, if it can be identified.
pub(crate) fn check_text(text: &str) -> Result<(), Fault> {
    let found = TEXTS.iter().find(|(words, ..)| {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        text.lines().any(has_all)
    });
    if let Some((_, what, help)) = found {
        return Err(refuse(what, help));
    }
    if text.trim_start().starts_with(['{', '[']) && text.contains("\":") {
        return Err(refuse("JSON", SUMMARY));
    }
    let lines = text.lines().enumerate();
    let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    match lines.next() {
        Some((number, line)) if is_header(line) => Err(other_columns(number + 1, line)),
        _ => Ok(()),
    }
}

fn refuse(what: &str, help: &str) -> Fault {
    Fault::refuse("", format!("the file is {what}"), help)
}

/// Returns `true` for the names of columns.
fn is_header(line: &str) -> bool {
    let is_name = |name: &str| {
        let name = name.trim().trim_matches('"');
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_-. ()/".contains(c))
    };
    [',', ';', '\t']
        .iter()
        .any(|mark| line.matches(*mark).count() >= 2 && line.split(*mark).all(is_name))
}

/// Rejects a table with other columns than those of a trace.
fn other_columns(number: usize, line: &str) -> Fault {
    let place = format!("line {number}");
    match csv::columns(number as u64, line) {
        Err(fault) => fault,
        // The names are right, so that only the mark between them can be wrong.
        Ok(_) => Fault::refuse(
            place,
            "the columns are not separated by commas",
            format!("write a table with the header {}", CSV_COLUMNS.join(",")),
        ),
    }
}
