//! Recordings performed on systems by name.
//!
//! # Invariants
//! Every run starts with its own manager, all of whose memory is free.

use everybuddy::SystemSpec;
pub use everybuddy_measure::streams::runs::{Clock, Failure, on, time, time_each};

use crate::streams::fast_fits::{Choice, FastFits};
use crate::streams::manager::{Extent, Manager};
use crate::streams::perform::{self, Counted};
use crate::streams::recording::Recording;

/// Counts the work of a system in an arena of the given number of units; see [`perform::count`].
///
/// # Errors
/// [`Failure`].
pub fn count(spec: &SystemSpec, units: u32, recording: &Recording) -> Result<Counted, Failure> {
    let count = |manager: &mut dyn Manager| perform::count(manager, recording, units);
    on(spec, Extent::fixed(units), count)
}

/// Returns the share of requests that fail in an arena of the given number of units.
///
/// # Errors
/// [`Failure`].
pub fn blocking(spec: &SystemSpec, units: u32, recording: &Recording) -> Result<f64, Failure> {
    let refuse = |manager: &mut dyn Manager| perform::refuse(manager, recording);
    let (requests, refused) = on(spec, Extent::fixed(units), refuse)?;
    Ok(refused as f64 / requests.max(1) as f64)
}

/// Returns the mean number of free blocks of each order; see [`perform::free_blocks`].
///
/// # Errors
/// [`Failure`].
pub fn free_blocks(
    spec: &SystemSpec,
    units: u32,
    recording: &Recording,
    parts: usize,
) -> Result<Vec<Vec<f64>>, Failure> {
    let look = |manager: &mut dyn Manager| perform::free_blocks(manager, recording, parts);
    on(spec, Extent::fixed(units), look)
}

/// A manager whose memory grows on demand.
#[derive(Clone, Copy, Debug)]
pub enum Grower<'s> {
    /// A buddy system.
    System(&'s SystemSpec),
    /// Fast fits.
    FastFits(Choice),
}

/// The maximum number of units of memory.
const REACH: u32 = 1 << 16;

/// Returns the memory consumption of a manager, in units, when its memory starts with `step` units and grows by as
/// many whenever a request requires it, and the maximum number of units in use.
///
/// # Errors
/// [`Failure`].
pub fn grow(who: Grower<'_>, step: u32, recording: &Recording) -> Result<(u32, u32), Failure> {
    let grow = |manager: &mut dyn Manager| perform::grow(manager, recording, step, step);
    match who {
        Grower::System(spec) => {
            let extent = Extent {
                units: step,
                reach: REACH / step * step,
            };
            on(spec, extent, grow)
        }
        Grower::FastFits(choice) => grow(&mut FastFits::new(choice, step)).map_err(Failure::Broken),
    }
}
