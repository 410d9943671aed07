//! Bad input gets a typed error whose text says what to do, and changes nothing.

use everybuddy::BuildError;
use everybuddy::systems::{Bs, Count, Options};
use everybuddy_pool::{Pool, PoolError};

#[test]
fn a_pool_that_cannot_be_built_says_why() {
    assert_eq!(Pool::new(0).err(), Some(PoolError::NoSize));
    let tokens = |tokens| Pool::builder(1 << 20).tokens(tokens).build().err();
    assert_eq!(tokens(0), Some(PoolError::BadTokens { tokens: 0 }));
    assert_eq!(
        tokens(65_534),
        Some(PoolError::BadTokens { tokens: 65_534 })
    );
    let enormous = Pool::new(usize::MAX).unwrap_err();
    assert!(matches!(enormous, PoolError::Map { .. }), "{enormous}");
    // More frames than a frame number can count.
    let long = Pool::new(1 << 45).unwrap_err();
    let is_too_large = |error| matches!(error, BuildError::SpanTooLarge { .. });
    assert!(matches!(long, PoolError::Build(error) if is_too_large(error)));
    let options = Options {
        batch: Count::new(7).ok(),
        ..Options::NONE
    };
    let refused = Pool::builder(1 << 20)
        .system::<Bs>()
        .options(options)
        .build();
    let refused = refused.unwrap_err();
    assert_eq!(refused, PoolError::Build(BuildError::BadOption("batch")));
    for (error, part) in [
        (PoolError::NoSize, "pass the size"),
        (PoolError::BadTokens { tokens: 0 }, "pass 1 to 65533"),
        (enormous, "build a smaller pool"),
        (refused, "`batch`"),
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_request_that_cannot_be_served_says_why() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let error = |pages| pool.allocate_pages(pages).err();
    assert_eq!(error(0), Some(PoolError::ZeroPages));
    for pages in [1025, 1 << 20, usize::MAX] {
        let largest = 1024;
        assert_eq!(error(pages), Some(PoolError::TooLarge { pages, largest }));
        let aligned = pool.allocate_aligned(pages, 1 << 16).err();
        assert_eq!(aligned, Some(PoolError::TooLarge { pages, largest }));
    }
    let all = pool.allocate_pages(1024).unwrap();
    assert_eq!(error(1), Some(PoolError::Exhausted { pages: 1 }));
    let aligned = pool.allocate_aligned(3, 1 << 16).err();
    assert_eq!(aligned, Some(PoolError::Exhausted { pages: 3 }));
    let text = PoolError::Exhausted { pages: 1 }.to_string();
    assert!(text.contains("statistics"), "{text}");
    drop(all);
    for bytes in [0, 3, 24, 8 << 20] {
        let refused = pool.allocate_aligned(1, bytes).err();
        let largest = 4 << 20;
        assert_eq!(refused, Some(PoolError::BadAlignment { bytes, largest }));
    }
    let statistics = pool.statistics().unwrap();
    assert_eq!(statistics.refused, 9, "{statistics}");
    pool.check(0).unwrap();
}

#[test]
fn a_dead_pool_is_an_error() {
    let pool = Pool::new(4 << 20).unwrap();
    let (weak, clone) = (pool.downgrade(), pool.clone());
    drop(pool);
    drop(weak.upgrade().unwrap().allocate_pages(1).unwrap());
    drop(clone);
    let error = weak.upgrade().unwrap_err();
    assert_eq!(error, PoolError::Dead);
    assert!(error.to_string().contains("keep a `Pool`"), "{error}");
}

#[test]
fn owned_pages_keep_their_pool() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let weak = pool.downgrade();
    let mut pages = pool.allocate_pages(3).unwrap().into_owned();
    assert_eq!((pages.pages(), pages.len()), (3, 3 * 4096));
    pool.check(3).unwrap();
    drop(pool);
    let ended = std::thread::spawn(move || {
        pages.fill(7);
        assert!(pages.iter().all(|byte| *byte == 7));
        weak.upgrade().unwrap().check(3).unwrap();
        let other = weak.upgrade().unwrap();
        drop(pages);
        other.check(0).unwrap();
        drop(other);
        weak
    });
    assert_eq!(ended.join().unwrap().upgrade().err(), Some(PoolError::Dead));
}

/// The memory of a pool is unmapped with its last handle, although threads that called it live on.
#[test]
fn a_dead_pool_leaves_no_memory() {
    // Much more than all other tests map meanwhile.
    const BYTES: usize = 64 << 30;
    let address_space = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages
            .split_whitespace()
            .next()
            .unwrap()
            .parse::<usize>()
            .unwrap()
            * 4096
    };
    let before = address_space();
    let pool = Pool::new(BYTES).unwrap();
    drop(pool.allocate_zeroed(1).unwrap());
    assert!(address_space() > before + BYTES / 2);
    drop(pool);
    assert!(address_space() < before + BYTES / 2);
}

#[test]
fn statistics_are_text_for_people() {
    let pool = Pool::builder(4 << 20).tokens(2).build().unwrap();
    let run = pool.allocate_pages(24).unwrap();
    let text = pool.statistics().unwrap().to_string();
    for part in [
        "pool of 1024 pages of 4096 bytes, system everybuddy",
        "free: 1000 pages, 1 huge blocks, the largest run has 512 pages",
        "threads: 1 with 2 tokens, 0 have ended",
        "allocations: 1, 0 refused",
        "frees: 0, 0 refused; 0 bytes returned",
    ] {
        assert!(text.contains(part), "{text}");
    }
    drop(run);
}
