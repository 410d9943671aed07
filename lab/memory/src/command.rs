//! The command line of `everybuddy memory` and of the program `everybuddy-memory`.
//!
//! # Purpose
//!
//! Both programs have the same options, the same output and the same exit codes.
//!
//! # Invariants
//!
//! Results go to standard output, messages to standard error. Exit codes other than 0 and 2 come from `--need` alone.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::Value;

use crate::files::{self, Inputs};
use crate::live::Depth;
use crate::need::{self, Need};
use crate::show::atomic::AtomicFile;
use crate::show::{html, json, prometheus, terminal};
use crate::state::State;
use crate::{explain, size};

/// The maximum number of reports that are listed before the last one.
const LISTED: usize = 1000;

/// Show which large blocks a machine has, from /proc, or from copies and logs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everybuddy memory                               this machine (as root: frame by frame)
  everybuddy memory dmesg.txt                     the reports of a log, such as the OOM killer's
  everybuddy memory buddyinfo zoneinfo            copies of files in /proc
  everybuddy memory zoneinfo iomem kpageflags.gz  the same, with the frames that root copied
  everybuddy memory /host/proc                    another folder with these files
  everybuddy memory --need 200x32MiB,zone=Normal  one line and an exit code

Exit codes: 0 success, or the blocks of --need are free; 1 they need pages to be moved, or page
cache to be dropped; 2 error in usage, input or files; 3 they are not available; 4 the input
cannot tell.")]
pub struct Arguments {
    /// Read these files: logs, copies of /proc, a folder of them, or `-` for standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Decide whether blocks are there: `200x32MiB,zone=Normal,node=0`
    #[arg(long, value_name = "BLOCKS")]
    need: Vec<Need>,

    /// Show every report of a log in full, not only the last one
    #[arg(long)]
    all: bool,

    /// Read only the tables, not the flags of all frames, which take longer
    #[arg(long)]
    tables: bool,

    /// Set the size of a frame where the input does not reveal it
    #[arg(long, value_name = "SIZE", value_parser = frame_size)]
    frame_size: Option<u64>,

    /// Write JSON lines, an object per state; `-` is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with the answers and a map of memory
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write metrics for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,

    /// Repeat at this interval
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    watch: Option<u32>,
}

impl Arguments {
    /// Returns what the outputs need. Holders are named in the table, in JSON and on the page.
    fn depth(&self) -> Depth {
        if self.tables {
            return Depth::Tables;
        }
        let names_holders = self.need.is_empty() || self.json.is_some() || self.html.is_some();
        if names_holders {
            Depth::Holders
        } else {
            Depth::Frames
        }
    }
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

/// What takes all states of a run, as `--json` writes them. Its error ends the command.
pub type Export<'e> = dyn FnMut(&[Value]) -> Result<(), String> + 'e;

/// Runs the command and returns its exit code.
///
/// # Errors
///
/// Fails with a message if a file cannot be read or written, or contains nothing.
pub fn run(arguments: &Arguments) -> Result<u8, String> {
    run_with(arguments, None)
}

/// The same, with one more output, which is written as often as the others.
///
/// # Errors
///
/// Like [`run`], and that of `export`.
pub fn run_with(arguments: &Arguments, mut export: Option<&mut Export<'_>>) -> Result<u8, String> {
    loop {
        let code = match once(arguments, export.as_deref_mut()) {
            Err(message) if message == CLOSED => return Ok(0),
            result => result?,
        };
        let Some(seconds) = arguments.watch else {
            return Ok(code);
        };
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    }
}

fn once(arguments: &Arguments, export: Option<&mut Export<'_>>) -> Result<u8, String> {
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
    let (mut seen, mut failure, mut values) = (Seen::default(), None, Vec::new());
    let mut emit = |state: State, _| {
        let result = (|| {
            if export.is_some() {
                values.push(json::state(&state));
            }
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
    let inputs = Inputs {
        files: &arguments.files,
        depth: arguments.depth(),
        frame_size: arguments.frame_size,
    };
    let is_live = files::read(&inputs, &mut emit)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Some(export) = export {
        export(&values)?;
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
        write(path, &prometheus::metrics(state, now))?;
    }
    if let Some(path) = &arguments.html {
        let state = seen
            .last
            .as_ref()
            .ok_or("--html: the input contains no state")?;
        write(path, &html::page(state))?;
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

/// Writes a complete file, or leaves the former one.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let mut file = AtomicFile::create(path).map_err(|cause| cause.to_string())?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.finish())
        .map_err(|cause| cause.to_string())
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
