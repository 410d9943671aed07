//! The allocators under model checkers; no other crate depends on this one.
//!
//! Tests on a real machine see only the few interleavings that happen to occur. Here the same allocator source runs
//! on two platforms that choose the interleaving themselves.
//!
//! | platform | explores | treatment of plain memory | file |
//! |---|---|---|---|
//! | [`Loom`] | every schedule of a tiny program, and every value that a relaxed load may return | [`Memory::Plain`]: an unordered access is reported; [`Memory::Shared`]: relaxed atomics, as natively, so that stale values are explored too | [`weak`] |
//! | [`Shuttle`] | random schedules of larger programs, sequentially consistent | a switch is possible at an access, or not: [`strong::switch_at_cells`] | [`strong`] |
//!
//! A [`Machine`] is a system of any composition on such a platform. Programs run on its CPUs as
//! [`Worker`]s, which check every result against a [`ledger`] that is invisible to the checkers.
//!
//! # Invariants
//! All memory that an allocator shares consists of the checker's own objects, which are created inside the run and
//! belong to it. The ledger belongs to the test and never adds an ordering.
//!
//! # Not modelled
//! More than two or three CPUs with a few operations (loom); weak memory in large programs (shuttle); sequentially
//! consistent fences (the allocators use none); interrupts (a nested request comes from its own thread, or does not
//! occur); and the duration of a wait.

pub mod ledger;
pub mod machine;
pub mod strong;
mod token;
pub mod weak;
mod words;

pub use Memory::{Plain, Shared};
pub use machine::{Checker, Machine, Worker};
pub use strong::Shuttle;
pub use token::ModelCpu;
pub use weak::{ALL, Loom, Scope};

use everybuddy::FrameAllocator;

/// Selects a bound: the first, or the last if the environment variable `EVERYBUDDY_BOUNDS` is `full`.
///
/// The gate runs each model with its first bound, and `ci/stress.sh schedules` with its last one.
///
/// # Panics
/// If there is no bound.
pub fn bound<T: Copy>(bounds: &[T]) -> T {
    let full = std::env::var("EVERYBUDDY_BOUNDS").is_ok_and(|value| value == "full");
    let bound = if full { bounds.last() } else { bounds.first() };
    *bound.expect("a model has a bound")
}

/// What is called with a system on the platform `P`.
pub type Visitor<'v, P> = &'v mut dyn FnMut(&dyn FrameAllocator<P>);

/// The treatment under loom of what the layers call plain memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Truly plain memory: one CPU at a time, ordered by other means.
    Plain,
    /// Relaxed atomics, as on the native platform.
    Shared,
}
