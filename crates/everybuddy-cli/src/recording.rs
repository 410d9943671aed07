//! Waits for what is recorded: a command, a time, or somebody who has seen enough.
//!
//! Exists so that a recording ends in good order whichever of these comes first.
//!
//! Invariant: while this waits nothing is polled but a flag and, on a terminal, the counts of the
//! buffers: what is recorded is not disturbed.

use std::env;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use everybuddy_record::record::{RecordError, Recorder, terminate};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::show::live::Live;
use everybuddy_measure::Error;

/// How often the flag is looked at and the live line drawn.
const TICK: Duration = Duration::from_millis(200);

/// How long a command has to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Whether somebody has asked for the end: Ctrl-C, a signal.
#[derive(Debug)]
pub struct Stop {
    is_asked: Arc<AtomicBool>,
    /// From when on signals end the program as usual.
    is_over: Arc<AtomicBool>,
}

impl Stop {
    /// Has signals ask for the end of the recording instead of ending the program.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn on_signals() -> Result<Stop, Error> {
        let stop = Stop {
            is_asked: Arc::new(AtomicBool::new(false)),
            is_over: Arc::new(AtomicBool::new(false)),
        };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let registered = flag::register_conditional_default(signal, Arc::clone(&stop.is_over))
                .and_then(|_| flag::register(signal, Arc::clone(&stop.is_asked)));
            registered
                .map_err(|error| Error::usage(format!("signals can't be caught: {error}")))?;
        }
        Ok(stop)
    }

    /// Says that nothing is left to clean up: from now on signals end the program.
    pub fn is_over(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns whether somebody has asked for the end.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

/// Result of waiting for a command, and when it came.
type Exit = (std::io::Result<ExitStatus>, Instant);

/// A command that was still running when its recording ended.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    exits: Receiver<Exit>,
}

impl Running {
    /// Asks the command to end, and waits a little; returns its number when it goes on.
    pub fn end(&self) -> Option<u32> {
        // Ctrl-C reaches the command as well, which may need a moment.
        if self.exits.recv_timeout(TICK).is_ok() {
            return None;
        }
        terminate(self.pid);
        self.exits.recv_timeout(GRACE).is_err().then_some(self.pid)
    }
}

/// How a recording ended.
#[derive(Debug)]
pub struct Ended {
    /// Time from its begin.
    pub after: Duration,
    /// What the command said in the end; `None` when it was still running, or there was none.
    pub status: Option<ExitStatus>,
    /// The command, when it was still running.
    pub running: Option<Running>,
}

/// Records a command until it ends, the time is over, or somebody asks.
///
/// # Errors
/// When the command can't be started.
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

/// Records the whole machine until the time is over, or somebody asks.
///
/// # Errors
/// When the kernel refuses.
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

/// Waits for a child on a thread of its own, so that its end is known to the microsecond.
fn wait_beside(mut child: Child) -> Result<Receiver<Exit>, Error> {
    let (tell, exits) = channel();
    let wait = move || {
        let status = child.wait();
        // Nobody listens any more when the program is about to end.
        let _ = tell.send((status, Instant::now()));
    };
    let spawned = thread::Builder::new().name("wait".to_string()).spawn(wait);
    let spawned = spawned.map_err(|error| Error::usage(format!("no thread to wait with: {error}")));
    spawned.map(|_| exits)
}

/// Returns how long to wait before looking again.
fn next_tick(begin: Instant, limit: Option<Duration>) -> Duration {
    let left = limit.map_or(TICK, |limit| limit.saturating_sub(begin.elapsed()));
    left.min(TICK)
}

/// Draws the live line, and says whether it is time to end.
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

/// Gives the files of a trace to whom `sudo` was called by: what root wrote they could not remove.
pub fn give_to_user(trace: &Path) {
    let number = |name| env::var(name).ok().and_then(|id| id.parse().ok());
    let (Some(user), Some(group)) = (number("SUDO_UID"), number("SUDO_GID")) else {
        return;
    };
    for file in ["parquet", "faults.parquet", "vmas.parquet"] {
        // Not every trace has all of them, and not every file system has owners.
        let _ = chown(trace.with_extension(file), Some(user), Some(group));
    }
}
