//! Other people's allocators of page frames behind one small trait.
//!
//! Why it exists: a number says little alone. The benchmark runs the same work on what others published, and
//! on a `floor` that no allocator can beat. Users of the library never build this crate.
//!
//! Invariant: no peer touches a managed frame. Frames are numbers here; where a peer wants memory for its own
//! records it gets a buffer of ours.
//!
//! Dispatch by name happens once per run: [`with_peer`] compiles its visitor for each peer, and inside it every
//! call is static.
//!
//! Peers that are not thread-safe stand behind the spin lock of the crate `spin`, which is also what
//! buddy_system_allocator locks itself with.
//!
//! # Looked at and left out
//!
//! | crate | why not |
//! |---|---|
//! | llfree | not on crates.io |
//! | lock_free_buddy_allocator 0.2.1 | needs a nightly compiler (`allocator_api`) |
//! | osdk-frame-allocator 0.17.2 | runs only within a kernel built on OSTD |
//! | ax-allocator, axallocator | their page allocator wraps bitmap-allocator, which is here |
//! | ruvix-physmem 0.1.0 | a free list holds 1,024 blocks; what is freed beyond is lost |
//! | buddy-alloc 0.6.0, buddyalloc 0.1.5 | heaps: their free lists lie in the managed memory |
//! | free-list 0.3.4 | sorted list of free ranges: each operation walks it, and inserting moves the rest |
//! | range-alloc 0.1.5 | the same |
//! | vm-allocator 0.1.4 | tree of free and allocated ranges: each allocation walks all of those before its own |
//! | polished_allocators 0.2.1 | one stack of frames, order 0: what `floor` is, with a lock |

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

/// What a benchmark needs of an allocator of page frames.
pub trait Peer: Sync + Sized {
    /// What a thread holds while it uses the allocator (not `Send`).
    type Local<'p>
    where
        Self: 'p;

    /// Makes an allocator of `frames` frames, all free, for `threads` threads. Frames are numbered from 0.
    ///
    /// # Panics
    /// When `frames` or `threads` is 0, or the peer can't hold as many frames ([`with_peer`] asks before).
    fn new(frames: u32, threads: u16) -> Self;

    /// Takes up a thread's access; `thread` is below `threads`, each taken by one thread at a time.
    fn local(&self, thread: u16) -> Self::Local<'_>;

    /// Allocates a block of 2^order frames, aligned; `None` when refused (or the order is not supported).
    fn allocate(&self, local: &mut Self::Local<'_>, order: Order) -> Option<Pfn>;

    /// Frees a block that was allocated with this order, possibly by another thread.
    fn free(&self, local: &mut Self::Local<'_>, block: Block);

    /// Returns the bytes of metadata beside the managed frames, if known.
    ///
    /// Computed by each peer's own arithmetic, not counted; `None` where they lie on the heap and change.
    fn metadata_bytes(&self) -> Option<usize> {
        None
    }
}

/// What runs on any peer.
pub trait WithPeer {
    /// What it returns.
    type Output;

    /// Runs. Compiled once for each peer.
    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) -> Self::Output;
}

/// The access of a thread to a peer that keeps nothing for a thread.
#[derive(Debug)]
pub struct Bare(PhantomData<*const ()>);

impl Bare {
    const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Builds a peer by name and runs the visitor (static dispatch inside).
///
/// Returns `None` for an unknown name, for no frames or no threads, and for more frames than the peer can be
/// built with: 2^24 for bitmap-allocator, 2^20 for rvm-memory.
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
        // The smallest tree that holds the frames: a larger one costs a level more per operation.
        "bitmap-allocator" if frames <= 1 << 20 => Some(run.on::<bitmap::Bitmap1M>()),
        "bitmap-allocator" if frames <= 1 << 24 => Some(run.on::<bitmap::Bitmap16M>()),
        "buddy-slab-allocator" => Some(run.on::<buddy_slab::BuddySlab>()),
        "rvm-memory" if frames <= rvm::SMALL => Some(run.on::<rvm::RvmSmall>()),
        "rvm-memory" if frames <= rvm::LARGE => Some(run.on::<rvm::RvmLarge>()),
        "offset-allocator" => Some(run.on::<offset::Offset>()),
        _ => None,
    }
}

/// A visitor with what it runs on.
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
