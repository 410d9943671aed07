//! A machine in numbers: which CPUs share which cache, and what an access costs.
//!
//! [`Caches`](crate::Caches) reads nothing else. A machine file is these numbers with their sources.
//!
//! # Invariants
//! [`Hardware::check`] accepts what the model can run: at least one CPU and at most [`Hardware::MOST_CPUS`], caches of
//! whole sets, and levels that grow with the distance.

use core::fmt;

use everybuddy::LINE;

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The capacity, in bytes.
    pub bytes: u64,
    /// The number of lines in a set. The line that was used least recently is replaced.
    pub ways: u16,
    /// The duration of a load that hits here, in cycles. A hit of the first cache costs it only where a core
    /// [waits](Hardware::window) for each load.
    pub cycles: u32,
}

impl Cache {
    /// Returns the number of sets. O(1).
    pub const fn sets(&self) -> u64 {
        self.bytes / (LINE as u64 * self.ways as u64)
    }
}

/// What it costs to get a line from another core, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// A line that the other core has not modified.
    pub clean: u32,
    /// A line that the other core has modified.
    pub modified: u32,
    /// A store to a line that this core has and shares: the other copies are invalidated.
    pub upgrade: u32,
}

/// What waiting for a word costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiters {
    /// A CPU that waits reads the word over and over. It sees a store as soon as it has the line again, and it fetches
    /// the line again after every store to it.
    Spin,
    /// A CPU that waits polls the word after a pause, then after two, and so on up to 64, which take this many cycles.
    /// It fetches the line again when it polls, if a store has taken it away.
    BackOff(u32),
}

/// A machine.
///
/// Sockets have groups, groups have cores, and cores have threads; each thread is a CPU. The cores of a group share a
/// last-level cache. CPUs are numbered by thread, then by socket, group and core: the first half of a machine with two
/// threads per core has the first threads of all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The number of sockets.
    pub sockets: u16,
    /// The number of last-level caches of a socket.
    pub groups: u16,
    /// The number of cores that share a last-level cache.
    pub cores: u16,
    /// The number of hardware threads of a core.
    pub threads: u16,
    /// The cache of a core that answers first.
    pub l1: Cache,
    /// The second cache of a core, if there is one. It holds whatever the first one holds.
    pub l2: Option<Cache>,
    /// The last-level cache of a group.
    pub llc: Cache,
    /// Transfers between cores of a group.
    pub near: Transfer,
    /// Transfers between groups of a socket.
    pub socket: Transfer,
    /// Transfers between sockets.
    pub far: Transfer,
    /// A line that no cache has, from the memory of the same socket on average, in cycles.
    pub memory: u32,
    /// The time from the start of a read of a line that several caches share to that of the next read of it, in cycles.
    pub read_interval: u32,
    /// What an atomic read-modify-write of a line in the first cache costs beyond its instruction, in cycles.
    pub locked: u32,
    /// The number of instructions that a core executes past a load that misses; 0 means that it waits for each load.
    pub window: u32,
    /// The number of loads that miss that a core overlaps: where the next one goes is mostly in one of those before it.
    /// 0 means that all loads are independent.
    pub chains: u16,
    /// The number of stores that a core can have under way; 0 means that it waits for each.
    pub store_buffer: u16,
    /// The most lines that a core fetches at a time; 0 means any number.
    pub fill_buffers: u16,
    /// What waiting costs.
    pub waiters: Waiters,
    /// The duration of a thousand instructions that touch no shared memory, in cycles.
    pub work: u32,
    /// The same while the other thread of the core runs too.
    pub work_shared: u32,
    /// Whether a miss also fetches the other line of an aligned pair.
    pub adjacent_line: bool,
    /// The clock rate, in MHz: cycles become times with it.
    pub mhz: u32,
    /// The memory of the machine, in MiB. The model of caches does not use it; the lengths of Linux's lists follow it.
    pub installed: u32,
}

/// Where a CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its core, counted over the whole machine.
    pub core: u16,
    /// The core's last-level cache, counted over the whole machine.
    pub group: u16,
    /// The core's socket.
    pub socket: u16,
}

/// What is wrong with a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardwareError(String);

impl fmt::Display for HardwareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for HardwareError {}

impl Hardware {
    /// The largest number of CPUs.
    pub const MOST_CPUS: u32 = 1024;
    /// The most cycles of a transfer, a load or a thousand instructions, and instructions of a window.
    const MOST_CYCLES: u32 = 1_000_000;
    /// The highest clock rate.
    const MOST_MHZ: u32 = 100_000;

    /// Returns the cycles of a hit of the first cache, beyond its instruction. O(1).
    pub(crate) const fn hit(&self) -> u64 {
        if self.window > 0 {
            return 0;
        }
        self.l1.cycles as u64
    }

    /// Returns the number of CPUs. O(1).
    pub fn cpus(&self) -> u32 {
        self.all_cores() * u32::from(self.threads)
    }

    /// Returns the number of cores of the machine. O(1).
    pub fn all_cores(&self) -> u32 {
        self.all_groups() * u32::from(self.cores)
    }

    /// Returns the number of last-level caches of the machine. O(1).
    pub fn all_groups(&self) -> u32 {
        u32::from(self.sockets) * u32::from(self.groups)
    }

    /// Returns where a CPU is. Numbers beyond the machine begin again at the first CPU. O(1).
    pub fn place(&self, cpu: u16) -> Place {
        let core = (u32::from(cpu) % self.all_cores()) as u16;
        let group = core / self.cores;
        Place {
            core,
            group,
            socket: group / self.groups,
        }
    }

    /// Returns where a CPU is if consecutive CPUs are of different sockets, in turn. O(1).
    pub fn spread_place(&self, cpu: u16) -> Place {
        let index = u32::from(cpu) % self.all_cores();
        let sockets = u32::from(self.sockets);
        let first = index % sockets * (self.all_cores() / sockets);
        self.place((first + index / sockets) as u16)
    }

    /// Checks that the model can run it.
    ///
    /// # Errors
    /// A sentence that names the first number that is wrong, and what it must be.
    pub fn check(&self) -> Result<(), HardwareError> {
        let wrong = |text: String| Err(HardwareError(text));
        let counts = [
            ("sockets", self.sockets),
            ("groups", self.groups),
            ("cores", self.cores),
            ("threads", self.threads),
        ];
        for (name, count) in counts {
            if count == 0 {
                return wrong(format!("`{name}` must be at least 1"));
            }
        }
        let cpus: u64 = counts.iter().map(|(_, count)| u64::from(*count)).product();
        if cpus > u64::from(Self::MOST_CPUS) {
            return wrong(format!(
                "`sockets` x `groups` x `cores` x `threads` is {} x {} x {} x {}, {cpus} CPUs; at most {} are \
                 simulated",
                self.sockets,
                self.groups,
                self.cores,
                self.threads,
                Self::MOST_CPUS
            ));
        }
        if self.threads > 2 {
            return wrong("`threads` must be 1 or 2".to_string());
        }
        let near = [self.near, self.socket, self.far];
        let transfers = near
            .iter()
            .flat_map(|to| [to.clean, to.modified, to.upgrade]);
        let pause = match self.waiters {
            Waiters::Spin => 1,
            Waiters::BackOff(cycles) => cycles,
        };
        if self.waiters == Waiters::BackOff(0) {
            return wrong("`waiters` must back off for at least 1 cycle".to_string());
        }
        let own = [
            self.memory,
            self.read_interval,
            self.locked,
            self.window,
            self.work,
            self.work_shared,
            pause,
        ];
        if let Some(most) = transfers
            .chain(own)
            .max()
            .filter(|most| *most > Self::MOST_CYCLES)
        {
            return wrong(format!(
                "{most} cycles are too many: at most {} are simulated",
                Self::MOST_CYCLES
            ));
        }
        if self.installed == 0 {
            return wrong("`installed` must be at least 1".to_string());
        }
        if self.mhz > Self::MOST_MHZ {
            return wrong(format!("`mhz` must be at most {}", Self::MOST_MHZ));
        }
        let mut inner = 0;
        let caches = [
            ("l1", Some(self.l1)),
            ("l2", self.l2),
            ("llc", Some(self.llc)),
        ];
        for (name, cache) in caches {
            let Some(cache) = cache else { continue };
            if cache.ways == 0 || cache.ways > 64 {
                return wrong(format!("`{name}.ways` must be from 1 to 64"));
            }
            let set = LINE as u64 * u64::from(cache.ways);
            if cache.bytes == 0 || !cache.bytes.is_multiple_of(set) {
                return wrong(format!(
                    "`{name}.bytes` must be a multiple of {set}: lines of {LINE} bytes in sets of {}",
                    cache.ways
                ));
            }
            if cache.bytes > 1 << 32 {
                return wrong(format!("`{name}.bytes` must be at most 4 GiB"));
            }
            if cache.cycles < inner {
                return wrong(format!(
                    "`{name}.cycles` must be at least {inner}, as the cache before it"
                ));
            }
            inner = cache.cycles;
        }
        if self.memory <= inner {
            return wrong(format!(
                "`memory` must be more than {inner} cycles, as the last-level cache"
            ));
        }
        if self.work == 0 || self.work_shared < self.work {
            return wrong(
                "`work` must be at least 1, and `work_shared` at least `work`".to_string(),
            );
        }
        if self.mhz == 0 {
            return wrong("`mhz` must be at least 1".to_string());
        }
        Ok(())
    }
}
