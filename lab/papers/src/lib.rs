//! The experiments of papers, repeated.
//!
//! An experiment is a directory: its file with systems, tables and claims, its method, its figure.
//!
//! | folder | contents |
//! |--------|---------------|
//! | [`list`] | experiments, methods and figures by name |
//! | [`schemes`] | buddy systems whose block sizes are not only powers of two: what `size_sequences` measures |
//! | [`shared`] | code shared by all experiments |
//! | [`streams`] | message buffers: what `streams_*` measure |
//! | any other | an experiment: `experiment.toml`, its method, and its figure if it is not in `figures.toml` |
//!
//! # Invariants
//! Tables, figures and claims use exported rows only.

pub mod actions;
pub mod break_even;
pub mod buffers;
pub mod bulk_sizes;
pub mod coalescing;
pub mod components;
pub mod contention;
pub mod division;
pub mod emulation;
pub mod fill_levels;
pub mod fragmentation;
pub mod giving_back;
pub mod latency_distribution;
pub mod list;
pub mod list_operations;
pub mod lock_cost;
pub mod lock_hold;
pub mod odd_sizes;
pub mod prediction;
pub mod request_sizes;
pub mod run_lengths;
pub mod schemes;
pub mod shared;
pub mod simulated;
pub mod size_sequences;
pub mod space_size;
pub mod stages;
pub mod streams;
pub mod streams_blocking;
pub mod streams_costs;
pub mod streams_distribution;
pub mod streams_memory;
pub mod structures;

pub use list::{METHODS, all_experiments, named, run_of};
pub use shared::Experiment;
