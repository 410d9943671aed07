//! Counters of a whole machine in the kernel's log: `active_anon:1413442`, `Free swap  = 84kB`, `4115400 pages RAM`.
//!
//! They tell whether memory is full, and whether a report lists all zones.
//!
//! # Invariants
//! A counter has the name of the same number in `/proc`.

use everybuddy_text::proc::digits;
use memchr::memmem::find;

use super::{Log, Report, is_next};
use crate::read::fields::number_of;
use crate::read::prefix::Stripped;
use crate::state::Place;

/// The names in a log, and those in `/proc/vmstat`.
const COUNTERS: [(&str, &str); 10] = [
    ("active_anon", "nr_active_anon"),
    ("inactive_anon", "nr_inactive_anon"),
    ("active_file", "nr_active_file"),
    ("inactive_file", "nr_inactive_file"),
    ("unevictable", "nr_unevictable"),
    ("slab_reclaimable", "nr_slab_reclaimable"),
    ("slab_unreclaimable", "nr_slab_unreclaimable"),
    ("pagetables", "nr_page_table_pages"),
    ("sec_pagetables", "nr_sec_page_table_pages"),
    ("kernel_misc_reclaimable", "nr_kernel_misc_reclaimable"),
];

/// Reads the counters in frames. Those of nodes and zones have a unit.
fn counters(text: &[u8]) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter_map(|word| {
        let colon = memchr::memchr(b':', word)?;
        let key = |(key, _): &&(&str, &str)| key.as_bytes() == &word[..colon];
        let (_, name) = COUNTERS.iter().find(key)?;
        let (number, rest) = digits(&word[colon + 1..]);
        // The journal writes the end of a line as `\x0a`.
        let is_whole = rest.is_empty() || rest.starts_with(b"\\");
        Some((*name, number_of(number).filter(|_| is_whole)?))
    })
}

/// A sum at the end of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    /// A size in KiB, by its name in `/proc/meminfo`.
    Size(&'static str),
    /// The frames of all zones.
    Ram,
    /// The frames of `HighMem`.
    High,
}

/// Returns what follows a sign `=`, which quoted-printable text writes as `=3D`.
fn plain(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"3D").unwrap_or(text)
}

/// Reads a sum.
fn sum(text: &[u8]) -> Option<(Sum, u64)> {
    let text = text.trim_ascii();
    for (words, name) in [
        (&b"Free swap"[..], "SwapFree"),
        (b"Total swap", "SwapTotal"),
    ] {
        let Some(rest) = text.strip_prefix(words) else {
            continue;
        };
        let rest = rest.trim_ascii_start().strip_prefix(b"=")?;
        let (number, unit) = digits(plain(rest).trim_ascii_start());
        let kib = number_of(number).filter(|_| unit.starts_with(b"kB"))?;
        return Some((Sum::Size(name), kib));
    }
    if let Some(at) = find(text, b"hugepages_total=") {
        let after = |text: &[u8]| number_of::<u64>(digits(plain(text)).0);
        let size = find(text, b"hugepages_size=")?;
        let kib = after(&text[size + 15..])?.saturating_mul(after(&text[at + 16..])?);
        return Some((Sum::Size("Hugetlb"), kib));
    }
    let (number, words) = digits(text);
    let sum = match words {
        b" pages RAM" | b" pages of RAM" => Sum::Ram,
        b" pages HighMem/MovableOnly" | b" pages HighMem" | b" pages of HIGHMEM" => Sum::High,
        _ => return None,
    };
    Some((sum, number_of(number)?))
}

impl Log {
    /// Reads counters of the whole machine. Returns `false` if the line has none.
    pub(super) fn counters(&mut self, place: &Place, line: &Stripped<'_>) -> bool {
        let number = place.line;
        // The rest of a number that a terminal broke.
        if let Some((serial, name, last)) = self.counter.take()
            && last + 1 == number
            && line.time.is_none()
            && line.rest.first().is_some_and(u8::is_ascii_digit)
            && let Some(report) = self
                .reports
                .iter_mut()
                .find(|report| report.serial == serial)
        {
            report.state.vmstat.remove(name);
        }
        let is_own =
            |report: &Report| is_next(report.caller.as_deref(), report.last_line, number, line);
        if let Some((sum, value)) = sum(line.rest) {
            for report in self.reports.iter_mut().filter(|report| is_own(report)) {
                let state = &mut report.state;
                match sum {
                    Sum::Size("Hugetlb") => {
                        let sum = state.meminfo.entry("Hugetlb".to_owned()).or_default();
                        *sum = sum.saturating_add(value);
                    }
                    Sum::Size(name) if !state.meminfo.contains_key(name) => {
                        state.meminfo.insert(name.to_owned(), value);
                    }
                    Sum::Ram if state.ram.is_none() => state.ram = Some(value),
                    Sum::High if state.high.is_none() => state.high = Some(value),
                    _ => continue,
                }
                break;
            }
            return true;
        }
        let mut has_any = false;
        for (name, value) in counters(line.rest) {
            // Some reports begin with the first counter.
            let is_open = |report: &Report| is_own(report) && report.state.zones.is_empty();
            if name == COUNTERS[0].1 && !self.reports.iter().any(is_open) {
                self.open(place, line);
            }
            let lacks = |report: &&mut Report| {
                is_own(report)
                    && report.state.zones.is_empty()
                    && !report.state.vmstat.contains_key(name)
            };
            if let Some(report) = self.reports.iter_mut().find(lacks) {
                report.state.vmstat.insert(name.to_owned(), value);
                report.last_line = number;
                self.counter = Some((report.serial, name, number));
            }
            has_any = true;
        }
        has_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_sums_of_all_versions() {
        let line = br"active_file:36568 inactive_file:754506 isolated_file:0\x0a pagetables:2614\x0a free:9";
        let read: Vec<_> = counters(line).collect();
        let expected = [
            ("nr_active_file", 36568),
            ("nr_inactive_file", 754_506),
            ("nr_page_table_pages", 2614),
        ];
        assert_eq!(read, expected);
        // Those of nodes and zones have a unit, and a soft break may cut one.
        assert_eq!(counters(b"active_anon:168kB unevictable:13=").count(), 0);
        for (line, expected) in [
            ("Free swap  = 84kB", Some((Sum::Size("SwapFree"), 84))),
            (
                "Total swap =3D 1048572kB",
                Some((Sum::Size("SwapTotal"), 1_048_572)),
            ),
            ("4115400 pages RAM", Some((Sum::Ram, 4_115_400))),
            ("4162048 pages of RAM", Some((Sum::Ram, 4_162_048))),
            ("3833856 pages of HIGHMEM", Some((Sum::High, 3_833_856))),
            (
                "Node 0 hugepages_total=8 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB",
                Some((Sum::Size("Hugetlb"), 16384)),
            ),
            ("97082 pages reserved", None),
            ("Free swap  = 84", None),
        ] {
            assert_eq!(sum(line.as_bytes()), expected, "{line}");
        }
    }
}
