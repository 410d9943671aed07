//! Third-party allocators, and those in shared libraries, as contenders.
//!
//! Allocators that published crates and shared libraries contain are measured by the loops of our systems. A default
//! build omits the published ones.
//!
//! # Invariants
//! A call of a peer has no cost besides the peer's own, and that of the table behind which it is.

use everybuddy::{Block, Index, Order};
use everybuddy_peers::{Peer, PeerRow, WithPeer};

use super::contender::{Caller, Contender, Visitor};
use super::perform::{Tools, Work, Worker};
use crate::replay::adapter::REFUSED;

/// A peer in the benchmark.
struct Other<'p, P> {
    peer: &'p P,
    row: &'static PeerRow,
}

/// A thread's access to a peer.
struct OtherCaller<'c, P: Peer> {
    peer: &'c P,
    local: P::Local<'c>,
}

impl<P: Peer> Other<'_, P> {
    fn local(&self, thread: u16) -> OtherCaller<'_, P> {
        OtherCaller {
            peer: self.peer,
            local: self.peer.local(thread),
        }
    }
}

impl<P: Peer> Contender for Other<'_, P> {
    fn caller(&self, thread: u16) -> Option<Box<dyn Caller + '_>> {
        Some(Box::new(self.local(thread)))
    }

    fn worker<'c>(
        &'c self,
        thread: u16,
        slots: u32,
        tools: Tools<'c>,
    ) -> Option<Box<dyn Work + 'c>> {
        Some(Worker::boxed(self.local(thread), slots, tools))
    }

    fn max_order(&self) -> Order {
        self.row.max_order
    }

    fn metadata_bytes(&self) -> Option<usize> {
        self.peer.metadata_bytes()
    }
}

impl<P: Peer> Caller for OtherCaller<'_, P> {
    #[inline(always)]
    fn allocate(&mut self, order: Order) -> u32 {
        match self.peer.allocate(&mut self.local, order) {
            Some(pfn) => pfn.0,
            None => REFUSED,
        }
    }

    #[inline(always)]
    fn free(&mut self, place: u32, order: Order) {
        let start = Index(place);
        self.peer.free(&mut self.local, Block { start, order });
    }

    fn finish(self: Box<Self>) -> u64 {
        self.peer.failed(&self.local)
    }
}

/// Converts a peer to a contender.
struct OfPeer<'v>(Visitor<'v>);

impl WithPeer for OfPeer<'_> {
    type Output = ();

    fn call<P: Peer>(self, row: &'static PeerRow, peer: &P) {
        (self.0)(&Other { peer, row });
    }
}

/// Builds a peer and runs `visitor` on it. Returns `None` if it cannot manage that many frames for that many threads.
pub(super) fn with(
    row: &'static PeerRow,
    frames: u32,
    threads: u16,
    visitor: Visitor<'_>,
) -> Option<()> {
    let visitor = OfPeer(visitor);
    #[cfg(feature = "peers")]
    if row.functions.is_none() {
        return everybuddy_peers::with_peer(row.name, frames, threads, visitor);
    }
    everybuddy_peers::with_row(row, frames, threads, visitor)
}
