//! What the tests of the program share: running it, and traces of their own.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use everybuddy_trace::{Event, Op, Trace, write};

/// A folder that is removed with its value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("everybuddy-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    /// Writes the tiny trace and returns its file.
    pub(crate) fn trace(&self) -> String {
        let file = self.file("tiny.parquet");
        write(&trace(), Path::new(&file)).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Frames that live after the tiny trace.
pub(crate) const FINAL_FRAMES: u64 = 40 + 4 + 1;

/// A tiny trace on two CPUs: several orders, frees on the other CPU, parts of a block, blocks that
/// live on.
pub(crate) fn trace() -> Trace {
    let mut events = Vec::new();
    let mut time = 0;
    let mut add = |cpu: u16, pid, op, pfn, order| {
        time += 100;
        events.push(Event::new(time, cpu, pid, op, pfn, order));
    };
    for round in 0..10u64 {
        for frame in 0..100 {
            add(
                (round % 2) as u16,
                100 + round as u32,
                Op::Allocate,
                frame,
                0,
            );
        }
        for block in 0..8 {
            add(0, 7, Op::Allocate, 1024 + 16 * block, 4);
        }
        for frame in (0..100).rev() {
            add((round / 2 % 2) as u16, 100, Op::Free, frame, 0);
        }
        for block in 0..8 {
            add(1, 8, Op::Free, 1024 + 16 * block, 4);
        }
    }
    for frame in 0..40 {
        add(1, 9, Op::Allocate, frame, 0);
    }
    // A block of eight frames, of which four and then three are freed.
    add(0, 7, Op::Allocate, 2048, 3);
    add(1, 8, Op::Free, 2052, 2);
    add(0, 7, Op::Allocate, 4096, 3);
    add(1, 8, Op::Free, 4096, 2);
    add(0, 8, Op::Free, 4100, 1);
    add(1, 8, Op::Free, 4103, 0);
    Trace {
        name: "tiny".to_string(),
        events,
        ..Trace::default()
    }
}

/// Runs the program.
pub(crate) fn everybuddy(arguments: &[&str]) -> Run {
    everybuddy_in(env!("CARGO_TARGET_TMPDIR"), arguments)
}

/// Runs the program in a folder of its own: other tests write their pages into the common one at the same time.
pub(crate) fn everybuddy_in(folder: impl AsRef<Path>, arguments: &[&str]) -> Run {
    let program = env!("CARGO_BIN_EXE_everybuddy");
    Run::of(
        Command::new(program)
            .args(arguments)
            // Files that no argument names appear in the current folder.
            .current_dir(folder)
            .env_remove("EVERYBUDDY_TRACES")
            .output()
            .unwrap(),
    )
}

/// Runs the program with another standard output.
pub(crate) fn everybuddy_to(output: impl Into<Stdio>, arguments: &[&str]) -> Run {
    let program = env!("CARGO_BIN_EXE_everybuddy");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env_remove("EVERYBUDDY_TRACES")
        .stdout(output);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    Run::of(child.wait_with_output().unwrap())
}

/// What a run of the program gave.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    fn of(output: Output) -> Run {
        Run {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The run was refused with one message that contains all of these.
    pub(crate) fn refused(&self, parts: &[&str]) {
        assert_eq!(self.code, 2, "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        assert_eq!(
            self.err
                .lines()
                .filter(|line| line.starts_with("error:"))
                .count(),
            1,
            "{}",
            self.err
        );
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not in: {}", self.err);
        }
    }

    /// The run succeeded; notes may accompany its results.
    pub(crate) fn noted(self) -> String {
        let is_note = |line: &str| line.starts_with("note: ");
        assert!(
            self.code == 0 && self.err.lines().all(is_note),
            "{}",
            self.err
        );
        self.out
    }

    /// The run succeeded, and printed only its results.
    pub(crate) fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }
}
