//! Allocators in shared libraries: one that works, and every way in which one can be wrong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Folder, Run, json, process};

/// The folder of the project.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Options that make a run short: what it measures means nothing.
const SHORT: &str = "bench --memory 16MiB --shrink 500 --rounds 1 --systems bs";

/// Returns a file of the project.
fn source(path: &str) -> PathBuf {
    Path::new(PROJECT).join(path)
}

/// Compiles a shared library. Returns `None`, and states the reason, if there is no C compiler.
fn library(folder: &Folder, name: &str, source: &Path, arguments: &[&str]) -> Option<String> {
    let file = folder.file(&format!("{name}.so"));
    let mut compile = Command::new("cc");
    compile.args([
        "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC",
    ]);
    compile.arg(format!("-I{PROJECT}/lab/peers/include"));
    compile.args(arguments).arg(source).args(["-o", &file]);
    match compile.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            Some(file)
        }
        Err(error) => {
            println!("skipped: cc: {error}");
            None
        }
    }
}

/// Compiles the example of the documentation.
fn example(folder: &Folder) -> Option<String> {
    library(folder, "bitmap", &source("examples/peer/bitmap.c"), &[])
}

/// Compiles an allocator with a mistake, and runs the benchmark with it.
fn broken(folder: &Folder, name: &str, mistake: &[&str]) -> Option<Run> {
    let file = library(folder, name, &source("lab/cli/tests/all/broken.c"), mistake)?;
    Some(process!(
        "{SHORT} --workloads hot:order0 --threads 1 --peer {file}"
    ))
}

#[test]
fn an_allocator_in_a_library_is_one_more_contender() {
    let folder = Folder::new("peer");
    let Some(file) = example(&folder) else {
        return;
    };
    let run = process!("{SHORT} --workloads hot:order0 --json - --peer {file}");
    let rows = json(&run.succeeded());
    let systems = |metric: &str| -> BTreeSet<String> {
        let own = rows.iter().filter(|row| row["metric"] == metric);
        own.map(|row| row["system"].as_str().unwrap().to_string())
            .collect()
    };
    let all = ["bs", "example-bitmap", "floor", "floor+table"].map(str::to_string);
    for metric in [
        "latency",
        "throughput",
        "start_time",
        "metadata_bytes_per_frame",
    ] {
        assert_eq!(systems(metric), BTreeSet::from(all.clone()), "{metric}");
    }
}

#[test]
fn the_example_runs_every_workload_without_a_fault() {
    let folder = Folder::new("peer-check");
    let Some(file) = example(&folder) else {
        return;
    };
    let out = process!("{SHORT} --check --peer {file}").succeeded();
    assert!(out.contains(": 0 in the wrong state"), "{out}");
    // Each workload on the floor, the floor behind the table, the system and the library.
    let runs = out.split(" contenders on workloads").next().unwrap();
    let runs: usize = runs.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(runs > 100 && runs.is_multiple_of(4), "{out}");
}

#[test]
fn an_allocator_that_breaks_its_contract_is_refused_before_it_is_measured() {
    let folder = Folder::new("peer-broken");
    let failed = |name: &str, mistake: &str, parts: &[&str]| {
        let Some(run) = broken(&folder, name, &[mistake]) else {
            return;
        };
        run.failed(
            1,
            &[&[&format!("{name}.so")[..], "broken on workload"], parts].concat(),
        );
    };
    failed("outside", "-DFRAME=memory", &["outside of memory"]);
    failed("unfreed", "-DFREED=1", &["frees failed"]);
}

#[test]
fn a_frame_that_is_handed_out_twice_is_found() {
    let folder = Folder::new("peer-twice");
    let source = source("lab/cli/tests/all/broken.c");
    let Some(file) = library(&folder, "twice", &source, &["-DFRAME=(next/2)"]) else {
        return;
    };
    let run = process!("{SHORT} --workloads batch --threads 1 --peer {file}");
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert!(run.err.contains("handed out twice"), "{}", run.err);
}

#[test]
fn a_library_without_a_valid_table_is_refused_with_its_reason() {
    let folder = Folder::new("peer-refused");
    let unused = "-Wno-unused-function";
    #[rustfmt::skip]
    let cases: [(&str, &[&str], &[&str]); 6] = [
        ("version", &["-DVERSION=7"], &["version 7", "reads version 1"]),
        ("null", &["-DPUT=0", unused], &["`free`", "is null"]),
        ("name", &["-DNAME=\"a b\""], &["is not a name"]),
        ("known", &["-DNAME=\"lbs-31\""], &["`lbs-31` belongs to another contender"]),
        ("small", &["-DMOST=4096"], &["broken cannot manage 1048576 frames"]),
        ("table", &["-DNO_TABLE", unused], &["does not export `everybuddy_peer`"]),
    ];
    for (name, mistake, parts) in cases {
        if let Some(run) = broken(&folder, name, mistake) {
            run.refused(parts);
        }
    }
}
