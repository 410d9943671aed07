//! The stores of the free blocks of each class.
//!
//! The paper blames the queues: everything but the store stays the same.
//!
//! # Invariants
//! A block is a class and the number of its first unit, a multiple of 2^class; no two in a store overlap.

use std::fmt;
use std::str::FromStr;

/// The number of a unit of 8 bytes.
pub type Unit = u32;

/// Free blocks by class.
pub trait Store {
    /// Inserts a block that is not present.
    fn add(&mut self, class: u8, unit: Unit);

    /// Removes the block that the store prefers.
    fn take(&mut self, class: u8) -> Option<Unit>;

    /// Removes a specific block, which is present.
    fn remove(&mut self, class: u8, unit: Unit);

    /// Returns `true` if a class has no block.
    fn is_empty(&self, class: u8) -> bool;

    /// Returns the start of a search for pairs.
    fn first(&self, class: u8) -> Unit;

    /// Finds two buddies of a class that are both present. Returns the lower one, and the position at which the
    /// search continues once both are removed. Until then the class must not change otherwise.
    fn pair(&self, class: u8, from: Unit) -> Option<(Unit, Unit)>;

    /// Returns all blocks of a class, for checks.
    fn blocks(&self, class: u8) -> Vec<Unit>;
}

/// A store by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// First in, first out; an insertion goes to the end linearly, and a buddy is searched for linearly, too.
    QueueSearch,
    /// First in, first out; an insertion goes to the end linearly; a block's mark shows whether it is present.
    Queue,
    /// The same, with a known end.
    QueueTail,
    /// Last in, first out.
    QueueHead,
    /// The lowest address first; an insertion goes to its place linearly. Calls are those of the other stores by
    /// address.
    QueueOrdered,
    /// Balanced trees, the lowest address first.
    Tree,
    /// Bits with summaries, the lowest address first.
    Bitmap,
}

impl StoreKind {
    /// All stores.
    pub const ALL: [StoreKind; 7] = [
        Self::QueueSearch,
        Self::Queue,
        Self::QueueTail,
        Self::QueueHead,
        Self::QueueOrdered,
        Self::Tree,
        Self::Bitmap,
    ];

    /// Returns `true` if an insertion walks a queue.
    pub const fn is_walked(self) -> bool {
        matches!(self, Self::QueueSearch | Self::Queue | Self::QueueOrdered)
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueSearch => "queue-search",
            Self::Queue => "queue",
            Self::QueueTail => "queue-tail",
            Self::QueueHead => "queue-head",
            Self::QueueOrdered => "queue-ordered",
            Self::Tree => "tree",
            Self::Bitmap => "bitmap",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("no store `{name}`: {}", names()))
    }
}
