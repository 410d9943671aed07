//! The program: output, files and exit codes.

use std::process::{Command, Output};

use crate::common::path;

pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everybuddy-memory"))
        .args(arguments)
        .output()
        .unwrap()
}

pub(crate) fn file(name: &str) -> String {
    path(name).display().to_string()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_table_lists_all_reports_and_shows_the_last() {
    let output = run(&[&file("s27-paf-6.19-dmesgT-two.txt")]);
    assert_eq!(output.status.code(), Some(0));
    let table = text(&output.stdout);
    assert!(table.starts_with("2 reports and states"), "{table}");
    assert!(
        table.contains("page allocation failure, order 0, kswapd0; Fri Apr 17 19:56:16 2026"),
        "{table}"
    );
    assert!(
        table.contains("  2 MiB      9         1         0  1 only HighAtomic\n"),
        "{table}"
    );
    assert!(table.contains("/proc/kpageflags (root)"), "{table}");
}

#[test]
fn needs_set_the_exit_code() {
    let name = file("s13-paf-4.4-two.txt");
    for (need, code) in [("10x4MiB", 0), ("9x1GiB", 3), ("1475x4MiB", 4)] {
        let output = run(&["--need", need, &name]);
        assert_eq!(output.status.code(), Some(code), "{need}");
        assert_eq!(text(&output.stdout).lines().count(), 1);
    }
    assert_eq!(run(&["--need", "nonsense", &name]).status.code(), Some(2));
}

#[test]
fn json_and_metrics_are_written_completely() {
    let folder = tempfile::tempdir().unwrap();
    let (json, metrics) = (folder.path().join("a.json"), folder.path().join("a.prom"));
    let (json_name, metrics_name) = (json.display().to_string(), metrics.display().to_string());
    let name = file("s13-paf-4.4-two.txt");
    let output = run(&["--json", &json_name, "--prometheus", &metrics_name, &name]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = std::fs::read_to_string(json).unwrap();
    let states: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(states.len(), 2);
    let row = &states[1]["zones"][2]["orders"][10];
    assert_eq!(row["free"]["low"].as_u64(), Some(810));
    assert_eq!(row["bytes"].as_u64(), Some(4 << 20));
    let metrics = std::fs::read_to_string(metrics).unwrap();
    let line = "everybuddy_memory_free_blocks{node=\"0\",zone=\"Normal\",order=\"10\",size_bytes=\"4194304\"} 810\n";
    assert!(metrics.contains(line), "{metrics}");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(
            line.rsplit_once(' ').unwrap().1.parse::<u64>().is_ok(),
            "{line}"
        );
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        2,
        "a temporary file remains"
    );
}

#[test]
fn a_file_without_a_state_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("x.txt").display().to_string();
    for (bytes, reason) in [
        (&b"nothing\n"[..], "no state of memory found"),
        (b"\xff\xfeM\0", "UTF-16"),
        (b"\x1f\x8b\x08", "cannot be unpacked"),
    ] {
        std::fs::write(&name, bytes).unwrap();
        let json = folder.path().join("kept.json");
        std::fs::write(&json, "kept").unwrap();
        let output = run(&["--json", &json.display().to_string(), &name]);
        assert_eq!(output.status.code(), Some(2));
        let message = text(&output.stderr);
        assert!(message.contains(&name), "{message}");
        assert!(message.contains(reason), "{message}");
        // A failure leaves the former file.
        assert_eq!(std::fs::read_to_string(&json).unwrap(), "kept");
    }
    assert_eq!(run(&[&format!("{name}.missing")]).status.code(), Some(2));
}

#[test]
fn pages_and_metrics_are_written_to_standard_output() {
    let name = file("s13-paf-4.4-two.txt");
    for (option, start) in [
        ("--html", "<!doctype html>"),
        ("--prometheus", "# HELP"),
        ("--json", "{"),
    ] {
        let output = run(&[option, "-", &name]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with(start), "{option}");
    }
    assert!(!std::path::Path::new("-").exists());
}

#[test]
fn rejected_rows_alone_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("buddyinfo").display().to_string();
    for (row, code) in [
        ("1 2 3 4 5 6 7 8 9 10 11", 0),
        ("1 2 x 4 5 6 7 8 9 10 11", 2),
    ] {
        std::fs::write(&name, format!("Node 0, zone   Normal {row} \n")).unwrap();
        assert_eq!(run(&[&name]).status.code(), Some(code), "{row}");
    }
}

#[test]
fn a_page_begins_with_the_verdict() {
    let name = file("s13-paf-4.4-two.txt");
    let output = run(&["--html", "-", "--need", "10x4MiB", &name]);
    let page = text(&output.stdout);
    let body = page.split_once("<main class=\"answer\">\n").unwrap().1;
    let verdict = "<p class=\"verdict yes\"><b>yes</b> <span>10 x 4 MiB: 1,474 free now";
    assert!(body.starts_with(verdict), "{body}");
    assert_eq!(body.matches("<tr class=\"wanted\">").count(), 3);
}

#[test]
fn a_missing_folder_is_named_as_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("missing/a.prom").display().to_string();
    let input = file("s13-paf-4.4-two.txt");
    for option in ["--prometheus", "--html", "--json"] {
        let output = run(&[option, &name, &input]);
        assert_eq!(output.status.code(), Some(2), "{option}");
        let message = text(&output.stderr);
        let reason = format!("{name}: its folder does not exist");
        assert!(message.contains(&reason), "{message}");
    }
}
