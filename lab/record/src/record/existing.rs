//! Processes that existed before the recording, from `/proc`.
//!
//! A recording of the whole machine begins in the middle of the life of all processes: the
//! address regions of running processes are only known to the kernel.
//!
//! # Invariants
//! A process that goes away while it is read about is left out, or known in part.

use std::fs;
use std::path::Path;

use crate::assemble::{KnownProcess, KnownRegion};
use everybuddy_trace::RegionKind;

/// Bits of protection and flags as for mmap.
const PROTECTIONS: [(u8, u32); 3] = [(b'r', 1), (b'w', 2), (b'x', 4)];
const SHARED: u32 = 1;
const PRIVATE: u32 = 2;
const ANONYMOUS: u32 = 0x20;

/// Reads all processes.
pub(super) fn processes() -> Vec<KnownProcess> {
    numbers(Path::new("/proc")).filter_map(process).collect()
}

/// Returns the threads of this process, which make the recording and are not recorded.
pub(super) fn own_threads() -> Vec<u32> {
    numbers(Path::new("/proc/self/task")).collect()
}

/// Returns the entries of a directory that are numbers.
fn numbers(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn process(tgid: u32) -> Option<KnownProcess> {
    let folder = Path::new("/proc").join(tgid.to_string());
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let name = read("comm")?;
    // The link contains the whole name, but kernel threads have none.
    let exe = fs::read_link(folder.join("exe")).ok();
    let program = match exe.as_ref().and_then(|exe| exe.file_name()) {
        Some(exe) => exe
            .to_string_lossy()
            .trim_end_matches(" (deleted)")
            .to_string(),
        None => name.trim().to_string(),
    };
    Some(KnownProcess {
        tgid,
        parent: read("stat").and_then(|stat| parent(&stat)).unwrap_or(0),
        program,
        threads: numbers(&folder.join("task")).collect(),
        regions: regions(&read("maps").unwrap_or_default()),
    })
}

/// Parses the parent in `/proc/PID/stat`: the second field after the name, which may contain anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Parses `/proc/PID/maps`; lines in another format are ignored.
pub(crate) fn regions(maps: &str) -> Vec<KnownRegion> {
    let mut image = None;
    let mut regions: Vec<KnownRegion> = Vec::new();
    for line in maps.lines() {
        regions.extend(region(line, &mut image));
    }
    regions
}

/// Parses `7f00-7f01 rw-p 00000000 08:01 123   /usr/lib/libc.so.6`. The first file is the program's own.
fn region<'a>(line: &'a str, image: &mut Option<&'a str>) -> Option<KnownRegion> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (
        u64::from_str_radix(start, 16).ok()?,
        u64::from_str_radix(end, 16).ok()?,
    );
    let permissions = fields.next()?.as_bytes();
    let path = fields.nth(3).unwrap_or("");
    let prot = PROTECTIONS
        .iter()
        .filter(|(letter, _)| permissions.contains(letter));
    let is_file = path.starts_with('/');
    let sharing = if permissions.contains(&b's') {
        SHARED
    } else {
        PRIVATE
    };
    let kind = match path {
        "" => RegionKind::Anonymous,
        "[heap]" => RegionKind::Heap,
        path if path.starts_with("[stack") => RegionKind::Stack,
        path if path.starts_with("[anon") => RegionKind::Anonymous,
        path if is_file && *image.get_or_insert(path) == path => RegionKind::Image,
        _ if is_file => RegionKind::File,
        _ => RegionKind::Other,
    };
    (end > start).then(|| KnownRegion {
        start,
        end,
        prot: prot.map(|(_, bit)| bit).sum(),
        flags: if is_file {
            sharing
        } else {
            sharing | ANONYMOUS
        },
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read() {
        let maps = "\
55d0c0e00000-55d0c0e02000 r-xp 00000000 08:01 131 /usr/bin/sleep\n\
55d0c1a00000-55d0c1a21000 rw-p 00000000 00:00 0                          [heap]\n\
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
7f0000100000-7f0000101000 r--s 00000000 08:01 99                         /usr/lib/libc.so.6\n\
nonsense\n\
7fff00000000-7fff00021000 rw-p 00000000 00:00 0                          [stack]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let regions = regions(maps);
        let kinds: Vec<_> = regions.iter().map(|region| region.kind).collect();
        use RegionKind::{Anonymous, File, Heap, Image, Other, Stack};
        assert_eq!(kinds, [Image, Heap, Anonymous, File, Stack, Other]);
        assert_eq!((regions[0].prot, regions[0].flags), (5, PRIVATE));
        assert_eq!(regions[2].prot, 3);
        assert_eq!(regions[2].flags, PRIVATE | ANONYMOUS);
        assert_eq!((regions[3].prot, regions[3].flags), (1, SHARED));
    }

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (a) b) S) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent("12 (a"), None);
    }

    #[test]
    fn this_process_is_known() {
        let own = process(std::process::id()).unwrap();
        assert!(own.threads.contains(&std::process::id()));
        assert!(!own.regions.is_empty() && !own.program.is_empty());
    }
}
