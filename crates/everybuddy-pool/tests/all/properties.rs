//! Any sequence of calls, against a list of what is allocated.

use everybuddy::System;
use everybuddy::systems::{Everybuddy, Lbs31};
use everybuddy_pool::{Pages, Pool, PoolError};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{fill, verify};

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Aligned(usize, u32),
    Free(usize),
    Split(usize, usize),
    Raw(usize),
    Release,
    ReleaseNext(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![Just(1), 1usize..40, 1usize..1400].prop_map(Step::Allocate),
        1 => (1usize..20, 12u32..22).prop_map(|(pages, shift)| Step::Aligned(pages, shift)),
        3 => any::<usize>().prop_map(Step::Free),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(run, at)| Step::Split(run, at)),
        1 => any::<usize>().prop_map(Step::Raw),
        1 => Just(Step::Release),
        1 => (0usize..5 << 20).prop_map(Step::ReleaseNext),
    ]
}

/// 8 MiB in two threads' parts.
const PAGES: usize = 2048;

fn run<S: System + 'static>(steps: &[Step]) {
    let pool: Pool<S> = Pool::builder(PAGES * 4096)
        .system::<S>()
        .tokens(2)
        .build()
        .unwrap();
    let mut runs: Vec<(Pages<'_, S>, u64)> = Vec::new();
    for (seed, step) in steps.iter().enumerate() {
        let seed = (seed as u64 + 1) << 32;
        match *step {
            Step::Allocate(_) | Step::Aligned(..) => {
                let (pages, alignment, result) = match *step {
                    Step::Aligned(pages, shift) => {
                        let bytes = 1 << shift;
                        (pages, bytes, pool.allocate_aligned(pages, bytes))
                    }
                    Step::Allocate(pages) => (
                        pages,
                        pages.next_power_of_two() * 4096,
                        pool.allocate_pages(pages),
                    ),
                    _ => unreachable!("the outer match selects these two"),
                };
                match result {
                    Ok(mut run) => {
                        assert_eq!((run.pages(), run.len()), (pages, pages * 4096));
                        assert_eq!(run.as_ptr().addr() % alignment, 0);
                        fill(&mut run, seed);
                        runs.push((run, seed));
                    }
                    Err(error) => assert!(matches!(error, PoolError::Exhausted { .. }), "{error}"),
                }
            }
            Step::Free(which) if !runs.is_empty() => {
                let (run, seed) = runs.swap_remove(which % runs.len());
                verify(&run, seed);
                run.free().unwrap();
            }
            Step::Split(which, at) if !runs.is_empty() => {
                let (run, seed) = runs.swap_remove(which % runs.len());
                verify(&run, seed);
                if run.pages() > 1 {
                    let at = 1 + at % (run.pages() - 1);
                    let (head, mut tail) = run.split_at(at);
                    verify(&head, seed);
                    fill(&mut tail, seed + 1);
                    runs.extend([(head, seed), (tail, seed + 1)]);
                }
            }
            Step::Raw(which) if !runs.is_empty() => {
                let (run, seed) = runs.swap_remove(which % runs.len());
                runs.push((crate::raw::there_and_back(&pool, run), seed));
            }
            Step::Release => {
                pool.release_free().unwrap();
            }
            Step::ReleaseNext(bytes) => {
                pool.release_next(bytes).unwrap();
            }
            _ => {}
        }
    }
    let allocated: usize = runs.iter().map(|(run, _)| run.pages()).sum();
    let statistics = pool.statistics().unwrap();
    assert_eq!(statistics.free_pages as usize, PAGES - allocated);
    pool.check(allocated as u64).unwrap();
    for (run, seed) in &runs {
        verify(run, *seed);
    }
    drop(runs);
    pool.check(0).unwrap();
    let statistics = pool.statistics().unwrap();
    assert_eq!(statistics.refused_frees, 0);
    assert_eq!(statistics.free_huge_blocks, 4, "{statistics}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn runs_are_exclusive_aligned_and_all_come_back(steps in vec(step(), 1..160)) {
        run::<Everybuddy>(&steps);
    }

    #[test]
    fn the_same_with_lists_of_a_zone(steps in vec(step(), 1..80)) {
        run::<Lbs31>(&steps);
    }
}
