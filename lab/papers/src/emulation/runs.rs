//! Runs of the program, by case and store.
//!
//! Every store is compiled here, once, and not in each method.
//!
//! # Invariants
//! Every run begins with a heap of its own, all of it free.

use everybuddy::structure::{BitScan, Trees};
use everybuddy::{Native, Order, Platform};

use crate::emulation::counting::Counting;
use crate::emulation::function::Table;
use crate::emulation::manager::{Case, Heap, Manager, Work};
use crate::emulation::program;
use crate::emulation::queue::{ADDRESS, HEAD, KNOWN_END, Queues, WALKED_END};
use crate::emulation::standalone::{Standalone, StructureMemory};
use crate::emulation::store::{Store, StoreKind};
use crate::emulation::watch::{Nobody, Sampled, Steps, Watch, sample};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct StoreRun {
    /// The heap.
    pub heap: Heap,
    /// The first action if a class is empty.
    pub case: Case,
    /// The store of free blocks.
    pub store: StoreKind,
    /// The seed of the random numbers.
    pub seed: u32,
    /// Iterations of the main loop.
    pub iterations: u32,
}

/// The counters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Calls, splits and merges.
    pub work: Work,
    /// Steps of each function itself; zero if they are not counted.
    pub steps: Table,
    /// The most steps of one call of each function that calls no other.
    pub most: Table,
}

/// The results of a timed run.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Calls; no steps.
    pub counted: Counted,
    /// Time, and its shares by function.
    pub sampled: Sampled,
}

/// A visitor for a store of any kind.
trait WithStore {
    type Output;
    fn call<S: Store>(self, store: S) -> Self::Output;
}

/// Creates an empty store.
fn with_store<P: Platform, V: WithStore>(
    kind: StoreKind,
    heap: Heap,
    visitor: V,
) -> Result<V::Output, String> {
    let largest = Order::new(heap.largest)
        .ok_or_else(|| format!("class {} is larger than any order", heap.largest))?;
    let refuse = |error| format!("a heap of {} units: {error}", heap.units);
    Ok(match kind {
        StoreKind::QueueSearch => visitor.call(Queues::<P, WALKED_END, true>::new(heap.units)),
        StoreKind::Queue => visitor.call(Queues::<P, WALKED_END, false>::new(heap.units)),
        StoreKind::QueueTail => visitor.call(Queues::<P, KNOWN_END, false>::new(heap.units)),
        StoreKind::QueueHead => visitor.call(Queues::<P, HEAD, false>::new(heap.units)),
        StoreKind::QueueOrdered => visitor.call(Queues::<P, ADDRESS, false>::new(heap.units)),
        StoreKind::Tree => {
            let memory = StructureMemory::<P>::new::<Trees<'_, P>>(heap.units, largest);
            let memory = &mut memory.map_err(refuse)?;
            visitor.call(Standalone::<P, Trees<'_, P>>::new(memory, largest))
        }
        StoreKind::Bitmap => {
            let memory = StructureMemory::<P>::new::<BitScan<'_, P>>(heap.units, largest);
            let memory = &mut memory.map_err(refuse)?;
            visitor.call(Standalone::<P, BitScan<'_, P>>::new(memory, largest))
        }
    })
}

/// Performs a run with an observer; returns the observer.
struct Perform<W>(StoreRun, W);

impl<W: Watch> WithStore for Perform<W> {
    type Output = Result<(Counted, W), String>;

    fn call<S: Store>(self, store: S) -> Self::Output {
        let Perform(plan, watch) = self;
        let mut manager = Manager::new(plan.heap, plan.case, store, watch);
        program::run(&mut manager, plan.seed, plan.iterations)?;
        let work = manager.work();
        work.balance()?;
        let counted = Counted {
            work,
            steps: Table::default(),
            most: Table::default(),
        };
        Ok((counted, manager.into_watch()))
    }
}

/// Counts calls only.
///
/// # Errors
/// Returns the error of the manager, or the reason why there is no such heap.
pub fn calls(plan: StoreRun) -> Result<Counted, String> {
    Ok(with_store::<Native, _>(plan.store, plan.heap, Perform(plan, Nobody))??.0)
}

/// Counts calls and steps.
///
/// # Errors
/// Like [`calls`].
pub fn steps(plan: StoreRun) -> Result<Counted, String> {
    struct Begin(StoreRun);
    impl WithStore for Begin {
        type Output = Result<(Counted, Steps), String>;
        fn call<S: Store>(self, store: S) -> Self::Output {
            Perform(self.0, Steps::new()).call(store)
        }
    }
    let (counted, watch) = with_store::<Counting, _>(plan.store, plan.heap, Begin(plan))??;
    Ok(Counted {
        steps: watch.table(),
        most: watch.most(),
        ..counted
    })
}

/// Measures the time, and samples the running function.
///
/// # Errors
/// Like [`calls`].
pub fn time(plan: StoreRun) -> Result<Timed, String> {
    struct Begin(StoreRun);
    impl WithStore for Begin {
        type Output = Result<Timed, String>;
        fn call<S: Store>(self, store: S) -> Self::Output {
            let Begin(plan) = self;
            let (done, sampled) = sample(|note| {
                let (counted, _) = Perform(plan, note).call(store)?;
                Ok::<_, String>(counted)
            });
            let counted = done?;
            Ok(Timed { counted, sampled })
        }
    }
    with_store::<Native, _>(plan.store, plan.heap, Begin(plan))?
}
