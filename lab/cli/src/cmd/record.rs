//! `everybuddy record`: records a trace of your own program, or only its waits for zones' locks.
//!
//! "Which allocator for this program?" takes two commands: record, compare.
//!
//! # Invariants
//! The trace appears completely or not at all, and no file is replaced without `--force`. All messages go to standard
//! error, since standard output belongs to the recorded command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use everybuddy_record::record::{Contents, RecordError, RecordOptions, Recorder, can_record};
use everybuddy_trace::PAGE_SHIFT;

use crate::export::write_trace;
use crate::recording::{self, Running, Stop};
use crate::show::live::Live;
use crate::show::{output, recorded};
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::size::Size;

/// Record page-allocator calls of a command or of the whole machine, or only its waits.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/record.txt"))]
pub(super) struct Arguments {
    /// Run and record this command; separate it by --
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,

    /// Write the trace to this file [default: COMMAND.parquet]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Stop after N seconds; without a command, record the whole machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,

    /// Set the size of both kernel buffers per CPU [default: by memory size]
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Size>,

    /// Run the command twice, untraced and then recorded, and report both run times
    #[arg(long)]
    overhead: bool,

    /// Leave out the waits for the zone's lock
    #[arg(long)]
    no_locks: bool,

    /// Record only the waits for the zone's lock: no calls, no processes
    #[arg(long, conflicts_with = "no_locks")]
    contended: bool,

    /// Replace an existing trace
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let path = check(&arguments)?;
    can_record().map_err(Error::recording)?;
    let stop = Stop::on_signals()?;
    let untraced = if arguments.overhead {
        Some(run_untraced(&arguments.command)?)
    } else {
        None
    };
    if stop.is_asked() {
        return Err(Error::usage(
            "interrupted before the recording started; no file was written",
        ));
    }

    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let mut recorder = Recorder::new(&RecordOptions {
        buffer_bytes: arguments.buffer.map(|size| size.frames << PAGE_SHIFT),
        folder,
        contents: contents(&arguments),
    })
    .map_err(Error::recording)?;
    for missing in recorder.missing() {
        let (tracepoint, lacking) = (missing.tracepoint, missing.lacking);
        output::note(&format!(
            "this kernel lacks the tracepoint {tracepoint}; the trace will not contain {lacking}"
        ));
    }
    let limit = arguments
        .seconds
        .map(|seconds| Duration::from_secs(u64::from(seconds)));
    let live = Live::new();
    let ended = if arguments.command.is_empty() {
        recording::machine(&mut recorder, limit, &stop, &live)?
    } else {
        recording::command(&mut recorder, &mut command(&arguments), limit, &stop, &live)?
    };
    live.done();
    let finishing = Instant::now();
    let taken = recorder.stop().map_err(Error::recording)?;
    let goes_on = ended.running.as_ref().and_then(Running::end);
    drop(stop);

    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let bar = Live::of_steps("sorting events", taken.cost().events);
    let made = taken
        .assemble(&name, |done| bar.at(done))
        .map_err(Error::recording)?;
    bar.done();
    let trace = &made.assembled.trace;
    if trace.events.is_empty() && !arguments.contended {
        return Err(Error::usage(
            "nothing was recorded because no recorded task allocated memory; no file was written",
        ));
    }
    write_trace(trace, &path)?;
    recording::give_to_user(&path);
    let summary = recorded::Summary {
        path: &path,
        made: &made,
        after: ended.after,
        status: ended.status,
        was_running: ended.running.is_some(),
        finishing: finishing.elapsed(),
        untraced,
    };
    output::aside(&summary.text())?;
    if let Some(pid) = goes_on {
        output::note(&format!("process {pid} continues unrecorded"));
    }
    Ok(())
}

/// Checks the arguments before anything runs, and returns the file to write.
fn check(arguments: &Arguments) -> Result<PathBuf, Error> {
    let program = arguments.command.first();
    let is_machine = program.is_none();
    if is_machine && arguments.seconds.is_none() {
        return Err(Error::usage(
            "nothing to record\nhelp: pass a command, as in `everybuddy record -- make -j2`, or a \
             duration for the whole machine, as in `everybuddy record --seconds 10`",
        ));
    }
    if is_machine && arguments.overhead {
        return Err(Error::usage(
            "--overhead requires a command\nhelp: pass the command after --",
        ));
    }
    let path = match (&arguments.output, program) {
        (Some(path), _) => path.clone(),
        (None, Some(program)) => {
            let mut name = Path::new(program)
                .file_name()
                .unwrap_or(program)
                .to_os_string();
            name.push(".parquet");
            PathBuf::from(name)
        }
        (None, None) if arguments.contended => PathBuf::from("waits.parquet"),
        (None, None) => PathBuf::from("machine.parquet"),
    };
    library::check_output(&path, None)?;
    library::check_replaced(&path, arguments.force)?;
    Ok(path)
}

fn contents(arguments: &Arguments) -> Contents {
    match (arguments.contended, arguments.no_locks) {
        (true, _) => Contents::Waits,
        (false, true) => Contents::Calls,
        (false, false) => Contents::CallsAndWaits,
    }
}

fn command(arguments: &Arguments) -> Command {
    let mut command = Command::new(&arguments.command[0]);
    command.args(&arguments.command[1..]);
    command
}

/// Runs the command without recording, for comparison.
fn run_untraced(words: &[OsString]) -> Result<Duration, Error> {
    output::note("running the command twice: first untraced, then recorded");
    let begin = Instant::now();
    let (program, arguments) = (&words[0], &words[1..]);
    let status = Command::new(program).args(arguments).status();
    match status {
        Ok(_) => Ok(begin.elapsed()),
        Err(cause) => {
            let program = program.to_string_lossy().into_owned();
            Err(Error::recording(RecordError::NoCommand { program, cause }))
        }
    }
}
