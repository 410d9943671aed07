//! Third-party page-frame allocators behind one small trait.
//!
//! # Purpose
//!
//! A time in nanoseconds means little without a comparison. The benchmark runs the same work on published allocators,
//! and on a `floor` that no allocator can beat. Users of the library never build this crate.
//!
//! # Invariants
//!
//! No peer touches a managed frame. Frames are only numbers here; a peer that stores its records in memory gets a
//! buffer of ours.
//!
//! Dispatch by name happens once per run: [`with_peer`] compiles its visitor for each peer, and inside the visitor
//! every call is static.
//!
//! Peers that are not thread-safe are wrapped in the spin lock of the crate `spin`, which buddy_system_allocator also
//! uses internally.
//!
//! # Allocators left out
//!
//! | crate | reason |
//! |---|---|
//! | llfree | not on crates.io |
//! | lock_free_buddy_allocator 0.2.1 | needs a nightly compiler (`allocator_api`) |
//! | osdk-frame-allocator 0.17.2 | runs only inside a kernel built on OSTD |
//! | ax-allocator, axallocator | their page allocator wraps bitmap-allocator, which is included |
//! | ruvix-physmem 0.1.0 | a free list holds at most 1,024 blocks; blocks freed beyond that are lost |
//! | buddy-alloc 0.6.0, buddyalloc 0.1.5 | heaps: their free lists are stored in the managed memory |
//! | free-list 0.3.4 | sorted list of free ranges: every operation is a linear scan, and an insertion moves the rest |
//! | range-alloc 0.1.5 | the same |
//! | vm-allocator 0.1.4 | tree of free and allocated ranges: an allocation visits all ranges before its own |
//! | polished_allocators 0.2.1 | one stack of frames of order 0: like `floor`, with a lock |

mod bitmap;
mod buddy_slab;
mod buddy_system;
mod floor;
mod frame_alloc;
mod offset;
mod rows;
mod rvm;
mod stack;

use core::marker::PhantomData;

use everybuddy::{Block, Order, Pfn};

pub use rows::{PEERS, PeerRow};

/// The operations of a page-frame allocator that a benchmark needs.
pub trait Peer: Sync + Sized {
    /// The handle of a thread that uses the allocator (not `Send`).
    type Local<'p>
    where
        Self: 'p;

    /// Creates an allocator of `frames` frames, all free, for `threads` threads. Frames are numbered from 0.
    ///
    /// # Panics
    /// If `frames` or `threads` is 0, or if the peer cannot manage that many frames ([`with_peer`] checks first).
    fn new(frames: u32, threads: u16) -> Self;

    /// Returns the handle of a thread. `thread` is less than `threads`; only one thread at a time may use a number.
    fn local(&self, thread: u16) -> Self::Local<'_>;

    /// Allocates an aligned block of 2^order frames. Returns `None` if the request fails or the order is not
    /// supported.
    fn allocate(&self, local: &mut Self::Local<'_>, order: Order) -> Option<Pfn>;

    /// Frees a block that was allocated with this order, possibly by another thread.
    fn free(&self, local: &mut Self::Local<'_>, block: Block);

    /// Returns the bytes of metadata in addition to the managed frames, if known.
    ///
    /// Each adapter calculates this number; it is not measured. `None` if the metadata is on the heap and its size
    /// varies.
    fn metadata_bytes(&self) -> Option<usize> {
        None
    }
}

/// A visitor that runs on any peer.
pub trait WithPeer {
    /// The result of the visitor.
    type Output;

    /// Runs the visitor. Compiled once per peer.
    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) -> Self::Output;
}

/// The handle of a thread for a peer that has no per-thread state.
#[derive(Debug)]
pub struct Bare(PhantomData<*const ()>);

impl Bare {
    const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Builds a peer by name and runs the visitor with static dispatch.
///
/// Returns `None` if the name is unknown, if `frames` or `threads` is 0, or if `frames` exceeds the capacity of the
/// peer: 2^24 for bitmap-allocator, 2^20 for rvm-memory.
pub fn with_peer<V: WithPeer>(
    name: &str,
    frames: u32,
    threads: u16,
    visitor: V,
) -> Option<V::Output> {
    let row = PEERS.iter().find(|row| row.name == name)?;
    if frames == 0 || threads == 0 {
        return None;
    }
    let run = Run {
        row,
        frames,
        threads,
        visitor,
    };
    match name {
        "floor" => Some(run.on::<floor::Floor>()),
        "buddy_system_allocator" => Some(run.on::<buddy_system::BuddySystem>()),
        "frame-alloc-buddy" => Some(run.on::<frame_alloc::Buddy>()),
        "frame-alloc-depot" => Some(run.on::<frame_alloc::Depot>()),
        // Use the smallest tree that covers the frames: a larger tree adds one level per operation.
        "bitmap-allocator" if frames <= 1 << 20 => Some(run.on::<bitmap::Bitmap1M>()),
        "bitmap-allocator" if frames <= 1 << 24 => Some(run.on::<bitmap::Bitmap16M>()),
        "buddy-slab-allocator" => Some(run.on::<buddy_slab::BuddySlab>()),
        "rvm-memory" if frames <= rvm::SMALL => Some(run.on::<rvm::RvmSmall>()),
        "rvm-memory" if frames <= rvm::LARGE => Some(run.on::<rvm::RvmLarge>()),
        "offset-allocator" => Some(run.on::<offset::Offset>()),
        _ => None,
    }
}

/// A visitor and its arguments.
struct Run<V> {
    row: &'static PeerRow,
    frames: u32,
    threads: u16,
    visitor: V,
}

impl<V: WithPeer> Run<V> {
    fn on<P: Peer>(self) -> V::Output {
        self.visitor
            .call(self.row, &P::new(self.frames, self.threads))
    }
}
