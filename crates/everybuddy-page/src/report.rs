//! What the page shows, as plain data.
//!
//! Exists so that the page can be built and tested without allocators: whoever has measured something fills
//! in a [`Report`], and these types are all that the page knows.
//!
//! Invariant: times are nanoseconds, shares are fractions from 0 to 1, memory is counted in frames of 4 KiB.
//! A number that does not exist is `None`, or not a number (`f64::NAN`) where a list must keep its length:
//! the page then shows nothing, and never a zero.

mod map;
mod statistics;
mod system;

use serde::Serialize;

pub use map::{FREE, LISTED, Map, MapRun, OWNERS};
pub use statistics::{Bin, LiveSample, OrderShare, Quantiles, RunLengths, Share, Statistics};
pub use system::{Latency, OverTrace, Samples, System, Window};

/// Everything that the page shows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// The command line that made it.
    pub command: String,
    /// When it was made, as people write it.
    pub date: String,
    /// The program's version, with the commit where known.
    pub version: String,
    /// Where it was measured.
    pub machine: Machine,
    /// Times of single calls up to this can't be told from nothing, in nanoseconds: the timer's spread.
    pub timer_floor_ns: f64,
    /// The seed of the order in which systems took turns.
    pub seed: u64,
    /// How often each timed pass was repeated.
    pub rounds: u32,
    /// The traces, in the order of the tabs. Names need not differ.
    pub traces: Vec<Trace>,
}

/// The machine of a measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// The processor's model, or nothing if unknown.
    pub processor: String,
    /// Its CPUs, as many as the program saw; 0 if unknown.
    pub cores: u32,
    /// The kernel and its release, or nothing if unknown.
    pub kernel: String,
    /// A sentence on whether it was quiet, and how far the numbers can be trusted.
    pub quiet: String,
    /// Other programs were running: the page then shows that sentence as a warning.
    pub was_busy: bool,
}

/// A trace, and all systems on it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trace {
    /// Its name; anything that a user may call a file.
    pub name: String,
    /// Its calls.
    pub calls: u64,
    /// Most frames live at once.
    pub peak_frames: u64,
    /// Frames that the systems managed; 0 if there are no systems.
    pub managed_frames: u64,
    /// CPUs of the replay; of the trace if there are no systems.
    pub cpus: u32,
    /// Threads of the replay: on one, nothing can contend. 0 if there are no systems.
    pub threads: u32,
    /// How calls came to CPUs, memory was prepared, and the like: a sentence.
    pub dealt: String,
    /// What the trace itself is like.
    pub statistics: Statistics,
    /// Who owned frames, by index from 1 in the maps: programs by name, at most [`OWNERS`].
    pub owners: Vec<String>,
    /// The systems. None: the page shows the trace's statistics alone.
    pub systems: Vec<System>,
    /// The replay with nothing behind it: mean time of an allocation and of a free, in nanoseconds.
    pub floor_ns: [Option<f64>; 2],
    /// The same for the throughput, in calls a second.
    pub floor_throughput: Option<f64>,
}
