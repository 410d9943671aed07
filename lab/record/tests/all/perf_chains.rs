//! Call chains of perf.data: with a list of symbols, they show which waits are for the zone's lock.

use std::fs;

use crate::common::Scratch;
use everybuddy_record::{Functions, ImportError, ImportOptions, Imported, import_stream};

const KERNEL: u64 = -128i64 as u64;
const USER: u64 = -512i64 as u64;
const TEXT: u64 = 0xffff_ffff_8100_0000;
const MODULE: u64 = 0xffff_ffff_c000_0000;
const ZONE: u64 = 0xffff_8881_3fff_a5c0;

const FIRST: &str = "ffffffff81000000 T _text\nffffffff81000100 t native_queued_spin_lock_slowpath\n\
    ffffffff81000200 T _raw_spin_lock\nffffffff81000300 t rmqueue_bulk\nffffffff81000400 T folio_lruvec_lock\n\
    ffffffff81000500 T _etext\n";

const FORMATS: [&str; 3] = [
    "name: mm_page_alloc\nID: 1\n\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\
     \tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n",
    "name: contention_begin\nID: 2\n\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
     \tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n",
    "name: contention_end\nID: 3\n\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
     \tfield:int ret;\toffset:16;\tsize:4;\tsigned:1;\n",
];

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|own| own.to_le_bytes()).collect()
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u16 + 8).to_le_bytes();
    [&kind.to_le_bytes()[..], &[0, 0], &size, body].concat()
}

/// A sample of thread 7 on CPU 0: thread, time, CPU, chain, and the fields of its tracepoint.
fn sample(time: u64, event: u16, fields: [u64; 2], chain: &[u64]) -> Vec<u8> {
    let mut body = bytes(&[7 << 32 | 7, time, 0, chain.len() as u64]);
    body.extend(bytes(chain));
    body.extend(28u32.to_le_bytes());
    body.extend([&event.to_le_bytes()[..], &[0, 0], &7u32.to_le_bytes()].concat());
    body.extend(bytes(&fields));
    body.extend([0; 4]);
    record(9, &body)
}

/// The kernel's record: the address of `_text`, in both kinds of records.
fn kernel(kind: u32, text: u64) -> Vec<u8> {
    let rest: &[u64] = if kind == 10 { &[0; 4] } else { &[] };
    let mut body = bytes(&[u64::from(u32::MAX), text, 1 << 24, text]);
    body.extend(bytes(rest));
    body.extend(b"[kernel.kallsyms]_text\0");
    record(kind, &body)
}

/// One allocation, and one wait of 1 µs per chain; wait N begins at N ms.
fn recording(before: &[u8], chains: &[&[u64]], after: &[u8]) -> Vec<u8> {
    let mut data = before.to_vec();
    data.extend(sample(1, 1, [64, 0], &[KERNEL, TEXT + 0x310]));
    for (at, chain) in (1..).zip(chains) {
        let (begin, lock) = (at * 1_000_000, ZONE + at);
        data.extend(sample(begin, 2, [lock, 1], chain));
        data.extend(sample(begin + 1_000, 3, [lock, 0], chain));
    }
    data.extend(after);
    let mut formats = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    formats.extend(b"header_page\0\0\0\0\0\0\0\0\0header_event\0\0\0\0\0\0\0\0\0\0\0\0\0");
    formats.extend(b"\x01\0\0\0all\0\x03\0\0\0");
    for format in FORMATS {
        formats.extend(bytes(&[format.len() as u64]));
        formats.extend(format.as_bytes());
    }
    // Each sample contains the thread, the time, the call chain, the CPU and data.
    let sampled = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7 | 1 << 10;
    let attribute = bytes(&[64 << 32 | 2, 0, 1, sampled, 0, 0, 0, 0, 0, 0]);
    let (place, size) = (104 + attribute.len() as u64, data.len() as u64);
    let end = place + size + 16;
    let mut file = b"PERFILE2".to_vec();
    file.extend(bytes(&[
        104,
        80,
        104,
        80,
        place,
        size,
        0,
        0,
        1 << 1,
        0,
        0,
        0,
    ]));
    file.extend(
        [
            attribute,
            data,
            bytes(&[end, formats.len() as u64]),
            formats,
        ]
        .concat(),
    );
    file
}

fn functions(list: &str) -> Result<Functions, ImportError> {
    let scratch = Scratch::new();
    let file = scratch.path("symbols");
    fs::write(&file, list).unwrap();
    Functions::read(&file)
}

fn import(file: &[u8], list: &str) -> Result<Imported, ImportError> {
    let options = ImportOptions {
        functions: functions(list)?,
        ..ImportOptions::default()
    };
    import_stream(file, "made", options)
}

/// The chain of a wait in a spin lock that is called from an address.
fn from(address: u64) -> [u64; 6] {
    [
        KERNEL,
        TEXT + 0x180,
        TEXT + 0x210,
        address,
        USER,
        TEXT + 0x310,
    ]
}

fn times(made: &Imported) -> Vec<u64> {
    let own = made.trace.acquisitions.iter();
    own.map(|own| own.time_ns / 1_000_000).collect()
}

#[test]
fn chains_with_symbols_name_the_zones_lock() {
    let list = FIRST.to_string() + "ffffffffc0000000 t rmqueue_bulk\t[other]\n";
    // Callers: the allocator, another function, a module, an address below the first function, and the allocator by a
    // call that is its last instruction, which returns to the start of the next function. Then an empty chain and a
    // user-only chain.
    let chains = [
        TEXT + 0x310,
        TEXT + 0x410,
        MODULE + 0x10,
        TEXT - 0x10,
        TEXT + 0x400,
    ]
    .map(from);
    let mut chains: Vec<&[u64]> = chains.iter().map(|own| &own[..]).collect();
    chains.extend([&[][..], &[USER, TEXT + 0x310]]);
    let made = import(&recording(&[], &chains, &[]), &list).unwrap();
    assert_eq!((times(&made), made.log.chains), (vec![1, 5], 10));
    let log = &made.log;
    assert_eq!((log.unclear, log.read, log.understood), (0, 15, 15));
    let accounts = made.accounts.unwrap();
    assert_eq!(accounts.waits_for_others, 3);
    assert_eq!(accounts.waits_of_unknown_locks, 2);
    assert_eq!(accounts.lock_events_seen, 14, "a chain is part of an event");

    let none = import_stream(
        &recording(&[], &chains, &[])[..],
        "made",
        ImportOptions::default(),
    );
    let none = none.unwrap();
    assert_eq!((times(&none), none.log.chains), (vec![], 10));
    assert_eq!(none.accounts.unwrap().waits_of_unknown_locks, 7);
}

#[test]
fn symbols_may_be_from_another_boot() {
    let moved = 0x1c00_0000;
    let allocator = from(TEXT + 0x310);
    let chain = allocator.map(|own| if own < USER { own + moved } else { own });
    for kind in [1, 10] {
        // `perf record --tail-synthesize` writes the record last.
        let own = kernel(kind, TEXT + moved);
        for (before, after) in [(&own[..], &[][..]), (&[], &own)] {
            let made = import(&recording(before, &[&chain], after), FIRST).unwrap();
            assert_eq!((times(&made), made.log.read), (vec![1], 4));
        }
    }
    // Without the kernel's MMAP record, or with symbols of another kernel, no address matches a lock function.
    for (before, words) in [
        (vec![], "without the kernel's load address"),
        (kernel(1, TEXT + moved + 0x1000), "from another kernel"),
    ] {
        let error = import(&recording(&before, &[&chain], &[]), FIRST).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.contains("omit --kallsyms"), "{error}");
    }
}

#[test]
fn most_waits_decide_whether_the_symbols_fit() {
    let (known, unlisted) = (from(TEXT + 0x310), [KERNEL, TEXT + 0x410, TEXT + 0x310]);
    let made = import(&recording(&[], &[&known, &unlisted, &known], &[]), FIRST);
    assert_eq!(times(&made.unwrap()), [1, 3]);
    let error = import(&recording(&[], &[&unlisted, &known, &unlisted], &[]), FIRST).unwrap_err();
    assert!(error.to_string().contains("in 2 of 3 waits"), "{error}");
}

#[test]
fn chains_are_not_sorted_events() {
    let late = sample(9_000_000, 1, [65, 0], &[]);
    let made = import(&recording(&late, &[&from(TEXT + 0x310)], &[]), FIRST).unwrap();
    assert_eq!((times(&made), made.log.out_of_order), (vec![1], 3));
}

#[test]
fn lists_that_cannot_name_functions_are_refused_with_their_line() {
    let hidden = FIRST
        .lines()
        .map(|line| format!("{:016}{}\n", 0, &line[16..]));
    let hidden: String = hidden.collect();
    #[rustfmt::skip]
    let cases = [
        (hidden, "line 1: every address is 0"),
        (FIRST.replace("00300 t", "00300"), "line 4: `ffffffff81000300 rmqueue_bulk`"),
        (FIRST.replace("ffffffff81000200", "\u{1b}x"), "line 3: `\\u{1b}x T _raw_spin_lock`"),
        (FIRST.replace("_text", &"x".repeat(100_000)), "line 1: `ffffffff81000000 T xxx"),
        (FIRST.replace("rmqueue_bulk", "other"), "no function of the page allocator"),
        (String::new(), "in 0 lines"),
    ];
    for (list, words) in cases {
        let error = functions(&list).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("help: "), "{error}");
        assert!(error.contains("symbols") && error.len() < 400, "{error}");
    }
    let error = Functions::read("no/such/list".as_ref()).unwrap_err();
    assert!(error.to_string().contains("no/such/list"), "{error}");
}
