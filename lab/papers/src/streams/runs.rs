//! Recordings performed on systems by name.
//!
//! # Purpose
//!
//! All code for the systems is compiled here, once, and not by each method.
//!
//! # Invariants
//!
//! Every run starts with its own manager, all of whose memory is free.

use std::fmt;

use everybuddy::{BuildError, NoProbe, SystemSpec};

use crate::streams::fast_fits::{Choice, FastFits};
use crate::streams::manager::{Extent, Indirectly, Manager, Nothing, WithManager, with_buddy};
use crate::streams::perform::{self, Counted};
use crate::streams::recording::Recording;
use crate::streams::tally::{Listener, Work};

/// The reason why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The system cannot be built with these parameters.
    Build(BuildError),
    /// The manager made an error.
    Broken(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => write!(f, "{error}"),
            Self::Broken(what) => write!(f, "the allocator is broken: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Calls `visit` with a system, indirectly: for whatever is not timed.
pub(crate) fn on<B: Listener, T>(
    spec: &SystemSpec,
    extent: Extent,
    visit: impl FnOnce(&mut dyn Manager) -> Result<T, String>,
) -> Result<T, Failure> {
    let done = with_buddy::<B, _>(spec, extent, Indirectly(visit)).map_err(Failure::Build)?;
    done.map_err(Failure::Broken)
}

/// Counts the work of a system in an arena of the given number of units; see [`perform::count`].
///
/// # Errors
/// [`Failure`].
pub fn count(spec: &SystemSpec, units: u32, recording: &Recording) -> Result<Counted, Failure> {
    let count = |manager: &mut dyn Manager| perform::count(manager, recording, units);
    on::<Work, _>(spec, Extent::fixed(units), count)
}

/// Returns the share of requests that fail in an arena of the given number of units.
///
/// # Errors
/// [`Failure`].
pub fn blocking(spec: &SystemSpec, units: u32, recording: &Recording) -> Result<f64, Failure> {
    let refuse = |manager: &mut dyn Manager| perform::refuse(manager, recording);
    let (requests, refused) = on::<NoProbe, _>(spec, Extent::fixed(units), refuse)?;
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
    on::<NoProbe, _>(spec, Extent::fixed(units), look)
}

/// A clock, in ticks of any length.
pub type Clock<'c> = &'c dyn Fn() -> u64;

struct Time<'r>(&'r Recording, Clock<'r>);

impl WithManager for Time<'_> {
    type Output = Result<Vec<u32>, String>;

    fn call<M: Manager>(self, manager: &mut M) -> Self::Output {
        perform::time(manager, self.0, self.1)
    }
}

struct TimeEach<'r>(&'r Recording, Clock<'r>);

impl WithManager for TimeEach<'_> {
    type Output = Result<[Vec<u32>; 2], String>;

    fn call<M: Manager>(self, manager: &mut M) -> Self::Output {
        perform::time_each(manager, self.0, self.1)
    }
}

/// Runs a visitor on a system, or on none.
fn timed<T>(
    spec: Option<&SystemSpec>,
    units: u32,
    visitor: impl WithManager<Output = Result<T, String>>,
) -> Result<T, Failure> {
    let done = match spec {
        Some(spec) => with_buddy::<NoProbe, _>(spec, Extent::fixed(units), visitor),
        None => Ok(visitor.call(&mut Nothing)),
    };
    done.map_err(Failure::Build)?.map_err(Failure::Broken)
}

/// Returns the ticks of all counted calls, in segments; without a system, those of performing the calls alone.
///
/// # Errors
/// [`Failure`].
pub fn time(
    spec: Option<&SystemSpec>,
    units: u32,
    recording: &Recording,
    now: Clock<'_>,
) -> Result<Vec<u32>, Failure> {
    timed(spec, units, Time(recording, now))
}

/// Returns the ticks of each allocation and of each successful free; without a system, those of reading the clock.
///
/// # Errors
/// [`Failure`].
pub fn time_each(
    spec: Option<&SystemSpec>,
    units: u32,
    recording: &Recording,
    now: Clock<'_>,
) -> Result<[Vec<u32>; 2], Failure> {
    timed(spec, units, TimeEach(recording, now))
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
            on::<NoProbe, _>(spec, extent, grow)
        }
        Grower::FastFits(choice) => grow(&mut FastFits::new(choice, step)).map_err(Failure::Broken),
    }
}
