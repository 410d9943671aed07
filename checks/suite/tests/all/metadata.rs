//! Sizes that are promises: metadata a frame, results in a register, and building from any memory.

use std::mem::MaybeUninit;

use everybuddy::platform::NativeCpus;
use everybuddy::prelude::*;
use everybuddy::systems::{ROWS, SpecError, StructureKind};
use everybuddy::{Block, BuildError, Memory, MetadataPart, System as _};
use everybuddy_suite::platform::try_any;
use everybuddy_suite::{Machine, System, claim, on};

fn bytes_per_frame(name: &str, frames: u64, cpus: u16) -> f64 {
    let ranges = [FrameRange::new(Pfn(0), frames)];
    let setup = Setup::new(&ranges, cpus);
    let layout = metadata_layout::<Machine>(&name.parse().unwrap(), &setup).unwrap();
    layout.size() as f64 / frames as f64
}

#[test]
fn the_standard_buddy_needs_at_most_eight_and_a_half_bytes_a_frame() {
    for shift in 12..28 {
        let bytes = bytes_per_frame("bs", 1 << shift, 64);
        assert!(bytes <= 8.5, "{bytes} at 2^{shift} frames");
    }
    assert!(bytes_per_frame("bs+order=18", 1 << 20, 1) <= 8.5);
    assert!(bytes_per_frame("bs", (1 << 20) + 12_345, 1) <= 8.5);
    // A list for each of 64 CPUs adds little to a machine of their size.
    assert!(bytes_per_frame("lbs-31", 1 << 24, 64) <= 8.5);
}

#[test]
fn without_a_bitmap_records_alone_grow_with_memory() {
    for name in ["bs", "lbs-31", "bs+order=18"] {
        let bytes = |frames| bytes_per_frame(&format!("{name}+state=record"), frames, 4);
        let (small, large) = (bytes(1 << 20), bytes(1 << 26));
        // The lists, the lock and the system itself.
        assert!((8.0..8.02).contains(&small), "{name}: {small}");
        assert!((8.0..8.001).contains(&large), "{name}: {large}");
    }
}

#[test]
fn the_parts_of_the_metadata_are_named_and_fill_it() {
    let ranges = [FrameRange::new(Pfn(0), 1 << 14)];
    let setup = Setup::new(&ranges, 8);
    for row in ROWS {
        let spec = row.name.parse().unwrap();
        let layout = metadata_layout::<Machine>(&spec, &setup).unwrap();
        let mut memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
        let mut parts: Vec<MetadataPart> = Vec::new();
        let mut listener = |part| parts.push(part);
        let memory = Memory::new(&mut memory).describe(&mut listener);
        try_any(&spec, &setup, memory, &mut |_| ()).unwrap();
        let mut end = 0;
        for part in &parts {
            assert!(!part.what.is_empty() && part.size * part.length > 0);
            assert!(
                (end..end + 64).contains(&part.start),
                "{}: {} begins at {}, after {end}",
                row.name,
                part.what,
                part.start
            );
            end = part.start + part.size * part.length;
        }
        assert_eq!(end.next_multiple_of(64), layout.size(), "{}", row.name);
        let records = parts.iter().find(|part| part.what == "frame record");
        let has_records = !matches!(
            row.structure(),
            StructureKind::Fields | StructureKind::Words | StructureKind::Planes
        );
        assert_eq!(records.is_some(), has_records, "{}", row.name);
        if has_records {
            assert_eq!(records.unwrap().length, 1 << 14);
        }
    }
}

/// Checks sizes of memory from 2^12 to 2^27 frames with one CPU, and with 64 CPUs those from the size at `least` on: a
/// list or a domain for each of 64 CPUs is for a machine of their size.
fn needs_at_most_twelve(name: &str, least: usize) {
    for (cpus, skip) in [(1, 0), (64, least)] {
        let bytes = [12, 16, 20, 24, 27].map(|shift| bytes_per_frame(name, 1 << shift, cpus));
        println!("{name}, {cpus} CPUs, 2^12 to 2^27 frames: {bytes:.2?} bytes per frame");
        for bytes in &bytes[skip..] {
            assert!(*bytes <= 12.0, "{name}: {bytes}");
        }
    }
}

#[test]
fn buddy_spaces_need_at_most_twelve_bytes_a_frame() {
    for name in ["is", "lis-1", "lis-31", "is+zone=one", "bs+zone=spaces"] {
        needs_at_most_twelve(name, 1);
    }
    // Spaces of one largest block, and the largest ones.
    assert!(bytes_per_frame("is+order=8+space=1MiB", 1 << 24, 64) <= 12.0);
    assert!(bytes_per_frame("is+order=18+space=1GiB", 1 << 24, 64) <= 12.0);
}

/// A space of 1,024 frames has half a KiB besides its records: bits, lists, counts and the lock.
#[test]
fn spaces_of_single_frames_need_half_a_byte_a_frame_besides_their_records() {
    for name in ["is", "lis-1", "lis-31"] {
        for shift in [16, 20, 24, 27] {
            let bytes = bytes_per_frame(name, 1 << shift, 1);
            // The pool, the CPU's list and the system itself are a few KiB.
            let most = 8.5 + 4096.0 / f64::from(1 << shift);
            assert!(bytes <= most, "{name}: {bytes} at 2^{shift} frames");
        }
    }
}

#[test]
fn elastic_domains_need_at_most_twelve_bytes_a_frame() {
    for name in ["spring-core", "bs+zone=domains"] {
        needs_at_most_twelve(name, 1);
    }
    needs_at_most_twelve("spring-core+lock=ticket+idle=1", 1);
    for name in ["spring-fixlazy-186", "spring-fixlazy-744"] {
        needs_at_most_twelve(name, 2);
    }
    assert!(bytes_per_frame("spring-core+order=18", 1 << 24, 64) <= 12.0);
}

#[test]
fn systems_without_records_need_about_half_a_byte_a_frame() {
    // Bits, and a tree of status words.
    for (name, least, most) in [("llfree", 0.375, 0.4), ("nbbs", 0.515, 0.53)] {
        for shift in [19, 20, 24, 27] {
            let bytes = bytes_per_frame(name, 1 << shift, 64);
            let is_right = (least..=most).contains(&bytes);
            assert!(is_right, "{name}: {bytes} at 2^{shift} frames");
        }
    }
}

#[test]
fn heads_planes_and_headers_are_little_more_than_a_byte_and_a_quarter_a_frame() {
    const PER_CPU: f64 = 4096.0;
    for (shift, cpus) in [(19, 2), (20, 64), (24, 64), (27, 64)] {
        let frames = 1u64 << shift;
        let bytes = bytes_per_frame("everybuddy", frames, cpus);
        // The longer lists of a large memory have an entry of four bytes for one frame in 256 and each of eight CPUs.
        let listed = 4.0 * f64::from(cpus.min(8)) / 256.0;
        let allowed = 1.28 + listed + f64::from(cpus) * PER_CPU / frames as f64;
        assert!(
            (1.25..=allowed).contains(&bytes),
            "{bytes} at 2^{shift} frames"
        );
    }
}

#[test]
fn results_fit_a_register() {
    assert_eq!(size_of::<Result<Index, AllocateError>>(), 8);
    assert_eq!(size_of::<Result<(), FreeError>>(), 8);
    assert!(size_of::<Request>() <= 24 && size_of::<Release>() <= 24);
}

#[test]
fn the_layout_is_exactly_what_is_used() {
    let ranges = [FrameRange::new(Pfn(1), 3000)];
    let setup = Setup::new(&ranges, 3);
    let variants = [
        "lbs-31+zone=spaces",
        "lbs-31+zone=domains",
        "bs+zone=spaces",
    ];
    let variants = variants.map(|text| text.parse().unwrap());
    for spec in ROWS.iter().map(SystemSpec::of).chain(variants) {
        let layout = metadata_layout::<Machine>(&spec, &setup).unwrap();
        let mut memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
        let start = memory.as_ptr().align_offset(layout.align());
        let exact = &mut memory[start..][..layout.size()];
        let mut used = 0;
        let first_frame = &mut |system: &System<'_>| {
            let mut cpu = claim(&NativeCpus::new(1), 0);
            system.allocate(&mut cpu, Request::FRAME).unwrap();
            used = system.metadata_bytes();
        };
        try_any(&spec, &setup, exact.into(), first_frame).unwrap();
        assert_eq!(used, layout.size(), "{spec}");
        let less = &mut memory[start..][..layout.size() - 2 * layout.align()];
        let (needed, given) = (layout.size(), less.len());
        let error = try_any(&spec, &setup, less.into(), &mut |_| ()).unwrap_err();
        let too_small = BuildError::MetadataTooSmall { needed, given };
        assert_eq!(error, too_small, "{spec}");
        let nothing = try_any(&spec, &setup, Memory::new(&mut []), &mut |_| ()).unwrap_err();
        let too_small = BuildError::MetadataTooSmall { needed, given: 0 };
        assert_eq!(nothing, too_small, "{spec}");
    }
}

#[test]
fn absurd_ranges_are_refused_by_every_system() {
    for spec in ROWS.iter().map(SystemSpec::of) {
        for frames in [u64::MAX, 1 << 62, 1 << 58, 1 << 40] {
            let ranges = [FrameRange::new(Pfn(0), frames)];
            let layout = metadata_layout::<Machine>(&spec, &Setup::new(&ranges, 1));
            let Err(BuildError::SpanTooLarge { first, last, .. }) = layout else {
                panic!("{spec}: {layout:?}");
            };
            assert_eq!((first, last), (Pfn(0), Pfn(frames - 1)), "{spec}");
        }
    }
}

#[test]
fn what_can_not_be_built_is_an_error() {
    let build = |ranges: &[FrameRange], cpus| {
        metadata_layout::<Machine>(&"lbs-31".parse().unwrap(), &Setup::new(ranges, cpus))
    };
    assert_eq!(build(&[], 1), Err(BuildError::NoMemory));
    assert_eq!(
        build(&[FrameRange::new(Pfn(0), 10)], 0),
        Err(BuildError::BadCpuCount { most: 65_534 })
    );
    let overlap = [FrameRange::new(Pfn(0), 10), FrameRange::new(Pfn(9), 3)];
    assert_eq!(
        build(&overlap, 1),
        Err(BuildError::UnorderedRanges { index: 1 })
    );
    // What is taken at the start lies in the memory, and ascends.
    let range = |start, frames| FrameRange::new(Pfn(start), frames);
    let map = [range(5, 10), range(15, 5), range(22, 8)];
    let taken = |taken: &[FrameRange]| {
        let setup = Setup::new(&map, 1).with_taken(taken);
        metadata_layout::<Machine>(&"lbs-31".parse().unwrap(), &setup).err()
    };
    let refused = |index| Some(BuildError::TakenRange { index });
    assert_eq!(taken(&[range(5, 15), range(3, 0), range(29, 1)]), None);
    assert_eq!(taken(&[range(1000, 0), range(6, 1)]), None);
    assert_eq!(taken(&[range(4, 2)]), refused(0));
    assert_eq!(taken(&[range(20, 1)]), refused(0));
    assert_eq!(taken(&[range(6, 1), range(18, 5)]), refused(1));
    assert_eq!(taken(&[range(6, u64::MAX)]), refused(0));
    assert_eq!(taken(&[range(6, 2), range(7, 2)]), refused(1));
    let one = [FrameRange::new(Pfn(0), 10)];
    let spec = "bs".parse().unwrap();
    let nothing = Setup::new(&[], 1).with_reach(FrameRange::new(Pfn(5), 0));
    let nothing = metadata_layout::<Machine>(&spec, &nothing);
    assert_eq!(nothing, Err(BuildError::NoMemory));
    let spec = "lbs-31+batch=9+high=3".parse().unwrap();
    let setup = Setup::new(&one, 1);
    let refused = metadata_layout::<Machine>(&spec, &setup).unwrap_err();
    assert!(
        matches!(refused, BuildError::Contradiction { key: "high", .. }),
        "{refused}"
    );
}

#[test]
fn a_system_can_be_printed() {
    let ranges = [FrameRange::new(Pfn(16), 64)];
    on("lbs-31+order=4", &Setup::new(&ranges, 3), |system| {
        let text = format!("{system:?}");
        let bytes = format!("metadata_bytes: {}", system.metadata_bytes());
        for part in [
            "FrameAllocator",
            "span: [FrameRange { start: frame 0x10, frames: 64 }]",
            "max_order: order 4",
            "cpus: 3",
            &bytes,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
    let mut memory = vec![MaybeUninit::uninit(); 1 << 16];
    let setup = Setup::new(&ranges, 3);
    let built = Lbs31::build(&setup, &mut memory[..]);
    assert!(
        format!("{built:?}").starts_with("Ok(Layered { span: "),
        "{built:?}"
    );
}

/// 20 TiB on two nodes.
#[test]
fn too_much_memory_is_refused_with_the_limit() {
    let ranges = [
        FrameRange::new(Pfn(8 << 28), 10 << 28),
        FrameRange::new(Pfn(64 << 28), 10 << 28),
    ];
    for spec in ROWS.iter().map(SystemSpec::of) {
        let error = metadata_layout::<Machine>(&spec, &Setup::new(&ranges, 4)).unwrap_err();
        let text = error.to_string();
        for part in [
            "0x80000000",
            "0x49fffffff",
            "4,278,190,079 frames",
            "16 TiB",
            "build one",
        ] {
            assert!(text.contains(part), "{spec}, {part}: {text}");
        }
    }
    // Beyond the largest frame number.
    let endless = [
        FrameRange::new(Pfn(7), 9),
        FrameRange::new(Pfn(1 << 20), u64::MAX),
    ];
    let spec = "bs".parse().unwrap();
    let error = metadata_layout::<Machine>(&spec, &Setup::new(&endless, 1)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("frame 0x7 to frame 0xffffffffffffffff")
    );
}

#[test]
fn a_span_beyond_what_records_can_link_is_refused_before_memory_is_provided() {
    for (name, most, memory) in [
        ("serewa", 1 << 30, "4 TiB"),
        ("serewa+separate=off", 1 << 30, "4 TiB"),
        ("lbs-31+state=record", 1 << 31, "8 TiB"),
    ] {
        let spec = name.parse().unwrap();
        let layout = |frames| {
            let ranges = [FrameRange::new(Pfn(0), frames)];
            metadata_layout::<Machine>(&spec, &Setup::new(&ranges, 1))
        };
        assert!(layout(most).is_ok(), "{name}");
        let too_large = BuildError::SpanTooLarge {
            first: Pfn(0),
            last: Pfn(most),
            most: most as u32,
        };
        assert_eq!(layout(most + 1), Err(too_large), "{name}");
        let text = format!("or {memory} of 4 KiB frames");
        assert!(too_large.to_string().contains(&text), "{too_large}");
    }
}

/// The range of an error's text, `1 to 65,534`.
fn limit_in(text: &str) -> Option<u16> {
    let (_, limit) = text.split_once("must be 1 to ")?;
    limit.replace(',', "").parse().ok()
}

#[test]
fn an_error_about_the_number_of_cpus_names_the_limit_of_the_system() {
    let ranges = [FrameRange::new(Pfn(0), 4096)];
    for spec in everybuddy_suite::specs() {
        let layout = |cpus| metadata_layout::<Machine>(&spec, &Setup::new(&ranges, cpus));
        let text = |cpus| layout(cpus).unwrap_err().to_string();
        let most = limit_in(&text(0)).expect("no CPU is refused with the limit");
        for cpus in [1, 255, 256, 4096, 16_383, 16_384, 32_768, 65_534, u16::MAX] {
            if cpus <= most {
                assert!(layout(cpus).is_ok(), "{spec}: {cpus}: {:?}", layout(cpus))
            } else {
                assert_eq!(limit_in(&text(cpus)), Some(most), "{spec}: {cpus}")
            }
        }
        assert!(layout(most).is_ok() && layout(most + 1).is_err(), "{spec}");
    }
}

/// The bounds of `a number, 1 to 1048576`.
fn bounds(values: &str) -> Option<(u64, u64)> {
    let (least, most) = values.strip_prefix("a number, ")?.split_once(" to ")?;
    Some((least.parse().ok()?, most.parse().ok()?))
}

#[test]
fn numbers_of_options_are_accepted_exactly_within_the_range_that_their_error_names() {
    for row in ROWS {
        for option in row.options() {
            let Some((least, most)) = bounds(option.values) else {
                continue;
            };
            let is_in_range = |number: u64| {
                let text = format!("{}+{}={number}", row.name, option.key);
                match text.parse::<SystemSpec>() {
                    // In range, it may still contradict other options.
                    Err(SpecError::BadValue { needs, .. }) => needs != option.values,
                    parsed => parsed.is_ok(),
                }
            };
            for number in [0, 1, least - 1, least, most, most + 1, u64::MAX] {
                let is_named = (least..=most).contains(&number);
                assert_eq!(is_in_range(number), is_named, "{}: {number}", option.key);
            }
        }
    }
}

/// Takes and gives back the largest blocks.
fn largest_blocks(system: &System<'_>) {
    let mut cpu = claim(&NativeCpus::new(1), 0);
    let largest = Order::new(18).unwrap();
    assert_eq!(system.max_order(), largest);
    let blocks: Vec<Index> = (0..2)
        .map(|_| system.allocate(&mut cpu, Request::order(largest)).unwrap())
        .collect();
    assert_eq!(blocks[0].0.abs_diff(blocks[1].0), 1 << 18);
    let error = system.allocate(&mut cpu, Request::FRAME.with_flags(Default::default()));
    assert!(error.is_ok(), "the tail behind the two blocks");
    for block in blocks {
        system
            .free(&mut cpu, Release::block(Block::new(block, largest)))
            .unwrap();
    }
    // Split to single frames and coalesced over 18 orders.
    let frame = system
        .allocate(&mut cpu, Request::order(Order::new(17).unwrap()))
        .unwrap();
    system
        .free(&mut cpu, Release::frames(frame, 1 << 17))
        .unwrap();
    assert_eq!(system.snapshot(&mut cpu).available_blocks(largest), 2);
    system.check(&mut cpu).unwrap();
}

#[test]
fn blocks_of_a_gibibyte() {
    let ranges = [FrameRange::new(Pfn(1 << 18), (2 << 18) + 3)];
    for name in [
        "bs+order=18",
        "lbs-31+order=18",
        "linux-6+order=18",
        "nbbs+order=18",
    ] {
        on(name, &Setup::new(&ranges, 1), largest_blocks);
    }
}
