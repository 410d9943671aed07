//! Small programs of two CPUs that take turns at a lock, natively and simulated.
//!
//! A model that is wrong about a lock is wrong about every allocator with one. These programs have nothing else: a CPU
//! acquires the lock, computes for some cycles, releases it, and computes again.
//!
//! # Invariants
//! Both run the same loop with the same locks. All counts end when the first CPU has made its turns.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use everybuddy::platform::{AtomicWord, Ordering::Relaxed, Spin};
use everybuddy::{
    CpuToken, Native, Platform, QueuedLock, RawLock, SpinLock, TicketLock, WaitingArray,
    WaitingLine,
};
use everybuddy_measure::Error;
use everybuddy_measure::replay::steady::Steady;
use everybuddy_sim::{Caches, Hardware, Machine, Region, Sim, SimCpu};

use super::summary::{Rounds, dependent, time};
use super::topology::Topology;

/// The locks, by name.
pub const LOCKS: [&str; 3] = ["test-and-set", "ticket", "queued"];
/// The turns of a CPU in a round.
const TURNS: u32 = 2000;

/// What the CPUs of a program did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// The cycles of the program, divided by the turns of both CPUs.
    pub cycles: f64,
    /// The share of turns that followed one of the same CPU.
    pub again: f64,
}

enum AnyLock<'a, P: Platform> {
    Spin(SpinLock<P>),
    Ticket(TicketLock<P>),
    Queued(QueuedLock<'a, P>),
}

fn hold<P: Platform>(lock: &impl RawLock<P>, section: impl FnOnce()) {
    let (held, _) = lock.lock();
    section();
    lock.unlock(&held);
}

/// Something on lines of its own.
#[repr(align(128))]
struct Lined<T>(T);

/// A lock, the CPU of the last turn, and whether a CPU has made all turns.
struct Shared<'a, P: Platform> {
    lock: Lined<AnyLock<'a, P>>,
    last: Lined<P::AtomicU32>,
    ended: Lined<P::AtomicU32>,
}

impl<P: Platform> Shared<'_, P> {
    /// Calls a function with one of the [`LOCKS`].
    fn with<T>(lock: usize, call: impl FnOnce(&Shared<'_, P>) -> T) -> T {
        let lines = [WaitingLine::new(), WaitingLine::new()];
        let array = WaitingArray::new(&lines);
        call(&Shared {
            lock: Lined(match lock {
                0 => AnyLock::Spin(SpinLock::new()),
                1 => AnyLock::Ticket(TicketLock::new()),
                _ => AnyLock::Queued(QueuedLock::new(&array)),
            }),
            last: Lined(P::AtomicU32::new(u32::MAX)),
            ended: Lined(P::AtomicU32::new(0)),
        })
    }

    /// Performs the turns of a CPU. Returns their number, and that of turns that followed an own one.
    fn turns(&self, me: u32, [section, think]: [u32; 2], mut spend: impl FnMut(u32)) -> [u32; 2] {
        let (mut made, mut again) = (0, 0);
        while made < TURNS && self.ended.0.load(Relaxed) == 0 {
            let section = || {
                again += u32::from(self.last.0.load(Relaxed) == me);
                self.last.0.store(me, Relaxed);
                spend(section);
            };
            match &self.lock.0 {
                AnyLock::Spin(lock) => hold(lock, section),
                AnyLock::Ticket(lock) => hold(lock, section),
                AnyLock::Queued(lock) => hold(lock, section),
            }
            spend(think);
            made += 1;
        }
        self.ended.0.store(1, Relaxed);
        [made, again]
    }
}

/// Simulates a program with one of the [`LOCKS`] on two CPUs of a machine. `cycles` are those in a turn, and those
/// between two.
pub fn simulated(hardware: &Hardware, lock: usize, cycles: [u32; 2]) -> Turns {
    Shared::<Sim>::with(lock, |shared| {
        let mut machine = Machine::new(2).cost(Caches::new(*hardware));
        let report = machine.run(Region::around(shared), |cpu: &mut SimCpu| {
            let (me, work) = (u32::from(cpu.id().0), u64::from(hardware.work));
            let spend = |cycles: u32| cpu.work((u64::from(cycles) * 1000 / work) as u32);
            let own = shared.turns(me, cycles, spend);
            (own, cpu.now())
        });
        let [one, other] = &report.expect("turns end").results[..] else {
            unreachable!("two CPUs have results")
        };
        let [made, again] = [0, 1].map(|at| f64::from(one.0[at] + other.0[at]));
        Turns {
            cycles: one.1.min(other.1) as f64 / made,
            again: again / made,
        }
    })
}

/// Measures a program with one of the [`LOCKS`] on two CPUs of this host, whose clock rate is given in MHz. Returns
/// medians, the number of disturbed rounds, and that of those which count, since too few others were found. It takes
/// some milliseconds.
///
/// # Errors
/// Returns an error if there are not two CPUs.
pub fn measured(mhz: u32, lock: usize, cycles: [u32; 2]) -> Result<(Turns, [usize; 2]), Error> {
    super::alone(|| measured_here(mhz, lock, cycles))
}

fn measured_here(mhz: u32, lock: usize, cycles: [u32; 2]) -> Result<(Turns, [usize; 2]), Error> {
    let topology = Topology::read();
    let cpus = topology.neighbours();
    let cpus = cpus.ok_or_else(|| Error::usage("--locks: this host has one CPU"))?;
    // A step of the loop takes six cycles.
    let spend = |cycles: u32| dependent(cycles as usize / 6);
    let (is_calm, shares) = (Cell::new(true), Cell::new([0, 0]));
    let round = || {
        Shared::<Native<Spin>>::with(lock, |shared| {
            let ready = AtomicU32::new(0);
            let meet = || {
                ready.fetch_add(1, SeqCst);
                // The helper begins on the CPU of this thread.
                while ready.load(SeqCst) < 2 {
                    thread::yield_now();
                }
            };
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let steady = topology.pin(cpus[1]).then(|| Steady::on(cpus[1]));
                    let was_steady = steady.is_some_and(Steady::is_steady);
                    meet();
                    let own = shared.turns(1, cycles, spend);
                    (own, was_steady && steady.is_some_and(Steady::is_steady))
                });
                meet();
                let mut own = [0; 2];
                let nanos = time(1, || own = shared.turns(0, cycles, spend));
                let (other, was_calm) = other.join().unwrap_or_default();
                is_calm.set(was_calm);
                let [made, again] = [0, 1].map(|at| own[at] + other[at]);
                let [all, share] = shares.get();
                shares.set([all + made, share + again]);
                nanos / f64::from(made)
            })
        })
    };
    topology.pin(cpus[0]);
    let rounds = Rounds::beside(|| is_calm.get(), round);
    let [made, again] = shares.get().map(f64::from);
    let turns = Turns {
        cycles: rounds.median * f64::from(mhz) / 1000.0,
        again: again / made,
    };
    Ok((turns, [rounds.disturbed(), rounds.missing]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::by_name_or_path;

    #[test]
    fn locks_that_queue_alternate_and_others_need_not() {
        let hardware = by_name_or_path("x5570").unwrap().hardware;
        let [spin, ticket, queued] = [0, 1, 2].map(|lock| simulated(&hardware, lock, [100, 0]));
        assert!(ticket.again < 0.01, "{ticket:?} {queued:?}");
        assert!(queued.again < 0.01, "{ticket:?} {queued:?}");
        assert!(spin.again > 0.5, "{spin:?}");
        // A section is part of a turn, and a long time between turns leaves the lock free.
        assert!(ticket.cycles > 100.0);
        let seldom = simulated(&hardware, 1, [0, 2000]);
        assert!(seldom.cycles > 1000.0, "{seldom:?}");
        assert!(seldom.cycles < 1500.0, "{seldom:?}");
    }
}
