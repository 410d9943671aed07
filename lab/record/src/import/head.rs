//! The head of a line of a text recording: thread, CPU, time, event.
//!
//! A thread may be named anything (`Web Content`, `a-1 [2] b:`), so that a line can't be cut at spaces from the left:
//! the time is found first, and what stands before it is read backwards.
//!
//! # Invariants
//! A head is given only for a line with the name of an event, and with a thread and a time. A line of perf without
//! one of these must name an event with its system, and a line without a time an event of the page allocator.

use super::clock::{self, Clock};

/// The line format of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `name tid [cpu] time: system:event:`, as in perf script; also `pid/tid`, or without a CPU.
    Perf,
    /// `name-tid (tgid) [cpu] flags time: event:`, as in the kernel's trace file and trace-cmd.
    Kernel,
}

/// The head of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) time_ns: u64,
    pub(crate) clock: Clock,
    pub(crate) cpu: u16,
    pub(crate) tid: u32,
    /// Whether the line names the thread.
    pub(crate) has_thread: bool,
    pub(crate) tgid: Option<u32>,
    pub(crate) in_interrupt: bool,
    /// Whether there are flags of the thread's state between CPU and time.
    pub(crate) has_flags: bool,
    /// The name of the event, without its system; `sys_mmap(` and `sys_mmap ->` stay with the fields.
    pub(crate) event: &'a str,
    /// The rest of the line.
    pub(crate) fields: &'a str,
}

/// The number of words in which the time is searched: thread names have at most 15 characters.
const MOST_WORDS: usize = 24;

/// Parses the head of a line. Returns `None` if it has another format.
pub(crate) fn head(line: &str, style: Style) -> Option<Head<'_>> {
    let mut words: Vec<&str> = Vec::with_capacity(MOST_WORDS);
    let mut first = None;
    let mut rest = line.split_ascii_whitespace().take(MOST_WORDS).peekable();
    while let Some(word) = rest.next() {
        let next = rest.peek().copied().unwrap_or_default();
        if let Some((time_ns, clock, length)) = time(&words, word, next, style) {
            let last = if length == 2 { next } else { word };
            if let Some(head) = before(&words, style) {
                let (event, fields) = event(after(line, last))?;
                return Some(Head {
                    time_ns,
                    clock,
                    event,
                    fields,
                    ..head
                });
            }
            first = first.or(Some((words.len(), last, time_ns, clock)));
        }
        words.push(word);
    }
    match first {
        Some((at, last, time_ns, clock)) if style == Style::Perf => {
            without_thread(line, &words[..at], last, time_ns, clock)
        }
        _ => without_time(line, &words, style),
    }
}

/// Returns what stands after a word of a line.
fn after<'a>(line: &'a str, word: &str) -> &'a str {
    let at = word.as_ptr() as usize - line.as_ptr() as usize;
    line[at + word.len()..].trim_start()
}

/// Parses the time that begins at a word: nanoseconds, the clock, and the number of words.
fn time(before: &[&str], word: &str, next: &str, style: Style) -> Option<(u64, Clock, usize)> {
    if let Some(time) = clock::seconds(word) {
        return Some((time, Clock::Time, 1));
    }
    match style {
        // perf writes the time of day without a colon if no other time follows.
        Style::Perf => {
            let time = word.strip_suffix(':').unwrap_or(word);
            let time = clock::of_day(before.last()?, time)?;
            (clock::seconds(next).is_none()).then_some((time, Clock::Time, 1))
        }
        Style::Kernel => {
            let time = clock::microseconds(word, next);
            let time = time.map(|(time, length)| (time, Clock::Time, length));
            time.or_else(|| Some((clock::count(word)?, Clock::Count, 1)))
        }
    }
}

/// Parses a line of perf whose thread or CPU was not printed. The event's system shows that perf wrote the line.
fn without_thread<'a>(
    line: &'a str,
    words: &[&str],
    last: &str,
    time_ns: u64,
    clock: Clock,
) -> Option<Head<'a>> {
    let rest = after(line, last);
    let name = rest
        .split([' ', '('])
        .find(|word| clock::digits(word).is_none())?;
    let (system, _) = name.strip_suffix(':')?.split_once(':')?;
    if system.is_empty() || before(words, Style::Kernel).is_some() {
        return None;
    }
    let (event, fields) = event(rest)?;
    let cpu = perf_words(words).last().and_then(|word| cpu_of(word));
    Some(Head {
        time_ns,
        clock,
        cpu: cpu.unwrap_or(0),
        event,
        fields,
        ..Head::default()
    })
}

/// Parses a line without a time, which must be about the page allocator.
fn without_time<'a>(line: &'a str, words: &[&str], style: Style) -> Option<Head<'a>> {
    let is_event = |word: &&str| {
        let name = word.strip_suffix(':');
        let name = name.map(|name| match style {
            Style::Perf => name.strip_prefix("kmem:").unwrap_or_default(),
            Style::Kernel => name,
        });
        let is_plain = |name: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        name.is_some_and(|name| {
            (name.starts_with("mm_page_") || name == "mm_pagevec_free") && is_plain(name)
        })
    };
    let at = words.iter().position(is_event)?;
    let start = words[at].as_ptr() as usize - line.as_ptr() as usize;
    let (event, fields) = event(&line[start..])?;
    let head = match before(&words[..at], style) {
        Some(head) => head,
        None if at == 0 => Head::default(),
        None => return None,
    };
    Some(Head {
        event,
        fields,
        ..head
    })
}

/// Parses the words before the time, from the last to the first.
fn before<'a>(words: &[&'a str], style: Style) -> Option<Head<'a>> {
    let words = match style {
        Style::Perf => perf_words(words),
        Style::Kernel => words,
    };
    let mut words = words.iter().copied().rev().peekable();
    let mut head = Head {
        has_thread: true,
        ..Head::default()
    };
    let mut word = words.next()?;
    let mut cpu = cpu_of(word);
    if cpu.is_none()
        && let Some(found) = words.peek().and_then(|before| cpu_of(before))
    {
        head.in_interrupt = interrupt(word)?;
        head.has_flags = true;
        words.next();
        cpu = Some(found);
    } else if cpu.is_none() && style == Style::Kernel {
        let (number, flags) = cpu_with_flags(word)?;
        head.in_interrupt = interrupt(flags)?;
        head.has_flags = true;
        head.cpu = number;
        word = words.next()?;
    }
    if let Some(cpu) = cpu {
        head.cpu = cpu;
        word = words.next()?;
    }
    if style == Style::Perf {
        let (tgid, tid) = match word.split_once('/') {
            Some((tgid, tid)) => (Some(perf_number(tgid)?), tid),
            None => (None, word),
        };
        head.tid = perf_number(tid)?.unwrap_or(0);
        head.tgid = tgid.flatten();
        return Some(head);
    }
    // `(  123)` and `(-------)` are one or two words.
    if let Some(inner) = word.strip_suffix(')') {
        let inner = match inner.strip_prefix('(') {
            Some(inner) => inner,
            None => {
                words.next_if_eq(&"(")?;
                inner
            }
        };
        head.tgid = match inner.parse() {
            Ok(tgid) => Some(tgid),
            Err(_) if inner.bytes().all(|byte| byte == b'-') => None,
            Err(_) => return None,
        };
        word = words.next()?;
    }
    head.tid = thread_of(word)?;
    Some(head)
}

/// Returns the words of perf without those between the CPU and the time: the mode of the CPU (`K`, `U E`, of the field
/// `misc`) and the time of day (of the field `tod`).
fn perf_words<'w, 'a>(mut words: &'w [&'a str]) -> &'w [&'a str] {
    while let [rest @ .., last] = words {
        let is_date = clock::of_day(last, "0:0:0.0").is_some();
        let is_time = last.contains(':') && clock::of_day("1970-01-01", last).is_some();
        let is_mode = last.len() <= 4
            && last.bytes().all(|byte| b"KUHGgMES".contains(&byte))
            && rest.iter().any(|word| cpu_of(word).is_some());
        if !(is_date || is_time || is_mode || *last == "N/A") {
            break;
        }
        words = rest;
    }
    words
}

/// Parses a thread number of perf: -1 means that the thread has ended already.
fn perf_number(word: &str) -> Option<Option<u32>> {
    match word {
        "-1" => Some(None),
        word => word.parse().ok().map(Some),
    }
}

/// Parses `[003]`.
fn cpu_of(word: &str) -> Option<u16> {
    let digits = word.strip_prefix('[')?.strip_suffix(']')?;
    digits.parse().ok()
}

/// Parses the thread of `name-275`.
pub(crate) fn thread_of(word: &str) -> Option<u32> {
    word.rsplit_once('-')?.1.parse().ok()
}

/// Splits `6d..1.` of the latency format into the CPU and the state.
fn cpu_with_flags(word: &str) -> Option<(u16, &str)> {
    let end = word.find(|c: char| !c.is_ascii_digit())?;
    let (number, flags) = word.split_at(end);
    let is_state = flags.starts_with(['.', 'd', 'D', 'b', 'B', 'X']);
    Some((number.parse().ok().filter(|_| is_state)?, flags))
}

/// Parses the state of a thread, `d..h1.`, and returns whether an interrupt had suspended it. Returns `None` for any
/// other word.
fn interrupt(word: &str) -> Option<bool> {
    let is_state = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'#');
    if !(3..=10).contains(&word.len()) || !word.bytes().all(is_state) {
        return None;
    }
    // h, H: a hardware interrupt, also within a soft one; s: a soft interrupt; z, Z: a non-maskable interrupt.
    Some(matches!(
        word.as_bytes()[2],
        b'h' | b'H' | b's' | b'z' | b'Z'
    ))
}

/// Splits the part after the time into the event and its fields.
pub(crate) fn event(mut rest: &str) -> Option<(&str, &str)> {
    // trace-cmd may write the time since the previous line, `(+4)`. perf may write the number of occurrences, or a
    // sample's weight, before the event's name.
    if let Some((word, after)) = rest.split_once(' ')
        && (clock::digits(word).is_some() || is_difference(word))
    {
        rest = after.trim_start();
    }
    let end = rest.find([' ', '(']).unwrap_or(rest.len());
    let (word, fields) = rest.split_at(end);
    let name = match word.strip_suffix(':') {
        Some(name) => name.rsplit(':').next()?,
        // The kernel's format for system calls has no colon, nor have perf's own records.
        None => word,
    };
    (!name.is_empty()).then_some((name, fields.trim_start_matches(' ')))
}

/// Returns `true` for `(+4)`.
fn is_difference(word: &str) -> bool {
    let inner = word
        .strip_prefix('(')
        .and_then(|word| word.strip_suffix(')'));
    let number = inner.and_then(|inner| inner.strip_prefix(['+', '-']));
    number.is_some_and(|number| {
        number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}
#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(line: &str, style: Style) -> (u64, u16, u32, Option<u32>, bool, String, String) {
        let h = head(line, style).unwrap();
        let (event, fields) = (h.event.to_string(), h.fields.to_string());
        (
            h.time_ns,
            h.cpu,
            h.tid,
            h.tgid,
            h.in_interrupt,
            event,
            fields,
        )
    }

    #[test]
    fn names_of_threads_may_look_like_anything() {
        let rest = "7 [002] 12.000001: kmem:mm_page_free: page=0x1 pfn=0x1 order=0";
        for name in [
            "cc1",
            "Web Content",
            "a-1",
            "[1] b:",
            "x 3.5: y",
            "kworker/0:1-events",
            "",
        ] {
            let (time, cpu, tid, _, _, event, fields) =
                read(&format!("  {name} {rest}"), Style::Perf);
            assert_eq!(
                (time, cpu, tid, event.as_str()),
                (12_000_001_000, 2, 7, "mm_page_free")
            );
            assert_eq!(fields, "page=0x1 pfn=0x1 order=0");
            let line = format!("  {name}-7   (    5) [002] d.h1. 12.000001: mm_page_free: pfn=1");
            let kernel = read(&line, Style::Kernel);
            assert_eq!(kernel.1, 2, "{name}");
            assert_eq!(kernel.2, 7, "{name}");
            assert_eq!(kernel.3, Some(5), "{name}");
            assert!(kernel.4, "{name}");
        }
    }

    #[test]
    fn every_tool_is_read_as_it_writes() {
        let perf = read("a 5/6 [001] 1.123456789: 1 sys:e: f", Style::Perf);
        assert_eq!(
            perf,
            (1_123_456_789, 1, 6, Some(5), false, "e".into(), "f".into())
        );
        let none = read("a -1 [001] 1.5: sys:e: f", Style::Perf);
        assert_eq!((none.2, none.3), (0, None));
        let no_cpu = read("a 6 1.5: sys:e: f", Style::Perf);
        assert_eq!((no_cpu.1, no_cpu.2), (0, 6));
        let line = "a-6 (-------) [000] ..s.. 1.5: sys_mmap(addr: 0)";
        let call = read(line, Style::Kernel);
        assert_eq!((call.3, call.4), (None, true));
        assert_eq!(call.5.as_str(), "sys_mmap");
        assert_eq!(call.6.as_str(), "(addr: 0)");
        let result = read("a-6 [000] .... 1.5: sys_mmap -> 0x7", Style::Kernel);
        assert_eq!(result.5.as_str(), "sys_mmap");
        assert_eq!(result.6.as_str(), "-> 0x7");
    }

    #[test]
    fn other_lines_have_no_head() {
        for line in [
            "",
            "# tracer: nop",
            "ffffffff81 main+0x3 (/bin/x)",
            "a 6 [000] 1.5:",
            "a 6 [000] 1.1234567890: e: f",
            "a 6 [000] 99999999999999999999.5: e: f",
            "a x [000] 1.5: e: f",
        ] {
            assert_eq!(head(line, Style::Perf), None, "{line}");
        }
        assert_eq!(head("a-7 [000] 1.5: sched: e: f", Style::Perf), None);
        assert_eq!(head("a-7 [000] 123 e: f", Style::Kernel), None);
    }

    /// Returns the clock, the time, the thread, the CPU, the event and whether an interrupt had suspended the thread.
    #[track_caller]
    fn part(line: &str, style: Style) -> (Clock, u64, Option<u32>, u16, &str, bool) {
        let h = head(line, style).unwrap();
        let thread = h.has_thread.then_some(h.tid);
        (h.clock, h.time_ns, thread, h.cpu, h.event, h.in_interrupt)
    }

    #[test]
    fn the_kernel_has_other_clocks_and_formats() {
        let kernel = |line| part(line, Style::Kernel);
        let (count, time) = (Clock::Count, Clock::Time);
        #[rustfmt::skip]
        let cases = [
            ("a-6 [003] d.h1. 123456: e: f", (count, 123_456, Some(6), 3, "e", true)),
            ("a-6 [003] 123456: e: f", (count, 123_456, Some(6), 3, "e", false)),
            ("a-6 [003] d..1. 2.000857: (+4)  e: f", (time, 2_000_857_000, Some(6), 3, "e", false)),
            ("a-6  12d.h1. 2.000857: e: f", (time, 2_000_857_000, Some(6), 12, "e", true)),
            ("a-6   3d.... 889us : e: f", (time, 889_000, Some(6), 3, "e", false)),
            ("a-6   3d.... 889us+: e: f", (time, 889_000, Some(6), 3, "e", false)),
            ("[  8.2] [ T6]  <...>-6   3d..1. 889us : e: f", (time, 889_000, Some(6), 3, "e", false)),
        ];
        for (line, wanted) in cases {
            assert_eq!(kernel(line), wanted, "{line}");
        }
        let no_time = kernel("a-6 [003] ..... mm_page_free: pfn=1");
        assert_eq!(
            no_time,
            (Clock::Missing, 0, Some(6), 3, "mm_page_free", false)
        );
        let bare = kernel("mm_page_free: pfn=1");
        assert_eq!(bare, (Clock::Missing, 0, None, 0, "mm_page_free", false));
        assert_eq!(
            head("a-6 [003] xx: mm_page_free: pfn=1", Style::Kernel),
            None
        );
    }

    #[test]
    fn perf_may_leave_out_any_field() {
        let perf = |line| part(line, Style::Perf);
        let (time, second) = (Clock::Time, 1_000_000_000);
        let noon = 1_672_574_401 * second;
        #[rustfmt::skip]
        let cases = [
            ("1.0: kmem:e: f", (time, second, None, 0, "e", false)),
            ("[003] 1.0: kmem:e: f", (time, second, None, 3, "e", false)),
            ("Web Content [003] 1.0: kmem:e: f", (time, second, None, 3, "e", false)),
            ("7 1.0: kmem:e: f", (time, second, Some(7), 0, "e", false)),
            ("a 7 [003] K 1.0: kmem:e: f", (time, second, Some(7), 3, "e", false)),
            ("a 7 [003] 2023-01-01 12:00:01.0: kmem:e: f", (time, noon, Some(7), 3, "e", false)),
            ("a 7 [003] 2023-01-01 12:00:01.0 kmem:e: f", (time, noon, Some(7), 3, "e", false)),
            ("a 7 [003] 2023-01-01 12:00:01.0  1.0: kmem:e: f", (time, second, Some(7), 3, "e", false)),
            ("2023-01-01 12:00:01.0 kmem:e: f", (time, noon, None, 0, "e", false)),
            ("a 7 [003] N/A 1.0: kmem:e: f", (time, second, Some(7), 3, "e", false)),
            ("a 7 [003] kmem:mm_page_free: f", (Clock::Missing, 0, Some(7), 3, "mm_page_free", false)),
        ];
        for (line, wanted) in cases {
            assert_eq!(perf(line), wanted, "{line}");
        }
    }
}
