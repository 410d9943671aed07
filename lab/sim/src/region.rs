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

/// Where the simulated shared memory lies on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    start: usize,
    bytes: usize,
}

impl Region {
    /// No memory: every word lies outside.
    pub const NONE: Region = Region { start: 0, bytes: 0 };

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
        Self {
            start: start + skip,
            bytes: size_of_val(value) - skip,
        }
    }

    /// Returns the number of the line that contains `address`. O(1).
    #[inline]
    pub(crate) fn line(&self, address: usize) -> Line {
        let offset = address.wrapping_sub(self.start);
        if offset < self.bytes {
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
