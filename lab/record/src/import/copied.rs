//! The lines of a text that was copied into mail, or into a comment of a program.
//!
//! Recordings are passed on in mailing lists and in programs that reproduce a fault. Mail quotes lines (`> `), wraps
//! them, and writes `=3D` for `=`; a comment begins with `//`.
//!
//! # Invariants
//! Lines without such marks stay as they are, and lines are counted as those of the file.

use std::borrow::Cow;
use std::io::{self, BufRead};

use everybuddy_text::{Lines, TextLine};

use super::csv::LONGEST_LINE;

/// The maximum number of lines into which mail wraps an event.
const MOST_PARTS: u32 = 8;

/// The lines of an input.
#[derive(Debug)]
pub(crate) struct CopiedLines<R> {
    lines: Lines<R>,
    text: String,
    /// Whether a line was quoted-printable: then all further ones are.
    is_encoded: bool,
}

impl<R: BufRead> CopiedLines<R> {
    pub(crate) fn new(input: R) -> CopiedLines<R> {
        CopiedLines {
            lines: Lines::new(input, LONGEST_LINE),
            text: String::new(),
            is_encoded: false,
        }
    }

    /// Returns the number of the file's lines so far.
    pub(crate) fn count(&self) -> u64 {
        self.lines.count()
    }

    /// Returns the next line, or `None` at the end. What mail made several lines of has the number of the first one.
    pub(crate) fn read(&mut self) -> io::Result<Option<TextLine<'_>>> {
        self.text.clear();
        let number = self.count() + 1;
        let Some(mut is_cut) = self.add()? else {
            return Ok(None);
        };
        let mut parts = 1;
        while parts < MOST_PARTS && is_wrapped(&self.text) {
            self.text.push(' ');
            let Some(is_part_cut) = self.add()? else {
                break;
            };
            is_cut |= is_part_cut;
            parts += 1;
        }
        Ok(Some(TextLine {
            number,
            text: Cow::Borrowed(&self.text),
            is_cut,
            is_unended: false,
        }))
    }

    /// Adds the next line. Returns whether it was cut, or `None` at the end.
    fn add(&mut self) -> io::Result<Option<bool>> {
        let Some(line) = self.lines.read()? else {
            return Ok(None);
        };
        let mut is_cut = line.is_cut;
        self.is_encoded |= line.text.contains("pfn=3D");
        if !self.is_encoded {
            self.text.push_str(unmarked(&line.text));
            return Ok(Some(is_cut));
        }
        let mut encoded = line.text.into_owned();
        // A sign at the end continues the line.
        while encoded.ends_with('=') && encoded.len() < LONGEST_LINE {
            encoded.pop();
            let Some(next) = self.lines.read()? else {
                break;
            };
            is_cut |= next.is_cut;
            encoded.push_str(&next.text);
        }
        self.text.push_str(unmarked(&decoded(&encoded)));
        Ok(Some(is_cut))
    }
}

/// Returns a line without the marks of quotes and comments.
fn unmarked(line: &str) -> &str {
    let mut rest = line;
    loop {
        let text = rest.trim_start();
        match text.strip_prefix('>').or(text.strip_prefix("//")) {
            Some(inner) => rest = inner,
            None => return rest,
        }
    }
}

/// Replaces `=3D` and the like. Bytes beyond ASCII stay encoded.
fn decoded(text: &str) -> String {
    let mut parts = text.split('=');
    let mut all = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let byte = part.get(..2).map(|digits| u8::from_str_radix(digits, 16));
        match (byte, part.get(2..)) {
            (Some(Ok(byte)), Some(rest)) if byte.is_ascii() => {
                all.push(char::from(byte));
                all.push_str(rest);
            }
            _ => {
                all.push('=');
                all.push_str(part);
            }
        }
    }
    all
}

/// Returns `true` for the beginning of an event that the tracer `function_graph` writes as a comment.
fn is_wrapped(text: &str) -> bool {
    let comment = text.split_once("/* ").map(|(_, comment)| comment);
    comment.is_some_and(|comment| comment.starts_with("mm_page_") && !comment.contains("*/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_mail_and_comments_are_undone() {
        let text = "a-1 [000] 1.5: x: comm=3D\n > > //  => f\n//\n1) | /* mm_page_free: pfn=3D1=\n0\n\
                    > order=3D0=20*/\n=e4=\n";
        let mut lines = CopiedLines::new(text.as_bytes());
        let mut seen = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            seen.push((line.number, line.text.to_string()));
        }
        let wanted = [
            (1, "a-1 [000] 1.5: x: comm=3D"),
            (2, "  => f"),
            (3, ""),
            (4, "1) | /* mm_page_free: pfn=10  order=0 */"),
            (7, "=e4"),
        ];
        assert_eq!(
            seen,
            wanted.map(|(number, text)| (number, text.to_string()))
        );
        assert_eq!(lines.count(), 7);
    }
}
