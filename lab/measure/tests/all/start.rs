//! Memory as it was on a machine: what is drawn, and what systems start with.

use everybuddy::platform::NativeCpus;
use everybuddy::{CpuId, FrameState, Index, Order};
use everybuddy_measure::choice;
use everybuddy_measure::replay::free_map::FreeMap;
use everybuddy_measure::replay::host::{AnySystem, Arena};
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::watch::Watch;

/// The free blocks of zone `Normal` of a machine of 24 GiB.
const COUNTS: [u64; 11] = [
    13_113, 13_891, 29_593, 22_993, 17_053, 10_124, 4813, 1677, 492, 1, 261,
];
const NORMAL: u64 = 5_373_952;

#[test]
fn a_drawn_map_has_the_counts_it_was_drawn_for() {
    let draw = |seed| FreeMap::random("b", &COUNTS, Some(NORMAL), seed).unwrap();
    let map = draw(3);
    assert_eq!(map.blocks(Order::TEN), COUNTS);
    assert_eq!(map.frames(), NORMAL);
    assert_eq!(map, draw(3));
    assert_ne!(map, draw(4));
    let taken: Vec<u32> = map.taken().collect();
    assert_eq!(taken.len() as u64, NORMAL - map.free());
    // Blocks are everywhere.
    let middle = map.ranges()[map.ranges().len() / 2].start.0;
    assert!(middle.abs_diff(NORMAL / 2) < NORMAL / 50, "{middle}");
}

#[test]
fn every_full_map_is_possible_and_no_fuller_one() {
    // Of each block of order 10, one half of order 9 is free, then of the other half one of order 8, and so on.
    let full = |blocks: u64| {
        let mut counts = [blocks; 11];
        counts[10] = 0;
        counts
    };
    let map = FreeMap::random("b", &full(7), Some(7 << 10), 1).unwrap();
    assert_eq!(map.blocks(Order::TEN), full(7).to_vec());
    assert_eq!(map.free(), 7 * 1023);
    let error = FreeMap::random("b", &full(7), Some(6 << 10), 1).unwrap_err();
    let what = "it has 7 free blocks of order 9, and a zone of 24 MiB has at most 6 places";
    assert!(error.to_string().contains(what), "{error}");
    // Without a size, there is always room.
    for counts in [
        &full(7)[..],
        &[5000],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3],
    ] {
        let map = FreeMap::random("b", counts, None, 1).unwrap();
        let sum: u64 = counts
            .iter()
            .zip(0..)
            .map(|(count, order)| count << order)
            .sum();
        assert_eq!(map.free(), sum);
        assert!(map.frames() >= 2 * sum);
    }
    // A block of order 12 is four of order 10.
    let map = FreeMap::random("b", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3], None, 1);
    assert_eq!(map.unwrap().blocks(Order::TEN)[10], 13);
    assert!(FreeMap::random("b", &[u64::MAX; 11], None, 1).is_err());
}

#[test]
fn an_exact_map_keeps_the_alignment_of_the_machine() {
    let start = (5 << 18) + 4096;
    let runs = [start + 3..start + 5, start + 8..start + 16];
    let map = FreeMap::exact("a b+c@d=e", start..start + 2000, runs);
    assert_eq!(map.label(), "a-b-c-d-e");
    assert_eq!(map.frames(), 4096 + 2048);
    assert_eq!(map.blocks(Order::TEN)[..5], [2, 0, 0, 1, 0]);
    let part = map.part(3).unwrap();
    assert_eq!((part.frames(), part.free()), (4096 + 1024, 10));
    assert_eq!(map.part(10).unwrap(), map);
    let error = map.part(11).unwrap_err().to_string();
    assert!(error.contains("44 KiB"), "{error}");
    assert!(error.contains("40 KiB"), "{error}");
}

#[test]
fn all_systems_start_with_the_free_frames_of_a_machine() {
    let counts = [700, 300, 200, 90, 60, 30, 12, 9, 3, 2, 5];
    let drawn = FreeMap::random("synthetic", &counts, Some(20 << 10), 7).unwrap();
    let start = 3 << 18;
    let runs = [start + 700..start + 701, start + 1020..start + 3333];
    let exact = FreeMap::exact("synthetic", start..start + 4000, runs);
    assert_eq!(drawn.blocks(Order::TEN), counts);
    for map in [drawn, exact] {
        let memory = Memory::started(map.clone().into());
        for spec in choice::all() {
            let see = |system: &AnySystem<'_, Watch>| {
                let cpus = NativeCpus::new(2);
                let mut cpu = cpus.claim_probed(CpuId(0)).unwrap();
                let census = system.check(&mut cpu).unwrap();
                (
                    system.snapshot(&mut cpu),
                    census.allocated,
                    are_holes(system),
                )
            };
            let built = Arena::default().build_any(&spec, &memory, 2, see);
            let (snapshot, allocated, states) = built.unwrap();
            let free = snapshot.free_frames() + snapshot.buffered_frames;
            assert_eq!((free, allocated), (map.free(), 0), "{spec}");
            // A frame has the same number for all systems, and those in use are none of theirs.
            let taken: Vec<u32> = map
                .taken()
                .filter(|frame| (*frame as usize) < states.len())
                .collect();
            let holes = (0..states.len() as u32).filter(|frame| states[*frame as usize]);
            assert_eq!(holes.collect::<Vec<_>>(), taken, "{spec}");
            if spec.name() == "bs" {
                let blocks = map.blocks(Order::TEN);
                let seen = snapshot.free_blocks[..blocks.len()].iter();
                assert_eq!(
                    seen.map(|count| u64::from(*count)).collect::<Vec<_>>(),
                    blocks
                );
            }
        }
    }
}

/// Returns for each frame whether it is none of the system's.
fn are_holes(system: &AnySystem<'_, Watch>) -> Vec<bool> {
    let states = (0..).map_while(|frame| system.frame_state(Index(frame)));
    states.map(|state| state == FrameState::Hole).collect()
}
