//! Real commands are recorded if possible: as root, with tracefs.
#![cfg(target_os = "linux")]

#[path = "all/common.rs"]
mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::Scratch;
use everybuddy_record::record::{
    Contents, RecordError, RecordOptions, Recorded, Recorder, can_record, terminate,
};
use everybuddy_trace::{
    Acquisition, Leniency, Op, RegionKind, Resolved, StepKind, WaitsOnly, read, resolve, write,
};

/// Returns `true` if recording is possible here; otherwise tests that need it are skipped.
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
        contents: Contents::CallsAndWaits,
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

/// Compares the regions of a process's faults with the kernel's at its end. Returns the share of faults in mapped
/// regions that agree, and their number.
fn agreement(recorded: &Recorded, pid: u32, maps: &str) -> (f64, usize) {
    let range = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let page = |text| Some(u64::from_str_radix(text, 16).ok()? >> 12);
        Some(page(start)?..page(end)?)
    };
    let trace = &recorded.assembled.trace;
    let (mut same, mut all) = (0, 0);
    for fault in trace
        .faults
        .iter()
        .filter(|fault| trace.events[fault.row as usize].pid == pid)
    {
        let line = maps
            .lines()
            .find(|line| range(line).is_some_and(|pages| pages.contains(&fault.vpn)));
        let region = fault.region.and_then(|region| trace.region(region));
        let (Some(line), Some(region)) = (line, region) else {
            continue;
        };
        let path = line.split_whitespace().nth(5).unwrap_or("");
        let is_same = match region.kind {
            RegionKind::Heap => path == "[heap]",
            RegionKind::File => path.starts_with('/'),
            // Shared memory without a file is one of the kernel's own.
            RegionKind::Anonymous => path.is_empty() || path == "/dev/zero",
            RegionKind::Stack => path == "[stack]",
            // Inferred from the address: the image and its data, the loader.
            RegionKind::Image | RegionKind::Other => continue,
        };
        same += usize::from(is_same);
        all += 1;
    }
    (same as f64 / all.max(1) as f64, all)
}

/// One test, since recordings of one process have the same name.
#[test]
fn real_commands_are_recorded() {
    if !possible("real_commands_are_recorded") {
        return;
    }
    let scratch = Scratch::new();

    // A shell that creates processes, which use memory of their own.
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
    // The exit of every process that holds memory until the end was recorded.
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

    // The regions agree with those of the kernel.
    let script = "import os, mmap; x = [bytearray(3000) for i in range(30000)]; m = mmap.mmap(-1, 1 << 22); \
        m.write(bytes(1 << 21)); y = list(range(300000)); maps = open('/proc/self/maps').read(); \
        open(os.environ['MAPS'], 'w').write(str(os.getpid()) + '\\n' + maps)";
    if Command::new("python3").arg("--version").output().is_ok() {
        let file = scratch.path("maps");
        let shell = format!("MAPS={} exec python3 -c \"$0\"", file.display());
        let recorded = record(&scratch, "sh", &["-c", &shell, script]);
        let text = fs::read_to_string(file).unwrap();
        let (pid, maps) = text.split_once('\n').unwrap();
        let (share, faults) = agreement(&recorded, pid.parse().unwrap(), maps);
        eprintln!(
            "{:.2} % of {faults} faults agree with the kernel's maps",
            100.0 * share
        );
        assert!(faults > 1000 && share >= 0.99, "{share} of {faults}");
    }

    // A command that fails or is killed is recorded anyway.
    let failing = record(&scratch, "sh", &["-c", "kill -9 $$"]);
    assert!(
        failing
            .assembled
            .trace
            .events
            .iter()
            .any(|event| event.op == Op::Allocate)
    );

    // A command that does not exist leaves nothing behind.
    let mut recorder = Recorder::new(&options(&scratch)).unwrap();
    let error = recorder
        .start(&mut Command::new("/no/such/program"))
        .unwrap_err();
    assert!(matches!(error, RecordError::NoCommand { .. }), "{error}");
    drop(recorder);
    assert_eq!(instances(), [""; 0]);

    // A recording may end before its command.
    let mut recorder = Recorder::new(&options(&scratch)).unwrap();
    let mut child = recorder.start(Command::new("sleep").arg("60")).unwrap();
    recorder.settle();
    assert!(recorder.progress().events > 0);
    let recorded = recorder.stop().unwrap().assemble("made", |_| {}).unwrap();
    terminate(child.id());
    assert!(!child.wait().unwrap().success());
    assert!(recorded.assembled.accounts.allocations > 10);

    // The whole machine, on which at least the child is busy.
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

    // Waits alone, of a command and of the machine: one instance, no calls, and the time that it took.
    let contents = Contents::Waits;
    for is_machine in [false, true] {
        let mut recorder = Recorder::new(&RecordOptions {
            contents,
            ..options(&scratch)
        })
        .unwrap();
        assert_eq!(instances().len(), 1);
        if is_machine {
            recorder.start_machine().unwrap();
            thread::sleep(Duration::from_millis(300));
        } else {
            let mut child = recorder.start(Command::new("sleep").arg("0.3")).unwrap();
            child.wait().unwrap();
        }
        let recorded = recorder.stop().unwrap().assemble("waits", |_| {}).unwrap();
        assert_eq!(instances(), [""; 0]);
        assert!(recorded.losses.is_none(), "{:?}", recorded.losses);
        let trace = &recorded.assembled.trace;
        assert_eq!(trace.events.len(), 0);
        assert_eq!(recorded.assembled.accounts.tasks, 0);
        let duration_ns = WaitsOnly::of(trace).unwrap().duration_ns;
        assert!(
            (300_000_000..2_000_000_000).contains(&duration_ns),
            "{duration_ns}"
        );
        let is_within = |own: &Acquisition| own.time_ns <= duration_ns;
        assert!(trace.acquisitions.iter().all(is_within));
        let path = scratch.path("waits.parquet");
        write(trace, &path).unwrap();
        assert_eq!(&read(&path, Leniency::Strict).unwrap().0, trace);
    }
}
