//! Recordings of `perf record`: perf.data.
//!
//! Exists because this file knows more than any text made of it: allocation flags as numbers, whether
//! an interrupt had come, nanoseconds. The records are read here one after the other, since only so
//! nothing is set aside that the file merely claims; what a sample holds is left to a library.
//!
//! Invariant: memory grows with the number of events that were understood, and not with what any
//! header, record or compressed piece says.

mod bytes;
mod formats;
mod layout;
mod unpack;

use std::io::{BufReader, Read, Seek, SeekFrom};

use linux_perf_event_reader::{RawData, SampleRecord};

use self::bytes::Bytes;
use self::formats::{Formats, Sample};
use self::layout::{Layouts, damaged};
use self::unpack::Unpacker;
use super::Source;
use super::error::Fault;
use super::events::{Interpreter, Meaning};
use super::heard::Heard;
use crate::kernel::KernelEvent;
use everybuddy_trace::quietly;

/// Bytes of the head of a record: kind, marks and size.
const HEAD: u64 = 8;

// Kinds of records.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED_2: u32 = 83;

/// Reads a whole file.
pub(crate) fn read(mut file: impl Read + Seek) -> Result<(Vec<KernelEvent>, Heard), Fault> {
    let layout = layout::read(&mut file)?;
    let Some(formats) = Formats::read(&layout.formats) else {
        return Err(damaged(
            layout.data.offset,
            "the formats of events can't be read",
        ));
    };
    file.seek(SeekFrom::Start(layout.data.offset))?;
    let mut reader = Reader {
        layouts: layout.layouts,
        formats,
        interpreter: Interpreter::default(),
        heard: Heard::new(Source::PerfData),
        events: Vec::new(),
        place: layout.data.offset,
    };
    let end = layout.data.offset + layout.data.size;
    reader.records(BufReader::with_capacity(1 << 18, file), end)?;
    let Reader {
        events, mut heard, ..
    } = reader;
    heard.understood = events.len() as u64;
    Ok((events, heard))
}

struct Reader {
    layouts: Layouts,
    formats: Formats,
    interpreter: Interpreter,
    heard: Heard,
    events: Vec<KernelEvent>,
    /// Where the record lies that is read, in bytes.
    place: u64,
}

impl Reader {
    /// Reads all records up to `end`.
    fn records(&mut self, mut file: impl Read, end: u64) -> Result<(), Fault> {
        let mut unpacker = Unpacker::new()?;
        let mut body = Vec::new();
        let mut next = self.place;
        while next < end {
            self.place = next;
            let mut head = [0; HEAD as usize];
            file.read_exact(&mut head)?;
            let (kind, size) = head_of(&head);
            next += size;
            if size < HEAD || next > end {
                return Err(damaged(self.place, "a record has an impossible size"));
            }
            body.resize((size - HEAD) as usize, 0);
            file.read_exact(&mut body)?;
            match kind {
                COMPRESSED | COMPRESSED_2 => {
                    let packed = match kind {
                        COMPRESSED => Some(&body[..]),
                        _ => packed_part(&body),
                    };
                    let place = self.place;
                    let Some(packed) = packed else {
                        return Err(damaged(place, "a compressed record contradicts itself"));
                    };
                    let read = unpacker.unpack(packed, |kind, body| self.record(kind, body));
                    if read.is_none() {
                        return Err(damaged(place, "a compressed record can't be unpacked"));
                    }
                }
                AUXTRACE => {
                    // What a processor traced follows the record and is not counted in its size.
                    let trailing = Bytes(&body).u64().unwrap_or(0);
                    if next.checked_add(trailing).is_none_or(|next| next > end) {
                        return Err(damaged(self.place, "a record lies outside of the file"));
                    }
                    std::io::copy(&mut file.by_ref().take(trailing), &mut std::io::sink())?;
                    next += trailing;
                }
                _ => self.record(kind, &body),
            }
        }
        if unpacker.is_amid() {
            self.heard
                .complain(self.place, "the last record is incomplete");
        }
        Ok(())
    }

    fn record(&mut self, kind: u32, body: &[u8]) {
        self.heard.read += 1;
        match kind {
            SAMPLE => self.sample(body),
            LOST | LOST_SAMPLES => {
                let mut bytes = Bytes(body);
                if kind == LOST {
                    bytes.u64();
                }
                let lost = bytes.u64().unwrap_or(1);
                self.heard.lost = self.heard.lost.saturating_add(lost);
            }
            _ => {}
        }
    }

    fn sample(&mut self, body: &[u8]) {
        let Some(layout) = self.layouts.of(body) else {
            return self
                .heard
                .complain(self.place, "a sample of an event that is not described");
        };
        let parse =
            || SampleRecord::parse::<byteorder::LittleEndian>(RawData::Single(body), 0, layout);
        let Some(Ok(record)) = quietly(parse) else {
            return self
                .heard
                .complain(self.place, "a sample is shorter than it should be");
        };
        let (Some(raw), Some(time_ns)) = (record.raw, record.timestamp) else {
            return self.heard.skip("samples without data or time");
        };
        let data = raw.as_slice();
        let Some(format) = self.formats.of(&data) else {
            return self
                .heard
                .complain(self.place, "a sample of an event without format");
        };
        let sample = Sample {
            format,
            data: &data,
        };
        // What perf says of a thread is -1 once it has ended; the kernel itself still knew.
        let known = |id: Option<i32>| id.and_then(|id| u32::try_from(id).ok());
        let tid = known(record.tid).or(sample.tid()).unwrap_or(0);
        match self.interpreter.meaning(&format.name, tid, &sample) {
            Meaning::Event(what) => self.events.push(KernelEvent {
                time_ns,
                cpu: record
                    .cpu
                    .and_then(|cpu| u16::try_from(cpu).ok())
                    .unwrap_or(0),
                tid,
                tgid: known(record.pid),
                in_interrupt: sample.in_interrupt(),
                what,
            }),
            Meaning::Other => self.heard.skip(&format.name),
            Meaning::Repeated => self.heard.repeated += 1,
            Meaning::Unclear => {
                let what = format!("{} without the fields that it needs", format.name);
                self.heard.complain(self.place, &what);
            }
        }
    }
}

/// Reads the kind and the size of a record.
fn head_of(head: &[u8; HEAD as usize]) -> (u32, u64) {
    let [a, b, c, d, _, _, low, high] = *head;
    let size = u16::from_le_bytes([low, high]);
    (u32::from_le_bytes([a, b, c, d]), u64::from(size))
}

/// Returns what is compressed of a record that says how much it is.
fn packed_part(body: &[u8]) -> Option<&[u8]> {
    let mut bytes = Bytes(body);
    let size = bytes.u64()?;
    bytes.take(size)
}
