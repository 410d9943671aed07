//! How long it will still take.
//!
//! Exists because a comparison takes longer than people wait without a sign.
//!
//! Invariant: drawn between passes only, by the thread that starts them: nothing runs beside what
//! is timed.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar with an estimate, on standard error; nothing where that is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

/// Watches a file while it is read, for as long as it is kept.
pub fn watched(file: File) -> impl Read + Seek {
    let length = file.metadata().map_or(0, |about| about.len());
    bar(length, "{bar:30} {bytes} of {total_bytes}, {eta} left").wrap_read(file)
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(5),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar
}

impl Progress {
    /// Begins something of so many steps.
    pub fn new(steps: u64) -> Progress {
        let bar = bar(steps, "{msg} {bar:30} {pos}/{len} passes, {eta} left");
        Progress { bar }
    }

    /// Says what is being done.
    pub fn says(&self, what: &str) {
        self.bar.set_message(what.to_string());
    }

    /// Notes that a step was done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Does something while the bar is hidden, such as writing to the same terminal.
    pub fn hidden<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    /// Removes the bar.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
