//! Frames through the command: the recorded machine, answers to needs, and files that do not belong together.

use std::io::{Read, Write};

use everybuddy_memory::show::terminal;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::command::{file, run, text};
use crate::common::{path, states, text as bytes_of};

/// The files of the recorded machine.
fn machine() -> [String; 5] {
    [
        "zoneinfo.txt",
        "buddyinfo.txt",
        "pagetypeinfo.txt",
        "iomem.txt",
        "kpageflags.gz",
    ]
    .map(|name| file(&format!("k1-{name}")))
}

fn run_with(files: &[String], arguments: &[&str]) -> std::process::Output {
    let files = files.iter().map(String::as_str);
    run(&files.chain(arguments.iter().copied()).collect::<Vec<_>>())
}

fn json(files: &[String]) -> serde_json::Value {
    let output = run_with(files, &["--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_recorded_machine_has_the_same_numbers_in_all_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("a.html").display().to_string();
    let output = run_with(&machine(), &["--html", &page]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    // The sums over the zones: 1,479 + 549, and 2,400 more by moving; nothing of DMA.
    let summary = "Blocks for an ordinary request now: 2,028 of 2 MiB, 112 of 32 MiB, 2 of 1 GiB; after moving pages \
                   and dropping page cache: 4,428 to 6,490 of 2 MiB, ";
    assert!(table.contains(summary), "{table}");
    let row = "    2 MiB      9        549        549     +2,400           +0   +2,062      638      6,016\n";
    assert!(table.contains(row), "{table}");
    // Blocks above the kernel's largest one are counted exactly.
    assert!(
        table.contains("   32 MiB     13         20         20         +9 "),
        "{table}"
    );
    assert!(
        table.contains("What holds the 660 blocks of 2 MiB"),
        "{table}"
    );
    let slab = table
        .lines()
        .find(|line| line.starts_with("  slab "))
        .unwrap();
    let numbers: Vec<&str> = slab.split_whitespace().skip(1).take(3).collect();
    assert_eq!(numbers, ["232,262", "635", "305"]);
    assert!(table.contains("without /proc/kcore"), "{table}");

    let state = json(&machine());
    let normal = &state["zones"][2]["orders"];
    let bounds =
        |row: &serde_json::Value| (row["low"].as_u64().unwrap(), row["high"].as_u64().unwrap());
    assert_eq!(bounds(&normal[9]["by_moving"]), (2949, 3652));
    assert_eq!(bounds(&normal[9]["by_dropping_cache"]), (2949, 5011));
    assert_eq!(
        (&normal[9]["never"], &normal[9]["in_zone"]),
        (&638.into(), &6016.into())
    );
    assert_eq!(normal[9]["held_by"][0]["kind"], "slab");
    assert_eq!(bounds(&state["zones"][1]["orders"][18]["free"]), (2, 2));

    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    let row = [
        "by moving\">+2,400",
        "by dropping\">+0",
        "perhaps\">+2,062",
        "never\">638",
        "of\">6,016",
    ];
    assert!(page.contains(&row.join("</td><td class=\"")), "{page}");
    assert!(page.contains("data-cells=") && page.contains("prefers-color-scheme"));
    assert!(!page.contains("http") && !page.contains("src="));
}

#[test]
fn needs_are_answered_from_frames() {
    #[rustfmt::skip]
    let needs = [
        ("112x32MiB", 0, "yes: "),
        ("113x32MiB", 1, "1 by moving pages"),
        ("200x32MiB", 4, "perhaps: "),
        ("347x32MiB", 3, "no: "),
        ("2500x2MiB", 1, "472 by moving pages; assuming that no page is pinned"),
        ("4000x2MiB,zone=Normal", 4, "at most 5,011"),
        ("6000x2MiB,zone=Normal", 3, "never 638: slab in 635, page tables in 172"),
        ("40000x64KiB,zone=DMA32", 0, "yes: "),
        ("180000x64KiB,zone=Normal", 3, "no: "),
        ("120000x64KiB,zone=Normal", 1, "3,917 by dropping page cache"),
    ];
    let all: Vec<&str> = needs
        .iter()
        .flat_map(|(need, _, _)| ["--need", need])
        .collect();
    let output = run_with(&machine(), &all);
    let lines = text(&output.stdout);
    assert_eq!(
        lines.lines().count(),
        needs.len(),
        "{lines}{}",
        text(&output.stderr)
    );
    for ((need, _, words), line) in needs.iter().zip(lines.lines()) {
        assert!(line.contains(words), "{need}: {line}");
    }
    // The exit code of several needs is the worst one.
    for (need, code, _) in &needs[..4] {
        let output = run_with(&machine(), &["--need", need]);
        assert_eq!(output.status.code(), Some(*code), "{need}");
    }
}

#[test]
fn zones_and_flags_are_enough() {
    let [zones, _, _, map, flags] = machine();
    let files = [flags.clone(), map, zones.clone()];
    let state = json(&files);
    assert_eq!(
        (&state["frame_bytes"], &state["frame_is_assumed"]),
        (&4096.into(), &false.into())
    );
    assert_eq!(state["zones"][2]["orders"][9]["never"], 638);
    assert_eq!(state["zones"][1]["orders"][9]["never"], 22);
    // Without the memory map, holes look like frames without flags.
    let state = json(&[zones, flags]);
    let remark = state["remarks"].to_string();
    assert!(remark.contains("262,144 frames"), "{remark}");
    assert!(remark.contains("iomem"), "{remark}");
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let packed = std::fs::read(path("k1-kpageflags.gz")).unwrap();
    let mut words = Vec::new();
    GzDecoder::new(&packed[..])
        .take(30_000_001)
        .read_to_end(&mut words)
        .unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder
        .write_all(b"00001000-0009fbff : System RAM\n")
        .unwrap();
    let map = write("map.gz", &encoder.finish().unwrap());
    let [zones, tables, _, _, flags] = machine();
    #[rustfmt::skip]
    let cases = [
        (vec![zones.clone(), write("flags", &words)], "end at frame 3750000, but the zones end at frame 6553600"),
        (vec![zones.clone(), write("flags.gz", &packed[..500_000])], "cannot read the flags from frame"),
        (vec![file("s03-zoneinfo-5.4.txt"), flags.clone()], "of different machines or moments"),
        (vec![tables, flags.clone()], "pass a copy of /proc/zoneinfo"),
        (vec![flags], "pass a copy of /proc/zoneinfo"),
        (vec![zones.clone(), map], "pass a copy of /proc/kpageflags"),
        (vec![zones, file("page_owner-4.5.txt")], "pass a copy of /proc/kpageflags"),
    ];
    for (files, reason) in cases {
        let output = run_with(&files, &[]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(reason), "{message}");
        assert!(message.lines().count() == 1, "{message}");
        assert!(output.stdout.is_empty());
    }
}

/// A machine of one zone: 16 MiB from frame 0, with a slab page in the second block of 2 MiB, and pages of a group and
/// of a function in the third.
#[test]
fn groups_and_functions_are_named() {
    const LRU: u64 = 1 << 5;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let bytes = |words: &[u64]| {
        words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect::<Vec<u8>>()
    };
    let (mut flags, mut groups) = (vec![1u64 << 10; 4096], vec![0u64; 4096]);
    flags[0] = 1 << 32;
    flags[700] = 1 << 7;
    flags[1100] = 1 << 26;
    groups[1100] = 77;
    flags[3000] = LRU | 1 << 12;
    groups[3000] = 77;
    write("kpageflags", &bytes(&flags));
    write("kpagecgroup", &bytes(&groups));
    write(
        "zoneinfo",
        b"Node 0, zone   Normal
  pages free     4092
        min      0
        low      0
        high     0
        spanned  4096
        present  4096
        managed  4095
        protection: (0, 0)
  start_pfn:           0
",
    );
    write(
        "page_owner",
        b"Page allocated via order 0, mask 0xcc0(GFP_KERNEL), pid 1\nPFN 700 type Unmovable Block 1 type Unmovable\n \
          alloc_pages+0x10/0x20\n my_driver_probe+0x30/0x40\n\n",
    );
    write("buddyinfo", b"Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 1 \n");
    let output = run(&[&folder.path().display().to_string()]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for words in [
        "my_driver_probe",
        "inode 77",
        "What holds the 3 blocks of 2 MiB that are never free",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert!(!table.contains("page_owner=on"), "{table}");
    let copies = ["zoneinfo", "kpageflags", "kpagecgroup", "page_owner"];
    let copies = copies.map(|name| folder.path().join(name).display().to_string());
    let state = json(&copies);
    assert_eq!(
        state["frames"]["functions"][0]["function"],
        "my_driver_probe"
    );
    let group = &state["frames"]["groups"][0];
    assert_eq!(
        (&group["inode"], &group["fixed_frames"]),
        (&77.into(), &1.into())
    );
    assert_eq!(state["zones"][0]["orders"][9]["by_moving"]["low"], 5);
    // The tables alone, if that is asked for.
    let output = run(&["--tables", &folder.path().display().to_string()]);
    assert!(!text(&output.stdout).contains("my_driver_probe"));
}

#[test]
fn users_other_than_root_read_what_root_would_see() {
    let mut state = states(&bytes_of("k1-buddyinfo.txt")).pop().unwrap();
    let line = "As root (sudo), this command also shows";
    assert!(!terminal::state(&state).contains(line));
    state.lacks_root = true;
    let table = terminal::state(&state);
    assert!(table.contains(line) && !table.contains("(root)"), "{table}");
}

/// Linux before 4.5 marks the first frame of a free block only.
#[test]
fn flags_of_first_frames_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let zones = "Node 0, zone   Normal
  pages free     1030
        min      0
        low      0
        high     0
        spanned  4096
        present  4096
        managed  4096
        protection: (0, 0)
  start_pfn:           0
";
    write("zoneinfo", zones.as_bytes());
    write("buddyinfo", b"Node 0, zone Normal 2 0 1 0 0 0 0 0 0 0 1 \n");
    let of = |is_free: &dyn Fn(usize) -> bool| {
        let words = (0..4096).map(|frame| {
            if is_free(frame) {
                1u64 << 10
            } else {
                1 << 5 | 1 << 12
            }
        });
        words.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>()
    };
    let copies = ["zoneinfo", "buddyinfo", "kpageflags"];
    let copies = copies.map(|name| folder.path().join(name).display().to_string());
    #[rustfmt::skip]
    let cases = [
        // The heads of the table's blocks.
        (&(|frame: usize| [1, 7, 100, 2048].contains(&frame)) as &dyn Fn(usize) -> bool, false),
        // All their frames.
        (&|frame| [1, 7].contains(&frame) || (100..104).contains(&frame) || (2048..3072).contains(&frame), true),
        // As many frames, all alone.
        (&|frame| frame % 2 == 0 && frame < 2060, true),
    ];
    for (is_free, is_used) in cases {
        write("kpageflags", &of(is_free));
        for arguments in [&copies[..], &[folder.path().display().to_string()]] {
            let state = json(arguments);
            let remarks = state["remarks"].to_string();
            assert_eq!(
                remarks.contains("as Linux before 4.5 does"),
                !is_used,
                "{remarks}"
            );
            assert_eq!(state["frames"].is_object(), is_used, "{state}");
            let largest = &state["zones"][0]["orders"][10]["usable"]["low"];
            if !is_used {
                assert_eq!(*largest, 1, "{state}");
            }
        }
    }
}
