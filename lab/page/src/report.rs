//! The data of the page of a comparison.
//!
//! The page can be built and tested without allocators. The measuring program fills in a [`Report`]; the page depends
//! on these types only.
//!
//! # Invariants
//! Times are in nanoseconds, shares are fractions from 0 to 1, and memory is counted in frames of 4 KiB. A missing
//! number is `None`, or `f64::NAN` where a list must keep its length. The page shows nothing for it, never a zero.

mod map;
mod statistics;
mod system;
mod table;

use serde::Serialize;

pub use map::{FREE, LISTED, Map, MapRun, OWNERS};
pub use statistics::{Bin, LiveSample, OrderShare, Quantiles, RunLengths, Share, Statistics};
pub use system::{Latency, OverTrace, Samples, System, Window};
pub use table::{Answer, Column, Table};

/// The contents of the page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// The command line that produced it.
    pub command: String,
    /// The date, formatted for readers.
    pub date: String,
    /// The program's version, with the commit if known.
    pub version: String,
    /// The machine of the measurement.
    pub machine: Machine,
    /// The resolution of single times in nanoseconds (the timer's spread): shorter times are not distinguished.
    pub timer_floor_ns: f64,
    /// The seed of the order in which the systems took turns.
    pub seed: u64,
    /// The number of repetitions of each timed pass.
    pub rounds: u32,
    /// The traces, in the order of the tabs. Names may repeat.
    pub traces: Vec<Trace>,
}

/// The machine of a measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// The model of the processor; empty if unknown.
    pub processor: String,
    /// The number of CPUs that the program could use; 0 if unknown.
    pub cores: u32,
    /// The kernel and its release; empty if unknown.
    pub kernel: String,
    /// A sentence about the load of the machine and the reliability of the numbers.
    pub quiet: String,
    /// Whether other programs were running: the page then shows that sentence as a warning.
    pub was_busy: bool,
}

/// A trace and the results of all systems on it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trace {
    /// The name: any name that a user may give to a file.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
    /// The maximum number of frames in use.
    pub peak_frames: u64,
    /// The number of frames that the systems managed; 0 if there are no systems.
    pub managed_frames: u64,
    /// The number of CPUs of the replay, or of the trace if there are no systems.
    pub cpus: u32,
    /// The number of threads of the replay; a single thread never contends. 0 if there are no systems.
    pub threads: u32,
    /// A sentence about the assignment of calls to CPUs, the preparation of memory, and similar conditions.
    pub dealt: String,
    /// The statistics of the trace.
    pub statistics: Statistics,
    /// The owners of frames, by index from 1 in the maps: programs by name, at most [`OWNERS`].
    pub owners: Vec<String>,
    /// The systems. If there are none, the page shows the trace's statistics alone.
    pub systems: Vec<System>,
    /// The table of the systems.
    pub table: Table,
    /// Which of the systems no other one beats; `None` if there is nothing to choose.
    #[serde(skip)]
    pub answer: Option<Answer>,
}
