//! The table for people.
//!
//! For each zone and each size: how many blocks are free now, and how many an ordinary request may use.
//!
//! # Invariants
//! The columns of a table are aligned.

use everybuddy_text::size::{self, grouped};

use crate::answer::{self, Range, Row, ZoneAnswer};
use crate::explain;
use crate::need::{self, shown};
use crate::request::Request;
use crate::show::holders;
use crate::state::{State, Zone};

/// The width of a bar.
const BAR: u64 = 12;

/// Sizes above the kernel's largest block that people ask for.
const LARGE: [u64; 2] = [32 << 20, 1 << 30];

/// The number of orders of most kernels.
const USUAL_ORDERS: usize = 11;

/// Writes a state.
#[must_use]
pub fn state(state: &State) -> String {
    let mut text = format!("{}\n", explain::title(state));
    let sentence = explain::event(state).or_else(|| need::summary(state));
    if let Some(sentence) = sentence {
        text.push_str(&format!("{sentence}\n"));
    }
    if let Some(line) = explain::usage(state) {
        text.push_str(&format!("{line}\n"));
    }
    for remark in &state.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    // Kernels list zones that have no memory, without a table or with an empty one.
    let has_memory = |zone: &&Zone| {
        let is_empty = zone.extent.managed == Some(0)
            || (zone.extent.managed.is_none() && zone.blocks.is_none());
        !is_empty || zone.free_frames() != Some(0)
    };
    for zone in state.zones.iter().filter(has_memory) {
        text.push('\n');
        text.push_str(&zone_text(state, zone));
    }
    text.push_str(&holders_text(state));
    if let Some(line) = explain::as_root(state) {
        text.push_str(&format!("\n{line}\n"));
    }
    let unknown = explain::unknown(state);
    if !unknown.is_empty() {
        text.push_str("\nMissing from this input, with the file or option that provides it:\n");
        for line in unknown {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

/// Writes what the columns mean, who holds blocks, and what is assumed.
fn holders_text(state: &State) -> String {
    let mut text = String::new();
    if state.frames.is_some() {
        text.push_str(&format!("\n  {}\n", LEGEND.join("\n  ")));
    }
    for list in holders::lists(state) {
        text.push_str(&format!("\n{}\n", list.title));
        let mut table = vec![list.columns.map(str::to_owned)];
        let mut notes = vec![String::new()];
        for (cells, note) in &list.rows {
            table.push(cells.clone());
            notes.push((*note).to_owned());
        }
        // Names are aligned to the left.
        let width = table.iter().map(|cells| cells[0].chars().count()).max();
        for cells in &mut table {
            cells[0] = format!("{:<width$}", cells[0], width = width.unwrap_or(0));
        }
        text.push_str(&aligned(&table, &notes));
    }
    let assumptions = holders::assumptions(state);
    if !assumptions.is_empty() {
        text.push_str(&format!("\n{}\n", assumptions.join("\n")));
    }
    text
}

fn zone_text(state: &State, zone: &Zone) -> String {
    let bytes = |frames: u64| size::shown(frames.saturating_mul(state.frame.bytes));
    let mut text = zone.extent.title();
    let free = zone.free_frames().map_or("unknown".to_owned(), bytes);
    let bound = if zone.table_frames().is_some_and(|count| count.at_least) {
        "at least "
    } else {
        ""
    };
    text.push_str(&format!(": {bound}{free} free"));
    if let Some(managed) = zone.extent.managed {
        text.push_str(&format!(" of {}", bytes(managed)));
    }
    if let Some(share) = small_share(zone, state.frame.bytes).filter(|share| *share > 0) {
        text.push_str(&format!(", {share} % of it in blocks < 64 KiB"));
    }
    if let Some(min) = zone.min {
        text.push_str(&format!("; watermark {}", bytes(min)));
    }
    let request = Request::shown(zone);
    let reserve = request.reserve(state, zone);
    if let Some(reserve) = reserve.filter(|reserve| *reserve > 0) {
        text.push_str(&format!(", reserve {}", bytes(reserve)));
    }
    if let Some(lists) = zone.listed_frames() {
        text.push_str(&format!("; CPU lists {}", bytes(lists)));
    }
    text.push('\n');
    if let Some(line) = explain::unmanaged(state, zone) {
        text.push_str(&format!("  {line}\n"));
    }
    if answer::is_restricted(zone) {
        text.push_str("  Only for movable memory, as of processes, and for devices.\n");
    }
    match answer::of_zone(state, zone, request) {
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
    let rows = shown_rows(zone, answer);
    let has_frames = zone.windows.is_some();
    if has_frames && !answer.is_obtainable() {
        return "  Watermark and reserve keep all of it from ordinary requests.\n".to_owned();
    }
    // After the first size without a free block, no larger one has any.
    let last = rows
        .iter()
        .position(|row| row.free.high == Some(0) && !has_frames)
        .unwrap_or(rows.len());
    let heads = columns(zone).into_iter().map(str::to_owned);
    let mut table = vec![heads.collect()];
    let mut notes = vec!["".to_owned()];
    for row in &rows[..last] {
        table.push(cells(zone, row, shown_short));
        notes.push(note(answer, row, !has_frames));
    }
    let mut text = aligned(&table, &notes);
    if let Some(row) = rows.get(last) {
        text.push_str(&format!("  {} and larger: none\n", size::shown(row.bytes)));
    }
    text
}

/// Returns the columns of a zone's table. Frames give five more.
pub(super) fn columns(zone: &Zone) -> Vec<&'static str> {
    let mut columns = vec!["size", "order", "free now", "usable"];
    if zone.windows.is_some() {
        columns.extend(["by moving", "by dropping", "perhaps", "never", "of"]);
    }
    columns
}

/// Writes a row of this table.
pub(super) fn cells(zone: &Zone, row: &Row, shown: fn(Range) -> String) -> Vec<String> {
    let bytes = size::shown(row.bytes);
    let mut cells = vec![
        bytes,
        row.order.to_string(),
        shown(row.free),
        shown(row.usable),
    ];
    if zone.windows.is_some() {
        cells.extend(frame_cells(row));
    }
    cells
}

/// What the columns mean.
pub(super) const LEGEND: [&str; 5] = [
    "by moving: pages move to other free frames",
    "by dropping: clean page cache is dropped as well",
    "perhaps: some frames are the kernel's, or free on CPUs' lists: /proc/kpageflags cannot tell",
    "never: the block contains a page that cannot be moved or dropped",
    "The rest of a row is in use, and no free frames are left to move it to.",
];

/// Returns the sizes to show: those of the kernel's own table, and those above that people ask for.
pub(super) fn shown_rows<'a>(zone: &Zone, answer: &'a ZoneAnswer) -> Vec<&'a Row> {
    let top = zone.blocks.as_ref().map_or(USUAL_ORDERS, Vec::len);
    let wanted = |row: &&Row| (row.order as usize) < top || LARGE.contains(&row.bytes);
    answer.rows.iter().filter(wanted).collect()
}

/// Writes what each step adds to the usable blocks.
fn frame_cells(row: &Row) -> [String; 5] {
    let (Some(moving), Some(dropping)) = (row.moving, row.dropping) else {
        return std::array::from_fn(|_| String::new());
    };
    let added = |more: u64, less: u64| format!("+{}", grouped(more.saturating_sub(less)));
    let known = |value: Option<u64>| value.map_or(String::new(), grouped);
    [
        added(moving.low, row.usable.low),
        added(dropping.low, moving.low),
        added(dropping.high.unwrap_or(dropping.low), dropping.low),
        known(row.never),
        known(row.total),
    ]
}

/// Writes a range for a narrow column.
fn shown_short(range: Range) -> String {
    match (range.value(), range.high) {
        (None, Some(high)) => format!("{}..{}", grouped(range.low), grouped(high)),
        _ => shown(range),
    }
}

/// Writes a bar if there is room, and the blocks that serve only some requests.
pub(super) fn note(answer: &ZoneAnswer, row: &Row, has_bar: bool) -> String {
    let mut parts = Vec::new();
    if has_bar
        && let Some(total) = row.total.filter(|total| *total > 0)
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
        let by = if answer.reserve > Some(0) {
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
fn aligned(table: &[impl AsRef<[String]>], notes: &[String]) -> String {
    let mut widths = Vec::new();
    for cells in table {
        let cells = cells.as_ref();
        widths.resize(widths.len().max(cells.len()), 0);
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for (cells, note) in table.iter().zip(notes) {
        let mut line = String::new();
        for (cell, width) in cells.as_ref().iter().zip(&widths) {
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
