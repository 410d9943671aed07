//! Recordings as text: `perf script`, the kernel's trace file, `trace-cmd report`.
//!
//! Text is the most available form: it can be read over a slow connection, filtered with grep, and edited by hand.
//! The three tools differ in the head of a line and in their messages about lost events. Of call chains only those of
//! waits for locks matter: they show whose lock it is.
//!
//! # Invariants
//! Every line is an event, a known remark, a part of a call chain, or is counted as unrecognized.

use std::collections::HashMap;
use std::io::BufRead;

use super::Source;
use super::clock::Clock;
use super::copied::CopiedLines;
use super::error::Fault;
use super::events::{Interpreter, Meaning, understood};
use super::fields::{Text, is_raw};
use super::graph::{GraphLine, graph};
use super::head::{Head, Style, head};
use super::import_log::ImportLog;
use crate::functions::{Function, waiting};
use crate::kernel::{KernelEvent, What};

/// Reads a whole text.
pub(crate) fn read(
    input: impl BufRead,
    source: Source,
) -> Result<(Vec<KernelEvent>, ImportLog), Fault> {
    let style = match source {
        Source::PerfScript => Style::Perf,
        _ => Style::Kernel,
    };
    let mut log = ImportLog::new(source);
    let mut events = Vec::new();
    let mut interpreter = Interpreter::default();
    let mut lines = CopiedLines::new(input);
    let mut chain = Chain::default();
    let mut clock = LineClock::default();
    let mut running = Running::default();
    let (mut raw, mut has_no_thread) = (false, false);
    while let Some(line) = lines.read()? {
        let text = line.text.trim_end();
        if is_nothing(text, style) {
            events.extend(chain.add(text));
            continue;
        }
        if let Some(lost) = lost(text) {
            log.lost = log.lost.saturating_add(lost);
            events.extend(gap(text, events.last()));
            continue;
        }
        let mut found = if line.is_cut { None } else { head(text, style) };
        if found.is_none() && style == Style::Kernel && !line.is_cut {
            match graph(text) {
                Some(GraphLine::Event(head)) => found = Some(running.fill(head)),
                Some(GraphLine::Switch { cpu, tid }) => {
                    running.0.insert(cpu, tid);
                    continue;
                }
                Some(GraphLine::Function) => {
                    log.skip("functions");
                    continue;
                }
                None => {}
            }
        }
        let Some(head) = found.and_then(|head| clock.fill(head)) else {
            if is_kernel_message(text, style) {
                log.skip("messages of the kernel")
            } else {
                log.complain(line.number, text)
            }
            continue;
        };
        has_no_thread |= !head.has_thread;
        raw = raw || is_raw(head.event, head.fields);
        chain.begin(&head);
        if is_chain_head(head.event) {
            continue;
        }
        let fields = Text {
            text: head.fields,
            is_raw: raw,
        };
        match interpreter.meaning(head.event, head.tid, &fields) {
            Meaning::Event(what) => events.push(KernelEvent {
                time_ns: head.time_ns,
                cpu: head.cpu,
                tid: head.tid,
                tgid: head.tgid,
                in_interrupt: head.in_interrupt,
                what,
            }),
            Meaning::Other => log.skip(head.event),
            Meaning::Repeated => log.repeated += 1,
            Meaning::Unclear => log.complain(line.number, text),
        }
    }
    log.read = lines.count();
    log.understood = understood(&events);
    if let Some(remark) = clock.remark() {
        log.remark(remark);
    }
    if has_no_thread {
        log.remark(
            "some lines do not name the thread, or neither thread nor CPU: their calls count as those of thread 0, or \
             of CPU 0",
        );
    }
    interpreter.finish(&mut events, &mut log)?;
    Ok((events, log))
}

/// The clock of a recording: that of its first event.
#[derive(Default)]
struct LineClock {
    clock: Option<Clock>,
    last: u64,
}

impl LineClock {
    /// Gives an event without a time the next count. Returns `None` for an event on another clock than the first.
    fn fill<'a>(&mut self, head: Head<'a>) -> Option<Head<'a>> {
        let clock = *self.clock.get_or_insert(head.clock);
        if clock != head.clock {
            return None;
        }
        if clock != Clock::Missing {
            return Some(head);
        }
        self.last += 1;
        let time_ns = self.last;
        Some(Head { time_ns, ..head })
    }

    fn remark(&self) -> Option<&'static str> {
        match self.clock? {
            Clock::Time => None,
            Clock::Count => Some(
                "the times are counts without a unit, as of the kernel's clocks counter and x86-tsc: a count is taken \
                 for 1 ns, so that the order is right, but durations are not",
            ),
            Clock::Missing => Some(
                "the lines have no times: each event is placed 1 ns after the previous one, so that the order is that \
                 of the lines, and durations are unknown",
            ),
        }
    }
}

/// The thread that runs on each CPU, according to the tracer `function_graph`.
#[derive(Default)]
struct Running(HashMap<u16, u32>);

impl Running {
    fn fill<'a>(&self, head: Head<'a>) -> Head<'a> {
        match self.0.get(&head.cpu) {
            Some(tid) if !head.has_thread => Head {
                tid: *tid,
                has_thread: true,
                ..head
            },
            _ => head,
        }
    }
}

/// Returns `true` for a line of the kernel's log, which may contain a dump of the trace file: `[  889.213000] text`,
/// with a level or a date, or as journals write it. A line about the page allocator is an event that could not be
/// parsed.
pub(crate) fn is_kernel_message(line: &str, style: Style) -> bool {
    let line = line.trim_start();
    let level = line.strip_prefix('<').and_then(|line| line.split_once('>'));
    let inner = level.map_or(line, |(_, line)| line).strip_prefix('[');
    let time = inner.and_then(|inner| inner.split(']').next());
    let is_time = |time: &str| {
        let mut parts = time.split_ascii_whitespace();
        let is_date =
            parts.any(|part| part.split(':').filter_map(super::clock::digits).count() == 3);
        is_date || super::clock::decimal(time.trim()).is_some()
    };
    style == Style::Kernel
        && (time.is_some_and(is_time) || line.contains(" kernel: "))
        && !line.contains("mm_page_")
}

/// Returns `true` for the line above a call chain in the texts of the kernel and of trace-cmd. perf writes none.
fn is_chain_head(event: &str) -> bool {
    matches!(event, "<stack" | "kernel_stack")
}

/// The call chain of a wait for a lock, line by line. Chains of other events are passed on, too: they do not follow an
/// event of a lock.
#[derive(Default)]
struct Chain {
    /// What the chain says that is being read: until its first function outside of the lock.
    open: Option<KernelEvent>,
}

impl Chain {
    /// Follows the head of a line. A chain follows its event directly, or below a head of its own.
    fn begin(&mut self, head: &Head<'_>) {
        let is_lock = matches!(head.event, "contention_begin" | "contention_end");
        let is_of_lock = is_lock || is_chain_head(head.event);
        self.open = is_of_lock.then_some(KernelEvent {
            time_ns: head.time_ns,
            cpu: head.cpu,
            tid: head.tid,
            tgid: head.tgid,
            in_interrupt: head.in_interrupt,
            what: What::LockCaller { allocator: None },
        });
    }

    /// Follows a line below an event. Returns what the chain says, once.
    fn add(&mut self, line: &str) -> Option<KernelEvent> {
        let event = self.open.as_ref()?;
        let function = Function::named(function(line).filter(|name| !name.is_empty())?);
        let allocator = waiting(std::iter::once(function))?.allocator();
        let event = KernelEvent {
            what: What::LockCaller { allocator },
            ..event.clone()
        };
        self.open = None;
        Some(event)
    }
}

/// Returns the function in a line of a call chain: ` => name`, ` => name (address)`, `address name+0x1f ([kernel])`.
/// The name is empty if the line contains only an address.
fn function(line: &str) -> Option<&str> {
    // A task may have such a name, and a line may begin with a duration.
    if line.contains("mm_page_") && line.contains("pfn=") {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let (first, name) = (words.next()?, words.next().unwrap_or(""));
    // A short number is an address only next to the file of its function, `993 main (/bin/x)`, or in the column in
    // which perf prints addresses.
    let is_aligned =
        line.starts_with(['\t', ' ']) && line.len() - line.trim_start().len() + first.len() >= 16;
    let is_address =
        (first.len() >= 4 || line.ends_with(')') || (is_aligned && words.next().is_none()))
            && first.bytes().all(|byte| byte.is_ascii_hexdigit());
    (first == "=>" || is_address).then(|| name.split('+').next())?
}

/// Returns the gap that a message about lost events leaves. It has the time of the last event, if there is one.
fn gap(line: &str, last: Option<&KernelEvent>) -> Option<KernelEvent> {
    let number = line
        .strip_prefix("CPU")
        .map(|rest| rest.trim_start_matches([':', ' ']));
    let digits = number.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let cpu = digits.flatten().and_then(|digits| digits.parse().ok());
    Some(KernelEvent {
        what: What::Lost { cpu },
        ..last?.clone()
    })
}

/// Returns `true` if a line has no content: it is empty, a comment, a file header, or part of a call chain.
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
    // A frame of a call chain.
    trimmed.starts_with("=>")
        || trimmed.bytes().all(|byte| byte == b'-')
        || is_source_line(trimmed)
        || (function(line).is_some() && head(line, style).is_none())
}

/// Returns `true` for the source of the function above: `  page_alloc.c:4567`, or `  :0` if it is unknown.
fn is_source_line(line: &str) -> bool {
    let place = line
        .rsplit_once(':')
        .filter(|(file, _)| !file.contains([' ', ':']));
    place.is_some_and(|(_, number)| super::clock::digits(number).is_some())
}

/// Returns the number of lost events that a line reports, or `None` for any other line.
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
        // Without a number, at least one event was lost.
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
            "               0 [unknown] ([unknown])",
            "\tffffffff8128",
            "\t             993 main (/root/noploop)",
            "\t             f7a std::f(int, int) ([vdso])",
            "\t               0 [unknown] ([unknown])",
            "\t             993 main",
            "\t             993",
            "\t              1f inlined_one (inlined)",
            "  page_alloc.c:4567",
            "  :0",
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
        assert!(!is_nothing("  a 7 damaged", Style::Perf));
    }
}
