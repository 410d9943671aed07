//! The systems, with options that fit a small memory.
//!
//! Batches of 31 frames and spaces of 4 MiB are larger than the memory here. A list of 4 frames shows the same.

use everybuddy::SystemSpec;
use everybuddy::systems::{ListKind, ROWS, Row, ZoneKind};

/// Bytes of a frame, in which options give sizes.
const FRAME: u32 = 4096;
/// The smallest tree of `everybuddy`, in frames.
const SMALLEST_TREE: u32 = 64;

/// Returns the names of all systems, in the order of their list.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// Returns a system and its options, as one would name it, for a memory of `frames` frames.
///
/// # Errors
/// A sentence, if no system has this name, or it refuses the options.
pub fn small(name: &str, frames: u32, order: u8) -> Result<SystemSpec, String> {
    let row = ROWS.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| format!("no system is called {name}"))?;
    text(row, frames, order)
        .parse()
        .map_err(|error: everybuddy::systems::SpecError| error.to_string())
}

/// Returns the name of a system with its options.
pub fn text(row: &Row, frames: u32, order: u8) -> String {
    let mut text = row.name.to_owned();
    let mut set = |key: &str, value: String| {
        if row.takes(key) {
            text.push_str(&format!("+{key}={value}"));
        }
    };
    set("order", order.to_string());
    if row.zone() == ZoneKind::Spaces {
        let space = (frames / 4).max(16).max(1 << order).next_power_of_two();
        set("space", format!("{}KiB", space * FRAME / 1024));
    }
    match row.list {
        ListKind::None => {}
        ListKind::Bypass => set("high", "4".to_owned()),
        ListKind::Magazines => set("batch", "2".to_owned()),
        ListKind::Predictive => {
            set("batch", "2".to_owned());
            set("high", "8".to_owned());
        }
        _ => {
            set("batch", "2".to_owned());
            set("high", "6".to_owned());
        }
    }
    if row.name == "everybuddy" {
        set("tree", format!("{}KiB", SMALLEST_TREE * FRAME / 1024));
    }
    text
}
