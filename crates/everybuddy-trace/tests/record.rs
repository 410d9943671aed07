//! Real commands are recorded, where that is possible: as root, with tracefs.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::Scratch;
use everybuddy_trace::record::{
    RecordError, RecordOptions, Recorded, Recorder, can_record, terminate,
};
use everybuddy_trace::{Leniency, Op, Resolved, StepKind, read, resolve, write};

/// Says whether recording is possible here; tests that need it are passed over if not.
fn possible(test: &str) -> bool {
    match can_record() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("{test}: skipped: {error}");
            false
        }
    }
}

fn options(scratch: &Scratch) -> RecordOptions {
    RecordOptions {
        buffer_bytes: Some(8 << 20),
        folder: scratch.path(""),
    }
}

fn instances() -> Vec<String> {
    let own = format!("everybuddy-{}-", std::process::id());
    let folder = [
        "/sys/kernel/tracing/instances",
        "/sys/kernel/debug/tracing/instances",
    ]
    .into_iter()
    .find_map(|folder| fs::read_dir(folder).ok());
    let names = folder
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&own)).collect()
}

fn record(scratch: &Scratch, program: &str, arguments: &[&str]) -> Recorded {
    let mut recorder = Recorder::new(&options(scratch)).unwrap();
    assert_eq!(instances().len(), 2);
    let mut command = Command::new(program);
    let mut child = recorder
        .start(command.args(arguments).stdout(Stdio::null()))
        .unwrap();
    child.wait().unwrap();
    recorder.settle();
    let recording = recorder.stop().unwrap();
    assert_eq!(instances(), [""; 0], "nothing stays behind");
    recording.assemble("made", |_| {}).unwrap()
}

fn freed_share(resolved: &Resolved) -> f64 {
    let of = |kind| {
        resolved
            .steps
            .iter()
            .filter(|step| step.kind == kind)
            .count() as f64
    };
    1.0 - of(StepKind::Allocate) / resolved.steps.len() as f64
}

/// One test, since recordings of one process have the same name.
#[test]
fn real_commands_are_recorded() {
    if !possible("real_commands_are_recorded") {
        return;
    }
    let scratch = Scratch::new();

    // A shell that makes processes, which touch memory of their own.
    let script = "i=0; while [ $i -lt 20 ]; do tar cf - /etc 2>/dev/null | sort >/dev/null; i=$((i+1)); done";
    let recorded = record(&scratch, "sh", &["-c", script]);
    assert!(recorded.losses.is_none(), "{:?}", recorded.losses);
    let accounts = &recorded.assembled.accounts;
    assert!(accounts.processes > 40, "{accounts:?}");
    assert!(accounts.allocations > 5000, "{accounts:?}");
    assert!(accounts.region_share() >= 0.99, "{accounts:?}");
    assert_eq!(
        accounts.odd_orders + accounts.misaligned + accounts.too_far,
        0
    );
    // Whoever lives in memory until the end was seen to go.
    assert!(
        accounts.frees as f64 > 0.9 * accounts.allocations as f64,
        "{accounts:?}"
    );
    assert!(
        accounts.inferred_frees < accounts.allocations / 100,
        "{accounts:?}"
    );

    let path = scratch.path("made.parquet");
    write(&recorded.assembled.trace, &path).unwrap();
    let (trace, repairs) = read(&path, Leniency::Strict).unwrap();
    assert!(repairs.is_empty());
    assert_eq!(trace, recorded.assembled.trace);
    let entry = |key: &str| {
        trace
            .metadata
            .iter()
            .find(|(name, _)| name == key)
            .unwrap()
            .1
            .clone()
    };
    for program in ["\"sh\"", "\"tar\"", "\"sort\""] {
        assert!(entry("processes").contains(program), "{program}");
    }
    assert!(entry("recording").contains("\"lost_events\":0"));
    assert!(trace.faults.iter().any(|fault| fault.region.is_some()));
    assert!(freed_share(&resolve(&trace).unwrap()) > 0.45);

    // A command that fails, or is killed, is recorded all the same.
    let failing = record(&scratch, "sh", &["-c", "kill -9 $$"]);
    assert!(
        failing
            .assembled
            .trace
            .events
            .iter()
            .any(|event| event.op == Op::Allocate)
    );

    // One that does not exist leaves nothing behind.
    let mut recorder = Recorder::new(&options(&scratch)).unwrap();
    let error = recorder
        .start(&mut Command::new("/no/such/program"))
        .unwrap_err();
    assert!(matches!(error, RecordError::NoCommand { .. }), "{error}");
    drop(recorder);
    assert_eq!(instances(), [""; 0]);

    // A recording may end before its command does.
    let mut recorder = Recorder::new(&options(&scratch)).unwrap();
    let mut child = recorder.start(Command::new("sleep").arg("60")).unwrap();
    recorder.settle();
    assert!(recorder.progress().events > 0);
    let recorded = recorder.stop().unwrap().assemble("made", |_| {}).unwrap();
    terminate(child.id());
    assert!(!child.wait().unwrap().success());
    assert!(recorded.assembled.accounts.allocations > 10);

    // The whole machine, of which at least the child is busy.
    let mut recorder = Recorder::new(&options(&scratch)).unwrap();
    recorder.start_machine().unwrap();
    let script = "i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done";
    Command::new("sh").args(["-c", script]).status().unwrap();
    let recorded = recorder
        .stop()
        .unwrap()
        .assemble("machine", |_| {})
        .unwrap();
    let accounts = &recorded.assembled.accounts;
    assert!(accounts.processes > 50, "{accounts:?}");
    assert!(accounts.region_share() >= 0.99, "{accounts:?}");
}
