//! Adds what frames tell to the zones of a state.
//!
//! The tables of a machine and the flags of its frames are different files. Answers need one [`State`].
//!
//! # Invariants
//! Flags that do not belong to the zones are refused: a zone that ends after them, or that has another amount of free
//! memory, is one of another machine. A state is changed only if all its frames were read. Flags of old kernels, which
//! mark the first frame of a free block only, are not used.

use std::ops::Range;

use everybuddy_text::size;

use crate::error::{MemoryError, Problem};
use crate::frames::facts::{Beside, Source};
use crate::frames::snapshot::{ZoneFrames, system_ram};
use crate::frames::{Extent, Facts, Kind, Layout, Snapshot, ZoneWindows};
use crate::state::{self, FrameSize, Place, State};

/// Flags and zones of one machine differ by less than one part in this number.
const LARGEST_DRIFT: u64 = 4;

/// Fewer frames hide no block that matters: two files round differently.
const NOTABLE_HOLES: u64 = 512;

/// Returns the geometry of a state's memory, with the same zones in the same order.
///
/// # Errors
///
/// [`Problem::NoPlaces`] if the state does not contain the places of its zones.
pub fn layout(state: &State, ram: Vec<Range<u64>>) -> Result<Layout, Problem> {
    let zones: Vec<Extent> = state.zones.iter().map(|zone| zone.extent.clone()).collect();
    if zones.iter().all(|zone| zone.span().is_empty()) {
        return Err(Problem::NoPlaces);
    }
    Ok(Layout {
        frame_bytes: state.frame.bytes,
        zones,
        ram,
    })
}

/// Takes the size of a frame from the memory map, if the state does not reveal it.
pub fn settle_frame_size(state: &mut State, iomem: &str) {
    let bytes: u64 = system_ram(iomem, 1)
        .iter()
        .map(|range| range.end - range.start)
        .fold(0, u64::saturating_add);
    let present = state
        .zones
        .iter()
        .filter_map(|zone| zone.extent.present)
        .fold(0, u64::saturating_add);
    if state.frame.is_known || present == 0 {
        return;
    }
    // Some of the map is not managed in frames.
    let ratio = bytes / present;
    let near = |size: &u64| ratio.abs_diff(*size) < size / 8;
    let found = [4096, 16384, 65536].into_iter().find(near);
    state.frame = found.map_or(state.frame, FrameSize::known);
}

/// Takes the numbers of a state into a snapshot that was prepared with it or with an earlier one.
pub fn refresh(snapshot: &mut Snapshot, state: &State) {
    for frames in &mut snapshot.zones {
        if let Some(zone) = state.zones.iter().find(|zone| is_same(zone, frames)) {
            frames.extent.present = zone.extent.present;
            frames.extent.managed = zone.extent.managed;
            frames.on_lists = zone.listed_frames().unwrap_or(0);
        }
    }
}

fn is_same(zone: &state::Zone, frames: &ZoneFrames) -> bool {
    zone.extent.is(frames.extent.node, &frames.extent.name)
}

/// Checks that a snapshot is one of the state's machine.
///
/// # Errors
///
/// [`Problem::Foreign`].
pub fn check(state: &State, snapshot: &Snapshot) -> Result<(), Problem> {
    let bytes = |frames: u64| size::shown(frames.saturating_mul(state.frame.bytes));
    for frames in &snapshot.zones {
        let zone = state.zones.iter().find(|zone| is_same(zone, frames));
        let numbers = zone.and_then(|zone| Some((zone, zone.free?, zone.extent.managed?)));
        let Some((zone, free, managed)) = numbers else {
            continue;
        };
        let flagged = frames.count(Kind::Free);
        if flagged.abs_diff(free) > managed / LARGEST_DRIFT {
            return Err(Problem::Foreign {
                zone: zone.extent.title(),
                flagged: bytes(flagged),
                free: bytes(free),
            });
        }
    }
    Ok(())
}

/// What is said of flags that mark only a part of the free frames.
pub(crate) const HEADS_ONLY: &str = "the flags mark only the first frame of each free block, as Linux before 4.5 does: \
                                     they are not used, and the tables give the sizes of blocks";

/// Returns `true` if the flags mark only the first frame of each free block.
///
/// Both frames of a pair are then marked only if they are two free blocks, which the kernel would have merged. Memory
/// that is free in single frames has no such pairs either, but its frames are all marked.
#[must_use]
pub fn are_heads_only(state: &State, snapshot: &Snapshot) -> bool {
    let (mut marked, mut pairs, mut free) = (0u64, 0u64, 0u64);
    for frames in &snapshot.zones {
        let zone = state.zones.iter().find(|zone| is_same(zone, frames));
        let Some(counted) = zone.and_then(|zone| zone.free.or(zone.free_frames())) else {
            continue;
        };
        let odd = (frames.extent.span().start & 1) as usize;
        let both = frames.kinds.get(odd..).unwrap_or_default().chunks_exact(2);
        pairs += both.filter(|pair| *pair == [Kind::Free; 2]).count() as u64;
        marked += frames.count(Kind::Free);
        free = free.saturating_add(counted);
    }
    // The flags and the counters are of different moments.
    marked > 0 && pairs <= marked / 16 && free / 3 > marked / 2
}

/// Adds the windows of all zones, and `facts`.
pub fn attach(state: &mut State, snapshot: &Snapshot, facts: Facts, place: Place) {
    for frames in snapshot
        .zones
        .iter()
        .filter(|frames| !frames.kinds.is_empty())
    {
        let zone = state.zones.iter_mut().find(|zone| is_same(zone, frames));
        let Some(zone) = zone else {
            continue;
        };
        zone.windows = Some(ZoneWindows::of(frames, snapshot.largest_order()));
        if frames.holes_elsewhere >= NOTABLE_HOLES {
            let (title, holes) = (zone.extent.title(), size::grouped(frames.holes_elsewhere));
            state.remarks.push(format!(
                "{title}: the places of {holes} frames that do not exist are unknown, and count as perhaps free; \
                 /proc/iomem (as root) would tell"
            ));
        }
    }
    state.frames = Some(facts);
    state.parts.push((state::Kind::Kpageflags, place));
}

/// Reads the flags of a state's machine. `None` if they mark only the first frames of free blocks.
fn read(
    state: &State,
    ram: Vec<Range<u64>>,
    flags: &mut Source,
) -> Result<Option<Snapshot>, Problem> {
    let mut snapshot = Snapshot::prepare(&layout(state, ram)?)?;
    refresh(&mut snapshot, state);
    snapshot.read(flags)?;
    if are_heads_only(state, &snapshot) {
        return Ok(None);
    }
    check(state, &snapshot)?;
    Ok(Some(snapshot))
}

/// The files of a copy, besides its tables.
#[derive(Default)]
pub struct Copies {
    /// A name for messages, and the words of `kpageflags`.
    pub flags: Option<(String, Source)>,
    /// The text of `iomem`.
    pub iomem: String,
    /// What names holders.
    pub beside: Beside,
    /// The name of the last file that says nothing without `kpageflags`.
    pub other: Option<String>,
}

impl Copies {
    /// Adds the frames to a state, if there are any, and returns them.
    ///
    /// # Errors
    ///
    /// Names the file, if the flags cannot be read or do not belong to the state.
    pub fn add_to(self, state: &mut State) -> Result<Option<Snapshot>, MemoryError> {
        let Some((file, mut flags)) = self.flags else {
            return match self.other {
                Some(other) => Err(Problem::NoFlags.of(other)),
                None => Ok(None),
            };
        };
        settle_frame_size(state, &self.iomem);
        let ram = system_ram(&self.iomem, state.frame.bytes);
        let snapshot = read(state, ram, &mut flags).map_err(|problem| problem.of(&file))?;
        let Some(snapshot) = snapshot else {
            state.remarks.push(format!("{file}: {HEADS_ONLY}"));
            return Ok(None);
        };
        let facts = Facts::of(&snapshot, None, self.beside);
        attach(state, &snapshot, facts, Place { file, line: 1 });
        Ok(Some(snapshot))
    }
}
