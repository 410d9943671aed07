//! The head of a line of a text recording: thread, CPU, time, event.
//!
//! # Purpose
//!
//! A thread may be named anything (`Web Content`, `a-1 [2] b:`), so that a line can't
//! be cut at spaces from the left: the time is found first, and what stands before it is read
//! backwards.
//!
//! # Invariants
//!
//! A head is given only for a line with a thread, a time and the name of an event.

/// The line format of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `name tid [cpu] time: system:event:`, as in perf script; also `pid/tid`, or without a CPU.
    Perf,
    /// `name-tid (tgid) [cpu] flags time: event:`, as in the kernel's trace file and trace-cmd.
    Kernel,
}

/// The head of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u16,
    pub(crate) tid: u32,
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
    let mut words: Vec<(usize, &str)> = Vec::with_capacity(MOST_WORDS);
    for word in line.split_ascii_whitespace().take(MOST_WORDS) {
        let at = word.as_ptr() as usize - line.as_ptr() as usize;
        if let Some(time_ns) = time(word)
            && let Some(head) = before(&words, style)
        {
            let (event, fields) = event(line[at + word.len()..].trim_start())?;
            return Some(Head {
                time_ns,
                event,
                fields,
                ..head
            });
        }
        words.push((at, word));
    }
    None
}

/// Parses `seconds.fraction:` with up to nine decimal places as nanoseconds.
fn time(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let nanos = fraction.parse::<u64>().ok()? * scale;
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(nanos)
}

/// Parses the words before the time, from the last to the first.
fn before<'a>(words: &[(usize, &'a str)], style: Style) -> Option<Head<'a>> {
    let mut words = words.iter().map(|(_, word)| *word).rev().peekable();
    let mut head = Head {
        time_ns: 0,
        cpu: 0,
        tid: 0,
        tgid: None,
        in_interrupt: false,
        has_flags: false,
        event: "",
        fields: "",
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
        return None;
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
    let (_, tid) = word.rsplit_once('-')?;
    head.tid = tid.parse().ok()?;
    Some(head)
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
fn event(mut rest: &str) -> Option<(&str, &str)> {
    // perf may write the number of occurrences, or a sample's weight, before the event's name.
    if let Some((number, after)) = rest.split_once(' ')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
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
            assert_eq!(
                (kernel.1, kernel.2, kernel.3, kernel.4),
                (2, 7, Some(5), true),
                "{name}"
            );
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
        assert_eq!(
            (call.5.as_str(), call.6.as_str()),
            ("sys_mmap", "(addr: 0)")
        );
        let result = read("a-6 [000] .... 1.5: sys_mmap -> 0x7", Style::Kernel);
        assert_eq!(
            (result.5.as_str(), result.6.as_str()),
            ("sys_mmap", "-> 0x7")
        );
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
        assert_eq!(
            head("a-6 [000] 123456: e: f", Style::Kernel),
            None,
            "no seconds"
        );
    }
}
