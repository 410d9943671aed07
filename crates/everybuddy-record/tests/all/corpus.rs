//! What fuzzing kept is read again: each input through its reader, on any compiler.
//!
//! The inputs lie in `fuzz/corpus`, a folder for each target; `ci/fuzz.sh` finds more.

use std::fs;
use std::path::Path;

use everybuddy_record::trial::{self, readers};

/// A function that a fuzzer calls with its input.
type Trial = fn(&[u8]);

fn replay(target: &str, trial: Trial) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        assert!(
            bytes.len() <= 64 << 10,
            "{} is too large to keep",
            path.display()
        );
        println!("{}", path.display());
        trial(&bytes);
        inputs += 1;
    }
    assert!(inputs > 0, "{} holds no input", folder.display());
}

#[test]
fn trace_parquet() {
    replay("trace_parquet", readers::trace_parquet);
}

#[test]
fn perf_data() {
    replay("perf_data", readers::perf_data);
}

#[test]
fn perf_script() {
    replay("perf_script", readers::perf_script);
}

#[test]
fn ftrace() {
    replay("ftrace", readers::ftrace);
}

#[test]
fn trace_cmd() {
    replay("trace_cmd", readers::trace_cmd);
}

#[test]
fn csv() {
    replay("csv", readers::csv);
}

#[test]
fn assemble() {
    replay("assemble", trial::assemble);
}

#[test]
#[cfg(target_os = "linux")]
fn ring_buffer() {
    replay("ring_buffer", trial::ring_buffer);
}
