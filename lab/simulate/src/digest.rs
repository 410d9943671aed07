//! Digests of behaviour: whether a result is of the program of today.
//!
//! A row names the commit that made it, but most commits change no number. A digest is of what a program does, not
//! of its text: a name that changes leaves it. That of a system is of the accesses of a short run on two CPUs, of the
//! frames that it gets there, and of the system's counts in `work.tsv`. A machine's is of the cycles of small programs.
//!
//! `results/digests.tsv` has those of today, for the systems and machines of committed rows. `xtask` compares both.
//!
//! # Not noticed
//! What the run does not reach: lists that follow another size of memory, more than two CPUs, a load's own requests.
//! Instructions of the loops that measure natively.
//!
//! # Invariants
//! Digests are the same on every host, and from one run to the next.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

use everybuddy::platform::AtomicWord;
use everybuddy::{
    Block, Class, CpuToken, FrameAllocator, Hint, Index, Memory, Order, Platform, Release, Request,
    Setup, SystemSpec, metadata_layout,
};
use everybuddy_sim::{
    Caches, CostModel, Flat, Hardware, Instructions, Machine, Region, Sim, SimAtomicU32, SimCpu,
    build_any,
};

use crate::machines::by_name_or_path;
use crate::work;

/// What stands for something that has no digest: another program's allocator, or a machine of a file.
pub const NONE: &str = "-";

/// The frames of the memory of a system's run: 64 MiB.
const FRAMES: u64 = 1 << 14;

/// FNV-1a over numbers.
#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    const NEW: Sum = Sum(0xCBF2_9CE4_8422_2325);

    fn add(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn text(self) -> String {
        format!("{:08x}", (self.0 >> 32) ^ (self.0 & 0xFFFF_FFFF))
    }
}

/// Returns the digest of the systems that a row's name contains, or [`NONE`]. A name can have words besides, or two
/// systems. Runs each of them: some milliseconds.
pub fn of_system(name: &str) -> String {
    let specs = name.split_whitespace().filter_map(|word| word.parse().ok());
    let digests: Vec<String> = specs.map(|spec| of_spec(&spec)).collect();
    if digests.is_empty() {
        return NONE.to_owned();
    }
    digests.join("+")
}

fn of_spec(spec: &SystemSpec) -> String {
    let mut sum = Sum::NEW;
    sum.add(run(spec).unwrap_or_default());
    for byte in work::lines(spec).flat_map(str::bytes) {
        sum.add(byte.into());
    }
    for mean in work::means(spec) {
        sum.add(mean as u64);
    }
    sum.text()
}

/// Returns the digest of the machine of this name, or [`NONE`]. `flat` is that of equal accesses.
pub fn of_machine(name: &str) -> String {
    if name == "flat" {
        let mut sum = Sum::NEW;
        programs(4, Flat::default, &mut sum);
        return sum.text();
    }
    match by_name_or_path(name) {
        Ok(machine) => of_hardware(machine.hardware),
        Err(_) => NONE.to_owned(),
    }
}

fn of_hardware(hardware: Hardware) -> String {
    let mut sum = Sum::NEW;
    let cpus = hardware.cpus();
    let caches = [Some(hardware.l1), hardware.l2, Some(hardware.llc)];
    let caches = caches.map(|cache| cache.map_or(0, |cache| cache.bytes));
    // What small programs do not reach.
    let numbers = [hardware.mhz, hardware.installed, cpus].map(u64::from);
    for number in numbers.into_iter().chain(caches) {
        sum.add(number);
    }
    for is_spread in [false, true] {
        let new = || Caches::new(hardware).spread(is_spread);
        programs(cpus.min(32) as u16, new, &mut sum);
    }
    sum.text()
}

/// Runs a system, and returns a digest of all accesses and of the frames that it allocates; `None` if it cannot be
/// built in this memory, or if the run does not end.
fn run(spec: &SystemSpec) -> Option<u64> {
    let range = [everybuddy::FrameRange::new(everybuddy::Pfn(0), FRAMES)];
    let setup = Setup::new(&range, 2);
    let layout = metadata_layout::<Sim>(spec, &setup).ok()?;
    let mut memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
    let region = Region::of(&memory);
    let system = build_any(spec, &setup, Memory::new(&mut memory)).ok()?;
    let (sum, given) = (
        RefCell::new(Sum::NEW),
        RefCell::new([Vec::new(), Vec::new()]),
    );
    let report = Machine::new(2).run(region, |cpu: &mut SimCpu| {
        calls(system, cpu, &sum, &given);
    });
    let mut sum = sum.into_inner();
    sum.add(report.ok()?.hash);
    Some(sum.0)
}

/// Fills and empties lists with blocks of each path, half of which the other CPU frees. Then it makes requests and
/// frees in random order, allocates a run of frames that is freed in parts, and all of memory, serves, and drains.
fn calls(
    system: &dyn FrameAllocator<Sim>,
    cpu: &mut SimCpu,
    sum: &RefCell<Sum>,
    given: &RefCell<[Vec<Index>; 2]>,
) {
    let own = cpu.id().index();
    let allocate = |cpu: &mut SimCpu, request| {
        let start = system.allocate(cpu, request).ok();
        sum.borrow_mut()
            .add(start.map_or(u64::MAX, |start| start.0.into()));
        start
    };
    let free = |cpu: &mut SimCpu, block| {
        let is_freed = system.free(cpu, Release::block(block)).is_ok();
        sum.borrow_mut().add(is_freed.into());
    };
    for (order, count) in [(0, 900), (1, 40), (3, 60), (9, 4)] {
        let order = Order::new(order).expect("a small order");
        for _ in 0..2 {
            let mut blocks: Vec<Index> = (0..count)
                .filter_map(|_| allocate(cpu, Request::order(order)))
                .collect();
            let others = blocks.split_off(blocks.len() / 2);
            given.borrow_mut()[own] = others;
            cpu.barrier();
            let others = std::mem::take(&mut given.borrow_mut()[1 - own]);
            for start in blocks.into_iter().chain(others.into_iter().rev()) {
                free(cpu, Block::new(start, order));
            }
            cpu.barrier();
        }
    }
    // Requests and frees in random order, a few more requests. Those of forty steps are for a region.
    let (mut random, mut blocks) = (own as u32, Vec::new());
    for at in 0..3000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let of = |shift: u32| (random >> shift) as usize;
        let order = Order::new([0, 0, 0, 0, 0, 1, 2, 5][of(8) % 8]).expect("a small order");
        if of(28) < 9 || blocks.is_empty() {
            let (task, region, left) = (own as u32, at / 40, 40 - at % 40);
            let request = Request::order(order).with_hint(Hint { task, region, left });
            let start = allocate(cpu, request.with_class(Class::ALL[of(20) % 3]));
            blocks.extend(start.map(|start| Block::new(start, order)));
        } else {
            let block = blocks.swap_remove(of(12) % blocks.len());
            free(cpu, block);
        }
    }
    blocks.into_iter().for_each(|block| free(cpu, block));
    if let Some(start) = allocate(cpu, Request::frames(260)) {
        for (start, frames) in [(start, 100), (Index(start.0 + 100), 160)] {
            let is_freed = system.free(cpu, Release::frames(start, frames)).is_ok();
            sum.borrow_mut().add(is_freed.into());
        }
    }
    if own == 1 {
        system.park(cpu);
    }
    cpu.barrier();
    if own == 0 {
        let mut all = Vec::new();
        for order in [Order::TEN, Order::ZERO] {
            while let Some(start) = allocate(cpu, Request::order(order)) {
                all.push(Block::new(start, order));
            }
        }
        all.into_iter().for_each(|block| free(cpu, block));
        for service in 0..system.services().len() {
            system.serve(cpu, service, 1 << 12);
        }
        let is_drained = system.quiesce(cpu).is_ok();
        sum.borrow_mut().add(is_drained.into());
    }
}

/// A word with a cache line of its own.
#[repr(align(64))]
struct Word(SimAtomicU32);

/// Runs small programs that reach each number of a machine, and adds the cycles of all CPUs: lines that are alone, of a
/// neighbour and of all CPUs, a lock that is waited for, and more lines than a cache has room for.
fn programs<C: CostModel>(cpus: u16, new: impl Fn() -> C, sum: &mut Sum) {
    const OWN: usize = 64;
    /// Twice the lines of a first cache of 32 KiB, and those of all CPUs.
    const LINES: usize = 1024 + 32 * OWN;
    let words: Vec<Word> = (0..LINES).map(|_| Word(SimAtomicU32::new(0))).collect();
    let program = |cpu: &mut SimCpu| {
        let me = usize::from(cpu.id().0);
        let of = |cpu: usize| &words[1024 + cpu * OWN..][..OWN];
        for round in 0..3 {
            cpu.path(Instructions::each(2000 + 3000 * round));
            for word in of(me) {
                word.0.store(word.0.load(Relaxed) + 1, Relaxed);
            }
            cpu.barrier();
            // The lines of the next CPU, of a CPU far away, and of all.
            for other in [me + 1, me + usize::from(cpus) / 2] {
                for word in &of(other % usize::from(cpus))[..16] {
                    word.0.load(Relaxed);
                }
            }
            cpu.barrier();
            for word in &of((me + 1) % usize::from(cpus))[16..24] {
                word.0.store(1, Relaxed);
                word.0.fetch_add(1, Relaxed);
            }
            cpu.work(500);
            while words[0].0.swap(1, Relaxed) == 1 {
                <Sim as Platform>::wait(&words[0].0, 1, 0);
            }
            words[1].0.fetch_add(1, Relaxed);
            cpu.work(50);
            words[0].0.store(0, Relaxed);
            <Sim as Platform>::wake(&words[0].0);
            cpu.barrier();
        }
        if me == 0 {
            for word in words[..1024].iter().chain(&words[..1024]) {
                word.0.load(Relaxed);
            }
            // More stores at a time than a core gets lines, since a program has replaced what caches had.
            cpu.foreign(1 << 24, u64::MAX);
            for word in &words[..48] {
                word.0.store(2, Relaxed);
            }
            words[0].0.fetch_add(1, Relaxed);
        }
    };
    let report = Machine::new(cpus)
        .cost(new())
        .run(Region::around(&words[..]), program);
    for cpu in report.expect("programs without a deadlock end").cpus {
        sum.add(cpu.cycles);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines;
    use everybuddy::systems::ROWS;
    use everybuddy_sim::Transfer;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write;
    use std::path::Path;
    use std::{env, fs};

    /// `WRITE=1` writes the column of this profile: that with assertions, or that without, as in a release.
    #[test]
    fn digests_of_today_are_in_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/digests.tsv");
        let written = fs::read_to_string(&path).unwrap();
        let lines = written.lines().map(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            (words[0], words[1..].to_vec())
        });
        let rows = ROWS.iter().map(|row| (row.name, Vec::new()));
        let mut table: BTreeMap<&str, Vec<&str>> = rows.collect();
        table.extend(lines);
        let own = usize::from(!cfg!(debug_assertions));
        let (mut text, mut changed) = (String::new(), Vec::new());
        for (name, mut digests) in table {
            digests.resize(2, NONE);
            let today = name
                .strip_prefix("sim:")
                .map_or_else(|| of_system(name), of_machine);
            if digests[own] != today {
                changed.push(name);
            }
            digests[own] = &today;
            writeln!(text, "{name}\t{}", digests.join("\t")).unwrap();
        }
        if env::var_os("WRITE").is_some() {
            fs::write(&path, &text).unwrap();
            return;
        }
        assert!(
            changed.is_empty(),
            "results of these are of an older program now: {changed:#?}\n\
             cargo run -p xtask -- docs all"
        );
    }

    #[test]
    fn every_run_ends_and_systems_differ() {
        let mut found = BTreeSet::new();
        for row in ROWS {
            let spec = row.name.parse().unwrap();
            found.insert(run(&spec).unwrap_or_else(|| panic!("{}", row.name)));
        }
        assert_eq!(found.len(), ROWS.len());
        assert_eq!(of_system("bs rounded"), of_system("bs"));
        assert_ne!(of_system("lbs-31+batch=7"), of_system("lbs-31"));
        assert_eq!(of_system("offset-allocator"), NONE);
        assert_eq!(of_machine("no such machine"), NONE);
    }

    #[test]
    fn each_number_of_a_machine_that_is_not_unused_changes_its_cycles() {
        let own = machines::by_name_or_path("epyc-7763").unwrap().hardware;
        let mut changed: Vec<Hardware> = vec![own; 11];
        changed[0].work += 1;
        changed[1].memory += 1;
        changed[2].locked += 1;
        changed[3].read_interval += 1;
        changed[4].window /= 2;
        changed[5].store_buffer /= 2;
        changed[6].l1.bytes /= 2;
        changed[9].chains += 1;
        changed[10].fill_buffers /= 2;
        let more = |own: Transfer| Transfer {
            modified: own.modified + 1,
            ..own
        };
        (changed[7].near, changed[8].far) = (more(own.near), more(own.far));
        for (at, hardware) in changed.into_iter().enumerate() {
            assert_ne!(of_hardware(hardware), of_hardware(own), "change {at}");
        }
        assert_eq!(of_hardware(own), of_machine("epyc-7763"));
    }
}
