//! The measurement of this host.
//!
//! The model can be compared with the host only if it has the host's numbers. [`measure`] finds them: caches and
//! places of CPUs from the operating system, durations by pointer chasing and by lines that two CPUs exchange.
//!
//! | module | contents |
//! |---|---|
//! | `topology` | what the operating system says about CPUs and caches |
//! | `chase` | loads: a random cycle of pointers through a buffer |
//! | `exchange` | lines that two CPUs exchange; two CPUs that may share a core |
//! | [`locks`] | small programs of two CPUs with a lock, natively and simulated |
//! | `summary` | the medians and spreads of rounds |
//!
//! # Invariants
//! Whatever a container or a virtual machine hides is assumed, and its source says so. Nothing here panics because of
//! what the host is.

mod chase;
mod exchange;
pub mod locks;
mod summary;
mod topology;

use std::cell::Cell;
use std::thread;

use everybuddy_measure::bench::{self, BenchPlan, ContenderSpec};
use everybuddy_measure::replay::background_load::busy_cpus;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::memory::Memory;
use everybuddy_measure::replay::steady::Steady;
use everybuddy_measure::touched::Ablation;
use everybuddy_measure::{Error, choice};
use everybuddy_sim::{Cache, Hardware, Transfer, Waiters};
use everybuddy_workload::Part;

use crate::machines::machine::Machine;
use crate::machines::number::NUMBERS;
use crate::work::Work;
use summary::Rounds;
use topology::{Pair, Topology};

/// Loads that miss that allocators overlap; it is theirs and not the machine's (docs/simulator.md).
const CHAINS: u16 = 2;

/// Two CPUs share a core if each is slowed down to this share of its speed while the other runs.
const SHARES: f64 = 1.35;

/// Sources of the numbers, in the order in which they were found.
struct Notes(Vec<(&'static str, String)>);

/// What is known without a measurement, or assumed.
#[rustfmt::skip]
const UNMEASURED: [(&str, &str); 6] = [
    ("read_interval", "assumed: a quarter of llc.cycles; two CPUs cannot measure it"),
    ("installed", "MemTotal of /proc/meminfo; 16 GiB are assumed where it cannot be read"),
    ("chains", "assumed: 2; of 0 to 3, it is nearest to `bench --cold` on a Xeon (docs/simulator.md)"),
    ("store_buffer", "assumed: 64; it cannot be measured without knowing the processor"),
    ("fill_buffers", "assumed: 16, as Golden Cove has; it cannot be measured without knowing the processor"),
    ("adjacent_line", "assumed: from the vendor: Intel's cores fetch pairs of lines"),
];

impl Notes {
    fn add(&mut self, key: &'static str, text: impl Into<String>) {
        self.0.push((key, text.into()));
    }

    fn of(&self, key: &str) -> String {
        let whole = key.split_once('.').map_or(key, |own| own.0);
        let found = self.0.iter().find(|own| own.0 == key || own.0 == whole);
        found.map_or_else(String::new, |own| own.1.clone())
    }
}

/// The system whose hits say how long instructions take, and their workload: no comparison with the host has them.
const HITS: [&str; 2] = ["magazines", "hot:order0"];

/// Measures the nanoseconds of a pair of hits, an allocation and a free.
fn hits() -> Result<f64, Error> {
    let [system, workload] = HITS.map(str::to_string);
    let plan = BenchPlan {
        contenders: vec![ContenderSpec::System(choice::parse(&[system])?[0])],
        variants: choice::workloads(&[workload])?,
        threads: vec![1],
        memory: Memory::fresh(u64::from(BenchPlan::FRAMES)),
        rounds: BenchPlan::ROUNDS,
        seed: 1,
        shrink: 1,
        ablation: Ablation::default(),
        is_strict: true,
    };
    let timer = Timer::calibrated();
    let found = bench::measure(&plan, &timer, &mut Arena::default(), |_| ())?;
    let pair = found.cells[0][0].median(Part::Pair);
    pair.ok_or_else(|| Error::Failed("no pair of hits was measured".to_string()))
}

/// Measures this host. `progress` is told what is measured next. It takes about ten seconds.
///
/// # Errors
/// Returns an error if the host is too busy: if [other programs run](quiet), if too few rounds of a measurement are
/// undisturbed, or if the numbers contradict each other.
pub fn measure(progress: &mut (dyn FnMut(&str) + Send)) -> Result<Machine, Error> {
    quiet()?;
    alone(|| measure_here(progress))
}

/// Checks that this host is quiet, in half a second: otherwise only the measurement itself would show it.
///
/// # Errors
/// Returns an error if other programs keep more than half of a CPU busy.
pub fn quiet() -> Result<(), Error> {
    judged(busy_cpus().unwrap_or(0.0))
}

fn judged(busy: f64) -> Result<(), Error> {
    /// The busy CPUs that spoil a measurement.
    const MOST: f64 = 0.5;
    if busy <= MOST {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "this host is too busy to be measured: other programs keep {busy:.1} CPUs busy, and nothing was measured\n\
         help: end them, or measure at another time"
    )))
}

/// Calls a function in a thread that may bind itself to a CPU: the caller, and what it starts later, are not bound.
fn alone<T: Send>(call: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| scope.spawn(call).join()).unwrap_or_else(|_| {
        Err(Error::Failed(
            "a measurement of the host panicked".to_string(),
        ))
    })
}

fn measure_here(progress: &mut (dyn FnMut(&str) + Send)) -> Result<Machine, Error> {
    let topology = Topology::read();
    let unmeasured = UNMEASURED.map(|(key, text)| (key, text.to_string()));
    let mut notes = Notes(unmeasured.into());
    progress("clock rate");
    topology.pin_to_first();
    let clock = summary::clock();
    let mhz = clock.median.round().max(1.0) as u32;
    notes.add(
        "mhz",
        format!(
            "measured on this host: steps of 6 dependent instructions, {} MHz{}",
            clock.spread(0),
            topology.said_mhz()
        ),
    );
    let cycles = |rounds: &Rounds| (rounds.median * f64::from(mhz) / 1000.0).round() as u32;
    let (tried, dropped, missing) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let times = |what: &str, rounds: &Rounds| {
        tried.set(tried.get() + rounds.tried);
        dropped.set(dropped.get() + rounds.disturbed());
        missing.set(missing.get() + rounds.missing);
        format!(
            "measured on this host: {what}, {} ns at {mhz} MHz",
            rounds.spread(2)
        )
    };

    let [l1, l2, llc] = topology.caches.clone();
    for (key, found) in [("sockets", &topology.sockets), ("groups", &topology.groups)] {
        notes.add(key, found.source.clone());
    }
    notes.add("cores", topology.cores.source.clone());
    notes.add("threads", topology.threads.source.clone());

    progress("loads from caches and memory");
    let loads = chase::sweep(&[l1.size(), l2.size(), llc.size()], topology.spare_bytes());
    let mut caches = Vec::new();
    let keys = [
        ("l1.bytes", "l1.ways", "l1.cycles"),
        ("l2.bytes", "l2.ways", "l2.cycles"),
        ("llc.bytes", "llc.ways", "llc.cycles"),
    ];
    let mut inner = 0;
    for ((keys, found), load) in keys.iter().zip([&l1, &l2, &llc]).zip(&loads.caches) {
        notes.add(keys.0, found.bytes.source.clone());
        notes.add(keys.1, found.ways.source.clone());
        let what = format!("random loads within {}", summary::size(load.bytes));
        notes.add(keys.2, times(&what, &load.rounds));
        // A level is never faster than the one before it, whatever a busy host says.
        let own = cycles(&load.rounds).max(inner);
        inner = own;
        caches.push(Cache {
            bytes: found.bytes.value,
            ways: found.ways.value as u16,
            cycles: own,
        });
    }
    let what = format!(
        "random loads within {}, {}",
        summary::size(loads.memory.bytes),
        topology.pages()
    );
    notes.add("memory", times(&what, &loads.memory.rounds));
    let memory = cycles(&loads.memory.rounds).max(inner + 1);

    progress("atomic operations");
    let atomic = exchange::atomic();
    let locked = cycles(&atomic);
    notes.add(
        "locked",
        times("swap on a line in the first cache", &atomic),
    );
    let pause = exchange::pause();
    let back_off = 64 * cycles(&pause).max(1);
    let what = "64 pauses at most between two polls, as the locks of this program wait; a pause";
    notes.add("waiters", times(what, &pause));

    progress("instructions");
    let past = chase::window(loads.memory.bytes);
    let window = past.median.round().max(1.0) as u32;
    notes.add(
        "window",
        format!(
            "measured on this host: instructions next to loads from {}, {}",
            summary::size(loads.memory.bytes),
            past.spread(0)
        ),
    );
    let (pair, instructions) = (hits()?, Work::hits(HITS[0]));
    let work = (pair * f64::from(mhz) / instructions).round().max(1.0) as u32;
    let [system, workload] = HITS;
    notes.add(
        "work",
        format!(
            "measured on this host: a pair of hits of `{system}` under `{workload}`, {instructions} counted \
             instructions, {pair:.2} ns at {mhz} MHz"
        ),
    );

    let mut transfers = Vec::new();
    for (key, pair) in ["near", "socket", "far"].iter().zip(topology.pairs()) {
        transfers.push(match pair {
            Pair::None => None,
            Pair::Of(first, second) => {
                progress(&format!("lines between CPUs {first} and {second} ({key})"));
                exchange::between(&topology, first, second, &loads, &atomic)
            }
        });
    }
    let transfers = fill(&transfers, &mut notes, &cycles, &times, memory);

    let nearest = transfers[0].clean.min(transfers[0].modified);
    let most = nearest.max(caches[1].cycles + 1);
    limit(&mut caches[2], most, &mut notes);

    progress("CPUs that run together");
    let together = exchange::together(&topology);
    let shares = together.as_ref().map(|rounds| rounds.median);
    let work_shared = match shares {
        Some(slower) if topology.threads.value > 1 || slower > SHARES => {
            let own =
                format!("work, and how much slower two CPUs of a core are together: {slower:.2}");
            notes.add("work_shared", format!("measured on this host: {own}"));
            (f64::from(work) * slower.max(1.0)).round() as u32
        }
        _ => {
            notes.add(
                "work_shared",
                "unused: one thread per core is known; as work",
            );
            work
        }
    };

    let disturbed = format!("{} of {} rounds were disturbed", dropped.get(), tried.get());
    if missing.get() > 0 {
        return Err(Error::Failed(format!(
            "this host is too busy to be measured: {disturbed}, in which a thread lost its CPU, or next to which a \
             fixed loop took more than {} % longer than it can\nhelp: end other programs, or measure at another time",
            Steady::PERCENT
        )));
    }
    let hardware = Hardware {
        sockets: topology.sockets.value as u16,
        groups: topology.groups.value as u16,
        cores: topology.cores.value as u16,
        threads: topology.threads.value as u16,
        l1: caches[0],
        l2: Some(caches[1]),
        llc: caches[2],
        near: transfers[0],
        socket: transfers[1],
        far: transfers[2],
        memory,
        read_interval: caches[2].cycles / 4,
        locked,
        window,
        chains: CHAINS,
        store_buffer: 64,
        fill_buffers: 16,
        waiters: Waiters::BackOff(back_off),
        work,
        work_shared,
        adjacent_line: topology.is_intel(),
        mhz,
        installed: topology.installed(),
    };
    hardware.check().map_err(|error| {
        Error::usage(format!(
            "this host could not be measured: {error}\nhelp: try again when the host is less busy"
        ))
    })?;
    Ok(Machine {
        name: "host".to_string(),
        title: topology.title(),
        text: format!(
            "{} {disturbed} and repeated.",
            verdict(&topology, shares, &loads)
        ),
        hardware,
        sources: NUMBERS.iter().map(|number| notes.of(number.key)).collect(),
    })
}

/// Measures how many nanoseconds a load takes from a line that another core wrote last, the nearest one if there are
/// several. Returns `None` with a single core, or if threads cannot stay on CPUs. It takes a few milliseconds.
pub fn transfer() -> Option<f64> {
    // In a thread of its own, since the caller's should not stay on a CPU.
    let measured = std::thread::spawn(|| exchange::modified(&Topology::read()));
    measured.join().ok().flatten().map(|rounds| rounds.median)
}

/// Limits the duration of a hit in the last cache to that of a transfer, which passes this cache. Loads take longer if
/// other guests of the same processor use the cache.
fn limit(cache: &mut Cache, most: u32, notes: &mut Notes) {
    if cache.cycles <= most {
        return;
    }
    let instead = format!(
        "assumed: as the fastest transfer between cores, since loads took {} cycles: the cache is smaller or \
         busier than this host says ({})",
        cache.cycles,
        notes.of("llc.cycles")
    );
    notes.0.retain(|own| own.0 != "llc.cycles");
    notes.add("llc.cycles", instead);
    cache.cycles = most;
}

/// Completes the transfers: distances that the host does not have, or that could not be measured, are as the next
/// shorter one.
fn fill(
    measured: &[Option<exchange::Exchange>],
    notes: &mut Notes,
    cycles: &dyn Fn(&Rounds) -> u32,
    times: &dyn Fn(&str, &Rounds) -> String,
    memory: u32,
) -> [Transfer; 3] {
    #[rustfmt::skip]
    const KEYS: [[&str; 4]; 3] = [
        ["near", "near.clean", "near.modified", "near.upgrade"],
        ["socket", "socket.clean", "socket.modified", "socket.upgrade"],
        ["far", "far.clean", "far.modified", "far.upgrade"],
    ];
    let known = measured.iter().flatten().next();
    let transfer = |own: &exchange::Exchange| Transfer {
        clean: cycles(&own.clean).max(1),
        modified: cycles(&own.modified).max(1),
        upgrade: cycles(&own.upgrade).max(1),
    };
    let mut last = known.map_or(
        Transfer {
            clean: memory,
            modified: memory,
            upgrade: memory,
        },
        transfer,
    );
    let mut all = [last; 3];
    for ((keys, own), slot) in KEYS.iter().zip(measured).zip(&mut all) {
        match own {
            Some(own) => {
                last = transfer(own);
                let clean = own.describe("loads", "has read");
                notes.add(keys[1], times(&clean, &own.clean));
                let modified = own.describe("loads", "has written");
                notes.add(keys[2], times(&modified, &own.modified));
                let upgrade = own.describe("swaps", "has too, minus one on own lines");
                notes.add(keys[3], times(&upgrade, &own.upgrade));
            }
            None => {
                let why = match known {
                    Some(_) => "unused: no CPUs of this host are known to be so far apart",
                    None => "assumed: as memory; fewer than two CPUs could be used",
                };
                notes.add(keys[0], why);
            }
        }
        *slot = last;
    }
    all
}

/// Describes the host in the words of the file.
fn verdict(topology: &Topology, shares: Option<f64>, loads: &chase::Loads) -> String {
    let mut text = format!("Measured on this host{}. ", topology.guest());
    text += &match shares {
        None => "It has a single CPU. ".to_string(),
        Some(slower) => {
            let verdict = match (slower > SHARES, topology.threads.value > 1) {
                (true, true) => "they share a core, as the operating system says",
                (true, false) => {
                    "they seem to share a core, or its time, although the operating system names two"
                }
                (false, true) => "they do not slow each other down, although they share a core",
                (false, false) => "they have a core each",
            };
            format!(
                "Two CPUs that compute together take {slower:.2} times as long as one alone: {verdict}. "
            )
        }
    };
    let steps: Vec<String> = loads
        .steps
        .iter()
        .map(|step| format!("{} {:.1}", summary::size(step.bytes), step.rounds.median))
        .collect();
    text + &format!("Loads by size of the buffer, in ns: {}.", steps.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_last_cache_is_not_slower_than_a_transfer() {
        let unmeasured = UNMEASURED.map(|(key, text)| (key, text.to_string()));
        let mut notes = Notes(unmeasured.into());
        notes.add("llc.cycles", "measured");
        let mut own = Cache {
            bytes: 1 << 20,
            ways: 16,
            cycles: 500,
        };
        limit(&mut own, 600, &mut notes);
        assert_eq!(own.cycles, 500);
        assert_eq!(notes.of("llc.cycles").as_str(), "measured");
        limit(&mut own, 70, &mut notes);
        let source = notes.of("llc.cycles");
        assert!(own.cycles == 70, "{source}");
        assert!(source.starts_with("assumed:"), "{source}");
        assert!(source.contains("500 cycles") && source.contains("(measured)"));
    }

    #[test]
    fn distances_that_are_not_there_are_as_others() {
        let unmeasured = UNMEASURED.map(|(key, text)| (key, text.to_string()));
        let mut notes = Notes(unmeasured.into());
        let none = fill(
            &[None, None, None],
            &mut notes,
            &|_| 0,
            &|_, _| String::new(),
            300,
        );
        assert_eq!(none[2].modified, 300);
        assert!(notes.of("far.clean").starts_with("assumed: as memory"));
        let unmeasured = UNMEASURED.map(|(key, text)| (key, text.to_string()));
        let mut notes = Notes(unmeasured.into());
        let own = exchange::Exchange::example();
        let cycles = |rounds: &Rounds| rounds.median as u32;
        let one = fill(
            &[None, Some(own), None],
            &mut notes,
            &cycles,
            &|_, _| "m".into(),
            300,
        );
        assert_eq!(one, [one[1]; 3]);
        assert!(notes.of("near.clean").starts_with("unused:"));
        assert_eq!(notes.of("socket.clean"), "m");
    }
}
