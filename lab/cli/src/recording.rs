//! Waits for the end of a recording: the end of the command, a time limit, or an interrupt.
//!
//! A recording ends properly, whichever of these comes first.
//!
//! # Invariants
//! While waiting, only a flag and, on a terminal, the counters of the buffers are polled, so that the recorded
//! programs are not disturbed.

use std::env;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use everybuddy_record::record::{RecordError, Recorder, terminate};
use everybuddy_trace::files;

use crate::show::live::Live;
use crate::signals::Hold;
use everybuddy_measure::Error;

/// The interval for polling the flag and drawing the live line.
const TICK: Duration = Duration::from_millis(200);

/// The time that a command has to terminate after the request.
const GRACE: Duration = Duration::from_secs(2);

/// Whether termination was requested by Ctrl-C or a signal. Once it is dropped, because nothing is left to clean up,
/// signals terminate the program.
#[derive(Debug)]
pub struct Stop {
    hold: Hold,
}

impl Stop {
    /// Installs signal handlers that end the recording instead of the program.
    ///
    /// # Errors
    /// Returns an error if the operating system rejects the handlers.
    pub fn on_signals() -> Result<Stop, Error> {
        match Hold::new() {
            Ok(hold) => Ok(Stop { hold }),
            Err(error) => Err(Error::usage(format!(
                "failed to install signal handlers: {error}"
            ))),
        }
    }

    /// Returns `true` if termination was requested.
    pub fn is_asked(&self) -> bool {
        self.hold.signal().is_some()
    }
}

/// The result of waiting for a command, and its time.
type Exit = (std::io::Result<ExitStatus>, Instant);

/// A command that was still running at the end of its recording.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    exits: Receiver<Exit>,
}

impl Running {
    /// Asks the command to terminate and waits briefly; returns its process id if it continues.
    pub fn end(&self) -> Option<u32> {
        // Ctrl-C also reaches the command, which may need a moment.
        if self.exits.recv_timeout(TICK).is_ok() {
            return None;
        }
        terminate(self.pid);
        self.exits.recv_timeout(GRACE).is_err().then_some(self.pid)
    }
}

/// The end of a recording.
#[derive(Debug)]
pub struct Ended {
    /// The duration of the recording.
    pub after: Duration,
    /// The exit status of the command; `None` if it was still running, or if there was none.
    pub status: Option<ExitStatus>,
    /// The command, if it was still running.
    pub running: Option<Running>,
}

/// Records a command until it ends, the time limit is reached, or termination is requested.
///
/// # Errors
/// Returns an error if the command cannot be started.
pub fn command(
    recorder: &mut Recorder,
    command: &mut Command,
    limit: Option<Duration>,
    stop: &Stop,
    live: &Live,
) -> Result<Ended, Error> {
    let begin = Instant::now();
    let child = recorder.start(command).map_err(Error::recording)?;
    let pid = child.id();
    let exits = wait_beside(child)?;
    loop {
        match exits.recv_timeout(next_tick(begin, limit)) {
            Ok((status, at)) => {
                let status = status.map_err(|cause| {
                    Error::recording(RecordError::NoCommand {
                        program: command.get_program().to_string_lossy().into_owned(),
                        cause,
                    })
                })?;
                recorder.settle();
                let after = at.duration_since(begin);
                return Ok(Ended {
                    after,
                    status: Some(status),
                    running: None,
                });
            }
            Err(_) if is_over(recorder, begin, limit, stop, live) => {
                let running = Some(Running { pid, exits });
                return Ok(Ended {
                    after: begin.elapsed(),
                    status: None,
                    running,
                });
            }
            Err(_) => {}
        }
    }
}

/// Records the whole machine until the time limit is reached or termination is requested.
///
/// # Errors
/// Returns an error if the kernel rejects an operation.
pub fn machine(
    recorder: &mut Recorder,
    limit: Option<Duration>,
    stop: &Stop,
    live: &Live,
) -> Result<Ended, Error> {
    recorder.start_machine().map_err(Error::recording)?;
    let begin = Instant::now();
    while !is_over(recorder, begin, limit, stop, live) {
        thread::sleep(next_tick(begin, limit));
    }
    Ok(Ended {
        after: begin.elapsed(),
        status: None,
        running: None,
    })
}

/// Waits for a child process on a separate thread, so that its end is known to the microsecond.
fn wait_beside(mut child: Child) -> Result<Receiver<Exit>, Error> {
    let (tell, exits) = channel();
    let wait = move || {
        let status = child.wait();
        // The receiver is gone if the program is about to end.
        let _ = tell.send((status, Instant::now()));
    };
    let spawned = thread::Builder::new().name("wait".to_string()).spawn(wait);
    let spawned = spawned.map_err(|error| Error::usage(format!("failed to spawn thread: {error}")));
    spawned.map(|_| exits)
}

/// Returns the time until the next poll.
fn next_tick(begin: Instant, limit: Option<Duration>) -> Duration {
    let left = limit.map_or(TICK, |limit| limit.saturating_sub(begin.elapsed()));
    left.min(TICK)
}

/// Draws the live line. Returns `true` if the recording must end.
fn is_over(
    recorder: &Recorder,
    begin: Instant,
    limit: Option<Duration>,
    stop: &Stop,
    live: &Live,
) -> bool {
    if live.is_shown() {
        let progress = recorder.progress();
        live.recording(begin.elapsed(), progress.events, progress.bytes);
    }
    stop.is_asked() || recorder.has_failed() || limit.is_some_and(|limit| begin.elapsed() >= limit)
}

/// Gives ownership of a trace's files to the user who called `sudo`, who could not delete root's files.
pub fn give_to_user(trace: &Path) {
    let number = |name| env::var(name).ok().and_then(|id| id.parse().ok());
    let (Some(user), Some(group)) = (number("SUDO_UID"), number("SUDO_GID")) else {
        return;
    };
    for file in files(trace) {
        // Not every trace has all files, and not every file system has owners.
        let _ = chown(file, Some(user), Some(group));
    }
}
