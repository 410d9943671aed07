//! Records compressed by `perf record -z`.
//!
//! Compressed records are one stream: a record may begin in one piece and end in the
//! next. They are handed on as soon as they are whole.
//!
//! # Invariants
//! Holds at most one record and one buffer, however much a piece unpacks to.

use std::io;

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::{HEAD, head_of};

/// Bytes unpacked in one step: more than the largest record.
const BUFFER: usize = 1 << 17;

/// The maximum expansion of one byte; beyond it, a section is damaged. perf's data compress to between an eighth and
/// a fortieth of their size.
const MOST_EXPANSION: usize = 4096;

/// Decompresses a stream of records.
pub(super) struct Unpacker {
    decoder: Decoder<'static>,
    /// Unpacked bytes that do not form a whole record yet.
    pending: Vec<u8>,
    buffer: Vec<u8>,
}

impl Unpacker {
    pub(super) fn new() -> io::Result<Unpacker> {
        Ok(Unpacker {
            decoder: Decoder::new()?,
            pending: Vec::new(),
            buffer: vec![0; BUFFER],
        })
    }

    /// Returns `true` if the stream ended within a record.
    pub(super) fn is_amid(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Decompresses a section, and passes on each complete record. Returns `None` if the section is damaged.
    pub(super) fn unpack(&mut self, packed: &[u8], mut take: impl FnMut(u32, &[u8])) -> Option<()> {
        let mut input = InBuffer::around(packed);
        let mut allowed = packed.len().saturating_mul(MOST_EXPANSION).max(BUFFER);
        loop {
            let mut output = OutBuffer::around(&mut self.buffer[..]);
            self.decoder.run(&mut input, &mut output).ok()?;
            let written = output.pos();
            self.pending.extend_from_slice(&self.buffer[..written]);
            allowed = allowed.checked_sub(written)?;
            let mut used = 0;
            while let Some((head, rest)) = self.pending[used..].split_first_chunk() {
                let (kind, size) = head_of(head);
                let Some(body) = rest.get(..size.checked_sub(HEAD)? as usize) else {
                    break;
                };
                take(kind, body);
                used += size as usize;
            }
            self.pending.drain(..used);
            if written < BUFFER && input.pos() == packed.len() {
                return Some(());
            }
        }
    }
}
