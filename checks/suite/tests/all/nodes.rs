//! Zones by node and address, as one system: the conformance suite over them, and which zone serves what.

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, BuildError, Class, Colours, FrameAllocator, FrameRange, FrameState, FreeError,
    Index, Memory, Node, Nodes, Order, Pfn, Place, Reason, RegionError, Release, Request, Setup,
    SystemSpec, Zone, build_erased,
};
use everybuddy_suite::platform::memory_for;
use everybuddy_suite::{
    Cpu, Host, Machine, Threads, allocate_frames, claim, free_frames, properties,
};

type System<'s> = dyn FrameAllocator<Machine> + 's;

/// Builds a system for each of the ranges, and calls `body` with them.
pub(crate) fn with_systems(
    spec: &SystemSpec,
    parts: &[Vec<FrameRange>],
    cpus: u16,
    body: &mut dyn FnMut(&[&System<'_>]),
) {
    let setups: Vec<_> = parts
        .iter()
        .map(|ranges| Setup::new(ranges, cpus))
        .collect();
    let mut memories: Vec<_> = setups
        .iter()
        .map(|setup| memory_for::<Machine>(spec, setup))
        .collect();
    let systems: Vec<_> = setups
        .iter()
        .zip(&mut memories)
        .map(|(setup, memory)| build_erased::<Machine>(spec, setup, Memory::new(memory)).unwrap())
        .collect();
    body(&systems);
}

/// Cuts memory into three zones at multiples of 32 frames, where memory allows: one node, and another one of two zones.
struct Cut;

impl Host<Machine> for Cut {
    fn build(
        &self,
        spec: &SystemSpec,
        setup: &Setup<'_>,
        visitor: &mut dyn FnMut(&dyn FrameAllocator<Machine>),
    ) {
        let ranges = setup.ranges();
        let (first, end) = (
            ranges[0].start.0,
            ranges.iter().filter_map(FrameRange::end).max().unwrap().0,
        );
        let third = ((end - first) / 3).next_multiple_of(32);
        let start = first & !31;
        let borders = [start, start + third, start + 2 * third, u64::MAX].map(Pfn);
        let parts: Vec<Vec<FrameRange>> = borders
            .windows(2)
            .map(|border| {
                let within = |range: &FrameRange| {
                    let start = range.start.max(border[0]);
                    let end = range.end().unwrap().min(border[1]);
                    (start < end).then(|| FrameRange::new(start, end.0 - start.0))
                };
                ranges.iter().filter_map(within).collect::<Vec<_>>()
            })
            .filter(|ranges| !ranges.is_empty())
            .collect();
        with_systems(spec, &parts, setup.cpus(), &mut |systems| {
            let zones: Vec<_> = systems
                .iter()
                .zip([0, 1, 1])
                .map(|(system, node)| Zone::new(node, *system))
                .collect();
            visitor(&Nodes::new(&zones, &[0, 1, 0], &[&[10, 30], &[30, 10]]).unwrap());
        });
    }

    fn run<F: Fn(&mut Cpu) + Sync>(&self, cpus: u16, body: F) {
        Threads.run(cpus, body);
    }
}

/// The systems that zones are made of here.
const SYSTEMS: [&str; 6] = [
    "bs+order=5",
    "lbs-31+order=5+batch=2+high=3",
    "is+order=5+space=128KiB",
    "spring+order=5",
    "linux-6+order=5",
    "serewa+order=5",
];

/// Defines a test of each property, over zones.
macro_rules! zones_conform {
    ($($property:ident),* $(,)?) => {$(
        #[test]
        fn $property() {
            for spec in SYSTEMS {
                properties::$property::<Machine, _>(&Cut, &spec.parse().unwrap());
            }
        }
    )*};
}

// Two kinds of properties are left out: those about ranges outside the first zone (`ranges_come_and_go`), and those
// that require a failed request to have seen all frames held at one moment. See the design decisions of `nodes`.
zones_conform! {
    all_memory_can_be_had_and_comes_back,
    random_requests_agree_with_the_model,
    many_cpus_never_share_a_frame,
    misuse_is_an_error_and_changes_nothing,
    nested_and_bulk,
    places_are_kept,
    hasty_requests_are_exhausted_only_without_free_frames,
    free_blocks_are_visited,
    unknown_cpus_are_refused,
    offline_cpus_are_drained,
    cpus_return_while_they_are_drained,
}

/// Three nodes of 64 frames each; CPU 0 is on node 1.
fn on_three_nodes(spec: &str, body: impl Fn(&Nodes<'_, Machine, System<'_>>, &mut Cpu)) {
    let parts: Vec<_> = (0..3)
        .map(|zone| vec![FrameRange::new(Pfn(zone * 64), 64)])
        .collect();
    with_systems(&spec.parse().unwrap(), &parts, 2, &mut |systems| {
        let zones: Vec<_> = systems
            .iter()
            .zip(0..)
            .map(|(system, node)| Zone::new(node, *system))
            .collect();
        let distances: [&[u8]; 3] = [&[10, 20, 40], &[20, 10, 30], &[40, 30, 10]];
        let nodes = Nodes::new(&zones, &[1, 2], &distances).unwrap();
        body(&nodes, &mut claim(&NativeCpus::new(2), 0));
    });
}

#[test]
fn a_request_is_served_near_its_cpu_and_falls_back_by_distance() {
    for spec in [
        "bs+order=5",
        "lbs-31+order=5+batch=4+high=8",
        "spring+order=5",
    ] {
        on_three_nodes(spec, |nodes, cpu| {
            let node_of = |pfn: Index| pfn.0 / 64;
            let all = |cpu: &mut Cpu, place: Place| {
                let mut held = Vec::new();
                while let Ok(frame) = nodes.allocate_in(cpu, Request::FRAME, &place) {
                    held.push(frame);
                }
                held
            };
            let cases = [
                (Place::ANYWHERE, vec![1, 0, 2]),
                (Place::ANYWHERE.on(Node::Preferred(0)), vec![0, 1, 2]),
                (Place::ANYWHERE.on(Node::Preferred(2)), vec![2, 1, 0]),
                (Place::ANYWHERE.on(Node::Only(2)), vec![2]),
                (Place::ANYWHERE.on(Node::Only(7)), vec![]),
                (Place::ANYWHERE.below(Pfn(128)), vec![1, 0]),
                (Place::ANYWHERE.below(Pfn(64)), vec![0]),
            ];
            for (place, order) in cases {
                let held = all(cpu, place);
                assert_eq!(held.len(), 64 * order.len(), "{spec}: {place:?}");
                for (index, frame) in held.iter().enumerate() {
                    assert_eq!(
                        node_of(*frame),
                        order[index / 64],
                        "{spec}: {place:?}: {index}"
                    );
                }
                if order == [1, 0] {
                    let shortage = nodes.shortage(cpu, Request::FRAME);
                    assert_eq!(shortage.reason(), Reason::Elsewhere);
                    assert_eq!(shortage.elsewhere, 64);
                }
                free_frames(nodes, cpu, held);
                nodes.quiesce(cpu).unwrap();
                assert_eq!(nodes.check(cpu).unwrap().free, 192);
            }
            let states: Vec<_> = nodes
                .zones(cpu)
                .map(|zone| (zone.node, zone.free.free_frames()))
                .collect();
            assert_eq!(states, [(0, 64), (1, 64), (2, 64)]);
        });
    }
}

#[test]
fn the_state_of_a_zone_lists_its_page_blocks_by_type() {
    let parts = [
        vec![FrameRange::new(Pfn(0), 64)],
        vec![FrameRange::new(Pfn(64), 64)],
    ];
    let spec = "mobility+order=4".parse().unwrap();
    with_systems(&spec, &parts, 1, &mut |systems| {
        let zones = [Zone::new(0, systems[0]), Zone::new(1, systems[1])];
        let nodes = Nodes::new(&zones, &[0], &[]).unwrap();
        let cpu = &mut claim(&NativeCpus::new(1), 0);
        let mut held = Vec::new();
        for (class, node) in [(Class::Unmovable, 0), (Class::Reclaimable, 1)] {
            let request = Request::FRAME.with_class(class);
            let place = Place::ANYWHERE.on(Node::Only(node));
            held.push(nodes.allocate_in(cpu, request, &place).unwrap());
        }
        let by_type = |cpu: &mut Cpu| -> Vec<_> {
            let zones = nodes.zones(cpu);
            let types = zones.map(|zone| zone.free.page_blocks.map(|t| (t.blocks, t.free_frames)));
            types.collect()
        };
        // Movable, unmovable, reclaimable, mixed; a block of the largest order has 16 frames.
        let (whole, broken, none) = ((3, 48), (1, 15), (0, 0));
        let expected = [[whole, broken, none, none], [whole, none, broken, none]];
        assert_eq!(by_type(cpu), expected);
        let all = nodes.snapshot(cpu).page_blocks;
        assert_eq!(all.map(|of_type| of_type.blocks), [6, 1, 1, 0]);
        free_frames(&nodes, cpu, held);
        let free = by_type(cpu).into_iter().flatten().map(|(_, free)| free);
        assert_eq!(free.sum::<u64>(), 128);
    });
}

#[test]
fn a_reserve_is_kept_for_requests_that_no_higher_zone_can_serve() {
    let parts = [
        vec![FrameRange::new(Pfn(0), 64)],
        vec![FrameRange::new(Pfn(64), 64)],
    ];
    with_systems(
        &"lbs-31+order=5".parse().unwrap(),
        &parts,
        1,
        &mut |systems| {
            let zones = [
                Zone::new(0, systems[0]).with_reserve(16, 64),
                Zone::new(0, systems[1]),
            ];
            let nodes = Nodes::new(&zones, &[0], &[]).unwrap();
            let cpu = &mut claim(&NativeCpus::new(1), 0);
            let mut held = Vec::new();
            while let Ok(frame) = nodes.allocate(cpu, Request::FRAME) {
                held.push(frame);
            }
            assert_eq!(held.len(), 128 - 16, "the reserve is left");
            assert!(
                held[..64].iter().all(|frame| frame.0 >= 64),
                "high memory first"
            );
            nodes.check(cpu).unwrap();
            let low = Place::ANYWHERE.below(Pfn(64));
            while let Ok(frame) = nodes.allocate_in(cpu, Request::FRAME, &low) {
                held.push(frame);
            }
            assert_eq!(held.len(), 128);
            free_frames(&nodes, cpu, held.drain(1..));
            // Ranges count as well.
            nodes.reserve(cpu, FrameRange::new(Pfn(0), 50)).unwrap();
            nodes.check(cpu).unwrap();
            let taken = nodes.allocate_at(cpu, FrameRange::new(Pfn(50), 4)).unwrap();
            nodes.check(cpu).unwrap();
            nodes.free(cpu, Release::frames(taken, 4)).unwrap();
            nodes.unreserve(cpu, FrameRange::new(Pfn(0), 50)).unwrap();
            nodes.free(cpu, Release::frame(held[0])).unwrap();
            nodes.quiesce(cpu).unwrap();
            assert_eq!(nodes.check(cpu).unwrap().free, 128);
        },
    );
}

#[test]
fn ranges_lie_in_one_zone_and_errors_name_frames_of_the_whole() {
    on_three_nodes("bs+order=5", |nodes, cpu| {
        let range = |start, frames| FrameRange::new(Pfn(start), frames);
        assert_eq!(nodes.allocate_at(cpu, range(100, 8)), Ok(Index(100)));
        assert_eq!(
            nodes.allocate_at(cpu, range(96, 8)),
            Err(RegionError::NotFree(Pfn(100)))
        );
        assert_eq!(
            nodes.remove(cpu, range(60, 8)),
            Err(RegionError::OutsideSpan)
        );
        let inside = FrameState::Allocated {
            head: Index(100),
            order: Order::new(2).unwrap(),
        };
        assert_eq!(nodes.frame_state(Index(101)), Some(inside));
        nodes.reserve(cpu, range(130, 2)).unwrap();
        assert_eq!(
            nodes.unreserve(cpu, range(129, 2)),
            Err(RegionError::NotReserved(Pfn(129)))
        );
        assert_eq!(
            nodes.free(cpu, Release::frame(Index(131))),
            Err(FreeError::Reserved)
        );
        assert_eq!(
            nodes.free(cpu, Release::frame(Index(192))),
            Err(FreeError::Foreign)
        );
        nodes.remove(cpu, range(140, 3)).unwrap();
        assert_eq!(
            nodes.add(cpu, range(139, 2)),
            Err(RegionError::AlreadyManaged(Pfn(139)))
        );
        nodes.add(cpu, range(140, 3)).unwrap();
        nodes.free(cpu, Release::frames(Index(100), 8)).unwrap();
        // Colours and alignment are of physical frames, in whichever zone.
        let odd = Colours::new(1, 0b10).unwrap();
        let place = Place::ANYWHERE.on(Node::Only(2)).coloured(odd);
        let frame = nodes.allocate_in(cpu, Request::FRAME, &place).unwrap();
        assert!(frame.0 >= 128 && frame.0 % 2 == 1);
    });
}

/// A range over a border is refused before anything is reserved, whatever lies at the border.
#[test]
fn a_range_over_two_zones_is_not_isolated_in_part() {
    for spec in ["everybuddy+order=5", "lbs-31+order=5", "bs+order=5"] {
        on_three_nodes(spec, |nodes, cpu| {
            let range = FrameRange::new(Pfn(40), 60);
            let free = nodes.free_frames();
            let refused = Err(RegionError::OutsideSpan);
            assert_eq!(nodes.isolate(cpu, range), refused, "{spec}");
            assert_eq!(nodes.free_frames(), free, "{spec}");
            let border = [63, 64].map(|frame| FrameRange::new(Pfn(frame), 1));
            let border = border.map(|frame| nodes.allocate_at(cpu, frame).unwrap());
            assert_eq!(nodes.isolate(cpu, range), refused, "{spec}");
            assert_eq!(nodes.free_frames(), free - 2, "{spec}");
            for frame in border {
                nodes.free(cpu, Release::frame(frame)).unwrap();
            }
            // Within a zone, with the count of its free frames.
            let inside = FrameRange::new(Pfn(40), 20);
            let used = nodes.allocate_at(cpu, FrameRange::new(Pfn(50), 1)).unwrap();
            assert_eq!(nodes.isolate(cpu, inside), Ok(1), "{spec}");
            assert_eq!(nodes.free_frames(), free - 20, "{spec}");
            nodes.free(cpu, Release::frame(used)).unwrap();
            assert_eq!(nodes.isolate(cpu, inside), Ok(0), "{spec}");
            nodes.unreserve(cpu, inside).unwrap();
            assert_eq!(nodes.free_frames(), free, "{spec}");
            let unknown = &mut claim(&NativeCpus::new(9), 8);
            let refused = nodes.isolate(unknown, inside);
            assert_eq!(refused, Err(RegionError::NoSuchCpu), "{spec}");
        });
    }
}

#[test]
fn zones_that_overlap_or_do_not_ascend_are_refused() {
    let spec: SystemSpec = "bs+order=5".parse().unwrap();
    let refused = |parts: &[Vec<FrameRange>]| {
        let mut error = None;
        with_systems(&spec, parts, 1, &mut |systems| {
            let zones: Vec<_> = systems.iter().map(|system| Zone::new(0, *system)).collect();
            error = Nodes::<Machine, System<'_>>::new(&zones, &[], &[]).err();
        });
        error
    };
    let part = |start, frames| vec![FrameRange::new(Pfn(start), frames)];
    let unordered = Some(BuildError::UnorderedRanges { index: 1 });
    assert_eq!(refused(&[part(0, 64), part(64, 64)]), None);
    assert_eq!(refused(&[part(64, 64), part(0, 64)]), unordered);
    // The border is inside a largest block.
    assert_eq!(refused(&[part(0, 40), part(40, 64)]), unordered);
    assert_eq!(refused(&[]), Some(BuildError::NoMemory));
}

#[test]
fn cpus_that_one_zone_does_not_know_are_refused_by_all() {
    let spec: SystemSpec = "bs+order=5".parse().unwrap();
    let ranges = [
        [FrameRange::new(Pfn(0), 64)],
        [FrameRange::new(Pfn(64), 64)],
    ];
    let setups = [Setup::new(&ranges[0], 2), Setup::new(&ranges[1], 1)];
    let mut memories = setups
        .each_ref()
        .map(|setup| memory_for::<Machine>(&spec, setup));
    let mut memories = memories.iter_mut();
    let zones = setups.map(|setup| {
        let memory = Memory::new(memories.next().unwrap());
        Zone::new(0, build_erased::<Machine>(&spec, &setup, memory).unwrap())
    });
    let nodes = Nodes::new(&zones, &[], &[]).unwrap();
    assert_eq!(nodes.cpus(), 1);
    let cpus = NativeCpus::new(2);
    let known = nodes
        .allocate(&mut claim(&cpus, 0), Request::FRAME)
        .unwrap();
    let cpu = &mut claim(&cpus, 1);
    let unknown = AllocateError::NoSuchCpu;
    assert_eq!(nodes.allocate(cpu, Request::FRAME), Err(unknown));
    let bulk = nodes.allocate_bulk(cpu, Request::FRAME, &mut [Index(0); 4]);
    assert_eq!(bulk, Err(unknown));
    assert_eq!(
        nodes.free(cpu, Release::frame(known)),
        Err(FreeError::NoSuchCpu)
    );
}

#[test]
fn a_reserve_counts_what_a_zone_could_not_serve() {
    let parts = [
        vec![FrameRange::new(Pfn(0), 64)],
        vec![FrameRange::new(Pfn(64), 64)],
    ];
    with_systems(&"bs+order=5".parse().unwrap(), &parts, 1, &mut |systems| {
        let zones = [
            Zone::new(0, systems[0]).with_reserve(16, 64),
            Zone::new(0, systems[1]).with_reserve(u64::MAX, 64),
        ];
        let nodes = Nodes::new(&zones, &[0], &[]).unwrap();
        let cpu = &mut claim(&NativeCpus::new(1), 0);
        // Every second frame is in use: no pair is free, and a request for one charges the zone in vain.
        for frame in (0..64).step_by(2) {
            nodes
                .allocate_at(cpu, FrameRange::new(Pfn(frame), 1))
                .unwrap();
        }
        let pair = Request::order(Order::new(1).unwrap());
        let low = Place::ANYWHERE.below(Pfn(64));
        assert_eq!(
            nodes.allocate_in(cpu, pair, &low),
            Err(AllocateError::Exhausted)
        );
        nodes.check(cpu).unwrap();
        // A reserve of all frames leaves none to a request that could be served elsewhere. No zone is above the
        // highest one, so its reserve is for all requests.
        let mut given = 0;
        while nodes.allocate(cpu, Request::FRAME).is_ok() {
            given += 1;
        }
        assert_eq!(given, 64 + 16);
    });
}

#[test]
fn a_check_counts_what_lists_hold() {
    for spec in [
        "lbs-31+order=5+batch=4+high=8",
        "linux-6+order=5",
        "everybuddy+order=5",
        "magazines+order=5+batch=4",
    ] {
        let spec: SystemSpec = spec.parse().unwrap();
        let parts = [
            vec![FrameRange::new(Pfn(0), 64)],
            vec![FrameRange::new(Pfn(64), 64)],
        ];
        with_systems(&spec, &parts, 2, &mut |systems| {
            let zones = [
                Zone::new(0, systems[0]).with_reserve(16, 64),
                Zone::new(0, systems[1]).with_reserve(16, 64),
            ];
            let nodes = Nodes::new(&zones, &[], &[]).unwrap();
            let cpus = NativeCpus::new(2);
            for id in 0..2 {
                let mut cpu = claim(&cpus, id);
                let held: Vec<_> = allocate_frames(&nodes, &mut cpu, 10);
                free_frames(&nodes, &mut cpu, &held[..7]);
            }
            let mut cpu = claim(&NativeCpus::new(2), 0);
            let census = nodes.check(&mut cpu).unwrap();
            assert_eq!(census.allocated, 6, "{spec}: {census:?}");
            let buffered = nodes.snapshot(&mut cpu).buffered_frames;
            assert!(buffered > 0, "{spec}: {census:?}");
            assert!(census.buffered == buffered, "{spec}: {census:?}");
        });
    }
}
