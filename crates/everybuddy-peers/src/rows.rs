//! The peers by name.
//!
//! Why it exists: reports and documents name what was measured, by crate and version, and say what it can't
//! do that an everybuddy system can.
//!
//! Invariant: versions are those of the manifest (a test compares them).

use everybuddy::Order;

/// A peer: what it is, and what it can't do.
#[derive(Clone, Copy, Debug)]
pub struct PeerRow {
    /// The name it is asked for by.
    pub name: &'static str,
    /// The crate that it comes from.
    pub package: &'static str,
    /// That crate's version.
    pub version: &'static str,
    /// What it is, in a phrase.
    pub summary: &'static str,
    /// The largest order it allocates here; larger ones are refused.
    pub max_order: Order,
    /// What it can't do, or doesn't promise by its own documentation.
    pub cannot: &'static [&'static str],
    /// Whether it is no allocator but the bound below all.
    pub is_floor: bool,
}

/// All peers, the floor first.
pub const PEERS: &[PeerRow] = &[
    PeerRow {
        name: "floor",
        package: "everybuddy-peers",
        version: env!("CARGO_PKG_VERSION"),
        summary: "private arrays of frame numbers, one a thread and order: what no allocator can beat",
        max_order: Order::TEN,
        cannot: &[
            "merge",
            "free a part",
            "exact counts",
            "detect a double free",
            "take what another thread holds",
        ],
        is_floor: true,
    },
    PeerRow {
        name: "buddy_system_allocator",
        package: "buddy_system_allocator",
        version: "0.13.0",
        summary: "a BTreeSet of blocks an order, on the heap, behind a spin lock (LockedFrameAllocator)",
        max_order: Order::TEN,
        cannot: &[
            "free a part",
            "exact counts",
            "detect a double free",
            "run without a heap",
        ],
        is_floor: false,
    },
    PeerRow {
        name: "frame-alloc-buddy",
        package: "frame-alloc",
        version: "0.1.0",
        summary: "lock-free bitmaps an order with a summary above (SummaryBuddyAllocator)",
        max_order: Order::TEN,
        cannot: &[
            "free a part",
            "exact counts",
            "detect a double free",
            "promise a block while one is free",
        ],
        is_floor: false,
    },
    PeerRow {
        name: "frame-alloc-depot",
        package: "frame-alloc",
        version: "0.1.0",
        summary: "a locked stack of 128 frames a thread and a shared one of 512 over frame-alloc-buddy",
        max_order: Order::TEN,
        cannot: &[
            "free a part",
            "exact counts",
            "detect a double free",
            "promise a block while one is free",
        ],
        is_floor: false,
    },
    PeerRow {
        name: "bitmap-allocator",
        package: "bitmap-allocator",
        version: "0.4.6",
        summary: "a tree of 16-bit words over a bitmap, behind a spin lock; first fit, bit by bit above order 0",
        max_order: Order::TEN,
        cannot: &["exact counts"],
        is_floor: false,
    },
    PeerRow {
        name: "buddy-slab-allocator",
        package: "buddy-slab-allocator",
        version: "0.6.1",
        summary: "linked lists through an array of 12 bytes a frame, behind a spin lock (its BuddyAllocator)",
        max_order: Order::TEN,
        cannot: &["free a part", "detect a double free"],
        is_floor: false,
    },
    PeerRow {
        name: "rvm-memory",
        package: "rvm-memory",
        version: "0.1.1",
        summary: "a bitmap an order without a summary, behind a spin lock (its BuddyAllocator); scans linearly",
        max_order: Order::TEN,
        cannot: &[
            "free a part",
            "detect each double free",
            "choose its size at run time",
        ],
        is_floor: false,
    },
    PeerRow {
        name: "offset-allocator",
        package: "offset-allocator",
        version: "0.2.0",
        summary: "two-level segregated fit with neighbour links, for sub-allocation on GPUs, behind a spin lock",
        max_order: Order::ZERO,
        cannot: &["orders above 0", "free a part", "free without its handle"],
        is_floor: false,
    },
];
