//! A recorded machine: 24 GiB, under load. The expected numbers are those of an independent program in C, and of the
//! kernel's own tables.

use everybuddy_memory::frames::snapshot::{Stream, system_ram};
use everybuddy_memory::frames::windows::Between;
use everybuddy_memory::frames::{Extent, Holder, Kind, Map, Snapshot, ZoneWindows};
use flate2::read::GzDecoder;

use crate::common::{layout, read};

const IOMEM: &str = "\
00001000-0009fbff : System RAM
00100000-bfffffff : System RAM
100000000-63fffffff : System RAM
";

fn zone(name: &str, start: u64, spanned: u64, present: u64, managed: u64) -> Extent {
    Extent {
        name: name.into(),
        ..crate::common::zone(start, spanned, present, managed)
    }
}

fn snapshot() -> Snapshot {
    let layout = layout(
        vec![
            zone("DMA", 1, 4095, 3998, 3840),
            zone("DMA32", 4096, 1_044_480, 782_336, 772_808),
            zone("Normal", 1_048_576, 5_505_024, 5_505_024, 3_080_192),
            zone("Movable", 0, 0, 0, 0),
            zone("Device", 0, 0, 0, 0),
        ],
        system_ram(IOMEM, 4096),
    );
    let packed = include_bytes!("../data/k1-kpageflags.gz");
    let mut words = Stream::new(GzDecoder::new(&packed[..]));
    let mut snapshot = read(&layout, &mut words).expect("the recorded flags are complete");
    for (zone, on_lists) in snapshot.zones.iter_mut().zip([0, 126, 12_525]) {
        zone.on_lists = on_lists;
    }
    snapshot
}

#[test]
fn the_recorded_machine_gives_the_numbers_of_other_programs() {
    let snapshot = snapshot();
    let [dma, dma32, normal, movable, device] = &snapshot.zones[..] else {
        panic!("five zones");
    };
    let count = |kinds: &[Kind]| kinds.iter().map(|kind| normal.count(*kind)).sum::<u64>();
    assert_eq!(normal.count(Kind::Free), 1_870_828);
    assert_eq!(normal.count(Kind::Anonymous), 232_778 + 40);
    assert_eq!(count(&[Kind::Cache, Kind::FileHeld]), 714_063);
    assert_eq!(normal.count(Kind::Unevictable), 3381);
    assert_eq!(normal.count(Kind::Slab), 232_262);
    assert_eq!(normal.count(Kind::PageTable), 1430);
    assert_eq!(normal.count(Kind::Compound), 1936);
    // The kernel had not initialised 9.2 GiB; the rest is on the CPUs' lists, or unknown.
    assert_eq!(normal.count(Kind::NotStarted), 5_505_024 - 3_080_192);
    assert_eq!(normal.count(Kind::Unknown), 23_474);
    // Holes read like frames without flags.
    assert_eq!(dma32.count(Kind::Hole), 262_144);
    assert_eq!(dma32.count(Kind::Unknown), 126);
    assert_eq!(dma32.count(Kind::Reserved), 9528);
    assert_eq!(dma.count(Kind::Hole), 97);
    assert!(
        [dma, dma32, normal]
            .iter()
            .all(|zone| zone.holes_elsewhere == 0)
    );
    assert!(movable.kinds.is_empty() && device.kinds.is_empty());

    let windows: Vec<ZoneWindows> = snapshot
        .zones
        .iter()
        .map(|zone| ZoneWindows::of(zone, snapshot.largest_order()))
        .collect();
    // What /proc/buddyinfo printed. Normal was in use: 14,385 frames were freed between the two files.
    assert_eq!(
        windows[0].free_blocks(10),
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3]
    );
    assert_eq!(
        windows[1].free_blocks(10),
        [2, 4, 0, 2, 3, 2, 1, 5, 5, 3, 751]
    );
    let free = windows[2].free_blocks(10);
    assert_eq!(
        free,
        [
            16070, 13203, 29546, 22987, 17050, 10125, 4811, 1676, 492, 1, 274
        ]
    );
    let table: [u64; 11] = [
        13113, 13891, 29593, 22993, 17053, 10124, 4813, 1677, 492, 1, 261,
    ];
    let frames = |blocks: &[u64]| {
        (0..)
            .zip(blocks)
            .map(|(order, count)| count << order)
            .sum::<u64>()
    };
    assert_eq!(frames(&free), 1_870_828);
    assert_eq!(frames(&free) - frames(&table), 14_385);
    assert!(windows[3].orders.iter().all(|order| order.windows == 0));

    // Of zone Normal by order: free, free or movable, by moving, by dropping page cache (dirty and mapped excepted).
    let expected = [
        (0, 1_870_828, 2_821_090, 1_870_828),
        (3, 213_771, 345_241, 233_853),
        (4, 95_392, 169_673, 116_926),
        (9, 549, 2949, 2949),
        (10, 274, 976, 976),
        (13, 20, 29, 29),
        (18, 0, 0, 0),
    ];
    for (order, free, open, moving) in expected {
        let counted = &windows[2].orders[order];
        assert_eq!(counted.free, free, "order {order}");
        assert_eq!(counted.open, open, "order {order}");
        assert_eq!(counted.by_moving(0).least, moving, "order {order}");
    }
    let huge = &windows[2].orders[9];
    assert_eq!(huge.windows, 6016);
    assert_eq!(huge.blocked, 638);
    // Frames without flags stand in the way of 2429 windows, and the lists contain enough frames for 2408 of them.
    assert_eq!((huge.unsure_windows(), huge.perhaps()), (2429, 2408));
    // Moving alone lacks room for all of them.
    assert_eq!(
        huge.by_moving(0),
        Between {
            least: 2949,
            most: 3678
        }
    );
    assert_eq!(
        huge.by_dropping(0),
        Between {
            least: 2949,
            most: 2949 + 2088
        }
    );
    let holder = |kind, frames, blocks, alone| Holder {
        kind,
        frames,
        blocks,
        alone,
    };
    let holders = [
        holder(Kind::Slab, 232_262, 635, 305),
        holder(Kind::Compound, 1936, 34, 3),
        holder(Kind::PageTable, 1430, 172, 0),
    ];
    assert_eq!(huge.holders, holders);
    let low = &windows[1].orders[9];
    assert_eq!(
        (low.windows, low.free, low.blocked, low.unsure_windows()),
        (1528, 1505, 22, 1)
    );
    assert_eq!(windows[1].orders[18].free, 2);
    assert_eq!(windows[1].orders[13].free, 93);

    let map = Map::of(&snapshot);
    assert_eq!(map.cell_bytes, 2 << 20);
    // The first block of zone DMA contains a hole.
    let cells: Vec<usize> = map.zones.iter().map(|zone| zone.cells.len()).collect();
    assert_eq!(cells, [7, 1528, 6016]);
    assert_eq!(map.zones[2].address, 4 << 30);
}
