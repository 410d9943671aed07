//! Reports in the kernel's log: out of memory, allocation failures, sysrq.
//!
//! A report consists of an event, a line per zone and a table per zone. Several reports may overlap, since
//! CPUs print at the same time.
//!
//! # Invariants
//! A part belongs to the first open report that lacks it. If lines name the thread that printed them, parts never mix
//! between threads. Rejected tables are named in the report's remarks.

mod broken;
mod counters;

use std::collections::VecDeque;

use super::callers;
use super::fields::{self, Named};
use super::prefix::{self, Stripped};
use super::table::Table;
use crate::state::{Cause, Event, FrameSize, Kind, MAX_ZONES, Place, State, Zone};

/// A report ends after this number of lines without a part of it.
const QUIET: u64 = 120;

/// An event waits at most this number of lines for its report.
const PATIENCE: u64 = 400;

/// A wrapped line of a zone continues within this number of lines.
const NEAR: u64 = 6;

/// Counters of the machine precede and follow the parts of a report within this number of lines.
const AROUND: u64 = 60;

/// A node and its zone that the kernel printed one by one are at most this number of lines apart.
const APART: u64 = 20;

/// The maximum numbers of reports and tables that are open at the same time.
const OPEN: usize = 8;

/// The thread or the CPU that printed a line, if lines name it.
type Caller = Option<Vec<u8>>;

/// A report, while its parts arrive. Sizes of zones are in KiB until it is closed.
#[derive(Debug)]
struct Report {
    serial: u64,
    state: State,
    caller: Caller,
    last_line: u64,
    frame_kib: Option<u64>,
    /// The zones whose tables may lack their last orders.
    doubtful: Vec<(Option<u32>, String)>,
}

/// The line of a zone, whose fields may continue.
struct Fields {
    serial: u64,
    zone: usize,
    partial: Vec<u8>,
    caller: Caller,
    last_line: u64,
    in_reserve: bool,
}

/// The reports of one file.
#[derive(Default)]
pub(crate) struct Log {
    file: String,
    serial: u64,
    kernel: Option<String>,
    events: VecDeque<(Event, Caller, Option<String>)>,
    reports: Vec<Report>,
    tables: Vec<Table>,
    fields: Option<Fields>,
    /// `Node N` at the end of a line.
    node: Option<(u32, u64)>,
    /// The beginning of a line that a mail program may have broken, and the numbers of its first and last line.
    broken: Option<(Vec<u8>, u64, u64)>,
    /// The report, the name and the line of the last counter, whose digits may continue.
    counter: Option<(u64, &'static str, u64)>,
    done: VecDeque<State>,
}

impl Report {
    /// Returns `true` if the thread printed the report, and the report lacks a part of a zone and has room for it.
    fn lacks(&self, line: &Stripped<'_>, named: &Named<'_>, lacks: impl Fn(&Zone) -> bool) -> bool {
        let mut zones = self.state.zones.iter();
        let zone = zones.find(|zone| zone.extent.is(named.node, named.zone));
        let has_room = self.state.zones.len() < MAX_ZONES;
        self.caller.as_deref() == line.caller && zone.map_or(has_room, lacks)
    }
}

impl Log {
    pub(crate) fn new(file: &str) -> Log {
        Log {
            file: file.to_owned(),
            ..Log::default()
        }
    }

    /// Returns the next state that is complete.
    pub(crate) fn pop(&mut self) -> Option<State> {
        self.done.pop_front()
    }

    /// Returns `true` if a line may continue a part, whatever it contains.
    pub(crate) fn is_active(&self, line: u64) -> bool {
        let has_fields = self
            .fields
            .as_ref()
            .is_some_and(|fields| line - fields.last_line <= NEAR);
        has_fields
            || !self.tables.is_empty()
            || self.broken.is_some()
            || self
                .reports
                .iter()
                .any(|report| line - report.last_line <= AROUND)
            || self.node.is_some_and(|(_, node)| line - node <= APART)
    }

    /// Reads a line.
    pub(crate) fn line(&mut self, number: u64, line: &[u8]) {
        self.age(number);
        let stripped = prefix::strip(line);
        self.part(number, &stripped);
    }

    /// Reads a part of a report, if the line contains one.
    fn part(&mut self, number: u64, line: &Stripped<'_>) {
        let text = line.rest;
        let place = Place {
            file: self.file.clone(),
            line: number,
        };
        let broken = self.join(number, line);
        let text_of_version = broken.as_deref().unwrap_or(text);
        if let Some(version) = fields::kernel(text_of_version) {
            self.broken = None;
            for report in self
                .reports
                .iter_mut()
                .filter(|report| report.state.kernel.is_none())
            {
                report.state.kernel = Some(version.clone());
            }
            self.kernel = Some(version);
            return;
        }
        if let Some(event) = fields::event(text, &place) {
            self.event(event, line);
            return;
        }
        let nodes = fields::nodes(text);
        if !nodes.is_empty() {
            let newest = self.events.back_mut().map(|(event, ..)| event);
            let last = self.reports.last_mut();
            let event = newest.or(last.and_then(|report| report.state.event.as_mut()));
            if let Some(event) = event.filter(|event| event.nodes.is_empty()) {
                event.nodes = nodes;
            }
        }
        if memchr::memmem::find(text, b"CONSTRAINT_MEMCG").is_some()
            || memchr::memmem::find(text, b"emory cgroup out of memory").is_some()
        {
            self.group_limit();
            return;
        }
        if text
            .trim_ascii_start()
            .to_ascii_lowercase()
            .starts_with(b"mem-info:")
        {
            self.open(&place, line);
            return;
        }
        if let Some(caller) = callers::caller(broken.as_deref().unwrap_or(text)) {
            let mut reports = self.reports.iter_mut().rev();
            let is_own = |report: &&mut Report| {
                line.caller.is_none() || report.caller.as_deref() == line.caller
            };
            if let Some(report) = reports.find(is_own) {
                report.state.add_caller(caller);
                report.last_line = number;
            }
            return;
        }
        if let Some(named) = fields::zone_line(text) {
            self.zone_line(&place, line, &named);
            return;
        }
        if let Some(named) = fields::table_head(text) {
            self.table_head(&place, line, &named);
            return;
        }
        self.node = fields::node_before(text)
            .map(|node| (node, number))
            .or(self.node);
        if !self.continue_fields(number, line) && !self.counters(&place, line) {
            self.continue_table(number, line);
        }
    }

    fn event(&mut self, event: Event, line: &Stripped<'_>) {
        let caller = line.caller.map(<[u8]>::to_vec);
        // The kernel announces a failure of vmalloc in two lines.
        let is_second = self.events.back().is_some_and(|(first, ..)| {
            first.cause == Cause::VmallocFailure
                && event.cause == Cause::AllocationFailure
                && event.place.line - first.place.line <= 3
        });
        if !is_second {
            let time = fields::time(line);
            self.events.push_back((event, caller, time));
        }
        if self.events.len() > OPEN
            && let Some((event, _, time)) = self.events.pop_front()
        {
            self.without_state(event, time);
        }
    }

    /// The newest event is that of a control group: no table follows.
    fn group_limit(&mut self) {
        let last = self
            .reports
            .last_mut()
            .filter(|report| report.state.zones.is_empty());
        if let Some((mut event, _, time)) = self.events.pop_back() {
            event.cause = Cause::GroupLimit;
            self.without_state(event, time);
        } else if let Some(event) = last.and_then(|report| report.state.event.as_mut()) {
            event.cause = Cause::GroupLimit;
        }
    }

    fn without_state(&mut self, event: Event, time: Option<String>) {
        let parts = vec![(Kind::Log, event.place.clone())];
        let kernel = self.kernel.clone();
        self.done.push_back(State {
            parts,
            time,
            kernel,
            event: Some(event),
            ..State::default()
        });
    }

    /// Opens a report, and returns its index.
    fn open(&mut self, place: &Place, line: &Stripped<'_>) -> usize {
        let caller = line.caller.map(<[u8]>::to_vec);
        // A report that has tables is complete. One that has just begun may be that of another CPU.
        let is_over = |report: &Report| {
            report.caller == caller
                && (report.state.has_tables() || place.line - report.last_line > 8)
        };
        while let Some(index) = self.reports.iter().position(is_over) {
            self.close(index);
        }
        if self.reports.len() >= OPEN {
            self.close(0);
        }
        let is_own = |(_, other, _): &(Event, Caller, Option<String>)| *other == caller;
        let event = self
            .events
            .iter()
            .rposition(is_own)
            .and_then(|index| self.events.remove(index));
        let mut state = State {
            kernel: self.kernel.clone(),
            ..State::default()
        };
        state.time = fields::time(line);
        let mut first = place.clone();
        if let Some((event, _, time)) = event {
            first.line = event.place.line;
            state.time = time.or(state.time);
            state.event = Some(event);
        }
        state.parts.push((Kind::Log, first));
        self.serial += 1;
        let (serial, last_line) = (self.serial, place.line);
        self.reports.push(Report {
            serial,
            state,
            caller,
            last_line,
            frame_kib: None,
            doubtful: Vec::new(),
        });
        self.reports.len() - 1
    }

    /// Adds the node of an earlier line, where the kernel printed it on its own.
    fn with_node<'a>(&mut self, place: &Place, named: &Named<'a>) -> Named<'a> {
        let earlier = self
            .node
            .take()
            .filter(|(_, line)| place.line - line <= APART);
        Named {
            node: named.node.or(earlier.map(|(node, _)| node)),
            ..*named
        }
    }

    fn zone_line<'a>(&mut self, place: &Place, line: &Stripped<'a>, named: &Named<'a>) {
        let named = &self.with_node(place, named);
        // The first open report that lacks the line.
        let lacks = |report: &Report| report.lacks(line, named, |zone| zone.free.is_none());
        let found = self.reports.iter().position(lacks);
        let index = found.unwrap_or_else(|| self.open(place, line));
        let report = &mut self.reports[index];
        report.last_line = place.line;
        let zone = report.state.zone(named.node, named.zone, place);
        let (_, partial) = fields::sizes(named.rest, |key, kib| field(zone, key, kib));
        let mut zones = report.state.zones.iter();
        let zone = zones.position(|zone| zone.extent.is(named.node, named.zone));
        let caller = line.caller.map(<[u8]>::to_vec);
        let (serial, last_line) = (report.serial, place.line);
        self.fields = Some(Fields {
            serial,
            zone: zone.unwrap_or_default(),
            partial,
            caller,
            last_line,
            in_reserve: false,
        });
    }

    /// Reads further fields of the last zone, and its reserves.
    fn continue_fields(&mut self, number: u64, line: &Stripped<'_>) -> bool {
        let Some(fields) = &mut self.fields else {
            return false;
        };
        if !is_next(fields.caller.as_deref(), fields.last_line, number, line)
            || number - fields.last_line > NEAR
        {
            return false;
        }
        let text = line.rest;
        let reserve = memchr::memmem::find(text, b"lowmem_reserve[]:").map(|at| &text[at + 17..]);
        // Of reports whose lines alternate, the first one that lacks it.
        let lacks = |report: &&Report| {
            let last = report.state.zones.last();
            report.caller.as_deref() == line.caller
                && number - report.last_line <= NEAR
                && last.is_some_and(|zone| zone.free.is_some() && zone.lowmem_reserve.is_empty())
        };
        if reserve.is_some()
            && let Some(report) = self.reports.iter().find(lacks)
        {
            fields.serial = report.serial;
            fields.zone = report.state.zones.len() - 1;
        }
        let serial = fields.serial;
        let Some(report) = self
            .reports
            .iter_mut()
            .find(|report| report.serial == serial)
        else {
            return false;
        };
        let Some(zone) = report.state.zones.get_mut(fields.zone) else {
            return false;
        };
        let values = reserve.or(fields.in_reserve.then_some(text));
        if let Some(values) = values {
            let is_own_byte = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace();
            let is_own = values.iter().all(is_own_byte);
            if is_own {
                let words = values
                    .split(u8::is_ascii_whitespace)
                    .filter_map(|word| std::str::from_utf8(word).ok());
                zone.lowmem_reserve
                    .extend(words.filter_map(|word| word.parse::<u64>().ok()).take(16));
                zone.lowmem_reserve.truncate(16);
                fields.in_reserve = true;
                fields.partial.clear();
                (fields.last_line, report.last_line) = (number, number);
            }
            return is_own;
        }
        let mut text = text.trim_ascii_start().to_vec();
        let is_field = |text: &[u8]| {
            let key = text
                .iter()
                .take_while(|byte| byte.is_ascii_lowercase() || **byte == b'_')
                .count();
            key > 1
                && text.get(key) == Some(&b':')
                && text.get(key + 1).is_some_and(u8::is_ascii_digit)
        };
        if !is_field(&text) {
            let mut joined = fields.partial.clone();
            joined.extend_from_slice(&text);
            if fields.partial.is_empty() || !is_field(&joined) {
                return false;
            }
            text = joined;
        }
        let (found, partial) = fields::sizes(&text, |key, kib| field(zone, key, kib));
        fields.partial = partial;
        (fields.last_line, report.last_line) = (number, number);
        found > 0
    }

    fn table_head<'a>(&mut self, place: &Place, line: &Stripped<'a>, named: &Named<'a>) {
        let is_bare = named.rest.trim_ascii().is_empty();
        if is_bare && named.node.is_none() && self.node.is_none() {
            return;
        }
        let named = &self.with_node(place, named);
        if named.rest.trim_ascii_start().starts_with(b"empty") {
            return;
        }
        let pending: Vec<u64> = self
            .tables
            .iter()
            .filter(|table| table.node == named.node && table.zone == named.zone)
            .map(|table| table.report)
            .collect();
        let lacks = |report: &Report| {
            report.lacks(line, named, |zone| zone.blocks.is_none())
                && !pending.contains(&report.serial)
        };
        let found = self.reports.iter().position(lacks);
        let index = found.unwrap_or_else(|| self.open(place, line));
        let report = &mut self.reports[index];
        report.last_line = place.line;
        let mut table = Table::new(named.node, named.zone, place.clone(), report.serial);
        table.caller = line.caller.map(<[u8]>::to_vec);
        table.feed(named.rest);
        if table.has_sum() {
            self.finish_table(table);
        } else {
            if self.tables.len() >= OPEN {
                let oldest = self.tables.remove(0);
                self.finish_table(oldest);
            }
            self.tables.push(table);
        }
    }

    /// Reads a line that continues a table. The newest table that it fits is continued.
    fn continue_table(&mut self, number: u64, line: &Stripped<'_>) {
        for index in (0..self.tables.len()).rev() {
            let table = &self.tables[index];
            if !is_next(table.caller.as_deref(), table.last_line, number, line) {
                continue;
            }
            if let Some(mut longer) = table.continued(line.rest) {
                longer.last_line = number;
                if longer.has_sum() {
                    self.tables.remove(index);
                    self.finish_table(longer);
                } else {
                    self.tables[index] = longer;
                }
                return;
            }
        }
    }

    /// Adds a table to its report if its sum is right.
    fn finish_table(&mut self, table: Table) {
        let (node, zone, place, serial) = (
            table.node,
            table.zone.clone(),
            table.place.clone(),
            table.report,
        );
        let last_line = table.last_line;
        let Some(report) = self
            .reports
            .iter_mut()
            .find(|report| report.serial == serial)
        else {
            return;
        };
        report.last_line = report.last_line.max(last_line);
        if table.is_empty() {
            return;
        }
        match table.finish() {
            Err(reason) => report.state.remarks.push(reason),
            Ok(finished) => {
                let is_other = report
                    .frame_kib
                    .is_some_and(|size| finished.frame_kib != Some(size));
                if is_other {
                    let reason = format!(
                        "{place}: the table of zone {zone} has another frame size: it is ignored"
                    );
                    report.state.remarks.push(reason);
                    return;
                }
                report.frame_kib = finished.frame_kib;
                if finished.may_be_short {
                    report.doubtful.push((node, zone.clone()));
                }
                let zone = report.state.zone(node, &zone, &place);
                zone.blocks = Some(finished.blocks);
                zone.place = place;
            }
        }
    }

    /// Closes what has had no part for a while.
    fn age(&mut self, number: u64) {
        if self
            .events
            .front()
            .is_some_and(|(event, ..)| number - event.place.line > PATIENCE)
            && let Some((event, _, time)) = self.events.pop_front()
        {
            self.without_state(event, time);
        }
        while let Some(index) = self
            .tables
            .iter()
            .position(|table| number - table.last_line > QUIET)
        {
            let table = self.tables.remove(index);
            self.finish_table(table);
        }
        while let Some(index) = self
            .reports
            .iter()
            .position(|report| number - report.last_line > QUIET)
        {
            self.close(index);
        }
    }

    /// Closes a report and converts its sizes into frames.
    fn close(&mut self, index: usize) {
        let serial = self.reports[index].serial;
        while let Some(index) = self.tables.iter().position(|table| table.report == serial) {
            let table = self.tables.remove(index);
            self.finish_table(table);
        }
        let Report {
            mut state,
            frame_kib,
            doubtful,
            ..
        } = self.reports.remove(index);
        reject_short(&mut state, &doubtful);
        if let Some(kib) = frame_kib {
            state.frame = FrameSize::known(kib * 1024);
        }
        let frame_kib = state.frame.bytes / 1024;
        let lengths = state.zones.iter().map(|zone| zone.lowmem_reserve.len());
        let longest = lengths.max().unwrap_or(0);
        for zone in &mut state.zones {
            for size in zone.logged_sizes() {
                *size = size.map(|kib| kib / frame_kib.max(1));
            }
            // A line that is shorter than the others is cut.
            if zone.lowmem_reserve.len() < longest {
                zone.lowmem_reserve.clear();
            }
        }
        // Without a part, the heading alone is not a report.
        if state.event.is_some() || !state.zones.is_empty() || !state.remarks.is_empty() {
            self.done.push_back(state);
        }
    }

    /// Closes everything.
    pub(crate) fn finish(&mut self) {
        while !self.reports.is_empty() {
            self.close(0);
        }
        while let Some((event, _, time)) = self.events.pop_front() {
            self.without_state(event, time);
        }
    }
}

/// Rejects tables that have fewer orders than others, or that may have lost orders and cannot be compared.
fn reject_short(state: &mut State, doubtful: &[(Option<u32>, String)]) {
    let is_doubtful = |zone: &Zone| {
        doubtful
            .iter()
            .any(|(node, name)| *node == zone.extent.node && *name == zone.extent.name)
    };
    let orders = |zone: &Zone| zone.blocks.as_ref().map(Vec::len);
    let most = state.zones.iter().filter_map(orders).max();
    let trusted = state
        .zones
        .iter()
        .filter(|zone| !is_doubtful(zone))
        .filter_map(orders)
        .max();
    for zone in &mut state.zones {
        let own = orders(zone);
        if own < most || (own.is_some() && is_doubtful(zone) && own != trusted) {
            let (place, name) = (&zone.place, &zone.extent.name);
            if own.is_some() {
                state.remarks.push(format!(
                    "{place}: the table of zone {name} lacks orders: it is ignored"
                ));
            }
            zone.blocks = None;
        }
    }
}

/// Returns `true` if a line continues what a thread printed. The rest of a wrapped line has no prefix.
fn is_next(caller: Option<&[u8]>, last_line: u64, number: u64, line: &Stripped<'_>) -> bool {
    caller == line.caller
        || (line.caller.is_none() && line.time.is_none() && number == last_line + 1)
}

/// Stores a field of a zone's line, in KiB.
fn field(zone: &mut Zone, key: &[u8], kib: u64) {
    let size = match key {
        b"free" => &mut zone.free,
        b"boost" => &mut zone.boost,
        b"min" => &mut zone.min,
        b"low" => &mut zone.low,
        b"high" => &mut zone.high,
        b"present" => &mut zone.extent.present,
        b"managed" => &mut zone.extent.managed,
        b"free_cma" => &mut zone.free_cma,
        b"free_highatomic" => &mut zone.free_high_atomic,
        b"reserved_highatomic" => &mut zone.reserved_high_atomic,
        b"free_pcp" => &mut zone.on_lists,
        b"zspages" => &mut zone.zspages,
        _ => return,
    };
    if size.is_none() {
        *size = Some(kib);
    }
}
