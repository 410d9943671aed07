//! Recordings of other tools become traces, and invalid recordings are rejected with a reason.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Scratch, bundled};
use everybuddy_record::{
    ImportError, ImportOptions, Imported, Scope, Source, import, import_stream,
};
use everybuddy_trace::{
    Context, Event, EventFlags, ExportFormat, Leniency, Op, Trace, export, read, resolve, write,
};

fn data(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    folder.join(name)
}

fn imported(name: &str) -> Imported {
    let imported = import(&data(name), ImportOptions::default()).unwrap();
    let scratch = Scratch::new();
    let path = scratch.path(&format!("{}.parquet", imported.trace.name));
    write(&imported.trace, &path).unwrap();
    let (again, repairs) = read(&path, Leniency::Strict).unwrap();
    assert!(repairs.is_empty());
    assert_eq!(again, imported.trace, "{name}");
    imported
}

fn text(text: &str, options: ImportOptions) -> Result<Imported, ImportError> {
    import_stream(text.as_bytes(), "made", options)
}

fn exported(trace: &Trace, format: ExportFormat) -> String {
    let mut bytes = Vec::new();
    export(trace, format, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn real_recordings_of_every_kind_are_understood() {
    for (name, source, least) in [
        ("perf.data", Source::PerfData, 100),
        ("perf-compressed.data", Source::PerfData, 100),
        ("perf-script.txt", Source::PerfScript, 100),
        ("perf-script-chains.txt", Source::PerfScript, 8),
        ("ftrace.txt", Source::Ftrace, 50),
        ("trace-cmd.txt", Source::TraceCmd, 50),
    ] {
        let Imported { trace, log, .. } = imported(name);
        assert_eq!(log.source, source);
        assert_eq!((log.unclear, log.lost), (0, 0), "{name}: {log}");
        assert!(
            trace.events.len() >= least,
            "{name}: {}",
            trace.events.len()
        );
        if source != Source::PerfScript || least > 8 {
            assert!(
                trace.faults.len() * 3 > trace.events.len(),
                "{name}: faults are known"
            );
            assert!(!trace.regions.is_empty(), "{name}: regions are known");
        }
    }
}

/// The text lacks allocation flags and interrupt states; everything else must be the same.
#[test]
fn perf_data_and_its_script_are_the_same_trace() {
    for (binary, script) in [
        ("perf.data", "perf-script.txt"),
        ("perf-compressed.data", "perf-script-compressed.txt"),
    ] {
        let (binary, script) = (imported(binary).trace, imported(script).trace);
        assert_eq!(binary.events.len(), script.events.len());
        let plain = |event: &Event| {
            let mut event = Event { gfp: 0, ..*event };
            event.flags.0 &= !EventFlags::INTERRUPT.0;
            if event.context == Context::Interrupt as u8 {
                event.context = 0;
                event.sysno = Event::NO_SYSTEM_CALL;
            }
            event
        };
        for (one, other) in binary.events.iter().zip(&script.events) {
            assert_eq!(plain(one), plain(other));
        }
        assert!(binary.events.iter().any(|event| event.gfp != 0));
        assert_eq!(binary.faults, script.faults);
        assert_eq!(binary.regions, script.regions);
    }
}

#[test]
fn a_tree_is_a_part_of_everything() {
    let all = imported("perf-script.txt").trace;
    let of_tree = |root| {
        let options = ImportOptions {
            scope: Scope::Tree { root },
            ..ImportOptions::default()
        };
        import(&data("perf-script.txt"), options)
    };
    let tree = of_tree(all.events[0].pid).unwrap().trace;
    assert!(!tree.events.is_empty() && tree.events.len() <= all.events.len());
    let error = of_tree(1).unwrap_err().to_string();
    assert!(error.contains("process 1"), "{error}");
}

#[test]
fn a_pipe_gives_what_the_file_gives() {
    for name in ["perf.data", "ftrace.txt"] {
        let bytes = fs::read(data(name)).unwrap();
        let piped = import_stream(&bytes[..], "x", ImportOptions::default()).unwrap();
        assert_eq!(piped.trace.events, imported(name).trace.events);
    }
}

#[test]
fn bundled_traces_survive_csv_and_perf_script() {
    let (trace, _) = read(&bundled("numpy_thp.parquet"), Leniency::Strict).unwrap();
    let csv = text(
        &exported(&trace, ExportFormat::Csv),
        ImportOptions::default(),
    )
    .unwrap();
    assert_eq!(csv.trace.events.len(), trace.events.len());
    let number = |trace: &Trace, id: Option<everybuddy_trace::RegionId>| {
        id.and_then(|id| trace.region(id))
            .map(|region| region.number)
    };
    let bare = |event: &Event| Event {
        region: None,
        ..*event
    };
    for (one, other) in trace.events.iter().zip(&csv.trace.events) {
        assert_eq!(bare(one), bare(other));
        assert_eq!(number(&trace, one.region), number(&csv.trace, other.region));
    }
    assert_eq!(csv.trace.faults.len(), trace.faults.len());
    for (one, other) in trace.faults.iter().zip(&csv.trace.faults) {
        assert_eq!(one.row, other.row);
        assert_eq!(one.vpn, other.vpn);
        assert_eq!(one.sequence, other.sequence);
        assert_eq!(number(&trace, one.region), number(&csv.trace, other.region));
    }
    same_calls(&trace);
}

/// Exports as perf's text, imports that, and compares the calls.
fn same_calls(trace: &Trace) {
    let script = exported(trace, ExportFormat::PerfScript);
    let again = text(&script, ImportOptions::default()).unwrap();
    assert_eq!(again.log.source, Source::PerfScript);
    let begin = trace.events[0].time_ns;
    let calls = |events: &[Event], begin: u64| -> Vec<_> {
        let call = |e: &Event| {
            (
                e.time_ns - begin,
                e.cpu,
                e.pid,
                e.op,
                e.pfn,
                e.order,
                e.migratetype,
                e.gfp,
            )
        };
        events.iter().map(call).collect()
    };
    assert_eq!(calls(&again.trace.events, 0), calls(&trace.events, begin));
}

#[test]
fn exported_csv_of_an_import_is_read_as_it_was() {
    let first = imported("trace-cmd.txt").trace;
    let csv = exported(&first, ExportFormat::Csv);
    let again = text(&csv, ImportOptions::default()).unwrap().trace;
    assert_eq!(exported(&again, ExportFormat::Csv), csv);
    same_calls(&first);
}

#[test]
fn refused_allocations_are_no_blocks() {
    let lines = "\
        a 1 [000] 1.0: kmem:mm_page_alloc: page=0x10 pfn=0x10 order=0 migratetype=0 gfp_flags=GFP_KERNEL\n\
        a 1 [000] 1.1: kmem:mm_page_alloc: page=(nil) pfn=0x0 order=9 migratetype=1 gfp_flags=GFP_KERNEL\n";
    let made = text(lines, ImportOptions::default()).unwrap();
    assert_eq!((made.trace.events.len(), made.log.understood), (1, 2));
    assert_eq!(made.accounts.unwrap().refusals_seen, 1);
}

#[test]
fn lines_out_of_order_and_unknown_ones_are_counted() {
    let lines = "\
        b 2 [001] 2.0: kmem:mm_page_free: pfn=0x10 order=0\n\
        what is this\n\
        a 1 [000] 1.0: kmem:mm_page_alloc: pfn=0x10 order=0 migratetype=0\n\
        a 1 [000] 1.5: sched:sched_switch: prev_comm=a\n\
        a 1 [000] 1.6: kmem:mm_page_free_batched: pfn=0x10 order=0\n\
        a 1 [000] 1.7: kmem:mm_page_free: pfn=what order=0\n\
        a 1 [000] 1.8: PERF_RECORD_LOST lost 54\n";
    let made = text(lines, ImportOptions::default()).unwrap();
    let ops: Vec<_> = made
        .trace
        .events
        .iter()
        .map(|event| (event.op, event.time_ns))
        .collect();
    assert_eq!(ops, [(Op::Allocate, 0), (Op::Free, 1_000_000_000)]);
    let log = made.log;
    assert_eq!((log.out_of_order, log.lost, log.repeated), (2, 54, 1));
    assert_eq!(log.skipped.get("sched_switch"), Some(&1));
    let places: Vec<u64> = log.complaints.iter().map(|(line, _)| *line).collect();
    assert_eq!((log.unclear, places), (2, vec![2, 6]));
    let said = log.to_string();
    assert!(said.contains("54 lost"), "{said}");
    assert!(said.contains("sched_switch"), "{said}");
}

#[test]
fn what_is_no_recording_says_what_was_expected() {
    let rows = "time_ns,cpu,pid,op,pfn,order\n";
    #[rustfmt::skip]
    let cases = [
        ("", None, &["empty"][..]),
        ("hello\nworld\n", None, &["line 1", "hello", "perf script"]),
        ("hello\nworld\n", Some(Source::Ftrace), &["line 1", "hello", "ftrace", "--from"]),
        ("a 1 [000] 1.0: sched:sched_switch: x\n", None, &["sched_switch"]),
        ("a 1 [000] 1.0: kmem:mm_page_free: pfn=0x1 order=0\n", None, &["allocation"]),
        ("PERFILE2", None, &["byte 8", "interrupted"]),
        ("time_ns,cpu,pid,op,pfn\n1,1,1,0,1\n", None, &["line 1", "order"]),
        (rows, None, &["no rows"]),
        (&*format!("{rows}1,1,1,0,1\n"), None, &["line 2", "fewer", "add the missing values"]),
        (&*format!("{rows}1,1,1,0,3,0\n1,1,1,0"), None, &["line 3", "the file ends in a row", "obtain the file again"]),
        (&*format!("{rows}1,1,1,0,x,0\n"), None, &["`x`", "pfn"]),
        (&*format!("{rows}1,1,1,1,3,0\n"), None, &["line 2", "free"]),
        (&*format!("{rows}1,70000,1,0,3,0\n"), None, &["range", "cpu"]),
    ];
    for (given, source, words) in cases {
        let options = ImportOptions {
            source,
            ..ImportOptions::default()
        };
        let error = text(given, options).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
    let error = import(&data("no-such.txt"), ImportOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("no-such.txt"), "{error}");
}

#[test]
fn lenient_csv_is_repaired() {
    let table = "time_ns,cpu,pid,op,pfn,order\n5,0,1,1,3,0\n6,0,1,0,3,0\n";
    let options = ImportOptions {
        leniency: Leniency::Lenient,
        ..ImportOptions::default()
    };
    let made = text(table, options).unwrap();
    assert_eq!((made.trace.events.len(), made.repairs.total()), (1, 1));
}

/// Whatever kind is detected for a damaged file, the result must replay.
fn survives(bytes: &[u8]) {
    if let Ok(made) = import_stream(bytes, "damaged", ImportOptions::default()) {
        resolve(&made.trace).unwrap();
    }
}

#[test]
fn damaged_perf_data_is_refused_or_replays() {
    for name in ["perf.data", "perf-compressed.data"] {
        let whole = fs::read(data(name)).unwrap();
        for length in (0..whole.len()).step_by(977) {
            survives(&whole[..length]);
        }
        // Every bit of the header, and some bits of the rest.
        let places = (0..104).chain((104..whole.len()).step_by(whole.len() / 400));
        for byte in places {
            for bit in [0, 3, 7] {
                let mut bytes = whole.clone();
                bytes[byte] ^= 1 << bit;
                survives(&bytes);
            }
        }
    }
}

#[test]
fn damaged_texts_are_refused_or_replay() {
    for name in ["perf-script.txt", "ftrace.txt", "trace-cmd.txt"] {
        let whole = fs::read(data(name)).unwrap();
        for byte in (0..whole.len()).step_by(whole.len() / 60) {
            let mut bytes = whole.clone();
            bytes[byte] ^= 0x15;
            survives(&bytes);
            survives(&whole[..byte]);
        }
    }
}
