//! The control groups that hold pages, from `/proc/kpagecgroup`.
//!
//! The kernel names a group by the inode of its folder. It does so for programs' pages, the page cache and page
//! tables, but not for slab pages: their objects belong to many groups. A group that was removed still has an inode,
//! but no folder.
//!
//! # Invariants
//! A frame without a group is counted as such, by class, and never given to another group.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::blocks::Blocks;
use super::flags::{KINDS, Kind};
use super::snapshot::{Snapshot, SnapshotError, Words};

/// Returns the folder of the hierarchy that accounts memory, from the text of `/proc/self/mountinfo`: the first
/// version's controller `memory`, otherwise the second version.
#[must_use]
pub fn hierarchy(mountinfo: &str) -> Option<PathBuf> {
    let mut second = None;
    for line in mountinfo.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else {
            continue;
        };
        let Some(folder) = mount.split_whitespace().nth(4) else {
            continue;
        };
        let mut words = file_system.split_whitespace();
        match words.next() {
            Some("cgroup")
                if words
                    .nth(1)
                    .is_some_and(|options| options.split(',').any(|one| one == "memory")) =>
            {
                return Some(PathBuf::from(folder));
            }
            Some("cgroup2") if second.is_none() => second = Some(PathBuf::from(folder)),
            _ => {}
        }
    }
    second
}

/// Returns the path of each group below a hierarchy, by inode. The hierarchy itself is `/`. A folder that cannot be
/// read is left out: groups come and go.
#[must_use]
pub fn paths(hierarchy: &Path) -> BTreeMap<u64, String> {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut paths = BTreeMap::new();
    let mut open = vec![(hierarchy.to_path_buf(), String::from("/"))];
    while let Some((folder, name)) = open.pop() {
        let (Ok(metadata), Ok(entries)) = (fs::metadata(&folder), fs::read_dir(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            // Links are not followed.
            if entry.file_type().is_ok_and(|file| file.is_dir()) {
                let child = entry.file_name().to_string_lossy().into_owned();
                let separator = if name == "/" { "" } else { "/" };
                open.push((entry.path(), format!("{name}{separator}{child}")));
            }
        }
        // A browser has no folders.
        #[cfg(unix)]
        paths.insert(std::os::unix::fs::MetadataExt::ino(&metadata), name);
        #[cfg(not(unix))]
        let _ = (metadata, name);
    }
    paths
}

/// The pages of a group.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Group {
    /// The inode; 0 are the pages without a group.
    pub inode: u64,
    /// The frames of each class, by the class's value.
    pub frames: [u64; KINDS],
    /// The blocks that are not obtainable and in which the group holds a pinned frame. A frame without flags is not
    /// counted: it may have been on a CPU's list, and the group may have got it since.
    pub blocks: u64,
}

impl Group {
    /// Returns the number of frames of a class.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.frames[kind as usize]
    }

    /// Returns the number of frames that compaction does not move.
    #[must_use]
    pub fn pinned(&self) -> u64 {
        let pinned = Kind::ALL.into_iter().filter(|kind| kind.is_pinned());
        pinned.map(|kind| self.count(kind)).sum()
    }

    /// Returns the number of frames that compaction can move.
    #[must_use]
    pub fn movable(&self) -> u64 {
        let movable = Kind::ALL.into_iter().filter(|kind| kind.is_movable());
        movable.map(|kind| self.count(kind)).sum()
    }
}

/// The pages of all groups.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// The groups, the worst first: in most blocks, then with most pinned frames, then with most movable ones.
    pub groups: Vec<Group>,
    /// The pages without a group. All slab pages are among them.
    pub without: Group,
}

impl Tally {
    /// Counts the pages of all groups, from the words of `/proc/kpagecgroup`.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::read`].
    pub fn read(
        words: &mut impl Words,
        snapshot: &Snapshot,
        blocks: &Blocks,
    ) -> Result<Self, SnapshotError> {
        let mut groups: BTreeMap<u64, Group> = BTreeMap::new();
        let mut places: BTreeSet<(u64, usize, usize)> = BTreeSet::new();
        let mut without = Group::default();
        snapshot.read_beside(words, |zone, at, inode| {
            let frames = &snapshot.zones[zone];
            let kind = frames.kinds[at];
            if inode == 0 {
                without.frames[kind as usize] += 1;
                return;
            }
            let group = groups.entry(inode).or_default();
            group.frames[kind as usize] += 1;
            if !kind.is_pinned() {
                return;
            }
            if let Some(block) = blocks.position(zone, frames.start() + at as u64)
                && blocks.zones[zone].blocks[block].is_blocked()
            {
                places.insert((inode, zone, block));
            }
        })?;
        for (inode, _, _) in &places {
            groups.entry(*inode).or_default().blocks += 1;
        }
        let mut groups: Vec<Group> = groups
            .into_iter()
            .map(|(inode, group)| Group { inode, ..group })
            .collect();
        groups.sort_by_key(|group| {
            std::cmp::Reverse((group.blocks, group.pinned(), group.movable()))
        });
        Ok(Self { groups, without })
    }
}
