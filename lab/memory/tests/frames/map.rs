//! The picture: its cells, and its HTML.

use everybuddy_memory::frames::html;
use everybuddy_memory::frames::{Kind, Map, Snapshot, Verdict};

use crate::common::of_kinds;

/// Frames of 64 KiB: blocks of 2 MiB have 32.
fn snapshot(name: &str, start: u64, kinds: Vec<Kind>) -> Snapshot {
    let mut zone = of_kinds(start, kinds);
    zone.extent.name = name.into();
    Snapshot::of(vec![zone], 65536)
}

#[test]
fn cells_show_what_decides() {
    let mut kinds = vec![Kind::Hole; 32];
    kinds.extend(vec![Kind::Free; 32]);
    kinds.extend(vec![Kind::Anonymous; 32]);
    kinds.extend(vec![Kind::Cache; 32]);
    kinds.extend(vec![Kind::Anonymous; 31]);
    kinds.push(Kind::Slab);
    kinds.extend(vec![Kind::Free; 31]);
    kinds.push(Kind::Unknown);
    // Two pinned classes: the one with more frames.
    kinds.extend(vec![Kind::Free; 20]);
    kinds.extend(vec![Kind::PageTable; 5]);
    kinds.extend(vec![Kind::Slab; 7]);
    // A part of a block.
    kinds.extend(vec![Kind::Free; 5]);
    let map = Map::of(&snapshot("Normal", 64, kinds));
    assert_eq!((map.block_bytes, map.cell_bytes), (2 << 20, 2 << 20));
    assert_eq!(map.zones[0].address, 6 << 20);
    let slab = Verdict::Held(Kind::Slab);
    let expected = [
        Verdict::Free,
        Verdict::Moving,
        Verdict::Dropping,
        slab,
        Verdict::Perhaps,
        slab,
    ];
    assert_eq!(map.zones[0].cells, expected);
    assert_eq!(map.zones[0].blocks[&slab], 2);
    assert_eq!(map.zones[0].blocks[&Verdict::Absent], 2);
}

#[test]
fn large_memories_have_larger_cells() {
    // 50,000 blocks, from the middle of a cell on: three of four are free.
    let blocks = 50_000;
    let kinds =
        (0..blocks).flat_map(|at| vec![if at % 4 == 1 { Kind::Slab } else { Kind::Free }; 32]);
    let map = Map::of(&snapshot("Normal", 32 * 6, kinds.collect()));
    assert_eq!(map.cell_bytes, 8 << 20);
    assert_eq!(map.zones[0].address, 8 << 20);
    assert_eq!(map.zones[0].cells.len(), 12_501);
    // The first cell has two blocks, and of equal counts the worse one is shown.
    assert_eq!(map.zones[0].cells[0], Verdict::Held(Kind::Slab));
    assert_eq!(map.zones[0].cells[1], Verdict::Free);
    assert_eq!(map.zones[0].blocks.values().sum::<u64>(), blocks);
}

#[test]
fn every_class_has_a_colour_of_its_own() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_pinned()) {
        let map = Map::of(&snapshot("Normal", 0, vec![kind; 32]));
        let html = html::section(&map);
        assert!(
            html.contains(&format!("held by: {}", kind.name())),
            "{kind:?}"
        );
        assert!(!html.contains("data-cells=\"o"), "{kind:?}");
    }
    assert!(
        Map::of(&snapshot("Normal", 0, vec![Kind::Hole; 32]))
            .zones
            .is_empty()
    );
    assert!(Map::of(&Snapshot::of(Vec::new(), 0)).zones.is_empty());
}

#[test]
fn the_picture_is_complete_and_escapes_names() {
    let map = Map::of(&snapshot("<b>\"Normal\"", 0, vec![Kind::Free; 64]));
    let section = html::section(&map);
    assert!(section.contains("&lt;b&gt;&quot;Normal&quot;") && !section.contains("<b>"));
    assert!(section.contains("data-cells=\"aa\""));
    assert!(section.contains("free now</td><td>2</td>"));
    // Nothing is loaded from elsewhere.
    assert!(!section.contains("http") && !section.contains("src=") && !section.contains("href="));
}
