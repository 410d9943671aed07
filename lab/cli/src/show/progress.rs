//! A progress bar with an estimate of the remaining time.
//!
//! A comparison takes longer than users wait without a sign of progress. If standard error is not a terminal, a line
//! per minute replaces the bar.
//!
//! # Invariants
//! Several threads may draw the bar. While times are measured only one does, between passes.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::{self, Stream, is_terminal};

/// The time between two lines, where no bar is visible.
const BETWEEN: Duration = Duration::from_secs(60);

/// A progress bar on standard error, or lines if that is not a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// The number of all passes.
    passes: u64,
    /// Whether lines replace the bar.
    speaks: bool,
    state: Mutex<State>,
}

/// How far the work is.
#[derive(Debug)]
struct State {
    /// The current activity.
    what: String,
    /// Passes that have ended.
    ended: u64,
    begun: Instant,
    /// The time of the last line.
    said: Instant,
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
    /// Creates a bar for passes that all take about as long.
    pub fn new(passes: u64) -> Progress {
        Progress::weighted(passes, passes)
    }

    /// Creates a bar for passes with different weights, whose sum is `weight`. The estimate follows from the weights of
    /// those that have ended.
    pub fn weighted(passes: u64, weight: u64) -> Progress {
        let bar = bar(Some(weight), "{msg} {bar:30} {prefix} passes, {eta} left");
        bar.set_prefix(format!("0/{passes}"));
        let now = Instant::now();
        let state = State {
            what: String::new(),
            ended: 0,
            begun: now,
            said: now,
        };
        Progress {
            speaks: bar.is_hidden() && !output::is_captured(),
            bar,
            passes,
            state: Mutex::new(state),
        }
    }

    /// Shows the current activity.
    pub fn says(&self, what: &str) {
        self.bar.set_message(what.to_string());
        self.with(|state| state.what = what.to_string());
    }

    /// Records a completed pass.
    pub fn step(&self) {
        self.step_of(1);
    }

    /// Records a completed pass of this weight.
    pub fn step_of(&self, weight: u64) {
        let line = self.with(|state| {
            state.ended += 1;
            self.bar
                .set_prefix(format!("{}/{}", state.ended, self.passes));
            self.bar.inc(weight);
            let is_due = self.speaks && state.said.elapsed() >= BETWEEN;
            is_due.then(|| {
                state.said = Instant::now();
                self.line(state)
            })
        });
        if let Some(line) = line {
            output::note(&line);
        }
    }

    /// Describes how far the work is, with an estimate.
    fn line(&self, state: &State) -> String {
        let (ended, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let each = state.begun.elapsed().as_secs_f64() / ended.max(1) as f64;
        let left = each * all.saturating_sub(ended) as f64 / 60.0;
        format!(
            "{}: {} of {} passes, about {left:.0} min left",
            state.what, state.ended, self.passes
        )
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_from_weights() {
        let progress = Progress::weighted(4, 100);
        progress.says("burst:in-order, bs");
        let left = |progress: &Progress| {
            let minute = Duration::from_secs(60);
            let begun = Instant::now()
                .checked_sub(minute)
                .unwrap_or_else(Instant::now);
            progress.with(|state| {
                state.begun = begun;
                progress.line(state)
            })
        };
        progress.step_of(10);
        let line = left(&progress);
        assert_eq!(line, "burst:in-order, bs: 1 of 4 passes, about 9 min left");
        progress.step_of(40);
        assert!(left(&progress).ends_with("2 of 4 passes, about 1 min left"));
    }
}
