//! The start-up time of a system.
//!
//! A kernel builds its allocator before anything else runs, so this time is boot time.
//!
//! # Invariants
//! The memory for metadata is new each time, so that the first access to each page counts, for our systems as for
//! allocators that bring their own memory.

use std::time::Instant;

use super::contender_spec::start_memory;
use super::{BenchPlan, ContenderSpec};
use crate::Error;
use crate::replay::host::Arena;
use crate::replay::machine::Machine;

/// The start-up times of one contender.
#[derive(Clone, Debug)]
pub struct Start {
    /// The contender.
    pub contender: ContenderSpec,
    /// Milliseconds in each round.
    pub millis: Vec<f64>,
    /// Bytes of metadata, if known.
    pub metadata_bytes: Option<usize>,
}

/// Starts every contender once per round, with the lists of a machine.
///
/// # Errors
/// Returns a usage error if a contender cannot be built.
pub fn measure(plan: &BenchPlan, machine: Option<Machine>) -> Result<Vec<Start>, Error> {
    let start = |contender: &ContenderSpec| Start {
        contender: *contender,
        millis: Vec::new(),
        metadata_bytes: None,
    };
    let mut starts: Vec<Start> = plan.contenders.iter().map(start).collect();
    for _ in 0..plan.rounds {
        for start in &mut starts {
            let mut fresh = Arena::default();
            fresh.place(machine);
            let begin = Instant::now();
            let (millis, bytes) =
                start
                    .contender
                    .with(&start_memory(), 1, &mut fresh, |contender| {
                        (
                            begin.elapsed().as_secs_f64() * 1e3,
                            contender.metadata_bytes(),
                        )
                    })?;
            start.millis.push(millis);
            start.metadata_bytes = bytes;
        }
    }
    Ok(starts)
}
