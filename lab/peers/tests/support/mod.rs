//! A shadow bitmap of the memory.
//!
//! A peer's answers are checked against its earlier answers, not against its own bookkeeping.
//!
//! # Invariants
//! A frame is marked exactly while a test holds it.

use std::sync::atomic::{AtomicBool, Ordering};

use everybuddy::{Block, Order};
use everybuddy_peers::{Peer, PeerRow};

/// The frames that the tests hold.
pub(crate) struct Shadow(Vec<AtomicBool>);

impl Shadow {
    /// Creates a shadow in which no frame is held.
    pub(crate) fn new(frames: u32) -> Self {
        Self((0..frames).map(|_| AtomicBool::new(false)).collect())
    }

    /// Allocates, and checks that the block is in range, aligned, and not already held.
    pub(crate) fn take<P: Peer>(
        &self,
        row: &PeerRow,
        peer: &P,
        local: &mut P::Local<'_>,
        order: Order,
    ) -> Option<Block> {
        let start = peer.allocate(local, order)?;
        assert!(order <= row.max_order, "{}: {order:?} given", row.name);
        assert!(
            start.is_aligned(order),
            "{}: {start} of {order:?}",
            row.name
        );
        for frame in self.frames(row, Block::new(start, order)) {
            let held = frame.swap(true, Ordering::AcqRel);
            assert!(!held, "{}: {start} of {order:?} given twice", row.name);
        }
        Some(Block::new(start, order))
    }

    /// Frees a block.
    pub(crate) fn give<P: Peer>(
        &self,
        row: &PeerRow,
        peer: &P,
        local: &mut P::Local<'_>,
        block: Block,
    ) {
        // Cleared first: once the block is freed, another thread may allocate it.
        for frame in self.frames(row, block) {
            assert!(frame.swap(false, Ordering::AcqRel), "a test's own mistake");
        }
        peer.free(local, block);
    }

    /// Allocates everything that is left, largest blocks first, and checks that all further requests fail.
    pub(crate) fn drain<P: Peer>(
        &self,
        row: &PeerRow,
        peer: &P,
        local: &mut P::Local<'_>,
    ) -> Vec<Block> {
        let mut blocks = Vec::new();
        for order in Order::up_to(row.max_order).rev() {
            while let Some(block) = self.take(row, peer, local, order) {
                blocks.push(block);
            }
        }
        for order in Order::up_to(Order::LIMIT) {
            assert_eq!(peer.allocate(local, order), None, "{}: {order:?}", row.name);
        }
        blocks
    }

    fn frames(&self, row: &PeerRow, block: Block) -> &[AtomicBool] {
        let start = block.start.as_usize();
        let end = start + block.order.frames() as usize;
        assert!(end <= self.0.len(), "{}: {block:?} is outside", row.name);
        &self.0[start..end]
    }
}

/// Returns the number of frames in some blocks.
pub(crate) fn frames(blocks: &[Block]) -> u32 {
    blocks.iter().map(|block| block.order.frames()).sum()
}
