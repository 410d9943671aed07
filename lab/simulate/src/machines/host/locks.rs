//! Small programs of two CPUs that take turns at a lock, natively and simulated.
//!
//! A model that is wrong about a lock is wrong about every allocator with one. These programs have nothing else: a CPU
//! acquires the lock, computes for some cycles, releases it, and computes again.
//!
//! # Invariants
//! Both run the same loop with the same locks. All counts end when the first CPU has made its turns.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use everybuddy::platform::{AtomicWord, Ordering::Relaxed, Spin};
use everybuddy::{
    CpuToken, Native, Platform, QueuedLock, RawLock, SpinLock, TicketLock, WaitingArray,
    WaitingLine,
};
use everybuddy_measure::Error;
use everybuddy_measure::replay::steady::Steady;
use everybuddy_sim::{Caches, Hardware, Machine, Region, Sim, SimCpu};

use super::summary::{ROUNDS, TRIES, dependent};
use super::topology::Topology;

/// The locks, by name.
pub const LOCKS: [&str; 3] = ["test-and-set", "ticket", "queued"];
/// Cycles with the lock.
pub const SECTIONS: [u32; 3] = [0, 100, 500];
/// Cycles between two turns.
pub const THINKS: [u32; 3] = [0, 200, 2000];
/// The turns of a CPU in a round.
const TURNS: u32 = 2000;

/// What the CPUs of a program did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turns {
    /// The cycles of a turn: those of the program, divided by the turns of both CPUs.
    pub cycles: f64,
    /// The share of turns that followed one of the same CPU.
    pub again: f64,
}

/// A lock with a waiting array, and what its holder writes: the CPU of the last turn, and who has ended.
#[repr(align(128))]
struct Shared<L, W>(L, Lined<W>, Lined<W>);

/// A word on lines of its own.
#[repr(align(128))]
struct Lined<W>(W);

/// Makes the turns of a CPU until either CPU has made all. Returns their number, and how many followed an own one.
fn turns<P: Platform>(
    Shared(lock, last, ended): &Shared<impl RawLock<P>, P::AtomicU32>,
    me: u32,
    [section, think]: [u32; 2],
    mut spend: impl FnMut(u32),
) -> [u32; 2] {
    let (mut made, mut again) = (0, 0);
    while made < TURNS && ended.0.load(Relaxed) == 0 {
        let (held, _) = lock.lock();
        again += u32::from(last.0.load(Relaxed) == me);
        last.0.store(me, Relaxed);
        spend(section);
        lock.unlock(&held);
        spend(think);
        made += 1;
    }
    ended.0.store(1, Relaxed);
    [made, again]
}

/// Summarizes the turns of both CPUs.
fn of(cpus: [[u32; 2]; 2], cycles: f64) -> Turns {
    let [made, again] = [0, 1].map(|at| f64::from(cpus[0][at] + cpus[1][at]));
    Turns {
        cycles: cycles / made,
        again: again / made,
    }
}

/// Runs a program with one of the [`LOCKS`] on any platform.
fn with_lock<P: Platform, T>(lock: usize, run: impl Run<P, T>) -> T {
    let word = || Lined(P::AtomicU32::new(0));
    let lines = [WaitingLine::new(), WaitingLine::new()];
    let array = WaitingArray::new(&lines);
    match lock {
        0 => run.run(&Shared(SpinLock::new(), word(), word())),
        1 => run.run(&Shared(TicketLock::new(), word(), word())),
        _ => run.run(&Shared(QueuedLock::new(&array), word(), word())),
    }
}

/// What is done with a lock of any kind.
trait Run<P: Platform, T> {
    fn run<L: RawLock<P>>(self, shared: &Shared<L, P::AtomicU32>) -> T;
}

struct Simulated<'h>(&'h Hardware, [u32; 2]);

impl Run<Sim, Turns> for Simulated<'_> {
    fn run<L: RawLock<Sim>>(self, shared: &Shared<L, <Sim as Platform>::AtomicU32>) -> Turns {
        let Simulated(hardware, cycles) = self;
        let mut machine = Machine::new(2).cost(Caches::new(*hardware));
        let report = machine.run(Region::around(shared), |cpu: &mut SimCpu| {
            // An instruction takes a thousandth of `work`.
            let spend = |cycles: u32| (u64::from(cycles) * 1000 / u64::from(hardware.work)) as u32;
            let me = u32::from(cpu.id().0);
            (
                turns(shared, me, cycles, |cycles| cpu.work(spend(cycles))),
                cpu.now(),
            )
        });
        let results = report.expect("two CPUs that take turns end").results;
        let end = results.iter().map(|own| own.1).min().unwrap_or(0);
        of([results[0].0, results[1].0], end as f64)
    }
}

struct Measured<'t>(&'t Topology, [usize; 2], [u32; 2]);

impl Run<Native<Spin>, Option<(Turns, bool)>> for Measured<'_> {
    fn run<L: RawLock<Native<Spin>>>(
        self,
        shared: &Shared<L, <Native<Spin> as Platform>::AtomicU32>,
    ) -> Option<(Turns, bool)> {
        let Measured(topology, cpus, cycles) = self;
        let (ready, least) = (AtomicU32::new(0), AtomicU64::new(u64::MAX));
        let one = |me: usize| {
            let stays = topology.pin(cpus[me]);
            let steady = Steady::on(cpus[me]);
            let before = steady.is_steady();
            ready.fetch_add(1, SeqCst);
            while ready.load(SeqCst) < 2 {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            // A step of the loop takes six cycles.
            let made = turns(shared, me as u32, cycles, |cycles| {
                dependent(cycles as usize / 6)
            });
            least.fetch_min(start.elapsed().as_nanos() as u64, SeqCst);
            (made, stays, before && steady.is_steady())
        };
        let both = thread::scope(|scope| {
            let other = scope.spawn(|| one(1));
            Some([one(0), other.join().ok()?])
        })?;
        let nanos = least.load(SeqCst) as f64;
        let is_steady = both.iter().all(|own| own.2);
        let turns = of([both[0].0, both[1].0], nanos);
        both.iter().all(|own| own.1).then_some((turns, is_steady))
    }
}

/// Simulates a program with a lock on two CPUs of a machine.
pub fn simulated(hardware: &Hardware, lock: usize, cycles: [u32; 2]) -> Turns {
    with_lock(lock, Simulated(hardware, cycles))
}

/// Measures a program with a lock on two CPUs of this host, whose clock rate is given in MHz. Returns the medians of
/// undisturbed rounds, and the number of the others. It takes some milliseconds.
///
/// # Errors
/// Returns an error if there are not two CPUs, or if the host is too busy.
pub fn measured(mhz: u32, lock: usize, cycles: [u32; 2]) -> Result<(Turns, usize), Error> {
    let topology = Topology::read();
    let cpus = topology.neighbours();
    let cpus = cpus.ok_or_else(|| Error::usage("--locks: this host has one CPU"))?;
    let (mut all, mut dropped) = (Vec::new(), 0);
    while all.len() < ROUNDS {
        // In a thread of its own, since the caller's should not stay on a CPU.
        let round = || with_lock(lock, Measured(&topology, cpus, cycles));
        let round = thread::scope(|scope| scope.spawn(round).join().ok().flatten());
        match round {
            Some((turns, true)) => all.push(turns),
            _ => dropped += 1,
        }
        if dropped > TRIES {
            let what =
                "--locks: this host is too busy to be measured, or threads cannot stay on CPUs";
            return Err(Error::Failed(what.to_string()));
        }
    }
    let median = |of: fn(&Turns) -> f64| {
        let mut all: Vec<f64> = all.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2]
    };
    let turns = Turns {
        cycles: median(|own| own.cycles) * f64::from(mhz) / 1000.0,
        again: median(|own| own.again),
    };
    Ok((turns, dropped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::by_name_or_path;

    #[test]
    fn locks_that_queue_alternate_and_others_need_not() {
        let hardware = by_name_or_path("x5570").unwrap().hardware;
        let [spin, ticket, queued] = [0, 1, 2].map(|lock| simulated(&hardware, lock, [100, 0]));
        assert!(
            ticket.again < 0.01 && queued.again < 0.01,
            "{ticket:?} {queued:?}"
        );
        assert!(spin.again > 0.01 && spin.cycles < ticket.cycles, "{spin:?}");
        // A section is part of a turn, and a long time between turns leaves the lock free.
        assert!(ticket.cycles > 100.0);
        let seldom = simulated(&hardware, 1, [0, 2000]);
        assert!(
            seldom.cycles > 1000.0 && seldom.cycles < 1500.0,
            "{seldom:?}"
        );
    }

    #[test]
    fn a_lock_of_this_host_is_measured_or_refused() {
        if let Ok((turns, _)) = measured(1000, 1, [100, 0]) {
            assert!(turns.cycles > 0.0 && turns.again <= 1.0);
        }
    }
}
