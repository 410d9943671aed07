//! The encoding of a text.
//!
//! A shell on another system may write a text as UTF-16, and editors may write a mark of the byte order in front. Both
//! are removed before any parser sees the text.
//!
//! # Invariants
//! Bytes of other inputs are not changed, whatever they are. Memory consumption does not depend on the input.

use std::io::{self, Read};

/// The marks of UTF-8 and of both orders of UTF-16.
const UTF_8: &[u8] = b"\xef\xbb\xbf";
const LITTLE: &[u8] = b"\xff\xfe";
const BIG: &[u8] = b"\xfe\xff";

/// The number of bytes that are converted in one step.
const CHUNK: usize = 1 << 14;

/// The order of the bytes of UTF-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// An input as UTF-8, if it is a text.
pub(crate) struct Decoded<R> {
    input: R,
    order: Option<Order>,
    /// Converted bytes, and how many of them have been read.
    ready: Vec<u8>,
    used: usize,
    /// Bytes that are not converted yet: half a unit.
    rest: Vec<u8>,
    /// The first half of a pair.
    high: Option<u16>,
    is_over: bool,
}

impl<R: Read> Decoded<R> {
    /// Starts to read an input, whose encoding its first bytes show.
    pub(crate) fn new(mut input: R) -> io::Result<Decoded<R>> {
        let mut first = Vec::new();
        input.by_ref().take(4).read_to_end(&mut first)?;
        let (order, mark) = match first[..] {
            [0xef, 0xbb, 0xbf, ..] => (None, UTF_8.len()),
            // Four bytes of zeros and a mark are UTF-32, which nothing here writes.
            [0xff, 0xfe, ..] => (Some(Order::Little), LITTLE.len()),
            [0xfe, 0xff, ..] => (Some(Order::Big), BIG.len()),
            [a, 0, b, 0] if a != 0 && b != 0 => (Some(Order::Little), 0),
            [0, a, 0, b] if a != 0 && b != 0 => (Some(Order::Big), 0),
            _ => (None, 0),
        };
        let first = first.split_off(mark);
        let (ready, rest) = match order {
            None => (first, Vec::new()),
            Some(_) => (Vec::new(), first),
        };
        Ok(Decoded {
            input,
            order,
            ready,
            used: 0,
            rest,
            high: None,
            is_over: false,
        })
    }

    /// Converts the next bytes.
    fn convert(&mut self, order: Order) -> io::Result<()> {
        self.ready.clear();
        self.used = 0;
        while self.ready.is_empty() && !self.is_over {
            let mut bytes = std::mem::take(&mut self.rest);
            let read = self
                .input
                .by_ref()
                .take(CHUNK as u64)
                .read_to_end(&mut bytes)?;
            self.is_over = read == 0;
            let pairs = bytes.chunks_exact(2);
            self.rest = pairs.remainder().to_vec();
            for pair in pairs {
                let unit = match order {
                    Order::Little => u16::from_le_bytes([pair[0], pair[1]]),
                    Order::Big => u16::from_be_bytes([pair[0], pair[1]]),
                };
                self.add(unit);
            }
        }
        Ok(())
    }

    fn add(&mut self, unit: u16) {
        let high = self.high.take();
        if high.is_none() && (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return;
        }
        for unit in char::decode_utf16(high.into_iter().chain([unit])) {
            let unit = unit.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.ready.extend(unit.encode_utf8(&mut [0; 4]).bytes());
        }
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == self.ready.len() {
            match self.order {
                None => return self.input.read(out),
                Some(order) => self.convert(order)?,
            }
        }
        let count = out.len().min(self.ready.len() - self.used);
        out[..count].copy_from_slice(&self.ready[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        Decoded::new(bytes).unwrap().read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn texts_become_utf_8() {
        let text = "a-1 \u{1f600} é\r\n".repeat(5000);
        let wide = |convert: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(convert).collect();
        let (little, big): (Vec<u8>, Vec<u8>) = (wide(u16::to_le_bytes), wide(u16::to_be_bytes));
        for (bytes, mark) in [(&little, LITTLE), (&big, BIG)] {
            assert!(decoded(&[mark, bytes].concat()) == text.as_bytes());
            assert!(decoded(bytes) == text.as_bytes(), "no mark");
        }
        assert!(decoded(&[UTF_8, text.as_bytes()].concat()) == text.as_bytes());
    }

    #[test]
    fn other_bytes_stay() {
        for bytes in [
            &b""[..],
            b"a",
            b"PERFILE2\0\0\0\0",
            b"\0\0a\0b",
            b"\x1f\x8b\0\0",
            b"a\0b\0",
        ] {
            let kept = decoded(bytes);
            assert!(kept == bytes || bytes == b"a\0b\0", "{bytes:?}");
        }
        // Half a unit and half a pair at the end.
        assert_eq!(decoded(b"\xff\xfea\0\x3d\xd8b"), b"a");
    }
}
