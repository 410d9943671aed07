//! Readers of all texts that describe a machine's memory.
//!
//! [`Reader`] recognises each text by its contents, line by line, and emits a [`State`] as soon as it is complete.
//!
//! # Invariants
//! Memory is bounded, whatever the size of the input. Text before, between and after the lines that matter is skipped.

mod callers;
mod copies;
mod fields;
mod log;
mod merge;
mod prefix;
mod rows;
mod stream;
mod table;

use std::io::{self, Read};

use crate::state::State;
use copies::Copies;
use log::Log;
use stream::Lines;

/// What a file contained besides states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines that were longer than a mebibyte. Their rest was skipped.
    pub cut_lines: u64,
    /// The reason why the file cannot be read as text, if there is one.
    pub encoding: Option<&'static str>,
}

/// Reads files, one after the other.
pub struct Reader<'a> {
    copies: Copies,
    emit: &'a mut dyn FnMut(State),
}

impl<'a> Reader<'a> {
    /// Creates a reader that passes each state on.
    pub fn new(emit: &'a mut dyn FnMut(State)) -> Reader<'a> {
        Reader {
            copies: Copies::default(),
            emit,
        }
    }

    /// Reads a file. Reports in logs are emitted as they end. Copies of files in `/proc` wait for further ones.
    ///
    /// # Errors
    ///
    /// Fails if the source cannot be read.
    pub fn read(&mut self, name: &str, source: impl Read) -> io::Result<Summary> {
        let name = fields::shown(name.as_bytes());
        let mut lines = Lines::new(source);
        let mut log = Log::new(&name);
        self.copies.begin(&name);
        let mut every = false;
        while let Some(line) = lines.next(every)? {
            let number = line.number;
            // One line of a container's log may contain several of the kernel.
            for part in escaped_lines(line.bytes) {
                if !self.copies.line(number, part, line.is_complete) {
                    log.line(number, part);
                }
            }
            every = log.is_active(number + 1) || self.copies.is_active(number + 1);
            self.pass_on(&mut log);
        }
        log.finish();
        self.pass_on(&mut log);
        Ok(Summary {
            cut_lines: lines.cut_lines,
            encoding: encoding(&lines.head),
        })
    }

    /// Emits the last state.
    pub fn finish(mut self) {
        self.copies.close();
        while let Some(state) = self.copies.pop() {
            (self.emit)(state);
        }
    }

    fn pass_on(&mut self, log: &mut Log) {
        while let Some(state) = self.copies.pop() {
            (self.emit)(state);
        }
        while let Some(state) = log.pop() {
            (self.emit)(state);
        }
    }
}

/// Splits a line at `\n` that is written with two characters, as in JSON.
fn escaped_lines(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        match memchr::memmem::find(text, b"\\n") {
            Some(at) => {
                rest = (at + 2 < text.len()).then(|| &text[at + 2..]);
                Some(&text[..at])
            }
            None => {
                rest = None;
                Some(text)
            }
        }
    })
}

/// Returns the reason why a file is not text.
fn encoding(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("it is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`")
        }
        [0x1f, 0x8b, ..] => Some("it is compressed: unpack it with `gunzip`"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("it is compressed: unpack it with `unzstd`"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Some("it is compressed: unpack it with `unxz`"),
        [b'B', b'Z', b'h', ..] => Some("it is compressed: unpack it with `bunzip2`"),
        _ => None,
    }
}
