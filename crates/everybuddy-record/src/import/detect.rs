//! What kind of recording a file is, from how it begins.
//!
//! # Purpose
//!
//! The user need not name the format: the first bytes of a perf.data file are fixed, and each tool
//! writes its lines differently.
//!
//! # Invariants
//!
//! A kind is given only for a beginning that could be read as that kind.

use super::Source;
use super::error::Fault;
use super::head::{Style, head};

/// Bytes that are looked at.
pub(crate) const LOOKED_AT: usize = 64 << 10;

/// Other formats, by how they begin, and what to do with them.
const OTHERS: [(&[u8], &str, &str); 6] = [
    (
        b"PAR1",
        "a Parquet file",
        "it needs no import: name it as a trace",
    ),
    (
        b"\x17\x08\x44tracing",
        "a file of trace-cmd",
        "import what `trace-cmd report -t FILE` prints",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed with zstd",
        "`zstdcat FILE | everybuddy trace import -`",
    ),
    (
        b"\x1f\x8b",
        "compressed with gzip",
        "`zcat FILE | everybuddy trace import -`",
    ),
    (
        b"\xfd7zXZ",
        "compressed with xz",
        "`xzcat FILE | everybuddy trace import -`",
    ),
    (
        b"BZh",
        "compressed with bzip2",
        "`bzcat FILE | everybuddy trace import -`",
    ),
];

/// What is expected, for errors.
pub(crate) const EXPECTED: &str = "name a perf.data file, what `perf script --ns` or \
    `trace-cmd report -t` prints, the kernel's trace file, or CSV of `everybuddy trace export`";

/// Says what a file is by its beginning.
pub(crate) fn detect(begin: &[u8]) -> Result<Source, Fault> {
    if begin.is_empty() {
        return Err(Fault::refuse("", "the file is empty", EXPECTED));
    }
    if begin.starts_with(b"PERFILE2") || begin.starts_with(b"2ELIFREP") {
        return Ok(Source::PerfData);
    }
    for (magic, what, help) in OTHERS {
        if begin.starts_with(magic) {
            return Err(Fault::refuse("", format!("this is {what}"), help));
        }
    }
    let text = String::from_utf8_lossy(begin);
    let mut first = None;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("# tracer:") {
            return Ok(Source::Ftrace);
        }
        if line.starts_with("cpus=") {
            return Ok(Source::TraceCmd);
        }
        if line.contains("time_ns") && line.contains("pfn") && line.contains(',') {
            return Ok(Source::Csv);
        }
        // A line of the one is never a line of the other: only one writes `-` before a thread's
        // number, or leaves it out.
        if head(line, Style::Perf).is_some() {
            return Ok(Source::PerfScript);
        }
        if let Some(head) = head(line, Style::Kernel) {
            return Ok(match head.has_flags {
                true => Source::Ftrace,
                false => Source::TraceCmd,
            });
        }
        if first.is_none() && !line.trim().is_empty() && !line.starts_with('#') {
            first = Some((number + 1, line));
        }
    }
    let Some((number, line)) = first else {
        return Err(Fault::refuse("", "there is nothing but remarks", EXPECTED));
    };
    let shown: String = line
        .trim()
        .chars()
        .take(60)
        .filter(|c| !c.is_control())
        .collect();
    Err(Fault::refuse(
        format!("line {number}"),
        format!("no recording that this program knows begins with `{shown}`"),
        EXPECTED,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_looking() {
        for (begin, source) in [
            ("PERFILE2\0\0", Source::PerfData),
            (
                "# ========\n#\n a 7 [000] 1.000000: kmem:mm_page_free: pfn=1",
                Source::PerfScript,
            ),
            (
                "  a 5/7 1.000000: kmem:mm_page_free: pfn=1",
                Source::PerfScript,
            ),
            ("# tracer: nop\n#\n", Source::Ftrace),
            (
                "  a-7   [000] d..1. 1.000000: mm_page_free: pfn=1",
                Source::Ftrace,
            ),
            ("cpus=2\n", Source::TraceCmd),
            (
                "  a-7   [000] 1.000000: mm_page_free: pfn=1",
                Source::TraceCmd,
            ),
            ("time_ns,cpu,pid,op,pfn,order\n", Source::Csv),
        ] {
            assert_eq!(detect(begin.as_bytes()).unwrap(), source, "{begin}");
        }
        for (begin, word) in [
            (&b""[..], "empty"),
            (b"PAR1....", "Parquet"),
            (b"\x1f\x8b...", "gzip"),
            (b"\n# x\nhello", "line 3"),
            (b"# x\n", "remarks"),
        ] {
            let error = detect(begin).unwrap_err().of("x".as_ref()).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
