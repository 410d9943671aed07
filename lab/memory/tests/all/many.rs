//! Texts with more parts than any machine has: what is kept is bounded, so that time is in proportion to length.

use everybuddy_memory::state::{MAX_CLASSES, MAX_ZONES, Types};
use everybuddy_memory::{State, fuzz_checks};

use crate::common::states;

const NUMBERS: &str = "1 1 1 1 1 1 1 1 1 1 1 ";

/// A copy of `pagetypeinfo` whose only zone has this number of classes.
fn classes(count: usize) -> String {
    let row = |class| format!("Node    0, zone   Normal, type {class:>12} {NUMBERS}\n");
    let rows: String = (0..count).map(|class| row(format!("C{class}"))).collect();
    format!(
        "Page block order: 9\nFree pages count per migrate type at order 0 1 2 3 4 5 6 7 8 9 10\n{rows}"
    )
}

fn known_classes(state: &State) -> usize {
    let blocks = state.zones.iter().flat_map(|zone| &zone.blocks).flatten();
    let count = |types: &Types| match types {
        Types::Counts(counts) => counts.len(),
        _ => 0,
    };
    blocks.map(|blocks| count(&blocks.types)).max().unwrap_or(0)
}

#[test]
fn a_zone_with_too_many_classes_is_rejected_and_named() {
    let whole = states(classes(MAX_CLASSES).as_bytes());
    assert_eq!(known_classes(&whole[0]), MAX_CLASSES);
    assert_eq!(whole[0].remarks, [""; 0]);
    for count in [MAX_CLASSES + 1, 3000, 6000] {
        // The table that lacks classes is not used, and that of `buddyinfo` is.
        let text = format!("{}Node 0, zone Normal {NUMBERS}\n", classes(count));
        let states = states(text.as_bytes());
        assert_eq!(states.len(), 1);
        assert_eq!(known_classes(&states[0]), 0);
        assert!(states[0].zones[0].blocks.is_some());
        let remark =
            "text:35: zone Normal of node 0 has more than 32 classes: the other rows are ignored";
        assert_eq!(states[0].remarks, [remark]);
    }
}

#[test]
fn a_row_that_continues_a_rejected_one_does_not_change_another() {
    let text = format!("{}77 77\n", classes(MAX_CLASSES + 1));
    let with = states(text.as_bytes());
    let without = states(classes(MAX_CLASSES + 1).as_bytes());
    assert_eq!(with[0].remarks, without[0].remarks);
}

#[test]
fn a_state_has_a_bounded_number_of_zones() {
    let count = MAX_ZONES + 100;
    let line = |node| format!("Node {node} Normal free:8kB min:1kB low:1kB high:1kB\n");
    let table = |node| format!("Node {node} Normal: 2*4kB (U) = 8kB\n");
    let log: String = (0..count).map(line).chain((0..count).map(table)).collect();
    let begin = |node| format!("Node {node}, zone Normal\n  pages free 2\n        min 1\n");
    let copy: String = (0..count).map(begin).collect();
    for text in [format!("Mem-Info:\n{log}"), copy] {
        let states = states(text.as_bytes());
        assert!(!states.is_empty());
        let most = states.iter().map(|state| state.zones.len()).max();
        assert!(most <= Some(MAX_ZONES), "{most:?}");
    }
    // No zone of a log is lost.
    let states = states(format!("Mem-Info:\n{log}").as_bytes());
    let zones = states.iter().flat_map(|state| &state.zones);
    let mut nodes: Vec<_> = zones.map(|zone| zone.extent.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), count);
}

/// With a search through all rows for each row, these take minutes.
#[test]
fn many_copies_of_large_tables_are_read() {
    fuzz_checks::text(classes(3000).repeat(40).as_bytes());
    let rows = |count: usize| -> String {
        let row = |row| format!("Node {row}, zone Normal {NUMBERS}\n");
        (0..count).map(row).collect()
    };
    // Most rows are beyond the limit.
    assert_eq!(states(rows(200_000).as_bytes())[0].remarks.len(), 1);
}
