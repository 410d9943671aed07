//! The functions of the header in user space: threads stand for CPUs.

use std::boxed::Box;
use std::collections::BTreeSet;
use std::ffi::{CString, c_char};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, thread, vec};

use everybuddy::systems::ROWS;
use everybuddy::{AllocateError, CpuId, FreeError, Hint, Order};

use crate::codes;
use crate::*;

const FIRST: u64 = 0x1_0400;
const COUNT: u64 = 8192;
/// Two ranges with a hole between them.
#[rustfmt::skip]
const RANGES: [Range; 2] = [
    Range { start: FIRST, frames: COUNT - 1024 },
    Range { start: FIRST + COUNT, frames: 1024 },
];

/// Builds a system for two CPUs, in memory that starts anywhere; returns the reason if there is none.
fn built(spec: &str, ranges: &[Range], shift: usize) -> Result<&'static Frames, String> {
    let name = CString::new(spec).expect("no zero is in the name");
    let name: *const c_char = name.as_ptr();
    let mut why = [0xff; 512];
    let (text, size) = (why.as_mut_ptr(), why.len());
    // SAFETY: the name ends with a zero, and all sizes are those of the slices.
    let bytes = unsafe { everybuddy_bytes(name, ranges.as_ptr(), ranges.len(), 2, text, size) };
    let memory = Box::leak(vec![0xa5; bytes + shift].into_boxed_slice());
    // Without a size the reason is asked of the second function.
    let memory = &mut memory[shift..];
    let (start, length) = (memory.as_mut_ptr(), memory.len());
    // SAFETY: as above; the memory is never freed.
    let frames = unsafe {
        everybuddy_build(
            name,
            ranges.as_ptr(),
            ranges.len(),
            2,
            start,
            length,
            text,
            size,
        )
    };
    frames.ok_or_else(|| text_of(&why))
}

fn everybuddy_allocate(frames: &Frames, cpu: u16, order: u8, flags: u8) -> i64 {
    (frames.operations.allocate)(frames, cpu, order, flags)
}

fn everybuddy_free(frames: &Frames, cpu: u16, frame: u64, order: u8) -> i32 {
    (frames.operations.free)(frames, cpu, frame, order)
}

fn everybuddy_free_part(frames: &Frames, cpu: u16, frame: u64, order: u8) -> i32 {
    (frames.operations.free_part)(frames, cpu, frame, order)
}

/// Returns the text before the first zero.
fn text_of(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(text.to_vec()).expect("texts are ASCII")
}

fn explained(error: i32) -> String {
    let mut text = [0xff; 96];
    // SAFETY: the size is that of the slice.
    let length = unsafe { everybuddy_explain(error, text.as_mut_ptr(), text.len()) };
    assert_eq!(text_of(&text).len(), length);
    text_of(&text)
}

/// Checks that all memory is free and the metadata is right.
fn assert_all_free(frames: &'static Frames, name: &str) {
    assert!(everybuddy_park(frames, 1), "{name}");
    assert_eq!(everybuddy_quiesce(frames, 0), 0, "{name}");
    let mut why = [0; 128];
    // SAFETY: the size is that of the slice.
    let is_right = unsafe { everybuddy_check(frames, 0, why.as_mut_ptr(), why.len()) };
    assert!(is_right, "{name}: {}", text_of(&why));
    assert_eq!(everybuddy_state(frames, 0).free, COUNT, "{name}");
}

#[test]
fn every_system_serves_two_cpus_and_interrupts_of_them() {
    for (row, shift) in ROWS.iter().zip((0..64).cycle()) {
        let name = row.name;
        let frames = built(name, &RANGES, shift).unwrap_or_else(|why| panic!("{name}: {why}"));
        let taken: Vec<(i64, u8)> = thread::scope(|scope| {
            let cpus = [0, 1].map(|cpu| {
                scope.spawn(move || {
                    let orders = [0, 0, 1, 0, 3, 0, 2].into_iter().cycle().take(700);
                    // A thread can be stopped in a call, unlike a CPU in the kernel: the other one asks again.
                    let is_busy = |start: &i64| *start == -i64::from(codes::BUSY);
                    let allocate = |order| {
                        let mut tries =
                            (0..1000).map(|_| everybuddy_allocate(frames, cpu, order, 0));
                        let start = tries.find(|start| !is_busy(start));
                        (start.unwrap_or(-i64::from(codes::BUSY)), order)
                    };
                    let blocks: Vec<_> = orders.map(allocate).collect();
                    everybuddy_park(frames, cpu);
                    blocks
                })
            });
            cpus.into_iter()
                .flat_map(|cpu| cpu.join().expect("no CPU panics"))
                .collect()
        });
        let mut distinct = BTreeSet::new();
        // iBuddy takes single frames out of large blocks, so larger requests may find none.
        let mut taken = taken;
        taken.retain(|(start, order)| *order == 0 || *start != -i64::from(codes::EXHAUSTED));
        assert!(taken.len() > 1000, "{name}");
        for (start, order) in &taken {
            let is_in = |range: &Range| {
                (range.start..range.start + range.frames).contains(&start.unsigned_abs())
            };
            assert!(*start > 0 && RANGES.iter().any(is_in), "{name}: {start}");
            assert!(
                (0..1 << order).all(|frame| distinct.insert(start + frame)),
                "{name}"
            );
        }
        for (start, order) in taken {
            assert_eq!(everybuddy_free(frames, 1, start as u64, order), 0, "{name}");
        }
        // An interrupt in an operation of CPU 0 has no token. It is served, or a lock is held: none is here.
        let inside = frames.with(CpuId(0), |_| {
            let frame = everybuddy_allocate(frames, 0, 0, 0);
            assert!(frame > 0, "{name}: {}", explained(frame as i32));
            assert_eq!(everybuddy_free(frames, 0, frame as u64, 0), 0, "{name}");
            assert!(!everybuddy_park(frames, 0) && !everybuddy_drain(frames, 0));
            assert_eq!(everybuddy_quiesce(frames, 0), -codes::BUSY);
            assert_eq!(everybuddy_state(frames, 0), State::default());
        });
        assert!(inside.is_some());
        assert_eq!(everybuddy_state(frames, 0).nested, 2, "{name}");
        while everybuddy_serve(frames, 0, 64) {}
        assert_all_free(frames, name);
    }
}

#[test]
fn misuse_is_refused_explained_and_counted() {
    let frames = built("lbs-31", &RANGES, 0).expect("it is built");
    let block = everybuddy_allocate(frames, 0, 3, 0) as u64;
    let free = |frame, order| -everybuddy_free(frames, 0, frame, order);
    assert_eq!(free(block, 2), codes::WRONG_ORDER | 3 << 8);
    assert_eq!(free(block + 4, 2), codes::INSIDE_BLOCK | 3 << 8);
    assert_eq!(free(block, 3), 0);
    assert_eq!(free(block, 3), codes::NOT_ALLOCATED);
    assert_eq!(free(FIRST - 1 - 1024, 0), codes::FOREIGN);
    assert_eq!(free(u64::MAX, 0), codes::FOREIGN);
    assert_eq!(free(FIRST + COUNT - 1, 0), codes::HOLE);
    assert_eq!(free(block, 19), codes::BAD_ORDER);
    assert_eq!(everybuddy_free(frames, 2, block, 3), -codes::NO_SUCH_CPU);
    let allocate = |cpu, order| -(everybuddy_allocate(frames, cpu, order, 0) as i32);
    assert_eq!(allocate(2, 0), codes::NO_SUCH_CPU);
    assert_eq!(allocate(0, 19), codes::BAD_ORDER);
    assert_eq!(allocate(0, 11), codes::TOO_LARGE | 10 << 8);
    assert!(!everybuddy_park(frames, 2));
    // What is not a free of this system by a CPU of it is not counted.
    assert_eq!(everybuddy_state(frames, 0).misuses, 6);
    assert_all_free(frames, "lbs-31");
}

#[test]
fn parts_of_blocks_are_freed_by_order() {
    for row in ROWS {
        let name = row.name;
        let frames = built(name, &RANGES, 0).expect("it is built");
        let free = |cpu, frame, order| everybuddy_free_part(frames, cpu, frame, order);
        let block = everybuddy_allocate(frames, 0, 5, 0) as u64;
        let other = everybuddy_allocate(frames, 0, 2, 0) as u64;
        assert_eq!(free(0, block + 16, 4), 0, "{name}");
        assert_eq!(free(0, block + 3, 0), 0, "{name}");
        // Not a second time, neither alone nor within a larger part.
        let twice = -free(0, block + 3, 0) & 0xff;
        assert_eq!(twice, codes::NOT_ALLOCATED, "{name}");
        assert_ne!(free(0, block, 2), 0, "{name}");
        let misuses = everybuddy_state(frames, 0).misuses;
        assert_eq!(misuses, 2, "{name}: to free a part is permitted");
        for frame in 0..3 {
            assert_eq!(free(0, block + frame, 0), 0, "{name}");
        }
        assert_eq!(free(0, block + 4, 2), 0, "{name}");
        assert_eq!(free(0, block + 8, 3), 0, "{name}");
        assert_eq!(free(0, other, 2), 0, "{name}");
        assert_eq!(free(0, other, 19), -codes::BAD_ORDER);
        assert_eq!(free(2, other, 0), -codes::NO_SUCH_CPU);
        assert_all_free(frames, name);
    }
}

#[test]
fn a_code_leads_back_to_the_text_of_its_error() {
    let order = Order::new(7).expect("there is an order 7");
    for error in [
        AllocateError::Exhausted,
        AllocateError::TooLarge { largest: order },
        AllocateError::NoSuchCpu,
        AllocateError::Busy,
    ] {
        assert_eq!(explained(-codes::of_allocate(error)), error.to_string());
    }
    for error in [
        FreeError::Foreign,
        FreeError::Hole,
        FreeError::Reserved,
        FreeError::NotAllocated,
        FreeError::InsideBlock { order },
        FreeError::WrongOrder { allocated: order },
        FreeError::NoSuchCpu,
    ] {
        assert_eq!(explained(-codes::of_free(error)), error.to_string());
    }
    assert_eq!(explained(-codes::BAD_ORDER), "the order is above 18");
    for unknown in [0, 1, -99, i32::MIN] {
        assert!(explained(unknown).starts_with("no error has"), "{unknown}");
    }
}

#[test]
fn a_text_is_cut_to_its_room() {
    for room in 0..30 {
        let mut text = [0xff; 32];
        // SAFETY: the size is below that of the slice.
        let length = unsafe { everybuddy_explain(-codes::FOREIGN, text.as_mut_ptr(), room) };
        assert_eq!(length, room.saturating_sub(1));
        assert_eq!(
            text[..length],
            b"the frame lies outside the managed"[..length]
        );
        assert!(room == 0 || text[length] == 0);
        assert!(text[room..].iter().all(|byte| *byte == 0xff));
    }
}

#[test]
fn what_cannot_be_built_is_explained() {
    let why = |spec: &str, ranges: &[Range]| match built(spec, ranges, 0) {
        Ok(_) => format!("{spec} was built"),
        Err(why) => why,
    };
    let unknown = why("nonsense", &RANGES);
    assert!(unknown.starts_with("`nonsense`: no system has this name; the names are bs"));
    assert!(
        ROWS.iter().all(|row| unknown.contains(row.name)),
        "{unknown}"
    );
    let above = "`order=99`: `order` takes an order, 0 to 18";
    assert_eq!(why("lbs-31+order=99", &RANGES), above);
    assert_eq!(
        why("", &RANGES).split(';').next(),
        Some("``: no system has this name")
    );
    assert_eq!(why("bs", &[]), "the memory map is empty");
    assert_eq!(why("bs", &[RANGES[0]; 33]), "more than 32 ranges of memory");
    let overlapping = why("bs", &[RANGES[0]; 32]);
    assert!(overlapping.starts_with("range 1 "), "{overlapping}");
    let mut small = [0; 100];
    let mut text = [0; 128];
    // SAFETY: the name ends with a zero, and all sizes are those of the slices. Nothing is built in them.
    let frames = unsafe {
        let (ranges, why) = (RANGES.as_ptr(), text.as_mut_ptr());
        everybuddy_build(
            c"bs".as_ptr(),
            ranges,
            2,
            2,
            small.as_mut_ptr(),
            100,
            why,
            128,
        )
    };
    assert!(frames.is_none());
    let text = text_of(&text);
    assert!(text.starts_with("the metadata needs"), "{text}");
}

#[test]
fn slow_paths_are_counted() {
    let frames = built("lbs-31+batch=8+high=16", &RANGES, 3).expect("it is built");
    let taken: Vec<_> = (0..80)
        .map(|_| everybuddy_allocate(frames, 0, 0, 0))
        .collect();
    for frame in taken {
        assert_eq!(everybuddy_free(frames, 0, frame as u64, 0), 0);
    }
    let state = everybuddy_state(frames, 0);
    assert_eq!(state.refills, 10);
    assert!(state.drains > 0 && state.buffered > 0 && state.metadata_bytes > 0);
    assert_eq!(state.free + state.buffered, COUNT);
    assert_eq!(everybuddy_buffered(frames, 0), state.buffered);
    assert_eq!(everybuddy_buffered(frames, 1), 0);
    assert!(everybuddy_drain(frames, 0));
    assert_eq!(everybuddy_state(frames, 0).buffered, 0);
    assert_eq!(everybuddy_buffered(frames, 0), 0);
}

/// What a CPU owns besides its list is missing from the list's length, and a drain makes it available to others.
#[test]
fn a_system_says_whether_cpus_own_frames_that_are_not_buffered() {
    for (spec, owns) in [("everybuddy", true), ("spring", false), ("bs", false)] {
        let frames = built(spec, &RANGES, 0).expect("it is built");
        assert_eq!(everybuddy_state(frames, 0).owns, u32::from(owns), "{spec}");
    }
    let ranges = [Range {
        start: 0,
        frames: 64,
    }];
    let frames = built("everybuddy", &ranges, 0).expect("it is built");
    let allocate = |cpu| (frames.operations.allocate)(frames, cpu, 0, 1);
    assert!(allocate(0) >= 0);
    assert_eq!(everybuddy_buffered(frames, 0), 0);
    assert!(allocate(1) < 0);
    assert!(everybuddy_drain(frames, 0));
    assert!(allocate(1) >= 0);
}

#[test]
fn hints_reach_systems_that_read_them() {
    for (spec, reads) in [("spring", true), ("lbs-31", false), ("everybuddy", false)] {
        let frames = built(spec, &RANGES, 0).expect("it is built");
        assert_eq!(
            everybuddy_state(frames, 0).hints,
            u32::from(reads),
            "{spec}"
        );
        // Runs of eight frames, whose mapping ends with them.
        let mut taken = Vec::new();
        for region in 0..16 {
            for left in (1..=8).rev() {
                let task = 7;
                let hint = Hint { task, region, left };
                taken.push((frames.operations.allocate_for)(frames, 0, 0, 0, &hint));
            }
        }
        assert!(taken.iter().all(|frame| *frame > 0), "{spec}");
        for frame in taken {
            assert_eq!(everybuddy_free(frames, 0, frame as u64, 0), 0, "{spec}");
        }
        assert_all_free(frames, spec);
    }
    // A request for the last page of its mapping refills no more than itself, where that is predicted.
    let refills = |left| {
        let frames = built("spring+predict=region+batch=4", &RANGES, 0).expect("it is built");
        for _ in 0..64 {
            let hint = Hint {
                task: 1,
                region: 2,
                left,
            };
            let frame = (frames.operations.allocate_for)(frames, 0, 0, 0, &hint);
            assert!(frame > 0);
        }
        everybuddy_state(frames, 0).refills
    };
    assert!(
        refills(1) > 2 * refills(64),
        "{} {}",
        refills(1),
        refills(64)
    );
}

#[test]
fn free_blocks_are_reported_once_by_every_system() {
    for row in ROWS {
        let (name, frames) = (row.name, built(row.name, &RANGES, 0).expect("it is built"));
        assert_eq!(everybuddy_reporting_bytes(frames, 19), 0, "{name}");
        let largest = everybuddy_state(frames, 0).max_order as u8;
        assert_eq!(everybuddy_reporting_bytes(frames, largest + 1), 0, "{name}");
        let bytes = everybuddy_reporting_bytes(frames, 4);
        // SAFETY: the sizes are those of the slices, which are never freed.
        let build = |bytes, shift: usize| unsafe {
            let memory = Box::leak(vec![0xa5_u8; bytes + shift].into_boxed_slice());
            everybuddy_reporting_build(frames, 4, memory[shift..].as_mut_ptr(), bytes)
        };
        assert!(build(size_of::<Reports>(), 0).is_none(), "{name}");
        let reports = build(bytes, usize::from(largest)).expect("there is enough memory");
        let take = |mut budget: u32| {
            let mut order = 77;
            let frame = everybuddy_reporting_take(reports, 0, &mut budget, &mut order);
            (frame, order)
        };
        let put = |(frame, order), reported| {
            everybuddy_reporting_put(reports, 0, frame as u64, order, reported)
        };
        // The first block is held, and then put back without a mark: it comes again in the next round.
        let first = take(u32::MAX);
        assert!(first.0 > 0 && first.1 >= 4, "{name}");
        assert_eq!(everybuddy_reporting_held(reports), 1, "{name}");
        assert_eq!(put(first, false), 0, "{name}");
        assert_eq!(everybuddy_reporting_held(reports), 0, "{name}");
        assert_ne!(put(first, true), 0, "{name}: it is not held any more");
        assert_eq!(everybuddy_reporting_held(reports), 0, "{name}");
        let mut all = BTreeSet::new();
        let mut rounds = 0;
        while rounds < 2 {
            let block = take(3);
            match block.0 {
                1.. => {
                    let block_frames = block.0..block.0 + (1 << block.1);
                    assert!(
                        block_frames.into_iter().all(|frame| all.insert(frame)),
                        "{name}"
                    );
                    assert_eq!(put(block, true), 0, "{name}");
                }
                end if end == -i64::from(codes::EXHAUSTED) => rounds += 1,
                busy => assert_eq!(busy, -i64::from(codes::BUSY), "{name}"),
            }
        }
        assert_eq!(all.len() as u64, COUNT, "{name}");
        // What is allocated was reported, and its block is reported again.
        let frame = everybuddy_allocate(frames, 0, 0, 0);
        let allocated = |frame| everybuddy_reporting_allocated(reports, frame, 0);
        assert_eq!(allocated(frame as u64), 1, "{name}");
        assert_eq!(allocated(frame as u64), 0, "{name}");
        assert_eq!(allocated(u64::MAX), 0, "{name}");
        assert_eq!(everybuddy_free(frames, 0, frame as u64, 0), 0, "{name}");
        assert_all_free(frames, name);
        assert_eq!(take(u32::MAX), (frame & !15, 4), "{name}");
        assert_eq!(put((frame & !15, 4), true), 0, "{name}");
        assert_eq!(take(u32::MAX), (-i64::from(codes::EXHAUSTED), 77), "{name}");
        assert_eq!(put((frame, 19), true), -codes::BAD_ORDER, "{name}");
        assert_eq!(put((i64::MAX, 4), true), -codes::FOREIGN, "{name}");
        let inside = frames.with(CpuId(0), |_| (take(9).0, put(first, true)));
        let busy = codes::BUSY;
        assert_eq!(inside, Some((-i64::from(busy), -busy)), "{name}");
        assert_all_free(frames, name);
    }
}

/// Returns the words of `text` between two texts.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text
        .split_once(start)
        .unwrap_or_else(|| panic!("there is no {start}"));
    rest.split_once(end)
        .unwrap_or_else(|| panic!("there is no {end}"))
        .0
}

#[test]
fn the_header_declares_what_the_functions_are() {
    let header = include_str!("../include/everybuddy_kernel.h");
    let source = include_str!("calls.rs");
    // Functions, except those that the kernel provides.
    let names = |text: &str, before: &str| -> BTreeSet<String> {
        let name = |part: &str| {
            let end = part
                .find(|letter: char| letter != '_' && !letter.is_ascii_lowercase())
                .unwrap_or(0);
            part[..end].to_string()
        };
        text.split(before).skip(1).map(name).collect()
    };
    let (inline, declarations): (Vec<&str>, Vec<&str>) = header
        .lines()
        .filter(|line| !line.starts_with([' ', '\t', '*', '/', '#']) && line.contains('('))
        .partition(|line| line.starts_with("static inline"));
    let mut declared: BTreeSet<String> = declarations
        .iter()
        .filter_map(|line| line.split('(').next()?.rsplit("everybuddy_").next())
        .map(String::from)
        .collect();
    for name in ["panic", "interrupts_off", "interrupts_restore"] {
        assert!(declared.remove(name), "the kernel provides {name}");
    }
    assert_eq!(declared, names(source, "extern \"C\" fn everybuddy_"));
    // The operations with which a system starts, and the functions that call them.
    let of_rust = between(
        include_str!("frames.rs"),
        "pub struct Operations {\n",
        "\n}",
    );
    let of_rust = of_rust
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next());
    let of_c = between(header, "struct everybuddy {\n", "};");
    let of_c = of_c.lines().map(|line| between(line, "(*", ")"));
    let names: Vec<&str> = of_rust.collect();
    assert_eq!(of_c.collect::<Vec<_>>(), names);
    let called: Vec<&str> = inline
        .iter()
        .map(|line| between(line, "everybuddy_", "("))
        .collect();
    assert_eq!(called, names);
    // Errors and limits.
    let codes = include_str!("codes.rs");
    let mut constants = 0;
    for line in header
        .lines()
        .filter_map(|line| line.strip_prefix("#define EVERYBUDDY_"))
    {
        let mut words = line.split_whitespace();
        let (name, value) = (words.next().unwrap_or_default(), words.next());
        let expected = match name {
            "KERNEL_H" => continue,
            "MAX_RANGES" => MAX_RANGES.to_string(),
            "ORDERS" => State::default().free_blocks.len().to_string(),
            _ => between(codes, &format!("const {name}: i32 = "), ";").to_string(),
        };
        assert_eq!(value, Some(expected.as_str()), "{name}");
        constants += 1;
    }
    assert_eq!(constants, 2 + codes.matches(": i32 = ").count());
    // The fields of all structures, in their order.
    let requests = include_str!("../../everybuddy/src/request.rs");
    for (c, rust, source) in [
        ("everybuddy_range", "Range", source),
        ("everybuddy_state", "State", source),
        ("everybuddy_hint", "Hint", requests),
    ] {
        let of_c = between(header, &format!("struct {c} {{\n"), "};");
        let of_c = of_c.lines().map(|line| {
            let mut words = between(line, "\t", ";").split_whitespace();
            let (kind, name) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            format!("{}: {kind}", name.split('[').next().unwrap_or_default())
        });
        let of_rust = between(source, &format!("pub struct {rust} {{\n"), "\n}");
        let of_rust = of_rust
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub "));
        let of_rust = of_rust.map(|field| {
            let field = field.trim_end_matches(',').replace('[', "");
            field.split(';').next().unwrap_or_default().to_string()
        });
        assert_eq!(of_c.collect::<Vec<_>>(), of_rust.collect::<Vec<_>>(), "{c}");
    }
    assert_eq!(size_of::<Range>(), 16);
    assert_eq!(size_of::<State>(), 9 * 8 + 4 * 4 + 19 * 8);
    assert_eq!(size_of::<Option<&Frames>>(), size_of::<*const u8>());
}
