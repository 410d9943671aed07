//! Observers of the manager, while it goes from function to function.
//!
//! # Purpose
//!
//! Counting and sampling don't cost a run that is neither: what watches is a type.
//!
//! # Invariants
//!
//! A watcher hears of every change of the function that runs, in order.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::emulation::counting::accesses;
use crate::emulation::function::{Function, Table};

/// Hears which function runs.
pub trait Watch {
    /// Called when `from` calls or returns to `to`.
    fn switch(&mut self, from: Function, to: Function);
}

/// Hears nothing.
#[derive(Debug, Default)]
pub struct Nobody;

impl Watch for Nobody {
    #[inline(always)]
    fn switch(&mut self, _: Function, _: Function) {}
}

/// Counts the steps of each function itself, without those that it calls. For stores on
/// [`Counting`](crate::emulation::counting::Counting).
#[derive(Debug)]
pub struct Steps {
    steps: Table,
    last: u64,
}

impl Steps {
    /// Begins with the steps from now on.
    pub fn new() -> Self {
        Self {
            steps: Table::default(),
            last: accesses(),
        }
    }

    /// Returns the steps of each function.
    pub fn table(&self) -> Table {
        self.steps
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch for Steps {
    #[inline]
    fn switch(&mut self, from: Function, _: Function) {
        let now = accesses();
        self.steps.add(from, now - self.last);
        self.last = now;
    }
}

/// Leaves a note of the function that runs, for [`sample`].
#[derive(Debug)]
pub struct Note<'n>(&'n AtomicU8);

impl Watch for Note<'_> {
    #[inline(always)]
    fn switch(&mut self, _: Function, to: Function) {
        // Relaxed: nothing else is told by it.
        self.0.store(to as u8, Ordering::Relaxed);
    }
}

/// How often a sample is taken: as `gprof` does.
pub const EVERY: Duration = Duration::from_millis(10);

/// What a sampled run took.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// What the thread had of a processor, as the paper's profiler counts; where the system doesn't tell, from
    /// beginning to end.
    pub time: Duration,
    /// How often each function itself was found running.
    pub samples: Table,
}

/// Returns how long this thread has run on a processor, if the system tells (Linux does): what other programs take of
/// a busy machine is not in it.
fn processor_time() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = told.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Runs something while another thread looks every 10 ms which function runs. Costs the run a store at each call and
/// return.
pub fn sample<R>(run: impl FnOnce(Note<'_>) -> R) -> (R, Sampled) {
    let note = AtomicU8::new(Function::Test as u8);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = Table::default();
            // Relaxed: the samples are handed over by joining the thread.
            while !done.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                let at = usize::from(note.load(Ordering::Relaxed));
                samples.add(Function::ALL[at % Function::COUNT], 1);
            }
            samples
        });
        let (start, wall) = (processor_time(), Instant::now());
        let result = run(Note(&note));
        let time = match start.zip(processor_time()) {
            Some((start, end)) if end > start => end - start,
            _ => wall.elapsed(),
        };
        done.store(true, Ordering::Relaxed);
        let samples = sampler.join().unwrap_or_default();
        (result, Sampled { time, samples })
    })
}
