//! What the tests of the program share: running it, and traces of their own.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::Builder;

use everybuddy_cli::cmd::run;
use everybuddy_cli::show::output::captured;
use everybuddy_trace::{Event, Op, Trace, write};
use serde_json::Value;

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

/// A tiny trace on two CPUs: several orders, frees on the other CPU, parts of a block, blocks that live on.
pub(crate) fn trace() -> Trace {
    let mut events = Vec::new();
    let mut time = 0;
    let mut add = |cpu: u16, pid, op, pfn, order| {
        time += 100;
        events.push(Event::new(time, cpu, pid, op, pfn, order));
    };
    for round in 0..10u64 {
        for frame in 0..100 {
            let (cpu, pid) = ((round % 2) as u16, 100 + round as u32);
            add(cpu, pid, Op::Allocate, frame, 0);
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

/// Runs a command line, which is formatted like a text, in this process. Spaces separate its words.
macro_rules! everybuddy {
    ($($line:tt)*) => { $crate::common::run_here(&$crate::common::words(&format!($($line)*))) };
}
/// Like `everybuddy!`, in a process of its own.
macro_rules! process {
    ($($line:tt)*) => { $crate::common::start(&$crate::common::words(&format!($($line)*))) };
}
pub(crate) use {everybuddy, process};

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs a command line as the program does, in this process. If its files or its threads would disturb other tests, or
/// if it starts itself again, it needs a process.
pub(crate) fn run_here(words: &[&str]) -> Run {
    let other = "EVERYBUDDY_TRACES";
    assert!(std::env::var_os(other).is_none(), "unset {other}");
    let words: Vec<String> = [&["everybuddy"], words]
        .concat()
        .into_iter()
        .map(String::from)
        .collect();
    let run = move || captured(|| run(words));
    // As large a stack as a program has.
    let thread = Builder::new().stack_size(8 << 20).spawn(run).unwrap();
    let (code, written) = thread.join().unwrap_or_else(|cause| resume_unwind(cause));
    Run {
        code: code.into(),
        out: String::from_utf8(written.out).unwrap(),
        err: String::from_utf8(written.err).unwrap(),
    }
}

/// Runs the program in a process.
pub(crate) fn start(words: &[&str]) -> Run {
    process_in(env!("CARGO_TARGET_TMPDIR"), words)
}

/// Runs the program in a folder of its own: other tests write their pages into the common one at the same time.
pub(crate) fn process_in(folder: impl AsRef<Path>, words: &[&str]) -> Run {
    Run::of(command(words).current_dir(folder).output().unwrap())
}

/// Runs the program with another standard output.
pub(crate) fn process_to(output: impl Into<Stdio>, words: &[&str]) -> Run {
    let mut command = command(words);
    let child = command.stdout(output).stderr(Stdio::piped());
    Run::of(child.spawn().unwrap().wait_with_output().unwrap())
}

/// Returns the program with a command line.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everybuddy"));
    command.args(words).env_remove("EVERYBUDDY_TRACES");
    // Files that no argument names appear in the current folder.
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Reads rows that were written as JSON lines.
pub(crate) fn json(lines: &str) -> Vec<Value> {
    let rows = lines.lines();
    rows.map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Reads a file.
pub(crate) fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A text contains all of these.
#[track_caller]
pub(crate) fn shows(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

/// What a run of the program gave.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(output: Output) -> Run {
        Run {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The run was refused with one message that contains all of these.
    pub(crate) fn refused(&self, parts: &[&str]) {
        self.failed(2, parts);
    }

    /// The run ended with this exit code, and with one message that contains all of these.
    pub(crate) fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        let errors = self.err.lines().filter(|line| line.starts_with("error:"));
        assert_eq!(errors.count(), 1, "{}", self.err);
        shows(&self.err, parts);
    }

    /// The run succeeded; notes may accompany its results.
    pub(crate) fn noted(self) -> String {
        let is_note = |line: &str| line.starts_with("note: ");
        assert!(self.err.lines().all(is_note), "{}", self.err);
        self.succeeded()
    }

    /// The run succeeded, whatever accompanies its results.
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// The run succeeded, and printed only its results.
    pub(crate) fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }
}
