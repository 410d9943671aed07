//! The replay: the requests of a trace are made to every system, timed and counted.
//!
//! All systems receive the same requests on the same memory in the same run, and the cost of measuring is known and
//! subtracted.
//!
//! | file | contents |
//! |------|--------------|
//! | [`script`] | a prepared trace: compact moves, one lane per thread, segments |
//! | [`memory`] | the size of the managed memory, and its aging |
//! | [`free_map`] | memory as it was on a machine |
//! | [`random`] | random numbers |
//! | [`host`] | the host: CPU tokens, memory for metadata; a system as an adapter |
//! | `platform` | the platform, and how a CPU waits |
//! | [`retry`] | repeats a request that another CPU keeps busy |
//! | [`adapter`] | the operations that the replay needs, and the replay without an allocator |
//! | [`mod@play`] | the loop itself, on one thread or several |
//! | [`gate`] | keeps several threads close to the order of the trace |
//! | [`clock`] | the timer and its cost |
//! | [`observe`] | the passes: throughput, mean latency, single latencies, counts |
//! | [`watch`] | probes inside a system that is not timed |
//! | [`services`] | the services of a system, on separate threads |
//! | [`moments`] | mean and standard deviation of values that are not stored |
//! | [`pass`] | one pass: a script on a newly built system |
//! | [`mod@compare`] | all passes of all systems on a trace, interleaved |
//! | [`pace`] | the reduction of many times to a few numbers, despite disturbances |
//! | [`detail`] | distributions, the course of time, the placement of blocks |
//! | [`outcome`] | the results, in numbers |
//! | [`placement`] | which block each frame belongs to, at moments of a replay |
//! | [`classes`] | which blocks frames of several classes share |
//! | [`owners`] | over which regions the frames of each owner are scattered |
//! | [`merge`] | several traces combined into one |
//! | [`machine`] | the machine whose lists are measured |
//! | [`steady`] | whether a CPU is as fast as it was |
//! | [`background_load`] | the machine of the measurement, and its background load |
//!
//! # Invariants
//! While a pass is timed, nothing is allocated, dispatched by name, or printed.

pub mod adapter;
pub mod background_load;
pub mod calls;
pub mod classes;
pub mod clock;
pub mod compare;
pub mod detail;
pub mod fence;
pub mod free_map;
pub mod gate;
pub mod host;
pub mod machine;
pub mod memory;
pub mod merge;
pub mod moments;
pub mod observe;
pub mod outcome;
pub mod owners;
pub mod pace;
pub mod pairs;
pub mod pass;
pub mod placement;
mod platform;
pub mod play;
pub mod random;
pub mod retry;
pub mod script;
pub mod services;
pub mod steady;
pub mod timed;
pub mod watch;

pub use compare::{ComparePlan, compare};
pub use outcome::{Comparison, Outcome};
pub use script::Script;
