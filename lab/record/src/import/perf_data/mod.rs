//! Recordings of `perf record`: perf.data.
//!
//! This file contains more information than the text generated from it: numeric allocation flags, interrupt states,
//! nanoseconds. The records are read here one after another, so that no memory is reserved for a mere claim of the
//! file; a library parses the contents of samples.
//!
//! # Invariants
//! Memory consumption depends on the number of recognized events, and not on the claims of any header, record or
//! compressed section.

mod bytes;
mod chains;
mod formats;
mod layout;
mod unpack;

use std::io::{BufReader, Read, Seek, SeekFrom};

use linux_perf_event_reader::{RawData, SampleRecord};

use self::bytes::Bytes;
use self::chains::Chains;
use self::formats::{Formats, Sample};
use self::layout::{Layouts, Section, damaged};
use self::unpack::Unpacker;
use super::Source;
use super::error::Fault;
use super::events::{Interpreter, Meaning, understood};
use super::import_log::ImportLog;
use crate::functions::Functions;
use crate::kernel::{KernelEvent, What};
use everybuddy_trace::quietly;

/// The length of the head of a record: kind, flags and size.
const HEAD: u64 = 8;

// Kinds of records.
const MMAP: u32 = 1;
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const MMAP_2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED_2: u32 = 83;

/// Reads a whole file. Without functions, call chains are only counted.
pub(crate) fn read(
    mut file: impl Read + Seek,
    functions: &Functions,
) -> Result<(Vec<KernelEvent>, ImportLog), Fault> {
    let layout = layout::read(&mut file)?;
    let Some(formats) = Formats::read(&layout.formats) else {
        return Err(damaged(
            layout.data.offset,
            "the formats of events are unreadable",
        ));
    };
    let mut reader = Reader {
        layouts: layout.layouts,
        formats,
        interpreter: Interpreter::default(),
        log: ImportLog::new(Source::PerfData),
        events: Vec::new(),
        place: layout.data.offset,
        chains: Chains::new(functions),
    };
    // perf records the kernel's load address before the samples, or after them with `--tail-synthesize`.
    if reader.chains.needs_location() {
        walk(&mut file, layout.data, |_, kind, body| {
            reader.chains.locate(kind, body);
            reader.chains.needs_location()
        })?;
    }
    let incomplete = walk(&mut file, layout.data, |place, kind, body| {
        reader.place = place;
        reader.record(kind, body);
        true
    })?;
    let Reader {
        mut events,
        mut log,
        chains,
        interpreter,
        ..
    } = reader;
    if let Some(place) = incomplete {
        log.complain(place, "the last record is incomplete");
    }
    log.understood = understood(&events);
    log.chains = chains.finish()?;
    interpreter.finish(&mut events, &mut log)?;
    Ok((events, log))
}

/// Passes on the offset, the kind and the contents of each record, until `take` returns `false`. Returns the offset of
/// an incomplete last record.
fn walk(
    file: &mut (impl Read + Seek),
    data: Section,
    mut take: impl FnMut(u64, u32, &[u8]) -> bool,
) -> Result<Option<u64>, Fault> {
    file.seek(SeekFrom::Start(data.offset))?;
    let mut file = BufReader::with_capacity(1 << 18, file);
    let end = data.offset + data.size;
    let mut unpacker = Unpacker::new()?;
    let mut body = Vec::new();
    let (mut place, mut next) = (data.offset, data.offset);
    let mut goes_on = true;
    while next < end && goes_on {
        place = next;
        let mut head = [0; HEAD as usize];
        file.read_exact(&mut head)?;
        let (kind, size) = head_of(&head);
        next += size;
        if size < HEAD || next > end {
            return Err(damaged(place, "a record has an invalid size"));
        }
        body.resize((size - HEAD) as usize, 0);
        file.read_exact(&mut body)?;
        match kind {
            COMPRESSED | COMPRESSED_2 => {
                let packed = match kind {
                    COMPRESSED => Some(&body[..]),
                    _ => packed_part(&body),
                };
                let Some(packed) = packed else {
                    return Err(damaged(place, "a compressed record is inconsistent"));
                };
                let read = unpacker.unpack(packed, |kind, body| goes_on &= take(place, kind, body));
                if read.is_none() {
                    return Err(damaged(place, "a compressed record cannot be decompressed"));
                }
            }
            AUXTRACE => {
                // The processor trace follows the record and is not included in its size.
                let trailing = Bytes(&body).u64().unwrap_or(0);
                if next.checked_add(trailing).is_none_or(|next| next > end) {
                    return Err(damaged(place, "a record is outside the file"));
                }
                std::io::copy(&mut file.by_ref().take(trailing), &mut std::io::sink())?;
                next += trailing;
            }
            _ => goes_on = take(place, kind, &body),
        }
    }
    Ok((goes_on && unpacker.is_amid()).then_some(place))
}

struct Reader<'f> {
    layouts: Layouts,
    formats: Formats,
    interpreter: Interpreter,
    log: ImportLog,
    events: Vec<KernelEvent>,
    /// The offset of the current record, in bytes.
    place: u64,
    chains: Chains<'f>,
}

impl Reader<'_> {
    fn record(&mut self, kind: u32, body: &[u8]) {
        self.log.read += 1;
        match kind {
            SAMPLE => self.sample(body),
            LOST | LOST_SAMPLES => {
                let mut bytes = Bytes(body);
                if kind == LOST {
                    bytes.u64();
                }
                let lost = bytes.u64().unwrap_or(1);
                self.log.lost = self.log.lost.saturating_add(lost);
                // Its CPU is only known if the file was recorded so; the time is that of the last event.
                if let Some(last) = self.events.last() {
                    let event = KernelEvent {
                        what: What::Lost { cpu: None },
                        ..last.clone()
                    };
                    self.events.push(event);
                }
            }
            _ => {}
        }
    }

    fn sample(&mut self, body: &[u8]) {
        let Some(layout) = self.layouts.of(body) else {
            return self
                .log
                .complain(self.place, "a sample of an unknown event");
        };
        let parse =
            || SampleRecord::parse::<byteorder::LittleEndian>(RawData::Single(body), 0, layout);
        let Some(Ok(record)) = quietly(parse) else {
            return self.log.complain(self.place, "a sample is too short");
        };
        let (Some(raw), Some(time_ns)) = (record.raw, record.timestamp) else {
            return self.log.skip("samples without data or time");
        };
        let data = raw.as_slice();
        let Some(format) = self.formats.of(&data) else {
            return self
                .log
                .complain(self.place, "a sample of an event without format");
        };
        let sample = Sample {
            format,
            data: &data,
        };
        // perf writes -1 for a thread that has ended, but the kernel's record still contains its number.
        let known = |id: Option<i32>| id.and_then(|id| u32::try_from(id).ok());
        let tid = known(record.tid).or(sample.tid()).unwrap_or(0);
        match self.interpreter.meaning(&format.name, tid, &sample) {
            Meaning::Event(what) => {
                let is_wait = matches!(
                    what,
                    What::ContentionBegin { .. } | What::ContentionEnd { .. }
                );
                let chain = record.callchain.filter(|_| is_wait);
                let caller = chain.and_then(|chain| self.chains.caller(&chain, &what));
                let event = KernelEvent {
                    time_ns,
                    cpu: record
                        .cpu
                        .and_then(|cpu| u16::try_from(cpu).ok())
                        .unwrap_or(0),
                    tid,
                    tgid: known(record.pid),
                    in_interrupt: sample.in_interrupt(),
                    what,
                };
                let caller = caller.map(|what| KernelEvent {
                    what,
                    ..event.clone()
                });
                self.events
                    .extend([Some(event), caller].into_iter().flatten());
            }
            Meaning::Other => self.log.skip(&format.name),
            Meaning::Repeated => self.log.repeated += 1,
            Meaning::Unclear => {
                let what = format!("{} without its required fields", format.name);
                self.log.complain(self.place, &what);
            }
        }
    }
}

/// Parses the kind and the size of a record.
fn head_of(head: &[u8; HEAD as usize]) -> (u32, u64) {
    let [a, b, c, d, _, _, low, high] = *head;
    let size = u16::from_le_bytes([low, high]);
    (u32::from_le_bytes([a, b, c, d]), u64::from(size))
}

/// Returns the compressed part of a record that states its size.
fn packed_part(body: &[u8]) -> Option<&[u8]> {
    let mut bytes = Bytes(body);
    let size = bytes.u64()?;
    bytes.take(size)
}
