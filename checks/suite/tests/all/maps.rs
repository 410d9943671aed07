//! Memory maps of real machines: metadata that follow the memory, and all systems on them.

use everybuddy::platform::NativeCpus;
use everybuddy::systems::ROWS;
use everybuddy::{
    FrameAllocator, FrameRange, Node, Nodes, Pfn, Place, RegionError, Release, Request, Setup,
    SystemSpec, Zone, metadata_layout,
};
use everybuddy_suite::{Machine, claim, for_each_spec, free_frames, on};

use crate::nodes::with_systems;

/// Ranges by first and last address, in frames of 4 KiB. The last frame of a range may be a part of one.
type Map = &'static [(u64, u64)];

/// A server with four ARM processors of 64 cores: two nodes on each board, and the second board at 32 TiB.
const FOUR_NODES: Map = &[
    (0x0, 0x7fff_ffff),
    (0x20_8000_0000, 0x2f_ffff_ffff),
    (0x40_0000_0000, 0x4f_ffff_ffff),
    (0x2020_0000_0000, 0x202f_ffff_ffff),
    (0x2040_0000_0000, 0x204f_ffff_ffff),
];
/// An arm64 machine whose nodes are at 8 TiB and at 64 TiB.
const FAR_NODES: Map = &[
    (0x800_0000_0000, 0x80f_ffff_ffff),
    (0x4000_0000_0000, 0x400f_ffff_ffff),
];
/// 34 GiB in 544 GiB: a board with 2 GiB below 4 GiB and the rest at 512 GiB.
const SPARSE: Map = &[(0x8000_0000, 0xffff_ffff), (0x80_0000_0000, 0x87_ffff_ffff)];
/// A PC with 16 GiB: holes below 1 MiB, in the tables of the firmware, and below 4 GiB.
const PC: Map = &[
    (0x0, 0x9_efff),
    (0x10_0000, 0x9cf_efff),
    (0xa00_0000, 0xa1f_ffff),
    (0xa20_e000, 0xca8a_7fff),
    (0xcd9f_f000, 0xcdff_ffff),
    (0x1_0000_0000, 0x4_0f33_ffff),
];

/// Returns the ranges of a map, each with at most `most` frames at its start.
fn ranges(map: Map, most: u64) -> Vec<FrameRange> {
    let range = |(first, last): &(u64, u64)| {
        let start = Pfn::containing(*first, 12);
        FrameRange::new(start, ((last + 1) / 4096 - start.0).min(most))
    };
    map.iter().map(range).collect()
}

fn bytes(spec: &SystemSpec, setup: &Setup<'_>) -> u64 {
    let layout = metadata_layout::<Machine>(spec, setup);
    layout
        .unwrap_or_else(|error| panic!("{spec}: {error}"))
        .size() as u64
}

/// Whatever lies between the parts, a system takes as much memory as for one part of the same length.
#[test]
fn metadata_follow_what_exists() {
    for spec in ROWS.iter().map(SystemSpec::of) {
        for map in [FOUR_NODES, FAR_NODES, SPARSE, PC] {
            let ranges = ranges(map, u64::MAX);
            let frames: u64 = ranges.iter().map(|range| range.frames).sum();
            // Those of the PC have somewhat less than 1 GiB.
            let small_holes = if map == PC { 1 << 18 } else { 0 };
            let together = [FrameRange::new(Pfn(0), frames + small_holes)];
            let apart = bytes(&spec, &Setup::new(&ranges, 64));
            let together = bytes(&spec, &Setup::new(&together, 64));
            assert!(
                apart <= together + 4096,
                "{spec}: {apart} instead of {together} bytes for {map:x?}"
            );
        }
    }
}

/// 1 TiB is plugged in later, far above 8 GiB that are there.
#[test]
fn a_reach_takes_metadata_of_its_own() {
    let ranges = [FrameRange::new(Pfn(0), 1 << 21)];
    let setup = Setup::new(&ranges, 8);
    let reach = setup.with_reach(FrameRange::new(Pfn(16 << 28), 1 << 28));
    let together = [FrameRange::new(Pfn(0), (1 << 21) + (1 << 28))];
    for spec in ROWS.iter().map(SystemSpec::of) {
        let together = bytes(&spec, &Setup::new(&together, 8));
        let with_reach = bytes(&spec, &reach);
        let without = bytes(&spec, &setup);
        // What follows from the size of the memory that exists does not grow.
        assert!(
            with_reach <= together + 4096,
            "{spec}: {with_reach}, {together}"
        );
        assert!(without < with_reach / 16, "{spec}: {without}, {with_reach}");
    }
}

/// All frames are given once, with their physical numbers, and errors of ranges name physical frames.
#[test]
fn every_system_manages_memory_of_real_machines() {
    for_each_spec(|spec| {
        for map in [FOUR_NODES, FAR_NODES, SPARSE, PC] {
            let ranges = ranges(map, 150);
            on_map(spec, &ranges);
        }
    });
}

fn on_map(spec: &SystemSpec, ranges: &[FrameRange]) {
    let reach = FrameRange::new(Pfn(0x5000_0000_0000 >> 12), 64);
    let setup = Setup::new(ranges, 2).with_reach(reach);
    on(&spec.to_string(), &setup, |system| {
        let cpus = NativeCpus::new(2);
        let mut cpu = claim(&cpus, 0);
        let cpu = &mut cpu;
        let span = system.span();
        let mut expected: Vec<u64> = ranges
            .iter()
            .flat_map(|range| range.start.0..range.end().unwrap().0)
            .collect();
        let all = |cpu: &mut _| {
            let mut held = Vec::new();
            while let Ok(frame) = system.allocate(cpu, Request::FRAME) {
                held.push(frame);
            }
            let mut physical: Vec<_> = held.iter().map(|frame| span.physical(*frame).0).collect();
            physical.sort_unstable();
            free_frames(system, cpu, held);
            physical
        };
        assert_eq!(all(cpu), expected);
        for range in ranges {
            let last = range.start.checked_add(range.frames - 1).unwrap();
            let start = system.allocate_at(cpu, FrameRange::new(last, 1)).unwrap();
            assert_eq!(span.physical(start), last);
            let refused = RegionError::NotFree(last);
            assert_eq!(system.allocate_at(cpu, *range), Err(refused));
            assert_eq!(system.reserve(cpu, *range), Err(refused));
            assert_eq!(system.remove(cpu, *range), Err(refused));
            let managed = RegionError::AlreadyManaged(last);
            assert_eq!(system.add(cpu, FrameRange::new(last, 1)), Err(managed));
            system.free(cpu, Release::frame(start)).unwrap();
        }
        // A part does not continue the one before it.
        let across = FrameRange::new(ranges[0].start, u64::from(span.frames()));
        assert_eq!(system.reserve(cpu, across), Err(RegionError::OutsideSpan));
        // A hole and a reservation share a word of 64 frames.
        let end = ranges[0].end().unwrap().0;
        let reserved = FrameRange::new(Pfn(end - 3), 2);
        system.reserve(cpu, reserved).unwrap();
        expected.retain(|frame| !(end - 3..end - 1).contains(frame));
        assert_eq!(all(cpu), expected);
        system.unreserve(cpu, reserved).unwrap();
        // Below a limit, in the first range.
        let place = Place::ANYWHERE.below(Pfn(end));
        let low = system.allocate_in(cpu, Request::FRAME, &place).unwrap();
        assert!(span.physical(low) < Pfn(end));
        system.free(cpu, Release::frame(low)).unwrap();
        // What arrives in the reach is as good as the rest.
        system.add(cpu, reach).unwrap();
        let start = system.allocate_at(cpu, reach).unwrap();
        assert_eq!(span.physical(start), reach.start);
        system.free(cpu, Release::frames(start, 64)).unwrap();
        system.quiesce(cpu).unwrap();
        let census = system.check(cpu).unwrap();
        let frames: u64 = ranges.iter().map(|range| range.frames).sum();
        assert_eq!(census.free, frames + 64);
    });
}

/// A zone for each node, each with parts of its own.
#[test]
fn zones_of_far_nodes_are_one_system() {
    let all = ranges(FOUR_NODES, 2048);
    let parts = [&all[..2], &all[2..3], &all[3..4], &all[4..]].map(<[_]>::to_vec);
    let spec: SystemSpec = "everybuddy".parse().unwrap();
    with_systems(&spec, &parts, 2, &mut |systems| {
        let zones: Vec<_> = (0u8..)
            .zip(systems)
            .map(|(node, system)| Zone::new(node, *system))
            .collect();
        let nodes = Nodes::new(&zones, &[0, 3], &[]).unwrap();
        let cpus = NativeCpus::new(2);
        let mut cpu = claim(&cpus, 1);
        let cpu = &mut cpu;
        assert_eq!(nodes.span().parts().count(), 5);
        assert_eq!(nodes.span().frames(), 5 * 2048);
        for (node, part) in (0u8..).zip(&parts) {
            let place = Place::ANYWHERE.on(Node::Only(node));
            let frame = nodes.allocate_in(cpu, Request::FRAME, &place).unwrap();
            let physical = nodes.span().physical(frame);
            let holds =
                |range: &FrameRange| physical >= range.start && Some(physical) < range.end();
            assert!(part.iter().any(holds), "{physical} on node {node}");
            let range = FrameRange::new(physical, 1);
            let refused = Err(RegionError::NotFree(physical));
            assert_eq!(nodes.allocate_at(cpu, range), refused);
            nodes.free(cpu, Release::frame(frame)).unwrap();
            assert_eq!(nodes.allocate_at(cpu, range), Ok(frame));
            nodes.free(cpu, Release::frame(frame)).unwrap();
        }
        let census = nodes.check(cpu).unwrap();
        assert_eq!((census.free + census.buffered, census.holes), (5 * 2048, 0));
    });
}
