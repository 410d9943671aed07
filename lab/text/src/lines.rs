//! The lines of a text, one at a time, with a length limit.
//!
//! A recording may have any size, and a file that is not text may have no line end at
//! all: reading it must not fill the memory.
//!
//! # Invariants
//! Lines are counted from 1, as editors count them, whether or not they were too long.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// The lines of an input.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    longest: usize,
    buffer: Vec<u8>,
    number: u64,
}

/// A line, without its end.
#[derive(Debug)]
pub struct TextLine<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its text; bytes that are not UTF-8 are replaced.
    pub text: Cow<'a, str>,
    /// Whether only its first bytes are returned.
    pub is_cut: bool,
    /// Whether the input ends before the line does.
    pub is_unended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads at most `longest` bytes of each line.
    pub fn new(input: R, longest: usize) -> Lines<R> {
        Lines {
            input,
            longest,
            buffer: Vec::new(),
            number: 0,
        }
    }

    /// Returns the number of lines so far.
    pub fn count(&self) -> u64 {
        self.number
    }

    /// Returns the next line, or `None` at the end.
    ///
    /// # Errors
    ///
    /// The input's own errors.
    pub fn read(&mut self) -> io::Result<Option<TextLine<'_>>> {
        self.buffer.clear();
        let mut is_cut = false;
        let mut has_begun = false;
        let mut is_unended = true;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() {
                break;
            }
            has_begun = true;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = self.longest - self.buffer.len();
            self.buffer.extend_from_slice(&part[..part.len().min(room)]);
            is_cut |= part.len() > room;
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                is_unended = false;
                break;
            }
        }
        if !has_begun {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        Ok(Some(TextLine {
            number: self.number,
            text: String::from_utf8_lossy(&self.buffer),
            is_cut,
            is_unended,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length_are_counted() {
        let long = "x".repeat(3000);
        let text = format!("one\r\n{long}\n\nlast");
        // A small buffer, so that lines span several reads.
        let mut lines = Lines::new(io::BufReader::with_capacity(100, text.as_bytes()), 1000);
        let mut seen = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            seen.push((line.number, line.text.len(), line.is_cut));
            assert_eq!(line.is_unended, line.text == "last");
        }
        let wanted = [(1, 3, false), (2, 1000, true), (3, 0, false), (4, 4, false)];
        assert_eq!(seen, wanted);
    }
}
