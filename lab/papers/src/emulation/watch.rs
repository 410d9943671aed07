//! Observers of the manager's control flow.
//!
//! The observer is a type, so counting and sampling cost nothing in a run without them.
//!
//! # Invariants
//! An observer is notified of every change of the running function, in order.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::emulation::counting::accesses;
use crate::emulation::function::{Function, Table};

/// Is notified of the running function.
pub trait Watch {
    /// Called when `from` calls or returns to `to`.
    fn switch(&mut self, from: Function, to: Function);
}

/// Ignores all notifications.
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
    most: Table,
    last: u64,
}

impl Steps {
    /// Starts counting steps from now on.
    pub fn new() -> Self {
        Self {
            steps: Table::default(),
            most: Table::default(),
            last: accesses(),
        }
    }

    /// Returns the steps of each function.
    pub fn table(&self) -> Table {
        self.steps
    }

    /// Returns the largest number of steps of each function without another call in between: of a whole call, if the
    /// function calls no other.
    pub fn most(&self) -> Table {
        self.most
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
        self.most.raise(from, now - self.last);
        self.last = now;
    }
}

/// Publishes the running function for [`sample`].
#[derive(Debug)]
pub struct Note<'n>(&'n AtomicU8);

impl Watch for Note<'_> {
    #[inline(always)]
    fn switch(&mut self, _: Function, to: Function) {
        // Relaxed: no other data depends on it.
        self.0.store(to as u8, Ordering::Relaxed);
    }
}

/// The sampling interval, as in `gprof`.
pub const EVERY: Duration = Duration::from_millis(10);

/// The results of a sampled run.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// The processor time of the thread, as in the paper's profiler; the elapsed time if the system does not report it.
    pub time: Duration,
    /// The number of samples in each function itself.
    pub samples: Table,
}

/// Returns the processor time of this thread if the system reports it (Linux does). It excludes the time of other
/// programs on a busy machine.
fn processor_time() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = told.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Runs `run` while another thread samples the running function every 10 ms. Costs a store at each call and return.
pub fn sample<R>(run: impl FnOnce(Note<'_>) -> R) -> (R, Sampled) {
    let note = AtomicU8::new(Function::Test as u8);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = Table::default();
            // Relaxed: the samples are passed by joining the thread.
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
