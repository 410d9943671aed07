//! Control groups: the hierarchy, the folders, and the pages.

use std::fs;

use everybuddy_memory::frames::groups::{self, Tally};
use everybuddy_memory::frames::snapshot::Stream;
use everybuddy_memory::frames::{Blocks, Kind};

use crate::common::{bytes, plain, snapshot};

#[test]
fn the_controller_for_memory_names_the_hierarchy() {
    let first = "30 25 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup rw\n\
                 33 25 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 36 25 0:32 / /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory\n";
    let second = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    assert_eq!(
        groups::hierarchy(first),
        Some("/sys/fs/cgroup/memory".into())
    );
    assert_eq!(groups::hierarchy(second), Some("/sys/fs/cgroup".into()));
    assert_eq!(
        groups::hierarchy("22 1 8:1 / / rw - ext4 /dev/sda1 rw\nnonsense\n - \n"),
        None
    );
}

#[cfg(unix)]
#[test]
fn folders_are_found_by_inode() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().expect("a folder for the test");
    let root = folder.path();
    let inner = root.join("system.slice/a.service");
    fs::create_dir_all(&inner).expect("a folder for the test");
    fs::write(root.join("memory.stat"), "").expect("a file for the test");
    let paths = groups::paths(root);
    let inode = fs::metadata(&inner).expect("it was created").ino();
    assert_eq!(
        paths.get(&inode).map(String::as_str),
        Some("/system.slice/a.service")
    );
    let names: Vec<&str> = paths.values().map(String::as_str).collect();
    assert_eq!(names.len(), 3);
    assert!(names.contains(&"/") && names.contains(&"/system.slice"));
    assert!(groups::paths(&root.join("missing")).is_empty());
}

#[test]
fn pages_are_counted_by_group_and_the_rest_apart() {
    const BUDDY: u64 = 1 << 10;
    const SLAB: u64 = 1 << 7;
    const TABLE: u64 = 1 << 26;
    const CACHE: u64 = 1 << 5;
    // Blocks of 4 frames, from frame 4 on.
    let flags = [
        [BUDDY, BUDDY, BUDDY, BUDDY],
        [SLAB, CACHE, CACHE, BUDDY],
        [TABLE, TABLE, CACHE, BUDDY],
        [CACHE, CACHE, CACHE, CACHE],
        [0, TABLE, 0, CACHE],
    ];
    let groups = [
        [0, 0, 0, 0],
        [0, 7, 0, 0],
        [7, 9, 9, 0],
        [9, 9, 9, 7],
        [9, 0, 0, 9],
    ];
    let words = |rows: &[[u64; 4]]| -> Vec<u8> {
        let rows = rows.as_flattened().iter().copied();
        bytes([0; 4].into_iter().chain(rows))
    };
    let snapshot = snapshot(plain(4, 20), &words(&flags));
    let blocks = Blocks::of(&snapshot, 2);
    let tally =
        Tally::read(&mut Stream::new(&words(&groups)[..]), &snapshot, &blocks).expect("complete");
    let short =
        |group: &groups::Group| (group.inode, group.blocks, group.pinned(), group.movable());
    assert_eq!(
        tally.groups.iter().map(short).collect::<Vec<_>>(),
        [(9, 1, 1, 5), (7, 1, 1, 2)]
    );
    assert_eq!(tally.without.count(Kind::Slab), 1);
    assert_eq!(tally.without.count(Kind::Free), 6);
    assert!(Tally::read(&mut Stream::new(&words(&groups)[..80]), &snapshot, &blocks).is_err());
}
