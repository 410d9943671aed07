//! Recordings as text: `perf script`, the kernel's trace file, `trace-cmd report`.
//!
//! Exists because text is what people have: it can be read over a slow line, filtered with grep, and
//! cut by hand. The three tools differ in how a line begins and in how they say that events were lost.
//!
//! Invariant: every line is an event, a known remark, a part of a call chain, or is counted as not
//! understood.

use std::io::BufRead;

use super::Source;
use super::error::Fault;
use super::events::{Interpreter, Meaning};
use super::fields::Text;
use super::head::{Style, head};
use super::heard::Heard;
use super::lines::Lines;
use crate::kernel::KernelEvent;

/// Reads a whole text.
pub(crate) fn read(
    input: impl BufRead,
    source: Source,
) -> Result<(Vec<KernelEvent>, Heard), Fault> {
    let style = match source {
        Source::PerfScript => Style::Perf,
        _ => Style::Kernel,
    };
    let mut heard = Heard::new(source);
    let mut events = Vec::new();
    let mut interpreter = Interpreter::default();
    let mut lines = Lines::new(input);
    while let Some(line) = lines.next()? {
        let text = line.text.trim_end();
        if is_nothing(text, style) {
            continue;
        }
        if let Some(lost) = lost(text) {
            heard.lost = heard.lost.saturating_add(lost);
            continue;
        }
        let Some(head) = head(text, style).filter(|_| !line.is_cut) else {
            heard.complain(line.number, text);
            continue;
        };
        match interpreter.meaning(head.event, head.tid, &Text(head.fields)) {
            Meaning::Event(what) => events.push(KernelEvent {
                time_ns: head.time_ns,
                cpu: head.cpu,
                tid: head.tid,
                tgid: head.tgid,
                in_interrupt: head.in_interrupt,
                what,
            }),
            Meaning::Other => heard.skip(head.event),
            Meaning::Repeated => heard.repeated += 1,
            Meaning::Unclear => heard.complain(line.number, text),
        }
    }
    heard.read = lines.count();
    heard.understood = events.len() as u64;
    Ok((events, heard))
}

/// Tells whether a line says nothing: empty, a comment, a head of the file, a line of a call chain.
fn is_nothing(line: &str, style: Style) -> bool {
    let trimmed = line.trim_start();
    let is_remark = trimmed.is_empty()
        || (line.starts_with('#') && !line.contains("entries-in-buffer"))
        || ["cpus=", "version = ", "trace-cmd: ", "CPU "]
            .iter()
            .any(|start| {
                style == Style::Kernel && line.starts_with(start) && !line.contains("lost")
            });
    if is_remark || !line.starts_with([' ', '\t']) {
        return is_remark || line.starts_with("=>");
    }
    // A frame of a call chain: an address, or an arrow as the kernel and trace-cmd draw it.
    let word = trimmed.split_ascii_whitespace().next().unwrap_or("");
    let is_address = word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    word == "=>" || (is_address && head(line, style).is_none())
}

/// Returns how many events a line says were lost; `None` for lines about anything else.
fn lost(line: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    if let Some((_, counts)) = line.split_once("entries-in-buffer/entries-written:") {
        let (kept, written) = counts.split_ascii_whitespace().next()?.split_once('/')?;
        return Some(number(written)?.saturating_sub(number(kept)?));
    }
    if line.starts_with("CPU") {
        // `CPU:3 [LOST 17 EVENTS]`, `CPU:3 [17 EVENTS DROPPED]`, `CPU 3: 17 events lost`.
        let lower = line.to_ascii_lowercase();
        if !(lower.contains("event") && (lower.contains("lost") || lower.contains("dropped"))) {
            return None;
        }
        let (_, rest) = lower.split_once([' ', '['])?;
        let rest = rest.split_once(':').map_or(rest, |(_, after)| after);
        let words = rest.split(|c: char| !c.is_ascii_alphanumeric());
        // Without a number it was at least one.
        return Some(words.filter_map(number).next().unwrap_or(1));
    }
    let (_, rest) = line.split_once("PERF_RECORD_LOST")?;
    let rest = rest.strip_prefix("_SAMPLES").unwrap_or(rest);
    number(rest.trim().strip_prefix("lost")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_are_counted_as_each_tool_tells_them() {
        for (line, count) in [
            ("# entries-in-buffer/entries-written: 205/300   #P:2", 95),
            ("CPU:0 [LOST 17 EVENTS]", 17),
            ("CPU:11 [LOST EVENTS]", 1),
            ("CPU:3 [5 EVENTS DROPPED]", 5),
            ("CPU 3: 12 events lost", 12),
            ("  perf 1 [000] 1.5: PERF_RECORD_LOST lost 54", 54),
            ("  perf 1 [000] 1.5: PERF_RECORD_LOST_SAMPLES lost 3", 3),
        ] {
            assert_eq!(lost(line), Some(count), "{line}");
        }
        for line in [
            "CPU 1 is empty",
            "a-1 [000] 1.5: e: CPU lost events 3",
            "# tracer: nop",
        ] {
            assert_eq!(lost(line), None, "{line}");
        }
    }

    #[test]
    fn call_chains_and_remarks_are_nothing() {
        for line in [
            "",
            "# x",
            "\tffffffff8128 f+0x3 ([kernel])",
            "        7f00aa main (/bin/x)",
        ] {
            assert!(is_nothing(line, Style::Perf), "{line}");
        }
        for line in [
            "cpus=2",
            "CPU 1 is empty",
            " => __alloc_pages",
            "version = 7",
        ] {
            assert!(is_nothing(line, Style::Kernel), "{line}");
        }
        assert!(!is_nothing("  dead 7 [000] 1.5: sys:e: f", Style::Perf));
        assert!(!is_nothing("hello", Style::Perf));
    }
}
