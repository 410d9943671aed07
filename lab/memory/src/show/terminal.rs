//! The table for people.
//!
//! # Purpose
//!
//! For each zone and each size: how many blocks are free now, and how many an ordinary request may use.
//!
//! # Invariants
//!
//! Columns are aligned, and a line has at most 100 characters unless a name is long.

use crate::answer::{self, Range, Request, Row, ZoneAnswer};
use crate::explain;
use crate::need::shown;
use crate::size::{self, grouped};
use crate::state::{State, Zone};

/// The width of a bar.
const BAR: u64 = 12;

/// Sizes above the kernel's largest block that people ask for.
const LARGE: [u64; 2] = [32 << 20, 1 << 30];

/// Writes a state.
#[must_use]
pub fn state(state: &State) -> String {
    let mut text = format!("{}\n", explain::title(state));
    if let Some(sentence) = explain::event(state) {
        text.push_str(&format!("{sentence}\n"));
    }
    for remark in &state.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    // Kernels list zones that have no memory, without a table or with an empty one.
    let has_memory = |zone: &&Zone| {
        let is_empty = zone.managed == Some(0) || (zone.managed.is_none() && zone.blocks.is_none());
        !is_empty || zone.free_frames() != Some(0)
    };
    for zone in state.zones.iter().filter(has_memory) {
        text.push('\n');
        text.push_str(&zone_text(state, zone));
    }
    let unknown = explain::unknown(state);
    if !unknown.is_empty() {
        text.push_str("\nThis input does not contain, but another file does:\n");
        for line in unknown {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

fn zone_text(state: &State, zone: &Zone) -> String {
    let bytes = |frames: u64| size::shown(frames.saturating_mul(state.frame.bytes));
    let mut text = zone.title();
    let free = zone.free_frames().map_or("unknown".to_owned(), bytes);
    let bound = if zone.table_frames().is_some_and(|count| count.at_least) {
        "at least "
    } else {
        ""
    };
    text.push_str(&format!(": {bound}{free} free"));
    if let Some(managed) = zone.managed {
        text.push_str(&format!(" of {}", bytes(managed)));
    }
    if let Some(share) = small_share(zone, state.frame.bytes).filter(|share| *share > 0) {
        text.push_str(&format!(", {share} % of it in blocks < 64 KiB"));
    }
    if let Some(min) = zone.min {
        text.push_str(&format!("; watermark {}", bytes(min)));
    }
    if let Some(reserve) = zone.lowmem_reserve.last().filter(|reserve| **reserve > 0) {
        text.push_str(&format!(", reserve {}", bytes(*reserve)));
    }
    let lists = zone
        .lists
        .iter()
        .filter_map(|list| list.count)
        .fold(0, u64::saturating_add);
    let lists = if zone.lists.is_empty() {
        zone.on_lists
    } else {
        Some(lists)
    };
    if let Some(lists) = lists {
        text.push_str(&format!("; CPU lists {}", bytes(lists)));
    }
    text.push('\n');
    if answer::is_restricted(zone) {
        text.push_str("  Only for memory of processes and devices.\n");
    }
    match answer::of_zone(state, zone, Request::default()) {
        Some(answer) => text.push_str(&rows(zone, &answer)),
        None => text.push_str("  The sizes of its free blocks are not in this input.\n"),
    }
    text
}

/// Returns the percentage of the free memory that is in blocks of less than 64 KiB.
fn small_share(zone: &Zone, frame: u64) -> Option<u64> {
    let blocks = zone.blocks.as_ref()?;
    let frames = zone
        .table_frames()
        .filter(|count| count.value > 0 && !count.at_least)?;
    let small = blocks
        .iter()
        .enumerate()
        .filter(|(order, _)| frame << order < 64 << 10);
    let small = small
        .map(|(order, blocks)| blocks.count.value.saturating_mul(1 << order))
        .fold(0, u64::saturating_add);
    let share = u128::from(small) * 100 / u128::from(frames.value);
    u64::try_from(share).ok()
}

fn rows(zone: &Zone, answer: &ZoneAnswer) -> String {
    let top = zone.blocks.as_ref().map_or(0, Vec::len);
    let has_moving = answer.rows.iter().any(|row| row.moving.is_some());
    let wanted = |row: &&Row| (row.order as usize) < top || LARGE.contains(&row.bytes);
    let rows: Vec<&Row> = answer.rows.iter().filter(wanted).collect();
    // After the first size without a free block, no larger one has any.
    let last = rows
        .iter()
        .position(|row| row.free.high == Some(0) && row.moving.is_none())
        .unwrap_or(rows.len());
    let mut table = vec![vec![
        "size".to_owned(),
        "order".to_owned(),
        "free now".to_owned(),
        "usable".to_owned(),
    ]];
    if has_moving {
        table[0].push("by moving".to_owned());
    }
    let mut notes = vec!["".to_owned()];
    for row in &rows[..last] {
        let mut cells = vec![
            size::shown(row.bytes),
            row.order.to_string(),
            shown_short(row.free),
            shown_short(row.usable),
        ];
        if has_moving {
            cells.push(
                row.moving
                    .map_or(String::new(), |moving| format!("+{}", shown_short(moving))),
            );
        }
        table.push(cells);
        notes.push(note(zone, row));
    }
    let mut text = aligned(&table, &notes);
    if let Some(row) = rows.get(last) {
        text.push_str(&format!("  {} and larger: none\n", size::shown(row.bytes)));
    }
    text
}

/// Writes a range for a narrow column.
fn shown_short(range: Range) -> String {
    match (range.value(), range.high) {
        (None, Some(high)) => format!("{}..{}", grouped(range.low), grouped(high)),
        _ => shown(range),
    }
}

/// Writes a bar, and the blocks that serve only some requests.
fn note(zone: &Zone, row: &Row) -> String {
    let mut parts = Vec::new();
    if let Some(total) = row.total.filter(|total| *total > 0)
        && let Some(free) = row.free.value()
    {
        let length = u128::from(free) * u128::from(BAR) / u128::from(total);
        let length = usize::try_from(length)
            .unwrap_or(0)
            .min(BAR as usize)
            .max(usize::from(free > 0));
        parts.push(format!(
            "{:<width$}",
            "#".repeat(length),
            width = BAR as usize
        ));
    }
    let mut only: Vec<String> = Vec::new();
    for (name, range) in &row.special {
        only.push(format!("{} only {}", shown_short(*range), name.name()));
    }
    if let Some(withheld) = row.withheld.filter(|withheld| *withheld > 0) {
        let has_reserve = zone
            .lowmem_reserve
            .last()
            .is_some_and(|reserve| *reserve > 0);
        let by = if has_reserve {
            "reserve and watermark"
        } else {
            "the watermark"
        };
        only.push(format!("{} below {by}", grouped(withheld)));
    }
    parts.push(only.join(", "));
    parts.join("  ").trim_end().to_owned()
}

/// Aligns columns to the right, and adds a note to each line.
fn aligned(table: &[Vec<String>], notes: &[String]) -> String {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        table
            .iter()
            .filter_map(|cells| cells.get(column))
            .map(String::len)
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (cells, note) in table.iter().zip(notes) {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        if !note.is_empty() {
            line.push_str(&format!("  {note}"));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
