//! Detects the kind of a recording by its first bytes.
//!
//! The user need not name the format: the first bytes of a perf.data file are fixed, and each tool
//! writes its lines differently.
//!
//! # Invariants
//! A kind is given only for a beginning that could be read as that kind.

use super::Source;
use super::copied::CopiedLines;
use super::error::Fault;
use super::graph::{GraphLine, graph};
use super::head::{Style, head};
use super::others;
use super::text::is_kernel_message;
use everybuddy_trace::shown;

/// The number of bytes that are examined.
pub(crate) const LOOKED_AT: usize = 64 << 10;

/// The supported inputs, for error messages.
pub(crate) const EXPECTED: &str = "pass a perf.data file, the output of `perf script --ns` or \
    `trace-cmd report -t`, the kernel's trace file, or CSV of `everybuddy trace export`";

/// Returns the kind of a file according to its first bytes.
pub(crate) fn detect(begin: &[u8]) -> Result<Source, Fault> {
    if begin.is_empty() {
        return Err(Fault::refuse("", "the file is empty", EXPECTED));
    }
    if begin.starts_with(b"PERFILE2") || begin.starts_with(b"2ELIFREP") {
        return Ok(Source::PerfData);
    }
    others::check_bytes(begin)?;
    let mut lines = CopiedLines::new(begin);
    let mut first = None;
    while let Some(line) = lines.read()? {
        let (number, line) = (line.number, &*line.text);
        if line.starts_with("# tracer:") || line.contains("Dumping ftrace buffer") {
            return Ok(Source::Ftrace);
        }
        if line.starts_with("cpus=") {
            return Ok(Source::TraceCmd);
        }
        if line.contains("time_ns") && line.contains("pfn") && line.contains(',') {
            return Ok(Source::Csv);
        }
        // No line is valid in both formats: only one of them writes `-` before the number of a thread, or omits it.
        if head(line, Style::Perf).is_some() {
            return Ok(Source::PerfScript);
        }
        if let Some(head) = head(line, Style::Kernel) {
            return Ok(if head.has_flags {
                Source::Ftrace
            } else {
                Source::TraceCmd
            });
        }
        if let Some(GraphLine::Event(_)) = graph(line) {
            return Ok(Source::Ftrace);
        }
        if first.is_none() && !line.trim().is_empty() && !line.starts_with('#') {
            first = Some((number, line.to_string()));
        }
    }
    others::check_text(&String::from_utf8_lossy(begin))?;
    let Some((number, line)) = first else {
        return Err(Fault::refuse(
            "",
            "the file contains only comments",
            EXPECTED,
        ));
    };
    // A dump of the kernel's trace file may follow in the kernel's log.
    if is_kernel_message(&line, Style::Kernel) {
        return Ok(Source::Ftrace);
    }
    let start: String = line.trim().chars().take(60).collect();
    Err(Fault::refuse(
        format!("line {number}"),
        format!("unknown format: the line starts with `{}`", shown(start)),
        EXPECTED,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_looking() {
        #[rustfmt::skip]
        let cases = [
            ("PERFILE2\0\0", Source::PerfData),
            ("# ========\n#\n a 7 [000] 1.000000: kmem:mm_page_free: pfn=1", Source::PerfScript),
            ("  a 5/7 1.000000: kmem:mm_page_free: pfn=1", Source::PerfScript),
            ("# tracer: nop\n#\n", Source::Ftrace),
            ("  a-7   [000] d..1. 1.000000: mm_page_free: pfn=1", Source::Ftrace),
            ("cpus=2\n", Source::TraceCmd),
            ("  a-7   [000] 1.000000: mm_page_free: pfn=1", Source::TraceCmd),
            ("time_ns,cpu,pid,op,pfn,order\n", Source::Csv),
        ];
        for (begin, source) in cases {
            assert_eq!(detect(begin.as_bytes()).unwrap(), source, "{begin}");
        }
        for (begin, word) in [
            (&b""[..], "empty"),
            (b"PAR1....", "Parquet"),
            (b"\x1f\x8b...", "gzip"),
            (b"\n# x\nhello", "line 3"),
            (b"# x\n", "only comments"),
        ] {
            let error = detect(begin).unwrap_err().of("x".as_ref()).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
