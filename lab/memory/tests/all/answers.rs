//! Real texts give the numbers of `answers.tsv`.

use std::collections::BTreeMap;

use everybuddy_memory::answer;
use everybuddy_memory::request::Request;
use everybuddy_memory::state::{Kind, Types};
use everybuddy_memory::{State, Zone, live};

use crate::common::{path, states, text};

/// Reads `0`, or `0?` for a kernel without nodes.
fn node(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn zone<'a>(state: &'a State, node: Option<u32>, name: &str) -> &'a Zone {
    let zone = state.zones.iter().find(|zone| zone.extent.is(node, name));
    zone.unwrap_or_else(|| panic!("{state:?} lacks {node:?} {name}"))
}

#[test]
fn every_answer() {
    let answers = String::from_utf8(text("answers.tsv")).unwrap();
    let mut read: BTreeMap<String, Vec<State>> = BTreeMap::new();
    let mut lines: BTreeMap<String, Vec<(Option<u32>, String, u64)>> = BTreeMap::new();
    for row in answers.lines().skip(1) {
        let cells: Vec<&str> = row.split('\t').collect();
        let file = cells[0].to_owned();
        let states = read
            .entry(file.clone())
            .or_insert_with(|| states(&text(&file)));
        let name = cells[3];
        if cells[1] == "zone line" {
            let line = (node(cells[2]), name.to_owned(), cells[6].parse().unwrap());
            lines.entry(file).or_default().push(line);
            continue;
        }
        let index: usize = cells[1].parse().unwrap();
        let state = &states[index];
        let zone = zone(state, node(cells[2]), name);
        let frame_kib = state.frame.bytes / 1024;
        assert_eq!(frame_kib, cells[4].parse::<u64>().unwrap(), "{row}");
        let free: u64 = cells[6].parse().unwrap();
        assert_eq!(zone.free_frames(), Some(free / frame_kib), "{row}");
        if cells[5].is_empty() {
            assert_eq!(zone.blocks, None, "{row}");
            continue;
        }
        let blocks = zone.blocks.as_ref().unwrap();
        let counts: Vec<String> = blocks
            .iter()
            .map(|blocks| blocks.count.value.to_string())
            .collect();
        assert_eq!(counts.join(" "), cells[5], "{row}");
        let largest = blocks
            .iter()
            .rposition(|blocks| blocks.count.value > 0)
            .map(|order| frame_kib << order);
        assert_eq!(largest, cells[7].parse().ok(), "{row}");
        special(state, zone, cells[9]);
    }
    for (file, expected) in lines {
        let zones = read[&file]
            .iter()
            .flat_map(|state| state.zones.iter().map(move |zone| (state, zone)));
        let counters: Vec<(Option<u32>, String, u64)> = zones
            .filter_map(|(state, zone)| {
                Some((
                    zone.extent.node,
                    zone.extent.name.clone(),
                    zone.free? * (state.frame.bytes / 1024),
                ))
            })
            .collect();
        assert_eq!(counters, expected, "{file}");
    }
    assert_eq!(read.len(), 11);
    assert_eq!(read["s13-paf-4.4-two.txt"].len(), 2);
    assert_eq!(read["s27-paf-6.19-dmesgT-two.txt"].len(), 2);
    for (file, states) in &read {
        assert!(
            states.iter().all(|state| state.remarks.is_empty()),
            "{file}: {states:?}"
        );
    }
}

/// Checks `only special types at 256kB(H),1024kB(C)`.
fn special(state: &State, zone: &Zone, remark: &str) {
    let Some(sizes) = remark.strip_prefix("only special types at ") else {
        return;
    };
    for size in sizes.split(',') {
        let (kib, _) = size.split_once("kB(").unwrap();
        let order = (kib.parse::<u64>().unwrap() * 1024 / state.frame.bytes).ilog2() as usize;
        let blocks = &zone.blocks.as_ref().unwrap()[order];
        let Types::Present(types) = &blocks.types else {
            panic!("{size}: {blocks:?}");
        };
        assert!(types.iter().all(|name| !name.is_general()), "{size}");
    }
    // The largest blocks are all special: no ordinary request may use them.
    let largest = zone
        .blocks
        .as_ref()
        .unwrap()
        .iter()
        .rposition(|blocks| blocks.count.value > 0)
        .unwrap();
    let answer = answer::of_zone(state, zone, Request::default()).unwrap();
    assert_eq!(answer.rows[largest].usable.high, Some(0));
    assert_ne!(answer.rows[largest].free.low, 0);
}

#[test]
fn cma_and_high_memory_serve_movable_requests_only() {
    let states = states(&text("s30-oom-6.x-armv7-cma.txt"));
    let (state, zone) = (&states[0], &states[0].zones[0]);
    let usable = |is_movable| {
        let request = Request {
            is_movable,
            is_for_zone: true,
            ..Request::default()
        };
        answer::of_zone(state, zone, request).unwrap().rows[10].usable
    };
    assert_eq!(usable(false).value(), Some(0));
    // The watermark withholds one of 125.
    assert_eq!(usable(true).value(), Some(124));
}

#[test]
fn watermarks_and_reserves_withhold_blocks() {
    let states = states(&text("s13-paf-4.4-two.txt"));
    let rows = |name: &str| {
        let zone = zone(&states[0], Some(0), name);
        answer::of_zone(&states[0], zone, Request::default())
            .unwrap()
            .rows
    };
    // The reserve of 6453 frames is more than the zone has.
    assert_eq!(rows("DMA")[10].usable.value(), Some(0));
    assert_eq!(rows("DMA")[10].free.value(), Some(3));
    // 3,367,272 kB minus `min` of 73,476 kB has room for 804 blocks of 4 MiB.
    assert_eq!(rows("Normal")[10].usable.value(), Some(804));
    // A table knows no neighbours: 810 blocks of 4 MiB are at most 101 blocks of 32 MiB, 100 above the watermark.
    assert_eq!(rows("Normal")[13].free.low, 0);
    assert_eq!(rows("Normal")[13].free.high, Some(101));
    assert_eq!(rows("Normal")[13].usable.high, Some(100));
}

#[test]
fn files_of_one_machine_are_joined_and_their_differences_named() {
    let mut whole = text("s01-buddyinfo-5.4.txt");
    whole.extend_from_slice(b"\n--- other files ---\n");
    whole.extend_from_slice(&text("s02-pagetypeinfo-5.4.txt"));
    whole.extend_from_slice(&text("s03-zoneinfo-5.4.txt"));
    let states = states(&whole);
    assert_eq!(states.len(), 1);
    assert!(states[0].has(Kind::Buddyinfo));
    assert!(states[0].has(Kind::Pagetypeinfo));
    assert!(states[0].has(Kind::Zoneinfo));
    let zone = zone(&states[0], Some(0), "Normal");
    assert_eq!(zone.table_frames().unwrap().value, 5149);
    assert_eq!((zone.free, zone.min), (Some(5146), Some(4130)));
    assert!(
        states[0]
            .remarks
            .iter()
            .any(|remark| remark.contains("232 kB")),
        "{:?}",
        states[0].remarks
    );
}

#[test]
fn a_second_file_of_a_kind_begins_a_second_state() {
    let mut whole = text("s01-buddyinfo-5.4.txt");
    whole.extend_from_slice(&text("k1-buddyinfo.txt"));
    assert_eq!(states(&whole).len(), 2);
}

#[test]
fn zoneinfo_gives_lists_watermarks_and_sizes() {
    let states = states(&text("k1-zoneinfo.txt"));
    let normal = zone(&states[0], Some(0), "Normal");
    assert_eq!(normal.free, Some(1_856_560));
    assert_eq!(normal.min, Some(13_493));
    assert_eq!(normal.high, Some(20_239));
    assert_eq!(normal.extent.spanned, Some(5_505_024));
    assert_eq!(normal.extent.managed, Some(3_080_192));
    assert_eq!(normal.extent.start, Some(1_048_576));
    let lists: Vec<_> = normal
        .lists
        .iter()
        .map(|list| (list.cpu, list.count, list.high))
        .collect();
    assert_eq!(
        lists,
        [(0, Some(8312), Some(14_305)), (1, Some(4213), Some(17_286))]
    );
    assert_eq!(
        zone(&states[0], Some(0), "DMA32").lowmem_reserve,
        [0, 0, 12_032, 12_032, 12_032]
    );
}

#[test]
fn a_folder_is_read_like_proc() {
    let folder = tempfile::tempdir().unwrap();
    for (copy, name) in [
        ("k1-buddyinfo.txt", "buddyinfo"),
        ("k1-zoneinfo.txt", "zoneinfo"),
    ] {
        std::fs::copy(path(copy), folder.path().join(name)).unwrap();
    }
    std::fs::write(
        folder.path().join("meminfo"),
        "MemTotal:       15426000 kB\n",
    )
    .unwrap();
    let state = live::read(folder.path(), live::Depth::Tables).unwrap();
    assert_eq!(state.zones.len(), 5);
    assert!(state.frame.is_known);
    assert_eq!(state.remarks.len(), 2, "{:?}", state.remarks);
    assert!(live::read(&folder.path().join("missing"), live::Depth::Holders).is_err());
}
