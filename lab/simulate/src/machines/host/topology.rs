//! What the operating system says about CPUs and caches.
//!
//! Linux describes them in `/sys/devices/system/cpu`. A virtual machine may hide all of it, and other systems do not
//! have it; then usual values are assumed.
//!
//! # Invariants
//! Every value has a source, which begins with `assumed:` if the operating system did not say it. Counts multiply to
//! at most the number of CPUs that this program may use, and are at least 1.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use core_affinity::CoreId;

/// A value and its source.
#[derive(Clone, Debug)]
pub(super) struct FoundNumber {
    pub(super) value: u64,
    pub(super) source: String,
}

impl FoundNumber {
    fn of(said: Option<u64>, place: &str, else_: u64, why: &str) -> FoundNumber {
        match said.filter(|value| *value > 0) {
            Some(value) => FoundNumber {
                value,
                source: format!("this host: {place}"),
            },
            None => FoundNumber {
                value: else_,
                source: format!("assumed: {why}; this host does not say it in {place}"),
            },
        }
    }
}

/// A cache of the first CPU.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) bytes: FoundNumber,
    pub(super) ways: FoundNumber,
}

impl Level {
    /// Returns its size.
    pub(super) fn size(&self) -> usize {
        self.bytes.value as usize
    }
}

/// Two CPUs at a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    None,
    Of(usize, usize),
}

/// A CPU's place, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spot {
    cpu: usize,
    package: String,
    group: String,
    core: String,
}

/// CPUs and caches.
pub(super) struct Topology {
    pub(super) sockets: FoundNumber,
    pub(super) groups: FoundNumber,
    pub(super) cores: FoundNumber,
    pub(super) threads: FoundNumber,
    pub(super) caches: [Level; 3],
    spots: Vec<Spot>,
    ids: Vec<CoreId>,
    info: String,
}

fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

/// Parses `48K`.
fn bytes(text: &str) -> Option<u64> {
    let (number, shift) = match text.strip_suffix(['K', 'M']) {
        Some(number) if text.ends_with('K') => (number, 10),
        Some(number) => (number, 20),
        None => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Topology {
    /// Reads what the operating system says.
    pub(super) fn read() -> Topology {
        let ids = core_affinity::get_core_ids().unwrap_or_default();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Topology::of(Path::new("/sys/devices/system/cpu"), ids, info)
    }

    fn of(root: &Path, ids: Vec<CoreId>, info: String) -> Topology {
        let spots: Vec<Spot> = ids.iter().map(|own| spot(root, own.id)).collect();
        let distinct = |key: &dyn Fn(&Spot) -> String| {
            spots.iter().map(key).collect::<BTreeSet<String>>().len() as u64
        };
        let all = spots.len() as u64;
        let said = root.join("cpu0/topology/core_id").exists();
        let sockets = distinct(&|own| own.package.clone());
        let groups = distinct(&|own| format!("{}/{}", own.package, own.group));
        let cores = distinct(&|own| format!("{}/{}", own.package, own.core));
        // Counts per place, rounded down: what this program may use need not be whole.
        let per = |inner: u64, outer: u64| said.then(|| (inner / outer.max(1)).max(1));
        let place = "/sys/devices/system/cpu/cpu*/topology, of the CPUs that this program may use";
        let caches = caches(root);
        let shared = said && root.join("cpu0/cache/index0").exists();
        Topology {
            sockets: FoundNumber::of(said.then_some(sockets), place, 1, "one socket"),
            groups: FoundNumber::of(
                per(groups, sockets).filter(|_| shared),
                "/sys/devices/system/cpu/cpu*/cache",
                1,
                "one last-level cache per socket",
            ),
            cores: FoundNumber::of(
                per(cores, if shared { groups } else { sockets }),
                place,
                all.max(1),
                "a core for each CPU",
            ),
            threads: FoundNumber::of(
                per(all, cores).map(|own| own.min(2)),
                place,
                1,
                "one thread per core",
            ),
            caches,
            spots,
            ids,
            info,
        }
    }

    /// Keeps this thread on a CPU; `false` if that is impossible.
    pub(super) fn pin(&self, cpu: usize) -> bool {
        let id = self.ids.iter().find(|own| own.id == cpu);
        id.is_some_and(|id| core_affinity::set_for_current(*id))
    }

    /// Keeps this thread on the first CPU, if it can.
    pub(super) fn pin_to_first(&self) {
        if let Some(first) = self.ids.first() {
            // Where threads cannot be pinned, the measurement is noisier.
            core_affinity::set_for_current(*first);
        }
    }

    /// Returns two CPUs with one last-level cache, with one socket, and with two sockets; all on different cores.
    pub(super) fn pairs(&self) -> [Pair; 3] {
        let find = |fits: &dyn Fn(&Spot, &Spot) -> bool| {
            let first = self.spots.first();
            let found = first.and_then(|first| self.spots.iter().find(|own| fits(first, own)));
            match (first, found) {
                (Some(first), Some(found)) => Pair::Of(first.cpu, found.cpu),
                _ => Pair::None,
            }
        };
        let home = |a: &Spot, b: &Spot| a.package == b.package;
        [
            find(&|a, b| home(a, b) && a.group == b.group && a.core != b.core),
            find(&|a, b| home(a, b) && a.group != b.group),
            find(&|a, b| !home(a, b)),
        ]
    }

    /// Returns two CPUs that are as near as possible: of one core, if there are such.
    pub(super) fn neighbours(&self) -> Option<[usize; 2]> {
        let first = self.spots.first()?;
        let shares = |own: &&Spot| own.package == first.package && own.core == first.core;
        let others = || self.spots.iter().skip(1);
        let other = others().find(shares).or_else(|| others().next())?;
        Some([first.cpu, other.cpu])
    }

    fn said(&self, key: &str) -> Option<&str> {
        let mut lines = self.info.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|own| own.0.trim() == key)
            .map(|own| own.1.trim())
    }

    /// Returns a title for the machine.
    pub(super) fn title(&self) -> String {
        let cpus = everybuddy_measure::size::cpus(self.ids.len() as u64);
        format!(
            "This host: {}, {cpus}",
            self.said("model name").unwrap_or("unknown processor")
        )
    }

    /// Returns `true` if the processor is known to be Intel's.
    pub(super) fn is_intel(&self) -> bool {
        self.said("vendor_id") == Some("GenuineIntel")
    }

    /// Describes what stands between this program and the processor.
    pub(super) fn guest(&self) -> &'static str {
        let flags = self.said("flags").unwrap_or_default();
        if flags.split(' ').any(|flag| flag == "hypervisor") {
            ", a virtual machine: what it says about cores and caches may be invented"
        } else {
            ""
        }
    }

    /// Returns the clock rate that the operating system says, in words.
    pub(super) fn said_mhz(&self) -> String {
        self.said("cpu MHz")
            .map_or_else(String::new, |mhz| format!("; /proc/cpuinfo says {mhz} MHz"))
    }

    /// Describes the pages of large buffers: misses of small ones in the translation caches count as loads.
    pub(super) fn pages(&self) -> &'static str {
        let path = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
        if line(path).is_some_and(|text| text.contains("[always]")) {
            "in huge pages"
        } else {
            "with misses of small pages in the TLB"
        }
    }

    /// Returns how much memory a buffer may take: a quarter of what is available.
    pub(super) fn spare_bytes(&self) -> usize {
        meminfo("MemAvailable:")
            .map_or(256 << 20, |kibibytes| (kibibytes << 10) / 4)
            .max(16 << 20)
    }

    /// Returns the memory of the host in MiB; where it cannot be read, 16 GiB.
    pub(super) fn installed(&self) -> u32 {
        let mebibytes = meminfo("MemTotal:").map_or(16 << 10, |kibibytes| kibibytes >> 10);
        u32::try_from(mebibytes).unwrap_or(u32::MAX).max(1)
    }
}

/// Returns a number of `/proc/meminfo` in KiB.
fn meminfo(key: &str) -> Option<usize> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let rest = info.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns a CPU's place; unknown parts are the same for all CPUs, except cores.
fn spot(root: &Path, cpu: usize) -> Spot {
    let folder = root.join(format!("cpu{cpu}"));
    let own = |name: &str| line(&folder.join("topology").join(name));
    let last = indexes(&folder).into_iter().max_by_key(|own| own.0);
    Spot {
        cpu,
        package: own("physical_package_id").unwrap_or_default(),
        group: last
            .and_then(|own| line(&own.2.join("shared_cpu_list")))
            .unwrap_or_default(),
        core: own("thread_siblings_list")
            .or_else(|| own("core_id"))
            .unwrap_or_else(|| cpu.to_string()),
    }
}

/// Returns the data caches of a CPU: level, kind, folder.
fn indexes(folder: &Path) -> Vec<(u64, String, std::path::PathBuf)> {
    let mut all = Vec::new();
    for index in 0..8 {
        let folder = folder.join(format!("cache/index{index}"));
        let level = line(&folder.join("level")).and_then(|text| text.parse().ok());
        let kind = line(&folder.join("type"));
        if let (Some(level), Some(kind)) = (level, kind)
            && kind != "Instruction"
        {
            all.push((level, kind, folder));
        }
    }
    all
}

/// Returns the caches of the first CPU.
fn caches(root: &Path) -> [Level; 3] {
    let all = indexes(&root.join("cpu0"));
    [(1, 32 << 10, 8), (2, 1 << 20, 8), (3, 32 << 20, 16)].map(|(level, usual, ways)| {
        let folder = all
            .iter()
            .find(|own| own.0 == level)
            .map(|own| own.2.clone());
        let said = |name: &str| folder.as_ref().and_then(|folder| line(&folder.join(name)));
        let place = format!("/sys/devices/system/cpu/cpu0/cache, level {level}");
        let found = said("size").and_then(|text| bytes(&text));
        let size = FoundNumber::of(found, &place, usual, "a usual size");
        // Sizes that the ways do not divide belong to slices, or are invented.
        let divides = |ways: &u64| (1..=64).contains(ways) && size.value.is_multiple_of(64 * ways);
        let found = said("ways_of_associativity").and_then(|text| text.parse().ok());
        let why = "a usual number";
        let mut own = FoundNumber::of(found.filter(divides), &place, ways, why);
        if !divides(&own.value) {
            own = FoundNumber::of(
                None,
                &place,
                1,
                "the size cannot be divided into sets of usual numbers",
            );
        }
        Level {
            bytes: size,
            ways: own,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere(cpus: usize) -> Topology {
        let ids = (0..cpus).map(|id| CoreId { id }).collect();
        Topology::of(Path::new("/no/such/folder"), ids, String::new())
    }

    #[test]
    fn what_is_hidden_is_assumed() {
        let own = nowhere(4);
        assert_eq!(
            [&own.sockets, &own.groups, &own.cores, &own.threads].map(|found| found.value),
            [1, 1, 4, 1]
        );
        let levels = own
            .caches
            .iter()
            .flat_map(|level| [&level.bytes, &level.ways]);
        for found in levels.chain([&own.sockets, &own.groups, &own.cores, &own.threads]) {
            assert!(found.source.starts_with("assumed:"), "{found:?}");
        }
        assert_eq!(own.pairs(), [Pair::Of(0, 1), Pair::None, Pair::None]);
        assert_eq!(own.neighbours(), Some([0, 1]));
        assert_eq!(own.title(), "This host: unknown processor, 4 CPUs");
        assert!(!own.is_intel() && own.said_mhz().is_empty() && own.guest().is_empty());
        let none = nowhere(0);
        assert_eq!((none.pairs(), none.neighbours()), ([Pair::None; 3], None));
        assert!(!none.pin(0));
    }

    #[test]
    fn the_files_of_linux_are_read() {
        let root = std::env::temp_dir().join(format!("everybuddy-topology-{}", std::process::id()));
        let put = |name: &str, text: &str| {
            let file = root.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        };
        // Two sockets of two caches of one core of two threads.
        for cpu in 0..8 {
            let core = cpu % 4;
            let put = |name: &str, text: &str| put(&format!("cpu{cpu}/{name}"), text);
            put("topology/physical_package_id", &(core / 2).to_string());
            put("topology/core_id", &core.to_string());
            put(
                "topology/thread_siblings_list",
                &format!("{core},{}", core + 4),
            );
            for (index, level, kind, size, ways) in [
                (0, "1", "Data", "48K", "12"),
                (1, "1", "Instruction", "32K", "8"),
                (2, "2", "Unified", "1024K", "16"),
                (3, "3", "Unified", "32M", "0"),
            ] {
                let put = |name: &str, text: &str| put(&format!("cache/index{index}/{name}"), text);
                put("level", level);
                put("type", kind);
                put("size", size);
                put("ways_of_associativity", ways);
                put("shared_cpu_list", &format!("{core},{}", core + 4));
            }
        }
        let ids = (0..8).map(|id| CoreId { id }).collect();
        let own = Topology::of(&root, ids, "vendor_id\t: GenuineIntel\n".to_string());
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            [&own.sockets, &own.groups, &own.cores, &own.threads].map(|found| found.value),
            [2, 2, 1, 2]
        );
        assert_eq!(own.caches[0].size(), 48 << 10);
        assert_eq!(own.caches[0].ways.value, 12);
        assert_eq!(own.caches[2].size(), 32 << 20);
        assert!(own.caches[2].ways.source.starts_with("assumed:"));
        assert_eq!(own.pairs(), [Pair::None, Pair::Of(0, 1), Pair::Of(0, 2)]);
        assert_eq!(own.neighbours(), Some([0, 4]));
        assert!(own.is_intel());
    }
}
