//! The option `--start`: memory as it was on a machine.
//!
//! All measuring commands start from the same states, which are those that `everybuddy memory` reads.
//!
//! # Invariants
//! One zone of the last state is used: of those that serve ordinary requests, the one with the most free memory.
//! Watermarks do not apply. What is drawn or assumed is said.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::replay::free_map::FreeMap;
use everybuddy_memory::answer;
use everybuddy_memory::files::{self, Inputs};
use everybuddy_memory::frames::snapshot::ZoneFrames;
use everybuddy_memory::frames::{Extent, Kind, Snapshot};
use everybuddy_memory::live::Depth;
use everybuddy_memory::request::Request;
use everybuddy_memory::state::{self, Blocks, State, Zone};
use everybuddy_trace::{Machine, Trace};

use crate::show::output;

/// The frames that traces and systems have.
const FRAME_BYTES: u64 = 4096;
/// The word for the state in a trace.
const RECORDED: &str = "recorded";

/// The memory with which a run starts.
#[derive(Clone, Debug, Args)]
pub(super) struct Start {
    /// Start with a machine's memory: files as for `memory`; in `compare` also `recorded`
    #[arg(long, value_name = "FILE,G", value_delimiter = ',')]
    start: Vec<PathBuf>,
}

impl Start {
    /// Returns `true` if files are given.
    pub(super) fn has_files(&self) -> bool {
        !self.start.is_empty() && !self.is_recorded()
    }

    /// Returns `true` if each trace starts with the memory of its own machine.
    pub(super) fn is_recorded(&self) -> bool {
        matches!(&self.start[..], [only] if only.as_os_str() == RECORDED)
    }

    /// Returns the files, which are inputs of the run.
    pub(super) fn files(&self) -> &[PathBuf] {
        if self.has_files() { &self.start } else { &[] }
    }

    /// Reads the state in the files, if any are given.
    ///
    /// # Errors
    /// A usage error if they cannot be read, or do not contain the free blocks of a zone.
    pub(super) fn read(&self, seed: u64) -> Result<Option<Arc<FreeMap>>, Error> {
        if !self.has_files() {
            return Ok(None);
        }
        let inputs = Inputs {
            files: &self.start,
            depth: Depth::Frames,
            frame_size: None,
        };
        let mut last = None;
        files::read(&inputs, &mut |state: State, snapshot| {
            if !state.zones.is_empty() {
                last = Some((state, snapshot));
            }
        })
        .map_err(|what| Error::usage(format!("--start: {what}")))?;
        let (state, snapshot) = last.unwrap_or_default();
        map(&state, snapshot.as_ref(), seed).map(|map| Some(Arc::new(map)))
    }

    /// Returns the memory of a trace's machine when the recording began.
    ///
    /// # Errors
    /// A usage error if the trace does not contain it.
    pub(super) fn of_trace(trace: &Trace, seed: u64) -> Result<Arc<FreeMap>, Error> {
        let machine = Machine::of(trace).unwrap_or_default();
        let most = |zone: &&everybuddy_trace::MachineZone| zone.free_frames();
        let Some(zone) = machine.zones.iter().max_by_key(most) else {
            return Err(lacks(trace));
        };
        if zone.free_frames() == 0 {
            return Err(lacks(trace));
        }
        let managed = Some(zone.managed);
        FreeMap::random(RECORDED, &zone.blocks, managed, seed).map(Arc::new)
    }
}

fn lacks(trace: &Trace) -> Error {
    Error::usage(format!(
        "--start {RECORDED}: trace {} does not contain the free blocks of its machine\nhelp: pass a copy of \
         /proc/buddyinfo, or record it again",
        trace.name
    ))
}

/// Creates the map of the zone with the most free memory.
fn map(state: &State, snapshot: Option<&Snapshot>, seed: u64) -> Result<FreeMap, Error> {
    if state.frame.bytes != FRAME_BYTES {
        return Err(Error::usage(format!(
            "--start: the frames of this machine have {} KiB, and those of traces and workloads 4 KiB",
            state.frame.bytes >> 10
        )));
    }
    if let Some(snapshot) = snapshot {
        let zones = snapshot.zones.iter();
        if let Some(zone) = zones.max_by_key(|zone| zone.count(Kind::Free)) {
            return exact(state, zone);
        }
    }
    let has_blocks = |zone: &&Zone| zone.blocks.is_some() && !answer::is_restricted(zone);
    let zones = state.zones.iter().filter(has_blocks);
    let most = zones.max_by_key(|zone| {
        let counts = usable(zone).into_iter().zip(0u32..);
        counts.fold(0u64, |sum, (count, order)| {
            sum.saturating_add(count.saturating_mul(1 << order))
        })
    });
    let Some(zone) = most else {
        return Err(Error::usage(
            "--start: the input has no free blocks by order, of a zone that serves ordinary requests\nhelp: pass a \
             copy of /proc/buddyinfo or of a log with its table",
        ));
    };
    drawn(zone, seed)
}

/// Creates the map of a zone whose frames are known.
fn exact(state: &State, frames: &ZoneFrames) -> Result<FreeMap, Error> {
    let mut parts = state.parts.iter().rev();
    let flags = parts.find(|(kind, _)| *kind == state::Kind::Kpageflags);
    let file = flags.map_or("kpageflags", |(_, place)| place.file.as_str());
    let span = frames.extent.span();
    let start = span.start;
    if frames.count(Kind::Free) == 0 {
        return Err(Error::usage(format!("--start: {file}: no frame is free")));
    }
    Ok(FreeMap::exact(
        &source(file, &frames.extent),
        span,
        runs(&frames.kinds).map(|run| start + run.start..start + run.end),
    ))
}

/// Returns the runs of free frames.
fn runs(kinds: &[Kind]) -> impl Iterator<Item = Range<u64>> + '_ {
    let mut at = 0;
    let same = |a: &Kind, b: &Kind| (*a == Kind::Free) == (*b == Kind::Free);
    kinds.chunk_by(same).filter_map(move |chunk| {
        let start = at;
        at += chunk.len() as u64;
        (chunk[0] == Kind::Free).then_some(start..at)
    })
}

/// Returns the numbers of free blocks that serve ordinary requests, by order.
fn usable(zone: &Zone) -> Vec<u64> {
    let blocks = zone.blocks.as_deref().unwrap_or_default().iter();
    let usable = |blocks: &Blocks| answer::general(blocks, Request::default()).low;
    blocks.map(usable).collect()
}

/// Draws a map with the counts of a zone.
fn drawn(zone: &Zone, seed: u64) -> Result<FreeMap, Error> {
    let blocks = zone.blocks.as_deref().unwrap_or_default();
    let source = source(&zone.place.file, &zone.extent);
    if let Some(order) = blocks.iter().position(|blocks| blocks.count.at_least) {
        return Err(Error::usage(format!(
            "--start: {source}: the number of free blocks of order {order} is only bounded\nhelp: pass a copy of \
             /proc/buddyinfo of the same moment as well"
        )));
    }
    let counts = usable(zone);
    if let Some(order) =
        (0..blocks.len()).rfind(|order| counts[*order] < blocks[*order].count.value)
    {
        output::note(&format!(
            "--start: {source}: free blocks for special requests (CMA, HighAtomic) count as in use; the largest has \
             order {order}"
        ));
    }
    let map = FreeMap::random(&source, &counts, zone.extent.managed, seed)?;
    if map.free() == 0 {
        return Err(Error::usage(format!("--start: {source}: nothing is free")));
    }
    if zone.extent.managed.is_none() {
        output::note(&format!(
            "--start: {source}: the zone is assumed to be twice as large as its free memory; a copy of /proc/zoneinfo \
             as well states its size"
        ));
    }
    Ok(map)
}

/// Names a state and its zone.
fn source(file: &str, zone: &Extent) -> String {
    let name = Path::new(file).file_name().unwrap_or(OsStr::new(file));
    format!("{}:{}", name.to_string_lossy(), zone.title())
}
