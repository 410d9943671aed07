//! Sentences about a state: why a request failed, and what the input cannot tell.
//!
//! Users search for the message of a failure. These sentences say what the tables below it mean.
//!
//! # Invariants
//! A sentence follows from the numbers of the state alone.

use std::collections::{BTreeMap, BTreeSet};

use everybuddy_text::size;

use crate::answer::{self, Range};
use crate::attach::HEADS_ONLY;
use crate::need::shown;
use crate::request::Request;
use crate::state::{Cause, Event, Kind, State, Types, Zone, ZoneKind};
use crate::usage::Usage;

/// Explains the event of a log's report.
#[must_use]
pub fn event(state: &State) -> Option<String> {
    let event = state.event.as_ref()?;
    match event.cause {
        Cause::GroupLimit => {
            return Some(
                "A control group reached its own limit: the machine's memory did not matter. The report has no table."
                    .to_owned(),
            );
        }
        Cause::VmallocFailure => {
            return Some(
                "A mapping of many single frames failed. This is not a shortage of large blocks."
                    .to_owned(),
            );
        }
        Cause::SysRq => return None,
        Cause::OutOfMemory | Cause::AllocationFailure => {}
    }
    let Some(order) = event
        .order
        .and_then(|order| u32::try_from(order).ok())
        .filter(|order| *order < 32)
    else {
        return (event.order == Some(-1))
            .then(|| "A user triggered this report: no request failed.".to_owned());
    };
    if !state.has_tables() {
        return Some("The report has no table of free blocks.".to_owned());
    }
    let failed = failed(state, event, order);
    Some(match full(state) {
        Some(full) => format!("{full} {failed}"),
        None => failed,
    })
}

/// Says why a request failed, by the zones that serve it.
fn failed(state: &State, event: &Event, order: u32) -> String {
    let request = Request::of_event(event);
    let serves = |zone: &&Zone| request.may_use(zone) && event.allows(zone.extent.node);
    let place = place(state, event, request);
    let (mut free, mut usable) = (Range::exact(0), Range::exact(0));
    let (mut frames, mut managed) = (0u64, Some(0u64));
    let (mut has_watermarks, mut is_at_watermark, mut classes) = (true, false, Vec::new());
    let mut nodes = BTreeMap::new();
    for zone in state.zones.iter().filter(serves) {
        let Some(answer) = answer::of_zone(state, zone, request) else {
            continue;
        };
        let own = zone.free_frames().unwrap_or(0);
        frames = frames.saturating_add(own);
        managed = managed
            .zip(zone.extent.managed)
            .map(|(sum, own)| sum.saturating_add(own));
        let Some(row) = answer.rows.iter().find(|row| row.order == order) else {
            continue;
        };
        free = free.plus(row.free);
        let has_any = nodes.entry(zone.extent.node).or_insert(false);
        let special = row.special.iter().map(|(_, range)| *range);
        let special = special.fold(Range::exact(0), Range::plus);
        // Table and watermark are of different moments: within a per cent, the zone refused the request.
        let is_near = |above: u64| above <= own / 100;
        if row.free.high == Some(0) {
            continue;
        }
        if row.free.without(special).high == Some(0) {
            classes.extend(row.special.iter().map(|(name, _)| name.name().to_owned()));
        } else if answer.above_watermark.is_some_and(is_near) {
            is_at_watermark = true;
        } else {
            has_watermarks &= answer.above_watermark.is_some();
            usable = usable.plus(row.usable);
            *has_any |= row.usable.high != Some(0);
        }
    }
    let bytes = size::shown(state.frame.bytes.saturating_mul(1 << order));
    let memory = |frames: u64| size::shown(frames.saturating_mul(state.frame.bytes));
    let blocks = format!(
        "{} blocks of {bytes} (order {order}) were free{place}",
        shown(free)
    );
    let is_whole = place.is_empty() || !state.zones.iter().any(|zone| !serves(&zone));
    let only = if is_whole {
        ""
    } else {
        " The request may use no other memory."
    };
    if frames == 0 {
        return format!("No table of the report shows free memory{place}.{only}");
    }
    if free.high == Some(0) {
        let all = managed.filter(|all| *all > 0 && !is_whole);
        let all = all.map_or(String::new(), |all| format!(" of {}", memory(all)));
        return format!(
            "No block of {bytes} (order {order}) was free{place}: {}{all} were free, but only in smaller blocks.{only}",
            memory(frames)
        );
    }
    if !has_watermarks {
        return format!("{blocks}. The report lacks the watermarks of the zones.{only}");
    }
    if usable.high == Some(0) {
        let mut reasons = Vec::new();
        if is_at_watermark {
            reasons.push("the zones are at their watermarks".to_owned());
        }
        classes.sort_unstable();
        classes.dedup();
        if !classes.is_empty() {
            reasons.push(format!(
                "blocks of the class {} serve other requests",
                classes.join(", ")
            ));
        }
        if reasons.is_empty() {
            reasons.push("watermarks and classes withhold them".to_owned());
        }
        return format!(
            "{blocks}, but none for this request: {}.{only}",
            reasons.join(", and ")
        );
    }
    let is_bound = event
        .flags
        .as_ref()
        .is_some_and(|flags| flags.contains("_THISNODE"));
    let why = match &event.flags {
        _ if usable.low == 0 => {
            "Their classes do not serve it, or they became free after it failed"
        }
        Some(_) if is_bound => "It was bound to one node, which the report does not name",
        Some(_) if nodes.len() > 1 && event.nodes.is_empty() => {
            "It was limited to fewer nodes, or they became free after it failed"
        }
        Some(_) => "They became free after it failed",
        None => "It was limited to fewer zones or nodes, or they became free after it failed",
    };
    let lacking = nodes.iter().filter(|(_, has)| !**has);
    let lacking: Vec<u32> = lacking.map(|(node, _)| node.unwrap_or(0)).collect();
    let lacking = match (is_bound, lacking.is_empty()) {
        (true, false) => format!(": {} had none", list("node", &lacking)),
        _ => String::new(),
    };
    format!(
        "{blocks}, and {} of them for this request. {why}{lacking}.{only}",
        shown(usable)
    )
}

/// Names the zones and nodes to which a request is limited.
fn place(state: &State, event: &Event, request: Request) -> String {
    let (served, others): (Vec<&Zone>, Vec<&Zone>) =
        state.zones.iter().partition(|zone| request.may_use(zone));
    let is_free = |zone: &&Zone| zone.free_frames() > Some(0);
    let mut place = String::new();
    if request.highest < ZoneKind::Normal || others.iter().any(is_free) {
        let mut names: Vec<&str> = served.iter().map(|zone| &zone.extent.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            names.push(request.highest.name());
        }
        place = format!(" in {}", list("zone", &names));
    }
    let nodes = state.zones.iter().map(|zone| zone.extent.node.unwrap_or(0));
    let all: BTreeSet<u32> = nodes.collect();
    let nodes = all.iter().copied();
    let nodes: Vec<u32> = nodes.filter(|node| event.allows(Some(*node))).collect();
    if nodes.is_empty() {
        place.push_str(" on its nodes");
    } else if nodes.len() < all.len() {
        place.push_str(&format!(" on {}", list("node", &nodes)));
    }
    place
}

/// Writes `node 0`, or `nodes 0, 2`.
fn list<T: ToString>(what: &str, names: &[T]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let names: Vec<String> = names.iter().map(T::to_string).collect();
    format!("{what}{plural} {}", names.join(", "))
}

/// Returns the frames that are free above the watermarks of all zones.
fn above_watermarks(state: &State) -> u64 {
    let above = |zone: &Zone| {
        let answer = answer::of_zone(state, zone, Request::MOVABLE);
        let above = answer.and_then(|answer| answer.above_watermark);
        above.or(zone.free_frames()).unwrap_or(0)
    };
    state.zones.iter().map(above).fold(0, u64::saturating_add)
}

/// Says that memory is full, if it is.
fn full(state: &State) -> Option<String> {
    Usage::of(state)?.full(above_watermarks(state), state.frame.bytes)
}

/// Lists what uses the memory.
#[must_use]
pub fn usage(state: &State) -> Option<String> {
    let free = |zone: &Zone| {
        let listed = zone.listed_frames().unwrap_or(0);
        zone.free_frames().unwrap_or(0).saturating_add(listed)
    };
    let free = state.zones.iter().map(free).fold(0, u64::saturating_add);
    Some(Usage::of(state)?.shown(free, state.frame.bytes))
}

/// Names memory of a zone that no request can get: more than one part in eight, and more than 64 MiB.
#[must_use]
pub fn unmanaged(state: &State, zone: &Zone) -> Option<String> {
    let bytes = |frames: u64| frames.saturating_mul(state.frame.bytes);
    let (present, managed) = zone.extent.present.zip(zone.extent.managed)?;
    let frames = present.saturating_sub(managed);
    if managed == 0 || frames <= present / 8 || bytes(frames) <= 64 << 20 {
        return None;
    }
    let zones = state.zones.iter().filter_map(|zone| zone.extent.managed);
    // Some of these frames are always reserved.
    let sum = zones.fold(frames / 2, u64::saturating_add);
    let total = state.meminfo.get("MemTotal");
    let counts = total.is_some_and(|kib| kib.saturating_mul(1024) >= bytes(sum));
    let counted = if counts { "; MemTotal counts them" } else { "" };
    Some(format!(
        "{} are present, but not managed: a balloon, hot-plug, or a reservation at boot{counted}.",
        size::shown(bytes(frames))
    ))
}

/// Names what the input does not contain, and the file that does.
#[must_use]
pub fn unknown(state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    if !state.zones.is_empty() && !state.has_tables() {
        lines.push("free blocks by size: /proc/buddyinfo".to_owned());
    }
    let tables: Vec<_> = state
        .zones
        .iter()
        .filter_map(|zone| zone.blocks.as_ref())
        .collect();
    if tables.is_empty() {
        return lines;
    }
    let top = tables
        .iter()
        .map(|blocks| blocks.len())
        .max()
        .unwrap_or(1)
        .saturating_sub(1);
    let largest = size::shown(state.frame.bytes.saturating_mul(1 << top.min(32)));
    let is_refused = state.remarks.iter().any(|line| line.ends_with(HEADS_ONLY));
    if state.frames.is_none() && !state.lacks_root && !is_refused {
        lines.push(
            "what moving pages or dropping the page cache gives: /proc/kpageflags (root)"
                .to_owned(),
        );
        lines.push(format!(
            "free blocks of more than {largest}: /proc/kpageflags (root)"
        ));
    }
    let used = tables
        .iter()
        .flat_map(|blocks| blocks.iter())
        .filter(|blocks| blocks.count.value > 0);
    if !state.lacks_root && used.clone().any(|blocks| blocks.types == Types::Unknown) {
        lines.push(
            "which free blocks serve only some requests: /proc/pagetypeinfo (root)".to_owned(),
        );
    }
    let has_bound = used.clone().any(|blocks| blocks.count.at_least);
    if has_bound {
        lines.push(
            "the exact numbers where the kernel stopped counting at 100000: /proc/buddyinfo"
                .to_owned(),
        );
    }
    if state
        .zones
        .iter()
        .any(|zone| zone.blocks.is_some() && zone.min.is_none())
    {
        lines.push("watermarks, which withhold some of the free memory: /proc/zoneinfo".to_owned());
    }
    if state
        .zones
        .iter()
        .all(|zone| zone.on_lists.is_none() && zone.lists.is_empty())
    {
        lines.push("free frames on the CPUs' own lists: /proc/zoneinfo".to_owned());
    }
    if !state.frame.is_known {
        let bytes = size::shown(state.frame.bytes);
        lines.push(format!(
            "the size of a frame: {bytes} is assumed, `--frame-size` sets it"
        ));
    }
    lines
}

/// Says what the same command adds as root.
#[must_use]
pub fn as_root(state: &State) -> Option<&'static str> {
    (state.lacks_root && state.frames.is_none()).then_some(
        "As root (sudo), this command also shows what moving pages and dropping page cache give, and what \
         holds the rest.",
    )
}

/// Describes the state on one line.
#[must_use]
pub fn title(state: &State) -> String {
    let mut parts = Vec::new();
    match &state.event {
        Some(event) => {
            let mut text = event.cause.name().to_owned();
            if let Some(order) = event.order {
                text.push_str(&format!(", order {order}"));
            }
            if let Some(process) = &event.process {
                text.push_str(&format!(", {process}"));
            }
            parts.push(text);
        }
        None => {
            let mut names: Vec<&str> = state.parts.iter().map(|(kind, _)| kind.name()).collect();
            names.dedup();
            let is_log = state.has(Kind::Log);
            parts.push(if is_log {
                "report in a log".to_owned()
            } else {
                names.join(", ")
            });
        }
    }
    if let Some(time) = &state.time {
        parts.push(time.clone());
    }
    if let Some(kernel) = &state.kernel {
        parts.push(format!("Linux {kernel}"));
    }
    if !state.zones.is_empty() {
        let assumed = if state.frame.is_known { "" } else { " assumed" };
        parts.push(format!(
            "{} frames{assumed}",
            size::shown(state.frame.bytes)
        ));
    }
    format!("{}: {}", state.place(), parts.join("; "))
}

/// Returns the size of the largest free block, if the tables show one.
#[must_use]
pub fn largest(state: &State) -> Option<u64> {
    let tables = state.zones.iter().filter_map(|zone| zone.blocks.as_ref());
    let orders =
        tables.filter_map(|blocks| blocks.iter().rposition(|blocks| blocks.count.value > 0));
    orders
        .max()
        .map(|order| state.frame.bytes.saturating_mul(1 << order))
}
