//! A machine over time: `--every 60s -o FILE` appends lines, and `memory FILE.jsonl --html` draws them.
//!
//! Large blocks go in hours or weeks. Users must know since when, and what grew meanwhile.
//!
//! # Invariants
//! A line is written as a whole, and only tables are read: the flags of all frames would take more than a thousandth of
//! a CPU. At most two files of the given size exist.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::answer;
use crate::request::Request;
use crate::state::{State, Types};

/// What may hold blocks, by the names of `/proc/meminfo`.
const HOLDERS: &str =
    "AnonPages Cached Hugetlb KernelStack PageTables Percpu SReclaimable SUnreclaim Shmem";

/// Writes a state as a line of JSON: blocks by order and by class, and what holds memory, in KiB.
#[must_use]
pub fn line(state: &State, seconds: u64) -> String {
    let zones = state.zones.iter().filter_map(|zone| {
        let blocks = zone.blocks.as_ref()?;
        let answer = answer::of_zone(state, zone, Request::shown(zone))?;
        let usable = answer.rows.iter().take(blocks.len());
        let mut classes: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (order, blocks) in blocks.iter().enumerate() {
            if let Types::Counts(types) = &blocks.types {
                for (name, count) in types {
                    let counts = classes.entry(name.name()).or_default();
                    counts.resize(order, 0);
                    counts.push(count.value);
                }
            }
        }
        Some(json!({
            "node": zone.extent.node,
            "zone": zone.extent.name,
            "blocks": blocks.iter().map(|blocks| blocks.count.value).collect::<Vec<_>>(),
            "usable": usable.map(|row| row.usable.low).collect::<Vec<_>>(),
            "classes": classes,
        }))
    });
    let held = HOLDERS.split(' ');
    let held = held.filter_map(|name| Some((name, *state.meminfo.get(name)?)));
    let line = json!({
        "time": seconds,
        "frame_bytes": state.frame.bytes,
        "zones": zones.collect::<Vec<_>>(),
        "held_kib": held.collect::<BTreeMap<_, _>>(),
    });
    format!("{line}\n")
}

/// Appends a line. A file that would grow beyond the limit gets the suffix `.1`, instead of the one that has it.
///
/// # Errors
///
/// Returns any error that prevents writing.
pub fn append(path: &Path, line: &str, limit: u64) -> io::Result<()> {
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if length > 0 && length + line.len() as u64 > limit {
        let mut former = path.as_os_str().to_owned();
        former.push(".1");
        fs::rename(path, former)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())
}

/// Writes the page that draws these lines, or `None` if there is none. A line that was cut off is left out.
#[must_use]
pub fn page(lines: &str) -> Option<String> {
    let values = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let values: Vec<Value> = values
        .filter(|value: &Value| value["zones"].is_array())
        .collect();
    let data = serde_json::to_string(&values).ok()?.replace('<', "\\u003c");
    let page = include_str!("../assets/history.html")
        .replacen("{{style}}", include_str!("../assets/answer.css"), 1)
        .replacen("{{script}}", include_str!("../assets/history.js"), 1);
    (!values.is_empty()).then(|| page.replacen("{{data}}", &data, 1))
}
