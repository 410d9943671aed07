//! A live status line for work without a known end, or without passes.
//!
//! A recording lasts as long as its command, and sorting its events may take as long again.
//!
//! # Invariants
//! Nothing is drawn or polled if standard error is not a terminal.

use std::time::Duration;

use indicatif::ProgressBar;

use super::output::{Stream, is_terminal};
use super::progress::bar;

use everybuddy_measure::size::{bytes, count};

/// A status line on standard error.
#[derive(Debug)]
pub struct Live {
    bar: ProgressBar,
    is_shown: bool,
}

impl Live {
    /// Creates a line for work without a known end.
    pub fn new() -> Live {
        Live::with(None, "{spinner} {msg}")
    }

    /// Creates a line for work of `steps` steps, with an estimate.
    pub fn of_steps(what: &str, steps: u64) -> Live {
        let live = Live::with(Some(steps), "{msg} {bar:30} {percent} %, {eta} left");
        live.bar.set_message(what.to_string());
        live
    }

    fn with(steps: Option<u64>, template: &str) -> Live {
        Live {
            bar: bar(steps, template),
            is_shown: is_terminal(Stream::Errors),
        }
    }

    /// Returns `true` if the line is visible.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Shows the progress of a recording.
    pub fn recording(&self, time: Duration, events: u64, moved: u64) {
        let (seconds, events, moved) = (time.as_secs(), count(events), bytes(moved as f64));
        self.bar
            .set_message(format!("recording: {seconds} s, {events} events, {moved}"));
        self.bar.tick();
    }

    /// Shows the number of completed steps.
    pub fn at(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Removes the line.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}

impl Default for Live {
    fn default() -> Live {
        Live::new()
    }
}
