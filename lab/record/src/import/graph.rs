//! Lines of the kernel's tracer `function_graph`.
//!
//! This tracer writes functions as a program, and events as comments in it: ` 24)   |  /* mm_page_alloc: ... */`. By
//! default its lines have neither a thread nor a time. It writes a line of its own where another thread runs on a CPU.
//!
//! # Invariants
//! A line that is not of this tracer is `None`.

use super::clock::{self, Clock};
use super::head::{Head, event, thread_of};

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphLine<'a> {
    Event(Head<'a>),
    /// From now on, this thread runs on this CPU.
    Switch {
        cpu: u16,
        tid: u32,
    },
    /// A function begins or ends.
    Function,
}

/// Parses a line.
pub(crate) fn graph(line: &str) -> Option<GraphLine<'_>> {
    let (code, comment) = match line.split_once("/* ") {
        Some((code, comment)) => (code, comment.strip_suffix("*/")),
        None => (line, None),
    };
    // The columns before the CPU are times, the columns after it the thread, the flags and the duration.
    let (place, rest) = code.split_once(')')?;
    let mut place = place.rsplit(['|', ' ']);
    let cpu = clock::digits(place.next()?)?.try_into().ok()?;
    if let Some((_, next)) = rest.split_once("=>") {
        let tid = thread_of(next.trim())?;
        return Some(GraphLine::Switch { cpu, tid });
    }
    let mut columns = rest.split('|').map(str::trim);
    let tid = columns.next().and_then(thread_of);
    columns.next()?;
    let Some(comment) = comment else {
        return Some(GraphLine::Function);
    };
    // Other comments are messages of the kernel.
    let is_event = |comment: &&str| {
        let word = comment.split(' ').next().unwrap_or_default();
        word.ends_with(':') || word.starts_with("sys_")
    };
    let comment = Some(comment.trim_end()).filter(is_event);
    let Some((event, fields)) = comment.and_then(event) else {
        return Some(GraphLine::Function);
    };
    let time = place.find_map(clock::decimal);
    Some(GraphLine::Event(Head {
        time_ns: time.unwrap_or(0),
        clock: match time {
            Some(_) => Clock::Time,
            None => Clock::Missing,
        },
        cpu,
        tid: tid.unwrap_or(0),
        has_thread: tid.is_some(),
        event,
        fields,
        ..Head::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_comments() {
        let read = |line: &str| match graph(line) {
            Some(GraphLine::Event(head)) => {
                assert_eq!((head.event, head.fields), ("mm_page_free", "pfn=1 order=0"));
                Some((head.time_ns, head.clock, head.cpu, head.tid))
            }
            _ => None,
        };
        #[rustfmt::skip]
        let cases = [
            (" 24)               |  ", (0, Clock::Missing, 24, 0)),
            ("  0)   cat-2212    |   d..1 |    ", (0, Clock::Missing, 0, 2212)),
            ("  889.213383 |  24)   a-b-7   |   1.688 us    |  ", (889_213_383_000, Clock::Time, 24, 7)),
        ];
        for (line, wanted) in cases {
            let line = format!("{line}/* mm_page_free: pfn=1 order=0 */");
            assert_eq!(read(&line), Some(wanted), "{line}");
        }
    }

    #[test]
    fn other_lines_are_functions_switches_or_nothing() {
        for line in [
            " 24)   1.688 us    |    }",
            " 24) @ 184015.2 us |  }",
            " 1)   | f() { /* x */",
        ] {
            assert_eq!(graph(line), Some(GraphLine::Function), "{line}");
        }
        assert_eq!(
            graph(" 24)    cat-22   =>   bash-300"),
            Some(GraphLine::Switch { cpu: 24, tid: 300 })
        );
        for line in [
            "",
            "hello",
            " a) | x",
            "a-7 (12) [000] 1.0: x: f | g",
            "1) x",
        ] {
            assert_eq!(graph(line), None, "{line}");
        }
    }
}
