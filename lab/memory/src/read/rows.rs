//! Rows of numbers: `/proc/buddyinfo`, `/proc/pagetypeinfo`.
//!
//! These files have no checksum. Their layout shows whether a wrapped row can be joined without doubt.
//!
//! # Invariants
//! A row whose numbers are in doubt is rejected, and so is one with another number of columns than the others. Time is
//! in proportion to the number of rows.

use std::collections::{HashMap, HashSet};

use everybuddy_text::proc::{ZoneRow, word, zone_row};

use crate::state::{Count, MAX_CLASSES};

/// The maximum number of rows of a table.
pub(crate) const MANY: usize = 4096;

/// The least number of orders of a kernel.
const MIN_ORDERS: usize = 8;

/// A row: the node and the zone, the class if it has one, and the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub node: u32,
    pub zone: String,
    pub class: Option<String>,
    pub counts: Vec<Count>,
    pub line: u64,
    /// The text of the numbers so far.
    pub text: Vec<u8>,
    /// Whether the numbers are in doubt.
    pub is_doubtful: bool,
    /// Whether the last number is followed by a blank or a line end.
    pub has_end: bool,
    /// Whether the row ends with a blank.
    pub has_blank: bool,
}

/// The rows of a table.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The rows in their order, at most [`MANY`].
    pub list: Vec<Row>,
    /// What is in the list: the node, the zone, the class. Scanning the list for each row would take quadratic time.
    known: HashSet<(u32, String, Option<String>)>,
    /// The classes of each node and zone.
    classes: HashMap<(u32, String), usize>,
    /// Why rows are not in the list, if any is.
    pub cut: Option<String>,
}

impl Rows {
    /// Returns `true` if the list has a row of the same name.
    pub(crate) fn has(&self, row: &Row) -> bool {
        self.known.contains(&row.key())
    }

    /// Adds a row, unless there are too many. Returns `true` if the list has it now.
    pub(crate) fn push(&mut self, row: Row) -> bool {
        let (line, node, zone) = (row.line, row.node, &row.zone);
        if self.list.len() >= MANY {
            let reason = format!("{line}: it has more than {MANY} rows");
            self.cut.get_or_insert(reason);
            return false;
        }
        let classes = self.classes.entry((node, zone.clone())).or_default();
        *classes += 1;
        if *classes > MAX_CLASSES {
            let reason =
                format!("{line}: zone {zone} of node {node} has more than {MAX_CLASSES} classes");
            self.cut.get_or_insert(reason);
            return false;
        }
        self.known.insert(row.key());
        self.list.push(row);
        true
    }
}

/// Reads `Node N, zone NAME[, type TYPE] NUMBERS`. A row without numbers begins a zone of `/proc/zoneinfo`.
pub(crate) fn row(text: &[u8], line: u64, has_end: bool) -> Option<Row> {
    let ZoneRow { node, zone, rest } = zone_row(text)?;
    let (zone, class, rest) = match zone.strip_suffix(b",") {
        Some(zone) => {
            let rest = rest.trim_ascii_start().strip_prefix(b"type")?;
            let (class, rest) = word(rest.trim_ascii_start())?;
            (zone, Some(class), rest)
        }
        None => (zone, None, rest),
    };
    let name = |text: &[u8]| {
        String::from_utf8(text.to_vec())
            .ok()
            .filter(|name| !name.contains(char::is_control))
    };
    let class = match class {
        Some(class) => Some(name(class)?),
        None => None,
    };
    let (counts, is_doubtful) = match numbers(rest) {
        Some(counts) => (counts, false),
        None => (Vec::new(), true),
    };
    Some(Row {
        node,
        zone: name(zone)?,
        class,
        counts,
        line,
        text: rest.to_vec(),
        is_doubtful,
        has_end,
        has_blank: rest.last().is_some_and(u8::is_ascii_whitespace),
    })
}

/// Reads numbers, each of which may be a lower bound (`>100000`).
pub(crate) fn numbers(text: &[u8]) -> Option<Vec<Count>> {
    let words = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let number = |word: &[u8]| {
        let (digits, at_least) = match word.strip_prefix(b">") {
            Some(digits) => (digits, true),
            None => (word, false),
        };
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let value = is_number
            .then(|| std::str::from_utf8(digits).ok()?.parse().ok())
            .flatten()?;
        Some(Count { value, at_least })
    };
    words.map(number).collect()
}

impl Row {
    fn key(&self) -> (u32, String, Option<String>) {
        (self.node, self.zone.clone(), self.class.clone())
    }

    /// Joins a further line. It must contain numbers only.
    pub(crate) fn join(&mut self, text: &[u8], has_end: bool) {
        let has_blank = |text: &[u8], at: Option<&u8>| {
            text.is_empty() || at.is_some_and(u8::is_ascii_whitespace)
        };
        let is_apart = has_blank(&self.text, self.text.last()) || has_blank(text, text.first());
        match (is_apart, last_is_whole(&self.text)) {
            (true, _) | (false, Some(true)) => self.text.push(b' '),
            (false, Some(false)) => {}
            (false, None) => self.is_doubtful = true,
        }
        self.text.extend_from_slice(text);
        self.has_end = has_end;
        self.has_blank = text.last().is_some_and(u8::is_ascii_whitespace);
        match numbers(&self.text) {
            Some(counts) => self.counts = counts,
            None => self.is_doubtful = true,
        }
    }
}

/// Returns `true` if the last number is whole, as the columns before it show.
///
/// The kernel pads each number to six digits and adds a blank. Returns `None` if the columns are not aligned.
fn last_is_whole(text: &[u8]) -> Option<bool> {
    let mut ends = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        let next = text.get(at + 1);
        if !byte.is_ascii_whitespace() && next.is_none_or(u8::is_ascii_whitespace) {
            ends.push(at);
        }
    }
    let (last, others) = ends.split_last()?;
    let previous = others.last()?;
    let is_aligned = others.len() >= 2 && others.windows(2).all(|pair| pair[1] - pair[0] == 7);
    match (is_aligned, last - previous) {
        (true, 7) => Some(true),
        (true, 1..7) => Some(false),
        _ => None,
    }
}

/// Returns the number of columns of a table: the most frequent one, and the largest of several.
pub(crate) fn columns(rows: &[Row]) -> usize {
    let mut lengths: Vec<usize> = rows
        .iter()
        .filter(|row| !row.is_doubtful)
        .map(|row| row.counts.len())
        .collect();
    lengths.sort_unstable();
    let groups = lengths.chunk_by(|one, other| one == other);
    groups
        .max_by_key(|group| (group.len(), group[0]))
        .map_or(0, |group| group[0])
}

/// Returns the reason to reject a row, if there is one.
pub(crate) fn flaw(row: &Row, columns: usize, all_have_blanks: bool) -> Option<String> {
    if row.is_doubtful {
        return Some("its numbers cannot be told apart".to_owned());
    }
    if row.counts.len() != columns {
        return Some(format!(
            "it has {} numbers where others have {columns}",
            row.counts.len()
        ));
    }
    if !(MIN_ORDERS..=crate::state::MAX_ORDERS).contains(&columns) {
        return Some(format!(
            "it has {columns} numbers, fewer or more than the orders of any kernel"
        ));
    }
    (!row.has_end && all_have_blanks && !row.has_blank).then(|| "its end is missing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "Node 0, zone   Normal  13113  13891  29593  22993  17053  10124   4813   1677    \
                        492      1    261 ";

    fn read(parts: &[&str]) -> Row {
        let mut first = row(parts[0].as_bytes(), 1, true).unwrap();
        for part in &parts[1..] {
            first.join(part.as_bytes(), true);
        }
        first
    }

    #[test]
    fn a_row_that_is_cut_anywhere_is_joined_exactly_or_rejected() {
        let whole = read(&[LINE]);
        assert_eq!(whole.counts.len(), 11);
        for cut in 23..LINE.len() {
            let (one, other) = LINE.split_at(cut);
            let joined = read(&[one, other]);
            assert!(joined.is_doubtful || joined.counts == whole.counts, "{cut}");
            let trimmed = read(&[one.trim_end(), other.trim_start()]);
            let flaw = flaw(&trimmed, 11, false);
            assert!(
                flaw.is_some() || trimmed.counts == whole.counts,
                "{cut} {:?}",
                trimmed.counts
            );
        }
    }

    #[test]
    fn lower_bounds_are_read() {
        let row = row(
            b"Node    0, zone   Normal, type      Movable >100000  5 ",
            1,
            true,
        )
        .unwrap();
        assert_eq!(row.class.as_deref(), Some("Movable"));
        assert_eq!(
            row.counts[0],
            Count {
                value: 100_000,
                at_least: true
            }
        );
        assert_eq!(row.counts[1], Count::exact(5));
    }
}
