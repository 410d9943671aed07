//! Joins the tables of `buddyinfo`, `pagetypeinfo` and `zoneinfo` into one state.
//!
//! Each file knows something that the others lack, but they were read at different moments.
//!
//! # Invariants
//! The table of a zone comes from one file. Where two disagree, a remark states by how much.

use super::rows::{self, Row, Rows};
use crate::state::{Blocks, Count, FrameSize, Kind, MigrateType, Place, State, Types};

/// Adds the tables to the zones.
pub(crate) fn merge(state: &mut State, buddyinfo: Rows, types: Rows, heading: Option<Vec<Count>>) {
    let buddyinfo = checked(state, Kind::Buddyinfo, buddyinfo, None);
    let heading = heading
        .map(|orders| orders.len())
        .filter(|orders| *orders > 0);
    let rejected = state.remarks.len();
    let types = checked(state, Kind::Pagetypeinfo, types, heading);
    let are_complete = state.remarks.len() == rejected;
    frame_size(state);
    for row in &buddyinfo {
        let place = place(state, Kind::Buddyinfo, row.line);
        let zone = state.zone(Some(row.node), &row.zone, &place);
        let blocks = row.counts.iter().map(|count| Blocks {
            count: *count,
            types: Types::Unknown,
        });
        zone.blocks = Some(blocks.collect());
        zone.place = place;
    }
    // A table that lacks a class would be wrong.
    if are_complete {
        for group in types.chunk_by(|one, other| one.node == other.node && one.zone == other.zone) {
            by_type(state, group);
        }
    }
}

fn place(state: &State, kind: Kind, line: u64) -> Place {
    let part = state.parts.iter().find(|(part, _)| *part == kind);
    let file = part
        .map(|(_, place)| place.file.clone())
        .unwrap_or_default();
    Place { file, line }
}

/// Returns the rows without flaws. A remark names the others.
fn checked(state: &mut State, kind: Kind, rows: Rows, columns: Option<usize>) -> Vec<Row> {
    let Rows {
        list: rows, cut, ..
    } = rows;
    let columns = columns.unwrap_or_else(|| rows::columns(&rows));
    let all_have_blanks = rows.iter().rev().skip(1).all(|row| row.has_blank);
    let (mut good, file) = (Vec::new(), place(state, kind, 0).file);
    state
        .remarks
        .extend(cut.map(|reason| format!("{file}:{reason}: the other rows are ignored")));
    for row in rows {
        match rows::flaw(&row, columns, all_have_blanks && columns > 0) {
            None => good.push(row),
            Some(flaw) => {
                let (line, node, zone) = (row.line, row.node, &row.zone);
                state.remarks.push(format!(
                    "{file}:{line}: the row of node {node}, zone {zone} is ignored: {flaw}"
                ));
            }
        }
    }
    good
}

/// Adds the rows of all classes of a zone.
fn by_type(state: &mut State, group: &[Row]) {
    let first = &group[0];
    let place = place(state, Kind::Pagetypeinfo, first.line);
    let frame_kib = state.frame.bytes / 1024;
    let zone = state.zone(Some(first.node), &first.zone, &place);
    let orders = first.counts.len();
    let counts = |order: usize| -> Vec<(MigrateType, Count)> {
        let of_row = |row: &Row| {
            let name = row.class.as_deref().unwrap_or_default();
            (
                MigrateType::of_name(name),
                row.counts.get(order).copied().unwrap_or_default(),
            )
        };
        group.iter().map(of_row).collect()
    };
    let table = (0..orders).map(|order| {
        let types = counts(order);
        let count = types
            .iter()
            .fold(Count::default(), |sum, (_, count)| sum.plus(*count));
        Blocks {
            count,
            types: Types::Counts(types),
        }
    });
    let mut table: Vec<Blocks> = table.collect();
    let other = zone.blocks.replace(table.clone());
    let frames = zone.table_frames();
    if let Some(other) = other.filter(|other| other.len() == orders) {
        let is_bounded = table.iter().any(|blocks| blocks.count.at_least);
        if is_bounded {
            // `pagetypeinfo` stops counting, `buddyinfo` does not.
            for (blocks, other) in table.iter_mut().zip(&other) {
                if blocks.count.at_least {
                    blocks.count = Count::exact(other.count.value.max(blocks.count.value));
                }
            }
            zone.blocks = Some(table);
        } else {
            zone.blocks = Some(other);
            let apart = zone
                .table_frames()
                .zip(frames)
                .map(|(one, other)| one.value.abs_diff(other.value));
            zone.blocks = Some(table);
            if let Some(apart) = apart.filter(|apart| *apart > 0) {
                let (title, apart) = (zone.extent.title(), apart.saturating_mul(frame_kib));
                state.remarks.push(format!(
                    "{title}: buddyinfo and pagetypeinfo differ by {apart} kB, since they are of different moments; \
                     pagetypeinfo is shown"
                ));
            }
        }
    }
}

/// Derives the size of a frame from memory in KiB and in frames.
fn frame_size(state: &mut State) {
    if state.frame.is_known {
        return;
    }
    let managed: u64 = state
        .zones
        .iter()
        .filter_map(|zone| zone.extent.managed)
        .fold(0, u64::saturating_add);
    let total = state.meminfo.get("MemTotal").copied().unwrap_or(0);
    let free = state
        .meminfo
        .get("MemFree")
        .zip(state.vmstat.get("nr_free_pages"));
    let ratio = match free {
        Some((kib, frames)) if *frames > 0 && managed == 0 => kib.saturating_mul(1000) / frames,
        _ if managed > 0 => total.saturating_mul(1000) / managed,
        _ => return,
    };
    // Both numbers are of different moments.
    for kib in [4u64, 8, 16, 32, 64] {
        if (kib * 1000).abs_diff(ratio) < kib * 250 {
            state.frame = FrameSize::known(kib * 1024);
        }
    }
}
