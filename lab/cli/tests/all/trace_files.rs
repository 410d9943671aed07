//! Traces as users import, export and cut them.

use std::fs;
use std::path::Path;

use crate::common::{Folder, everybuddy};
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
    let said = everybuddy(&["trace", "import", &recording("perf.data"), "-o", &whole]).noted();
    assert!(said.contains("whole.parquet: 1"), "{said}");
    let trace = strictly(&whole);

    let said = everybuddy(&["trace", "cut", &whole, "-o", &part, "--first", "50"]).noted();
    assert!(said.contains("50 of 1"), "{said}");
    assert_eq!(strictly(&part).events.len(), 50);
    assert_eq!(strictly(&whole), trace, "what is cut is not changed");

    let table = folder.file("whole.csv");
    assert_eq!(
        everybuddy(&["trace", "export", &whole, "--to", "csv", "-o", &table]).done(),
        ""
    );
    let text = everybuddy(&["trace", "export", &whole, "--to", "csv"]).done();
    assert_eq!(fs::read_to_string(&table).unwrap(), text);
    let again = folder.file("again.parquet");
    everybuddy(&["trace", "import", &table, "-o", &again]).noted();
    assert_eq!(
        everybuddy(&["trace", "export", &again, "--to", "csv"]).done(),
        text
    );
}

#[test]
fn a_program_is_cut_out_by_its_name() {
    let folder = Folder::new("trace-program");
    let part = folder.file("part.parquet");
    everybuddy(&["trace", "cut", "gcc_build", "-o", &part, "--program", "ar"]).noted();
    assert!(!strictly(&part).events.is_empty());
    let wrong = ["trace", "cut", "gcc_build", "-o", &part, "--program", "arr"];
    everybuddy(&wrong).refused(&["`arr`", "the programs are ar, as"]);
}

#[test]
fn mistakes_are_refused_and_nothing_is_written() {
    let folder = Folder::new("trace-mistakes");
    let (tiny, new) = (folder.trace(), folder.file("new.parquet"));
    let before = fs::read(&tiny).unwrap();
    let refused = |arguments: &[&str], parts: &[&str]| everybuddy(arguments).refused(parts);
    refused(
        &["trace", "cut", &tiny, "-o", &tiny, "--first", "1"],
        &["never changed", "-o"],
    );
    refused(
        &["trace", "cut", &tiny, "-o", &new, "--from", "1h"],
        &["`1h`", "200ms"],
    );
    refused(
        &["trace", "cut", &tiny, "-o", &new, "--from", "9s"],
        &["the selection is empty"],
    );
    refused(
        &["trace", "cut", &tiny, "-o", &new, "--events", "5..3"],
        &["an empty range"],
    );
    refused(
        &["trace", "cut", &tiny, "-o", "new.csv", "--first", "1"],
        &["new.parquet"],
    );
    refused(
        &["trace", "export", &tiny, "--to", "xml"],
        &["`xml`", "csv, perf-script"],
    );
    refused(
        &["trace", "export", &tiny, "--to", "csv", "-o", &tiny],
        &["never changed"],
    );
    refused(
        &["trace", "import", &tiny, "-o", &new],
        &["Parquet", "no import"],
    );
    refused(
        &["trace", "import", "/no/such.data", "-o", &new],
        &["/no/such.data"],
    );
    refused(&["trace", "import", "-"], &["-o TRACE.parquet"]);
    refused(
        &["trace", "import", &recording("README.md"), "-o", &new],
        &["README.md, line 3", "perf script"],
    );
    assert_eq!(fs::read(&tiny).unwrap(), before);
    assert!(!Path::new(&new).exists());
}

#[test]
fn sizes_are_gathered_into_a_file() {
    let folder = Folder::new("sizes");
    let (trace, file) = (folder.trace(), folder.file("tiny.sizes.json"));
    let run = everybuddy(&["trace", "sizes", &trace, "-o", &file]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("tiny.sizes.json"), "{}", run.err);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        everybuddy(&["trace", "sizes", &trace, "-o", "-"]).done(),
        text
    );
    let sizes = everybuddy_trace::Sizes::from_json(text.as_bytes()).unwrap();
    let last = sizes.first.last().unwrap();
    assert_eq!((last.requests, last.blocks), (sizes.total(), sizes.peak));
    let run = everybuddy(&["trace", "sizes", &trace, "--memory", "64MiB", "-o", "-"]);
    let other: serde_json::Value = serde_json::from_str(&run.done()).unwrap();
    assert_eq!(other["frames"], 16384);
    everybuddy(&["trace", "sizes", &trace, "-o", &trace]).refused(&[&trace]);
    everybuddy(&["trace", "sizes"]).refused(&["TRACE"]);
}
