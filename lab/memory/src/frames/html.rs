//! The picture of memory as a part of an HTML page, without external parts.
//!
//! # Invariants
//! The table has every number of the picture, so that a reader without scripts misses no fact. Names from the
//! input are escaped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use everybuddy_text::size::{grouped, shown};

use super::blocks::Verdict;
use super::flags::Kind;
use super::map::Map;

/// Everything that a cell may show: its letter in the data is its position, and so is its colour.
const SHOWN: [Verdict; 15] = [
    Verdict::Free,
    Verdict::Dropping,
    Verdict::Moving,
    Verdict::Perhaps,
    Verdict::Held(Kind::Slab),
    Verdict::Held(Kind::PageTable),
    Verdict::Held(Kind::Compound),
    Verdict::Held(Kind::Kernel),
    Verdict::Held(Kind::HugePool),
    Verdict::Held(Kind::Reserved),
    Verdict::Held(Kind::Offline),
    Verdict::Held(Kind::Poisoned),
    Verdict::Held(Kind::Pinned),
    Verdict::Draining,
    Verdict::Absent,
];

/// Returns the picture with its table. The style and the script of the page draw it.
#[must_use]
pub fn section(map: &Map) -> String {
    let mut html = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        html,
        "<section class=\"memory-map\" data-cell=\"{}\">\n<div class=\"sides\">\n",
        map.cell_bytes
    );
    let _ = write!(
        html,
        "<table>\n<thead><tr><th>Blocks of {}</th>",
        shown(map.block_bytes)
    );
    for zone in &map.zones {
        let _ = write!(html, "<th>Node {} {}</th>", zone.node, escaped(&zone.name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let mut totals: BTreeMap<Verdict, u64> = BTreeMap::new();
    for (kind, count) in map.zones.iter().flat_map(|zone| &zone.blocks) {
        *totals.entry(*kind).or_default() += count;
    }
    for (code, kind) in SHOWN
        .into_iter()
        .enumerate()
        .filter(|(_, kind)| totals.contains_key(kind))
    {
        let held = if matches!(kind, Verdict::Held(_)) {
            "held by: "
        } else {
            ""
        };
        let _ = write!(
            html,
            "<tr><td data-code=\"{code}\"><i style=\"background:var(--c{code})\"></i>{held}{}</td>",
            escaped(kind.name())
        );
        for zone in &map.zones {
            let _ = write!(
                html,
                "<td>{}</td>",
                grouped(zone.blocks.get(&kind).copied().unwrap_or_default())
            );
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n<div>\n");
    for zone in &map.zones {
        let cells: String = zone.cells.iter().map(|cell| letter(*cell)).collect();
        let _ = writeln!(
            html,
            "<figure>\n<figcaption>Node {} {}, from {:#x}, {} per cell</figcaption>\n\
             <canvas role=\"img\" aria-label=\"Each cell has the colour of what decides about its block; the table \
             has the counts\" \
             data-start=\"{}\" data-cells=\"{cells}\"></canvas>\n</figure>",
            zone.node,
            escaped(&zone.name),
            zone.address,
            shown(map.cell_bytes),
            zone.address,
        );
    }
    html.push_str("<output></output>\n</div>\n</div>\n</section>\n");
    html
}

fn letter(shown: Verdict) -> char {
    let code = SHOWN.iter().position(|one| *one == shown);
    // Every class that holds a block is in the list.
    let code = code.unwrap_or(SHOWN.len() - 1);
    char::from(b'a' + code as u8)
}

/// Escapes a text for HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;")
}
