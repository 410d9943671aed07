//! A system of any kind can be behind a pool.

use everybuddy::System;
use everybuddy::systems::{Everybuddy, Lbs31, LlFree, Spring};
use everybuddy_pool::Pool;

use crate::{fill, take_all, verify};

/// Builds pools without options, splits runs, frees parts of them, and returns memory.
fn runs_come_and_go<S: System + 'static>() {
    for bytes in [1 << 20, 64 << 20] {
        let pool: Pool<S> = Pool::builder(bytes)
            .system::<S>()
            .tokens(2)
            .build()
            .unwrap_or_else(|error| panic!("{}, {bytes} bytes: {error}", S::ROW.name));
        let largest = (bytes / 4096).min(if S::ROW.name == "llfree" {
            1 << 10
        } else {
            1 << 14
        });
        assert_eq!(pool.largest_run(), largest, "{}", S::ROW.name);
        let run = pool.allocate_pages(37).unwrap();
        let (mut head, rest) = run.split_at(8);
        let (mut page, mut tail) = rest.split_at(1);
        for (seed, part) in [&mut head, &mut page, &mut tail].into_iter().enumerate() {
            fill(part, seed as u64);
        }
        pool.check(37).unwrap();
        verify(&page, 1);
        page.free().unwrap();
        verify(&head, 0);
        head.free().unwrap();
        pool.check(28).unwrap();
        pool.release_free().unwrap();
        verify(&tail, 2);
        tail.free().unwrap();
        pool.check(0).unwrap();
        let mut whole = pool.allocate_pages(largest).unwrap();
        fill(&mut whole, 3);
        drop(whole);
        let released = pool.release_free().unwrap();
        assert!(bytes == 1 << 20 || released.bytes > 0, "{}", S::ROW.name);
        assert_eq!(take_all(&pool).len(), bytes / 4096, "{}", S::ROW.name);
        pool.check(0).unwrap();
    }
}

#[test]
fn systems_of_all_kinds_can_be_behind_a_pool() {
    // Lists over one zone, domains, the smallest largest block, and trees that CPUs own.
    runs_come_and_go::<Lbs31>();
    runs_come_and_go::<Spring>();
    runs_come_and_go::<LlFree>();
    runs_come_and_go::<Everybuddy>();
}
