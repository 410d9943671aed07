//! Requests to terminate: Ctrl-C and signals.
//!
//! A recording ends properly when the user ends it, and a file that is about to appear leaves no temporary file.
//!
//! # Invariants
//! Unless a [`Hold`] exists, the signals terminate the program as if it had no handlers. Of several, the last one that
//! ends lets them. Signals that the program's parent told it to ignore stay ignored.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;

/// The signals that ask the program to terminate.
const SIGNALS: &[i32] = &[
    SIGINT,
    SIGTERM,
    #[cfg(unix)]
    SIGHUP,
];

/// The state that the handlers read and write.
#[derive(Debug)]
struct State {
    /// Whether a signal terminates the program.
    is_deadly: Arc<AtomicBool>,
    /// The last signal; 0 if none arrived.
    last: Arc<AtomicUsize>,
    /// How many [`Hold`]s exist.
    holds: Mutex<usize>,
}

impl State {
    fn last(&self) -> Option<i32> {
        let signal = self.last.load(Ordering::SeqCst) as i32;
        (signal != 0).then_some(signal)
    }

    fn holds(&self) -> MutexGuard<'_, usize> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Installs the handlers, once per program.
fn state() -> io::Result<&'static State> {
    static STATE: OnceLock<State> = OnceLock::new();
    if let Some(state) = STATE.get() {
        return Ok(state);
    }
    let state = State {
        is_deadly: Arc::new(AtomicBool::new(true)),
        last: Arc::new(AtomicUsize::new(0)),
        holds: Mutex::new(0),
    };
    for signal in SIGNALS.iter().filter(|signal| !is_ignored(**signal)) {
        flag::register_conditional_default(*signal, Arc::clone(&state.is_deadly))?;
        flag::register_usize(*signal, Arc::clone(&state.last), *signal as usize)?;
    }
    Ok(STATE.get_or_init(|| state))
}

/// Returns `true` if the program's parent told it to ignore a signal, as `nohup` and shells in scripts do.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.unwrap_or(0) & (1 << (signal - 1)) != 0
}

/// While this value exists, signals are remembered instead of terminating the program.
#[derive(Debug)]
pub(crate) struct Hold(&'static State);

impl Hold {
    /// Starts to remember signals.
    ///
    /// # Errors
    /// Returns an error if the operating system rejects the handlers.
    pub(crate) fn new() -> io::Result<Hold> {
        let state = state()?;
        let mut holds = state.holds();
        if *holds == 0 {
            state.last.store(0, Ordering::SeqCst);
            state.is_deadly.store(false, Ordering::SeqCst);
        }
        *holds += 1;
        drop(holds);
        Ok(Hold(state))
    }

    /// Returns the last signal that arrived.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.0.last()
    }

    /// Lets signals terminate the program again, unless there is another one. Returns the last signal that did not
    /// terminate it; `None` if another one is there, which has to act on it.
    fn end(self) -> Option<i32> {
        let state = self.0;
        drop(self);
        if *state.holds() > 0 {
            return None;
        }
        // Read last: a signal that arrives in between terminates the program by itself.
        state.last()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = self.0.holds();
        *holds -= 1;
        if *holds == 0 {
            self.0.is_deadly.store(true, Ordering::SeqCst);
        }
    }
}

/// Performs short work that a signal must not interrupt; the signal terminates the program afterwards.
pub(crate) fn deferred<T>(work: impl FnOnce() -> T) -> T {
    // Without handlers, as on a system that rejects them, the work can be interrupted.
    let hold = Hold::new().ok();
    let result = work();
    if let Some(signal) = hold.and_then(Hold::end) {
        // Does not return, except for a signal that is unknown here.
        let _ = emulate_default_handler(signal);
    }
    result
}

/// Performs long work. If a signal arrives meanwhile, calls `interrupted` on another thread while the work goes on, and
/// the signal then terminates the program.
pub(crate) fn interruptible<T>(interrupted: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    /// How often to look for a signal.
    const LOOK: Duration = Duration::from_millis(100);
    // Without handlers, the work is interrupted without a word.
    let Ok(hold) = Hold::new() else {
        return work();
    };
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let hold = &hold;
        scope.spawn(move || {
            while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if let Some(signal) = hold.signal() {
                    interrupted();
                    // Does not return, except for a signal that is unknown here.
                    let _ = emulate_default_handler(signal);
                    return;
                }
            }
        });
        let result = work();
        // A signal after the last look came when the work was done: its results are about to be printed.
        drop(ended);
        result
    })
}
