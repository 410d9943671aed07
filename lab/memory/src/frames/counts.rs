//! What flags cannot tell, decided by counts of references.
//!
//! A frame without flags and references is free, and on a CPU's list. A page with more references than its mappings,
//! its cache and its buffers explain is pinned: for a device, by a pipe, or for a moment by a CPU's batch of pages.
//!
//! # Invariants
//! The flags are read again together with the counts, so that both are of one moment: a frame that changed since the
//! snapshot has its newer class.
//!
//! # Assumptions
//! Folios of several frames are not checked: their references are not those of one page.

use std::io::{Read, Seek};

use super::flags::{Kind, classify};
use super::kcore::{Counts, Descriptors};
use super::snapshot::{Snapshot, SnapshotError, Words};

const ANON: u64 = 1 << 12;
const SWAPCACHE: u64 = 1 << 13;
const FOLIO: u64 = 1 << 15 | 1 << 16;
const PRIVATE: u64 = 1 << 35;

/// The frames whose descriptors are read together.
const GROUP: usize = 4096;

/// What the counts decided.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Settled {
    /// The frames without flags that are free, on a CPU's list.
    pub on_lists: u64,
    /// The frames without flags that are pages of the kernel.
    pub kernel: u64,
    /// The movable pages that are pinned.
    pub pinned: u64,
    /// The frames whose class changed since the snapshot.
    pub changed: u64,
    /// The frames whose descriptors could not be read, or that became part of a folio.
    pub undecided: u64,
}

/// Returns the class of a frame by its flags and counts.
fn decide(word: u64, counts: Counts) -> Kind {
    let kind = classify(word);
    if kind == Kind::Unknown {
        // Newer kernels have pages with a type and without references.
        let is_free = counts.references == 0 && counts.mappings == -1;
        return if is_free { Kind::OnList } else { Kind::Kernel };
    }
    if !kind.is_movable() {
        return kind;
    }
    let mappings = i64::from(counts.mappings).saturating_add(1).max(0);
    let cached = word & ANON == 0 || word & SWAPCACHE != 0;
    let has_buffers = word & ANON == 0 && word & PRIVATE != 0;
    let explained = mappings + i64::from(cached) + i64::from(has_buffers);
    if i64::from(counts.references) > explained {
        Kind::Pinned
    } else {
        kind
    }
}

/// Decides by counts: frames without flags become [`Kind::OnList`] or [`Kind::Kernel`], pinned pages [`Kind::Pinned`].
///
/// # Errors
///
/// Those of [`Snapshot::read`]. What has been decided until then is correct.
pub fn settle<F: Read + Seek>(
    snapshot: &mut Snapshot,
    words: &mut impl Words,
    descriptors: &mut Descriptors<F>,
) -> Result<Settled, SnapshotError> {
    let mut settled = Settled::default();
    let mut counts = Vec::new();
    snapshot.reread(words, GROUP, |zone, first, words| {
        let frame = zone.start() + first as u64;
        let kinds = &mut zone.kinds[first..first + words.len()];
        let is_open = |kind: &Kind| *kind == Kind::Unknown || kind.is_movable();
        if !kinds.iter().any(is_open) {
            return Ok(());
        }
        let is_mapped = descriptors.read(frame, words.len(), &mut counts)?;
        for (at, (kind, word)) in kinds
            .iter_mut()
            .zip(words)
            .enumerate()
            .filter(|(_, (kind, _))| is_open(kind))
        {
            if word & FOLIO != 0 || !is_mapped {
                // A folio that was one in the snapshot too is not checked.
                settled.undecided += u64::from(*kind == Kind::Unknown || word & FOLIO == 0);
                continue;
            }
            settled.changed += u64::from(classify(*word) != *kind);
            *kind = decide(*word, counts[at]);
            match *kind {
                Kind::OnList => settled.on_lists += 1,
                Kind::Kernel => settled.kernel += 1,
                Kind::Pinned => settled.pinned += 1,
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(settled)
}
