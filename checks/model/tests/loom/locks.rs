//! The locks by themselves, under loom.
//!
//! A lock that is handed over in a queue can lose a hand-over, which a test-and-set lock cannot. Here waiters sleep
//! as on a futex, so a lost wake-up ends the run as a deadlock.
//!
//! # Invariants
//! The counters under a lock are plain memory, whose accesses loom checks.
//!
//! # Not modelled
//! Tickets that wrap around (after 2^32, and after 2^16 in the queued lock); more than three threads.

use std::sync::Arc;

use everybuddy::platform::{AtomicWord, CellValue, Ordering, SharedCell};
use everybuddy::{
    Counts, Platform, QueuedLock, RawLock, SpinLock, TicketLock, WaitingArray, WaitingLine,
};
use everybuddy_model::weak::explore;
use everybuddy_model::{Loom, Memory, ModelCpu, Plain, Shared};

loom::lazy_static! {
    /// The shared wait queue. A wake-up wakes all sleepers; those it is not for check and sleep again.
    static ref BED: (loom::sync::Mutex<()>, loom::sync::Condvar) =
        (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
}

/// Like [`Loom`], but a waiter sleeps until it is woken, unless the word has changed already.
struct Asleep;

// SAFETY: every read of its cells and words returns a value that was stored there, in the order that the machine chose.
#[allow(unsafe_code)]
unsafe impl Platform for Asleep {
    type AtomicU32 = <Loom as Platform>::AtomicU32;
    type AtomicU64 = <Loom as Platform>::AtomicU64;
    type Cell<T: CellValue> = <Loom as Platform>::Cell<T>;
    type Cpu = ModelCpu;
    type Probe = Counts;

    fn probe(cpu: &mut ModelCpu) -> &mut Counts {
        cpu.probe()
    }

    fn wait(word: &Self::AtomicU32, seen: u32, _: u32) {
        let bed = BED.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(BED.1.wait(bed).unwrap());
        }
    }

    fn wake(_: &Self::AtomicU32) {
        drop(BED.0.lock().unwrap());
        BED.1.notify_all();
    }
}

/// Returns a queued lock whose waiters share this many lines.
fn queued<P: Platform>(lines: usize) -> QueuedLock<'static, P> {
    let lines: Vec<WaitingLine<P>> = (0..lines).map(|_| WaitingLine::new()).collect();
    let array = WaitingArray::new(Box::leak(lines.into_boxed_slice()));
    QueuedLock::new(Box::leak(Box::new(array)))
}

/// Threads that increment a counter under a lock, this many times each; one also tries to lock.
fn count<P: Platform, L: RawLock<P> + 'static>(
    lock: L,
    others: &'static [u32],
    own: u32,
    tries: bool,
) {
    let shared = Arc::new((lock, P::Cell::new(0u32)));
    let add = |(lock, cell): &(L, P::Cell<u32>)| {
        let (state, _) = lock.lock();
        cell.set(cell.get() + 1);
        lock.unlock(&state);
    };
    let threads: Vec<_> = others
        .iter()
        .map(|times| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || (0..*times).for_each(|_| add(&shared)))
        })
        .collect();
    let (lock, cell) = &*shared;
    let tried = tries.then(|| lock.try_lock()).flatten().map(|state| {
        cell.set(cell.get() + 1);
        lock.unlock(&state);
    });
    (0..own).for_each(|_| add(&shared));
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let all = others.iter().sum::<u32>() + own + u32::from(tried.is_some());
    let state = lock.try_lock().expect("the lock is unlocked again");
    assert_eq!(cell.get(), all);
    assert!(lock.try_lock().is_none(), "the lock is held");
    lock.unlock(&state);
}

fn schedules(
    what: &str,
    memory: Memory,
    bound: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let start = std::time::Instant::now();
    let schedules = explore(memory, bound, model);
    eprintln!("{what}: {schedules} schedules in {:.1?}", start.elapsed());
}

#[test]
fn the_ticket_lock_excludes_and_hands_on_what_its_holder_wrote() {
    schedules("two threads", Plain, None, || {
        count::<Loom, _>(TicketLock::new(), &[2], 1, true);
    });
    schedules("stale values too", Shared, None, || {
        count::<Loom, _>(TicketLock::new(), &[2], 1, true);
    });
    schedules("three threads", Plain, Some(2), || {
        count::<Loom, _>(TicketLock::new(), &[1, 1], 1, true);
    });
}

#[test]
fn the_queued_lock_excludes_and_hands_on_what_its_holder_wrote() {
    schedules("two threads", Plain, None, || {
        count::<Loom, _>(queued(2), &[2], 1, true);
    });
    schedules("stale values too", Shared, None, || {
        count::<Loom, _>(queued(2), &[2], 1, true);
    });
    // The third thread waits in the array.
    schedules("three threads", Plain, Some(2), || {
        count::<Loom, _>(queued(4), &[1, 1], 1, false);
    });
    schedules("three threads, stale values too", Shared, Some(2), || {
        count::<Loom, _>(queued(4), &[1, 1], 1, false);
    });
}

#[test]
fn no_waiter_sleeps_for_ever() {
    schedules("queued, two", Plain, None, || {
        count::<Asleep, _>(queued(2), &[1], 1, true);
    });
    for lines in [1, 4] {
        schedules("queued, three", Plain, Some(2), move || {
            count::<Asleep, _>(queued(lines), &[1, 1], 1, false);
        });
    }
    schedules("ticket, two", Plain, None, || {
        count::<Asleep, _>(TicketLock::new(), &[1], 1, true);
    });
    // All waiters see a wake-up for one of them; the others must go back to sleep.
    schedules("ticket, three", Plain, Some(2), || {
        count::<Asleep, _>(TicketLock::new(), &[1, 1], 1, false);
    });
    schedules("spin, two", Plain, Some(3), || {
        count::<Asleep, _>(SpinLock::new(), &[1], 1, true);
    });
    schedules("spin, three", Plain, Some(2), || {
        count::<Asleep, _>(SpinLock::new(), &[1, 1], 1, false);
    });
}

/// Like [`Asleep`], but no sleeper is ever woken.
struct Deaf;

// SAFETY: every read of its cells and words returns a value that was stored there, in the order that the machine chose.
#[allow(unsafe_code)]
unsafe impl Platform for Deaf {
    type AtomicU32 = <Loom as Platform>::AtomicU32;
    type AtomicU64 = <Loom as Platform>::AtomicU64;
    type Cell<T: CellValue> = <Loom as Platform>::Cell<T>;
    type Cpu = ModelCpu;
    type Probe = Counts;

    fn probe(cpu: &mut ModelCpu) -> &mut Counts {
        cpu.probe()
    }

    fn wait(word: &Self::AtomicU32, seen: u32, attempt: u32) {
        Asleep::wait(word, seen, attempt);
    }

    fn wake(_: &Self::AtomicU32) {}
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_lost_wake_up_is_noticed() {
    explore(Plain, None, || {
        count::<Deaf, _>(TicketLock::new(), &[1], 1, false);
    });
}

#[test]
fn who_sees_that_somebody_waits_and_lets_go_comes_after_it() {
    schedules("ticket, contended", Plain, None, || {
        lets_another_go_first(TicketLock::new());
    });
    schedules("queued, contended", Plain, None, || {
        lets_another_go_first(queued(2));
    });
}

fn lets_another_go_first<L: RawLock<Loom> + 'static>(lock: L) {
    let lock = Arc::new(lock);
    let order: Arc<<Loom as Platform>::Cell<u32>> = Arc::new(SharedCell::new(0));
    let (state, waits) = lock.lock();
    assert_eq!(waits, 0);
    assert!(!lock.is_contended(&state), "no other thread waits");
    let waiter = {
        let (lock, order) = (Arc::clone(&lock), Arc::clone(&order));
        loom::thread::spawn(move || {
            let (state, _) = lock.lock();
            order.set(order.get() + 1);
            lock.unlock(&state);
        })
    };
    let contended = lock.is_contended(&state);
    if contended {
        assert!(lock.try_lock().is_none());
    }
    lock.unlock(&state);
    let (state, _) = lock.lock();
    if contended {
        assert_eq!(order.get(), 1, "first come, first served");
    }
    lock.unlock(&state);
    waiter.join().unwrap();
}
