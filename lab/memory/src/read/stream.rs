//! Lines of an input of any size, with quick skips over lines of no interest.
//!
//! In a log of a gigabyte, only a few lines describe memory. [`Lines`] searches whole chunks for the words that
//! such lines contain, and counts the lines in between without looking at them.
//!
//! # Invariants
//! Memory is bounded by the size of a chunk. A longer line is cut to that size, and [`Lines::cut_lines`] counts it.

use std::io::{self, Read};

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memrchr};

/// The number of bytes that are read together, and the maximum length of a line.
const CHUNK: usize = 1 << 20;

/// A line that may describe memory contains one of these.
#[rustfmt::skip]
const WORDS: [&str; 20] = [
    "kB", "Mem-", "oom-kill", "allocation failure", "Node ", "ainted", "block order:", "igrate type", "blocks type",
    "cgroup out of memory", "how Memory", "vmalloc error", "nr_free_pages", "Linux version ", "lowmem_reserve",
    "mems_allowed", "Allocation of length ", "active_anon", "allocinfo - version", " func:",
];

/// A line without its end.
pub(crate) struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether it ends with a line feed.
    pub is_complete: bool,
}

/// The lines of an input.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    filled: usize,
    /// The end of the last complete line in the buffer.
    complete: usize,
    is_at_end: bool,
    /// Whether the rest of an overlong line must be skipped.
    in_long_line: bool,
    number: u64,
    finders: Vec<Finder<'static>>,
    /// The next occurrence of each word, or a position before `start` if it must be searched again.
    hits: [Option<usize>; WORDS.len()],
    /// The number of lines that were longer than a chunk.
    pub cut_lines: u64,
    /// The first bytes of the input.
    pub head: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Lines<R> {
        Lines {
            source,
            buffer: vec![0; CHUNK],
            start: 0,
            filled: 0,
            complete: 0,
            is_at_end: false,
            in_long_line: false,
            number: 0,
            finders: WORDS
                .iter()
                .map(|word| Finder::new(word.as_bytes()))
                .collect(),
            hits: [None; WORDS.len()],
            cut_lines: 0,
            head: Vec::new(),
        }
    }

    /// Returns the next line; if `every` is `false`, the next one that contains one of the words.
    pub(crate) fn next(&mut self, every: bool) -> io::Result<Option<Line<'_>>> {
        loop {
            if self.start >= self.complete && !self.fill()? {
                return Ok(None);
            }
            if self.in_long_line {
                self.skip_rest();
                continue;
            }
            if !every && !self.seek() {
                continue;
            }
            return Ok(Some(self.take()));
        }
    }

    /// Reads until a line is complete. Returns `false` at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        while !self.is_at_end && self.filled < self.buffer.len() {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.is_at_end = true,
                Ok(bytes) => self.filled += bytes,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        if self.number == 0 && self.head.is_empty() {
            self.head = self.buffer[..self.filled.min(8)].to_vec();
        }
        let last = memrchr(b'\n', &self.buffer[..self.filled]);
        self.complete = match last {
            Some(end) if !self.is_at_end => end + 1,
            // The last line, or one that fills the buffer.
            _ => self.filled,
        };
        self.hits = [Some(0); WORDS.len()];
        for (hit, finder) in self.hits.iter_mut().zip(&self.finders) {
            *hit = finder.find(&self.buffer[..self.complete]);
        }
        Ok(self.filled > 0)
    }

    /// Moves to the line of the next word. Returns `false` if the buffer contains none.
    fn seek(&mut self) -> bool {
        let text = &self.buffer[..self.complete];
        for (hit, finder) in self.hits.iter_mut().zip(&self.finders) {
            if hit.is_some_and(|at| at < self.start) {
                *hit = finder.find(&text[self.start..]).map(|at| at + self.start);
            }
        }
        let next = self.hits.iter().flatten().min().copied();
        let skipped = &text[self.start..next.unwrap_or(self.complete)];
        let lines = memrchr(b'\n', skipped).map_or(0, |end| end + 1);
        self.number += memchr_iter(b'\n', &skipped[..lines]).count() as u64;
        if next.is_none() {
            // An incomplete line is the last one, or the first part of an overlong one.
            self.in_long_line = lines < skipped.len() && !self.is_at_end;
            self.number += u64::from(lines < skipped.len());
            self.cut_lines += u64::from(self.in_long_line);
            self.start = self.complete;
            return false;
        }
        self.start += lines;
        true
    }

    fn take(&mut self) -> Line<'_> {
        let text = &self.buffer[self.start..self.complete];
        self.number += 1;
        let end = memchr(b'\n', text);
        let length = end.unwrap_or(text.len());
        if end.is_none() && !self.is_at_end {
            self.in_long_line = true;
            self.cut_lines += 1;
        }
        self.start += length + usize::from(end.is_some());
        let bytes = &text[..length];
        Line {
            number: self.number,
            bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes),
            is_complete: end.is_some(),
        }
    }

    /// Skips the rest of an overlong line.
    fn skip_rest(&mut self) {
        let text = &self.buffer[self.start..self.complete];
        match memchr(b'\n', text) {
            Some(end) => {
                self.start += end + 1;
                self.in_long_line = false;
            }
            None => self.start = self.complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &[u8], every: bool) -> Vec<(u64, usize)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some(line) = lines.next(every).unwrap() {
            found.push((line.number, line.bytes.len()));
        }
        found
    }

    #[test]
    fn skips_lines_and_counts_them() {
        let text = b"a\nb\n1kB\n\nMem-Info:\r\nend";
        assert_eq!(numbers(text, false), [(3, 3), (5, 9)]);
        assert_eq!(numbers(text, true).len(), 6);
    }

    #[test]
    fn chunks_do_not_change_the_numbers() {
        let mut text = Vec::new();
        for line in 0..200_000 {
            text.extend_from_slice(if line % 1000 == 999 {
                b"0*4kB\n"
            } else {
                b"nothing here\n"
            });
        }
        let expected: Vec<(u64, usize)> = (1..=200).map(|hit| (hit * 1000, 5)).collect();
        assert_eq!(numbers(&text, false), expected);
    }

    #[test]
    fn an_overlong_line_is_cut() {
        let mut text = vec![b'x'; 3 * CHUNK + 5];
        text.extend_from_slice(b"\n1kB\n");
        assert_eq!(numbers(&text, false), [(2, 3)]);
        assert_eq!(numbers(&text, true), [(1, CHUNK), (2, 3)]);
        let mut lines = Lines::new(&text[..]);
        while lines.next(false).unwrap().is_some() {}
        assert_eq!(lines.cut_lines, 1);
    }
}
