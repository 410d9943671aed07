//! Tests that loom finds errors. Each of these models is deliberately wrong.
//!
//! A checker that reports no error may be a checker that checks nothing.

use std::sync::Arc;

use crate::broken::{Fault, Join, count_under};
use everybuddy::platform::SharedCell;
use everybuddy::{Platform, RawLock, SpinLock};
use everybuddy_model::Loom;
use everybuddy_model::Memory::{Plain, Shared};
use everybuddy_model::weak::explore;

fn loom_thread(f: Box<dyn FnOnce() + Send>) -> Join {
    let thread = loom::thread::spawn(f);
    Box::new(move || thread.join().unwrap())
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_reports_a_lock_that_is_not_atomic() {
    explore(Plain, None, || {
        count_under::<Loom>(Fault::NotAtomic, loom_thread)
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_reports_a_lock_without_a_release() {
    explore(Plain, None, || {
        count_under::<Loom>(Fault::NoRelease, loom_thread)
    });
}

#[test]
#[should_panic(expected = "a count was lost")]
fn loom_shows_the_stale_value_behind_a_lock_without_a_release() {
    explore(Shared, None, || {
        count_under::<Loom>(Fault::NoRelease, loom_thread)
    });
}

/// Two threads increment a counter under a lock of the allocators; one of them only tries to lock.
fn count_under_a_sound_lock<P: Platform>(spawn: fn(Box<dyn FnOnce() + Send>) -> Join) {
    let shared = Arc::new((SpinLock::<P>::new(), P::Cell::new(0u32)));
    let others = Arc::clone(&shared);
    let join = spawn(Box::new(move || {
        let (lock, cell) = &*others;
        for _ in 0..2 {
            let (state, _) = lock.lock();
            cell.set(cell.get() + 1);
            lock.unlock(&state);
        }
    }));
    let (lock, cell) = &*shared;
    let tried = lock.try_lock().map(|state| {
        cell.set(cell.get() + 1);
        lock.unlock(&state);
    });
    let (state, _) = lock.lock();
    cell.set(cell.get() + 1);
    lock.unlock(&state);
    join();
    assert_eq!(cell.get(), 3 + u32::from(tried.is_some()));
    assert!(lock.try_lock().is_some(), "the lock is unlocked again");
}

#[test]
fn the_spin_lock_excludes_and_hands_on_what_its_holder_wrote() {
    explore(Plain, None, || {
        count_under_a_sound_lock::<Loom>(loom_thread)
    });
    explore(Shared, None, || {
        count_under_a_sound_lock::<Loom>(loom_thread)
    });
}
