//! The command line of `everybuddy memory` and of the program `everybuddy-memory`.
//!
//! # Purpose
//!
//! Both programs have the same options, the same output and the same exit codes.
//!
//! # Invariants
//!
//! Results go to standard output, everything else to standard error. Exit codes other than 2 come from `--need` alone.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::need::{self, Need};
use crate::read::Reader;
use crate::show::atomic::AtomicFile;
use crate::show::{json, prometheus, terminal};
use crate::state::{FrameSize, State};
use crate::{explain, live, size};

/// The maximum number of reports that are listed before the last one.
const LISTED: usize = 1000;

/// Show which large blocks a machine has, from /proc, or from copies and logs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy memory                               this machine (as root: with the classes of blocks)
  everybuddy memory dmesg.txt                     the reports in a log: out of memory, page allocation failure
  everybuddy memory buddyinfo zoneinfo            copies of files in /proc
  everybuddy memory /host/proc                    another folder with these files
  everybuddy memory --need 200x32MiB,zone=Normal  one line and an exit code

Exit codes: 0 success, or the blocks of --need are free; 1 they need pages to be moved; 2 error in usage, input
or files; 3 they are not available; 4 the input cannot tell.")]
pub struct Arguments {
    /// Read these texts: logs, copies of files in /proc, a folder that has them, or `-` for standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Decide whether these blocks are there: COUNTxSIZE[,zone=NAME][,node=N][,movable]
    #[arg(long, value_name = "BLOCKS")]
    need: Vec<Need>,

    /// Show every report of a log in full, not only the last one
    #[arg(long)]
    all: bool,

    /// Set the size of a frame where the input does not reveal it
    #[arg(long, value_name = "SIZE", value_parser = frame_size)]
    frame_size: Option<u64>,

    /// Write JSON lines, one object per state, to a file or to standard output (`-`)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write metrics for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,

    /// Repeat at this interval
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    watch: Option<u32>,
}

fn frame_size(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text)
        .filter(|bytes| bytes.is_power_of_two() && (1024..=1 << 20).contains(bytes));
    bytes
        .ok_or_else(|| format!("`{text}` is not the size of a frame, such as 4KiB, 16KiB or 64KiB"))
}

/// What the states of one run leave behind.
#[derive(Default)]
struct Seen {
    listed: Vec<String>,
    count: u64,
    last: Option<State>,
    /// A report without zones.
    empty: Option<State>,
}

/// Runs the command and returns its exit code.
///
/// # Errors
///
/// Fails with a message if a file cannot be read or written, or contains nothing.
pub fn run(arguments: &Arguments) -> Result<u8, String> {
    loop {
        let code = match once(arguments) {
            Err(message) if message == CLOSED => return Ok(0),
            result => result?,
        };
        let Some(seconds) = arguments.watch else {
            return Ok(code);
        };
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    }
}

fn once(arguments: &Arguments) -> Result<u8, String> {
    let is_on_output = |path: &PathBuf| path.as_os_str() == OsStr::new("-");
    let to_output = arguments.json.as_ref().is_some_and(is_on_output);
    let mut json_file = match &arguments.json {
        Some(path) if !to_output => {
            Some(AtomicFile::create(path).map_err(|cause| cause.to_string())?)
        }
        _ => None,
    };
    let has_table = !to_output && arguments.need.is_empty();
    if arguments.watch.is_some() && has_table && io::stdout().is_terminal() {
        output("\x1b[H\x1b[2J")?;
    }
    let (mut seen, mut failure) = (Seen::default(), None);
    let mut emit = |mut state: State| {
        if let Some(bytes) = arguments.frame_size.filter(|_| !state.frame.is_known) {
            resize(&mut state, bytes);
        }
        let result = (|| {
            if arguments.json.is_some() {
                let line = format!("{}\n", json::state(&state));
                match &mut json_file {
                    Some(file) => file
                        .write_all(line.as_bytes())
                        .map_err(|cause| cause.to_string())?,
                    None => output(&line)?,
                }
            }
            if arguments.all && has_table {
                output(&format!("{}\n", terminal::state(&state)))?;
            }
            Ok(())
        })();
        failure = failure.take().or(result.err());
        seen.add(state);
    };
    let is_live = read(arguments, &mut emit)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Some(file) = json_file {
        file.finish().map_err(|cause| cause.to_string())?;
    }
    if has_table && !arguments.all {
        output(&seen.text())?;
    }
    if let Some(path) = &arguments.prometheus {
        let state = seen
            .last
            .as_ref()
            .ok_or("--prometheus: the input contains no state")?;
        let now = if is_live {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_secs())
        } else {
            0
        };
        let mut file = AtomicFile::create(path).map_err(|cause| cause.to_string())?;
        let text = prometheus::metrics(state, now);
        file.write_all(text.as_bytes())
            .and_then(|()| file.finish())
            .map_err(|cause| cause.to_string())?;
    }
    let nothing = State::default();
    let state = seen
        .last
        .as_ref()
        .or(seen.empty.as_ref())
        .unwrap_or(&nothing);
    let mut code = 0;
    for need in &arguments.need {
        let verdict = need::decide(state, need);
        if !to_output {
            match output(&format!("{}\n", verdict.line)) {
                // The exit code is the answer.
                Err(message) if message == CLOSED => {}
                result => result?,
            }
        }
        code = code.max(verdict.outcome.code());
    }
    Ok(code)
}

impl Seen {
    fn add(&mut self, state: State) {
        self.count += 1;
        if self.listed.len() < LISTED {
            let largest = explain::largest(&state).map_or("no table".to_owned(), |bytes| {
                format!("largest free block {}", size::shown(bytes))
            });
            self.listed
                .push(format!("{}; {largest}\n", explain::title(&state)));
        }
        if state.zones.is_empty() {
            self.empty = Some(state);
        } else {
            self.last = Some(state);
        }
    }

    /// Writes a list of all states, and the last one in full.
    fn text(&self) -> String {
        let mut text = String::new();
        if self.count > 1 {
            text.push_str(&format!(
                "{} reports and states; the last one is shown in full (--all shows every one):\n",
                self.count
            ));
            for line in &self.listed {
                text.push_str("  ");
                text.push_str(line);
            }
            let rest = self.count - self.listed.len() as u64;
            if rest > 0 {
                text.push_str(&format!("  and {rest} more\n"));
            }
            text.push('\n');
        }
        if let Some(state) = self.last.as_ref().or(self.empty.as_ref()) {
            text.push_str(&terminal::state(state));
        }
        text
    }
}

/// Reads all inputs. Returns `true` if the state is that of this machine.
fn read(arguments: &Arguments, emit: &mut dyn FnMut(State)) -> Result<bool, String> {
    if arguments.files.is_empty() {
        emit(live::read(Path::new("/proc")).map_err(|cause| cause.to_string())?);
        return Ok(true);
    }
    let count = std::cell::Cell::new(0u64);
    let mut counted = |state| {
        count.set(count.get() + 1);
        emit(state);
    };
    let (mut reader, mut refused) = (Reader::new(&mut counted), Vec::new());
    let mut folders = Vec::new();
    for path in &arguments.files {
        let name = path.display().to_string();
        if path.is_dir() {
            folders.push(live::read(path).map_err(|cause| cause.to_string())?);
            continue;
        }
        let summary = if path.as_os_str() == OsStr::new("-") {
            reader.read("standard input", io::stdin().lock())
        } else {
            File::open(path).and_then(|file| reader.read(&name, file))
        };
        let summary = summary.map_err(|cause| format!("{name}: {cause}"))?;
        if let Some(reason) = summary.encoding {
            refused.push(format!("{name}: {reason}"));
        }
        if summary.cut_lines > 0 {
            refused.push(format!(
                "{name}: {} lines were longer than 1 MiB: their rest was skipped",
                summary.cut_lines
            ));
        }
    }
    reader.finish();
    for state in folders {
        counted(state);
    }
    if count.get() == 0 {
        let first = arguments.files[0].display();
        return Err(refused.into_iter().next().unwrap_or_else(|| {
            format!(
                "{first}: no state of memory found. Pass a copy of /proc/buddyinfo or zoneinfo, or a log with a \
                 report of the kernel (\"Mem-Info:\")"
            )
        }));
    }
    for line in refused {
        let _ = writeln!(io::stderr(), "note: {line}");
    }
    Ok(false)
}

/// Sets the size of a frame. A log states sizes in KiB, which were converted with another one.
fn resize(state: &mut State, bytes: u64) {
    if state.has(crate::state::Kind::Log) {
        let former = state.frame.bytes;
        for zone in &mut state.zones {
            for frames in zone.logged_sizes() {
                *frames = frames.map(|frames| frames.saturating_mul(former) / bytes);
            }
        }
    }
    state.frame = FrameSize {
        bytes,
        is_known: true,
    };
}

/// The reader of standard output has closed the pipe. This error is not a failure.
const CLOSED: &str = "";

/// Writes to standard output.
fn output(text: &str) -> Result<(), String> {
    let mut stream = io::stdout().lock();
    match stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush())
    {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Err(CLOSED.to_owned()),
        Err(cause) => Err(format!("standard output: {cause}")),
        Ok(()) => Ok(()),
    }
}
