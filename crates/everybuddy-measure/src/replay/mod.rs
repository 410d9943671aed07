//! The replay: what a trace asked for is asked of every system, timed and counted.
//!
//! Exists so that all systems meet the same requests on the same memory in the same run, and so
//! that what measuring costs is known and kept out of what is measured.
//!
//! | file | what it does |
//! |------|--------------|
//! | [`script`] | a trace made ready: compact moves, one lane for each thread, segments |
//! | [`memory`] | how much memory is managed, and how it ages |
//! | [`host`] | the machine: waiting, CPU tokens, memory for metadata; a system behind a port |
//! | [`retry`] | repeats a request that another CPU keeps busy |
//! | [`port`] | what the replay asks of a system, and the floor that serves for nothing |
//! | [`mod@play`] | the loop itself, on one thread or several |
//! | [`gate`] | what keeps several threads close to the order of the trace |
//! | [`clock`] | the timer, and what it costs |
//! | [`observe`] | the passes: throughput, mean latency, single latencies, counts |
//! | [`watch`] | what listens inside of a system that is not timed |
//! | [`services`] | the services of a system, on threads of their own |
//! | [`moments`] | mean and standard deviation of what is not kept |
//! | [`pass`] | one pass: a script on a freshly built system |
//! | [`mod@compare`] | all passes of all systems on a trace, interleaved |
//! | [`pace`] | from many times to a few numbers, in spite of disturbances |
//! | [`detail`] | distributions, the course of time, where blocks lay |
//! | [`outcome`] | what came out, in numbers |
//! | [`merge`] | several traces as one |
//! | [`bystanders`] | the machine that was measured on, and whether it was quiet |
//!
//! Invariant: while a pass is timed nothing is allocated, dispatched by name, or printed.

pub mod bystanders;
pub mod clock;
pub mod compare;
pub mod detail;
pub mod gate;
pub mod host;
pub mod memory;
pub mod merge;
pub mod moments;
pub mod observe;
pub mod outcome;
pub mod pace;
pub mod pass;
pub mod play;
pub mod port;
pub mod retry;
pub mod script;
pub mod services;
pub mod watch;

pub use compare::{Plan, compare};
pub use outcome::{Comparison, Outcome};
pub use script::Script;
