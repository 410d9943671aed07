//! Requests: what their flags, zones and nodes allow, and what reports say about those that failed.

use everybuddy_memory::answer;
use everybuddy_memory::request::Request;
use everybuddy_memory::show::terminal;
use everybuddy_memory::state::{MigrateType, ZoneKind};
use everybuddy_memory::{State, Zone, explain};

use crate::common::{states, text};

const I386: &str = "s31-show-6.15-i386-highmem-missing.txt";
const NODES: &str = "s32-paf-5.14-8nodes-dma.txt";
const ORDER5: &str = "s33-paf-6.7-order5.txt";
const ATOMIC: &str = "s34-show-6.18-arm64-highatomic.txt";
const JOURNAL: &str = "s35-vmalloc-6.3-wrapped-journal.txt";
const ARM: &str = "s36-proc-3.4-arm-highmem.txt";
const NOMMU: &str = "s37-nommu-6.1-riscv-quoted.txt";
const PHONE: &str = "s38-paf-4.14-all-highatomic-quoted.txt";
const MAIL: &str = "s39-paf-6.19-quoted-printable.txt";

fn first(name: &str) -> State {
    states(&text(name)).swap_remove(0)
}

fn zone<'a>(state: &'a State, name: &str) -> &'a Zone {
    let mut zones = state.zones.iter();
    zones.find(|zone| zone.extent.name == name).unwrap()
}

#[test]
fn a_zone_keeps_its_reserve_for_the_class_of_the_request_only() {
    for (file, name, order, usable) in [
        // Reserves against HighMem, which the excerpt lacks, do not concern ordinary requests.
        (I386, "Normal", 0, 139_902),
        (I386, "Normal", 10, 128),
        (I386, "DMA", 0, 3157),
        (I386, "DMA", 10, 3),
        (ARM, "Normal", 0, 36_535),
        (ARM, "Normal", 10, 34),
        // Those of DMA and DMA32 against Normal do.
        (ATOMIC, "DMA", 0, 0),
        ("s24-oom-5.8-ubuntu-syslog.txt", "DMA", 0, 0),
    ] {
        let state = first(file);
        let answer = answer::of_zone(&state, zone(&state, name), Request::default()).unwrap();
        let row = &answer.rows[order];
        assert_eq!(row.usable.value(), Some(usable), "{file} {name} {row:?}");
    }
}

/// A machine whose zones have these reserves.
fn machine(zones: &[(&str, &str)], end: &str) -> State {
    let mut text = "Mem-Info:\n".to_owned();
    for (name, reserve) in zones {
        text.push_str(&format!(
            "Node 0 {name} free:400kB min:4kB low:8kB high:12kB present:400kB managed:400kB\n\
             lowmem_reserve[]: {reserve}\n"
        ));
    }
    text.push_str(end);
    states(text.as_bytes()).swap_remove(0)
}

#[test]
fn the_columns_of_reserves_follow_from_zones_and_their_number() {
    let dma32 = Request {
        highest: ZoneKind::Dma32,
        ..Request::default()
    };
    let requests = [Request::default(), Request::MOVABLE, dma32];
    let high = "9 pages HighMem/MovableOnly\n";
    for (zones, end, expected) in [
        // Memory that was added as movable, by virtio-mem or CXL.
        ("DMA32 0 0 7 107 107, Normal 0 0 0 100 100", "", [7, 107, 0]),
        // HighMem is the third of four zones.
        ("DMA 0 5 25 25, HighMem 0 0 0 0", "", [5, 25, 5]),
        ("DMA 0 5 25 25", high, [5, 25, 5]),
        // Nothing tells whether the third is Normal: the larger number is taken.
        ("DMA 0 5 25 25", "", [25, 25, 5]),
        ("Normal 0 0", "", [0, 0, 0]),
        // Before Linux 2.6.23, there was no Movable.
        (
            "DMA 0 0 8 98, DMA32 0 0 8 98, Normal 0 0 0 90, HighMem 0 0 0 0",
            "",
            [8, 98, 0],
        ),
    ] {
        let zones: Vec<_> = zones
            .split(", ")
            .map(|zone| zone.split_once(' ').unwrap())
            .collect();
        let state = machine(&zones, end);
        let found = requests.map(|request| request.reserve(&state, &state.zones[0]).unwrap());
        assert_eq!(found, expected, "{zones:?} {end}");
    }
    // Without the line, the reserve of a low zone is unknown.
    let state = machine(&[("DMA32", ""), ("Normal", "")], "");
    assert_eq!(requests[0].reserve(&state, &state.zones[0]), None);
    assert_eq!(requests[0].reserve(&state, &state.zones[1]), Some(0));
}

#[test]
fn counters_are_exact_for_frames_and_bound_all_orders() {
    let special = |file: &str, order: usize| {
        let state = first(file);
        let answer = answer::of_zone(&state, zone(&state, "Normal"), Request::default()).unwrap();
        let special = &answer.rows[order].special;
        let found = special
            .iter()
            .find(|(name, _)| *name == MigrateType::HighAtomic);
        found.unwrap().1
    };
    assert_eq!(special(ATOMIC, 0).value(), Some(508));
    assert_eq!(special(ATOMIC, 4).high, Some(508 >> 4));
    // What is reserved is at least what is free.
    assert_eq!(special(JOURNAL, 0).high, Some(8192));
    // The rest serves ordinary requests: 134,848 KiB in the table, 133,976 KiB and `min` of 50,428 KiB in the line.
    let state = first(JOURNAL);
    let answer = answer::of_zone(&state, zone(&state, "Normal"), Request::default()).unwrap();
    assert_eq!(answer.rows[0].usable.low, (133_976 - 50_428) / 4 - 8192);
}

#[test]
fn flags_name_zone_class_and_urgency() {
    let request = |flags: &str, order: i64| {
        let mut event = first(NODES).event.unwrap();
        event.flags = Some(flags.to_owned());
        event.order = Some(order);
        Request::of_event(&event)
    };
    // The last ones are those of Linux before 4.6, without names, and of a report without flags.
    let cases = "\
0xcc1(GFP_KERNEL|GFP_DMA) Dma false Ordinary
0xcc4(GFP_KERNEL|GFP_DMA32) Dma32 false Ordinary
0xcc2(GFP_KERNEL|__GFP_HIGHMEM) HighMem false Ordinary
0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO) Movable true Ordinary
0x480020(GFP_ATOMIC) Normal false Atomic
0xc0de0(GFP_KERNEL|__GFP_HIGH|__GFP_ZERO) Normal false High
0x4020 Normal false Atomic
0xf0 Normal false High
0x201da Movable true Ordinary
0x24000c2 HighMem false Ordinary
 Normal false Ordinary";
    for case in cases.lines() {
        let flags = case.split(' ').next().unwrap();
        let found = request(flags, 0);
        let (highest, urgency) = (found.highest, found.urgency);
        let found = format!("{flags} {highest:?} {} {urgency:?}", found.is_movable);
        assert_eq!(found, case);
        assert!(!request(flags, 0).is_high_atomic, "{flags}");
    }
    assert!(request("0x480020(GFP_ATOMIC)", 3).is_high_atomic);
}

#[test]
fn reports_say_why_the_request_failed() {
    #[rustfmt::skip]
    let cases = [
        (NODES, "(order 10) was free in zone DMA: 160 KiB of 15 MiB were free, but only in smaller blocks."),
        (NODES, "The request may use no other memory."),
        (ORDER5, "but none for this request: the zones are at their watermarks."),
        (PHONE, "2,559 blocks of 4 KiB (order 0) were free, but none for this request: blocks of the class HighAtomic"),
        (NOMMU, "No block of 512 KiB (order 7) was free: 3.3 MiB were free"),
        (MAIL, "No block of 128 KiB (order 5) was free"),
        (
            "s15-oom-6.1-arch.txt",
            "Fragmentation is not the cause: memory and swap are full. 860 KiB of page cache and 84 KiB of swap \
             remain.",
        ),
        ("s24-oom-5.8-ubuntu-syslog.txt", "Fragmentation is not the cause: memory is full"),
    ];
    for (file, words) in cases {
        let sentence = explain::event(&first(file)).unwrap();
        assert!(sentence.contains(words), "{file}: {sentence}");
    }
    // Page cache is left.
    for file in [NODES, PHONE, MAIL] {
        let sentence = explain::event(&first(file)).unwrap();
        assert!(!sentence.contains("full"), "{file}: {sentence}");
    }
}

#[test]
fn broken_and_prefixed_lines_name_kernel_task_and_time() {
    #[rustfmt::skip]
    let cases = [
        (JOURNAL, "vmalloc failure, order 9, prog; May  5 10:51:34; Linux 6.3.1-gentoo-gentoo-dist"),
        (MAIL, "order 5, prog; 30.986973; Linux 6.19.5-1.qubes.42.fc41.x86_64"),
        (PHONE, "order 0, prog:9343_3; 6207.637280"),
        (NODES, "order 10, swapper/0; 14.017417; Linux 5.14.21-150400.22-default"),
        (NOMMU, "order 7, sh; 1.217998"),
    ];
    for (file, words) in cases {
        let title = explain::title(&first(file));
        assert!(title.contains(words), "{file}: {title}");
    }
    let record = "4,1,6207637280,-,caller=T9;prog: page allocation failure: order:0, mode:0x20(GFP_ATOMIC)\n";
    assert!(explain::title(&states(record.as_bytes())[0]).contains("prog; 6207.637280"));
    let event = first(JOURNAL).event.unwrap();
    assert_eq!(
        event.flags.as_deref(),
        Some("0xcc2(GFP_KERNEL|__GFP_HIGHMEM)")
    );
    assert_eq!(first(NODES).event.unwrap().nodes, [[(0, 7)]]);
    assert_eq!(first(MAIL).event.unwrap().nodes, [[(0, 0)]]);
}

/// A report of a machine with two nodes: the first one has no block of 32 KiB.
fn two_nodes(flags: &str, nodes: &str, second: &str) -> String {
    let mut text = format!(
        "prog: page allocation failure: order:3, mode:{flags}, nodemask=(null),cpuset=/{nodes}\nMem-Info:\n"
    );
    for node in 0..2 {
        text.push_str(&format!(
            "Node {node} Normal free:80000kB min:400kB low:500kB high:600kB present:90000kB managed:90000kB\n\
             lowmem_reserve[]: 0 0\n"
        ));
    }
    text.push_str(
        "Node 0 Normal: 20000*4kB (U) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB \
         0*4096kB = 80000kB\n\
         Node 1 Normal: 0*4kB 0*8kB 0*16kB 2500*32kB (U) 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB \
         = 80000kB\n",
    );
    let text = text.replace("Node 1 Normal", second);
    explain::event(&states(text.as_bytes())[0]).unwrap()
}

#[test]
fn requests_use_their_nodes_only() {
    #[rustfmt::skip]
    let cases = [
        ("0xcc0(GFP_KERNEL)", ",mems_allowed=0", "(order 3) was free on node 0: 78.1 MiB of 87.8 MiB were free"),
        ("0xcc0(GFP_KERNEL)", ",mems_allowed=0-1", "They became free after it failed."),
        ("0xcc0(GFP_KERNEL)", "", "It was limited to fewer nodes, or they became free"),
        ("0xcc0(GFP_KERNEL)", ",mems_allowed=1", "2,500 blocks of 32 KiB (order 3) were free on node 1"),
        (
            "0x200cc0(GFP_KERNEL|__GFP_THISNODE)",
            ",mems_allowed=0-1",
            "It was bound to one node, which the report does not name: node 0 had none.",
        ),
        // The list is cut.
        ("0xcc0(GFP_KERNEL)", ",mems_allowed=0-", "It was limited to fewer nodes"),
    ];
    for (flags, nodes, words) in cases {
        let sentence = two_nodes(flags, nodes, "Node 1 Normal");
        assert!(sentence.contains(words), "{flags} {nodes}: {sentence}");
    }
}

#[test]
fn requests_for_low_memory_do_not_use_the_rest() {
    let second = "Node 0 HighMem";
    let ordinary = two_nodes("0xcc0(GFP_KERNEL)", ",mems_allowed=0", second);
    let words = "(order 3) was free in zone Normal: 78.1 MiB of 87.8 MiB were free, but only in smaller blocks. The \
                 request may use no other memory.";
    assert!(ordinary.contains(words), "{ordinary}");
    let movable = two_nodes("0x100cca(GFP_HIGHUSER_MOVABLE)", ",mems_allowed=0", second);
    assert!(
        movable.contains("2,500 blocks of 32 KiB (order 3) were free, and"),
        "{movable}"
    );
}

#[test]
fn uses_of_memory_are_listed_with_the_largest_first() {
    let usage = |file: &str| explain::usage(&first(file)).unwrap();
    // 1,413,442 and 1,509,191 frames.
    let line = usage("s15-oom-6.1-arch.txt");
    assert!(
        line.starts_with("Memory: anonymous 11.1 GiB, uncounted (drivers, balloon) "),
        "{line}"
    );
    assert!(
        line.ends_with("page cache 860 KiB, swap free 84 KiB of 23.9 GiB."),
        "{line}"
    );
    let line = usage("s27-paf-6.19-dmesgT-two.txt");
    assert!(line.contains("compressed pages (zspages) 1 GiB"), "{line}");
    let pool = "Mem-Info:\nactive_anon:0 inactive_anon:0\n active_file:1 inactive_file:0\n\
                Node 0 Normal free:400kB min:4kB low:8kB high:12kB present:9000kB managed:9000kB\n\
                Node 0 hugepages_total=2 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB\n\
                Node 0 hugepages_total=4 hugepages_free=0 hugepages_surp=0 hugepages_size=1024kB\n";
    let line = explain::usage(&states(pool.as_bytes())[0]).unwrap();
    assert!(
        line.starts_with(
            "Memory: pool of huge pages 8 MiB, uncounted (drivers, balloon) 404 KiB, page cache 4 KiB"
        ),
        "{line}"
    );
}

#[test]
fn memory_that_is_present_and_not_managed_is_named() {
    let mut state = first("k1-zoneinfo.txt");
    let name = |state: &State| explain::unmanaged(state, zone(state, "Normal"));
    let words =
        "9.2 GiB are present, but not managed: a balloon, hot-plug, or a reservation at boot.";
    assert_eq!(name(&state).as_deref(), Some(words));
    assert_eq!(explain::unmanaged(&state, zone(&state, "DMA32")), None);
    state.meminfo.insert("MemTotal".to_owned(), 24_683_656);
    assert!(name(&state).unwrap().contains("MemTotal counts them"));
}

#[test]
fn callers_are_read_from_reports_and_from_allocinfo() {
    let found = |state: &State| {
        let callers = state.callers.iter();
        let callers = callers.map(|caller| {
            (
                caller.function.clone(),
                caller.place.clone(),
                caller.bytes >> 10,
                caller.calls,
            )
        });
        callers.collect::<Vec<_>>()
    };
    let callers = found(&first(MAIL));
    let row = |function: &str, place: &str, kib, calls| {
        (function.to_owned(), place.to_owned(), kib, calls)
    };
    assert_eq!(callers.len(), 8);
    assert_eq!(
        callers[0],
        row("alloc_slab_page", "mm/slub.c:3075", 39_321, 5505)
    );
    let broken = row(
        "fill_grant_buffer",
        "drivers/block/xen-blkfront.c:322 [xen_blkfront]",
        33 << 10,
        8448,
    );
    assert_eq!(callers[1], broken);
    assert_eq!(callers[2].0.as_str(), "ractl_alloc_folio");
    assert_eq!(callers[4].0.as_str(), "vb2_vmalloc_alloc");
    let table = terminal::state(&first(MAIL));
    assert!(
        table.contains("alloc_slab_page (mm/slub.c:3075)"),
        "{table}"
    );

    let mut file = "allocinfo - version: 1.0\n#     <size>  <calls> <tag info>\n".to_owned();
    for line in 1..=20 {
        file.push_str(&format!(
            "    {}    {line} mm/slub.c:{line} func:alloc\n",
            line << 10
        ));
    }
    // The last line is cut.
    file.push_str("   99999999    1 mm/slub.c:1 func:allo");
    let callers = found(&states(file.as_bytes())[0]);
    assert_eq!(callers.len(), 10);
    assert_eq!(&callers[0], &row("alloc", "mm/slub.c:20", 20, 20));
    assert_eq!(callers[9].2, 11);
}
