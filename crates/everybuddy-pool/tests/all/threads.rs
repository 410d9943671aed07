//! Threads: more of them than tokens, threads that end, and threads that do nothing.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use everybuddy::System;
use everybuddy::systems::{Everybuddy, Lbs31};
use everybuddy_pool::{Pages, Pool, PoolError};

use crate::{Numbers, fill, take_all, verify};

fn pool<S: System + 'static>(bytes: usize, tokens: u16) -> Pool<S> {
    let builder = Pool::builder(bytes).system::<S>().tokens(tokens);
    builder.build().unwrap()
}

/// Allocates, fills, verifies and frees, and sends some runs to other threads.
fn work<'p, S: System + 'static>(
    pool: &'p Pool<S>,
    seed: u64,
    calls: u64,
    out: &Sender<(Pages<'p, S>, u64)>,
    others: &Mutex<Receiver<(Pages<'p, S>, u64)>>,
) {
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let mut runs: Vec<(Pages<'p, S>, u64)> = Vec::new();
    for call in 0..calls {
        let own = seed << 40 | call << 8;
        match numbers.below(8) {
            0..4 => {
                let pages = match numbers.below(3) {
                    0 => numbers.below(70) + 1,
                    _ => 1,
                };
                match pool.allocate_pages(pages as usize) {
                    Ok(mut run) => {
                        fill(&mut run, own);
                        runs.push((run, own));
                    }
                    Err(PoolError::Exhausted { .. } | PoolError::Busy) => drop(runs.pop()),
                    Err(error) => panic!("{error}"),
                }
            }
            4 if !runs.is_empty() => {
                let which = numbers.below(runs.len() as u64) as usize;
                out.send(runs.swap_remove(which)).unwrap();
            }
            5 => {
                let received = others.lock().unwrap().try_recv();
                if let Ok((run, seed)) = received {
                    verify(&run, seed);
                    run.free().unwrap();
                }
            }
            _ if !runs.is_empty() => {
                let which = numbers.below(runs.len() as u64) as usize;
                let (run, seed) = runs.swap_remove(which);
                verify(&run, seed);
                run.free().unwrap();
            }
            _ => {}
        }
    }
    for (run, seed) in &runs {
        verify(run, *seed);
    }
}

/// Threads start and end while others work.
fn churn<S: System + 'static>(tokens: u16, threads: u64, generations: u64, calls: u64) {
    let pool: Pool<S> = pool(8 << 20, tokens);
    let (out, received) = channel();
    let received = Mutex::new(received);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (pool, received, out) = (&pool, &received, out.clone());
            scope.spawn(move || {
                for generation in 0..generations {
                    let seed = 1 + thread * generations + generation;
                    let (out, received) = (&out, received);
                    thread::scope(|inner| {
                        let short = inner.spawn(move || work(pool, seed, calls, out, received));
                        short.join().unwrap();
                    });
                }
            });
        }
        // Memory is returned to the operating system meanwhile.
        for _ in 0..20 {
            pool.release_free().unwrap();
            thread::yield_now();
        }
    });
    drop(received);
    let statistics = pool.statistics().unwrap();
    assert_eq!(statistics.refused_frees, 0, "{statistics}");
    assert_eq!(statistics.threads_ended, threads * generations);
    assert_eq!(statistics.threads, 1, "this one");
    pool.check(0).unwrap();
    assert_eq!(take_all(&pool).len(), 2048);
}

#[test]
fn more_threads_than_tokens_share_no_page() {
    churn::<Everybuddy>(2, 6, 4, 1500);
}

#[test]
fn many_threads_share_one_token() {
    churn::<Everybuddy>(1, 4, 3, 1000);
}

#[test]
fn threads_of_a_system_with_lists_share_no_page() {
    churn::<Lbs31>(3, 5, 3, 1000);
}

/// Threads that called and then wait for something else.
fn all_pages_are_found<S: System + 'static>() {
    let pool: Pool<S> = pool(16 << 20, 4);
    let (called, taken) = (Barrier::new(4), Barrier::new(4));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // More than a hit, so that the token keeps trees or lists.
                drop((0..40).map(|_| pool.allocate_pages(1)).collect::<Vec<_>>());
                called.wait();
                taken.wait();
            });
        }
        called.wait();
        let all = take_all(&pool);
        taken.wait();
        assert_eq!(all.len(), 4096);
        assert!(pool.statistics().unwrap().shortages > 0);
    });
}

#[test]
fn idle_threads_withhold_nothing() {
    all_pages_are_found::<Everybuddy>();
    all_pages_are_found::<Lbs31>();
}

/// While one thread fails again and again, another one goes on with its token.
#[test]
fn a_thread_that_is_short_finds_what_others_free() {
    let pool: Pool = pool(4 << 20, 2);
    let hoard = Mutex::new(take_all(&pool));
    let rounds = 200;
    thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut found = 0;
            while found < rounds {
                match pool.allocate_pages(1) {
                    // It goes back to the hoard: memory is short at all times.
                    Ok(page) => {
                        hoard.lock().unwrap().push(page);
                        found += 1;
                    }
                    Err(PoolError::Exhausted { .. } | PoolError::Busy) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        while !taker.is_finished() {
            let page = hoard.lock().unwrap().pop();
            drop(page);
            thread::yield_now();
        }
        taker.join().unwrap();
    });
    let left = hoard.into_inner().unwrap();
    pool.check(left.len() as u64).unwrap();
}

#[test]
fn the_last_thread_of_a_token_parks_it() {
    let pool: Pool = pool(16 << 20, 2);
    // This thread has the first token, and the other one the second.
    drop(pool.allocate_pages(1).unwrap());
    let clone = pool.clone();
    let ended = thread::spawn(move || {
        drop(clone.allocate_pages(1).unwrap());
        assert_eq!(clone.statistics().unwrap().threads, 2);
    });
    ended.join().unwrap();
    let statistics = pool.statistics().unwrap();
    assert_eq!((statistics.threads, statistics.threads_ended), (1, 1));
    let all = take_all(&pool);
    assert_eq!(all.len(), 4096);
    // Only the last request was short: the token of the thread was parked when it ended.
    assert_eq!(pool.statistics().unwrap().shortages, 1);
}

/// A handle in a variable of a thread, which is dropped when the thread ends.
#[test]
fn a_thread_that_ends_can_be_the_last_to_use_a_pool() {
    struct Late(Option<Arc<Pool>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let pool = self.0.take().unwrap();
            let mut page = pool.allocate_pages(2).unwrap();
            fill(&mut page, 3);
            verify(&page, 3);
        }
    }
    thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });
    // Both orders: the variable is dropped before, and after, the slots of the thread.
    for calls_first in [false, true] {
        let pool = Arc::new(pool(4 << 20, 1));
        let weak = pool.downgrade();
        let thread = thread::spawn(move || {
            if calls_first {
                drop(pool.allocate_pages(1).unwrap());
            }
            LATE.set(Some(Late(Some(Arc::clone(&pool)))));
            drop(pool.allocate_pages(1).unwrap());
        });
        thread.join().unwrap();
        assert_eq!(weak.upgrade().err(), Some(PoolError::Dead));
    }
}

/// A thread that used many pools, some of which are gone, finds its slot in each.
#[test]
fn a_slot_of_a_pool_that_is_gone_is_not_used_for_another_one() {
    let kept: Pool = pool(4 << 20, 3);
    let mut held = kept.allocate_pages(1).unwrap();
    fill(&mut held, 5);
    for tokens in [1, 2, 3, 1, 2, 3] {
        let other: Pool = pool(4 << 20, tokens);
        let first = other.allocate_pages(1).unwrap();
        let second = kept.allocate_pages(1).unwrap();
        assert!(other.contains(first.as_ptr()) && !other.contains(second.as_ptr()));
        assert_eq!(other.statistics().unwrap().threads, 1);
    }
    verify(&held, 5);
    assert_eq!(kept.statistics().unwrap().threads, 1);
    kept.check(1).unwrap();
}
