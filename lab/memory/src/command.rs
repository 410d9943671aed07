//! The command line of `everybuddy memory` and of the program `everybuddy-memory`.
//!
//! Both programs have the same options, the same output and the same exit codes.
//!
//! # Invariants
//! Results go to standard output, messages to standard error. Exit codes other than 0 and 2 come from `--need` alone.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Command};
use everybuddy_text::{Pending, size};
use serde_json::Value;

use crate::error::{MemoryError, Problem};
use crate::explain;
use crate::files::{self, Inputs};
use crate::history::{self, History, Moment};
use crate::live::{self, Depth};
use crate::need::{self, Need};
use crate::show::{self, html, json, prometheus, terminal};
use crate::state::State;

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
  everybuddy memory --every 60s -o history.jsonl  a line every minute, until it is ended
  everybuddy memory history.jsonl                 since when large blocks are missing, and what grew
  everybuddy memory --need 200x32MiB,zone=Normal  one line and an exit code

Exit codes: 0 success, or the blocks of --need are free; 1 they need pages to be moved, or page
cache to be dropped; 2 error in usage, input or files; 3 they are not available; 4 the input
cannot tell. In a log and in a history, the last report or line decides.")]
pub struct Arguments {
    /// Read logs, copies of /proc, a folder of them, or histories; `-` is standard input
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

    /// Write JSON lines, one per state; `-` is standard output, also below
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

    /// Append a line of JSON to FILE at this interval, such as 60s
    #[arg(long, value_name = "TIME", value_parser = interval, requires = "output", conflicts_with_all = [
        "files", "need", "all", "frame_size", "json", "html", "prometheus", "watch",
    ])]
    every: Option<Duration>,

    /// Append to this file
    #[arg(short, long, value_name = "FILE", requires = "every")]
    output: Option<PathBuf>,

    /// Begin a new file at this size; keep one as FILE.1
    #[arg(long, value_name = "SIZE", value_parser = file_size, default_value = "16MiB", requires = "every")]
    rotate: u64,
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

/// Returns the command line of the program `everybuddy-memory`.
#[must_use]
pub fn program() -> Command {
    Arguments::augment_args(Command::new("everybuddy-memory").version(env!("CARGO_PKG_VERSION")))
}

fn file_size(text: &str) -> Result<u64, String> {
    size::parse(text).ok_or_else(|| format!("`{text}` is not a size, such as 16MiB"))
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse();
    let minutes = text.strip_suffix('m').and_then(|text| text.parse().ok());
    let seconds = minutes
        .map(|minutes: u32| minutes.checked_mul(60))
        .unwrap_or(seconds.ok());
    let seconds = seconds.filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or_else(|| format!("`{text}` is not a time, such as 60s or 5m"));
    seconds.map(|seconds| Duration::from_secs(seconds.into()))
}

/// Appends a line at each interval, until the program is ended.
fn watch_over(path: &Path, every: Duration, rotate: u64) -> Result<u8, MemoryError> {
    loop {
        let state = live::read(Path::new("/proc"), Depth::Tables).map_err(Problem::from)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let moment = Moment::of(&state, now.map_or(0, |time| time.as_secs()));
        history::append(path, &moment.line(), rotate).map_err(|cause| not_written(path, cause))?;
        std::thread::sleep(every);
    }
}

/// Reads histories, and answers by their last moment.
fn recorded(arguments: &Arguments, has_export: bool) -> Result<u8, MemoryError> {
    let options = [
        ("--all", arguments.all),
        ("--tables", arguments.tables),
        ("--frame-size", arguments.frame_size.is_some()),
        ("--json", arguments.json.is_some()),
        ("--prometheus", arguments.prometheus.is_some()),
        ("--watch", arguments.watch.is_some()),
        ("this output", has_export),
    ];
    if let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Problem::NotOfHistory(option).into());
    }
    let (mut history, mut name) = (History::default(), String::new());
    for path in &arguments.files {
        name = path.display().to_string();
        if !history::is_history(path) {
            return Err(Problem::MixedHistory.of(name));
        }
        history.read(&fs::read(path).map_err(|cause| failed(path, cause))?);
    }
    let Some(last) = history.moments.last() else {
        return Err(Problem::NoMoment.of(name));
    };
    let state = last.state(&name, history.last_line);
    for note in history.notes() {
        let _ = writeln!(io::stderr(), "note: {name}: {note}");
    }
    let html = arguments.html.as_deref();
    let to_output = html.is_some_and(is_output);
    if !to_output && arguments.need.is_empty() {
        output(&show::history::text(&history))?;
    }
    if let Some(path) = html {
        write(
            path,
            &show::history::page(&history, &state, &arguments.need),
        )?;
    }
    decided(&state, &arguments.need, to_output)
}

/// Decides, and writes the verdicts unless another output has standard output. Returns the largest exit code.
fn decided(state: &State, needs: &[Need], is_quiet: bool) -> Result<u8, MemoryError> {
    let mut code = 0;
    for need in needs {
        let verdict = need::decide(state, need);
        if !is_quiet {
            match output(&format!("{}\n", verdict.line)) {
                // The exit code is the answer.
                Err(error) if error.is_closed() => {}
                result => result?,
            }
        }
        code = code.max(verdict.outcome.code());
    }
    Ok(code)
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

/// What takes all states of a run, as `--json` writes them. It may end the command.
pub type Export<'e> = dyn FnMut(&[Value]) -> ControlFlow<()> + 'e;

/// Runs the command and returns its exit code.
///
/// # Errors
///
/// Fails if a file cannot be read or written, or contains nothing.
pub fn run(arguments: &Arguments) -> Result<u8, MemoryError> {
    run_with(arguments, None)
}

/// The same, with one more output, which is written as often as the others.
///
/// # Errors
///
/// Like [`run`], and [`Problem::Stopped`] if `export` ends the command.
pub fn run_with(
    arguments: &Arguments,
    mut export: Option<&mut Export<'_>>,
) -> Result<u8, MemoryError> {
    if let (Some(every), Some(path)) = (arguments.every, &arguments.output) {
        return watch_over(path, every, arguments.rotate);
    }
    let has_history = arguments.files.iter().any(|path| history::is_history(path));
    loop {
        let result = if has_history {
            recorded(arguments, export.is_some())
        } else {
            once(arguments, export.as_deref_mut())
        };
        let code = match result {
            Err(error) if error.is_closed() => return Ok(0),
            result => result?,
        };
        let Some(seconds) = arguments.watch else {
            return Ok(code);
        };
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    }
}

fn once(arguments: &Arguments, export: Option<&mut Export<'_>>) -> Result<u8, MemoryError> {
    let outputs = [&arguments.json, &arguments.html, &arguments.prometheus];
    let to_output = outputs.into_iter().flatten().any(|path| is_output(path));
    let json_path = arguments.json.as_deref().filter(|path| !is_output(path));
    let mut json_file = json_path.map(create).transpose()?;
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
                match (&mut json_file, json_path) {
                    (Some(file), Some(path)) => {
                        file.write_all(line.as_bytes())
                            .map_err(|cause| failed(path, cause))?;
                    }
                    _ => output(&line)?,
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
    if export.is_some_and(|export| export(&values).is_break()) {
        return Err(Problem::Stopped.into());
    }
    if let Some((file, path)) = json_file.zip(json_path) {
        file.finish(&[]).map_err(|cause| failed(path, cause))?;
    }
    if has_table && !arguments.all {
        output(&seen.text())?;
    }
    if let Some(path) = &arguments.prometheus {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now
            .ok()
            .filter(|_| is_live)
            .map_or(0, |time| time.as_secs());
        write(
            path,
            &prometheus::metrics(seen.last_for("--prometheus")?, now),
        )?;
    }
    if let Some(path) = &arguments.html {
        write(path, &html::page(seen.last_for("--html")?, &arguments.need))?;
    }
    let nothing = State::default();
    let state = seen
        .last
        .as_ref()
        .or(seen.empty.as_ref())
        .unwrap_or(&nothing);
    // Nothing but rejected parts.
    let is_rejected = state.event.is_none() && state.zones.is_empty() && !state.remarks.is_empty();
    let code = if is_rejected { 2 } else { 0 };
    Ok(decided(state, &arguments.need, to_output)?.max(code))
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

    /// Returns the state that an output shows.
    fn last_for(&self, option: &str) -> Result<&State, MemoryError> {
        self.last.as_ref().ok_or_else(|| Problem::Empty.of(option))
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

fn failed(path: &Path, cause: io::Error) -> MemoryError {
    Problem::from(cause).of(path.display().to_string())
}

/// Returns why an output cannot be written. The system says only that something does not exist.
fn not_written(path: &Path, cause: io::Error) -> MemoryError {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let is_missing = folder.is_some_and(|folder| !folder.exists());
    if is_missing && cause.kind() == io::ErrorKind::NotFound {
        return Problem::NoFolder.of(path.display().to_string());
    }
    failed(path, cause)
}

fn create(path: &Path) -> Result<Pending, MemoryError> {
    Pending::create(path).map_err(|cause| not_written(path, cause))
}

/// Returns `true` if a path stands for standard output.
fn is_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a complete file, or leaves the former one.
fn write(path: &Path, text: &str) -> Result<(), MemoryError> {
    if is_output(path) {
        return output(text);
    }
    let finished = create(path)?.finish(text.as_bytes());
    finished.map_err(|cause| failed(path, cause))
}

/// Writes to standard output.
fn output(text: &str) -> Result<(), MemoryError> {
    let mut stream = io::stdout().lock();
    let written = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush());
    written.map_err(|cause| {
        let is_closed = cause.kind() == io::ErrorKind::BrokenPipe;
        let problem = if is_closed {
            Problem::Closed
        } else {
            cause.into()
        };
        problem.of("standard output")
    })
}
