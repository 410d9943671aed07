//! Timed and indirect performances on systems by name.
//!
//! All code for the systems is compiled here, once, and not by each method.
//!
//! # Invariants
//! Every run starts with its own manager, all of whose memory is free.

use std::fmt;

use everybuddy::{BuildError, NoProbe, SystemSpec};

use super::manager::{Extent, Manager, Nothing, WithManager, with_buddy};
use super::perform;
use super::recording::Recording;
use super::tally::Work;

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

struct Indirectly<'v>(&'v mut dyn FnMut(&mut dyn Manager));

impl WithManager for Indirectly<'_> {
    type Output = ();

    fn call<M: Manager>(self, manager: &mut M) {
        (self.0)(manager);
    }
}

/// Calls `visit` with a system, indirectly: for whatever is not timed. Its work is counted.
///
/// # Errors
/// [`Failure`], also that of `visit`.
pub fn on<T>(
    spec: &SystemSpec,
    extent: Extent,
    visit: impl FnOnce(&mut dyn Manager) -> Result<T, String>,
) -> Result<T, Failure> {
    let (mut visit, mut done) = (Some(visit), None);
    counted(spec, extent, &mut |manager| {
        done = visit.take().map(|visit| visit(manager));
    })
    .map_err(Failure::Build)?;
    let done = done.unwrap_or_else(|| Err("the visitor was not called".to_string()));
    done.map_err(Failure::Broken)
}

fn counted(
    spec: &SystemSpec,
    extent: Extent,
    visit: &mut dyn FnMut(&mut dyn Manager),
) -> Result<(), BuildError> {
    with_buddy::<Work, _>(spec, extent, Indirectly(visit))
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
