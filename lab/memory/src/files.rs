//! All inputs of one run: this machine, folders, logs and copies of files, in any order.
//!
//! The command shows what [`read`] finds. Other programs start from the same states: those that need to know which
//! frames are free take the [`Snapshot`] as well.
//!
//! # Invariants
//! Reports of logs come first, in their order, and then at most one state of all copies, and those of folders.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::attach::Copies;
use crate::error::{MemoryError, Problem};
use crate::frames::Snapshot;
use crate::inputs::{Content, Input};
use crate::live::{self, Depth};
use crate::read::Reader;
use crate::state::{FrameSize, Kind, State};

/// The maximum number of bytes of a memory map.
const LARGEST_MAP: u64 = 16 << 20;

/// What is read.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'i> {
    /// Files and folders, in any order. Without any, this machine is read.
    pub files: &'i [PathBuf],
    /// How much of folders and of this machine is read.
    pub depth: Depth,
    /// The bytes of a frame where the input does not reveal them.
    pub frame_size: Option<u64>,
}

/// Reads all inputs, and passes on each state, with the classes of its frames if the input has them. Returns `true` if
/// the state is that of this machine. Notes about parts that were skipped go to standard error.
///
/// # Errors
///
/// Names the file that cannot be read, or that contains nothing.
pub fn read(
    inputs: &Inputs<'_>,
    emit: &mut dyn FnMut(State, Option<Snapshot>),
) -> Result<bool, MemoryError> {
    if inputs.files.is_empty() {
        let (mut state, snapshot) =
            live::read_frames(Path::new("/proc"), inputs.depth).map_err(Problem::from)?;
        settle(&mut state, inputs.frame_size);
        emit(state, snapshot);
        return Ok(true);
    }
    for line in read_from(inputs, &mut Input::open, emit)? {
        let _ = writeln!(io::stderr(), "note: {line}");
    }
    Ok(false)
}

/// Reads files that `open` opens, in their order, and returns what was skipped.
///
/// # Errors
///
/// Like [`read`].
pub fn read_from(
    inputs: &Inputs<'_>,
    open: &mut dyn FnMut(&Path) -> io::Result<Input>,
    emit: &mut dyn FnMut(State, Option<Snapshot>),
) -> Result<Vec<MemoryError>, MemoryError> {
    let &Inputs {
        files,
        depth,
        frame_size,
    } = inputs;
    let mut emit = |mut state: State, snapshot| {
        settle(&mut state, frame_size);
        emit(state, snapshot);
    };
    // Frames belong to the last copy of tables, wherever it is among the files.
    let (mut count, mut tables) = (0u64, None);
    let mut counted = |state: State| {
        count += 1;
        let former = if state.has(Kind::Log) {
            Some(state)
        } else {
            tables.replace(state)
        };
        if let Some(state) = former {
            emit(state, None);
        }
    };
    let (mut reader, mut refused) = (Reader::new(&mut counted), Vec::new());
    let (mut folders, mut copies) = (Vec::new(), Copies::default());
    for path in files {
        let name = path.display().to_string();
        if path.is_dir() {
            folders.push(live::read_frames(path, depth).map_err(Problem::from)?);
            continue;
        }
        let failed = |cause: io::Error| Problem::from(cause).of(&name);
        let input = open(path).map_err(failed)?;
        if input.content != Content::Text {
            add_copy(&mut copies, &name, input).map_err(failed)?;
            continue;
        }
        let summary = reader.read(&name, input.reader).map_err(failed)?;
        let lines = Some(summary.cut_lines).filter(|lines| *lines > 0);
        refused.extend(
            summary
                .encoding
                .map(Problem::Encoding)
                .map(|problem| problem.of(&name)),
        );
        refused.extend(
            lines
                .map(Problem::CutLines)
                .map(|problem| problem.of(&name)),
        );
    }
    reader.finish();
    let has_copies = copies.flags.is_some() || copies.other.is_some();
    if count == 0 && folders.is_empty() && !has_copies {
        let nothing = || Problem::NoState.of(files[0].display().to_string());
        return Err(refused.into_iter().next().unwrap_or_else(nothing));
    }
    let mut snapshot = None;
    if has_copies {
        let state = tables.get_or_insert_default();
        settle(state, frame_size);
        snapshot = copies.add_to(state)?;
    }
    if let Some(state) = tables {
        emit(state, snapshot);
    }
    for (state, snapshot) in folders {
        emit(state, snapshot);
    }
    Ok(refused)
}

/// Keeps a file that describes frames until the zones are known.
fn add_copy(copies: &mut Copies, name: &str, input: Input) -> io::Result<()> {
    match input.content {
        Content::Text => return Ok(()),
        Content::Flags => {
            copies.flags = Some((name.to_owned(), input.words()));
            return Ok(());
        }
        Content::Groups => copies.beside.groups = Some(input.words()),
        Content::Owner => copies.beside.owner = Some(Box::new(BufReader::new(input.reader))),
        Content::Map => {
            let mut bytes = Vec::new();
            input.reader.take(LARGEST_MAP).read_to_end(&mut bytes)?;
            copies.iomem = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    copies.other = Some(name.to_owned());
    Ok(())
}

/// Sets the size of a frame, if it was given and the state does not reveal it. A log states sizes in KiB, which were
/// converted with another one.
fn settle(state: &mut State, given: Option<u64>) {
    let Some(bytes) = given.filter(|_| !state.frame.is_known) else {
        return;
    };
    if state.has(Kind::Log) {
        let former = state.frame.bytes;
        for zone in &mut state.zones {
            for frames in zone.logged_sizes() {
                *frames = frames.map(|frames| frames.saturating_mul(former) / bytes);
            }
        }
    }
    state.frame = FrameSize::known(bytes);
}
