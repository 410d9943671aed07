//! How many trees there are, and what else the memory and the CPUs decide.
//!
//! The size of the metadata follows from few numbers. If these are constants, so is the size: that of a static.
//!
//! # Invariants
//! A tree has 1 to 64 words.

use crate::bit_runs::{WORD, WORD_ORDER};
use crate::frame::Order;
use crate::region::Span;

use super::foreign::Windows;
use super::tree::MAX_WORDS;
use super::word::Kind;

/// The frames of the smallest tree: a word.
pub(crate) const SMALLEST_TREE: u32 = WORD;
/// The frames of the largest tree: 16 MiB.
pub(crate) const LARGEST_TREE: u32 = WORD * MAX_WORDS;

/// The trees for each CPU that there should be: trees are smaller if there would be fewer.
pub(super) const TREES_PER_CPU: u32 = 8;
/// One tree in this number is left without an owner, for nested requests, which find frames in such trees only.
const UNOWNED_SHARE: u32 = 16;
/// The most trees that a CPU owns at a time: 64 GiB.
const MAX_OWNED: u32 = 4096;
/// The most frames in the lists of a CPU, unless memory is large: they fit a page, with 64 slots for trees and more.
pub(super) const SHORT_LIST: u32 = 896;
/// The most frames in the lists of a CPU: on a machine of 16 GiB, a burst of 8,192 frames of one kind stays there.
const LONG_LIST: u32 = 16_384;
/// Lists of more than [`SHORT_LIST`] frames have at most one frame in this number, all CPUs together.
const LISTED_SHARE: u32 = 32;
/// The CPUs among which that share is divided, at least.
const LEAST_SHARERS: u32 = 8;
/// The orders of the blocks that have lists: 0 to 9.
const LISTED_ORDERS: usize = 10;
/// The lists of a CPU, by the head of their blocks. The first two are of no block.
pub(super) const HEADS_WITH_LIST: usize = (LISTED_ORDERS + 1) * Kind::COUNT;
/// Those of the lists that are of single frames and small blocks come first.
pub(super) const HEADS_OF_SMALL: usize = (WORD_ORDER as usize + 1) * Kind::COUNT;
/// The most blocks of several frames in a list: those that a program frees and allocates again.
const LISTED_BLOCKS: u32 = 16;
/// A list of blocks of several frames has at most one frame in this number of a CPU's share of memory, or one block of
/// two frames.
const BLOCKS_SHARE: u32 = 512;
/// The least blocks in a list of blocks of whole words, unless it holds none.
const LEAST_LARGE: u32 = 2;
/// Such a list holds none if these blocks would be more than one frame in this number of a CPU's share of memory.
const LARGE_SHARE: u32 = 64;

/// The numbers of a system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) span: Span,
    pub(crate) cpus: u16,
    pub(crate) max_order: Order,
    /// The frames of a tree, a power of two; `None` if the memory and the CPUs decide.
    pub(crate) tree: Option<u32>,
}

impl Geometry {
    /// Returns what decides the size of the metadata.
    pub(super) fn dimensions(&self) -> Dimensions {
        Dimensions {
            frames: self.span.frames(),
            cpus: self.cpus,
            tree: self.tree,
        }
    }
}

/// What decides the size of the metadata. The numbers are constants if these are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dimensions {
    /// The frames of the span.
    pub(super) frames: u32,
    pub(super) cpus: u16,
    pub(super) tree: Option<u32>,
}

impl Dimensions {
    /// Returns the frames of a tree: as many as leave several trees for each CPU.
    pub(super) const fn tree(&self) -> u32 {
        let wanted = match self.tree {
            Some(tree) => tree,
            None => {
                let fair = self.frames / (TREES_PER_CPU * self.cpus as u32);
                1 << clamp(fair, 1, u32::MAX).ilog2()
            }
        };
        clamp(wanted, SMALLEST_TREE, LARGEST_TREE)
    }

    pub(super) const fn trees(&self) -> u32 {
        self.frames.div_ceil(self.tree())
    }

    pub(super) const fn windows(&self) -> Windows {
        Windows::new(self.trees(), self.cpus)
    }

    pub(super) const fn words(&self) -> usize {
        self.trees() as usize * (self.tree() / WORD) as usize
    }

    /// Returns the most trees that a CPU owns at a time, at least one of each kind.
    pub(super) const fn owned(&self) -> usize {
        let shared = self.trees() - self.trees().div_ceil(UNOWNED_SHARE);
        let share = shared / self.cpus as u32;
        clamp(share, Kind::COUNT as u32, MAX_OWNED) as usize
    }

    /// Returns the most single frames in a CPU's lists.
    pub(super) const fn list(&self) -> usize {
        let sharers = clamp(self.cpus as u32, LEAST_SHARERS, u32::MAX);
        let share = clamp(
            self.frames / (LISTED_SHARE * sharers),
            SHORT_LIST,
            LONG_LIST,
        );
        clamp(self.frames / 4, 4, share) as usize
    }

    /// Returns the most blocks in the list of a head: none if a block is larger than a tree. A block of a list goes
    /// back to one tree.
    pub(super) const fn listed(&self, head: usize) -> u32 {
        match (head / Kind::COUNT).checked_sub(1) {
            None => 0,
            Some(0) => self.list() as u32 / Kind::COUNT as u32,
            Some(order) if 1 << order > self.tree() => 0,
            Some(order) => {
                let share = self.frames / self.cpus as u32;
                let is_large = order >= WORD_ORDER as usize;
                let least = if is_large && (share / LARGE_SHARE) >> order >= LEAST_LARGE {
                    LEAST_LARGE
                } else {
                    0
                };
                let listed = clamp(share / BLOCKS_SHARE, 2, u32::MAX) >> order;
                clamp(listed, least, LISTED_BLOCKS)
            }
        }
    }

    /// Returns the number of entries of all lists with a lower head than this one.
    pub(super) const fn entries_below(&self, head: usize) -> usize {
        let (mut entries, mut below) = (0, 0);
        while below < head {
            entries += self.listed(below) as usize;
            below += 1;
        }
        entries
    }
}

/// Returns the nearest number of a range. (`Ord::clamp` is not a constant function.)
const fn clamp(number: u32, least: u32, most: u32) -> u32 {
    if number < least {
        least
    } else if number > most {
        most
    } else {
        number
    }
}
