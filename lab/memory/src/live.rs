//! The state of this machine, from `/proc`.
//!
//! [`read`] reads the same files that [`crate::read`] reads as copies, from a folder: tests use a copy, containers the
//! host's.
//!
//! # Invariants
//! A file that cannot be read is named, except those that only root may read. Memory for the classes of all frames is
//! allocated before the tables are read: otherwise the program would change what it measures.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::attach;
use crate::error::{MemoryError, Problem};
use crate::frames::facts::{self, Beside, Source};
use crate::frames::snapshot::system_ram;
use crate::frames::{Facts, Snapshot, groups};
use crate::inputs::Input;
use crate::read::Reader;
use crate::state::{FrameSize, Place, State};

/// The files, in the order in which they are read. Tables come first, as close together as possible.
const FILES: [&str; 6] = [
    "buddyinfo",
    "pagetypeinfo",
    "zoneinfo",
    "vmstat",
    "meminfo",
    PROFILE,
];

/// Few kernels have it.
const PROFILE: &str = "allocinfo";

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The tables alone.
    Tables,
    /// The tables and the flags of all frames, where the user may read them.
    Frames,
    /// The same, and the holders of the frames.
    Holders,
}

/// Reads the state from a folder that has the files of `/proc`.
///
/// # Errors
///
/// Fails if neither a table nor the zones can be read.
pub fn read(root: &Path, depth: Depth) -> io::Result<State> {
    read_frames(root, depth).map(|(state, _)| state)
}

/// The same, with the classes of all frames if the user may read them.
///
/// # Errors
///
/// Like [`read`].
pub fn read_frames(root: &Path, depth: Depth) -> io::Result<(State, Option<Snapshot>)> {
    if depth == Depth::Tables {
        return tables(root).map(|state| (state, None));
    }
    let opened = open_flags(root);
    let lacks_root =
        matches!(&opened, Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied);
    let mut remark = None;
    let prepared = match opened {
        Ok((path, flags)) => match prepare(root) {
            Ok(snapshot) => Some((path, flags, snapshot)),
            Err(cause) => {
                remark = Some(format!("{}: {cause}", path.display()));
                None
            }
        },
        Err(_) => None,
    };
    let mut state = tables(root)?;
    state.lacks_root |= lacks_root;
    state.remarks.extend(remark);
    let Some((path, mut flags, mut snapshot)) = prepared else {
        return Ok((state, None));
    };
    attach::refresh(&mut snapshot, &state);
    match snapshot.read(&mut flags) {
        Ok(()) if attach::are_heads_only(&state, &snapshot) => {
            let (path, heads) = (path.display(), attach::HEADS_ONLY);
            state.remarks.push(format!("{path}: {heads}"));
            Ok((state, None))
        }
        Ok(()) => {
            add_frames(root, &mut state, &mut snapshot, flags, depth, &path);
            Ok((state, Some(snapshot)))
        }
        Err(cause) => {
            state.remarks.push(format!("{}: {cause}", path.display()));
            Ok((state, None))
        }
    }
}

/// Opens the flags of all frames, or a compressed copy in a folder.
fn open_flags(root: &Path) -> io::Result<(PathBuf, Source)> {
    let path = root.join("kpageflags");
    match Input::open(&path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let packed = root.join("kpageflags.gz");
            Input::open(&packed).map(|input| (packed, input.words()))
        }
        opened => opened.map(|input| (path, input.words())),
    }
}

/// Allocates the memory for a snapshot.
fn prepare(root: &Path) -> Result<Snapshot, MemoryError> {
    let mut states = Vec::new();
    let mut emit = |state| states.push(state);
    let mut reader = Reader::new(&mut emit);
    fs::read(root.join("zoneinfo"))
        .and_then(|text| reader.read("zoneinfo", &text[..]))
        .map_err(|cause| Problem::from(cause).of("zoneinfo"))?;
    reader.finish();
    let mut state = states.pop().unwrap_or_default();
    let iomem = fs::read(root.join("iomem")).unwrap_or_default();
    let iomem = String::from_utf8_lossy(&iomem);
    match page_size(root) {
        Some(bytes) => state.frame = FrameSize::known(bytes),
        None => attach::settle_frame_size(&mut state, &iomem),
    }
    let layout = attach::layout(&state, system_ram(&iomem, state.frame.bytes))?;
    Ok(Snapshot::prepare(&layout).map_err(Problem::from)?)
}

/// Decides by counts of references where the kernel shows them, names the holders, and adds all of it.
fn add_frames(
    root: &Path,
    state: &mut State,
    snapshot: &mut Snapshot,
    mut flags: Source,
    depth: Depth,
    path: &Path,
) {
    let mut notes = Vec::new();
    let kcore = File::open(root.join("kcore"));
    let settled = match kcore.and_then(|kcore| Ok((kcore, File::open(root.join("kallsyms"))?))) {
        Ok((kcore, kallsyms)) => {
            let settled = facts::settle(snapshot, &mut flags, kcore, kallsyms);
            settled
                .map_err(|cause| notes.push(format!("kcore: {cause}")))
                .ok()
        }
        Err(_) => None,
    };
    state.frame.bytes = snapshot.frame_bytes;
    if let Err(cause) = attach::check(state, snapshot) {
        state.remarks.push(cause.to_string());
    }
    let beside = if depth == Depth::Holders {
        beside(root)
    } else {
        Beside::default()
    };
    let mut facts = Facts::of(snapshot, settled, beside);
    facts.notes.extend(notes);
    let place = Place {
        file: path.display().to_string(),
        line: 1,
    };
    attach::attach(state, snapshot, facts, place);
}

/// Opens what names the holders of frames, where it exists.
fn beside(root: &Path) -> Beside {
    let groups = Input::open(&root.join("kpagecgroup")).ok();
    let mounts = fs::read(root.join("self/mountinfo")).unwrap_or_default();
    let folder = groups
        .as_ref()
        .and_then(|_| groups::hierarchy(&String::from_utf8_lossy(&mounts)));
    let is_machine = root == Path::new("/proc");
    let owner = if is_machine {
        Path::new("/sys/kernel/debug").to_path_buf()
    } else {
        root.to_path_buf()
    };
    let owner = Input::open(&owner.join("page_owner")).ok();
    Beside {
        groups: groups.map(Input::words),
        paths: folder
            .filter(|_| is_machine)
            .map(|folder| groups::paths(&folder))
            .unwrap_or_default(),
        owner: owner.map(|input| Box::new(BufReader::new(input.reader)) as Box<_>),
    }
}

/// Reads the tables.
fn tables(root: &Path) -> io::Result<State> {
    let (mut states, mut remarks) = (Vec::new(), Vec::new());
    let mut emit = |state| states.push(state);
    let mut reader = Reader::new(&mut emit);
    let (mut failure, mut lacks_root) = (None, false);
    for name in FILES {
        let path = root.join(name);
        // The kernel makes these files while they are read: one read at a time, and parsing afterwards.
        let mut text = Vec::new();
        match File::open(&path).and_then(|mut file| file.read_to_end(&mut text)) {
            Ok(_) => {
                reader.read(&path.display().to_string(), &text[..])?;
            }
            Err(cause) if name == "buddyinfo" => failure = Some(cause),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => lacks_root = true,
            Err(_) if name == PROFILE => {}
            Err(cause) => remarks.push(format!("{}: {cause}", path.display())),
        }
    }
    reader.finish();
    let Some(mut state) = states.into_iter().find(|state| !state.zones.is_empty()) else {
        let cause = failure.unwrap_or_else(|| io::Error::other("it contains no state of memory"));
        return Err(io::Error::new(
            cause.kind(),
            format!("{}: {cause}", root.join("buddyinfo").display()),
        ));
    };
    state.remarks.extend(remarks);
    state.lacks_root = lacks_root;
    state.kernel = kernel(root);
    state.frame = page_size(root).map_or(state.frame, FrameSize::known);
    Ok(state)
}

fn kernel(root: &Path) -> Option<String> {
    let text = std::fs::read(root.join("sys/kernel/osrelease")).ok()?;
    let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    (!text.is_empty() && text.len() <= 100 && !text.contains(char::is_control)).then_some(text)
}

/// Returns the page size from the auxiliary vector of this process.
fn page_size(root: &Path) -> Option<u64> {
    const PAGE_SIZE: usize = 6;
    let text = std::fs::read(root.join("self/auxv")).ok()?;
    let word = size_of::<usize>();
    let number = |bytes: &[u8]| Some(usize::from_ne_bytes(bytes.try_into().ok()?));
    let entries = text.chunks_exact(2 * word);
    let mut values = entries.filter(|entry| number(&entry[..word]) == Some(PAGE_SIZE));
    let bytes = number(&values.next()?[word..])? as u64;
    (bytes.is_power_of_two() && bytes >= 1024).then_some(bytes)
}
