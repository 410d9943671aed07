//! The paper's simple buddy system: a heap in units of 8 bytes, blocks of powers of two of them.
//!
//! # Source
//! \[Serewa\] section 3, figure 2 and listings 1 to 3. The text leaves many details open; this implementation agrees
//! with both profiles to the last call:
//!
//! - a block has a header of 4 bytes and is rounded up to 8; its class is that of the next power of two;
//! - the rest of the block is immediately arranged into blocks of powers of two, the smallest first; a free arranges
//!   exactly the allocated memory, and merges nothing;
//! - if the class is empty, *case 1* splits a block of the next larger class that has one, and merges once if there
//!   is none; *case 2* merges once, and splits if that did not help;
//! - a merge for a class merges every pair of buddies in every class below, starting with the smallest class.
//!
//! Runs differ only in the case and the store.
//!
//! # Invariants
//! [`Work::balance`]; every unit is in one free block, or allocated.

use crate::emulation::function::{Function, Table};
use crate::emulation::store::{Store, Unit};
use crate::emulation::watch::Watch;

/// Bytes of a unit.
pub const UNIT: u32 = 8;
/// Bytes in front of the memory that a caller receives.
pub const HEADER: u32 = 4;

/// The first action if a class is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Case 1: split a larger block.
    SplitFirst,
    /// Case 2: merge smaller ones.
    MergeFirst,
}

impl Case {
    /// Both cases.
    pub const ALL: [Case; 2] = [Self::SplitFirst, Self::MergeFirst];

    /// Returns the number in the paper.
    pub const fn number(self) -> u8 {
        match self {
            Self::SplitFirst => 1,
            Self::MergeFirst => 2,
        }
    }
}

/// The managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Units; a multiple of the largest block.
    pub units: u32,
    /// The class of the largest block.
    pub largest: u8,
}

impl Heap {
    /// 64 MiB in blocks of 2 MiB. The paper specifies neither. A heap of this size fails no request, like the
    /// paper's, and with these blocks there are as many splits as in its profiles. (The program requests at most 128
    /// KiB: a larger block is only split further when it is first used.)
    pub const PAPER: Heap = Heap {
        units: 64 << 20 >> 3,
        largest: 18,
    };
}

/// The work of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Calls of each function.
    pub calls: Table,
    /// Blocks split into two.
    pub splits: u64,
    /// Pairs of buddies merged into one block.
    pub pairs: u64,
    /// Failed requests; the paper's program has none.
    pub refused: u64,
}

impl Work {
    /// Checks the identities that both profiles of the paper obey.
    ///
    /// # Errors
    /// Returns the identity that does not hold.
    pub fn balance(&self) -> Result<(), String> {
        use Function::{AddChunk, Allocate, RemoveAny, RemoveTheChunk, ZerosLeft, ZerosRight};
        let calls = |function| self.calls.of(function);
        #[rustfmt::skip]
        let identities = [
            (
                "any removed + refused = allocations + splits",
                calls(RemoveAny) + self.refused,
                calls(Allocate) + self.splits,
            ),
            ("removed = any removed + 2 merges of pairs", calls(RemoveTheChunk), calls(RemoveAny) + 2 * self.pairs),
            (
                "added = pieces + merges of pairs + 2 splits",
                calls(AddChunk),
                calls(ZerosRight) + self.pairs + 2 * self.splits,
            ),
            ("zeros counted on the left = allocations", calls(ZerosLeft), calls(Allocate)),
        ];
        match identities.iter().find(|(_, left, right)| left != right) {
            Some((what, left, right)) => Err(format!("{what}: {left} and {right}")),
            None => Ok(()),
        }
    }
}

/// The position of the smallest piece in a free area.
#[derive(Clone, Copy)]
enum Smallest {
    /// At its start: the rest of a block, whose end is aligned.
    First,
    /// At its end: allocated memory, whose start is aligned.
    Last,
}

/// The manager of a heap.
#[derive(Debug)]
pub struct Manager<S, W> {
    store: S,
    watch: W,
    case: Case,
    heap: Heap,
    /// The header of each allocated block: its units.
    headers: Vec<u32>,
    now: Function,
    work: Work,
}

impl<S: Store, W: Watch> Manager<S, W> {
    /// Creates a heap of largest blocks, all free, in an empty store. O(units).
    pub fn new(heap: Heap, case: Case, mut store: S, watch: W) -> Self {
        for block in 0..heap.units >> heap.largest {
            store.add(heap.largest, block << heap.largest);
        }
        Self {
            store,
            watch,
            case,
            heap,
            headers: vec![0; heap.units as usize],
            now: Function::Test,
            work: Work::default(),
        }
    }

    /// Returns the work so far.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Returns the observer.
    pub fn into_watch(self) -> W {
        self.watch
    }

    /// Runs one of the functions.
    #[inline]
    pub(crate) fn inside<R>(&mut self, function: Function, body: impl FnOnce(&mut Self) -> R) -> R {
        let caller = std::mem::replace(&mut self.now, function);
        self.work.calls.add(function, 1);
        self.watch.switch(caller, function);
        let result = body(self);
        self.watch.switch(function, caller);
        self.now = caller;
        result
    }

    /// Allocates the given number of bytes. Returns the block's first unit, or `None` if there is no block.
    pub fn allocate(&mut self, bytes: u32) -> Option<Unit> {
        self.inside(Function::Allocate, |own| {
            let units = bytes.saturating_add(HEADER).div_ceil(UNIT);
            let class = own.zeros_left(units);
            if class <= own.heap.largest && own.store.is_empty(class) {
                own.obtain(class);
            }
            let Some(unit) = own.remove_any(class) else {
                own.work.refused += 1;
                return None;
            };
            own.headers[unit as usize] = units;
            let rest = (1 << class) - units;
            if rest > 0 {
                own.arrange(unit + units, rest, Smallest::First);
            }
            Some(unit)
        })
    }

    /// Frees an allocated block. Returns `false`, and does nothing, if it is not allocated.
    pub fn free(&mut self, unit: Unit) -> bool {
        self.inside(Function::Free, |own| {
            let Some(header) = own
                .headers
                .get_mut(unit as usize)
                .filter(|units| **units > 0)
            else {
                return false;
            };
            let units = std::mem::take(header);
            own.arrange(unit, units, Smallest::Last);
            true
        })
    }

    /// Tries to obtain a block of an empty class.
    fn obtain(&mut self, class: u8) {
        match self.case {
            Case::SplitFirst => {
                if !self.split(class) {
                    self.merge(class);
                }
            }
            Case::MergeFirst => {
                self.merge(class);
                if self.store.is_empty(class) {
                    self.split(class);
                }
            }
        }
    }

    /// Splits a block of the next larger class that has one, down to a class. A part of the allocation: the paper's
    /// profile has no function for it.
    fn split(&mut self, class: u8) -> bool {
        let mut larger = class + 1..=self.heap.largest;
        let Some(from) = larger.find(|larger| !self.store.is_empty(*larger)) else {
            return false;
        };
        for half in (class..from).rev() {
            let Some(unit) = self.remove_any(half + 1) else {
                return false;
            };
            self.work.splits += 1;
            self.add(half, unit);
            self.add(half, unit + (1 << half));
        }
        true
    }

    fn zeros_left(&mut self, units: u32) -> u8 {
        self.inside(Function::ZerosLeft, |_| {
            (u32::BITS - (units - 1).leading_zeros()) as u8
        })
    }

    fn arrange(&mut self, unit: Unit, units: u32, smallest: Smallest) {
        self.inside(Function::Arrange, |own| {
            let (mut start, mut rest) = (unit, units);
            while rest > 0 {
                let class = own.inside(Function::ZerosRight, |_| rest.trailing_zeros() as u8);
                rest -= 1 << class;
                match smallest {
                    Smallest::First => {
                        own.add(class, start);
                        start += 1 << class;
                    }
                    Smallest::Last => own.add(class, start + rest),
                }
            }
        });
    }

    fn merge(&mut self, class: u8) {
        self.inside(Function::Merge, |own| {
            for below in 0..class {
                let mut from = own.store.first(below);
                while let Some((lower, on)) = own.store.pair(below, from) {
                    own.remove_the(below, lower);
                    own.remove_the(below, lower + (1 << below));
                    own.add(below + 1, lower);
                    own.work.pairs += 1;
                    from = on;
                }
            }
        });
    }

    fn add(&mut self, class: u8, unit: Unit) {
        self.inside(Function::AddChunk, |own| own.store.add(class, unit));
    }

    fn remove_any(&mut self, class: u8) -> Option<Unit> {
        if class > self.heap.largest || self.store.is_empty(class) {
            return None;
        }
        self.inside(Function::RemoveAny, |own| {
            // The store chooses and removes in one step; otherwise a tree would be searched twice.
            own.inside(Function::RemoveTheChunk, |own| own.store.take(class))
        })
    }

    fn remove_the(&mut self, class: u8, unit: Unit) {
        self.inside(Function::RemoveTheChunk, |own| {
            own.store.remove(class, unit)
        });
    }

    /// Checks that every unit is in one free block, or allocated. O(units).
    ///
    /// # Errors
    /// Returns the violation.
    pub fn check(&self) -> Result<(), String> {
        let mut owned = vec![false; self.heap.units as usize];
        let mut own = |start: Unit, units: u32| {
            for unit in start..start + units {
                let slot = owned.get_mut(unit as usize);
                if slot.is_none_or(|owned| std::mem::replace(owned, true)) {
                    return Err(format!(
                        "unit {unit} is in two blocks, or in none of the heap"
                    ));
                }
            }
            Ok(())
        };
        for class in 0..=self.heap.largest {
            for unit in self.store.blocks(class) {
                if unit % (1 << class) != 0 {
                    return Err(format!(
                        "unit {unit} is not the start of a block of class {class}"
                    ));
                }
                own(unit, 1 << class)?;
            }
        }
        for (unit, units) in (0..).zip(&self.headers) {
            own(unit, *units)?;
        }
        match owned.iter().position(|owned| !owned) {
            Some(unit) => Err(format!("unit {unit} is lost")),
            None => self.work.balance(),
        }
    }
}
