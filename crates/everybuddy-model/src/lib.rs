//! The allocators under model checkers: never a dependency of anything.
//!
//! Why it exists: tests on a real machine see the few interleavings that it happens to produce. Here the
//! very same allocator source runs on two platforms that choose the interleaving themselves.
//!
//! | platform | explores | what is plain memory ([`Memory`]) | file |
//! |---|---|---|---|
//! | [`Loom<Plain>`](Loom) | every schedule of a tiny program, and every value that a relaxed load may return | plain: an access that nothing orders is reported | [`weak`] |
//! | [`Loom<Shared>`](Loom) | the same | relaxed atomics, as natively: stale values are explored too | [`weak`] |
//! | [`Shuttle<Plain>`](Shuttle) | random schedules of larger programs, sequentially consistent | plain: no switch at an access | [`strong`] |
//! | [`Shuttle<Shared>`](Shuttle) | the same | a switch may come at each access | [`strong`] |
//!
//! A [`Machine`] is a system of any composition on such a platform; programs run on its CPUs as
//! [`Worker`]s, which check every answer against a [`ledger`] that the checkers don't see.
//!
//! Invariant: everything that an allocator shares lives in the checker's own objects, which are made
//! inside the run and belong to it; the ledger is bookkeeping of the test and never orders anything.
//!
//! Not modelled: more than two or three CPUs with a handful of operations (loom), weak memory in large
//! programs (shuttle), sequentially consistent fences (the allocators use none), interrupts (a nested
//! request comes from a thread of its own, or not at all), and the time that a wait takes.

pub mod ledger;
pub mod machine;
pub mod strong;
mod token;
pub mod weak;
mod words;

pub use machine::{Checker, Machine, Worker};
pub use strong::Shuttle;
pub use token::ModelCpu;
pub use weak::Loom;

use everybuddy::platform::{CellValue, SharedCell};

/// How a checker treats what layers call plain memory.
pub trait Memory: Send + Sync + 'static {
    /// The cell under loom.
    type LoomCell<T: CellValue>: SharedCell<T>;

    /// The cell under shuttle.
    type ShuttleCell<T: CellValue>: SharedCell<T>;
}

/// Plain memory, taken at its word: one CPU at a time, ordered by something else.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Memory for Plain {
    type LoomCell<T: CellValue> = weak::TrackedCell<T>;
    type ShuttleCell<T: CellValue> = strong::QuietCell<T>;
}

/// Plain memory as the native platform has it: relaxed atomics.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

impl Memory for Shared {
    type LoomCell<T: CellValue> = weak::RelaxedCell<T>;
    type ShuttleCell<T: CellValue> = strong::SwitchingCell<T>;
}
