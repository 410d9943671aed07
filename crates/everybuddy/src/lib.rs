//! Every buddy system for page frames behind one interface.
//!
//! A **system** is a composition of layers, put together in one row of [`systems`]:
//!
//! ```text
//! request ──▶ per-CPU layer ──▶ zone layer ──▶ structure + coalescing policy
//!             what a CPU        who owns which   how free blocks are kept,
//!             keeps for itself  frames, under    and when buddies are merged
//!                               which lock
//! ```
//!
//! | system | per-CPU layer | zone layer | structure | coalescing | source |
//! |---|---|---|---|---|---|
//! | `bs` | none | one zone | bitmap and free lists | at once | \[iBuddy\] 3.1; \[BL89\] 3 |
//! | `lbs-31` | Linux 2.6.32's list, batch up to 31 | one zone | the same | at once | \[iBuddy\] 2.1, 2.4, 4 |
//! | `lbs-1` | the same, bypassed at the marks | one zone | the same | at once | \[iBuddy\] 2.4 |
//! | `is` | none | buddy spaces | single frames by level | none: frames ascend | \[iBuddy\] 3, 5 |
//! | `lis-1`, `lis-31` | Linux 2.6.32's list, bypassed; batch 31 | buddy spaces | the same as `is` | none | \[iBuddy\] 4 |
//! | `fixlazy-372`, `-744` | Linux 2.6.32's list, high mark 372, 744 | one zone | as `bs` | at once | \[Spring\] IV |
//! | `spring` | a list whose length is predicted | elastic domains | as `bs` | at once | \[Spring\] III |
//! | `spring-core` | none | elastic domains | as `bs` | at once | \[Spring\] III-B |
//! | `spring-fixlazy-186`, `-372`, `-744` | as `lbs-31`, `fixlazy-372`, `-744` | elastic domains | as `bs` | at once | \[Spring\] IV-C2 |
//! | `watermark`, `delay-2` | none | one zone | locally and globally free blocks | delayed | \[BL89\] |
//! | `serewa` | none | one zone, whose blocks services divide and link | balanced trees | by a service | \[Serewa\] |
//! | `linux-6` | Linux 6.12's lists | one zone | as `bs` | at once | Linux 6.12 |
//!
//! Zone layers, locks and hold policies are exchanged by option (`bs+zone=spaces`, `lbs-31+zone=domains`,
//! `lbs-31+lock=ticket+hold=when-contended`): see [`systems::Options`].
//!
//! All run on a [`Platform`], a type parameter: [`Native`] here; a simulator and model checkers bring their
//! own. The crate is `no_std`, has no dependencies and no heap; metadata lies in memory that the caller
//! provides, and the managed memory is never touched.
//!
//! Start at [`FrameAllocator`] for the interface, at [`systems`] to build one.
#![no_std]
// The heads of the layers' modules are documentation for users too, and name types that only developers see.
#![allow(rustdoc::private_intra_doc_links)]
// The types of layers are public, so that compositions can be named. Their traits are not, except those of structures:
// other crates create no layers.
#![allow(private_bounds)]

#[cfg(test)]
extern crate std;
mod api;
mod arena;
mod cache_padded;
mod check;
pub mod coalesce;
pub mod error;
pub mod frame;
mod frame_table;
mod layered;
mod lock;
pub mod percpu;
pub mod platform;
mod probe;
pub mod region;
pub mod request;
pub mod serewa;
mod snapshot;
pub mod structure;
pub mod systems;
mod wrapping_slice;
pub mod zone;

pub use api::{FrameAllocator, Progress, Service};
pub use arena::{LINE, Memory};
pub use error::{AllocateError, BuildError, BulkFreeError, FreeError, RegionError};
pub use frame::{Block, Frames, Order, Pfn};
pub use lock::{RawLock, SpinLock, TicketLock};
pub use platform::{CpuId, CpuToken, Native, Platform};
pub use probe::{Counted, Counts, Event, NoProbe, Probe, Queue, QueueStep};
pub use region::{FrameRange, Span};
pub use request::{Flags, Hint, Release, Request, Size};
pub use snapshot::{Census, FrameState, Snapshot, Violation};
pub use systems::{
    Setup, System, SystemSpec, WithSystem, build, build_any, metadata_layout, with_any_system,
    with_system,
};

/// What most users need.
pub mod prelude {
    pub use crate::platform::{CpuId, Native, NativeCpus, Platform};
    pub use crate::systems::{
        Bs, Is, Lbs31, Linux6, Lis1, Options, Spring, System, build, build_any, layout,
    };
    pub use crate::{
        AllocateError, Block, FrameAllocator, FrameRange, FreeError, Hint, Memory, Order, Pfn,
        Release, Request, Setup, SystemSpec, WithSystem, metadata_layout, with_system,
    };
}

/// The README's code is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
