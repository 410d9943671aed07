//! The sections of a perf.data file: events, formats and records.
//!
//! Everything a header claims is held against the file's length before any memory is set aside for it.
//!
//! # Invariants
//! A section that is returned lies inside the file.

use std::io::{Read, Seek, SeekFrom};

use linux_perf_event_reader::{Endianness, PerfEventAttr, RecordParseInfo, SampleFormat};

use super::super::error::Fault;
use super::bytes::Bytes;
use everybuddy_trace::quietly;

/// The length of the header of every perf.data file.
const HEADER: u64 = 104;
/// The number of the feature that contains the formats of events.
const TRACING_DATA: u32 = 1;
/// The maximum number of features of a header.
const FEATURES: u32 = 256;
/// The maximum size of formats; those of a whole kernel take 10 MB.
const LARGEST_FORMATS: u64 = 1 << 28;
/// The largest number of kinds of events in a recording.
const MOST_ATTRIBUTES: u64 = 1 << 14;

/// A section of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section {
    fn end(self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// The layouts of samples, by the number at the start of each.
#[derive(Debug)]
pub(crate) struct Layouts {
    /// The sorted ids of events, each with the layout of its samples.
    by_id: Vec<(u64, RecordParseInfo)>,
    first: RecordParseInfo,
    /// Whether all events have the layout of the first one.
    is_same: bool,
}

impl Layouts {
    /// Returns the layout of a sample.
    pub(crate) fn of(&self, sample: &[u8]) -> Option<&RecordParseInfo> {
        if self.is_same {
            return Some(&self.first);
        }
        let id = Bytes(sample).u64()?;
        let place = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.by_id[place].1)
    }
}

/// The header of a file.
pub(crate) struct Layout {
    pub(crate) layouts: Layouts,
    /// The records.
    pub(crate) data: Section,
    /// The formats of events, as bytes.
    pub(crate) formats: Vec<u8>,
}

/// Reads the header and the sections that it refers to.
pub(crate) fn read(file: &mut (impl Read + Seek)) -> Result<Layout, Fault> {
    let length = file.seek(SeekFrom::End(0))?;
    let header = section(
        file,
        length,
        Section {
            offset: 0,
            size: HEADER.min(length),
        },
        "header",
    )?;
    if header.starts_with(b"2ELIFREP") {
        return Err(Fault::refuse(
            "byte 0",
            "recorded on a machine with another byte order",
            "run `perf script --ns` on that machine and import its output",
        ));
    }
    let mut bytes = Bytes(header.get(8..).unwrap_or_default());
    if bytes.u64() == Some(16) {
        return Err(Fault::refuse(
            "byte 8",
            "recorded into a pipe",
            "record to a file, or import the output of `perf script --ns -i FILE`",
        ));
    }
    if length < HEADER {
        return Err(broken_off(length));
    }
    let mut number = || bytes.u64().unwrap_or(0);
    let attribute_size = number();
    let mut part = || Section {
        offset: number(),
        size: number(),
    };
    let (attributes, data, _) = (part(), part(), part());
    let features: Vec<u64> = (0..4).map(|_| number()).collect();
    if data.end() > length {
        return Err(broken_off(length));
    }
    if data.size == 0 {
        return Err(Fault::refuse(
            "byte 48",
            "the file has no records, or perf was interrupted",
            "record again without interrupting perf",
        ));
    }
    let layouts = read_layouts(file, length, attributes, attribute_size)?;
    let formats = read_formats(file, length, data, &features)?;
    Ok(Layout {
        layouts,
        data,
        formats,
    })
}

fn broken_off(length: u64) -> Fault {
    Fault::refuse(
        format!("byte {length}"),
        "the file is shorter than its header claims",
        "the recording or copy was interrupted; obtain the file again",
    )
}

pub(crate) fn damaged(place: u64, what: &str) -> Fault {
    Fault::refuse(
        format!("byte {place}"),
        format!("damaged: {what}"),
        "obtain the file again, or import the output of `perf script --ns`",
    )
}

/// Reads a section of the file.
fn section(
    file: &mut (impl Read + Seek),
    length: u64,
    section: Section,
    what: &str,
) -> Result<Vec<u8>, Fault> {
    let size = usize::try_from(section.size);
    let (Ok(size), true) = (size, section.end() <= length) else {
        return Err(damaged(
            section.offset,
            &format!("{what} is outside the file"),
        ));
    };
    let mut bytes = vec![0; size];
    file.seek(SeekFrom::Start(section.offset))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads the layouts of all events, with the ids of their samples.
fn read_layouts(
    file: &mut (impl Read + Seek),
    length: u64,
    attributes: Section,
    entry: u64,
) -> Result<Layouts, Fault> {
    let place = attributes.offset;
    if !(80..=4096).contains(&entry) || attributes.size / entry > MOST_ATTRIBUTES {
        return Err(damaged(place, "the list of events has an invalid size"));
    }
    let table = section(file, length, attributes, "the list of events")?;
    let mut all = Vec::new();
    let mut by_id = Vec::new();
    for entry in table.chunks_exact(entry as usize) {
        let (attribute, ids) = entry.split_at(entry.len() - 16);
        let parsed = quietly(|| PerfEventAttr::parse::<_, byteorder::LittleEndian>(attribute).ok());
        // Unknown kinds of events have no tracepoints.
        let Some((attribute, _)) = parsed.flatten() else {
            continue;
        };
        if attribute.sample_format.contains(SampleFormat::READ) {
            return Err(Fault::refuse(
                format!("byte {place}"),
                "its samples contain groups of counters",
                "record without `:S`, or import the output of `perf script --ns`",
            ));
        }
        let layout = RecordParseInfo::new(&attribute, Endianness::LittleEndian);
        all.push((
            layout,
            attribute.sample_format.contains(SampleFormat::IDENTIFIER),
        ));
        let mut ids = Bytes(ids);
        let (offset, size) = (ids.u64().unwrap_or(0), ids.u64().unwrap_or(0));
        if by_id.len() as u64 + size / 8 > length {
            return Err(damaged(
                place,
                "events have more ids than fit into the file",
            ));
        }
        let ids = section(
            file,
            length,
            Section { offset, size },
            "the ids of an event",
        )?;
        let numbers = ids.chunks_exact(8).filter_map(|bytes| Bytes(bytes).u64());
        by_id.extend(numbers.map(|id| (id, layout)));
    }
    let Some((first, _)) = all.first().copied() else {
        return Err(damaged(place, "no event is described"));
    };
    let is_same = all
        .iter()
        .all(|(layout, _)| layout.sample_format == first.sample_format);
    if !is_same && !all.iter().all(|(_, has_id)| *has_id) {
        return Err(damaged(place, "samples do not identify their event"));
    }
    by_id.sort_by_key(|(id, _)| *id);
    Ok(Layouts {
        by_id,
        first,
        is_same,
    })
}

/// Reads the formats of events, which are among the features after the records.
fn read_formats(
    file: &mut (impl Read + Seek),
    length: u64,
    data: Section,
    features: &[u64],
) -> Result<Vec<u8>, Fault> {
    let has = |feature: u32| features[feature as usize / 64] >> (feature % 64) & 1 == 1;
    if !has(TRACING_DATA) {
        return Err(Fault::refuse(
            "byte 72",
            "no tracepoints were recorded",
            "record with `perf record -e kmem:mm_page_alloc -e kmem:mm_page_free`",
        ));
    }
    // One entry per feature, ordered by number.
    let before = (0..TRACING_DATA).filter(|feature| has(*feature)).count() as u64;
    let all = (0..FEATURES).filter(|feature| has(*feature)).count() as u64;
    let table = Section {
        offset: data.end(),
        size: all * 16,
    };
    let table = section(file, length, table, "the table of features")?;
    let mut entry = Bytes(&table[before as usize * 16..]);
    let place = Section {
        offset: entry.u64().unwrap_or(0),
        size: entry.u64().unwrap_or(0),
    };
    if place.size > LARGEST_FORMATS {
        return Err(damaged(data.end(), "the formats of events are too large"));
    }
    section(file, length, place, "the formats of events")
}
