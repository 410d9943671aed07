//! Files that the program writes: they are those that were named, they are whole, and nothing else is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{Folder, command, everybuddy, process_in, text, words};
use everybuddy_trace::{AddressRegion, Fault, RegionId, Trace, write};

/// The names in a folder.
fn names(folder: &Folder) -> BTreeSet<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

/// The calls of the tiny trace as CSV.
fn csv(folder: &Folder, name: &str) -> String {
    let file = folder.file(name);
    everybuddy!("trace export {} --to csv -o {file}", folder.trace()).done();
    file
}

#[test]
fn a_recording_can_be_imported_again() {
    let folder = Folder::new("import-again");
    let recording = csv(&folder, "perf.data");
    let import = format!("trace import {recording} --from csv --force");
    for _ in 0..2 {
        process_in(folder.path(), &words(&import)).succeeded();
    }
    // Under the name of the recording, and with a companion from another run next to it.
    let run = csv(&folder, "run.csv");
    let result = folder.file("run.parquet");
    fs::copy(folder.trace(), folder.file("run.faults.parquet")).unwrap();
    for _ in 0..2 {
        everybuddy!("trace import {run} -o {result} --force").succeeded();
    }
    assert!(!Path::new(&folder.file("run.faults.parquet")).exists());
    everybuddy!("trace check {result}").done();
}

/// Traces are replaced only on request, with their companions; other files that the user names are replaced.
#[test]
fn commands_that_write_traces_replace_none_without_force() {
    let folder = Folder::new("force");
    let trace = folder.trace();
    let recording = csv(&folder, "tiny.csv");
    let existing = folder.file("existing.parquet");
    let bytes = b"another trace";
    for command in [
        format!("import {recording}"),
        format!("cut {trace} --first 5"),
    ] {
        let run = |force: &str| everybuddy!("trace {command} -o {existing} {force}");
        fs::write(&existing, bytes).unwrap();
        run("").refused(&["existing.parquet already exists", "--force"]);
        assert_eq!(fs::read(&existing).unwrap(), bytes);
        // A companion alone would be replaced, too.
        fs::rename(&existing, folder.file("existing.vmas.parquet")).unwrap();
        run("").refused(&["existing.vmas.parquet already exists"]);
        assert!(!Path::new(&existing).exists());
        run("--force").succeeded();
        everybuddy!("trace check {existing}").done();
        assert!(!Path::new(&folder.file("existing.vmas.parquet")).exists());
    }
    let calls = folder.file("calls.csv");
    for _ in 0..2 {
        everybuddy!("trace export {trace} --to csv -o {calls}").done();
        everybuddy!("trace info {trace} --json {calls}").done();
    }
}

#[test]
fn a_device_takes_any_number_of_outputs() {
    let folder = Folder::new("device");
    let null = "--no-html --json /dev/null --csv /dev/null";
    everybuddy!("compare {} --systems bs {null}", folder.trace()).succeeded();
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_no_file() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    let folder = Folder::new("interrupt");
    let trace = folder.trace();
    fs::write(folder.file("rows.json"), "old").unwrap();
    let mut interrupted = 0;
    for (at, signal) in ["INT", "TERM"].iter().cycle().take(16).enumerate() {
        let line = format!("compare {trace} --json rows.json --csv rows.csv");
        let mut command = command(&words(&line));
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = quiet.current_dir(folder.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(7 * at as u64));
        // It may have ended before.
        let id = run.id().to_string();
        let _ = Command::new("kill")
            .args([&format!("-{signal}"), &id])
            .status()
            .unwrap();
        let status = run.wait().unwrap();
        interrupted += usize::from(status.signal().is_some());
        let left = names(&folder);
        // What appeared before the signal is whole.
        let whole = [
            "rows.csv",
            "rows.json",
            "everybuddy-report.html",
            "tiny.parquet",
        ];
        assert!(
            left.iter().all(|name| whole.contains(&name.as_str())),
            "{left:?}"
        );
        let rows = text(folder.file("rows.json"));
        assert!(rows == "old" || rows.ends_with("}\n"), "{rows}");
    }
    assert!(interrupted > 0, "every run ended before its signal");
}

#[cfg(unix)]
#[test]
fn replaced_files_keep_permissions_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("private");
    let trace = folder.trace();
    let (private, real) = (folder.file("private.json"), folder.file("real.html"));
    fs::write(&private, "old").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&real, "old").unwrap();
    symlink("real.html", folder.file("link.html")).unwrap();
    let link = folder.file("link.html");
    everybuddy!("compare {trace} --systems bs --json {private} --html {link}").succeeded();
    let mode = fs::metadata(&private).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(text(&private).ends_with("}\n"));
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.html"));
    assert!(text(&real).contains("<html"));
    // Traces are written by the same rules.
    fs::set_permissions(&trace, fs::Permissions::from_mode(0o640)).unwrap();
    let recording = folder.file("tiny.csv");
    everybuddy!("trace export {trace} -o {recording}").done();
    everybuddy!("trace import {recording} -o {trace} --force").noted();
    let mode = fs::metadata(&trace).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

/// A trace with a fault and an address region, which are about `page`.
fn with_companions(page: u64) -> Trace {
    let region = RegionId::from_index(0);
    let mut trace = crate::common::trace();
    trace.regions.push(AddressRegion::unknown(1));
    trace.events[0].region = region;
    trace.faults.push(Fault {
        row: 0,
        vpn: page,
        region,
        sequence: 0,
    });
    trace
}

#[test]
fn files_of_two_traces_are_not_read_as_one() {
    let folder = Folder::new("mixed");
    let (old, new) = (folder.file("old.parquet"), folder.file("new.parquet"));
    write(&with_companions(1), old.as_ref()).unwrap();
    write(&with_companions(2), new.as_ref()).unwrap();
    everybuddy!("trace check {old} {new}").done();
    // What a kill between the renames leaves: new companions next to the old trace.
    let companions = [
        ("new.faults.parquet", "old.faults.parquet"),
        ("new.vmas.parquet", "old.vmas.parquet"),
    ];
    for (from, to) in companions {
        fs::copy(folder.file(from), folder.file(to)).unwrap();
        let check = everybuddy!("trace check {old}");
        check.refused(&[
            "does not belong to the trace next to it",
            "help: write the trace again",
        ]);
        everybuddy!("compare {old} --systems bs --no-html").refused(&["belong"]);
        let lenient = everybuddy!("trace check {old} --lenient").succeeded();
        assert!(lenient.contains("of another trace ignored"), "{lenient}");
    }
    // The whole set again, as users repair it.
    fs::copy(&new, &old).unwrap();
    everybuddy!("trace check {old}").done();
    // Companions of other programs belong to traces of other programs.
    everybuddy!("trace check gcc_build").done();
    let faults =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/gcc_build.faults.parquet");
    fs::copy(faults, folder.file("new.faults.parquet")).unwrap();
    everybuddy!("trace check {new}").refused(&["new.faults.parquet"]);
}
