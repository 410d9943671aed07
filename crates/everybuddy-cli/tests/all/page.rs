//! The page, from the command line to its file. What is on it is tested where it is drawn, in `everybuddy-page`.

use std::path::Path;

use crate::common::{Folder, everybuddy, everybuddy_in};

/// Runs `compare` on the tiny trace and returns the page.
fn page(folder: &Folder, arguments: &[&str]) -> String {
    let (trace, file) = (folder.trace(), folder.file("page.html"));
    let command = [
        "compare",
        &trace,
        "--systems",
        "bs,lbs-31,spring",
        "--html",
        &file,
    ];
    let run = everybuddy(&[&command, arguments].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("page.html"), "{}", run.err);
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn the_page_has_all_systems_in_fresh_and_in_old_memory() {
    let folder = Folder::new("page");
    for arguments in [&[][..], &["--cpus", "2"], &["--aged", "3"]] {
        let page = page(&folder, arguments);
        for word in ["<!DOCTYPE html>", "tiny", "lbs-31", "spring"] {
            assert!(page.contains(word), "no {word}");
        }
    }
}

#[test]
fn the_page_appears_where_it_is_wanted_and_nowhere_else() {
    let folder = Folder::new("default-page");
    let trace = folder.trace();
    let default = Path::new(&folder.file("everybuddy-report.html")).to_path_buf();
    let command = ["compare", &trace, "--systems", "bs"];
    let here = folder.file("");
    let run = |arguments: &[&str]| everybuddy_in(&here, &[&command, arguments].concat());
    for without in [
        &["--no-html"][..],
        &["--json", "-"],
        &["--html", &folder.file("x.html")],
    ] {
        assert_eq!(run(without).code, 0);
        assert!(!default.exists(), "{without:?}");
    }
    assert_eq!(run(&[]).code, 0);
    assert!(default.exists());
    everybuddy(&["compare", &trace, "--html", "/no/such/folder/x.html"])
        .refused(&["/no/such/folder/x.html"]);
}

#[test]
fn a_trace_has_a_page_of_its_own() {
    let folder = Folder::new("trace-page");
    let (trace, file) = (folder.trace(), folder.file("trace.html"));
    let run = everybuddy(&["trace", "info", &trace, "--html", &file]);
    assert_eq!(run.code, 0, "{}", run.err);
    let page = std::fs::read_to_string(file).unwrap();
    assert!(page.contains("<!DOCTYPE html>") && page.contains("tiny"));
}
