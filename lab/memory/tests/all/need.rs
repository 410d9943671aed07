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
    assert_eq!(
        (need.zone.as_deref(), need.node, need.is_movable),
        (Some("Normal"), Some(1), true)
    );
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
    ] {
        assert!(wrong.parse::<Need>().is_err(), "{wrong}");
    }
}

#[test]
fn what_is_there_now() {
    let (outcome, line) = decide("s13-paf-4.4-two.txt", "1474x4MiB");
    assert_eq!(outcome, Outcome::Now, "{line}");
    assert!(line.contains("1,474 free now"), "{line}");
    // Only the watermark stands between this number and the next one.
    assert_eq!(
        decide("s13-paf-4.4-two.txt", "1475x4MiB").0,
        Outcome::Unknown
    );
}

#[test]
fn without_watermarks_the_answer_says_so() {
    let (outcome, line) = decide("s10-buddyinfo-numa2.txt", "6000x4MiB,node=1");
    assert_eq!(outcome, Outcome::Now);
    assert!(line.contains("watermarks are not in this input"), "{line}");
}

#[test]
fn the_table_cannot_tell_which_blocks_are_neighbours() {
    let (outcome, line) = decide("s10-buddyinfo-numa2.txt", "200x32MiB");
    assert_eq!(outcome, Outcome::Unknown);
    assert!(
        line.contains("neighbours") && line.contains("kpageflags"),
        "{line}"
    );
    let (outcome, line) = decide("s24-oom-5.8-ubuntu-syslog.txt", "1x64KiB");
    assert_eq!(outcome, Outcome::Unknown);
    assert!(line.contains("moving"), "{line}");
}

#[test]
fn more_than_the_memory_is_impossible() {
    let (outcome, line) = decide("s24-oom-5.8-ubuntu-syslog.txt", "20x1GiB");
    assert_eq!(outcome, Outcome::Impossible, "{line}");
}

#[test]
fn a_missing_zone_or_table_is_named() {
    let (outcome, line) = decide("s03-zoneinfo-5.4.txt", "1x4KiB");
    assert_eq!(outcome, Outcome::Unknown);
    assert!(line.contains("buddyinfo"), "{line}");
    let (outcome, line) = decide("s01-buddyinfo-5.4.txt", "1x4KiB,zone=Movable");
    assert_eq!(outcome, Outcome::Unknown);
    assert!(line.contains("Movable"), "{line}");
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
