//! The work of a thread in a benchmark: preparation, then timed sections, repeatedly.
//!
//! A loop that decodes steps one by one costs more than a hit in a per-CPU list. A program therefore describes its
//! work by *section*, in a form whose loop compiles to almost nothing besides the calls of the allocator. Every
//! section is also available as plain [`Step`]s, for hosts that do not measure nanoseconds.
//!
//! # Invariants
//! The loop of a section and its [`steps`](Body::steps) make the same requests in the same order. A program allocates
//! into empty slots only, and its random choices depend on the seed alone.

use std::ops::Range;

use everybuddy::{Order, Size};

use crate::Step;
use crate::random::Random;

/// The parameters of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Frames of the memory that all threads share; at least 4,096.
    pub frames: u32,
    /// The number of threads, which all run the same workload.
    pub threads: u16,
    /// The seed of the random choices.
    pub seed: u64,
    /// The factor by which sections are shortened: 1 to measure, more for a smoke test.
    pub shrink: u32,
}

impl Setting {
    /// Returns the standard number of repetitions divided by `shrink`; at least one.
    pub(crate) fn count(&self, usual: u32) -> u32 {
        (usual / self.shrink.max(1)).max(1)
    }

    /// Returns the number of frames of one thread's share.
    pub(crate) fn share(&self) -> u32 {
        self.frames / u32::from(self.threads.max(1))
    }
}

/// How fast a thread makes requests where time is simulated: the mean cycles between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Before an allocation.
    pub allocate: u32,
    /// Before a free.
    pub free: u32,
}

/// The mean number of requests that follow each other in one address region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Allocations.
    pub allocate: u32,
    /// Frees.
    pub free: u32,
}

/// What a program does with a frame that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Nothing.
    Nothing,
    /// Writes one cache line.
    Line,
    /// Writes all of it, as a kernel clears a page.
    Zeroed,
    /// Writes all of it. Then it reads [`READS`] lines at random in the frames that it has.
    Read,
}

/// Lines that are read for each frame by [`Use::Read`].
pub const READS: u32 = 4;

/// A piece of a program, in the form of its loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Allocates a block of `order` into each slot, in order.
    Allocate {
        /// The order of each block.
        order: Order,
        /// The slots, all empty.
        slots: Range<u32>,
    },
    /// Frees what these slots hold, in this order.
    Free {
        /// The slots.
        slots: Vec<u32>,
    },
    /// Pairs of one allocation and one free of the same block.
    Pairs {
        /// The order of each block.
        order: Order,
        /// The slot, empty.
        slot: u32,
        /// The number of pairs.
        count: u32,
    },
    /// Repeatedly fills all slots, then empties them in the same order.
    Batches {
        /// The order of each block.
        order: Order,
        /// The slots, all empty.
        slots: Range<u32>,
        /// The number of repetitions.
        count: u32,
    },
    /// For each entry in turn: frees the block in the slot and allocates a new one of the given order.
    Replace {
        /// Slots and orders.
        entries: Vec<(u32, Order)>,
    },
    /// Allocates blocks and passes each to the next thread.
    Hand {
        /// The order of each block.
        order: Order,
        /// The number of blocks.
        count: u32,
    },
    /// Receives blocks from the previous thread and frees each.
    Receive {
        /// The order of the blocks.
        order: Order,
        /// The number of blocks.
        count: u32,
    },
    /// Steps without a pattern.
    Steps(Vec<Step>),
    /// Allocations and frees of single frames, which are used. Its items are the allocations.
    Touch {
        /// The steps, without any that pass blocks on.
        steps: Vec<Step>,
        /// What is done with each frame after its allocation.
        used: Use,
        /// The slots whose frames are read for a use that reads; some may be empty.
        own: Range<u32>,
    },
    /// Reads lines at random in the frames of these slots, each place dependent on what was read before. It makes no
    /// requests. A host without memory behind the frames does nothing.
    Scan {
        /// The slots.
        slots: Range<u32>,
        /// The number of lines.
        count: u32,
    },
    /// Sorts the blocks in these slots by address, so that neighbouring slots hold neighbouring frames. It makes no
    /// requests, occurs only in the preparation, and is done by the host.
    Arrange {
        /// The slots.
        slots: Range<u32>,
    },
    /// Puts the blocks in these slots into a pot that all threads share. The slots are empty afterwards. It makes no
    /// requests, occurs only in the [settling](Program::settle), and is done by the host.
    Give {
        /// The slots.
        slots: Range<u32>,
    },
    /// Takes this thread's [share](deal) of the pot into these slots, the first ones first. Like [`Give`](Self::Give),
    /// which all threads have done before.
    Take {
        /// The slots, all empty.
        slots: Range<u32>,
        /// The thread.
        thread: u16,
        /// The number of threads.
        threads: u16,
        /// The seed of the random choice, the same for all threads.
        seed: u64,
    },
}

/// Returns a thread's random share of a pot that is in a defined order. The shares of all threads are disjoint, and
/// together they are the pot. O(blocks).
pub fn deal<T: Copy>(pot: &[T], thread: u16, threads: u16, seed: u64) -> Vec<T> {
    let mut blocks = pot.to_vec();
    Random::new(seed, u16::MAX).shuffle(&mut blocks);
    let every = usize::from(threads.max(1));
    blocks
        .into_iter()
        .skip(thread.into())
        .step_by(every)
        .collect()
}

impl Body {
    /// Creates a body that allocates a single frame for each slot.
    pub(crate) fn frames(slots: Range<u32>) -> Body {
        Body::Allocate {
            order: Order::ZERO,
            slots,
        }
    }

    /// Creates what fills all of memory with blocks of one order, and frees some of them.
    pub(crate) fn holes(order: Order, blocks: u32, leave: Vec<u32>) -> Vec<Body> {
        let slots = 0..blocks;
        vec![
            Body::Allocate { order, slots },
            Body::Arrange { slots: 0..blocks },
            Body::Free { slots: leave },
        ]
    }

    /// Returns the number of allocations and frees.
    pub fn operations(&self) -> u64 {
        match self {
            Body::Allocate { slots, .. } => slots.len() as u64,
            Body::Free { slots } => slots.len() as u64,
            Body::Pairs { count, .. } => 2 * u64::from(*count),
            Body::Batches { slots, count, .. } => 2 * slots.len() as u64 * u64::from(*count),
            Body::Replace { entries } => 2 * entries.len() as u64,
            Body::Hand { count, .. } | Body::Receive { count, .. } => u64::from(*count),
            Body::Steps(steps) | Body::Touch { steps, .. } => steps.len() as u64,
            Body::Scan { .. } | Body::Arrange { .. } | Body::Give { .. } | Body::Take { .. } => 0,
        }
    }

    /// Returns the same work as single steps.
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
            Body::Steps(steps) | Body::Touch { steps, .. } => Box::new(steps.iter().copied()),
            Body::Scan { .. } | Body::Arrange { .. } | Body::Give { .. } | Body::Take { .. } => {
                Box::new(std::iter::empty())
            }
        }
    }
}

/// The unit by which the time of a section is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Pairs of an allocation and a free.
    Pair,
    /// Allocations.
    Allocate,
    /// Frees.
    Free,
    /// Single operations of both kinds.
    Operation,
}

/// A piece of a program that is timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The unit of the reported time.
    pub part: Part,
    /// The work.
    pub body: Body,
}

impl Section {
    /// Creates two sections: one allocates a block for each slot, the other frees the slots in this order.
    pub(crate) fn fill_and_free(order: Order, slots: Vec<u32>) -> [Section; 2] {
        let filled = 0..slots.len() as u32;
        [
            (
                Part::Allocate,
                Body::Allocate {
                    order,
                    slots: filled,
                },
            ),
            (Part::Free, Body::Free { slots }),
        ]
        .map(|(part, body)| Section { part, body })
    }
}

/// Generates the next round of a program.
pub type Round = Box<dyn FnMut() -> Vec<Section> + Send>;

/// The work of one thread.
pub struct Program {
    slots: u32,
    prepare: Vec<Body>,
    settle: Vec<Body>,
    round: Round,
}

impl Program {
    /// Creates a program of which each round is one section.
    pub(crate) fn of_part(
        part: Part,
        slots: u32,
        prepare: Vec<Body>,
        mut body: impl FnMut() -> Body + Send + 'static,
    ) -> Self {
        Program::new(slots, prepare, move || vec![Section { part, body: body() }])
    }

    /// Creates a program over `slots` slots from its preparation and its rounds.
    pub(crate) fn new(
        slots: u32,
        prepare: Vec<Body>,
        round: impl FnMut() -> Vec<Section> + Send + 'static,
    ) -> Self {
        Self {
            slots,
            prepare,
            settle: Vec::new(),
            round: Box::new(round),
        }
    }

    /// Returns the program with work between the preparation and the timed sections.
    pub(crate) fn settling(self, settle: Vec<Body>) -> Self {
        Self { settle, ..self }
    }

    /// Returns the number of slots that the program uses.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the work that precedes the timed sections. Threads prepare one after another.
    pub fn prepare(&self) -> &[Body] {
        &self.prepare
    }

    /// Returns the work that follows the preparation. Nothing of it is timed. All threads have the same number of
    /// pieces, and start each piece together.
    pub fn settle(&self) -> &[Body] {
        &self.settle
    }

    /// Returns the next round: consecutive sections. All threads have the same number of sections, and start each
    /// section together.
    pub fn round(&mut self) -> Vec<Section> {
        (self.round)()
    }
}
