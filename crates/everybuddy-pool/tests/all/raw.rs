//! Memory without guards.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use everybuddy::{FreeError, System};
use everybuddy_pool::{Pages, Pool, PoolError};

use crate::{fill, verify};

/// Turns a guard into raw memory and back.
pub(crate) fn there_and_back<'p, S: System + 'static>(
    pool: &'p Pool<S>,
    run: Pages<'p, S>,
) -> Pages<'p, S> {
    let memory = run.into_raw();
    // SAFETY: the memory was a guard until now.
    unsafe { pool.from_raw(memory) }.unwrap()
}

#[test]
fn memory_that_is_not_of_whole_pages_of_the_pool_is_refused() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let other = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let memory = pool.allocate_pages(4).unwrap().into_raw();
    let start = memory.cast::<u8>();
    let part = |offset: usize, bytes: usize| {
        // SAFETY: every offset of this test lies within the four pages.
        let first = unsafe { start.add(offset) };
        NonNull::slice_from_raw_parts(first, bytes)
    };
    for wrong in [part(1, 4096), part(0, 4095), part(0, 0), part(0, 8 << 20)] {
        // SAFETY: it is refused, so no guard exists.
        let refused = unsafe { pool.from_raw(wrong) }.map(drop);
        let (address, bytes) = (wrong.cast::<u8>().addr().get(), wrong.len());
        assert_eq!(refused, Err(PoolError::Foreign { address, bytes }));
    }
    // SAFETY: as above.
    let refused = unsafe { other.from_raw(memory) }.map(drop);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("not whole pages of this pool")
    );
    // SAFETY: these pages have no guard.
    let middle = unsafe { pool.from_raw(part(4096, 8192)) }.unwrap();
    drop(middle);
    pool.check(2).unwrap();
}

#[test]
fn a_second_free_is_refused_and_counted() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let memory = pool.allocate_pages(4).unwrap().into_raw();
    let mut neighbour = pool.allocate_pages(4).unwrap();
    fill(&mut neighbour, 1);
    // SAFETY: the first guard is the only one. The second one is misuse, and is not accessed.
    let guards = [(), ()].map(|()| unsafe { pool.from_raw(memory) }.unwrap());
    let [first, second] = guards;
    first.free().unwrap();
    assert_eq!(second.free(), Err(PoolError::Free(FreeError::NotAllocated)));
    // SAFETY: as above.
    drop(unsafe { pool.from_raw(memory) }.unwrap());
    assert_eq!(pool.statistics().unwrap().refused_frees, 2);
    verify(&neighbour, 1);
    pool.check(4).unwrap();
}
