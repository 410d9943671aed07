//! Queues of two directions.
//!
//! # Source
//! \[Serewa\] section 3: "two direction queues", one for each size.
//!
//! It has two parameters. `PLACE` is where a block is inserted:
//!
//! - [`WALKED_END`]: an insertion walks the whole queue to its end, as the paper's profile implies (41 µs for an
//!   insertion, 0.2 µs for a removal);
//! - [`KNOWN_END`]: the same order, but the end is known;
//! - [`HEAD`]: last in, first out;
//! - [`ADDRESS`]: an insertion walks to the block's place in the order of addresses.
//!
//! With `SEARCH`, a merge walks the rest of the queue to find a block's buddy. Otherwise it looks at the buddy's mark.
//!
//! # Invariants
//! Links agree in both directions; a block's mark is its class and one, that of every other unit zero.

use everybuddy::Platform;
use everybuddy::platform::SharedCell;

use crate::emulation::store::{Store, Unit};

/// The value for no block.
const NONE: Unit = Unit::MAX;
/// First in, first out: an insertion walks to the end.
pub const WALKED_END: u8 = 0;
/// First in, first out, with a known end.
pub const KNOWN_END: u8 = 1;
/// Last in, first out.
pub const HEAD: u8 = 2;
/// In the order of addresses.
pub const ADDRESS: u8 = 3;

/// An upper bound on the number of classes.
const CLASSES: usize = 32;

/// The data of a unit: links, if it is the first one of a free block.
struct Links<P: Platform> {
    next: P::Cell<u32>,
    previous: P::Cell<u32>,
}

impl<P: Platform> Links<P> {
    fn new() -> Self {
        Self {
            next: P::Cell::new(NONE),
            previous: P::Cell::new(NONE),
        }
    }
}

/// Queues of all classes.
pub struct Queues<P: Platform, const PLACE: u8, const SEARCH: bool> {
    links: Vec<Links<P>>,
    marks: Vec<P::Cell<u8>>,
    /// The first and the last block; only with a known end is the last one used.
    ends: [Links<P>; CLASSES],
}

impl<P: Platform, const PLACE: u8, const SEARCH: bool> Queues<P, PLACE, SEARCH> {
    /// Creates empty queues for a heap of the given number of units. O(units).
    pub fn new(units: u32) -> Self {
        Self {
            links: (0..units).map(|_| Links::new()).collect(),
            marks: (0..units).map(|_| P::Cell::new(0)).collect(),
            ends: std::array::from_fn(|_| Links::new()),
        }
    }

    fn ends(&self, class: u8) -> &Links<P> {
        &self.ends[usize::from(class) % CLASSES]
    }

    fn next(&self, unit: Unit) -> Unit {
        self.links[unit as usize].next.get()
    }

    /// Returns the blocks between which a block is inserted, in the manner of this kind of queue.
    fn place(&self, class: u8, unit: Unit) -> (Unit, Unit) {
        match PLACE {
            KNOWN_END => (self.ends(class).previous.get(), NONE),
            HEAD => (NONE, self.first(class)),
            _ => {
                let is_before = |other: Unit| PLACE == WALKED_END || other < unit;
                let (mut before, mut after) = (NONE, self.first(class));
                while after != NONE && is_before(after) {
                    (before, after) = (after, self.next(after));
                }
                (before, after)
            }
        }
    }

    /// Returns `true` if the queue contains a block, in the manner of this kind of queue; `after` is a possible
    /// position.
    fn contains(&self, class: u8, unit: Unit, after: Unit) -> bool {
        if !SEARCH {
            let mark = self.marks.get(unit as usize);
            return mark.is_some_and(|mark| mark.get() == class + 1);
        }
        let mut at = after;
        while at != NONE && at != unit {
            at = self.next(at);
        }
        at == unit
    }
}

impl<P: Platform, const PLACE: u8, const SEARCH: bool> Store for Queues<P, PLACE, SEARCH> {
    fn add(&mut self, class: u8, unit: Unit) {
        let (before, after) = self.place(class, unit);
        let links = &self.links[unit as usize];
        links.next.set(after);
        links.previous.set(before);
        match before {
            NONE => self.ends(class).next.set(unit),
            before => self.links[before as usize].next.set(unit),
        }
        match after {
            NONE if PLACE == KNOWN_END => self.ends(class).previous.set(unit),
            NONE => {}
            after => self.links[after as usize].previous.set(unit),
        }
        if !SEARCH {
            self.marks[unit as usize].set(class + 1);
        }
    }

    fn take(&mut self, class: u8) -> Option<Unit> {
        let first = self.first(class);
        (first != NONE).then(|| {
            self.remove(class, first);
            first
        })
    }

    fn remove(&mut self, class: u8, unit: Unit) {
        let links = &self.links[unit as usize];
        let (next, previous) = (links.next.get(), links.previous.get());
        match previous {
            NONE => self.ends(class).next.set(next),
            previous => self.links[previous as usize].next.set(next),
        }
        match next {
            NONE if PLACE == KNOWN_END => self.ends(class).previous.set(previous),
            NONE => {}
            next => self.links[next as usize].previous.set(previous),
        }
        if !SEARCH {
            self.marks[unit as usize].set(0);
        }
    }

    fn is_empty(&self, class: u8) -> bool {
        self.first(class) == NONE
    }

    fn first(&self, class: u8) -> Unit {
        self.ends(class).next.get()
    }

    fn pair(&self, class: u8, from: Unit) -> Option<(Unit, Unit)> {
        let mut at = from;
        while at != NONE {
            let next = self.next(at);
            let buddy = at ^ 1 << class;
            // The earlier blocks were checked and have no buddy, so it can only be among the later ones.
            if self.contains(class, buddy, next) {
                let on = if next == buddy { self.next(next) } else { next };
                return Some((at.min(buddy), on));
            }
            at = next;
        }
        None
    }

    fn blocks(&self, class: u8) -> Vec<Unit> {
        let some = |unit: Unit| (unit != NONE).then_some(unit);
        std::iter::successors(some(self.first(class)), |unit| some(self.next(*unit))).collect()
    }
}
