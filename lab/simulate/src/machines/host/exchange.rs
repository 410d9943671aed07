//! Lines that two CPUs exchange.
//!
//! One CPU prepares lines: it writes them, or reads them after they have left all caches. The other one visits them in
//! a chain, so that visits do not overlap. The time of a visit is that of a transfer.
//!
//! # Invariants
//! The two threads take turns: a line is never touched by both together. Both stay on their CPUs.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

use everybuddy_measure::replay::steady::{Steady, busy};

use super::chase::{self, Loads};
use super::summary::{Rounds, time};
use super::topology::{Pair, Topology};

/// The lines of a round: they fit a quarter of any first cache.
const LINES: usize = 128;
/// Visits before the thread that waits for its turn gives its CPU to others.
const PATIENCE: u32 = 10_000;

/// A line with the number of the next one.
#[repr(align(64))]
struct SharedLine {
    next: u32,
    word: AtomicU64,
}

/// What a CPU does to the lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Read,
    Write,
    Swap,
}

/// Transfers between two CPUs.
pub(super) struct Exchange {
    pub(super) cpus: [usize; 2],
    pub(super) clean: Rounds,
    pub(super) modified: Rounds,
    pub(super) upgrade: Rounds,
}

impl Exchange {
    /// Describes visits by the first CPU of lines with which the second one has done something.
    pub(super) fn describe(&self, visits: &str, done: &str) -> String {
        let [first, second] = self.cpus;
        format!("{visits} by CPU {first} of lines that CPU {second} {done}")
    }

    #[cfg(test)]
    pub(super) fn example() -> Exchange {
        let rounds = Rounds::of(|| 7.0);
        Exchange {
            cpus: [0, 1],
            clean: rounds,
            modified: rounds,
            upgrade: rounds,
        }
    }
}

/// Returns lines that form a cycle in random order.
fn lines() -> Vec<SharedLine> {
    let order = chase::order(LINES);
    let mut next = vec![0; LINES];
    for (at, own) in order.iter().enumerate() {
        next[*own as usize] = order[(at + 1) % LINES];
    }
    let line = |next| SharedLine {
        next,
        word: AtomicU64::new(0),
    };
    next.into_iter().map(line).collect()
}

/// Visits all lines, each after the one before it. The next visit depends on what this one reads.
fn visit(lines: &[SharedLine], act: Act) {
    let mut at = 0;
    for _ in 0..LINES {
        let line = &lines[at];
        let seen = match act {
            Act::Read => line.word.load(SeqCst),
            Act::Write => {
                line.word.store(0, SeqCst);
                0
            }
            Act::Swap => line.word.swap(0, SeqCst),
        };
        // Words are 0, but the processor does not know it.
        at = line.next as usize + black_box(seen) as usize;
    }
    black_box(at);
}

/// Measures an atomic read-modify-write on a line that this CPU owns.
pub(super) fn atomic() -> Rounds {
    const STEPS: usize = 20_000;
    let word = AtomicU64::new(0);
    Rounds::of(|| {
        time(STEPS, || {
            for _ in 0..STEPS {
                black_box(word.swap(1, SeqCst));
            }
        })
    })
}

/// Measures what a CPU that waits does between two looks at a word.
pub(super) fn pause() -> Rounds {
    const STEPS: usize = 5000;
    Rounds::of(|| {
        time(STEPS, || {
            for _ in 0..STEPS {
                std::hint::spin_loop();
            }
        })
    })
}

/// Whose turn it is: 0 for the one that measures, 1 for the helper, 2 at the end.
struct Turn(AtomicU32);

impl Turn {
    fn give(&self, to: u32) {
        self.0.store(to, SeqCst);
    }

    /// Waits until it is not the other one's turn, and returns whose it is.
    fn wait(&self, other: u32) -> u32 {
        let mut looks = 0;
        loop {
            let whose = self.0.load(SeqCst);
            if whose != other {
                return whose;
            }
            looks += 1;
            match looks % PATIENCE {
                0 => thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

/// Measures transfers from the second CPU to the first one; `None` if threads cannot stay on these CPUs.
pub(super) fn between(
    topology: &Topology,
    first: usize,
    second: usize,
    loads: &Loads,
    atomic: &Rounds,
) -> Option<Exchange> {
    // Larger than all caches: it replaces everything in them.
    let flood = vec![1_u8; loads.memory.bytes / 4];
    let measured = |preparing: Act, own: Act, flooded: bool| {
        prepared(
            topology,
            [first, second],
            preparing,
            own,
            flooded.then_some(&flood[..]),
        )
    };
    let modified = measured(Act::Write, Act::Read, false)?;
    let clean = measured(Act::Read, Act::Read, true)?;
    // After the helper has read what this CPU has, both have it.
    let shared = measured(Act::Read, Act::Swap, false)?;
    Some(Exchange {
        cpus: [first, second],
        clean,
        modified,
        upgrade: shared.minus(atomic.median),
    })
}

/// Measures loads of lines that a CPU of another core has written, the nearest if there are several; `None` without a
/// second core.
pub(super) fn modified(topology: &Topology) -> Option<Rounds> {
    let cpus = topology.pairs().into_iter().find_map(|pair| match pair {
        Pair::None => None,
        Pair::Of(first, second) => Some([first, second]),
    })?;
    prepared(topology, cpus, Act::Write, Act::Read, None)
}

/// Measures visits of lines after the second CPU has prepared them.
fn prepared(
    topology: &Topology,
    cpus: [usize; 2],
    preparing: Act,
    own: Act,
    flood: Option<&[u8]>,
) -> Option<Rounds> {
    let lines = lines();
    let turn = Turn(AtomicU32::new(1));
    let is_calm = AtomicBool::new(true);
    thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let stays = topology.pin(cpus[1]);
            let steady = Steady::on(cpus[1]);
            turn.give(if stays { 0 } else { 2 });
            while stays && turn.wait(0) == 1 {
                if let Some(flood) = flood {
                    // The other CPU loses its copies; then the lines leave this one's caches.
                    visit(&lines, Act::Write);
                    black_box(
                        flood
                            .iter()
                            .step_by(64)
                            .map(|byte| u64::from(*byte))
                            .sum::<u64>(),
                    );
                }
                // Twice: the first visit fetches, the second one leaves the lines where they are used.
                visit(&lines, preparing);
                visit(&lines, preparing);
                is_calm.store(steady.is_steady(), SeqCst);
                turn.give(0);
            }
        });
        let stays = topology.pin(cpus[0]) && turn.wait(1) == 0;
        let round = || {
            turn.give(1);
            turn.wait(1);
            time(LINES, || visit(&lines, own))
        };
        let rounds = stays.then(|| {
            // The first round fetches code and lines.
            round();
            Rounds::beside(|| is_calm.load(SeqCst), round)
        });
        turn.give(2);
        // A helper that panicked measured nothing.
        helper.join().ok()?;
        rounds
    })
}

/// Measures how many times as long two CPUs compute together as one alone; `None` with a single CPU. CPUs that share a
/// core slow each other down.
pub(super) fn together(topology: &Topology) -> Option<Rounds> {
    let cpus = topology.neighbours()?;
    const STEPS: u32 = 50_000;
    if !topology.pin(cpus[0]) {
        return None;
    }
    let alone = Rounds::of(|| time(1, || busy(STEPS)));
    let stop = AtomicU32::new(0);
    let both = thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let stays = topology.pin(cpus[1]);
            stop.store(1, SeqCst);
            while stays && stop.load(SeqCst) != 2 {
                busy(STEPS / 10);
            }
            stays
        });
        while stop.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let both = Rounds::of(|| time(1, || busy(STEPS)));
        stop.store(2, SeqCst);
        helper.join().is_ok_and(|stays| stays).then_some(both)
    })?;
    let over = alone.min.max(f64::MIN_POSITIVE);
    Some(Rounds {
        median: both.median / alone.median.max(over),
        min: both.min / over,
        max: both.max / over,
        ..both
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_form_one_cycle() {
        let lines = lines();
        let (mut at, mut seen) = (0, 0);
        loop {
            at = lines[at].next as usize;
            seen += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(seen, LINES);
        visit(&lines, Act::Swap);
        visit(&lines, Act::Write);
        assert!(lines.iter().all(|line| line.word.load(SeqCst) == 0));
    }

    #[test]
    fn a_written_line_takes_longer_than_an_own_one() {
        let Some(rounds) = modified(&Topology::read()) else {
            return;
        };
        let lines = lines();
        let own = Rounds::of(|| time(LINES, || visit(&lines, Act::Read)));
        assert!(rounds.median > own.min, "{rounds:?} {own:?}");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_not_measured() {
        let topology = Topology::read();
        let [own, none] = [0, usize::MAX];
        assert!(prepared(&topology, [own, none], Act::Read, Act::Read, None).is_none());
        assert!(atomic().min > 0.0);
    }
}
