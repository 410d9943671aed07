//! The program on every store: properties of any run, and the paper's counts.

use std::collections::BTreeSet;

use everybuddy::Native;
use everybuddy_papers::emulation::counting::Counting;
use everybuddy_papers::emulation::function::Function;
use everybuddy_papers::emulation::manager::{Case, Heap, Manager, Work};
use everybuddy_papers::emulation::paper;
use everybuddy_papers::emulation::program;
use everybuddy_papers::emulation::queue::{HEAD, KNOWN_END, Queues, WALKED_END};
use everybuddy_papers::emulation::runs::{self, Counted, StoreRun};
use everybuddy_papers::emulation::store::{Store, StoreKind, Unit};
use everybuddy_papers::emulation::watch::Nobody;
use proptest::prelude::*;

fn plan(case: Case, store: StoreKind, seed: u32, iterations: u32) -> StoreRun {
    StoreRun {
        heap: Heap::PAPER,
        case,
        store,
        seed,
        iterations,
    }
}

/// Free blocks in sets, the lowest one first: obviously correct.
#[derive(Default)]
struct Sets([BTreeSet<Unit>; 32]);

impl Store for Sets {
    fn add(&mut self, class: u8, unit: Unit) {
        assert!(self.0[usize::from(class)].insert(unit));
    }
    fn take(&mut self, class: u8) -> Option<Unit> {
        self.0[usize::from(class)].pop_first()
    }
    fn remove(&mut self, class: u8, unit: Unit) {
        assert!(self.0[usize::from(class)].remove(&unit));
    }
    fn is_empty(&self, class: u8) -> bool {
        self.0[usize::from(class)].is_empty()
    }
    fn first(&self, _: u8) -> Unit {
        0
    }
    fn pair(&self, class: u8, from: Unit) -> Option<(Unit, Unit)> {
        let set = &self.0[usize::from(class)];
        let size = 1 << class;
        let mut lower = set.range(from..).filter(|unit| **unit & size == 0);
        let found = lower.find(|unit| set.contains(&(**unit | size)))?;
        Some((*found, found + 2 * size))
    }
    fn blocks(&self, class: u8) -> Vec<Unit> {
        self.0[usize::from(class)].iter().copied().collect()
    }
}

/// Runs on a store of this file, checks every invariant, and returns the work.
fn checked<S: Store>(store: S, heap: Heap, case: Case, seed: u32, iterations: u32) -> Work {
    let mut manager = Manager::new(heap, case, store, Nobody);
    manager.check().unwrap();
    program::run(&mut manager, seed, iterations).unwrap();
    manager.check().unwrap();
    manager.work()
}

/// Half the paper's heap: lists are shorter, and merges occur sooner.
const HALF: Heap = Heap {
    units: 1 << 22,
    largest: 16,
};

#[test]
fn every_store_counts_what_a_simple_one_counts() {
    for case in Case::ALL {
        let sets = checked(Sets::default(), HALF, case, 7, 6000);
        let queue = Queues::<Native, KNOWN_END, false>::new(HALF.units);
        let queue = checked(queue, HALF, case, 7, 6000);
        let last_first = Queues::<Native, HEAD, false>::new(HALF.units);
        let last_first = checked(last_first, HALF, case, 7, 6000);
        assert!(sets.pairs > 1000 && queue.pairs > 1000);
        for store in StoreKind::ALL {
            let own = runs::calls(StoreRun {
                heap: HALF,
                ..plan(case, store, 7, 6000)
            });
            let expected = match store {
                StoreKind::Tree | StoreKind::Bitmap | StoreKind::QueueOrdered => sets,
                StoreKind::QueueHead => last_first,
                StoreKind::QueueSearch | StoreKind::Queue | StoreKind::QueueTail => queue,
            };
            assert_eq!(own.unwrap().work, expected, "{store}");
        }
    }
}

#[test]
fn a_heap_that_is_too_small_refuses_and_loses_nothing() {
    let heap = Heap {
        units: 1 << 18,
        largest: 15,
    };
    for case in Case::ALL {
        assert!(checked(Sets::default(), heap, case, 3, 5000).refused > 0);
        let queue = Queues::<Counting, WALKED_END, true>::new(heap.units);
        assert!(checked(queue, heap, case, 3, 5000).refused > 0);
    }
}

#[test]
fn steps_say_what_a_queue_walks() {
    let steps = |store| runs::steps(plan(Case::SplitFirst, store, 1, 5000)).unwrap();
    let [walked, known] = [StoreKind::Queue, StoreKind::QueueTail].map(steps);
    assert_eq!(walked.work, known.work);
    let own = |counted: &Counted, function| counted.steps.of(function);
    let added = known.work.calls.of(Function::AddChunk);
    // Six words: both links and the mark of the block, the previous block's link, the end twice.
    assert_eq!(own(&known, Function::AddChunk), 6 * added);
    assert!(own(&walked, Function::AddChunk) > 100 * own(&known, Function::AddChunk));
    assert_eq!(own(&walked, Function::Merge), own(&known, Function::Merge));
    // Without a walk every insertion takes the same number of steps; the longest walk is longer than the mean one.
    assert_eq!(known.most.of(Function::AddChunk), 6);
    assert!(walked.most.of(Function::AddChunk) * added > own(&walked, Function::AddChunk));
    let ordered = steps(StoreKind::QueueOrdered);
    let average = own(&ordered, Function::AddChunk) / ordered.work.calls.of(Function::AddChunk);
    assert!(average > 50, "{average}");
    let idle = [
        Function::ZerosLeft,
        Function::ZerosRight,
        Function::Arrange,
        Function::Free,
    ];
    assert!(idle.iter().all(|function| own(&walked, *function) == 0));
}

#[test]
fn the_papers_profiles_balance() {
    use Function::{AddChunk, ZerosRight};
    for case in Case::ALL {
        let calls = |function| {
            let line = paper::profile(case)
                .iter()
                .find(|line| line.function == function);
            line.unwrap().calls
        };
        let [splits, pairs] = paper::splits_and_pairs(case);
        assert_eq!(calls(AddChunk), calls(ZerosRight) + pairs + 2 * splits);
        let seconds: f64 = paper::profile(case).iter().map(|line| line.seconds).sum();
        assert!((seconds - paper::seconds(case)).abs() < 0.05);
    }
}

/// The whole program: several seconds without optimization.
#[test]
fn calls_are_those_of_the_paper() {
    for case in Case::ALL {
        let own = runs::calls(plan(case, StoreKind::QueueTail, 1, program::ITERATIONS)).unwrap();
        assert_eq!(own.work.refused, 0);
        for line in paper::profile(case) {
            let ratio = own.work.calls.of(line.function) as f64 / line.calls as f64;
            assert!(
                (0.9..=1.1).contains(&ratio),
                "{:?} {}: {ratio}",
                case,
                line.function.name()
            );
        }
    }
}

#[test]
fn timed_runs_count_the_same_and_have_a_time() {
    let plan = plan(Case::MergeFirst, StoreKind::Bitmap, 5, 50_000);
    let timed = runs::time(plan).unwrap();
    assert_eq!(timed.counted, runs::calls(plan).unwrap());
    assert!(!timed.sampled.time.is_zero() && timed.sampled.samples.sum() > 0);
}

#[test]
fn what_was_not_allocated_is_not_released() {
    let mut manager = Manager::new(Heap::PAPER, Case::SplitFirst, Sets::default(), Nobody);
    let unit = manager.allocate(100).unwrap();
    assert!(!manager.free(unit + 1) && !manager.free(Unit::MAX));
    assert!(manager.free(unit) && !manager.free(unit));
    assert_eq!(manager.allocate(Heap::PAPER.units * 8), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn every_unit_is_somewhere_whatever_the_seed(seed: u32, merge_first: bool, iterations in 0u32..2000) {
        let case = if merge_first { Case::MergeFirst } else { Case::SplitFirst };
        let heap = Heap { units: 1 << 20, largest: 16 };
        checked(Queues::<Native, WALKED_END, true>::new(heap.units), heap, case, seed, iterations);
        checked(Queues::<Native, KNOWN_END, false>::new(heap.units), heap, case, seed, iterations);
        checked(Sets::default(), heap, case, seed, iterations);
    }
}
