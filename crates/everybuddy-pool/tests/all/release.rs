//! Memory goes back to the operating system, and nothing else changes.

use everybuddy::Order;
use everybuddy::System;
use everybuddy::systems::{Everybuddy, Lbs31, Options};
use everybuddy_pool::{HugePages, NoHugePages, Pool, PoolError, Released};

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
