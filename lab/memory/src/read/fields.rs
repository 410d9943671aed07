//! Fields of the kernel's log lines: `free:13820kB min:64kB`, names of zones, requests.
//!
//! These functions find a field anywhere in a line, whatever precedes it.
//!
//! # Invariants
//! A number without its unit may be cut, and is not used.

use everybuddy_text::proc::digits;
use memchr::memmem::find;

use super::prefix::Stripped;
use crate::state::{Cause, Event, Place, ZoneKind};

/// The name of a zone in a line, and what follows it.
pub(crate) struct Named<'a> {
    pub node: Option<u32>,
    pub zone: &'a str,
    pub rest: &'a [u8],
}

/// Finds `[Node N ]ZONE free:`.
pub(crate) fn zone_line(text: &[u8]) -> Option<Named<'_>> {
    let at = find(text, b" free:")?;
    let named = name_before(text, at)?;
    // The sums of a whole machine have no unit.
    let (_, unit) = digits(&text[at + 6..]);
    unit.starts_with(b"kB").then_some(Named {
        rest: &text[at..],
        ..named
    })
}

/// Finds `[Node N ]ZONE:` before a table.
pub(crate) fn table_head(text: &[u8]) -> Option<Named<'_>> {
    let mut from = 0;
    while let Some(at) = memchr::memchr(b':', &text[from..]).map(|at| at + from) {
        from = at + 1;
        let rest = &text[at + 1..];
        let trimmed = rest.trim_ascii_start();
        let has_start =
            trimmed.is_empty() || trimmed.starts_with(b"empty") || trimmed[0].is_ascii_digit();
        if !has_start {
            continue;
        }
        let is_item = digits(trimmed).0.len();
        let is_table = trimmed.is_empty()
            || trimmed[0] == b'e'
            || trimmed.len() == is_item
            || trimmed[is_item] == b'*';
        if let (true, Some(named)) = (is_table, name_before(text, at)) {
            return Some(Named { rest, ..named });
        }
    }
    None
}

/// Reads the zone's name, and the node before it, that end at a position.
fn name_before(text: &[u8], end: usize) -> Option<Named<'_>> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let start = text[..end]
        .iter()
        .rposition(|byte| !is_name(byte))
        .map_or(0, |at| at + 1);
    let zone = &text[start..end];
    let node = node_before(&text[..start]);
    // Kernels without nodes print zones by name alone.
    let mut known = ZoneKind::ALL.into_iter();
    let is_zone = known.any(|kind| kind.name().as_bytes() == zone)
        || (node.is_some() && zone.first().is_some_and(u8::is_ascii_alphabetic));
    let zone = std::str::from_utf8(zone).ok()?;
    (is_zone && zone.len() <= 32).then_some(Named {
        node,
        zone,
        rest: &[],
    })
}

/// Reads `Node N` at the end of a text.
pub(crate) fn node_before(text: &[u8]) -> Option<u32> {
    let text = text.trim_ascii_end();
    let start = text.iter().rposition(|byte| !byte.is_ascii_digit())? + 1;
    let before = text[..start].trim_ascii_end();
    if start == text.len() || !before.ends_with(b"Node") || before.len() == start {
        return None;
    }
    number_of(&text[start..])
}

/// Reads the fields `key:NUMBERkB` of a text.
///
/// Returns their number, and the beginning of a field that the end of the text cut.
///
/// A sign `=` at the end is a soft break of quoted-printable text.
pub(crate) fn sizes(text: &[u8], mut field: impl FnMut(&[u8], u64)) -> (usize, Vec<u8>) {
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let mut found = 0;
    let mut words = text
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        let Some(colon) = memchr::memchr(b':', word) else {
            if words.peek().is_none()
                && word
                    .iter()
                    .all(|byte| byte.is_ascii_lowercase() || *byte == b'_')
            {
                return (found, word.to_vec());
            }
            continue;
        };
        let (key, value) = (&word[..colon], &word[colon + 1..]);
        let (number, unit) = digits(value);
        match (number_of(number), unit) {
            (Some(number), [b'k' | b'K', b'B', ..]) => {
                field(key, number);
                found += 1;
            }
            (_, b"" | b"k" | b"K") if words.peek().is_none() => return (found, word.to_vec()),
            _ => {}
        }
    }
    (found, Vec::new())
}

/// Reads the line that begins a report.
pub(crate) fn event(text: &[u8], place: &Place) -> Option<Event> {
    let after = |key: &[u8]| find(text, key).map(|at| &text[at + key.len()..]);
    let (cause, at) = if let Some(at) = find(text, b" invoked oom-killer") {
        (Cause::OutOfMemory, Some(at))
    } else if let Some(at) =
        find(text, b"vmalloc: allocation failure").or_else(|| find(text, b"vmalloc error"))
    {
        let process = text[..at]
            .trim_ascii_end()
            .strip_suffix(b":")
            .map(<[u8]>::len);
        (Cause::VmallocFailure, process)
    } else if let Some(at) = find(text, b": page allocation failure") {
        (Cause::AllocationFailure, Some(at))
    } else if let Some(event) = without_mmu(text, place) {
        return Some(event);
    } else if find(text, b"how Memory").is_some()
        && find(text, b"ysrq")
            .or_else(|| find(text, b"ysRq"))
            .is_some()
    {
        (Cause::SysRq, None)
    } else {
        return None;
    };
    let order = after(b"order:").or_else(|| after(b"order="));
    let order = order.or_else(|| after(b"page order "));
    let order = order.and_then(|text| {
        let length = text
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || **byte == b'-')
            .count();
        number_of(&text[..length])
    });
    let flags = after(b"gfp_mask=").or_else(|| after(b"mode:"));
    let flags = flags.map(|text| {
        let end = text
            .iter()
            .position(|byte| matches!(byte, b',' | b' '))
            .unwrap_or(text.len());
        shown(&text[..end])
    });
    let process = at
        .map(|at| shown(text[..at].trim_ascii()))
        .filter(|process| !process.is_empty());
    Some(Event {
        cause,
        process,
        order,
        flags,
        nodes: nodes(text),
        place: place.clone(),
    })
}

/// Reads `Allocation of length 491520 from process 1 (sh) failed`. Kernels without an MMU map blocks.
fn without_mmu(text: &[u8], place: &Place) -> Option<Event> {
    let at = find(text, b"Allocation of length ")? + 21;
    let (length, rest) = digits(&text[at..]);
    let length: u64 = number_of(length)?;
    let process = rest.strip_prefix(b" from process ")?;
    let first = memchr::memchr(b'(', process)? + 1;
    let last = memchr::memrchr(b')', process).filter(|last| *last > first)?;
    let frames = length.div_ceil(4096).clamp(1, 1 << 40);
    Some(Event {
        cause: Cause::AllocationFailure,
        process: Some(shown(&process[first..last])),
        order: Some(i64::from(frames.next_power_of_two().ilog2())),
        flags: None,
        nodes: Vec::new(),
        place: place.clone(),
    })
}

/// Reads the lists of nodes after `nodemask=` and `mems_allowed=`: `0-3,6`. A list that is cut is left out.
pub(crate) fn nodes(text: &[u8]) -> Vec<Vec<(u32, u32)>> {
    let after = |key: &&[u8]| find(text, key).map(|at| &text[at + key.len()..]);
    let keys: [&[u8]; 2] = [b"nodemask=", b"mems_allowed="];
    let lists = keys.iter().filter_map(after).map(|list| {
        // In quoted-printable text.
        let list = list.strip_prefix(b"3D").unwrap_or(list);
        let is_list = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'-' | b',');
        let length = list.iter().take_while(is_list).count();
        let ranges = list[..length]
            .split(|byte| *byte == b',')
            .filter(|range| !range.is_empty());
        let range = |range: &[u8]| {
            let mut ends = range.splitn(2, |byte| *byte == b'-').map(number_of);
            let first = ends.next()??;
            Some((first, ends.next().unwrap_or(Some(first))?))
        };
        ranges.map(range).collect::<Option<Vec<_>>>()
    });
    lists.flatten().filter(|list| !list.is_empty()).collect()
}

/// Reads the kernel's version from `CPU: ... Comm: prog Not tainted 4.4.114+ #249`, or from the first line of a boot.
pub(crate) fn kernel(text: &[u8]) -> Option<String> {
    let word = |text: &[u8]| {
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let is_version = word.first().is_some_and(u8::is_ascii_digit) && word.contains(&b'.');
        is_version.then(|| shown(word))
    };
    if let Some(at) = find(text, b"Linux version ") {
        return word(&text[at + 14..]);
    }
    let at = find(text, b"CPU: ").and_then(|_| find(text, b"ainted"))?;
    let number = find(&text[at..], b" #")? + at;
    let start = text[..number].iter().rposition(|byte| *byte == b' ')? + 1;
    word(&text[start..])
}

/// Reads a decimal number.
pub(crate) fn number_of<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the time of a line. Records of `/dev/kmsg` have microseconds.
pub(crate) fn time(line: &Stripped<'_>) -> Option<String> {
    let text = shown(line.time?);
    if text.len() < 7 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text);
    }
    let (seconds, rest) = text.split_at(text.len() - 6);
    Some(format!("{seconds}.{rest}"))
}

/// Returns printable text of bounded length.
pub(crate) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(1000)]);
    text.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}
