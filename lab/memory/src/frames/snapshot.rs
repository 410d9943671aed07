//! One byte per frame: the classes of all frames of all zones, read from `/proc/kpageflags` or from a copy of it.
//!
//! # Invariants
//! [`Snapshot::prepare`] allocates and touches all memory, and [`Snapshot::read`] allocates none per frame:
//! otherwise the program would change what it measures. Only frames inside of "System RAM" are read, because newer
//! kernels report a hole as a frame without flags. A source that ends inside of a zone is an error.
//!
//! # Assumptions
//! Memory that the kernel initialises late is at the end of its zone. The number of these frames is `present` minus
//! `managed`, without the frames that are reserved or returned to a host.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::flags::{Folios, KINDS, Kind};

/// The bytes of one read.
const PIECE: usize = 1 << 20;
/// The bytes of a frame's word.
const WORD: usize = 8;
/// The bytes of the largest block that is counted.
const LARGEST_BLOCK: u64 = 1 << 30;
/// Late initialisation leaves at least this number of frames; a smaller difference has other reasons.
const LEAST_NOT_STARTED: u64 = 512;

/// The name of a zone, and the place of its frames. A number that the input does not contain is `None`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Extent {
    /// The node's number. Kernels without nodes print none.
    pub node: Option<u32>,
    /// The zone's name, such as `Normal`.
    pub name: String,
    /// The number of the first frame.
    pub start: Option<u64>,
    /// The frames between the first and the last one, holes included.
    pub spanned: Option<u64>,
    /// The frames that exist.
    pub present: Option<u64>,
    /// The frames that the page allocator manages.
    pub managed: Option<u64>,
}

impl Extent {
    /// Returns `true` if the zone has this node and name.
    #[must_use]
    pub fn is(&self, node: Option<u32>, name: &str) -> bool {
        self.node == node && self.name == name
    }

    /// Returns the zone's name with its node.
    #[must_use]
    pub fn title(&self) -> String {
        match self.node {
            Some(node) => format!("Node {node} {}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the frames of the zone, with holes; none if their place is unknown. A zone that would exceed the address
    /// space ends there.
    #[must_use]
    pub fn span(&self) -> Range<u64> {
        let (start, frames) = self.start.zip(self.spanned).unwrap_or_default();
        start..start.saturating_add(frames)
    }
}

/// The geometry of a machine's memory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Layout {
    /// The bytes of a frame: 4096, 16384 or 65536.
    pub frame_bytes: u64,
    /// All zones. Zones without frames are permitted.
    pub zones: Vec<Extent>,
    /// The frames of "System RAM". If it is empty, holes are unknown, and all frames of all zones are read.
    pub ram: Vec<Range<u64>>,
}

impl Layout {
    /// Returns the frames to read, sorted and without overlap.
    fn ranges(&self) -> Vec<Range<u64>> {
        let spans = || self.zones.iter().map(Extent::span);
        let inside = |span: Range<u64>| {
            let ram = self.ram.iter();
            ram.map(move |ram| ram.start.max(span.start)..ram.end.min(span.end))
        };
        if self.ram.is_empty() {
            merged(spans().collect())
        } else {
            merged(spans().flat_map(inside).collect())
        }
    }
}

/// Returns the union of ranges, sorted.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut union: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match union.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => union.push(range),
        }
    }
    union
}

/// Returns the frames of "System RAM" in the text of `/proc/iomem`: whole frames only. The result is empty if the
/// text has no addresses, which is what the kernel shows to users other than root.
#[must_use]
pub fn system_ram(iomem: &str, frame_bytes: u64) -> Vec<Range<u64>> {
    let frame_bytes = frame_bytes.max(1);
    let ranges = iomem.lines().filter_map(|line| {
        let (addresses, name) = line.split_once(" : ")?;
        if !name.trim().starts_with("System RAM") {
            return None;
        }
        let (first, last) = addresses.trim().split_once('-')?;
        let first = u64::from_str_radix(first, 16).ok()?;
        let last = u64::from_str_radix(last, 16).ok()?;
        (last > 0).then(|| first.div_ceil(frame_bytes)..last.saturating_add(1) / frame_bytes)
    });
    merged(ranges.collect())
}

/// Where the words of the frames are read from, in ascending order of frames.
pub trait Words {
    /// Fills `bytes` with the words from `frame` on, and returns the number of bytes. Fewer bytes mean the end.
    ///
    /// # Errors
    ///
    /// The source's own errors.
    fn fill(&mut self, frame: u64, bytes: &mut [u8]) -> io::Result<usize>;
}

/// Words at their place in a file: `/proc/kpageflags` itself, or a plain copy.
#[derive(Debug)]
pub struct Seekable<F>(pub F);

impl<F: Read + Seek> Words for Seekable<F> {
    fn fill(&mut self, frame: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let position = frame
            .checked_mul(WORD as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        self.0.seek(SeekFrom::Start(position))?;
        read_all(&mut self.0, bytes)
    }
}

/// Words of a copy that can only be read from its start to its end, such as a compressed one.
#[derive(Debug)]
pub struct Stream<R> {
    reader: R,
    frame: u64,
}

impl<R: Read> Stream<R> {
    /// Returns the words of `reader`, whose first one is that of frame 0.
    pub fn new(reader: R) -> Self {
        Self { reader, frame: 0 }
    }
}

impl<R: Read> Words for Stream<R> {
    fn fill(&mut self, frame: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let skipped = frame.checked_sub(self.frame).ok_or_else(|| {
            let message = "the frames of a stream are in ascending order";
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        let skipped = skipped
            .checked_mul(WORD as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        io::copy(&mut self.reader.by_ref().take(skipped), &mut io::sink())?;
        let filled = read_all(&mut self.reader, bytes)?;
        self.frame = frame + (filled / WORD) as u64;
        Ok(filled)
    }
}

/// Reads until `bytes` is full or the source ends.
pub(crate) fn read_all(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match reader.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A snapshot that cannot be taken.
#[derive(Debug)]
pub enum SnapshotError {
    /// The source cannot be read.
    Read {
        /// The first frame of the read that failed.
        frame: u64,
        /// The reason.
        source: io::Error,
    },
    /// The source ends inside of a zone.
    Short {
        /// The first frame without a word.
        frame: u64,
        /// The frame after the last one that the zones need.
        end: u64,
    },
    /// The zones need more memory than this machine provides.
    TooLarge {
        /// The frames of all zones, one byte each.
        frames: u64,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { frame, source } => {
                write!(f, "cannot read the flags from frame {frame} on: {source}")?;
                if source.kind() == io::ErrorKind::PermissionDenied {
                    write!(f, " (only root may read them)")?;
                }
                Ok(())
            }
            Self::Short { frame, end } => write!(
                f,
                "the flags end at frame {frame}, but the zones end at frame {end}: the copy is incomplete, or its \
                 zones are those of another machine"
            ),
            Self::TooLarge { frames } => write!(
                f,
                "the zones span {frames} frames: cannot allocate a byte per frame; check `spanned` in zoneinfo"
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Short { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// A zone and the classes of its frames.
#[derive(Clone, Debug)]
pub struct ZoneFrames {
    /// The zone.
    pub extent: Extent,
    /// The free frames on the CPUs' lists.
    pub on_lists: u64,
    /// The class of each frame, from the zone's first one on.
    pub kinds: Vec<Kind>,
    /// The number of frames of each class, by the class's value.
    pub counts: [u64; KINDS],
    /// The holes whose place is unknown: frames that the zone spans, but that are neither present nor known as holes.
    /// They have been counted as frames without flags.
    pub holes_elsewhere: u64,
}

impl ZoneFrames {
    /// Returns a zone with known classes: a state that was not read from flags.
    #[must_use]
    pub fn new(extent: Extent, kinds: Vec<Kind>) -> Self {
        let mut frames = Self::unread(extent, kinds);
        frames.finish();
        frames
    }

    fn unread(extent: Extent, kinds: Vec<Kind>) -> Self {
        Self {
            extent,
            on_lists: 0,
            kinds,
            counts: [0; KINDS],
            holes_elsewhere: 0,
        }
    }

    /// Returns the first frame.
    pub(super) fn start(&self) -> u64 {
        self.extent.span().start
    }

    /// Returns the number of frames of a class.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// Finds what the flags do not show, and counts.
    fn finish(&mut self) {
        self.recount();
        let span = self.extent.span();
        let present = self.extent.present.unwrap_or(0);
        let holes = self.count(Kind::Hole);
        self.holes_elsewhere = (span.end - span.start)
            .saturating_sub(present)
            .saturating_sub(holes);
        let reserved = self.count(Kind::Reserved) + self.count(Kind::Offline);
        let missing = present
            .saturating_sub(self.extent.managed.unwrap_or(0))
            .saturating_sub(reserved);
        if missing < LEAST_NOT_STARTED {
            return;
        }
        let mut left = missing;
        let last = self
            .kinds
            .iter_mut()
            .rev()
            .skip_while(|kind| **kind == Kind::Hole);
        for kind in last.take_while(|kind| **kind == Kind::Unknown) {
            if left == 0 {
                break;
            }
            *kind = Kind::NotStarted;
            left -= 1;
        }
        self.recount();
    }

    fn recount(&mut self) {
        self.counts = [0; KINDS];
        for kind in &self.kinds {
            self.counts[*kind as usize] += 1;
        }
    }
}

/// The classes of all frames of a machine.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The zones, in the order of the layout.
    pub zones: Vec<ZoneFrames>,
    /// The bytes of a frame.
    pub frame_bytes: u64,
    ranges: Vec<Range<u64>>,
    piece: Vec<u8>,
}

impl Snapshot {
    /// Allocates and touches the memory for a machine of this layout.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::TooLarge`] if it cannot be allocated.
    pub fn prepare(layout: &Layout) -> Result<Self, SnapshotError> {
        let lengths = layout
            .zones
            .iter()
            .map(|zone| zone.span().end - zone.span().start);
        let frames = lengths.clone().fold(0u64, u64::saturating_add);
        let mut zones = Vec::with_capacity(layout.zones.len());
        for (zone, count) in layout.zones.iter().zip(lengths) {
            let count = usize::try_from(count).map_err(|_| SnapshotError::TooLarge { frames })?;
            let mut kinds = Vec::new();
            kinds
                .try_reserve_exact(count)
                .map_err(|_| SnapshotError::TooLarge { frames })?;
            kinds.resize(count, Kind::Hole);
            zones.push(ZoneFrames::unread(zone.clone(), kinds));
        }
        Ok(Self {
            zones,
            frame_bytes: layout.frame_bytes,
            ranges: layout.ranges(),
            // Not zero: the kernel would provide untouched memory.
            piece: vec![u8::MAX; PIECE],
        })
    }

    /// Returns a snapshot of known zones.
    #[must_use]
    pub fn of(zones: Vec<ZoneFrames>, frame_bytes: u64) -> Self {
        Self {
            zones,
            frame_bytes,
            ranges: Vec::new(),
            piece: Vec::new(),
        }
    }

    /// Returns the order of a block with this number of bytes, rounded down.
    #[must_use]
    pub fn order_of(&self, bytes: u64) -> u32 {
        (bytes / self.frame_bytes.max(1)).max(1).ilog2()
    }

    /// Returns the order of a block of 1 GiB, the largest one that is counted.
    #[must_use]
    pub fn largest_order(&self) -> u32 {
        self.order_of(LARGEST_BLOCK)
    }

    /// Reads the words of all frames.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Read`] and [`SnapshotError::Short`]. The snapshot is then incomplete, and is to be dropped.
    pub fn read(&mut self, words: &mut impl Words) -> Result<(), SnapshotError> {
        let Self {
            zones,
            ranges,
            piece,
            ..
        } = self;
        let mut folios = vec![Folios::default(); zones.len()];
        pieces(ranges, piece, words, |piece| {
            for (zone, folios) in zones.iter_mut().zip(&mut folios) {
                if piece.is_first {
                    *folios = Folios::default();
                }
                if let Some((at, words)) = piece.inside(&zone.extent) {
                    folios.extend(words, &mut zone.kinds, at);
                }
            }
            Ok(())
        })?;
        self.zones.iter_mut().for_each(ZoneFrames::finish);
        Ok(())
    }

    /// Reads another word per frame, such as those of `/proc/kpagecgroup`, and calls `each` with the zone, the
    /// frame's position in it, and the word.
    pub(super) fn read_beside(
        &self,
        words: &mut impl Words,
        mut each: impl FnMut(usize, usize, u64),
    ) -> Result<(), SnapshotError> {
        let mut piece = vec![0; PIECE];
        pieces(&self.ranges, &mut piece, words, |piece| {
            for (zone, frames) in self.zones.iter().enumerate() {
                if let Some((at, words)) = piece.inside(&frames.extent) {
                    words.zip(at..).for_each(|(word, at)| each(zone, at, word));
                }
            }
            Ok(())
        })
    }

    /// Reads the words of all frames again, and calls `each` with a zone, the position of the first frame in it, and
    /// the words of at most `group` frames. It may change classes.
    pub(super) fn reread(
        &mut self,
        words: &mut impl Words,
        group: usize,
        mut each: impl FnMut(&mut ZoneFrames, usize, &[u64]) -> io::Result<()>,
    ) -> Result<(), SnapshotError> {
        let Self {
            zones,
            ranges,
            piece,
            ..
        } = self;
        let mut buffer = Vec::with_capacity(group);
        let result = pieces(ranges, piece, words, |piece| {
            for zone in zones.iter_mut() {
                let Some((mut at, mut words)) = piece.inside(&zone.extent) else {
                    continue;
                };
                loop {
                    buffer.clear();
                    buffer.extend(words.by_ref().take(group));
                    if buffer.is_empty() {
                        break;
                    }
                    let result = each(zone, at, &buffer);
                    let frame = zone.start() + at as u64;
                    result.map_err(|source| SnapshotError::Read { frame, source })?;
                    at += buffer.len();
                }
            }
            Ok(())
        });
        self.zones.iter_mut().for_each(ZoneFrames::recount);
        result
    }

    /// Returns the zone of a frame, by its position in [`zones`](Self::zones), and the frame's class. Where the
    /// spans of zones overlap, it is the zone in which the frame exists.
    #[must_use]
    pub fn find(&self, frame: u64) -> Option<(usize, Kind)> {
        let zones = self.zones.iter().enumerate();
        let mut found = zones.filter_map(|(at, zone)| {
            let offset = usize::try_from(frame.checked_sub(zone.start())?).ok()?;
            let kind = *zone.kinds.get(offset)?;
            (kind != Kind::Hole).then_some((at, kind))
        });
        found.next()
    }
}

/// Consecutive words.
struct Piece<'a> {
    /// The first frame.
    frame: u64,
    /// No other piece is directly in front of it.
    is_first: bool,
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Returns the position of the first frame in a zone, and the words inside of the zone; `None` if there are none.
    fn inside(&self, zone: &Extent) -> Option<(usize, impl Iterator<Item = u64> + 'a)> {
        let span = zone.span();
        let end = self.frame + (self.bytes.len() / WORD) as u64;
        let (first, last) = (self.frame.max(span.start), end.min(span.end));
        if first >= last {
            return None;
        }
        let inside = (first - self.frame) as usize * WORD..(last - self.frame) as usize * WORD;
        let words = self.bytes[inside].chunks_exact(WORD).map(word);
        Some(((first - span.start) as usize, words))
    }
}

/// Reads the words of all ranges, in pieces of the buffer's size.
fn pieces(
    ranges: &[Range<u64>],
    buffer: &mut [u8],
    words: &mut impl Words,
    mut each: impl FnMut(&Piece<'_>) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let end = ranges.last().map_or(0, |range| range.end);
    for range in ranges {
        let mut frame = range.start;
        while frame < range.end {
            let wanted = (range.end - frame).min((buffer.len() / WORD) as u64);
            let bytes = &mut buffer[..wanted as usize * WORD];
            let filled = words.fill(frame, bytes);
            let filled = filled.map_err(|source| SnapshotError::Read { frame, source })?;
            if filled < bytes.len() {
                let frame = frame + (filled / WORD) as u64;
                return Err(SnapshotError::Short { frame, end });
            }
            each(&Piece {
                frame,
                is_first: frame == range.start,
                bytes,
            })?;
            frame += wanted;
        }
    }
    Ok(())
}

/// Returns the word of eight bytes, as this machine's kernel writes it.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}
