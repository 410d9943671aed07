//! Memory frame by frame: what each page frame holds, which blocks exist, and what prevents larger ones.
//!
//! The tables of `/proc/buddyinfo` end at blocks of a few MiB and contain free memory only. `/proc/kpageflags` has a
//! word for each page frame, which root may read.
//!
//! | step | function | result |
//! |------|----------|--------|
//! | read | [`Snapshot::prepare`], [`Snapshot::read`] | one byte per frame, its [`Kind`] |
//! | decide what flags cannot tell (optional) | [`counts::settle`] | frames on the CPUs' lists, and pinned pages |
//! | count | [`ZoneWindows::of`] | per order: free, by moving, by dropping page cache, perhaps, never |
//! | name the holders | [`owner::holders`], [`groups::Tally`] | functions and control groups that hold the rest |
//! | draw | [`map::Map`] | one cell per block |
//! | all of it | [`Facts::of`] | what a state contains besides windows |
//!
//! # Invariants
//! Every count is about one moment, as far as the kernel provides that: the memory for a snapshot is allocated and
//! touched before the first read. No input of any kind causes a panic. A file that ends too early is an error that
//! names the frame, never a smaller machine.
//!
//! # Assumptions
//! Flags do not show whether a device or a program has pinned a page (direct I/O, RDMA, VFIO). Such a page looks
//! like any other movable page, so each count of movable memory assumes that no page is pinned. The flags do not
//! tell a frame on a CPU's own free list from an ordinary page of the kernel either: such counts are intervals.

pub mod blocks;
pub mod counts;
pub mod facts;
pub mod flags;
pub mod groups;
pub mod html;
pub mod kcore;
pub mod map;
pub mod owner;
pub mod snapshot;
pub mod windows;

pub use blocks::{Blocks, Verdict};
pub use facts::Facts;
pub use flags::Kind;
pub use map::Map;
pub use snapshot::{Extent, Layout, Snapshot};
pub use windows::{Holder, OrderWindows, ZoneWindows};
