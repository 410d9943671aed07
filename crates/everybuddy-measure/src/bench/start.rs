//! How long a system takes to start.
//!
//! Exists because a kernel builds its allocator before anything else runs: time there is boot time.
//!
//! Invariant: memory for metadata is fresh each time, so that the first touch of each page counts, for
//! our systems as for allocators that bring their own.

use std::time::Instant;

use super::{Entrant, Plan};
use crate::Error;
use crate::replay::host::Arena;

/// Frames of the memory that is started: a million, 4 GiB.
pub const FRAMES: u32 = 1 << 20;

/// How long one contender took.
#[derive(Clone, Debug)]
pub struct Start {
    /// Who.
    pub entrant: Entrant,
    /// Milliseconds of each round.
    pub millis: Vec<f64>,
    /// Bytes of metadata, if known.
    pub metadata_bytes: Option<usize>,
}

/// Starts every contender once a round.
///
/// # Errors
/// A usage error when one can't be built.
pub fn measure(plan: &Plan) -> Result<Vec<Start>, Error> {
    let start = |entrant: &Entrant| Start {
        entrant: *entrant,
        millis: Vec::new(),
        metadata_bytes: None,
    };
    let mut starts: Vec<Start> = plan.entrants.iter().map(start).collect();
    for _ in 0..plan.rounds {
        for start in &mut starts {
            let mut fresh = Arena::default();
            let begin = Instant::now();
            let (millis, bytes) = start.entrant.with(FRAMES, 1, &mut fresh, |contender| {
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
