//! Traces as users import, export and cut them.

use std::fs;
use std::path::Path;

use crate::common::{Folder, everybuddy, shows, text};
use everybuddy_trace::{Leniency, Trace, read};

fn recording(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/data");
    folder.join(name).to_str().unwrap().to_string()
}

fn strictly(path: &str) -> Trace {
    read(Path::new(path), Leniency::Strict).unwrap().0
}

#[test]
fn a_recording_becomes_a_trace_that_can_be_cut_and_exported() {
    let folder = Folder::new("trace-files");
    let (whole, part) = (folder.file("whole.parquet"), folder.file("part.parquet"));
    let said = everybuddy!("trace import {} -o {whole}", recording("perf.data")).noted();
    assert!(said.contains("whole.parquet: 1"), "{said}");
    let trace = strictly(&whole);

    let said = everybuddy!("trace cut {whole} -o {part} --first 50").noted();
    assert!(said.contains("50 of 1"), "{said}");
    assert_eq!(strictly(&part).events.len(), 50);
    assert_eq!(strictly(&whole), trace, "what is cut is not changed");

    let table = folder.file("whole.csv");
    assert_eq!(
        everybuddy!("trace export {whole} --to csv -o {table}").done(),
        ""
    );
    let lines = everybuddy!("trace export {whole} --to csv").done();
    assert_eq!(text(&table), lines);
    let again = folder.file("again.parquet");
    everybuddy!("trace import {table} -o {again}").noted();
    assert_eq!(everybuddy!("trace export {again} --to csv").done(), lines);
}

#[test]
fn a_program_is_cut_out_by_its_name() {
    let folder = Folder::new("trace-program");
    let part = folder.file("part.parquet");
    everybuddy!("trace cut gcc_build -o {part} --program ar").noted();
    assert!(!strictly(&part).events.is_empty());
}

#[test]
fn sizes_are_gathered_into_a_file() {
    let folder = Folder::new("sizes");
    let (trace, file) = (folder.trace(), folder.file("tiny.sizes.json"));
    let run = everybuddy!("trace sizes {trace} -o {file}");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("tiny.sizes.json"), "{}", run.err);
    let whole = text(&file);
    assert_eq!(everybuddy!("trace sizes {trace} -o -").done(), whole);
    let sizes = everybuddy_trace::Sizes::from_json(whole.as_bytes()).unwrap();
    let last = sizes.first.last().unwrap();
    assert_eq!((last.requests, last.blocks), (sizes.total(), sizes.peak));
    let run = everybuddy!("trace sizes {trace} --memory 64MiB -o -");
    let other: serde_json::Value = serde_json::from_str(&run.done()).unwrap();
    assert_eq!(other["frames"], 16384);
}

/// Memory of two nodes that lie more than 16 TiB apart is moved together; a number that no machine has is left out, and
/// every command says so.
#[test]
fn frames_that_are_too_far_apart_are_not_hidden() {
    let folder = Folder::new("apart");
    let mut text = String::from("# tracer: nop\n");
    for call in 0..40u64 {
        let (cpu, frame) = match call {
            7 => (0, 1 << 50),
            _ if call % 2 == 0 => (0, 0x208_0000 + call),
            _ => (64, 0x2_0200_0000 + call),
        };
        text += &format!(
            "  job-7 [{cpu:03}] .... 1.{call:06}: mm_page_alloc: page=1 pfn={frame:#x} order=0 migratetype=1 \
             gfp_flags=GFP_HIGHUSER\n"
        );
    }
    let (recording, trace) = (folder.file("apart.txt"), folder.file("apart.parquet"));
    std::fs::write(&recording, text).unwrap();
    let said = everybuddy!("trace import {recording} -o {trace}").err;
    for word in ["renumbered", "19 events", "1 events", "docs/limitations.md"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    for command in ["check", "info"] {
        let run = everybuddy!("trace {command} {trace}");
        assert_eq!(run.code, 0);
        for word in ["1 events were left out", "16 TiB", "docs/limitations.md"] {
            assert!(run.err.contains(word), "{word}: {}", run.err);
        }
    }
    let read = strictly(&trace);
    let second = read.events.iter().find(|event| event.cpu == 64).unwrap();
    assert_eq!(second.pfn, 0x208_0000 + (1 << 18) + 1);
    let parts = read
        .metadata
        .iter()
        .find(|(key, _)| key == "parts")
        .unwrap();
    assert!(
        parts.1.contains(&0x2_0200_0000_u64.to_string()),
        "{parts:?}"
    );
}

/// A small file may claim any number of rows: only those before the first broken rule take memory.
#[test]
#[cfg(target_os = "linux")]
fn a_small_file_of_many_rows_takes_little_memory() {
    use parquet::data_type::Int64Type;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    const ROWS: usize = 8 << 20;
    let folder = Folder::new("rows");
    let file = folder.file("rows.parquet");
    let columns = ["time_ns", "cpu", "pid", "op", "pfn", "order"];
    let declared = columns
        .map(|name| format!("required int64 {name};"))
        .concat();
    let schema = parse_message_type(&format!("message m {{ {declared} }}")).unwrap();
    let out = fs::File::create(&file).unwrap();
    let mut writer = SerializedFileWriter::new(out, schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let values = vec![0; ROWS];
    for _ in columns {
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<Int64Type>();
        typed.write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    assert!(fs::metadata(&file).unwrap().len() < 1 << 20);
    // 400 MB of addresses; the rows as columns and events would take 600 MB.
    let run = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 400000; exec \"$0\" trace check \"$1\""])
        .args([env!("CARGO_BIN_EXE_everybuddy"), &file])
        .env("EVERYBUDDY_TRACE_ROWS", ROWS.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    shows(&said, &["row 1", "in use since row 0"]);
}
