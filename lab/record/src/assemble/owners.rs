//! The live frames of the trace, and the allocations that they belong to.
//!
//! Recordings say anything: a frame allocated twice, a free that touches three blocks, frame numbers from a damaged
//! page. Live memory is kept as aligned pieces by their first frame; a piece is a block, or what partial frees left of
//! one. So memory depends on the number of live pieces alone, and neither on frame numbers nor on orders.
//!
//! # Invariants
//! Pieces are aligned to their order and share no frame; pieces of a block are as large as what was freed of it allows.

use std::collections::{BTreeMap, HashMap};

/// An aligned piece of a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// First frame.
    pub(super) pfn: u64,
    /// Binary logarithm of its number of frames.
    pub(super) order: u8,
    /// The block that contains it.
    pub(super) block: Block,
}

/// An allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Row of its allocation.
    pub(super) row: u32,
    /// Its order when it was allocated.
    pub(super) order: u8,
}

/// A removed piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The piece.
    pub(super) piece: Piece,
    /// Whether no frame of its block is live any more.
    pub(super) is_last: bool,
}

/// The live pieces.
#[derive(Debug, Default)]
pub(super) struct Owners {
    pieces: BTreeMap<u64, (u8, Block)>,
    /// The number of remaining frames of partly live blocks, by row.
    left: HashMap<u32, u32>,
    live: u64,
}

/// Returns the last frame of an aligned block. An aligned block never exceeds the last frame number.
fn last_frame(pfn: u64, order: u8) -> u64 {
    pfn + ((1 << order) - 1)
}

impl Owners {
    /// Returns the number of live frames.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Adds a block. None of its frames may be live.
    pub(super) fn insert(&mut self, pfn: u64, block: Block) {
        self.pieces.insert(pfn, (block.order, block));
        self.live += 1 << block.order;
    }

    /// Removes the live frames of an aligned block, and returns them as pieces in increasing order.
    ///
    /// The rest of blocks that extend further stays live. Takes time proportional to the number of pieces.
    pub(super) fn take(&mut self, pfn: u64, order: u8) -> Vec<Taken> {
        let mut pieces = Vec::new();
        if let Some(around) = self.piece_around(pfn, order) {
            self.cut(around, pfn, order);
            pieces.push(Piece {
                pfn,
                order,
                ..around
            });
        } else {
            let inside = self.pieces.range(pfn..=last_frame(pfn, order));
            let piece = |(pfn, (order, block)): (&u64, &(u8, Block))| Piece {
                pfn: *pfn,
                order: *order,
                block: *block,
            };
            pieces.extend(inside.map(piece));
            for piece in &pieces {
                self.pieces.remove(&piece.pfn);
            }
        }
        pieces.into_iter().map(|piece| self.settle(piece)).collect()
    }

    /// Accounts for a removed piece.
    fn settle(&mut self, piece: Piece) -> Taken {
        self.live -= 1 << piece.order;
        let Block { row, order } = piece.block;
        let mut is_last = piece.order == order;
        if !is_last {
            let left = self.left.entry(row).or_insert(1 << order);
            *left -= 1 << piece.order;
            if *left == 0 {
                self.left.remove(&row);
                is_last = true;
            }
        }
        Taken { piece, is_last }
    }

    /// Finds the piece that contains a whole aligned block. Both are aligned, so a piece that starts before the block
    /// and overlaps it contains all of it.
    fn piece_around(&self, pfn: u64, order: u8) -> Option<Piece> {
        let (&first, &(of_order, block)) = self.pieces.range(..=pfn).next_back()?;
        let holds = of_order >= order && last_frame(first, of_order) >= pfn;
        holds.then_some(Piece {
            pfn: first,
            order: of_order,
            block,
        })
    }

    /// Removes an aligned block from the piece around it: the other half at each order stays live.
    fn cut(&mut self, mut around: Piece, pfn: u64, order: u8) {
        self.pieces.remove(&around.pfn);
        while around.order > order {
            around.order -= 1;
            let upper = around.pfn + (1 << around.order);
            let (kept, next) = if pfn < upper {
                (upper, around.pfn)
            } else {
                (around.pfn, upper)
            };
            self.pieces.insert(kept, (around.order, around.block));
            around.pfn = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(row: u32, order: u8) -> Block {
        Block { row, order }
    }

    /// Returns the first frame, the order, the row, and whether it was the last piece of its block.
    fn taken(owners: &mut Owners, pfn: u64, order: u8) -> Vec<(u64, u8, u32, bool)> {
        let pieces = owners.take(pfn, order).into_iter();
        pieces
            .map(|Taken { piece, is_last }| (piece.pfn, piece.order, piece.block.row, is_last))
            .collect()
    }

    #[test]
    fn a_part_leaves_the_other_halves() {
        let mut owners = Owners::default();
        owners.insert(64, block(7, 4));
        assert_eq!(taken(&mut owners, 69, 0), [(69, 0, 7, false)]);
        assert_eq!(owners.live(), 15);
        assert_eq!(
            taken(&mut owners, 64, 4),
            [
                (64, 2, 7, false),
                (68, 0, 7, false),
                (70, 1, 7, false),
                (72, 3, 7, true)
            ]
        );
        assert_eq!((owners.live(), owners.left.len()), (0, 0));
    }

    #[test]
    fn a_block_over_several_takes_them_all() {
        let mut owners = Owners::default();
        owners.insert(0, block(1, 0));
        owners.insert(2, block(2, 1));
        owners.insert(4, block(3, 2));
        assert_eq!(taken(&mut owners, 0, 2), [(0, 0, 1, true), (2, 1, 2, true)]);
        assert_eq!(taken(&mut owners, 0, 2), []);
    }

    #[test]
    fn a_stranger_inside_does_not_keep_a_block_alive() {
        let mut owners = Owners::default();
        owners.insert(0, block(1, 1));
        assert_eq!(taken(&mut owners, 1, 0), [(1, 0, 1, false)]);
        owners.insert(1, block(2, 0));
        assert_eq!(taken(&mut owners, 0, 0), [(0, 0, 1, true)]);
    }

    #[test]
    fn the_last_frames_of_all_are_frames_like_others() {
        let mut owners = Owners::default();
        owners.insert(u64::MAX - 7, block(0, 3));
        assert_eq!(taken(&mut owners, u64::MAX, 0), [(u64::MAX, 0, 0, false)]);
        assert_eq!(owners.live(), 7);
    }
}
