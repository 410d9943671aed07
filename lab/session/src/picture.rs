//! What a session shows after a step.
//!
//! # Invariants
//! The pieces cover the memory, in ascending order, and none overlaps another one.

/// Something that covers a run of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first frame.
    pub start: u32,
    /// The number of frames.
    pub frames: u32,
    /// Its use.
    pub kind: Kind,
    /// The part of memory, or the domain, whose list it is in; 0 if there is only one, or if it is not free.
    pub part: u32,
}

/// The use of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A free block.
    Free,
    /// A free block whose coalescing is delayed.
    Delayed,
    /// What a slot holds: its number, and the CPU that allocated it.
    Allocated(usize, u16),
    /// In a CPU's list.
    Listed(u16),
    /// Waits to be divided.
    Dividing,
    /// Waits to be linked.
    Linking,
    /// Neither.
    Other,
}

/// The elements of a list of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The part of memory, or the domain.
    pub part: u32,
    /// The order.
    pub order: u8,
    /// The first frames of the elements, in the order of the list.
    pub heads: Vec<u32>,
    /// How many of them, the first ones, are locally free.
    pub local: usize,
}

/// The state of a class of blocks whose coalescing is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The order.
    pub order: u8,
    /// Blocks that exist.
    pub total: u32,
    /// Locally free ones.
    pub local: u32,
    /// Globally free ones.
    pub global: u32,
    /// The slack of DELAY-2.
    pub slack: u32,
}

/// What a CPU has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The frames in its list, by address.
    pub list: Vec<u32>,
    /// The parts of memory, or the domains, from which it allocates.
    pub parts: Vec<u32>,
}

/// The state after a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The sentence that says what happened, and why.
    pub why: String,
    /// All frames.
    pub pieces: Vec<Piece>,
    /// Free blocks by order. Those in lists of CPUs do not count.
    pub free: Vec<u32>,
    /// The lists that the system has, if it has any.
    pub lists: Vec<List>,
    /// What a part of memory is called.
    pub word: &'static str,
    /// The parts of memory: first frame and number of frames.
    pub parts: Vec<(u32, u32)>,
    /// The number of domains, or of other parts in which blocks coalesce.
    pub domains: u32,
    /// The classes, if coalescing is delayed.
    pub classes: Vec<Class>,
    /// The CPUs.
    pub cpus: Vec<Cpu>,
    /// For each slot, the first frame and the number of frames that it holds. An empty slot is `None`.
    pub slots: Vec<Option<(u32, u32)>>,
}
