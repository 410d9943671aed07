//! Every system on three CPUs, under random schedules.
//!
//! Loom's programs are tiny. Here each CPU performs about forty operations of all kinds, and every result is checked
//! against the ledger. At the end all lists are drained, and memory is consistent and coalesced.
//!
//! # Not modelled
//! Weak memory; bulk and nested requests; adding and removing memory.

use everybuddy::Index;
use everybuddy::systems::ROWS;
use everybuddy_model::strong::{Picking, sample, switch_at_cells};
use everybuddy_model::{Machine, Shuttle, Worker, bound};
use shuttle::rand::{Rng, thread_rng};

const FRAMES: u64 = 20;
const CPUS: u16 = 3;
const OPERATIONS: usize = 40;

/// Pseudo-random numbers; one draw per CPU from shuttle's generator keeps schedules short.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The program of one CPU.
fn work(w: &mut Worker<'_, Shuttle>) {
    let mut dice = Dice(thread_rng().r#gen::<u64>() | 1);
    let mut blocks = Vec::new();
    let mut runs: Vec<(Index, u32)> = Vec::new();
    for _ in 0..OPERATIONS {
        match dice.below(20) {
            0..=6 => blocks.extend(w.try_allocate(0)),
            7 => blocks.extend(w.try_allocate(1 + dice.below(3) as u8)),
            8 => {
                let frames = 1 + dice.below(7) as u32;
                runs.extend(w.try_allocate_frames(frames).map(|start| (start, frames)));
            }
            9..=14 if !blocks.is_empty() => {
                let block = blocks.swap_remove(dice.below(blocks.len() as u64) as usize);
                w.free(block);
            }
            15..=16 if !runs.is_empty() => {
                let (start, frames) = runs.swap_remove(dice.below(runs.len() as u64) as usize);
                // All of it, or the first part now and the rest later.
                let part = 1 + dice.below(u64::from(frames)) as u32;
                w.free_frames(start, part);
                if part < frames {
                    runs.push((Index(start.0 + part), frames - part));
                }
            }
            17 => w.park(),
            18 => w.drain(),
            19 if dice.below(3) == 0 => w.quiesce(),
            19 => w.work_for(dice.below(3) as u32),
            _ => {}
        }
    }
    blocks.into_iter().for_each(|block| w.free(block));
    runs.into_iter()
        .for_each(|(start, frames)| w.free_frames(start, frames));
    w.park();
}

/// Runs a quarter of the schedules in the gate.
fn survives(spec: String, picking: Picking, schedules: usize, switches: bool) {
    let schedules = bound(&[schedules / 4, schedules]);
    let start = std::time::Instant::now();
    let name = spec.clone();
    sample(&name, picking, 0x5eed, schedules, move || {
        switch_at_cells(switches);
        Machine::<Shuttle>::build(&spec, FRAMES, CPUS, |machine| {
            let searches = spec.starts_with("llfree");
            let work = |w: &mut Worker<'_, Shuttle>| {
                if searches {
                    w.allow_busy_blocks();
                }
                work(w);
            };
            machine.at_once(&[&work, &work, &work]);
            machine.settle();
        });
    });
    eprintln!(
        "{name}: {schedules} schedules, {picking:?}, in {:.1?}",
        start.elapsed()
    );
}

/// All rows; those with lists also with locks, and with lists so small that they refill and drain.
fn specs() -> Vec<String> {
    let mut specs = Vec::new();
    for row in ROWS {
        specs.push(row.name.to_owned());
        if row.takes("percpu") {
            specs.push(format!("{}+percpu=locked", row.name));
        }
        if row.takes("batch") {
            // Magazines have sizes and no high mark.
            let high = if row.takes("high") { "+high=3" } else { "" };
            specs.push(format!("{}+batch=2{high}+order=3", row.name));
        } else if row.takes("high") {
            specs.push(format!("{}+high=4+order=3", row.name));
        }
    }
    specs
}

/// Variants of all rows: other zone layers, spaces so small that they change hands all the time, other locks and
/// other hold policies.
fn variants() -> Vec<String> {
    let mut specs = Vec::new();
    for row in ROWS {
        let takes = |key| row.takes(key);
        let small = match (takes("batch"), takes("high")) {
            (true, true) => "batch=3+high=4+",
            (true, false) => "batch=3+",
            (false, true) => "high=5+",
            (false, false) => "",
        };
        let mut add = |options: &str| specs.push(format!("{}+{small}{options}", row.name));
        if takes("zone") {
            add("order=0+zone=spaces+space=4KiB");
            add("order=1+zone=spaces+space=8KiB+lock=ticket");
            add("order=1+zone=spaces+space=8KiB+exchange=single");
            add("order=2+zone=spaces+space=32KiB+select=fresh+shards=2");
        }
        if takes("state") {
            add("order=2+state=record");
            add("order=1+zone=spaces+space=8KiB+state=record");
        }
        if takes("lock") {
            add("order=3+lock=ticket");
        }
        if takes("line") {
            add("order=2+line=beside");
        }
        if takes("hold") {
            add("order=3+hold=iteration");
            add("order=3+lock=ticket+hold=when-contended");
        }
        if takes("hold") && takes("zone") {
            add("order=1+zone=spaces+space=8KiB+hold=iteration");
            add("order=1+zone=spaces+space=16KiB+lock=ticket+hold=when-contended");
        }
        if takes("queue") {
            // Queues that are mostly full; only a request that finds nothing else runs the services.
            add("order=2+queue=1");
            add("order=3+queue=4+structure=list+remnants=first");
            add("order=3+queue=2+structure=bitmap+sync=lock");
            add("order=3+separate=off+structure=bitmap");
        }
        if takes("idle") {
            // Domains are merged whenever one is put back; in another variant, after a while, with larger blocks.
            let zone = if takes("zone") { "+zone=domains" } else { "" };
            add(&format!("order=1{zone}+idle=1"));
            add(&format!("order=3{zone}+idle=2+lock=ticket"));
            add(&format!("order=2{zone}"));
        }
    }
    specs
}

#[test]
fn every_system_survives_random_schedules() {
    for spec in specs() {
        survives(spec, Picking::Random, 2000, false);
    }
}

#[test]
fn every_system_survives_few_preemptions_at_random_places() {
    for spec in specs() {
        survives(spec, Picking::Preempting(4), 2000, false);
    }
}

#[test]
fn every_variant_survives_random_schedules() {
    for spec in variants() {
        survives(spec.clone(), Picking::Random, 500, false);
        survives(spec, Picking::Preempting(4), 500, false);
    }
}

#[test]
fn lists_survive_switches_at_every_access() {
    for spec in [
        "lbs-31+batch=2+high=4",
        "lbs-1+high=3",
        "spring+high=4",
        "linux-6",
        "linux-6+percpu=locked",
        "lbs-31+batch=4+high=7+order=2+drain=merged",
        "pcp-buddy+batch=2+high=6+order=2",
        "lis-31+batch=2+high=4+order=1+space=8KiB",
        "lis-31+batch=2+high=4+order=2+lock=ticket+hold=when-contended",
        "spring-core+order=2+idle=1",
        "spring-fixlazy-186+batch=2+high=4+order=1+idle=1",
    ] {
        survives(spec.to_owned(), Picking::Random, 2000, true);
        survives(spec.to_owned(), Picking::Preempting(4), 2000, true);
    }
}
