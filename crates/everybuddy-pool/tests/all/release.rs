//! Memory goes back to the operating system, and nothing else changes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everybuddy::systems::{Everybuddy, Lbs31, Options};
use everybuddy::{Order, Progress, System};
use everybuddy_pool::{HugePages, NoHugePages, Pages, Pool, PoolError, Released};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{fill, verify};

pub(crate) const HUGE: usize = 2 << 20;

/// Returns the bytes of the pool in memory, as the kernel counts them for the process.
pub(crate) fn resident<S: System + 'static>(pool: &Pool<S>) -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    let mut kib = 0;
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap();
        if let Some((start, _)) = first.split_once('-')
            && let Ok(start) = usize::from_str_radix(start, 16)
        {
            inside = pool.contains(std::ptr::without_provenance::<u8>(start));
        } else if inside && first == "Rss:" {
            let value = line.split_whitespace().nth(1).unwrap();
            kib += value.parse::<usize>().unwrap();
        }
    }
    kib << 10
}

#[test]
fn a_timer_returns_memory_until_the_pool_is_dropped() {
    // Two steps of the thread.
    const BYTES: usize = 128 << 20;
    let builder = Pool::builder(BYTES).release_every(Duration::from_millis(2));
    let pool = builder.build().unwrap();
    let weak = pool.downgrade();
    for round in 1..=2 {
        pool.allocate_pages(BYTES >> 12).unwrap().fill(1);
        let wanted = round * BYTES as u64;
        let start = Instant::now();
        while pool.statistics().unwrap().released_bytes < wanted {
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
    }
    // The thread may have the last handle for the duration of a call.
    drop(pool);
    let start = Instant::now();
    while weak.upgrade().is_ok() || timers() > 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    // A long period does not keep the thread.
    let pool = Pool::builder(4 << 20).release_every(Duration::from_secs(3600));
    let pool = pool.build().unwrap();
    let start = Instant::now();
    while timers() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    drop(pool);
    while timers() > 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

/// The threads of pools with a timer.
fn timers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.trim() == "everybuddy-pool")
        .count()
}

fn free_blocks_go_back<S: System + 'static>() {
    let pool: Pool<S> = Pool::builder(32 << 20).system::<S>().build().unwrap();
    assert_eq!(resident(&pool), 0, "nothing was written yet");
    let mut blocks: Vec<_> = (0..8).map(|_| pool.allocate_pages(512).unwrap()).collect();
    for (seed, block) in blocks.iter_mut().enumerate() {
        block.fill(seed as u8 + 1);
    }
    let small = pool.allocate_zeroed(1).unwrap();
    let before = resident(&pool);
    assert!((8 * HUGE..9 * HUGE + 8192).contains(&before), "{before}");
    assert_eq!(pool.resident_bytes(), Some(before));
    assert_eq!(pool.release_free().unwrap(), Released::default());
    assert_eq!(resident(&pool), before);

    let kept = blocks.split_off(5);
    drop(blocks);
    let released = pool.release_free().unwrap();
    assert_eq!(
        released,
        Released {
            bytes: 5 * HUGE,
            blocks: 5
        }
    );
    assert_eq!(resident(&pool), before - 5 * HUGE);
    assert_eq!(pool.release_free().unwrap().bytes, 0, "nothing twice");
    for (index, block) in kept.iter().enumerate() {
        assert!(block.iter().all(|byte| *byte == index as u8 + 6));
    }
    assert!(small.iter().all(|byte| *byte == 0));
    // What comes back is zero.
    let again: Vec<_> = (0..5).map(|_| pool.allocate_pages(512).unwrap()).collect();
    assert!(
        again
            .iter()
            .all(|block| block.iter().all(|byte| *byte == 0))
    );
    drop((again, kept, small));
    pool.check(0).unwrap();
    assert_eq!(pool.statistics().unwrap().released_bytes, 5 * HUGE as u64);
}

#[test]
fn free_huge_blocks_go_back_and_others_stay() {
    free_blocks_go_back::<Everybuddy>();
    free_blocks_go_back::<Lbs31>();
}

/// A block of which one page is allocated stays.
#[test]
fn a_block_with_one_allocated_page_stays() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let mut all = pool.allocate_pages(1024).unwrap();
    all.fill(9);
    let (head, tail) = all.split_at(511);
    let (mut page, rest) = tail.split_at(1);
    fill(&mut page, 1);
    drop((head, rest));
    let released = pool.release_free().unwrap();
    assert_eq!(
        released,
        Released {
            bytes: HUGE,
            blocks: 1
        }
    );
    verify(&page, 1);
    assert_eq!(resident(&pool), HUGE);
}

/// Pages of a block that was never used, or that went back, are zero already.
#[test]
fn fresh_pages_are_zero_without_a_write() {
    let pool = Pool::new(4 << 20).unwrap();
    let block = pool.allocate_zeroed(512).unwrap();
    // A part of a block, and what is left of it.
    let [part, rest] = [100, 256].map(|pages| pool.allocate_zeroed(pages).unwrap());
    assert!(resident(&pool) < HUGE, "at most the rest was written");
    drop((block, part, rest));
    for round in 0..2 {
        let mut all = [(); 2].map(|()| pool.allocate_zeroed(512).unwrap());
        if round == 1 {
            assert_eq!(resident(&pool), 0);
        }
        assert!(all.iter().all(|block| block.iter().all(|byte| *byte == 0)));
        all.iter_mut().for_each(|block| block.fill(7));
        drop(all);
        let [first, second] = [300, 300].map(|pages| pool.allocate_zeroed(pages).unwrap());
        assert!(first.iter().chain(second.iter()).all(|byte| *byte == 0));
        drop((first, second));
        pool.release_free().unwrap();
    }
}

#[test]
fn a_system_without_huge_blocks_keeps_its_memory() {
    let options = Options {
        order: Order::new(8),
        ..Options::NONE
    };
    let pool = Pool::builder(8 << 20).options(options).build().unwrap();
    pool.allocate_zeroed(256).unwrap();
    assert_eq!(pool.release_free(), Ok(Released::default()));
}

#[test]
fn transparent_huge_pages_are_used_or_refused() {
    let built = Pool::builder((4 << 20) + 1)
        .huge_pages(HugePages::Advised)
        .build();
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    match (built, enabled) {
        (Ok(pool), Ok(text)) => {
            assert!(!text.contains("[never]"));
            assert_eq!(pool.size(), 6 << 20, "whole huge pages");
            let mut block = pool.allocate_pages(512).unwrap();
            block[0] = 1;
            // The kernel may have no huge page at this moment; then it allocates a small one.
            let bytes = resident(&pool);
            assert!([4096, HUGE].contains(&bytes), "{bytes}");
            drop(block);
            assert_eq!(pool.release_free().unwrap().bytes, bytes);
            assert_eq!(resident(&pool), 0);
        }
        (Err(PoolError::NoHugePages { reason }), Ok(text)) => {
            assert!(text.contains("[never]") && reason == NoHugePages::Never);
        }
        (Err(error), Err(_)) => {
            let reason = NoHugePages::Unsupported;
            assert_eq!(error, PoolError::NoHugePages { reason });
        }
        (built, enabled) => panic!("{built:?} although {enabled:?}"),
    }
}

/// Reserved huge pages depend on the machine: the pool has all of them, or the error says how many it needs.
#[test]
fn reserved_huge_pages_are_all_there_or_refused() {
    match Pool::builder(3 << 20)
        .huge_pages(HugePages::Reserved)
        .build()
    {
        Ok(pool) => {
            let mut pages = pool.allocate_pages(1024).unwrap();
            fill(&mut pages, 4);
            verify(&pages, 4);
            drop(pages);
            assert_eq!(pool.release_free(), Ok(Released::default()));
        }
        Err(error) => {
            let PoolError::NoHugePages { reason } = error else {
                panic!("{error}");
            };
            assert!(matches!(reason, NoHugePages::Reserved { needed: 2, .. }));
            let text = error.to_string();
            assert!(text.contains("2 free reserved huge pages") && text.contains("nr_hugepages"));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Allocates pages and fills them.
    Allocate(usize),
    Free(usize),
    /// Releases all, or as many bytes in each call until the end of the pool.
    Release(Option<usize>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => prop_oneof![Just(1), 1usize..40, 1usize..1100].prop_map(Step::Allocate),
        5 => any::<usize>().prop_map(Step::Free),
        1 => prop::option::of(0usize..5 << 20).prop_map(Step::Release),
    ]
}

/// A page of the pool.
#[derive(Clone, Copy, Default)]
struct Page {
    is_allocated: bool,
    /// It was filled, and not released since.
    is_filled: bool,
}

const PAGE: usize = 4096;
/// 8 MiB.
const PAGES: usize = 2048;

/// Releases until the end of the pool, twice: the first time can begin anywhere.
fn release_in_parts<S: System + 'static>(pool: &Pool<S>, bytes: usize, block: usize) -> Released {
    let mut sum = Released::default();
    for _ in 0..2 {
        let mut calls = 0;
        loop {
            let (released, progress) = pool.release_next(bytes).unwrap();
            sum.bytes += released.bytes;
            sum.blocks += released.blocks;
            calls += 1;
            // The last block may be larger than what was left.
            assert!(released.bytes <= bytes.max(block) + HUGE.saturating_sub(block));
            if progress == Progress::Idle {
                break;
            }
        }
        let blocks = (bytes / block).max(1);
        assert!(calls <= (PAGES * PAGE / block).div_ceil(blocks) + 1);
    }
    sum
}

/// Compares a pool that releases blocks of `order` with a list of its pages.
fn run<S: System + 'static>(order: u8, steps: &[Step]) -> Result<(), PoolError> {
    let order = Order::new(order).unwrap();
    let builder = Pool::builder(PAGES * PAGE).system::<S>().tokens(1);
    let pool = builder.release_order(order).build()?;
    let first = pool.allocate_pages(pool.largest_run())?;
    let start = first.as_ptr().addr();
    drop(first);
    let place = |run: &Pages<'_, S>| run.as_ptr().addr().wrapping_sub(start) / PAGE % PAGES;
    let size = order.frames() as usize;
    let mut list = [Page::default(); PAGES];
    let mut runs = Vec::new();
    for step in steps {
        match *step {
            Step::Allocate(pages) => {
                let Ok(mut run) = pool.allocate_pages(pages) else {
                    continue;
                };
                let at = place(&run);
                for (page, bytes) in list[at..].iter_mut().zip(run.chunks_exact(PAGE)) {
                    assert!(page.is_filled || bytes.iter().all(|byte| *byte == 0));
                    assert!(!page.is_allocated);
                    (page.is_allocated, page.is_filled) = (true, true);
                }
                run.fill(5);
                runs.push(run);
            }
            Step::Free(which) if !runs.is_empty() => {
                let run = runs.swap_remove(which % runs.len());
                let at = place(&run);
                for page in &mut list[at..at + run.pages()] {
                    page.is_allocated = false;
                }
            }
            Step::Free(_) => {}
            Step::Release(bytes) => {
                let before = resident(&pool);
                let released = match bytes {
                    Some(bytes) => release_in_parts(&pool, bytes, size * PAGE),
                    None => pool.release_free()?,
                };
                assert_eq!(released.bytes, before - resident(&pool));
                for block in list.chunks_exact_mut(size) {
                    if block.iter().all(|page| !page.is_allocated) {
                        block.fill(Page::default());
                    }
                }
                let filled = list.iter().filter(|page| page.is_filled).count();
                assert_eq!(resident(&pool), filled * PAGE);
                assert_eq!(pool.release_free(), Ok(Released::default()));
            }
        }
    }
    pool.check(list.iter().filter(|page| page.is_allocated).count() as u64)
        .unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn free_blocks_of_the_order_and_nothing_else_go_back(
        order in prop_oneof![Just(0u8), Just(3), 0u8..12],
        steps in vec(step(), 1..100),
    ) {
        run::<Everybuddy>(order, &steps).unwrap();
        run::<Lbs31>(order, &steps).unwrap();
    }
}

/// One thread releases all the time, and another one needs all pages again and again.
fn no_request_is_refused<S: System + 'static>(order: u8) {
    let pool: Pool<S> = Pool::builder(8 << 20)
        .system::<S>()
        .tokens(2)
        .release_order(Order::new(order).unwrap())
        .build()
        .unwrap();
    let (done, released) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let part = pool.release_next(3 << 20).unwrap().0;
                    released.fetch_add(part.bytes as u64, Ordering::Relaxed);
                    let all = pool.release_free().unwrap();
                    released.fetch_add(all.bytes as u64, Ordering::Relaxed);
                }
            });
        }
        let work = scope.spawn(|| {
            for round in 0..300 {
                let pages = [PAGES, 1, 1024][round % 3];
                let mut all: Vec<_> = (0..PAGES / pages)
                    .map(|_| pool.allocate_pages(pages).unwrap())
                    .collect();
                all.iter_mut().for_each(|run| fill(run, round as u64));
                thread::yield_now();
                all.iter().for_each(|run| verify(run, round as u64));
            }
        });
        let outcome = work.join();
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    assert!(released.into_inner() > 0);
    pool.check(0).unwrap();
}

#[test]
fn a_request_is_not_refused_while_its_memory_goes_back() {
    for order in [9, 11, 4] {
        no_request_is_refused::<Everybuddy>(order);
        no_request_is_refused::<Lbs31>(order);
    }
}

#[test]
fn the_order_of_release_is_one_of_the_pool_and_that_of_huge_pages_at_least() {
    let build = |order, huge_pages| {
        let builder = Pool::builder(4 << 20).release_order(Order::new(order).unwrap());
        builder.huge_pages(huge_pages).build()
    };
    let (pages, largest) = (2048, 1024);
    let refused = build(11, HugePages::Default).unwrap_err();
    assert_eq!(refused, PoolError::TooLarge { pages, largest });
    for (huge_pages, blocks) in [(HugePages::Default, 1), (HugePages::Advised, 0)] {
        let Ok(pool) = build(0, huge_pages) else {
            continue;
        };
        let (mut head, mut tail) = pool.allocate_pages(512).unwrap().split_at(511);
        fill(&mut head, 1);
        fill(&mut tail, 2);
        drop(tail);
        assert_eq!(pool.release_free().unwrap().blocks, blocks);
        verify(&head, 1);
    }
}
