//! Memory without guards.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use everybuddy::{FreeError, System};
use everybuddy_pool::{Pages, Pool, PoolError, Released};

use crate::release::{HUGE, resident};
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
fn adjacent_runs_can_be_freed_together() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let mut runs: Vec<_> = (0..3)
        .map(|_| pool.allocate_pages(4).unwrap().into_raw())
        .collect();
    runs.sort_by_key(|run| run.cast::<u8>());
    let start = runs[0].cast::<u8>();
    let next = |index: usize| runs[index].cast::<u8>().addr().get() - start.addr().get();
    assert_eq!(next(1), 4 * 4096, "the runs are adjacent");
    assert_eq!(next(2), 8 * 4096, "the runs are adjacent");
    let all = NonNull::slice_from_raw_parts(start, 12 * 4096);
    // SAFETY: these pages have no guard.
    let mut all = unsafe { pool.from_raw(all) }.unwrap();
    fill(&mut all, 1);
    verify(&all, 1);
    all.free().unwrap();
    pool.check(0).unwrap();
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

#[test]
fn an_allocation_of_fewer_pages_than_its_alignment_gives_the_others_back() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let layout = |bytes, align| Layout::from_size_align(bytes, align).unwrap();
    let small = layout(4096, 65536);
    let _page = pool.allocate_pages(1).unwrap();
    let memory = pool.allocate(small).unwrap();
    assert_eq!(
        (memory.len(), memory.cast::<u8>().addr().get() % 65536),
        (4096, 0)
    );
    pool.check(2).unwrap();
    // SAFETY: the memory has this layout.
    unsafe { pool.deallocate(memory.cast(), small) };
    pool.check(1).unwrap();
}

#[test]
fn an_allocation_grows_in_place_within_its_pages_only() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let layout = |bytes, align| Layout::from_size_align(bytes, align).unwrap();
    let mut memory = pool.allocate(layout(5000, 8)).unwrap();
    // SAFETY: no other reference to the memory exists.
    let bytes = unsafe { memory.as_mut() };
    bytes[4999] = 7;
    // SAFETY: the memory has this layout, and the new one is not smaller.
    let same = unsafe { pool.grow(memory.cast(), layout(5000, 8), layout(8192, 8)) }.unwrap();
    assert_eq!((same.cast::<u8>(), same.len()), (memory.cast(), 8192));
    pool.check(2).unwrap();
    // SAFETY: as above.
    let more = unsafe { pool.grow(same.cast(), layout(8192, 8), layout(8193, 1 << 15)) }.unwrap();
    assert_eq!(
        (more.len(), more.cast::<u8>().addr().get() % (1 << 15)),
        (3 * 4096, 0)
    );
    // SAFETY: as above.
    assert_eq!(unsafe { more.as_ref() }[4999], 7);
    pool.check(3).unwrap();
    // SAFETY: the memory has this layout.
    unsafe { pool.deallocate(more.cast(), layout(8193, 1 << 15)) };
    pool.check(0).unwrap();
}

/// Pages that a process locked are not taken back.
#[test]
fn a_refusal_ends_the_release_and_says_what_was_returned() {
    let pool = Pool::builder(8 << 20).tokens(1).build().unwrap();
    let mut all = pool.allocate_pages(2048).unwrap();
    all.fill(1);
    let locked = all[5 << 20..].as_ptr();
    // AddressSanitizer replaces `mlock` by a function that does nothing.
    // SAFETY: the byte lies in the run.
    if unsafe { libc::syscall(libc::SYS_mlock, locked, 1_usize) } != 0 {
        // The process may lock no memory at all.
        return;
    }
    drop(all);
    let refused = pool.release_free().unwrap_err();
    let PoolError::Release { released, errno } = refused else {
        panic!("{refused}");
    };
    assert_eq!((released.bytes, released.blocks), (2 * HUGE, 2));
    assert_eq!(errno, libc::EINVAL);
    let text = refused.to_string();
    assert!(
        text.contains("took 4194304 bytes of 2 blocks before"),
        "{text}"
    );
    let returned = pool.statistics().unwrap().released_bytes;
    assert_eq!(returned, 2 * HUGE as u64);
    pool.check(0).unwrap();
    // SAFETY: as above; the pool exists still.
    let unlocked = unsafe { libc::syscall(libc::SYS_munlock, locked, 1_usize) };
    assert_eq!(unlocked, 0);
    assert_eq!(pool.release_free().unwrap().blocks, 2);
    assert_eq!(resident(&pool), 0);
}

/// A block that holds a locked page would be refused, if it were visited.
#[test]
fn a_block_is_visited_only_if_a_page_of_it_was_allocated_since() {
    let pool = Pool::builder(8 << 20).tokens(1).build().unwrap();
    let mut all = pool.allocate_pages(1024).unwrap();
    all.fill(1);
    let start = all.as_ptr();
    drop(all);
    // SAFETY: callers pass bytes of the pool, which exists.
    let lock = |byte: *const u8| unsafe { libc::syscall(libc::SYS_mlock, byte, 1_usize) } == 0;
    // The other half, which was never allocated.
    let untouched = start.wrapping_add(3 * HUGE);
    let untouched = [untouched, start.wrapping_sub(HUGE)].into_iter();
    let untouched = { untouched }.find(|byte| pool.contains(*byte)).unwrap();
    if !lock(untouched) {
        // The process may lock no memory at all.
        return;
    }
    assert_eq!(pool.release_free().unwrap().blocks, 2);
    assert!(lock(start));
    assert_eq!(pool.release_free(), Ok(Released::default()));
    assert_eq!(pool.release_next(1 << 30).unwrap().0, Released::default());
    drop(pool.allocate_pages(2048).unwrap());
    let refused = pool.release_free().unwrap_err();
    assert!(matches!(refused, PoolError::Release { .. }), "{refused}");
}
