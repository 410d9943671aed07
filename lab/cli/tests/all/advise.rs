//! Advice for the machine of a trace, and recordings that contain only waits.

use std::fs;
use std::path::Path;

use everybuddy_trace::{
    Acquisition, Event, Leniency, Machine, MachineZone, Op, Trace, WaitsOnly, read, write,
};

use super::common::{Folder, everybuddy, shows};

/// Frames of the zone of the machine in these tests: 1 GiB.
const FRAMES: u64 = 1 << 18;

/// A machine of 1 GiB with 8 CPUs. The lists of older kernels have a fixed length of 252 frames there, four batches.
fn machine(kernel: &str) -> Machine {
    Machine {
        kernel: kernel.to_string(),
        cpus: 8,
        total_kib: FRAMES * 4,
        zones: vec![MachineZone {
            name: "Normal".to_string(),
            managed: FRAMES,
            low: 1_000,
            cpus: 8,
            ..MachineZone::default()
        }],
        settings: vec![("min_free_kbytes".to_string(), "4096".to_string())],
        ..Machine::default()
    }
}

/// Writes a trace in which one CPU allocates `frames` frames and frees them, again and again, a call every `pause`
/// nanoseconds.
fn bursts(folder: &Folder, kernel: &str, frames: u64, rounds: u64, pause: u64) -> String {
    let mut events = Vec::new();
    for _ in 0..rounds {
        for op in [Op::Allocate, Op::Free] {
            for frame in 0..frames {
                let time_ns = events.len() as u64 * pause;
                events.push(Event::new(time_ns, 0, 7, op, frame, 0));
            }
        }
    }
    let trace = Trace {
        events,
        metadata: vec![machine(kernel).entry()],
        ..Trace::default()
    };
    let file = folder.file("bursts.parquet");
    write(&trace, Path::new(&file)).unwrap();
    file
}

/// Writes a recording of one second that contains only waits, of 8 CPUs.
fn waits(folder: &Folder, wait_ns: u64) -> String {
    let waits_only = WaitsOnly {
        duration_ns: 1_000_000_000,
        of_others: 3,
        ..WaitsOnly::default()
    };
    let own = Acquisition {
        time_ns: 500_000_000,
        wait_ns,
        hold_ns: 0,
        pid: 7,
        batch: 0,
        cpu: 2,
        source: 3,
    };
    let trace = Trace {
        acquisitions: if wait_ns > 0 { vec![own] } else { Vec::new() },
        metadata: vec![waits_only.entry(), machine("6.18.1").entry()],
        ..Trace::default()
    };
    let file = folder.file("waits.parquet");
    write(&trace, Path::new(&file)).unwrap();
    file
}

/// Text on one line.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_trace_that_overflows_short_lists_gets_a_value() {
    let folder = Folder::new("advise-overflow");
    let json = folder.file("advice.jsonl");
    let file = bursts(&folder, "6.1.0", 1_500, 10, 100);
    let text = everybuddy!("advise {file} --json {json}").noted();
    let text = joined(&text);
    // Lists of 2,048 frames hold a burst, and those of 1,024 do not.
    shows(&text, &["sysctl -w vm.percpu_pagelist_high_fraction=16"]);
    assert!(text.contains("of a fixed length"), "{text}");
    assert!(text.contains("watermarks (min_free_kbytes=4096)"), "{text}");
    let rows = fs::read_to_string(json).unwrap();
    assert!(
        rows.lines()
            .all(|row| row.contains("\"experiment\":\"advise"))
    );
    assert!(rows.contains("percpu=locked+fraction=16"), "{rows}");

    // The same calls, one per millisecond, take hardly any time.
    let file = bursts(&folder, "6.1.0", 1_500, 1, 1_000_000);
    let text = joined(&everybuddy!("advise {file}").noted());
    assert!(text.contains("is not the problem, as far as"), "{text}");
    assert!(!text.contains("sysctl -w"), "{text}");
}

#[test]
fn lists_that_never_miss_have_nothing_to_gain() {
    let folder = Folder::new("advise-hits");
    for kernel in ["6.1.0", "6.18.0"] {
        let file = bursts(&folder, kernel, 100, 100, 20);
        let text = joined(&everybuddy!("advise {file}").noted());
        assert!(text.contains("bursts: Nothing to gain"), "{text}");
        assert!(!text.contains("sysctl -w"), "{text}");
    }
    // Before the setting existed there is nothing to try.
    let file = bursts(&folder, "5.4.0", 1_500, 2, 20);
    let text = joined(&everybuddy!("advise {file}").noted());
    assert!(text.contains("does not have this setting"), "{text}");
    assert!(!text.contains("sysctl -w"), "{text}");
}

#[test]
fn recorded_waits_for_other_locks_mean_that_there_were_none_for_a_zones() {
    let folder = Folder::new("advise-no-waits");
    let file = bursts(&folder, "6.18.0", 100, 1, 1_000_000);
    let (mut trace, _) = read(Path::new(&file), Leniency::Strict).unwrap();
    for (seen, unknown, expected) in [
        (9, 0, "CPUs waited for zones' locks for 0%"),
        (9, 1, "waits unknown"),
        (0, 0, "waits unknown"),
    ] {
        let accounts = format!(
            "{{\"accounts\": {{\"lock_events_seen\": {seen}, \"waits_of_unknown_locks\": {unknown}}}}}"
        );
        trace.metadata.retain(|(key, _)| key != "stats");
        trace.metadata.push(("stats".to_string(), accounts));
        write(&trace, Path::new(&file)).unwrap();
        let text = joined(&everybuddy!("advise {file}").noted());
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn waits_alone_answer_the_first_question() {
    let folder = Folder::new("advise-waits");
    // 8 ms of the 8 s of 8 CPUs are less than a hundredth, and 160 ms are more.
    for (wait_ns, expected) in [
        (0, "as far as this kernel reports waits"),
        (8_000_000, "for less than 1% of their time"),
        (160_000_000, "the page allocator is a problem"),
    ] {
        let file = waits(&folder, wait_ns);
        let text = joined(&everybuddy!("advise {file}").done());
        assert!(text.contains(expected), "{wait_ns}: {text}");
        assert!(text.contains("has no page events"), "{text}");
        everybuddy!("trace check {file}").done();
    }
    let file = waits(&folder, 8_000_000);
    let text = everybuddy!("trace info {file}").done();
    shows(&text, &["8.0 ms per second: 0.100 % of the time of 8 CPUs"]);
    assert!(text.contains("3 waits for other locks"), "{text}");
    assert!(!text.contains("lifetimes"), "{text}");
    for command in ["compare", "simulate --trace", "trace export --to csv"] {
        everybuddy!("{command} {file}").refused(&["has no page events", "everybuddy advise"]);
    }
    let page = folder.file("page.html");
    everybuddy!("trace info {file} --html {page}").refused(&["no page events"]);
}

/// The text of ftrace of a real recording, without its page events: the callers show whose lock it was.
#[test]
fn a_text_with_only_waits_is_imported() {
    let folder = Folder::new("advise-import");
    let recording =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/data/ftrace-locks.txt");
    let text = fs::read_to_string(recording).unwrap();
    let lines = text.lines().filter(|line| !line.contains("mm_page"));
    let only_waits: String = lines.map(|line| format!("{line}\n")).collect();
    let (input, output) = (folder.file("waits.txt"), folder.file("waits.parquet"));
    fs::write(&input, only_waits).unwrap();
    let said = everybuddy!("trace import {input} -o {output}").noted();
    shows(&said, &["no calls, 23 waits for a zone's lock"]);
    let (trace, _) = read(Path::new(&output), Leniency::Strict).unwrap();
    let waits_only = WaitsOnly::of(&trace).unwrap();
    assert_eq!((trace.acquisitions.len(), waits_only.of_others), (23, 1));
    let mut names = waits_only.callers.iter().map(|own| own.name.as_str());
    assert!(
        names.any(|name| name == "free_one_page"),
        "{:?}",
        waits_only.callers
    );
    let known: u64 = waits_only.callers.iter().map(|own| own.wait_ns).sum();
    let all: u64 = trace.acquisitions.iter().map(|own| own.wait_ns).sum();
    assert!(known > 0 && known <= all, "{known} of {all}");
    let text = everybuddy!("trace info {output}").done();
    assert!(text.contains("free_one_page: "), "{text}");
    let text = joined(&everybuddy!("advise {output}").done());
    shows(&text, &["waited longest, of the known callers"]);

    // Without a caller, nothing shows that it is a zone's lock.
    let lines = "  sh-7   [001] d..2. 5.000005: contention_begin: 0000000021018bee (flags=SPIN)
  sh-7   [001] d..2. 5.000008: contention_end: 0000000021018bee (ret=0)
";
    fs::write(&input, lines).unwrap();
    let import = format!("trace import {input} -o {output} --force");
    everybuddy!("{import}").refused(&["nothing shows which locks", "--zone-lock"]);
    let said = everybuddy!("{import} --zone-lock 21018bee").noted();
    assert!(said.contains("1 waits for a zone's lock"), "{said}");
}
