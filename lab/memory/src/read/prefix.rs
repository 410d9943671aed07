//! What precedes a line of the kernel: times, hosts, marks of quotes.
//!
//! Logs reach this program through `dmesg`, the journal, syslog, containers and mail, and each adds a prefix.
//!
//! # Invariants
//! The rest of the line is unchanged, and its leading blanks remain except the one that ends a prefix.

/// A line, divided into its prefix and the kernel's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stripped<'a> {
    /// The time, as printed.
    pub time: Option<&'a [u8]>,
    /// The thread or the CPU that printed the line (`T59`, `C1`).
    pub caller: Option<&'a [u8]>,
    /// The kernel's text.
    pub rest: &'a [u8],
}

/// The prefix ends within this number of bytes.
const LONGEST: usize = 160;

/// Removes the prefix of a line.
pub(crate) fn strip(line: &[u8]) -> Stripped<'_> {
    let mut stripped = Stripped {
        rest: line,
        ..Stripped::default()
    };
    for _ in 0..12 {
        let before = stripped.rest.len();
        step(&mut stripped);
        if stripped.rest.len() == before {
            break;
        }
    }
    stripped
}

/// Removes one part of the prefix, if there is one.
fn step<'a>(stripped: &mut Stripped<'a>) {
    let rest = stripped.rest;
    let trimmed = rest.trim_ascii_start();
    match trimmed.first() {
        Some(b'\x1b') => {
            let end = trimmed.iter().take(16).position(u8::is_ascii_alphabetic);
            stripped.rest = end.map_or(rest, |end| &trimmed[end + 1..]);
        }
        Some(b'>') => {
            let marks = trimmed.iter().take_while(|byte| **byte == b'>').count();
            stripped.rest = after_blank(&trimmed[marks..]);
        }
        Some(b'<') if level(trimmed) > 0 => stripped.rest = &trimmed[level(trimmed)..],
        Some(b'[') => bracket(stripped, trimmed),
        // What remains of a name that was removed.
        Some(b':') if matches!(trimmed[1..].trim_ascii_start(), [b'[' | b'<', ..]) => {
            stripped.rest = &trimmed[1..];
        }
        Some(first) if first.is_ascii_alphanumeric() => host(stripped, trimmed),
        _ => {}
    }
}

fn after_blank(text: &[u8]) -> &[u8] {
    text.strip_prefix(b" ").unwrap_or(text)
}

/// Returns the length of a level such as `<4>`, or 0.
fn level(text: &[u8]) -> usize {
    match text.iter().take(6).position(|byte| *byte == b'>') {
        Some(end) if end > 1 && text[1..end].iter().all(u8::is_ascii_digit) => end + 1,
        _ => 0,
    }
}

/// Removes `[ 12.345]`, `[Fri Apr 17 19:55:54 2026]`, `[  +0.002367]`, `[ T59]` or `[3: task:22875]`.
fn bracket<'a>(stripped: &mut Stripped<'a>, text: &'a [u8]) {
    let Some(end) = text.iter().take(64).position(|byte| *byte == b']') else {
        return;
    };
    let content = text[1..end].trim_ascii();
    let digits = content.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_caller = is_task(content)
        || matches!(content.first(), Some(b'T' | b'C'))
            && digits > 0
            && digits + 1 == content.len();
    let is_time = digits >= 2 && content.iter().any(|byte| matches!(byte, b'.' | b':'));
    if is_caller {
        stripped.caller = Some(content);
    } else if is_time {
        stripped.time = Some(content);
    } else {
        return;
    }
    stripped.rest = after_blank(&text[end + 1..]);
}

/// Returns `true` for a CPU, a task and its number: `3: task:22875`.
fn is_task(content: &[u8]) -> bool {
    let is_number = |text: &[u8]| {
        let text = text.trim_ascii();
        !text.is_empty() && text.iter().all(u8::is_ascii_digit)
    };
    let ends = memchr::memchr(b':', content).zip(memchr::memrchr(b':', content));
    ends.is_some_and(|(first, last)| {
        is_number(&content[..first])
            && is_number(&content[last + 1..])
            && content[first..last].iter().any(u8::is_ascii_alphabetic)
    })
}

/// Removes `4,1234,56789012,-,caller=T1;`, which precedes each line of `/dev/kmsg`.
fn record<'a>(stripped: &mut Stripped<'a>, text: &'a [u8]) -> Option<()> {
    let end = memchr::memchr(b';', &text[..text.len().min(LONGEST)])?;
    let mut fields = text[..end].split(|byte| *byte == b',');
    let mut number = || {
        let is_number = |field: &&[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
        fields.next().filter(is_number)
    };
    let (_, _, time) = (number()?, number()?, number()?);
    stripped.time = Some(time);
    let caller = fields.find_map(|field| field.strip_prefix(b"caller="));
    stripped.caller = caller.or(stripped.caller);
    stripped.rest = &text[end + 1..];
    Some(())
}

/// Removes the prefix of syslog, the journal or a container.
fn host<'a>(stripped: &mut Stripped<'a>, text: &'a [u8]) {
    if record(stripped, text).is_some() {
        return;
    }
    if text.len() > 19 && is_like(&text[..19], b"0000-00-00T00:00:00") {
        let end = memchr::memchr(b' ', &text[..text.len().min(64)]).unwrap_or(text.len());
        stripped.time = Some(&text[..end]);
        stripped.rest = after_blank(&text[end..]);
        return;
    }
    for stream in [&b"stdout F "[..], b"stderr F ", b"stdout P ", b"stderr P "] {
        if let Some(rest) = text.strip_prefix(stream) {
            stripped.rest = rest;
            return;
        }
    }
    let head = &text[..text.len().min(LONGEST)];
    let Some(at) = memchr::memmem::find(head, b"kernel") else {
        return;
    };
    let Some(colon) = head[at..].iter().position(|byte| *byte == b':') else {
        return;
    };
    let is_named = head[at + 6..at + colon]
        .iter()
        .all(|byte| matches!(byte, b'[' | b']' | b'0'..=b'9'));
    if !is_named || (at > 0 && head[at - 1] != b' ') {
        return;
    }
    if stripped.time.is_none() {
        let clock = head[..at]
            .windows(8)
            .position(|window| is_like(window, b"00:00:00"));
        stripped.time = clock.map(|clock| &head[..clock + 8]);
    }
    stripped.rest = after_blank(&text[at + colon + 1..]);
}

/// Returns `true` if the text has digits where the pattern has `0`, and equals it otherwise.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let is_same = |(byte, expected): (&u8, &u8)| match expected {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() == pattern.len() && text.iter().zip(pattern).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_prefix() {
        #[rustfmt::skip]
        let cases: [(&str, Option<&str>, Option<&str>, &str); 16] = [
            ("Mem-Info:", None, None, "Mem-Info:"),
            ("[   81.429116] Mem-Info:", Some("81.429116"), None, "Mem-Info:"),
            ("[   81.4][ C1] Mem-Info:", Some("81.4"), Some("C1"), "Mem-Info:"),
            ("[   81.4][   T59] Mem-Info:", Some("81.4"), Some("T59"), "Mem-Info:"),
            ("[Mo Apr 17 19:55:54 2026] DMA: 1", Some("Mo Apr 17 19:55:54 2026"), None, "DMA: 1"),
            (">> [ 1054.0] DMA: 1", Some("1054.0"), None, "DMA: 1"),
            (">     [ 1054.0] DMA: 1", Some("1054.0"), None, "DMA: 1"),
            ("[  +0.002367] DMA: 1", Some("+0.002367"), None, "DMA: 1"),
            ("Dec  8 01:56:31 h kernel: [106.88] DMA: 1", Some("106.88"), None, "DMA: 1"),
            ("Dec  8 01:56:31 h kernel: DMA: 1", Some("Dec  8 01:56:31"), None, "DMA: 1"),
            ("2026-01-02T03:04:05.6Z stdout F <4>DMA: 1", Some("2026-01-02T03:04:05.6Z"), None, "DMA: 1"),
            ("<4>[ 6207.6]  [3:  prog:9343_3:22875] DMA: 1", Some("6207.6"), Some("3:  prog:9343_3:22875"), "DMA: 1"),
            ("[0:swapper/0:    0] DMA: 1", None, Some("0:swapper/0:    0"), "DMA: 1"),
            (": [   14.01][    T1] swapper/0: x", Some("14.01"), Some("T1"), "swapper/0: x"),
            ("4,1021,6207637280,-,caller=T1;DMA: 1", Some("6207637280"), Some("T1"), "DMA: 1"),
            ("[  246]     0   246", None, None, "[  246]     0   246"),
        ];
        for (line, time, caller, rest) in cases {
            let stripped = strip(line.as_bytes());
            assert_eq!(stripped.time, time.map(str::as_bytes), "{line}");
            assert_eq!(stripped.caller, caller.map(str::as_bytes), "{line}");
            assert_eq!(stripped.rest, rest.as_bytes(), "{line}");
        }
    }
}
