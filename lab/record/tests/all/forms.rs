//! Recordings in forms that tools, clocks and ages of the kernel write: each is read, or refused with what it is.
//!
//! The files in `data/synthetic` are written by hand after the formats of the tools.

use std::fs;
use std::path::{Path, PathBuf};

use everybuddy_record::{
    ImportError, ImportOptions, Imported, Scope, Source, import, import_stream,
};
use everybuddy_trace::{Event, Op};

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/synthetic");
    folder.join(name)
}

/// Imports a file, of which nothing may remain unrecognized.
#[track_caller]
fn read(name: &str, source: Source) -> Imported {
    let made = import(&file(name), ImportOptions::default()).unwrap();
    let log = &made.log;
    assert_eq!((log.source, log.unclear), (source, 0), "{name}: {log}");
    made
}

fn text(text: &str) -> Result<Imported, ImportError> {
    import_stream(text.as_bytes(), "made", ImportOptions::default())
}

#[track_caller]
fn refused(text: &[u8], words: &[&str]) {
    let error = import_stream(text, "made", ImportOptions::default());
    let error = error.unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// Allocations and frees: operation, frame, order, thread, CPU.
fn calls(made: &Imported) -> Vec<(Op, u64, u8, u32, u16)> {
    let call = |e: &Event| (e.op, e.pfn, e.order, e.pid, e.cpu);
    made.trace.events.iter().map(call).collect()
}

fn times(made: &Imported) -> Vec<u64> {
    let events = made.trace.events.iter();
    events.map(|event| event.time_ns).collect()
}

fn has_remark(made: &Imported, words: &str) -> bool {
    made.log.remarks.iter().any(|remark| remark.contains(words))
}

const A: Op = Op::Allocate;
const F: Op = Op::Free;

#[test]
fn counts_of_a_clock_keep_the_order() {
    let made = read("ftrace-counter.txt", Source::Ftrace);
    let wanted = [
        (A, 0x2040, 0, 2212, 3),
        (A, 0x2041, 0, 7, 1),
        (F, 0x2040, 0, 2212, 3),
    ];
    assert_eq!(calls(&made), wanted);
    assert_eq!(times(&made), [0, 4, 9]);
    assert!(has_remark(&made, "counts"));
    let report = read("trace-cmd-tsc.txt", Source::TraceCmd);
    assert_eq!(calls(&report), calls(&made));
    // A line with seconds among counts is not understood.
    let mixed =
        "a-1 [000] 7: mm_page_alloc: pfn=1 order=0\na-1 [000] 1.5: mm_page_free: pfn=1 order=0\n";
    assert_eq!(text(mixed).unwrap().log.unclear, 1);
}

#[test]
fn events_among_functions_are_read() {
    let made = read("function-graph.txt", Source::Ftrace);
    let wanted = [
        (A, 0x2040, 0, 0, 24),
        (A, 0x2080, 3, 300, 24),
        (F, 0x2040, 0, 300, 24),
    ];
    assert_eq!(calls(&made), wanted);
    assert_eq!(made.accounts.as_ref().unwrap().refusals_seen, 1);
    assert!(has_remark(&made, "no times"));
    assert_eq!(made.log.skipped.get("functions"), Some(&5));
    let timed = read("function-graph-times.txt", Source::Ftrace);
    assert_eq!(calls(&timed)[..1], [(A, 0x2040, 0, 22, 2)]);
    assert_eq!(times(&timed), [0, 16_000]);
}

#[test]
fn the_time_since_the_previous_line_is_no_event() {
    let made = read("trace-cmd-ts-diff.txt", Source::TraceCmd);
    let wanted = [A, F].map(|op| (op, 0x2041, 0, 810, 4));
    assert_eq!(calls(&made), wanted);
    assert_eq!(times(&made), [0, 4_000]);
}

#[test]
fn differences_of_times_are_refused() {
    let differences = fs::read(file("perf-script-deltatime.txt")).unwrap();
    refused(&differences, &["differences", "--deltatime"]);
    // Times from 0 on are times, and lines out of order are sorted.
    let from_zero = "\
        a 1 [000] 0.000000: kmem:mm_page_alloc: pfn=0x10 order=0\n\
        a 1 [000] 0.000252: kmem:mm_page_free: pfn=0x10 order=0\n\
        a 1 [000] 0.000286: kmem:mm_page_alloc: pfn=0x10 order=0\n";
    assert_eq!(text(from_zero).unwrap().trace.events.len(), 3);
    let shuffled = "\
        a 1 [001] 500.2: kmem:mm_page_free: pfn=0x10 order=0\n\
        a 1 [000] 500.1: kmem:mm_page_alloc: pfn=0x10 order=0\n\
        a 1 [001] 500.4: kmem:mm_page_free: pfn=0x10 order=0\n\
        a 1 [000] 500.3: kmem:mm_page_alloc: pfn=0x10 order=0\n";
    assert_eq!(text(shuffled).unwrap().trace.events.len(), 4);
}

#[test]
fn numbers_printed_by_type_have_their_base() {
    let made = read("trace-cmd-raw.txt", Source::TraceCmd);
    let wanted = [
        (A, 0x3070e0, 1, 4734, 0),
        (F, 0x3070e0, 1, 4734, 0),
        (A, 0x3070e2, 0, 4734, 0),
    ];
    assert_eq!(calls(&made), wanted);
    let first = made.trace.events[0];
    assert_eq!((first.gfp, first.migratetype), (131_290, 0));
    assert_eq!(made.trace.events[2].gfp, 208);
    let accounts = made.accounts.as_ref().unwrap();
    assert_eq!((accounts.refusals_seen, accounts.system_calls_seen), (2, 2));
    let (mapped, none) = (accounts.faults_in_mapped, accounts.faults_in_none);
    assert!(mapped > 0 && none == 0, "the arguments of mmap are known");
}

#[test]
fn texts_of_other_encodings_are_read() {
    let wanted = [
        (A, 970_744, 0, 275, 6),
        (A, 970_745, 0, 275, 6),
        (F, 970_744, 0, 275, 6),
    ];
    let plain = fs::read_to_string(file("ftrace-old.txt")).unwrap();
    let wide = |convert: fn(u16) -> [u8; 2], mark: &[u8]| {
        let mut bytes = mark.to_vec();
        bytes.extend(plain.encode_utf16().flat_map(convert));
        bytes
    };
    for bytes in [
        plain.clone().into_bytes(),
        [b"\xef\xbb\xbf", plain.as_bytes()].concat(),
        plain.replace('\n', "\r\n").into_bytes(),
        wide(u16::to_le_bytes, b"\xff\xfe"),
        wide(u16::to_be_bytes, b"\xfe\xff"),
        wide(u16::to_le_bytes, b""),
    ] {
        let made = import_stream(&bytes[..], "made", ImportOptions::default()).unwrap();
        assert_eq!((calls(&made), made.log.unclear), (wanted.to_vec(), 0));
    }
    let table = "\u{feff}time_ns,cpu,pid,op,pfn,order\n5,0,1,0,3,0\n";
    let wide: Vec<u8> = table.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [table.as_bytes(), &wide] {
        let made = import_stream(bytes, "made", ImportOptions::default()).unwrap();
        assert_eq!(calls(&made), [(A, 3, 0, 1, 0)]);
    }
}

#[test]
fn perf_may_print_fewer_or_more_fields() {
    for (name, thread, cpu) in [("tod", 3837, 12), ("no-task", 0, 0), ("cpu-only", 0, 12)] {
        let made = read(&format!("perf-script-{name}.txt"), Source::PerfScript);
        let wanted = [A, F].map(|op| (op, 0x2f9_5b76, 0, thread, cpu));
        assert_eq!(calls(&made), wanted);
        assert_eq!(times(&made), [0, 100_000]);
        let is_full = thread > 0;
        assert_eq!(made.log.remarks.is_empty(), is_full);
        assert_eq!(has_remark(&made, "thread 0"), !is_full);
    }
    let no_time = "a 7 [003] kmem:mm_page_alloc: pfn=0x10 order=0\na 7 [003] kmem:mm_page_free: pfn=0x10 order=0\n";
    let made = text(no_time).unwrap();
    assert_eq!(calls(&made), [(A, 0x10, 0, 7, 3), (F, 0x10, 0, 7, 3)]);
}

#[test]
fn short_addresses_of_a_call_chain_are_no_events() {
    let made = read("perf-script-short-addresses.txt", Source::PerfScript);
    assert_eq!(calls(&made).len(), 2);
}

#[test]
fn dumps_in_the_log_of_the_kernel_are_read() {
    let made = read("dmesg-dump.txt", Source::Ftrace);
    let wanted = [A, F].map(|op| (op, 970_744, 0, 275, 6));
    assert_eq!(calls(&made), wanted);
    assert_eq!(times(&made), [0, 16_000]);
    assert!(
        made.trace.events[1].flags.0 != 0,
        "the free was made in an interrupt"
    );
    assert!(made.log.skipped.contains_key("messages of the kernel"));
}

/// Kernels up to 2.6.33: some frees have two events, and those of whole vectors have one that others repeat later.
#[test]
fn each_free_of_an_old_kernel_counts_once() {
    let made = read("ftrace-2.6.32.txt", Source::TraceCmd);
    let wanted = [
        (A, 1_155_800, 0, 1567, 0),
        (F, 1_155_800, 0, 1567, 0),
        (A, 1_155_800, 0, 1567, 0),
        (A, 1_155_801, 0, 1567, 0),
        (F, 1_155_800, 0, 1567, 0),
        (F, 1_155_801, 0, 1567, 0),
        (A, 1_155_808, 3, 1567, 0),
        (F, 1_155_808, 3, 1567, 0),
    ];
    assert_eq!(calls(&made), wanted);
    let accounts = made.accounts.as_ref().unwrap();
    assert_eq!((accounts.unmatched_frees, accounts.inferred_frees), (0, 0));
    assert_eq!(
        accounts.refusals_seen, 1,
        "an old kernel computes a frame of an absent page"
    );
    assert_eq!((made.log.repeated, made.log.understood), (3, 9));
}

#[test]
fn an_event_is_not_taken_for_a_line_of_a_call_chain() {
    let event = "mm_page_alloc: pfn=0x10 order=0 migratetype=0 gfp_flags=GFP_KERNEL";
    let plain = format!("a-1 [000] 1.0: {event}\n");
    // What is not understood is counted, and not dropped as an address with a function.
    let made = text(&format!("{plain}  dead   kmem:{event}\n")).unwrap();
    assert_eq!(made.trace.events.len(), 1);
    assert!(made.log.unclear > 0);
}

#[test]
fn a_batched_free_is_a_free_unless_another_event_reports_it() {
    let line = |time: u32, event: &str| format!("a-1 [000] {time}.0: {event}\n");
    let alloc = "mm_page_alloc: pfn=0x10 order=0 migratetype=0 gfp_flags=GFP_KERNEL";
    let (free, batched) = (
        "mm_page_free: pfn=0x10 order=0",
        "mm_page_free_batched: pfn=0x10 order=0",
    );
    let ops = |events: &[&str]| {
        let lines = events.iter().zip(1..);
        let text_of: String = lines.map(|(event, time)| line(time, event)).collect();
        let made = text(&text_of).unwrap();
        let ops: Vec<Op> = made.trace.events.iter().map(|event| event.op).collect();
        (
            ops,
            made.log.repeated,
            made.accounts.unwrap().inferred_frees,
        )
    };
    assert_eq!(ops(&[alloc, batched]), (vec![A, F], 0, 0));
    // The event has no field for the order, so a recording of raw fields has none.
    for bare in [
        "mm_page_free_batched: pfn=0x10",
        "mm_pagevec_free: pfn=0x10",
    ] {
        assert_eq!(ops(&[alloc, bare]), (vec![A, F], 0, 0), "{bare}");
    }
    assert_eq!(ops(&[alloc, batched, alloc]), (vec![A, F, A], 0, 0));
    assert_eq!(ops(&[alloc, free, batched, alloc]), (vec![A, F, A], 1, 0));
    assert_eq!(ops(&[alloc, batched, free, alloc]), (vec![A, F, A], 1, 0));
    assert_eq!(
        ops(&[alloc, free, alloc, batched]),
        (vec![A, F, A, F], 0, 0)
    );
}

/// Tools print the distance in bytes where kernels up to 4.0 recorded addresses of descriptors.
#[test]
fn distances_of_descriptors_become_frames() {
    for (size, name) in [(56, "perf-script-56.txt"), (64, "")] {
        let from = |frames: &[(u64, u8)]| -> String {
            let line = |(n, (frame, order)): (usize, &(u64, u8))| {
                let distance = frame * size;
                let page = 0xffff_ea00_0000_0000 + distance;
                format!(
                    "imap-20599 [002] 7.{n:06}: mm_page_alloc: page={page:#x} pfn={distance} order={order} \
                     migratetype=0 gfp_flags=GFP_ATOMIC\n"
                )
            };
            frames.iter().enumerate().map(line).collect()
        };
        let frames = [
            (81_000, 3),
            (81_009, 0),
            (81_011, 0),
            (81_014, 1),
            (81_016, 0),
        ];
        let made = match name {
            "" => text(&from(&frames)).unwrap(),
            name => read(name, Source::TraceCmd),
        };
        let found: Vec<_> = made.trace.events.iter().map(|e| (e.pfn, e.order)).collect();
        assert_eq!(found, frames, "{size}");
        assert!(has_remark(&made, "descriptors"));
        // Numbers that the size does not divide are frames.
        let others = from(&[(81_000, 3), (81_009, 0)]).replace("pfn=4536504", "pfn=4536505");
        let others = text(&others.replace("pfn=5184576", "pfn=5184577")).unwrap();
        assert!(others.log.remarks.is_empty());
    }
}

/// Events that are there are never said to be absent.
#[test]
fn events_without_readable_fields_are_not_said_to_be_absent() {
    for given in [
        "a 7 [000] 1.0: kmem:mm_page_alloc:\na 7 [000] 1.1: kmem:mm_page_free:\n",
        "a-7 [000] 1.0: mm_page_alloc: page=what order=0\n",
        "a-7 [000] 1.0: mm_page_alloc: pfn=zz order=0\na-7 [000] 1.1: mm_page_free: pfn=0x1 order=0\n",
    ] {
        refused(
            given.as_bytes(),
            &["line 1", "without a readable frame", "perf script --ns -F"],
        );
    }
}

#[test]
fn the_log_of_the_kernel_may_have_any_prefix() {
    let event = |at: u32, text: &str| format!("   <...>-275       6d..1. {at}us : {text}\n");
    let alloc = event(
        10,
        "mm_page_alloc: page=1 pfn=16 order=0 migratetype=0 gfp_flags=GFP_KERNEL",
    );
    let free = event(12, "mm_page_free: page=1 pfn=16 order=0");
    for prefix in [
        "[  889.213000] ",
        "<4>[  889.213000] ",
        "[  889.213000] [  T275] ",
        "[Fri Nov 27 07:20:25 2026] ",
        "Nov 27 07:20:25 host kernel: ",
        "Nov 27 07:20:25 host kernel: [  889.213000] ",
    ] {
        let log = format!("{prefix}Linux version\n{prefix}{alloc}{prefix}---\n{prefix}{free}");
        let made = text(&log).unwrap();
        assert_eq!(
            calls(&made),
            [(A, 16, 0, 275, 6), (F, 16, 0, 275, 6)],
            "{prefix}"
        );
        assert_eq!(made.log.unclear, 0, "{prefix}");
    }
}

#[track_caller]
fn left_out(made: &Imported) -> Vec<(&'static str, u64)> {
    made.accounts.as_ref().unwrap().left_out().collect()
}

/// A kernel or a tool that hides addresses writes zeros for every page.
#[test]
fn a_page_of_zeros_has_the_frame_next_to_it() {
    let line = |at, event, rest| {
        format!(
            " a b-7   (    7) [002] ....   3.{at}: mm_page_{event}: page=0000000000000000 {rest}\n"
        )
    };
    #[rustfmt::skip]
    let lines = [
        line(1, "alloc", "pfn=0x8a010 order=0 migratetype=1 gfp_flags=GFP_KERNEL"),
        line(2, "alloc", "pfn=0x90040 order=4 migratetype=0 gfp_flags=GFP_KERNEL"),
        line(3, "alloc", "pfn=0x0 order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE"),
        line(4, "free_batched", "pfn=0x8a010 order=0"),
        line(5, "free", "pfn=0x8a010 order=0"),
        line(6, "free", "pfn=0x90040 order=4"),
        line(7, "pcpu_drain", "pfn=0x8a010 order=0 migratetype=1"),
    ];
    let made = text(&lines.concat()).unwrap();
    let wanted = [
        (A, 0x8a010, 0, 7, 2),
        (A, 0x90040, 4, 7, 2),
        (F, 0x8a010, 0, 7, 2),
        (F, 0x90040, 4, 7, 2),
    ];
    assert_eq!(calls(&made), wanted);
    assert_eq!(made.log.unclear, 0);
    let failed = ("failed allocations of the tree, omitted", 1);
    assert_eq!(left_out(&made), [failed]);
    refused(lines[2].as_bytes(), &["none of 1 allocations", "1 failed"]);
}

#[test]
fn recordings_in_mail_and_in_comments_are_read() {
    let mail = "Hello,\n\
        >   3)   0.160 us    |      f();\n\
        >   3)               |  /* mm_page_alloc: page=3D0000000000000000 pfn=3D0x2080\n\
        > order=3D3 migratetype=3D1\n\
        > gfp_flags=3DGFP_KERNEL|__GFP_COMP *=\n\
        /\n\
        >   3)               |  /* mm_page_free: page=3D0000000000000000 pfn=3D0x2080 order=3D3 */\n";
    let made = text(mail).unwrap();
    assert_eq!(calls(&made), [A, F].map(|op| (op, 0x2080, 3, 0, 3)));
    assert_eq!(made.log.complaints, [(1, "Hello,".to_string())]);
    let chain = "// <...>-7 [004] ...1 7.5: mm_page_free: page=0000000061b2fc33 pfn=1844 order=0\n\
        // <...>-7 [004] ...1 7.5: <stack trace>\n\
        //   => trace_event_raw_event_mm_page_free\n\
        //   => free_pages\n//\n";
    refused(chain.as_bytes(), &["none of 1 events is an allocation"]);
    let alloc =
        "// <...>-7 [004] ...1 7.4: mm_page_alloc: page=0000000061b2fc33 pfn=1844 order=0\n";
    let made = text(&format!("{alloc}{chain}")).unwrap();
    assert_eq!(calls(&made), [A, F].map(|op| (op, 1844, 0, 7, 4)));
    assert_eq!(made.log.unclear, 0);
}

#[test]
fn allocations_that_no_trace_can_hold_are_told() {
    let lines = "Two lines of a report:\n```\n\
        x-7 [003] d..1. 4.5: mm_page_free: page=00000000d2f41a07 pfn=0x8a01 order=1\n\
        y-8 [003] d..1. 4.6: mm_page_alloc: page=00000000d2f41a07 pfn=0x8a01 order=1 migratetype=0\n";
    refused(
        lines.as_bytes(),
        &[
            "none of 1 allocations",
            "2 events with a misaligned frame",
            "multiple",
        ],
    );
}

#[test]
fn files_that_are_no_recordings_are_named() {
    // A line: what is given, and the words of the error.
    for line in include_str!("not-recordings.txt").lines() {
        let (given, words) = line.split_once(" | ").unwrap();
        let given = given.replace("\\n", "\n").replace("\\t", "\t");
        refused(given.as_bytes(), &words.split("; ").collect::<Vec<_>>());
    }
    refused(b"PERFFILE\0\0", &["version 1", "perf script"]);
    refused("\u{1f}\u{8b}".as_bytes(), &["line 1"]);
    refused(b"PK\x03\x04..", &["zip", "unpack"]);
    refused(b"\x04\x22\x4d\x18..", &["lz4", "lz4cat"]);
    let folder = import(Path::new("."), ImportOptions::default())
        .unwrap_err()
        .to_string();
    assert!(folder.contains("is a folder"), "{folder}");
}

/// Creates the perf.data of a kernel up to 4.0 from a new one: the field of the frame becomes the descriptor's address.
fn old_perf_data(is_address: bool) -> Vec<u8> {
    let mut bytes = fs::read(file("../perf.data")).unwrap();
    let declared = b"field:unsigned long pfn;\toffset:8;";
    let pages = b"field:struct page *page;\toffset:8;";
    assert_eq!(declared.len(), pages.len());
    let mut at = 0;
    let find = |bytes: &[u8], at: usize| {
        bytes[at..]
            .windows(declared.len())
            .position(|w| w == declared)
    };
    while let Some(place) = find(&bytes, at) {
        at += place;
        bytes[at..at + declared.len()].copy_from_slice(pages);
    }
    // The values: every sample of the two events, found by the kernel's numbers of these in the file.
    if is_address {
        let numbers = [653u16, 655];
        for number in numbers {
            let head = number.to_le_bytes();
            let is_sample = |at: usize, bytes: &[u8]| {
                let size = u32::from_le_bytes(bytes[at - 4..at].try_into().unwrap());
                bytes[at..at + 2] == head && (20..=44).contains(&size)
            };
            for at in 104..bytes.len() - 24 {
                let value = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap());
                if is_sample(at, &bytes) && value < 1 << 24 && value > 0 {
                    let address = 0xffff_ea00_0000_0000u64 + value * 56;
                    bytes[at + 8..at + 16].copy_from_slice(&address.to_le_bytes());
                }
            }
        }
    }
    bytes
}

#[test]
fn perf_data_of_old_kernels_is_read_if_frames_follow_from_it() {
    let of = |bytes: Vec<u8>| import_stream(&bytes[..], "made", ImportOptions::default());
    let made = of(old_perf_data(true)).unwrap();
    let new = import(&file("../perf.data"), ImportOptions::default()).unwrap();
    assert_eq!(calls(&made), calls(&new));
    let error = of(old_perf_data(false)).unwrap_err().to_string();
    assert!(error.contains("descriptor"), "{error}");
    assert!(error.contains("pfn"), "{error}");
    let unused = ImportOptions {
        scope: Scope::Tree { root: 1 },
        ..ImportOptions::default()
    };
    assert!(import_stream(&old_perf_data(true)[..], "made", unused).is_err());
}
