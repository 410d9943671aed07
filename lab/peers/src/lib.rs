//! Third-party page-frame allocators behind one small trait.
//!
//! A time in nanoseconds means little without a comparison. The benchmark runs the same work on published allocators,
//! and on a `floor` that no allocator can beat. Users of the library never build this crate. The program has `floor`
//! and what loads an allocator from a shared library; the feature `third-party` adds the published allocators.
//!
//! # Invariants
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

#[cfg(feature = "third-party")]
mod bitmap;
#[cfg(feature = "third-party")]
mod buddy_slab;
#[cfg(feature = "third-party")]
mod buddy_system;
mod floor;
mod floor_table;
#[cfg(feature = "third-party")]
mod frame_alloc;
mod load;
#[cfg(feature = "third-party")]
mod offset;
mod rows;
#[cfg(feature = "third-party")]
mod rvm;
#[cfg(feature = "third-party")]
mod stack;
mod table;

use everybuddy::{Block, Index, Order};

pub use floor_table::FLOOR_TABLE;
pub use load::{LoadError, load};
pub use rows::{FLOOR, PEERS, PeerRow};
pub use table::Functions;

/// The operations of a page-frame allocator that a benchmark needs.
pub trait Peer: Sync + Sized {
    /// The handle of a thread that uses the allocator (not `Send`).
    type Local<'p>
    where
        Self: 'p;

    /// Returns the handle of a thread. `thread` is less than `threads`; only one thread at a time may use a number.
    fn local(&self, thread: u16) -> Self::Local<'_>;

    /// Allocates an aligned block of 2^order frames. Returns `None` if the request fails or the order is not supported.
    fn allocate(&self, local: &mut Self::Local<'_>, order: Order) -> Option<Index>;

    /// Frees a block that was allocated with this order, possibly by another thread.
    fn free(&self, local: &mut Self::Local<'_>, block: Block);

    /// Returns how many frees of a thread failed. Only peers that report that have a count.
    fn failed(&self, local: &Self::Local<'_>) -> u64 {
        let _ = local;
        0
    }

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
#[cfg(feature = "third-party")]
#[derive(Debug)]
pub struct Bare(core::marker::PhantomData<*const ()>);

#[cfg(feature = "third-party")]
impl Bare {
    const fn new() -> Self {
        Self(core::marker::PhantomData)
    }
}

/// Builds a peer that every build has, and runs the visitor with static dispatch: [`FLOOR`], or a peer behind
/// [`Functions`].
///
/// Returns `None` if `frames` or `threads` is 0, if the functions refuse these numbers, or if the row is another one.
pub fn with_row<V: WithPeer>(
    row: &'static PeerRow,
    frames: u32,
    threads: u16,
    visitor: V,
) -> Option<V::Output> {
    if frames == 0 || threads == 0 {
        return None;
    }
    match row.functions {
        Some(functions) => Some(visitor.call(row, &table::build(functions, frames, threads)?)),
        None if row.is_floor => Some(visitor.call(row, &floor::Floor::new(frames, threads))),
        None => None,
    }
}

/// Builds a peer of [`PEERS`] by name and runs the visitor with static dispatch.
///
/// Returns `None` if the name is unknown, if `frames` or `threads` is 0, or if `frames` exceeds the capacity of the
/// peer: 2^24 for bitmap-allocator, 2^20 for rvm-memory.
#[cfg(feature = "third-party")]
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
        "buddy_system_allocator" => Some(run.on(buddy_system::BuddySystem::new)),
        "frame-alloc-buddy" => Some(run.on(frame_alloc::Buddy::new)),
        "frame-alloc-depot" => Some(run.on(frame_alloc::Depot::new)),
        // Use the smallest tree that covers the frames: a larger tree adds one level per operation.
        "bitmap-allocator" if frames <= 1 << 20 => Some(run.on(bitmap::Bitmap1M::new)),
        "bitmap-allocator" if frames <= 1 << 24 => Some(run.on(bitmap::Bitmap16M::new)),
        "buddy-slab-allocator" => Some(run.on(buddy_slab::BuddySlab::new)),
        "rvm-memory" if frames <= rvm::SMALL => Some(run.on(rvm::RvmSmall::new)),
        "rvm-memory" if frames <= rvm::LARGE => Some(run.on(rvm::RvmLarge::new)),
        "offset-allocator" => Some(run.on(offset::Offset::new)),
        _ => with_row(row, frames, threads, run.visitor),
    }
}

/// A visitor and its arguments.
#[cfg(feature = "third-party")]
struct Run<V> {
    row: &'static PeerRow,
    frames: u32,
    threads: u16,
    visitor: V,
}

#[cfg(feature = "third-party")]
impl<V: WithPeer> Run<V> {
    fn on<P: Peer>(self, new: fn(u32, u16) -> P) -> V::Output {
        self.visitor.call(self.row, &new(self.frames, self.threads))
    }
}
