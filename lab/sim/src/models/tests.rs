//! The invariants of the caches, after random accesses.

use super::moves::Distance;
use super::*;
use crate::models::directory::NOBODY;
use crate::models::hardware::{Cache, Transfer};

impl Caches {
    /// Checks the invariants for one line.
    fn check(&mut self, line: u32) {
        self.settle_all(line);
        let cores = 0..self.cores.len() as u16;
        let sharers: Vec<u16> = cores.filter(|core| self.lines.has(line, *core)).collect();
        for (number, core) in self.cores.iter().enumerate() {
            let is_sharer = sharers.contains(&(number as u16));
            let outer = core.outer.as_ref().unwrap_or(&core.inner);
            assert_eq!(outer.has(line), is_sharer, "line {line}, core {number}");
            assert!(is_sharer || !core.inner.has(line));
        }
        let entry = *self.lines.entry(line);
        if entry.owner != NOBODY {
            assert_eq!(sharers, [entry.owner], "line {line}");
        }
        assert!(!entry.is_modified || entry.owner != NOBODY);
        for (group, tags) in self.groups.iter().enumerate() {
            assert_eq!(
                tags.has(line),
                self.lines.has_group(line, group as u16),
                "line {line}"
            );
        }
    }
}

impl Caches {
    /// Compares the distances of the copies of a line with those of each copy, seen from every core.
    fn check_distances(&mut self, line: u32) {
        for cpu in 0..self.cores.len() as u16 {
            let place = self.hardware.place(cpu);
            let cores = (0..self.cores.len() as u16).filter(|core| *core != place.core);
            let cores: Vec<u16> = cores.filter(|core| self.lines.has(line, *core)).collect();
            let groups = (0..self.groups.len() as u16).filter(|group| *group != place.group);
            let groups = groups.filter(|group| self.lines.has_group(line, *group));
            let mut all: Vec<u16> = groups.collect();
            all.extend(cores.iter().map(|core| self.group_of(*core)));
            let all = all.into_iter().map(|group| self.between(place, group));
            let all: Vec<Distance> = all.collect();
            let expected = all.iter().min().copied().zip(all.iter().max().copied());
            assert!(
                self.copies(line, place) == expected,
                "line {line}, core {cpu}"
            );
        }
    }
}

#[test]
fn members_of_a_range_are_those_in_its_word() {
    for (start, end) in [(0, 0), (0, 64), (3, 5), (60, 70), (64, 128), (63, 200)] {
        for index in 0..4 {
            let mut expected = 0u64;
            for number in (start..end).filter(|number| usize::from(number / 64) == index) {
                expected |= 1 << (number % 64);
            }
            assert_eq!(
                Directory::members(index, start..end),
                expected,
                "{start}..{end}"
            );
        }
    }
}

#[test]
fn every_copy_is_known() {
    let transfer = Transfer {
        clean: 60,
        modified: 90,
        upgrade: 50,
    };
    let cache = |lines: u64, ways, cycles| Cache {
        bytes: lines * 64,
        ways,
        cycles,
    };
    let hardware = Hardware {
        sockets: 2,
        groups: 2,
        cores: 3,
        threads: 2,
        l1: cache(4, 2, 4),
        l2: Some(cache(9, 3, 14)),
        llc: cache(12, 2, 40),
        near: transfer,
        socket: transfer,
        far: transfer,
        memory: 200,
        read_interval: 10,
        locked: 20,
        window: 0,
        store_buffer: 4,
        chains: 0,
        fill_buffers: 0,
        waiters: Waiters::Spin,
        work: 400,
        work_shared: 700,
        adjacent_line: true,
        mhz: 2000,
        installed: 1024,
    };
    #[rustfmt::skip]
    let cases = [
        hardware,
        Hardware { l2: None, adjacent_line: false, ..hardware },
        Hardware { waiters: Waiters::BackOff(50), window: 9, ..hardware },
        // Sets of cores, and of groups, have several words.
        Hardware { groups: 1, cores: 56, threads: 1, ..hardware },
        Hardware { sockets: 40, groups: 2, cores: 1, threads: 1, ..hardware },
    ];
    let both = cases.iter().flat_map(|own| [(own, false), (own, true)]);
    for (hardware, has_programs) in both {
        let hardware = *hardware;
        let all = hardware.cpus() as u16;
        let mut caches = Caches::new(hardware);
        caches.reset(all);
        let mut random = SplitMix64::new(1);
        let mut now = 0;
        for _ in 0..if has_programs { 4000 } else { 20_000 } {
            now += random.up_to(20);
            if has_programs && random.up_to(3) == 0 {
                let cpu = CpuId(random.up_to(u64::from(all) - 1) as u16);
                caches.foreign(cpu, random.up_to(9), random.up_to(3) << 9);
            }
            let line = random.up_to(39) as u32;
            let kind = match random.up_to(3) {
                0 => AccessKind::Store,
                1 => AccessKind::ReadModifyWrite,
                _ => AccessKind::Load,
            };
            let cpu = CpuId(random.up_to(u64::from(all) - 1) as u16);
            let access = Access {
                kind,
                line: Line(u64::from(line)),
                cpu,
                now,
            };
            let charge = caches.access(access);
            assert!(charge.cycles > 0 || kind != AccessKind::ReadModifyWrite);
            if kind == AccessKind::Load && random.up_to(9) == 0 {
                caches.park(Park {
                    cpu,
                    line: access.line,
                    since: now,
                    attempt: 0,
                });
                if random.up_to(2) > 0 {
                    let since = now;
                    let wake = Wake {
                        cpu,
                        waker: CpuId(0),
                        line: access.line,
                        since,
                        visible: now,
                    };
                    assert!(caches.wake(wake) >= since);
                }
            }
            caches.check_distances(line);
            for line in 0..40 {
                caches.check(line);
            }
        }
    }
}
