//! The machine on which a recording is made, from `/proc` and `/sys`.
//!
//! A replay needs to know how long the lists of this machine's CPUs are, and how much memory was free.
//!
//! # Invariants
//! What cannot be read is left out, and a recording never fails because of it.

use std::fs;
use std::path::Path;
use std::thread;

use everybuddy_trace::{Machine, add_blocks, zones};

/// The files of settings of the kernel that decide what its page allocator keeps, after the folders of such settings.
#[rustfmt::skip]
const SETTINGS: [(&str, &str); 2] = [
    ("proc/sys/vm/", "percpu_pagelist_high_fraction watermark_scale_factor min_free_kbytes compaction_proactiveness"),
    ("sys/kernel/mm/", "transparent_hugepage/enabled transparent_hugepage/defrag"),
];

/// Describes this machine now. Returns `None` if even its memory is unknown.
pub(super) fn here() -> Option<Machine> {
    below(Path::new("/"))
}

/// Describes the machine whose `proc` and `sys` are in a folder.
fn below(root: &Path) -> Option<Machine> {
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let memory = read("proc/meminfo")?;
    let cpus_of = |node: u64| {
        let list = read(&format!("sys/devices/system/node/node{node}/cpulist"))?;
        cpus(&list)
    };
    let settings = SETTINGS.iter().flat_map(|(folder, names)| {
        let setting = |name: &str| {
            let text = read(&format!("{folder}{name}"))?;
            Some((name.to_string(), chosen(text.trim()).to_string()))
        };
        names.split(' ').filter_map(setting).collect::<Vec<_>>()
    });
    let online = read("sys/devices/system/cpu/online").and_then(|list| cpus(&list));
    let available = || {
        let cpus = thread::available_parallelism().ok()?;
        u16::try_from(cpus.get()).ok()
    };
    let mut zones = zones(&read("proc/zoneinfo").unwrap_or_default(), cpus_of);
    add_blocks(&mut zones, &read("proc/buddyinfo").unwrap_or_default());
    Some(Machine {
        kernel: read("proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_string(),
        cpus: online.or_else(available).unwrap_or(0),
        total_kib: kib(&memory, "MemTotal:")?,
        free_kib: kib(&memory, "MemFree:"),
        zones,
        settings: settings.collect(),
    })
}

/// Returns a line of `/proc/meminfo`, in KiB.
pub(super) fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the number of CPUs in a list such as `0-3,8`; `None` if it is not a list.
fn cpus(list: &str) -> Option<u16> {
    let mut count = 0u16;
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

/// Returns the value in brackets, which is the selected one, or the whole text if it has no brackets.
fn chosen(text: &str) -> &str {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(below(root.path()), None);
        write(
            "proc/meminfo",
            "MemTotal:       24684092 kB\nMemFree:        11601040 kB\n",
        );
        write("proc/sys/kernel/osrelease", "6.12.0\n");
        write("proc/sys/vm/min_free_kbytes", "67584\n");
        write(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        write(
            "proc/zoneinfo",
            "Node 1, zone   Normal\n  pages free     5\n        managed  9000\n    cpu: 0\n",
        );
        write("proc/buddyinfo", "Node 1, zone   Normal      1      2 \n");
        write("sys/devices/system/node/node1/cpulist", "0-3,8\n");
        write("sys/devices/system/cpu/online", "0-9\n");
        let machine = below(root.path()).unwrap();
        assert_eq!((machine.kernel.as_str(), machine.cpus), ("6.12.0", 10));
        assert_eq!(machine.total_kib, 24_684_092);
        assert_eq!(machine.free_kib, Some(11_601_040));
        assert_eq!((machine.zones[0].managed, machine.zones[0].cpus), (9000, 5));
        assert_eq!(machine.zones[0].blocks, [1, 2]);
        assert_eq!(machine.setting("min_free_kbytes"), Some("67584"));
        assert_eq!(
            machine.setting("transparent_hugepage/enabled"),
            Some("madvise")
        );
        assert_eq!(machine.settings.len(), 2);
    }

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(cpus("0-3,8\n"), Some(5));
        assert_eq!(cpus("\n"), Some(0));
        for list in ["3-1", "a", "0-99999", "0-65535"] {
            assert_eq!(cpus(list), None, "{list}");
        }
    }
}
