//! Cache lines, numbered so that results do not depend on where memory is placed.
//!
//! The host may place an arena anywhere. A line's number is its offset from the start of the arena, so two runs that
//! differ only in addresses are the same run.
//!
//! # Invariants
//! The numbers depend on offsets only. All words outside the region share one number, because their addresses are not
//! reproducible.

use core::fmt;
use core::mem::MaybeUninit;
use core::ptr;

use everybuddy::LINE;

/// The number of a cache line: its offset from the start of the [`Region`] in units of [`LINE`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(pub u64);

impl Line {
    /// The number of all words outside the region.
    pub const OUTSIDE: Line = Line(u64::MAX);

    /// What a CPU waits for at a barrier, in a report.
    pub const BARRIER: Line = Line(u64::MAX - 1);
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::OUTSIDE {
            write!(f, "a line outside the region")
        } else if *self == Self::BARRIER {
            write!(f, "the other CPUs, at the barrier,")
        } else {
            write!(f, "line {}", self.0)
        }
    }
}

/// A table whose elements stand for larger records, which have lines of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The first byte of the table, counted from line 0.
    pub start: usize,
    /// The number of elements.
    pub length: usize,
    /// The bytes of an element, at least one.
    pub element: usize,
    /// The bytes of the record that it stands for, at least one.
    pub record: usize,
    /// The line of the first record.
    pub first: u64,
}

impl Records {
    /// Returns the line of the first byte of a record. O(1).
    pub fn line(&self, index: usize) -> Line {
        Line(self.first + (index * self.record / LINE) as u64)
    }

    /// Returns the number of lines of all records. O(1).
    pub fn lines(&self) -> u64 {
        (self.length * self.record).div_ceil(LINE) as u64
    }

    /// Returns the element of a byte, counted from line 0.
    fn element(&self, offset: usize) -> Option<usize> {
        let inside = offset.checked_sub(self.start)?;
        let index = inside / self.element;
        (index < self.length).then_some(index)
    }
}

/// Where the simulated shared memory lies on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    start: usize,
    bytes: usize,
    /// The tables of records; those behind the first `tables` are not used.
    records: [Records; Region::MOST_TABLES],
    tables: usize,
}

impl Region {
    /// The most tables of [records](Region::with_records).
    pub const MOST_TABLES: usize = 8;

    /// No memory: every word lies outside.
    pub const NONE: Region = Region::new(0, 0);

    const fn new(start: usize, bytes: usize) -> Self {
        const NONE: Records = Records {
            start: 0,
            length: 0,
            element: 1,
            record: 1,
            first: 0,
        };
        Self {
            start,
            bytes,
            records: [NONE; Region::MOST_TABLES],
            tables: 0,
        }
    }

    /// Lets the elements of a table stand for records: a word of an element is on the line of its record. The lines of
    /// records must not be lines of the region. Tables beyond [`MOST_TABLES`](Self::MOST_TABLES) are left as they are.
    #[must_use]
    pub fn with_records(mut self, records: Records) -> Self {
        if let Some(place) = self.records.get_mut(self.tables) {
            *place = records;
            self.tables += 1;
        }
        self
    }

    /// Returns the first line behind the region.
    pub fn end(&self) -> Line {
        Line(self.bytes.div_ceil(LINE) as u64)
    }

    /// Returns the line of the region whose words are on this line: another one for a line of records.
    pub fn place(&self, line: Line) -> Line {
        let tables = &self.records[..self.tables];
        let inside = |own: &&Records| (own.first..own.first + own.lines()).contains(&line.0);
        match tables.iter().find(inside) {
            Some(own) => {
                let index = (line.0 - own.first) as usize * LINE / own.record;
                Line(((own.start + index * own.element) / LINE) as u64)
            }
            None => line,
        }
    }

    /// Describes the memory in which a system is built: the argument of [`with_system`](everybuddy::with_system).
    ///
    /// Line 0 is the first whole cache line, because systems skip anything before it. Only the addresses are stored;
    /// nothing is borrowed. O(1).
    pub fn of(memory: &[MaybeUninit<u8>]) -> Self {
        Self::around(memory)
    }

    /// Describes the memory of a value, for shared memory outside an arena: a lock, a struct of cells.
    ///
    /// Line 0 is the first whole cache line, so the value should be aligned to a line. Only the addresses are stored;
    /// nothing is borrowed. O(1).
    pub fn around<T: ?Sized>(value: &T) -> Self {
        let start = ptr::from_ref(value).addr();
        let skip = (start.next_multiple_of(LINE) - start).min(size_of_val(value));
        Self::new(start + skip, size_of_val(value) - skip)
    }

    /// Returns the number of the line that contains `address`. O(1).
    #[inline]
    pub(crate) fn line(&self, address: usize) -> Line {
        let offset = address.wrapping_sub(self.start);
        if offset < self.bytes {
            for own in &self.records[..self.tables] {
                if let Some(index) = own.element(offset) {
                    return own.line(index);
                }
            }
            Line((offset / LINE) as u64)
        } else {
            Line::OUTSIDE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_the_first_whole_one() {
        let memory = vec![MaybeUninit::<u8>::uninit(); 1024];
        for shift in 0..200 {
            let part = &memory[shift..];
            let region = Region::of(part);
            let first = part.as_ptr().addr().next_multiple_of(LINE);
            assert_eq!(region.line(first), Line(0));
            assert_eq!(region.line(first + LINE - 1), Line(0));
            assert_eq!(region.line(first + LINE), Line(1));
            assert_eq!(region.line(first - 1), Line::OUTSIDE);
            assert_eq!(
                region.line(part.as_ptr().addr() + part.len()),
                Line::OUTSIDE
            );
        }
        assert_eq!(Region::NONE.line(0), Line::OUTSIDE);
        assert_eq!(
            Region::of(&memory[..0]).line(memory.as_ptr().addr()),
            Line::OUTSIDE
        );
    }
}
