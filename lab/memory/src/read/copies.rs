//! Copies of files in `/proc`, recognised by their contents.
//!
//! Users have these files one by one, all in one text, or quoted in mail.
//!
//! # Invariants
//! Files of different kinds belong to one state until a kind repeats. The state names each of them, since they were
//! read at different moments.

use std::collections::HashSet;

use everybuddy_text::proc::zone_field;

use super::rows::{self, MANY, Row, Rows};
use super::{callers, merge, prefix};
use crate::state::{CpuList, Kind, MAX_ZONES, Place, State};

/// The file that a line belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    None,
    Buddyinfo,
    FreeByType,
    BlocksByType,
    Zone(usize),
    Vmstat,
    Meminfo,
    Allocinfo,
}

/// The copies in the files so far.
#[derive(Default)]
pub(crate) struct Copies {
    file: String,
    state: State,
    section: Section,
    buddyinfo: Rows,
    types: Rows,
    /// The zones of the state that `zoneinfo` begins.
    zones: HashSet<(u32, String)>,
    /// The orders in the heading of `pagetypeinfo`.
    heading: Vec<u8>,
    /// The line of the last row, which the next one may continue.
    row_line: u64,
    in_lists: bool,
    last_line: u64,
    done: Vec<State>,
}

impl Copies {
    /// Begins a file.
    pub(crate) fn begin(&mut self, file: &str) {
        self.file = file.to_owned();
        self.section = Section::None;
        self.row_line = 0;
    }

    /// Returns the next state that is complete.
    pub(crate) fn pop(&mut self) -> Option<State> {
        (!self.done.is_empty()).then(|| self.done.remove(0))
    }

    /// Returns `true` if the next line matters, whatever it contains.
    pub(crate) fn is_active(&self, line: u64) -> bool {
        self.section != Section::None && line <= self.last_line + 20
    }

    /// Reads a line. Returns `false` if it is not that of such a file.
    pub(crate) fn line(&mut self, number: u64, line: &[u8], has_end: bool) -> bool {
        let text = prefix::strip(line).rest;
        let is_read = self.read(number, text, has_end);
        if is_read {
            self.last_line = number;
        }
        is_read
    }

    fn read(&mut self, number: u64, text: &[u8], has_end: bool) -> bool {
        if let Some(row) = rows::row(text, number, has_end) {
            self.row(row);
            return true;
        }
        if self.row_line + 1 == number && self.join(number, text, has_end) {
            return true;
        }
        if let Some(at) = memchr::memmem::find(text, b"igrate type at order") {
            self.heading = text[at + 20..].to_vec();
            self.section = Section::FreeByType;
            self.row_line = 0;
            return true;
        }
        if memchr::memmem::find(text, b"umber of blocks type").is_some() {
            self.section = Section::BlocksByType;
            return true;
        }
        if let Some(at) = memchr::memmem::find(text, b"age block order:") {
            let order = std::str::from_utf8(text[at + 16..].trim_ascii()).unwrap_or_default();
            if self.state.has(Kind::Pagetypeinfo) {
                self.close();
            }
            self.state.page_block_order = order.parse().ok();
            self.section = Section::FreeByType;
            return true;
        }
        self.counter(number, text, has_end)
    }

    fn place(&self, line: u64) -> Place {
        Place {
            file: self.file.clone(),
            line,
        }
    }

    /// Names a text as part of the state. Ends the state if it has one of this kind from another file or place.
    fn begin_part(&mut self, kind: Kind, line: u64, is_repeated: bool) {
        if is_repeated {
            self.close();
        }
        if !self.state.has(kind) {
            let place = self.place(line);
            self.state.parts.push((kind, place));
        }
    }

    fn row(&mut self, row: Row) {
        let line = row.line;
        if row.class.is_some() {
            self.begin_part(Kind::Pagetypeinfo, line, self.types.has(&row));
            self.section = Section::FreeByType;
            let is_kept = self.types.push(row);
            self.row_line = if is_kept { line } else { 0 };
        } else if row.counts.is_empty() && !row.is_doubtful {
            let key = (row.node, row.zone);
            self.begin_part(Kind::Zoneinfo, line, self.zones.contains(&key));
            let place = self.place(line);
            if self.state.zones.len() < MAX_ZONES {
                self.state.zone(Some(key.0), &key.1, &place);
                self.zones.insert(key);
            }
            self.section = Section::Zone(self.state.zones.len().saturating_sub(1));
            self.in_lists = false;
        } else if self.section != Section::BlocksByType {
            self.begin_part(Kind::Buddyinfo, line, self.buddyinfo.has(&row));
            self.section = Section::Buddyinfo;
            let is_kept = self.buddyinfo.push(row);
            self.row_line = if is_kept { line } else { 0 };
        }
    }

    /// Joins a line of numbers to the row before it.
    fn join(&mut self, number: u64, text: &[u8], has_end: bool) -> bool {
        let is_number =
            |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace() || *byte == b'>';
        if text.trim_ascii().is_empty() || !text.iter().all(is_number) {
            return false;
        }
        let rows = match self.section {
            Section::Buddyinfo => &mut self.buddyinfo,
            Section::FreeByType => &mut self.types,
            _ => return false,
        };
        let Some(row) = rows.list.last_mut().filter(|row| row.text.len() < MANY) else {
            return false;
        };
        row.join(text, has_end);
        self.row_line = number;
        true
    }

    /// Reads a line of `zoneinfo`, `vmstat` or `meminfo`.
    fn counter(&mut self, number: u64, text: &[u8], has_end: bool) -> bool {
        let Ok(text) = std::str::from_utf8(text) else {
            return false;
        };
        let trimmed = text.trim();
        if trimmed.starts_with("MemTotal:") {
            self.begin_part(Kind::Meminfo, number, self.state.has(Kind::Meminfo));
            self.section = Section::Meminfo;
        } else if text.starts_with("nr_free_pages ") {
            self.begin_part(Kind::Vmstat, number, self.state.has(Kind::Vmstat));
            self.section = Section::Vmstat;
        } else if trimmed.starts_with("allocinfo - version") {
            self.begin_part(Kind::Allocinfo, number, self.state.has(Kind::Allocinfo));
            self.section = Section::Allocinfo;
            return true;
        }
        match self.section {
            Section::Allocinfo => {
                let caller = callers::caller(text.as_bytes()).filter(|_| has_end);
                caller.is_some_and(|caller| {
                    self.state.add_caller(caller);
                    true
                })
            }
            Section::Zone(zone) => self.zone_line(zone, trimmed, has_end),
            Section::Vmstat => {
                let Some((key, value)) = trimmed.split_once(' ') else {
                    return false;
                };
                let is_key = key
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
                match value.parse() {
                    Ok(value) if is_key && has_end && self.state.vmstat.len() < MANY => {
                        self.state.vmstat.insert(key.to_owned(), value);
                        true
                    }
                    _ => false,
                }
            }
            Section::Meminfo => {
                let Some((key, value)) = trimmed.split_once(':') else {
                    return false;
                };
                let value = value.trim();
                let size = value.strip_suffix("kB").map(str::trim_end);
                match size.unwrap_or(value).parse() {
                    Ok(number)
                        if (size.is_some() || has_end) && self.state.meminfo.len() < MANY =>
                    {
                        self.state.meminfo.insert(key.to_owned(), number);
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Reads a line of a zone in `zoneinfo`.
    fn zone_line(&mut self, zone: usize, text: &str, has_end: bool) -> bool {
        let Some(zone) = self.state.zones.get_mut(zone) else {
            return false;
        };
        if let Some(values) = text.strip_prefix("protection:") {
            let values = values.trim().strip_prefix('(');
            let values = values.and_then(|values| values.strip_suffix(')'));
            let number = |value: &str| value.trim().parse().ok();
            let values: Option<Vec<u64>> =
                values.and_then(|values| values.split(',').map(number).collect());
            zone.lowmem_reserve = values.unwrap_or_default();
            zone.lowmem_reserve.truncate(16);
            return true;
        }
        if text == "pagesets" {
            self.in_lists = true;
            return true;
        }
        let Some((key, value)) = zone_field(text).filter(|_| has_end) else {
            return false;
        };
        if self.in_lists {
            match key {
                "cpu:" if zone.lists.len() < 2 * MANY => {
                    let cpu = u32::try_from(value).unwrap_or(u32::MAX);
                    zone.lists.push(CpuList {
                        cpu,
                        ..CpuList::default()
                    });
                }
                "count:" | "high:" | "batch:" => {
                    let Some(list) = zone.lists.last_mut() else {
                        return true;
                    };
                    let field = match key {
                        "count:" => &mut list.count,
                        "high:" => &mut list.high,
                        _ => &mut list.batch,
                    };
                    *field = Some(value);
                }
                "start_pfn:" => zone.extent.start = Some(value),
                _ => {}
            }
            return true;
        }
        let field = match key {
            "free" => &mut zone.free,
            "boost" => &mut zone.boost,
            "min" => &mut zone.min,
            "low" => &mut zone.low,
            "high" => &mut zone.high,
            "spanned" => &mut zone.extent.spanned,
            "present" => &mut zone.extent.present,
            "managed" => &mut zone.extent.managed,
            "nr_free_cma" => &mut zone.free_cma,
            "nr_free_highatomic" => &mut zone.free_high_atomic,
            "start_pfn:" => &mut zone.extent.start,
            _ => return true,
        };
        *field = Some(value);
        true
    }

    /// Ends the state.
    pub(crate) fn close(&mut self) {
        let mut state = std::mem::take(&mut self.state);
        let (buddyinfo, types) = (
            std::mem::take(&mut self.buddyinfo),
            std::mem::take(&mut self.types),
        );
        self.zones.clear();
        let heading = rows::numbers(&std::mem::take(&mut self.heading));
        merge::merge(&mut state, buddyinfo, types, heading);
        self.section = Section::None;
        self.row_line = 0;
        if !state.parts.is_empty() {
            self.done.push(state);
        }
    }
}
