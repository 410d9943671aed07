//! A lock that is deliberately wrong, for the canaries.
//!
//! A checker that reports no error may be a checker that checks nothing.

use std::sync::Arc;

use everybuddy::Platform;
use everybuddy::platform::{AtomicWord, Ordering, SharedCell};

/// The way in which a lock is broken.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// It tests the word and then writes it, in two steps.
    NotAtomic,
    /// It unlocks without release ordering.
    NoRelease,
}

struct Broken<P: Platform> {
    word: P::AtomicU32,
    fault: Fault,
}

impl<P: Platform> Broken<P> {
    fn lock(&self) {
        let take = || match self.fault {
            Fault::NotAtomic => {
                let open = self.word.load(Ordering::Acquire) == 0;
                if open {
                    self.word.store(1, Ordering::Relaxed);
                }
                open
            }
            Fault::NoRelease => self
                .word
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok(),
        };
        while !take() {
            P::wait(&self.word, 1, 0);
        }
    }

    fn unlock(&self) {
        let ordering = if self.fault == Fault::NoRelease {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        self.word.store(0, ordering);
    }
}

/// Two threads increment a counter under a broken lock.
pub(crate) fn count_under<P: Platform>(fault: Fault, spawn: fn(Box<dyn FnOnce() + Send>) -> Join) {
    let shared = Arc::new((
        Broken::<P> {
            word: P::AtomicU32::new(0),
            fault,
        },
        P::Cell::new(0u32),
    ));
    let count = |shared: &(Broken<P>, P::Cell<u32>)| {
        shared.0.lock();
        shared.1.set(shared.1.get() + 1);
        shared.0.unlock();
    };
    let others = Arc::clone(&shared);
    let join = spawn(Box::new(move || count(&others)));
    count(&shared);
    join();
    assert_eq!(shared.1.get(), 2, "a count was lost");
}

/// Joins a thread.
pub(crate) type Join = Box<dyn FnOnce()>;
