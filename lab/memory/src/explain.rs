//! Sentences about a state: why a request failed, and what the input cannot tell.
//!
//! Users search for the message of a failure. These sentences say what the tables below it mean.
//!
//! # Invariants
//! A sentence follows from the numbers of the state alone.

use everybuddy_text::size;

use crate::answer::{self, Range, Request};
use crate::need::shown;
use crate::state::{Cause, Kind, State, Types};

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
    let bytes = size::shown(state.frame.bytes.saturating_mul(1 << order));
    let (mut free, mut usable, mut frames) = (Range::exact(0), Range::exact(0), 0u64);
    let mut has_watermarks = true;
    for zone in &state.zones {
        let Some(answer) = answer::of_zone(state, zone, Request::default()) else {
            continue;
        };
        has_watermarks &= answer.above_watermark.is_some() || answer.is_restricted;
        if let Some(row) = answer.rows.iter().find(|row| row.order == order) {
            free = free.plus(row.free);
            usable = usable.plus(row.usable);
        }
        frames = frames.saturating_add(zone.free_frames().unwrap_or(0));
    }
    let memory = size::shown(frames.saturating_mul(state.frame.bytes));
    Some(if free.high == Some(0) {
        format!(
            "No block of {bytes} (order {order}) was free: {memory} were free, but only in smaller blocks."
        )
    } else if usable.high == Some(0) {
        format!(
            "{} blocks of {bytes} (order {order}) were free, but none for an ordinary request: watermarks, classes or \
             zones withhold them.",
            shown(free)
        )
    } else if !has_watermarks {
        let free = shown(free);
        format!(
            "{free} blocks of {bytes} (order {order}) were free. The report lacks the watermarks of the zones."
        )
    } else {
        format!(
            "{} blocks of {bytes} (order {order}) were free, and {} of them for an ordinary request. The request was \
             limited to fewer zones or nodes, or the blocks became free after it failed.",
            shown(free),
            shown(usable)
        )
    })
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
    if state.frames.is_none() && !state.lacks_root {
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
