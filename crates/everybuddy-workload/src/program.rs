//! What a thread does in a benchmark: preparation, then sections that are timed, again and again.
//!
//! Why it exists: a loop that decodes steps one by one costs more than a hit in a per-CPU list. So a
//! program says what it does by the *section*, in a form whose loop compiles to almost nothing around the
//! allocator; and every section can also be read as plain [`Step`]s, for hosts that don't count nanoseconds.
//!
//! Invariant: the loop of a section and its [`steps`](Body::steps) ask an allocator for the same, in the
//! same order. A program allocates into empty slots only, and what a round changes depends on the seed alone.

use std::ops::Range;

use everybuddy::{Order, Size};

use crate::Step;

/// What a program is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Frames of the memory that all threads share; at least 4,096.
    pub frames: u32,
    /// Threads, all with the same workload.
    pub threads: u16,
    /// What random choices come from.
    pub seed: u64,
    /// Sections are so many times shorter than usual: 1 to measure, more to try out.
    pub shrink: u32,
}

impl Setting {
    /// Returns a usual number of repetitions, shrunk; at least one.
    pub(crate) fn count(&self, usual: u32) -> u32 {
        (usual / self.shrink.max(1)).max(1)
    }

    /// Returns the frames that are one thread's share.
    pub(crate) fn share(&self) -> u32 {
        self.frames / u32::from(self.threads.max(1))
    }
}

/// A piece of a program, in the form of its loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Allocates a block of `order` into each slot, in order.
    Allocate {
        /// How much.
        order: Order,
        /// The slots, all empty.
        slots: Range<u32>,
    },
    /// Frees what these slots hold, in this order.
    Free {
        /// The slots.
        slots: Vec<u32>,
    },
    /// Pairs of one allocation and one release of the same block.
    Pairs {
        /// How much.
        order: Order,
        /// The slot, empty.
        slot: u32,
        /// How many pairs.
        count: u32,
    },
    /// Fills all of the slots, then empties them in the same order; again and again.
    Batches {
        /// How much.
        order: Order,
        /// The slots, all empty.
        slots: Range<u32>,
        /// How many times.
        count: u32,
    },
    /// Frees what a slot holds, and fills it anew with a block of the order; for each entry in turn.
    Replace {
        /// Slots and orders.
        entries: Vec<(u32, Order)>,
    },
    /// Allocates blocks, and hands each to the next thread.
    Hand {
        /// How much.
        order: Order,
        /// How many blocks.
        count: u32,
    },
    /// Receives blocks from the thread before, and frees each.
    Receive {
        /// The order of the blocks.
        order: Order,
        /// How many blocks.
        count: u32,
    },
    /// Steps that follow no pattern.
    Steps(Vec<Step>),
    /// Sorts what these slots hold by its place in memory, so that neighbouring slots hold neighbouring
    /// frames. Asks nothing of an allocator, and occurs only in preparation: the host must do it.
    Arrange {
        /// The slots.
        slots: Range<u32>,
    },
}

impl Body {
    /// Returns how many allocations and releases this asks for.
    pub fn operations(&self) -> u64 {
        match self {
            Body::Allocate { slots, .. } => slots.len() as u64,
            Body::Free { slots } => slots.len() as u64,
            Body::Pairs { count, .. } => 2 * u64::from(*count),
            Body::Batches { slots, count, .. } => 2 * slots.len() as u64 * u64::from(*count),
            Body::Replace { entries } => 2 * entries.len() as u64,
            Body::Hand { count, .. } | Body::Receive { count, .. } => u64::from(*count),
            Body::Steps(steps) => steps.len() as u64,
            Body::Arrange { .. } => 0,
        }
    }

    /// Returns the same as single steps.
    pub fn steps(&self) -> Box<dyn Iterator<Item = Step> + '_> {
        let allocate = |slot: u32, order: Order| Step::Allocate {
            slot,
            size: Size::Order(order),
        };
        let free = |slot: u32| Step::Free { slot };
        match self {
            Body::Allocate { order, slots } => {
                Box::new(slots.clone().map(move |slot| allocate(slot, *order)))
            }
            Body::Free { slots } => Box::new(slots.iter().map(move |slot| free(*slot))),
            Body::Pairs { order, slot, count } => {
                Box::new((0..*count).flat_map(move |_| [allocate(*slot, *order), free(*slot)]))
            }
            Body::Batches {
                order,
                slots,
                count,
            } => Box::new((0..*count).flat_map(move |_| {
                let fill = slots.clone().map(move |slot| allocate(slot, *order));
                fill.chain(slots.clone().map(free))
            })),
            Body::Replace { entries } => Box::new(
                entries
                    .iter()
                    .flat_map(move |(slot, order)| [free(*slot), allocate(*slot, *order)]),
            ),
            Body::Hand { order, count } => Box::new(
                (0..*count).flat_map(move |_| [allocate(0, *order), Step::Hand { slot: 0 }]),
            ),
            Body::Receive { count, .. } => {
                Box::new((0..*count).flat_map(move |_| [Step::Receive { slot: 0 }, free(0)]))
            }
            Body::Steps(steps) => Box::new(steps.iter().copied()),
            Body::Arrange { .. } => Box::new(std::iter::empty()),
        }
    }
}

/// What the time of a section is divided by, and what that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Pairs of an allocation and a release.
    Pair,
    /// Allocations.
    Allocate,
    /// Releases.
    Free,
    /// Single operations of both kinds.
    Operation,
}

/// A piece of a program that is timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What is counted.
    pub part: Part,
    /// What is done.
    pub body: Body,
}

/// What makes the next round of a program.
pub type Round = Box<dyn FnMut() -> Vec<Section> + Send>;

/// What one thread does.
pub struct Program {
    slots: u32,
    prepare: Vec<Body>,
    round: Round,
}

impl Program {
    /// Makes a program over so many slots from its preparation and its rounds.
    pub(crate) fn new(
        slots: u32,
        prepare: Vec<Body>,
        round: impl FnMut() -> Vec<Section> + Send + 'static,
    ) -> Self {
        Self {
            slots,
            prepare,
            round: Box::new(round),
        }
    }

    /// Returns how many slots the program names.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns what is done before anything is timed. Threads prepare one after the other.
    pub fn prepare(&self) -> &[Body] {
        &self.prepare
    }

    /// Makes the next round: sections that follow each other. All threads have equally many, and begin
    /// each together.
    pub fn round(&mut self) -> Vec<Section> {
        (self.round)()
    }
}
