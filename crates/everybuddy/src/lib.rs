//! Page-frame allocators behind one trait: the standard buddy system, Linux's per-CPU lists, published designs.
//!
//! The crate is `no_std` and needs neither a heap nor another crate. Metadata lies in memory that the caller provides,
//! and the managed memory is never accessed. Misuse, such as a double free, returns a typed error and changes nothing.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use everybuddy::prelude::*;
//!
//! // 128 MiB from 4 GiB on. Maps name physical frames.
//! let ranges = [FrameRange::new(Pfn(0x10_0000), 0x8000)];
//! let setup = Setup::new(&ranges, 1);
//! let mut memory = vec![core::mem::MaybeUninit::uninit(); Everybuddy::room(&setup)?];
//! let system = Everybuddy::build(&setup, &mut memory[..])?;
//!
//! let cpus = NativeCpus::new(1);
//! let mut cpu = cpus.enter(system, CpuId(0))?;
//! let frame = system.allocate(&mut cpu, Request::FRAME)?;
//! system.free(&mut cpu, Release::frame(frame))?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Everybuddy`] is the system to begin with. A **system** is a composition of layers, or, like this one, a design of
//! its own:
//!
//! ```text
//! request ──▶ per-CPU layer ──▶ zone layer ──▶ structure + coalescing policy
//!             frames that one   the owner of     how free blocks are stored,
//!             CPU keeps for     the free frames  and when buddies are
//!             itself            and their locks  coalesced
//! ```
//!
//! | task | start at |
//! |---|---|
//! | build a system | [`systems::build`]; [`systems`] has a type for each one and lists the compositions |
//! | allocate and free | [`FrameAllocator`], [`Request`], [`Release`] |
//! | ask for certain frames: below a limit, aligned, of a colour, or exactly these | [`Place`], [`FrameAllocator::allocate_in`], [`FrameAllocator::allocate_at`] |
//! | claim a CPU until the end of a scope | [`platform::NativeCpus::enter`] |
//! | give free memory back to a monitor | [`Reporting`] |
//! | learn why a request failed, and which CPU keeps what is missing | [`FrameAllocator::shortage`] |
//! | describe a machine | [`Setup`], [`FrameRange`] |
//! | divide memory by node and by address | [`Nodes`] |
//! | choose a system at run time | [`SystemSpec`], [`systems::build_any`]; [`systems::build_erased`] where nothing is timed |
//! | exchange a layer, a lock or a policy | [`systems::Options`]: `bs+zone=spaces`, `lbs-31+lock=ticket` |
//! | run in a kernel | [`platform::Bare`], [`Boot`] |
//! | run on simulated CPUs or under a model checker | [`Platform`], and the crates `everybuddy-sim` and `everybuddy-model` |
//!
//! SYSTEMS.md of the repository describes each system, its source and its deviations.
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
mod bit_runs;
mod boot;
mod cache_padded;
mod check;
pub mod coalesce;
mod detail;
pub mod error;
mod everybuddy;
pub mod frame;
mod frame_table;
mod free_bits;
mod guard;
mod isolation;
mod layered;
pub mod llfree;
mod lock;
mod marks;
pub mod nbbs;
mod nodes;
pub mod percpu;
mod place;
pub mod platform;
mod probe;
pub mod region;
mod reporting;
pub mod request;
mod runs;
pub mod serewa;
mod shortage;
mod snapshot;
pub mod structure;
pub mod systems;
#[cfg(test)]
mod testing;
mod withdrawn;
mod wrapping_slice;
pub mod zone;

pub use self::everybuddy::OwnedTrees;
pub use api::{FrameAllocator, Progress, Service, Visit};
pub use arena::{LINE, Memory, MetadataPart};
pub use boot::{Boot, BootError};
pub use detail::Detail;
pub use error::{AllocateError, BuildError, BulkFreeError, FreeError, RegionError};
pub use frame::{Block, Frames, Index, Order, Pfn};
pub use guard::CpuGuard;
pub use lock::{QueuedLock, RawLock, SpinLock, TicketLock, WaitingArray, WaitingLine};
pub use nodes::{Nodes, Zone, ZoneSetup, ZoneState};
pub use place::{Colours, Node, Place};
pub use platform::{CpuId, CpuToken, Native, Platform};
pub use probe::{Counted, Counts, Event, NoProbe, Probe, Queue, QueueStep};
pub use region::{FrameRange, Span};
pub use reporting::{Report, Reporting};
pub use request::{BlockType, Class, Flags, Hint, Release, Request, Size};
pub use runs::Run;
pub use shortage::{Kept, Reason, Shortage};
pub use snapshot::{Census, FrameState, PageBlocks, Snapshot, Violation};
pub use systems::{
    Everybuddy, Setup, System, SystemSpec, WithSystem, build, build_any, build_erased,
    metadata_layout, with_any_system, with_system,
};

/// The names that most programs need: of the systems, those to begin with.
///
/// The atomic `Ordering` has a variant of the name [`Release`]. In a module that also imports all variants, a name that
/// is imported by itself wins.
pub mod prelude {
    pub use crate::platform::{CpuId, CpuToken, Native, NativeCpu, NativeCpus, Platform};
    pub use crate::systems::{Bs, Everybuddy, Lbs31, Options, System, build, build_any, layout};
    pub use crate::{
        AllocateError, Block, Boot, BootError, BuildError, Class, Flags, FrameAllocator,
        FrameRange, FreeError, Hint, Index, Memory, Node, Nodes, Order, Pfn, Place, RegionError,
        Release, Request, Run, Setup, Span, SystemSpec, WithSystem, Zone, ZoneSetup,
        metadata_layout, with_system,
    };
}
