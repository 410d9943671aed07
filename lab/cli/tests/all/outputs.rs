//! Files that the program writes: they are those that were named, they are whole, and nothing else is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{Folder, everybuddy, everybuddy_in};
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
    everybuddy(&[
        "trace",
        "export",
        &folder.trace(),
        "--to",
        "csv",
        "-o",
        &file,
    ])
    .done();
    file
}

#[test]
fn a_recording_can_be_imported_again() {
    let folder = Folder::new("import-again");
    let recording = csv(&folder, "perf.data");
    let import = ["trace", "import", &recording, "--from", "csv", "--force"];
    for _ in 0..2 {
        let run = everybuddy_in(folder.path(), &import);
        assert_eq!(run.code, 0, "{}", run.err);
    }
    // Under the name of the recording, and with a companion from another run next to it.
    let run = csv(&folder, "run.csv");
    let result = folder.file("run.parquet");
    fs::copy(folder.trace(), folder.file("run.faults.parquet")).unwrap();
    for _ in 0..2 {
        let run = everybuddy(&["trace", "import", &run, "-o", &result, "--force"]);
        assert_eq!(run.code, 0, "{}", run.err);
    }
    assert!(!Path::new(&folder.file("run.faults.parquet")).exists());
    everybuddy(&["trace", "check", &result]).done();
}

/// Traces are replaced only on request, with their companions; other files that the user names are replaced.
#[test]
fn commands_that_write_traces_replace_none_without_force() {
    let folder = Folder::new("force");
    let trace = folder.trace();
    let recording = csv(&folder, "tiny.csv");
    let existing = folder.file("existing.parquet");
    let bytes = b"another trace";
    let import = ["trace", "import", &recording, "-o", &existing];
    let cut = ["trace", "cut", &trace, "--first", "5", "-o", &existing];
    for command in [&import[..], &cut[..]] {
        fs::write(&existing, bytes).unwrap();
        let run = everybuddy(command);
        assert_eq!(run.code, 2, "{}", run.err);
        for word in ["existing.parquet already exists", "--force"] {
            assert!(run.err.contains(word), "{word}: {}", run.err);
        }
        assert_eq!(fs::read(&existing).unwrap(), bytes);
        // A companion alone would be replaced, too.
        fs::rename(&existing, folder.file("existing.vmas.parquet")).unwrap();
        let run = everybuddy(command);
        assert!(
            run.err.contains("existing.vmas.parquet already exists"),
            "{}",
            run.err
        );
        assert!(!Path::new(&existing).exists());
        let run = everybuddy(&[command, &["--force"]].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        everybuddy(&["trace", "check", &existing]).done();
        assert!(!Path::new(&folder.file("existing.vmas.parquet")).exists());
    }
    let text = folder.file("calls.csv");
    for _ in 0..2 {
        everybuddy(&["trace", "export", &trace, "--to", "csv", "-o", &text]).done();
        everybuddy(&["trace", "info", &trace, "--json", &text]).done();
    }
}

#[test]
fn names_of_users_do_not_control_the_terminal() {
    let folder = Folder::new("escapes");
    let name = "a\u{1b}[31m\u{7}b\nerror: c\u{202e}.parquet";
    let (trace, missing) = (folder.file(name), folder.file("no\u{1b}]0;x\u{7}.data"));
    fs::copy(folder.trace(), &trace).unwrap();
    let broken = folder.file("broken\u{1b}[2J.parquet");
    fs::write(&broken, "no Parquet").unwrap();
    let text = folder.file("text");
    fs::write(&text, "what \u{1b}[2J is this\n").unwrap();
    let out = folder.file("out.parquet");
    for command in [
        &["trace", "check", &trace][..],
        &["trace", "check", &broken],
        &["trace", "info", &trace],
        &["trace", "info", &trace, "--lenient"],
        &["trace", "cut", &trace, "--first", "5", "-o", &trace],
        &["trace", "import", &missing, "-o", &out],
        &["trace", "import", &text, "-o", &out],
        &["trace", "import", &text, "--from", &missing],
        &["compare", &broken, "--systems", "bs"],
        &["compare", "gcc_build", "--systems", "b\u{1b}[2Js"],
    ] {
        let run = everybuddy(command);
        for stream in [&run.out, &run.err] {
            let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
            assert!(!stream.contains(is_bad), "{command:?}: {stream:?}");
            assert!(!stream.contains("\nerror: c"), "{command:?}: {stream:?}");
        }
        // The parser of arguments removes escape sequences instead.
        let is_shown = run.out.contains("u{") || run.err.contains("u{");
        assert!(
            is_shown || run.code == 0 || command.contains(&"--from"),
            "{command:?}"
        );
    }
}

#[test]
fn outputs_are_different_files_whatever_names_lead_to_them() {
    let folder = Folder::new("same");
    let trace = folder.trace();
    let before = names(&folder);
    let (one, other) = (folder.file("same"), folder.file("./sub/../same"));
    fs::create_dir(folder.file("sub")).unwrap();
    let refused = |arguments: &[&str], parts: &[&str]| {
        everybuddy_in(folder.path(), arguments).refused(parts);
    };
    let compare = ["compare", &trace, "--systems", "bs"];
    for options in [
        &["--html", &one, "--json", &other][..],
        &["--no-html", "--csv", &one, "--parquet", &other],
        &["--no-html", "--json", "same", "--csv", &one],
    ] {
        refused(&[&compare[..], options].concat(), &["the same file as"]);
    }
    // The page has a default name, and is an output too.
    refused(
        &[&compare[..], &["--json", "everybuddy-report.html"]].concat(),
        &["--json everybuddy-report.html", "the page"],
    );
    refused(
        &["trace", "info", &trace, "--json", &one, "--html", &other],
        &["the same file as"],
    );
    refused(
        &["bench", "--json", &one, "--doc", &other],
        &["--doc", "the same file as --json"],
    );
    let svg = folder.file("fill-levels.svg");
    let figures = folder.file(".");
    refused(
        &["reproduce", "fill-levels", "--svg", &figures, "--csv", &svg],
        &["the same file as --csv"],
    );
    fs::remove_dir(folder.file("sub")).unwrap();
    assert_eq!(names(&folder), before);
    // A device takes any number of outputs.
    let null = ["--no-html", "--json", "/dev/null", "--csv", "/dev/null"];
    assert_eq!(everybuddy(&[&compare[..], &null].concat()).code, 0);
}

#[test]
fn inputs_are_never_outputs() {
    let folder = Folder::new("inputs");
    let trace = folder.trace();
    let companion = folder.file("tiny.faults.parquet");
    let sizes = folder.file("tiny.sizes.json");
    fs::write(folder.file("tiny.faults.parquet"), "faults").unwrap();
    fs::write(&sizes, "sizes").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("tiny.parquet", folder.file("link")).unwrap();
    let contents = |path: &str| fs::read(path).unwrap();
    let before = [&trace, &companion, &sizes].map(|path| contents(path));
    let compare = ["compare", &trace, "--systems", "bs", "--no-html"];
    let refused = |options: &[&str]| {
        everybuddy(&[&compare[..], options].concat()).refused(&[options[0], "never changed"]);
    };
    refused(&["--json", &trace]);
    refused(&["--csv", &companion]);
    #[cfg(unix)]
    refused(&["--parquet", &folder.file("link")]);
    refused(&["--json", &sizes, "--sizes", &sizes]);
    everybuddy(&["trace", "info", &trace, "--html", &trace]).refused(&["never changed"]);
    let export = ["trace", "export", &trace, "--to", "csv", "-o", &companion];
    everybuddy(&export).refused(&["never changed"]);
    let experiment = folder.file("own.toml");
    let text = include_str!("../../../papers/src/fill_levels/experiment.toml");
    fs::write(&experiment, text).unwrap();
    everybuddy(&["reproduce", &experiment, "--json", &experiment]).refused(&["never changed"]);
    assert_eq!(
        [&trace, &companion, &sizes].map(|path| contents(path)),
        before
    );
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
        let mut run = Command::new(env!("CARGO_BIN_EXE_everybuddy"))
            .args([
                "compare",
                &trace,
                "--json",
                "rows.json",
                "--csv",
                "rows.csv",
            ])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(7 * at as u64));
        let kill = Command::new("kill")
            .args([&format!("-{signal}"), &run.id().to_string()])
            .status();
        // It may have ended before.
        let _ = kill.unwrap();
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
        let rows = fs::read_to_string(folder.file("rows.json")).unwrap();
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
    let files = ["--json", &private, "--html", &link];
    let run = everybuddy(&[&["compare", &trace, "--systems", "bs"], &files[..]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let mode = fs::metadata(&private).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(fs::read_to_string(&private).unwrap().ends_with("}\n"));
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.html"));
    assert!(fs::read_to_string(&real).unwrap().contains("<html"));
    // Traces are written by the same rules.
    fs::set_permissions(&trace, fs::Permissions::from_mode(0o640)).unwrap();
    let recording = folder.file("tiny.csv");
    everybuddy(&["trace", "export", &trace, "--to", "csv", "-o", &recording]).done();
    everybuddy(&["trace", "import", &recording, "-o", &trace, "--force"]).noted();
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
    everybuddy(&["trace", "check", &old, &new]).done();
    // What a kill between the renames leaves: new companions next to the old trace.
    let companions = [
        ("new.faults.parquet", "old.faults.parquet"),
        ("new.vmas.parquet", "old.vmas.parquet"),
    ];
    for (from, to) in companions {
        fs::copy(folder.file(from), folder.file(to)).unwrap();
        let check = everybuddy(&["trace", "check", &old]);
        check.refused(&[
            "does not belong to the trace next to it",
            "help: write the trace again",
        ]);
        everybuddy(&["compare", &old, "--systems", "bs", "--no-html"]).refused(&["belong"]);
        let lenient = everybuddy(&["trace", "check", &old, "--lenient"]);
        assert_eq!(lenient.code, 0, "{}", lenient.err);
        assert!(
            lenient.out.contains("of another trace ignored"),
            "{}",
            lenient.out
        );
    }
    // The whole set again, as users repair it.
    fs::copy(&new, &old).unwrap();
    everybuddy(&["trace", "check", &old]).done();
    // Companions of other programs belong to traces of other programs.
    everybuddy(&["trace", "check", "gcc_build"]).done();
    let faults =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/gcc_build.faults.parquet");
    fs::copy(faults, folder.file("new.faults.parquet")).unwrap();
    everybuddy(&["trace", "check", &new]).refused(&["new.faults.parquet"]);
}

#[test]
fn files_of_another_trace_are_not_overwritten() {
    let folder = Folder::new("other-traces");
    let taken = folder.file("mine.faults.parquet");
    fs::write(&taken, "mine").unwrap();
    let cut = ["trace", "cut", "gcc_build", "--first", "5", "-o", &taken];
    everybuddy(&cut).refused(&["mine.faults.parquet", "already exists"]);
    let forced = everybuddy(&[&cut[..], &["--force"]].concat());
    forced.refused(&["mine.faults.parquet", "companion"]);
    let export = ["trace", "export", "gcc_build", "--to", "csv", "-o", &taken];
    everybuddy(&export).refused(&["-o", ".parquet"]);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    for arguments in [
        &["bench", "--rounds", "0"][..],
        &["bench", "--shrink", "0"],
        &["reproduce", "--shrink", "0"],
        &["reproduce", "request-sizes", "--html", "-"],
        &["compare", "--sizes", "x.json", "--sizes-first", "0"],
        &["compare", "--cpus", "0"],
        &["compare", "--memory", "0GiB"],
        &[
            "trace",
            "cut",
            "gcc_build",
            "-o",
            "x.parquet",
            "--first",
            "0",
        ],
    ] {
        let run = everybuddy(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.err);
        let option = arguments[arguments.len() - 2];
        assert!(run.err.contains(option), "{arguments:?}: {}", run.err);
    }
}
