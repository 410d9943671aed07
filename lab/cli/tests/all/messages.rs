//! Messages of failures that need no process: a table of command lines, each with its exit code and its message.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Folder, everybuddy, process};

/// The contents of all files in a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap();
    let files = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.is_dir());
    files
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn mistakes_are_refused_with_one_message_and_change_no_file() {
    let folder = Folder::new("messages");
    let trace = folder.trace();
    fs::copy(&trace, folder.file("kept.parquet")).unwrap();
    let experiment = include_str!("../../../papers/src/fill_levels/experiment.toml");
    for (name, text) in [
        ("text", "no library"),
        ("kept.faults.parquet", "faults"),
        ("kept.sizes.json", "sizes"),
        ("own.toml", experiment),
    ] {
        fs::write(folder.file(name), text).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink("kept.parquet", folder.file("link")).unwrap();
    fs::create_dir(folder.file("sub")).unwrap();
    let before = contents(folder.path());
    let small = "simulate --machine x5570 --systems bs,is --memory 64MiB --think 100 --shrink 64";
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/tests/data");
    let dir = folder.path().to_str().unwrap();
    let is_entry = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for entry in include_str!("messages.txt").lines().filter(is_entry) {
        let mut parts = entry.split('|').map(str::trim);
        let (code, line) = (parts.next().unwrap(), parts.next().unwrap());
        let words = [("{small}", small), ("{dir}", dir), ("{data}", data)];
        let line = words.iter().fold(line.to_string(), |line, (name, value)| {
            line.replace(name, value)
        });
        let run = everybuddy!("{line}");
        println!("{entry}");
        run.failed(code.parse().unwrap(), &parts.collect::<Vec<_>>());
        assert!(contents(folder.path()) == before, "a file has changed");
    }
}

/// The document shows it, as the exception of Python.
#[test]
fn the_message_of_the_document_is_the_programs() {
    let unknown = everybuddy!("compare gcc_biuld");
    unknown.refused(&["did you mean `gcc_build`?"]);
    let shown = unknown
        .err
        .replacen("error: ", "everybuddy.InputError: ", 1);
    let document = include_str!("../../../../python/README.md");
    assert!(
        document.contains(&shown),
        "python/README.md does not show {shown}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn recordings_are_refused_before_anything_is_done() {
    let folder = Folder::new("record");
    let there = folder.trace();
    everybuddy!("record").refused(&["pass a command", "--seconds"]);
    everybuddy!("record --overhead --seconds 1").refused(&["--overhead", "after --"]);
    everybuddy!("record -o x.csv -- true").refused(&["x.csv", ".parquet"]);
    everybuddy!("record -o {there} -- true").refused(&[&there, "--force"]);
    // Without privileges for another reason than with them, and in the same way.
    let nowhere = folder.file("new.parquet");
    process!("record -o {nowhere} -- /no/such/program").refused(&[]);
    assert!(!Path::new(&nowhere).exists());
}

#[test]
fn damaged_traces_are_refused() {
    let folder = Folder::new("damaged");
    let whole = fs::read(folder.trace()).unwrap();
    let cases = [
        ("empty.parquet", &[][..]),
        ("text.parquet", &b"time,cpu,op\n1,2,3\n"[..]),
        ("cut.parquet", &whole[..whole.len() / 2]),
    ];
    for (name, bytes) in cases {
        let file = folder.file(name);
        fs::write(&file, bytes).unwrap();
        for command in ["compare", "trace info", "trace check"] {
            everybuddy!("{command} {file}").refused(&[name]);
            everybuddy!("{command} {file} --lenient").refused(&[name]);
        }
    }
}

#[test]
fn contradictions_are_refused_or_repaired() {
    let folder = Folder::new("lenient");
    let mut trace = crate::common::trace();
    // Allocated while it lives.
    trace.events.insert(1, trace.events[0]);
    let file = folder.file("twice.parquet");
    // Only reading refuses contradictions.
    everybuddy_trace::write(&trace, file.as_ref()).unwrap();
    everybuddy!("trace check {file}").refused(&["twice.parquet, row 1"]);
    everybuddy!("compare {file}").refused(&["twice.parquet, row 1"]);
    let checked = everybuddy!("trace check {file} --lenient").succeeded();
    assert!(checked.contains("repaired: 1 "), "{checked}");
    let compared = everybuddy!("compare {file} --lenient --systems bs --no-html");
    assert_eq!(compared.code, 0, "{}", compared.err);
    assert!(compared.err.contains("repaired: 1 "), "{}", compared.err);
}

#[test]
fn a_machine_file_with_a_mistake_is_refused() {
    let folder = Folder::new("machines");
    let file = folder.file("x.toml");
    let right = include_str!("../../../../machines/x5570.toml");
    fs::write(&file, right).unwrap();
    assert!(everybuddy!("machines {file}").done().contains("llc.bytes"));
    fs::write(&file, right.replacen("memory = 191", "memroy = 191", 1)).unwrap();
    everybuddy!("machines {file}").refused(&[&file, "`memroy`", "did you mean `memory`?"]);
}

#[test]
fn names_of_users_do_not_control_the_terminal() {
    let folder = Folder::new("escapes");
    let name = "a\u{1b}[31m\u{7}b\nerror: c\u{202e}.parquet";
    let (trace, missing) = (folder.file(name), folder.file("no\u{1b}]0;x\u{7}.data"));
    fs::copy(folder.trace(), &trace).unwrap();
    let broken = folder.file("broken\u{1b}[2J.parquet");
    fs::write(&broken, "no Parquet").unwrap();
    let strange = folder.file("text");
    fs::write(&strange, "what \u{1b}[2J is this\n").unwrap();
    let out = folder.file("out.parquet");
    for command in [
        &["trace", "check", &trace][..],
        &["trace", "check", &broken],
        &["trace", "info", &trace],
        &["trace", "info", &trace, "--lenient"],
        &["trace", "cut", &trace, "--first", "5", "-o", &trace],
        &["trace", "import", &missing, "-o", &out],
        &["trace", "import", &strange, "-o", &out],
        &["trace", "import", &strange, "--from", &missing],
        &["compare", &broken, "--systems", "bs"],
        &["compare", "gcc_build", "--systems", "b\u{1b}[2Js"],
    ] {
        let run = crate::common::run_here(command);
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
