//! What a snapshot tells about a machine, besides the windows of its zones.
//!
//! # Invariants
//! A source that is missing or that fails is a sentence in [`Facts::notes`], never an empty list of holders.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::blocks::Blocks;
use super::counts::{self, Settled};
use super::groups;
use super::kcore::{Descriptors, Kcore, KcoreError};
use super::map::Map;
use super::owner::{self, Holders};
use super::snapshot::{Seekable, Snapshot, Stream, Words};

/// The bytes of the blocks whose holders are named.
const BLOCK_BYTES: u64 = 2 << 20;

/// Words of frames: a file of `/proc`, or a copy.
pub enum Source {
    /// A file.
    File(Seekable<File>),
    /// A copy that can only be read from its start.
    Stream(Stream<Box<dyn Read>>),
}

impl Words for Source {
    fn fill(&mut self, frame: u64, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.fill(frame, bytes),
            Self::Stream(stream) => stream.fill(frame, bytes),
        }
    }
}

/// What names the holders of blocks, where it exists.
#[derive(Default)]
pub struct Beside {
    /// The words of `/proc/kpagecgroup`.
    pub groups: Option<Source>,
    /// The paths of groups by inode.
    pub paths: BTreeMap<u64, String>,
    /// The text of `page_owner`.
    pub owner: Option<Box<dyn BufRead>>,
}

/// The pages of control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The groups, the worst first.
    pub tally: groups::Tally,
    /// The paths of groups by inode. A copy has none.
    pub paths: BTreeMap<u64, String>,
}

impl Groups {
    /// Returns the path of a group, or its inode.
    #[must_use]
    pub fn name(&self, inode: u64) -> String {
        self.paths
            .get(&inode)
            .cloned()
            .unwrap_or_else(|| format!("inode {inode}"))
    }
}

/// What the frames tell besides windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The order of the blocks whose holders are named.
    pub order: u32,
    /// The bytes of such a block.
    pub block_bytes: u64,
    /// The picture.
    pub map: Map,
    /// The functions that hold blocks. `None` without `page_owner`.
    pub functions: Option<Holders>,
    /// The control groups that hold pages. `None` without `kpagecgroup`.
    pub groups: Option<Groups>,
    /// What counts of references decided. `None` without them.
    pub settled: Option<Settled>,
    /// Why something is missing.
    pub notes: Vec<String>,
}

impl Facts {
    /// Names the holders of a snapshot's blocks.
    #[must_use]
    pub fn of(snapshot: &Snapshot, settled: Option<Settled>, beside: Beside) -> Self {
        let order = snapshot.order_of(BLOCK_BYTES);
        let blocks = Blocks::of(snapshot, order);
        let mut notes = Vec::new();
        let functions = beside.owner.and_then(|owner| {
            let holders = owner::holders(owner, snapshot, &blocks);
            holders
                .map_err(|cause| notes.push(format!("page_owner: {cause}")))
                .ok()
        });
        let groups = beside.groups.and_then(|mut words| {
            let tally = groups::Tally::read(&mut words, snapshot, &blocks);
            tally
                .map_err(|cause| notes.push(format!("kpagecgroup: {cause}")))
                .ok()
        });
        Self {
            order,
            block_bytes: snapshot.frame_bytes.max(1) << order,
            map: Map::of(snapshot),
            functions,
            groups: groups.map(|tally| Groups {
                tally,
                paths: beside.paths,
            }),
            settled,
            notes,
        }
    }
}

/// Decides what flags cannot tell, by counts of references in the kernel's memory.
///
/// # Errors
///
/// [`KcoreError`] if the kernel does not state where they are, or if they cannot be read.
pub fn settle(
    snapshot: &mut Snapshot,
    flags: &mut Source,
    kcore: File,
    kallsyms: File,
) -> Result<Settled, KcoreError> {
    let mut descriptors = Descriptors::find(Kcore::open(kcore)?, BufReader::new(kallsyms))?;
    counts::settle(snapshot, flags, &mut descriptors).map_err(KcoreError::Flags)
}
