//! The list of peers.
//!
//! Reports and documents identify each peer by crate and version, and list the features of an everybuddy system that
//! it lacks.
//!
//! # Invariants
//! The versions equal those in the manifest (a test compares them).

use everybuddy::Order;

use crate::table::Functions;

/// A peer: its identity and its missing features.
#[derive(Clone, Copy, Debug)]
pub struct PeerRow {
    /// The name on the command line.
    pub name: &'static str,
    /// The name of the crate.
    pub package: &'static str,
    /// The version of the crate.
    pub version: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// The largest order that it serves here; larger requests fail.
    pub max_order: Order,
    /// Features that it lacks, or that its own documentation does not guarantee.
    pub cannot: &'static [&'static str],
    /// Whether this row is the lower bound for all allocators instead of a real one.
    pub is_floor: bool,
    /// The functions behind which it is, if it is not a part of this program.
    pub functions: Option<&'static Functions>,
}

impl PeerRow {
    /// Returns `true` if it came from a shared library; `package` is then its file.
    pub fn is_loaded(&self) -> bool {
        self.functions.is_some() && !self.is_floor
    }
}

/// The floor, which every build has.
pub const FLOOR: PeerRow = PeerRow {
    name: "floor",
    package: "everybuddy-peers",
    version: env!("CARGO_PKG_VERSION"),
    summary: "private arrays of frame numbers, one per thread and order: the lower bound for any allocator",
    max_order: Order::TEN,
    cannot: &[
        "merge",
        "free a part",
        "exact counts",
        "detect a double free",
        "use memory that another thread caches",
    ],
    is_floor: true,
    functions: None,
};

/// Declares peers: the name, the crate, its version, the largest order, the description, and the missing features.
macro_rules! peers {
    ($($name:literal, $package:literal, $version:literal, $max_order:ident, $summary:literal, $cannot:expr;)+) => {
        &[FLOOR, $(PeerRow {
            name: $name,
            package: $package,
            version: $version,
            summary: $summary,
            max_order: Order::$max_order,
            cannot: $cannot,
            is_floor: false,
            functions: None,
        }),+]
    };
}

/// All peers, the floor first.
pub const PEERS: &[PeerRow] = peers! {
    "buddy_system_allocator", "buddy_system_allocator", "0.13.0", TEN,
        "one BTreeSet of blocks per order, on the heap, behind a spin lock (LockedFrameAllocator)",
        &["free a part", "exact counts", "detect a double free", "run without a heap"];
    "frame-alloc-buddy", "frame-alloc", "0.1.0", TEN,
        "one lock-free bitmap per order, with a summary (SummaryBuddyAllocator)",
        &["free a part", "exact counts", "detect a double free", "guarantee a block while one is free"];
    "frame-alloc-depot", "frame-alloc", "0.1.0", TEN,
        "a locked stack of 128 frames per thread and a shared stack of 512, in front of frame-alloc-buddy",
        &["free a part", "exact counts", "detect a double free", "guarantee a block while one is free"];
    "bitmap-allocator", "bitmap-allocator", "0.4.6", TEN,
        "a tree of 16-bit words over a bitmap, behind a spin lock; first fit, bit by bit above order 0",
        &["exact counts"];
    "buddy-slab-allocator", "buddy-slab-allocator", "0.6.1", TEN,
        "lists linked through an array of 12 bytes per frame, behind a spin lock (its BuddyAllocator)",
        &["free a part", "detect a double free"];
    "rvm-memory", "rvm-memory", "0.1.1", TEN,
        "one bitmap per order, without a summary, behind a spin lock (its BuddyAllocator); scans linearly",
        &["free a part", "detect each double free", "choose its size at run time"];
    "offset-allocator", "offset-allocator", "0.2.0", ZERO,
        "two-level segregated fit with neighbour links, for sub-allocation on GPUs, behind a spin lock",
        &["orders above 0", "free a part", "free without its handle"];
};
