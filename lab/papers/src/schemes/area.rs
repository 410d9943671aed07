//! The engine: an area of units, blocks of a table of sizes, splitting and coalescing.
//!
//! Systems that differ in their sizes only share one program, so that a comparison compares the sizes.
//!
//! # Invariants
//! 1. Blocks are disjoint and cover the area.
//! 2. No two buddies are both free.
//! 3. A free block is in the list of its class, and no other block is in a list.
//!
//! # Design decisions
//! **The buddy.** An address and a size do not determine the buddy if a block of the same size can be the left part of
//! one block or the right part of another. Each block therefore stores its *origin*: the split that made it, and its
//! side. When a block is split, the left part keeps the origin of the whole, and the right part keeps what the whole
//! kept. When two parts are coalesced, this gives the whole back both. It is the method of Cranston and Thomas for the
//! Fibonacci system, with a number instead of their bit.
//!
//! **The choice of a block.** A request takes the smallest free block that can yield its class. In the dual system,
//! and for one unit in the weighted one, a free block may be large enough and yet not yield the class. If nothing else
//! is free, the request takes a block of the next class.
//!
//! # Complexity
//! An allocation is O(classes) if a block yields its class, and a free is O(classes).

use std::error::Error;
use std::fmt;

use super::sizes::{Class, Sizes};

/// No unit: the end of a list.
const END: u32 = u32::MAX;

/// The origin of a block: the split that made it, and its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    split: usize,
    side: usize,
}

/// The state of the block that begins at a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No block begins here.
    Inside,
    Free,
    Held,
}

/// What is known about the block that begins at a unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    state: State,
    class: Class,
    /// `None` for a block that no split made.
    origin: Option<Origin>,
    /// What the block keeps for the one that it is a part of.
    kept: Option<Origin>,
    /// The neighbours in the list of free blocks.
    next: u32,
    previous: u32,
}

/// An allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The first unit.
    pub start: u32,
    /// The units of the block.
    pub units: u32,
}

/// A free of something that is not an allocated block. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// The unit that was freed.
    pub start: u32,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no allocated block begins at unit {}", self.start)
    }
}

impl Error for Misuse {}

/// A violated invariant, found by [`Area::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Broken {}

/// An area that a buddy system manages.
#[derive(Clone, Debug)]
pub struct Area {
    sizes: Sizes,
    units: Vec<Unit>,
    /// The first free block of each class, or [`END`].
    heads: Vec<u32>,
    held: u32,
}

impl Area {
    /// Creates an area that is free. It consists of the largest blocks that fit, in descending order.
    ///
    /// # Panics
    /// If the area has 2^32 - 1 units.
    pub fn new(sizes: Sizes, units: u32) -> Area {
        assert!(units < END, "the last number ends lists");
        let inside = Unit {
            state: State::Inside,
            class: 0,
            origin: None,
            kept: None,
            next: END,
            previous: END,
        };
        let mut area = Area {
            heads: vec![END; sizes.classes()],
            units: vec![inside; units as usize],
            held: 0,
            sizes,
        };
        for (start, class) in area.initial() {
            area.insert(start, class);
        }
        area
    }

    /// Returns the blocks of an area that is free: their starts and classes.
    fn initial(&self) -> Vec<(u32, Class)> {
        let (mut start, mut blocks) = (0, Vec::new());
        while let Some(class) = self.sizes.within(self.units.len() as u32 - start) {
            blocks.push((start, class));
            start += self.sizes.units(class);
        }
        blocks
    }

    /// Returns the table of sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Returns the units in allocated blocks. O(1).
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Returns the units of the area. O(1).
    pub fn len(&self) -> u32 {
        self.units.len() as u32
    }

    /// Returns `true` if the area has no units.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Allocates a block of at least this many units. Returns `None` if no free block is large enough.
    pub fn allocate(&mut self, units: u32) -> Option<Held> {
        let smallest = self.sizes.covering(units)?;
        let (class, found) = (smallest..self.sizes.classes()).find_map(|class| {
            let from = class..self.sizes.classes();
            let mut free = from.filter(|from| self.heads[*from] != END);
            let found = free.find(|from| self.sizes.can_yield(*from, class))?;
            Some((class, found))
        })?;
        let mut start = self.heads[found];
        self.remove(start);
        let mut whole = found;
        while let Some((split, side)) = self.step(whole, class) {
            start = self.split(start, split, side);
            whole = self.sizes.splits()[split].parts[side];
        }
        self.units[start as usize].state = State::Held;
        let units = self.sizes.units(class);
        self.held += units;
        Some(Held { start, units })
    }

    fn step(&self, whole: Class, class: Class) -> Option<(usize, usize)> {
        if whole == class {
            return None;
        }
        self.sizes.towards(whole, class)
    }

    /// Splits a block that is in no list, and frees one part. Returns the start of the other, of the given side.
    fn split(&mut self, start: u32, split: usize, side: usize) -> u32 {
        let parts = self.sizes.splits()[split].parts;
        let whole = self.units[start as usize];
        let starts = [start, start + self.sizes.units(parts[0])];
        let kept = [whole.origin, whole.kept];
        for at in 0..2 {
            self.units[starts[at] as usize] = Unit {
                state: State::Inside,
                class: parts[at],
                origin: Some(Origin { split, side: at }),
                kept: kept[at],
                next: END,
                previous: END,
            };
        }
        self.insert(starts[1 - side], parts[1 - side]);
        starts[side]
    }

    /// Frees a block, and coalesces it with its buddies.
    ///
    /// # Errors
    /// [`Misuse`] if no allocated block begins there.
    pub fn free(&mut self, start: u32) -> Result<(), Misuse> {
        let unit = self.units.get(start as usize).copied();
        let unit = unit
            .filter(|unit| unit.state == State::Held)
            .ok_or(Misuse { start })?;
        self.held -= self.sizes.units(unit.class);
        let (mut start, mut class) = (start, unit.class);
        while let Some((origin, buddy)) = self.free_buddy(start) {
            self.remove(buddy);
            class = self.sizes.splits()[origin.split].whole;
            let (left, right) = (start.min(buddy), start.max(buddy));
            let [low, high] = [left, right].map(|at| self.units[at as usize]);
            self.units[right as usize].state = State::Inside;
            self.units[left as usize] = Unit {
                class,
                origin: low.kept,
                kept: high.kept,
                ..low
            };
            start = left;
        }
        self.insert(start, class);
        Ok(())
    }

    /// Returns the origin of a block and the start of its buddy, if the buddy is free and whole.
    fn free_buddy(&self, start: u32) -> Option<(Origin, u32)> {
        let origin = self.units[start as usize].origin?;
        let parts = self.sizes.splits()[origin.split].parts;
        let buddy = match origin.side {
            0 => start + self.sizes.units(parts[0]),
            _ => start - self.sizes.units(parts[0]),
        };
        let unit = &self.units[buddy as usize];
        let is_whole = unit.state == State::Free && unit.class == parts[1 - origin.side];
        is_whole.then_some((origin, buddy))
    }

    /// Adds a block to the list of its class.
    fn insert(&mut self, start: u32, class: Class) {
        let next = std::mem::replace(&mut self.heads[class], start);
        let unit = &mut self.units[start as usize];
        (unit.state, unit.class) = (State::Free, class);
        (unit.next, unit.previous) = (next, END);
        if next != END {
            self.units[next as usize].previous = start;
        }
    }

    /// Takes a block out of the list of its class.
    fn remove(&mut self, start: u32) {
        let Unit {
            class,
            next,
            previous,
            ..
        } = self.units[start as usize];
        match previous {
            END => self.heads[class] = next,
            previous => self.units[previous as usize].next = next,
        }
        if next != END {
            self.units[next as usize].previous = previous;
        }
        self.units[start as usize].state = State::Inside;
    }

    /// Returns `true` if the area consists of the blocks with which it began, all free. O(units).
    pub fn is_initial(&self) -> bool {
        let initial = self.initial();
        let blocks = self.units.iter().filter(|unit| unit.state != State::Inside);
        let is_whole = |(start, class): &(u32, Class)| {
            let unit = &self.units[*start as usize];
            unit.state == State::Free && unit.class == *class
        };
        blocks.count() == initial.len() && initial.iter().all(is_whole)
    }

    /// Checks the invariants. O(units).
    ///
    /// # Errors
    /// [`Broken`] with the first violation.
    pub fn check(&self) -> Result<(), Broken> {
        let (mut at, mut held, mut free) = (0, 0, 0);
        while let Some(unit) = self.units.get(at as usize) {
            let size = self.sizes.units(unit.class);
            match unit.state {
                State::Inside => return Err(Broken(format!("no block begins at unit {at}"))),
                State::Held => held += size,
                State::Free => {
                    free += 1;
                    if self.free_buddy(at).is_some() {
                        return Err(Broken(format!("unit {at}: two buddies are free")));
                    }
                }
            }
            let inside = (at + 1..at + size).find(|inside| {
                self.units
                    .get(*inside as usize)
                    .is_none_or(|unit| unit.state != State::Inside)
            });
            if let Some(inside) = inside {
                return Err(Broken(format!(
                    "unit {inside} is in two blocks, or in none"
                )));
            }
            at += size;
        }
        let mut listed = 0;
        for (class, head) in self.heads.iter().enumerate() {
            let mut at = *head;
            while at != END {
                let unit = &self.units[at as usize];
                if unit.state != State::Free || unit.class != class {
                    return Err(Broken(format!("unit {at} is in the list of class {class}")));
                }
                listed += 1;
                at = unit.next;
            }
        }
        if (held, listed) == (self.held, free) {
            Ok(())
        } else {
            Err(Broken(format!(
                "{held} units are held and {free} blocks free, but {} and {listed} are counted",
                self.held
            )))
        }
    }
}
