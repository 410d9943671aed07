//! Metrics for the textfile collector of node_exporter.
//!
//! Dashboards show how many blocks of each size a machine still has.
//!
//! # Invariants
//! Sizes are in bytes. Of values that are known only within bounds, only the lower bound `usable_blocks` is exported.

use std::fmt::Write;

use crate::answer::{self, Row};
use crate::request::Request;
use crate::state::{State, Zone};

/// The metrics of a zone: the name, the help, and the number of frames.
type ZoneMetric = (&'static str, &'static str, fn(&Zone) -> Option<u64>);
#[rustfmt::skip]
const ZONES: [ZoneMetric; 4] = [
    ("zone_free_bytes", "Free memory.", Zone::free_frames),
    ("zone_managed_bytes", "Memory that the page allocator manages.", |zone| zone.extent.managed),
    ("zone_watermark_min_bytes", "Free memory below which only urgent requests succeed.", |zone| zone.min),
    ("zone_cpu_lists_bytes", "Free memory on the lists of CPUs.", Zone::listed_frames),
];

/// Writes all metrics of a state.
#[must_use]
pub fn metrics(state: &State, time_seconds: u64) -> String {
    let mut text = String::new();
    blocks(
        &mut text,
        state,
        "free_blocks",
        "Free blocks of at least this size, parts of larger blocks included.",
        |row| row.free.value(),
    );
    let help = "Free blocks of at least this size that an ordinary request may use, lower bound.";
    blocks(&mut text, state, "usable_blocks", help, |row| {
        Some(row.usable.low)
    });
    for (name, help, frames) in ZONES {
        head(&mut text, name, help);
        for zone in &state.zones {
            if let Some(frames) = frames(zone) {
                let (labels, bytes) = (labels(zone), frames.saturating_mul(state.frame.bytes));
                let _ = writeln!(text, "everybuddy_memory_{name}{{{labels}}} {bytes}");
            }
        }
    }
    head(
        &mut text,
        "read_timestamp_seconds",
        "Unix time at which the state was read, 0 for a copy or a log.",
    );
    let _ = writeln!(
        text,
        "everybuddy_memory_read_timestamp_seconds {time_seconds}"
    );
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(
        text,
        "# HELP everybuddy_memory_{name} {help}\n# TYPE everybuddy_memory_{name} gauge"
    );
}

fn labels(zone: &Zone) -> String {
    let name = zone.extent.name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("node=\"{}\",zone=\"{name}\"", zone.extent.node.unwrap_or(0))
}

fn blocks(
    text: &mut String,
    state: &State,
    name: &str,
    help: &str,
    value: impl Fn(&Row) -> Option<u64>,
) {
    head(text, name, help);
    for zone in &state.zones {
        let Some(answer) = answer::of_zone(state, zone, Request::default()) else {
            continue;
        };
        // Above the table only bounds are known.
        let top = zone.blocks.as_ref().map_or(0, Vec::len);
        for row in answer.rows.iter().filter(|row| (row.order as usize) < top) {
            if let Some(value) = value(row) {
                let (labels, order, bytes) = (labels(zone), row.order, row.bytes);
                let _ = writeln!(
                    text,
                    "everybuddy_memory_{name}{{{labels},order=\"{order}\",size_bytes=\"{bytes}\"}} {value}"
                );
            }
        }
    }
}
