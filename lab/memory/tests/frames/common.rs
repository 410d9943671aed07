//! Extents, words and snapshots for the tests.

use everybuddy_memory::frames::snapshot::{SnapshotError, Stream, Words, ZoneFrames};
use everybuddy_memory::frames::{Extent, Kind, Layout, Snapshot};

pub(crate) fn zone(start: u64, spanned: u64, present: u64, managed: u64) -> Extent {
    Extent {
        node: Some(0),
        name: "Normal".into(),
        start: Some(start),
        spanned: Some(spanned),
        present: Some(present),
        managed: Some(managed),
    }
}

/// A zone without holes.
pub(crate) fn plain(start: u64, frames: u64) -> Extent {
    zone(start, frames, frames, frames)
}

/// A zone whose frames have these classes.
pub(crate) fn of_kinds(start: u64, kinds: Vec<Kind>) -> ZoneFrames {
    ZoneFrames::new(plain(start, kinds.len() as u64), kinds)
}

pub(crate) fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

pub(crate) fn layout(zones: Vec<Extent>, ram: Vec<std::ops::Range<u64>>) -> Layout {
    Layout {
        frame_bytes: 4096,
        zones,
        ram,
    }
}

pub(crate) fn read(layout: &Layout, words: &mut impl Words) -> Result<Snapshot, SnapshotError> {
    let mut snapshot = Snapshot::prepare(layout)?;
    snapshot.read(words)?;
    Ok(snapshot)
}

/// Reads a zone from a stream.
pub(crate) fn snapshot(zone: Extent, words: &[u8]) -> Snapshot {
    read(&layout(vec![zone], Vec::new()), &mut Stream::new(words)).expect("complete")
}
