//! A progress bar with an estimate of the remaining time.
//!
//! A comparison takes longer than users wait without a sign of progress.
//!
//! # Invariants
//! Several threads may draw the bar. While times are measured only one does, between passes.

use std::fs::File;
use std::io::{Read, Seek};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::{Stream, is_terminal};

/// A progress bar on standard error; invisible if that is not a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

/// Shows the progress of reading a file while the returned value exists.
pub fn watched(file: File) -> impl Read + Seek {
    let length = file.metadata().map_or(0, |about| about.len());
    bar(
        Some(length),
        "{bar:30} {bytes} of {total_bytes}, {eta} left",
    )
    .wrap_read(file)
}

pub(super) fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    let target = if is_terminal(Stream::Errors) {
        ProgressDrawTarget::stderr_with_hz(5)
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(length, target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar
}

impl Progress {
    /// Creates a bar for `steps` steps.
    pub fn new(steps: u64) -> Progress {
        let bar = bar(Some(steps), "{msg} {bar:30} {pos}/{len} passes, {eta} left");
        Progress { bar }
    }

    /// Shows the current activity.
    pub fn says(&self, what: &str) {
        self.bar.set_message(what.to_string());
    }

    /// Records a completed step.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Hides the bar while `act` runs, for example to write to the same terminal.
    pub fn hidden<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    /// Removes the bar.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
