//! `--need`: the exit codes and their reasons.

use everybuddy_memory::need::{self, Need, Outcome};

use crate::common::{states, text};

fn decide(name: &str, need: &str) -> (Outcome, String) {
    let state = states(&text(name)).pop().unwrap();
    let verdict = need::decide(&state, &need.parse().unwrap());
    (verdict.outcome, verdict.line)
}

#[test]
fn a_need_is_read() {
    let need: Need = "200x32MiB,zone=Normal,node=1,movable".parse().unwrap();
    assert_eq!((need.count, need.bytes), (200, 32 << 20));
    assert_eq!(need.zone.as_deref(), Some("Normal"));
    assert_eq!(need.node, Some(1));
    assert!(need.is_movable);
    for wrong in [
        "",
        "200",
        "0x4KiB",
        "200x",
        "200x0",
        "2x2GiB",
        "2x4KiB,zone=",
        "2x4KiB,node=x",
        "2x4KiB,other",
        "2x4KiB,zone=DMA,zone=Normal",
        "2x4KiB,node=0,node=1",
    ] {
        assert!(wrong.parse::<Need>().is_err(), "{wrong}");
    }
}

#[test]
fn each_answer_has_its_reason() {
    let (failure, nodes) = ("s13-paf-4.4-two.txt", "s10-buddyinfo-numa2.txt");
    let syslog = "s24-oom-5.8-ubuntu-syslog.txt";
    #[rustfmt::skip]
    let cases = [
        (failure, "1474x4MiB", Outcome::Now, &["1,474 free now"][..]),
        // Only the watermark stands between this number and the next one.
        (failure, "1475x4MiB", Outcome::Unknown, &[]),
        // Without watermarks, no block is certain.
        (nodes, "6000x4MiB,node=1", Outcome::Unknown,
            &["0 to 6,723 free now", "watermarks are not in this input; zoneinfo"]),
        ("s27-paf-6.19-dmesgT-two.txt", "20x2MiB", Outcome::Unknown,
            &["watermarks are not in this input; the whole report would tell"]),
        // HighMem is missing from the excerpt. It serves movable requests only.
        ("s30-oom-6.x-armv7-cma.txt", "30x32MiB,movable", Outcome::Unknown, &["no table of other zones with 3.1 GiB"]),
        ("s30-oom-6.x-armv7-cma.txt", "30x32MiB", Outcome::Impossible, &["the memory has only 20"]),
        ("s32-paf-5.14-8nodes-dma.txt", "1500000x4MiB", Outcome::Unknown, &["no table of other zones with 7.5 TiB"]),
        // Memory and swap are full: neither moving nor reclaiming helps.
        ("s15-oom-6.1-arch.txt", "20x2MiB", Outcome::Impossible,
            &["at most 1.8 MiB could be: 948 KiB above", "944 KiB by reclaiming"]),
        // Page cache and swap may suffice, which nothing shows.
        ("s34-show-6.18-arm64-highatomic.txt", "200x2MiB", Outcome::Unknown,
            &["a log does not show what moving pages gives"]),
        // Blocks have sizes of powers of two.
        (failure, "200x3MiB", Outcome::Now, &["200 x 3 MiB, each in a block of 4 MiB: 1,474 free now"]),
        (failure, "1x1GiB,zone=DMA", Outcome::Impossible, &["too small"]),
        // The table cannot tell which blocks are neighbours.
        (nodes, "200x32MiB", Outcome::Unknown, &["neighbours", "kpageflags"]),
        (syslog, "1x64KiB", Outcome::Unknown, &["moving"]),
        // More than the memory.
        (syslog, "20x1GiB", Outcome::Impossible, &[]),
        // A missing table or zone is named.
        ("s03-zoneinfo-5.4.txt", "1x4KiB", Outcome::Unknown, &["buddyinfo"]),
        ("s01-buddyinfo-5.4.txt", "1x4KiB,zone=Movable", Outcome::Unknown, &["Movable"]),
    ];
    for (name, need, outcome, words) in cases {
        let (found, line) = decide(name, need);
        assert_eq!(found, outcome, "{line}");
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
}

#[test]
fn blocks_for_some_requests_count_for_those() {
    let name = "s30-oom-6.x-armv7-cma.txt";
    assert_eq!(decide(name, "124x4MiB,zone=DMA,movable").0, Outcome::Now);
    assert_eq!(decide(name, "1x4MiB,zone=DMA").0, Outcome::Unknown);
    let name = "s29-sysrq-2.6-numa4-highmem.txt";
    assert_eq!(decide(name, "900x4MiB,node=1,movable").0, Outcome::Now);
    assert_eq!(decide(name, "900x4MiB,zone=HighMem").0, Outcome::Now);
    assert_ne!(decide(name, "900x4MiB,node=1").0, Outcome::Now);
}
