//! The results of a comparison, in numbers.
//!
//! Tables and exports read all numbers from this module. `docs/metrics.md` defines each number.
//!
//! # Invariants
//! Times are in nanoseconds without the timer's cost; shares are fractions from 0 to 1.

use everybuddy::{Counts, Order, SystemSpec};

use crate::refusals::Refusals;
use crate::replay::classes::ClassMap;
use crate::replay::detail::Detail;
use crate::replay::machine::Machine;
use crate::replay::memory::Memory;
use crate::replay::observe::{Sample, Tally};
use crate::replay::owners::OwnerMap;
use crate::replay::pace::Pace;
pub use crate::replay::pace::median;
use crate::replay::script::Assignment;
use crate::replay::services::Served;

/// The results of all systems on one trace.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The name of the trace.
    pub trace: String,
    /// The number of calls.
    pub events: u32,
    /// The time of the recording on all CPUs that made calls, in nanoseconds; 0 if it is not known.
    pub recorded_ns: u64,
    /// Maximum number of frames in use.
    pub peak_frames: u64,
    /// CPUs of the replay.
    pub cpus: u16,
    /// Threads of the replay.
    pub threads: usize,
    /// The assignment of calls to CPUs.
    pub assignment: Assignment,
    /// The managed memory.
    pub memory: Memory,
    /// The machine from which the parameters of lists follow, unless they follow from the managed memory.
    pub machine: Option<Machine>,
    /// The number of repetitions of each timed pass.
    pub rounds: u32,
    /// The number of involuntary context switches during timed passes.
    pub switches: u64,
    /// Whether the times contain the use of the frames.
    pub touches: bool,
    /// The systems, in the requested order.
    pub systems: Vec<Outcome>,
    /// The replay overhead: the times of the replay without an allocator.
    pub floor: Pace,
}

/// The results of one system on one trace.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The system.
    pub spec: SystemSpec,
    /// The effective parameters for its options on this machine, in words.
    pub parameters: String,
    /// The number of frames that a refill or a drain of a CPU's list moves on this machine, if it is fixed.
    pub batch: Option<u32>,
    /// Whether each CPU has a list of free frames.
    pub has_list: bool,
    /// The largest order that it allocates.
    pub max_order: Order,
    /// The number of managed frames, minus those in use before the replay started.
    pub given: u64,
    /// Bytes of metadata.
    pub metadata_bytes: usize,
    /// The latencies and the throughput.
    pub pace: Pace,
    /// Mean latencies of allocations and frees in each round, including disturbances.
    pub rounds: Vec<[f64; 2]>,
    /// The internal events of allocations and of frees.
    pub tallies: [Tally; 2],
    /// The work of services with their own threads during the counting pass.
    pub services: Vec<Served>,
    /// The events that the services counted.
    pub background: Counts,
    /// The events of the queues to the services, counted on all CPUs.
    pub queues: Counts,
    /// The requests, and those that failed.
    pub refusals: Refusals,
    /// Free memory over time; the last sample is the end.
    pub samples: Vec<Sample>,
    /// Frames by class at some moments; empty if the trace does not state classes.
    pub classes: Vec<ClassMap>,
    /// Regions by owner at the same moments; empty if owners are not followed.
    pub owners: Vec<OwnerMap>,
    /// Additional data for charts.
    pub detail: Detail,
}

impl Outcome {
    /// Returns the sum of both tallies.
    pub fn all(&self) -> Tally {
        let [mut all, frees] = self.tallies;
        all.add(&frees);
        all
    }

    /// Returns the share of the order-0 operations of a tally that the per-CPU lists served; `None` without lists.
    pub fn service_ratio(&self, tally: &Tally) -> Option<f64> {
        tally.service_ratio().filter(|_| self.has_list)
    }

    /// Returns the work of the services per operation of the trace, in nanoseconds, without interrupted units.
    pub fn background_work(&self) -> f64 {
        let steady = self.services.iter().map(|own| own.steady.as_nanos());
        let steady = steady.sum::<u128>() as f64;
        steady / self.all().operations.max(1) as f64
    }

    /// Returns the number of blocks of `order` that could be allocated, at each sample.
    pub fn available(&self, order: Order) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(move |sample| sample.snapshot.available_blocks(order) as f64)
    }

    /// Returns the unusable free space index for `order`, at each sample.
    pub fn unusable(&self, order: Order) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(move |sample| sample.snapshot.unusable_index(order))
    }

    /// Returns the ratio of frames in use to frames requested, at each sample with requested and live frames.
    pub fn internal(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .filter_map(|sample| self.internal_at(sample))
    }

    /// Returns the same at one sample. Returns `None` if no frame is live, or if the number of requested frames is
    /// unknown.
    pub fn internal_at(&self, sample: &Sample) -> Option<f64> {
        let asked = sample.asked.filter(|asked| *asked > 0)?;
        let free = sample.snapshot.free_frames() + sample.snapshot.buffered_frames;
        Some(self.given.saturating_sub(free) as f64 / asked as f64)
    }

    /// Returns the number of parts into which free memory is divided, at each sample.
    pub fn domains(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(|sample| f64::from(sample.snapshot.domains))
    }

    /// Returns the number of frames in per-CPU lists, at each sample.
    pub fn buffered(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(|sample| sample.snapshot.buffered_frames as f64)
    }
}

impl Tally {
    /// Returns the share of order-0 operations that the per-CPU layer served, measured by the frames that crossed its
    /// border: 1 - crossed / operations. It is 0 if at least as many frames move as are requested.
    pub fn service_ratio(&self) -> Option<f64> {
        let crossed = self.crossed.min(self.single_frames);
        share(crossed, self.single_frames).map(|crossed| 1.0 - crossed)
    }

    /// Returns the share of order-0 operations that reached the zone layer.
    pub fn miss_rate(&self) -> Option<f64> {
        share(self.entered, self.single_frames)
    }

    /// Returns the share of operations that had to wait for another CPU.
    pub fn contention_rate(&self) -> Option<f64> {
        share(self.contended, self.operations)
    }

    /// Returns the same share among the operations that reached the zone layer.
    pub fn contention_rate_core(&self) -> Option<f64> {
        share(self.contended_visits, self.visits)
    }

    /// Returns the mean number of frames in a CPU's list at the end of a run.
    pub fn residual(&self) -> Option<f64> {
        share(self.residual, self.runs)
    }

    /// Returns the number of lock acquisitions per operation.
    pub fn locks(&self) -> Option<f64> {
        share(self.counts.locks, self.operations)
    }
}

/// Returns `part / whole`, or `None` if `whole` is 0.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the mean, or `None` for an empty sequence.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// Returns the minimum, or `None` for an empty sequence.
pub fn least(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_means() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(mean([1.0, 2.0].into_iter()), Some(1.5));
        assert_eq!(mean([].into_iter()), None);
        assert_eq!(least([2.0, 1.0].into_iter()), Some(1.0));
    }

    #[test]
    fn ratios_are_those_of_the_papers() {
        // 62 requests of a burst with a list of batch 31: two refills, so 62 frames cross and two requests miss.
        let tally = Tally {
            single_frames: 62,
            operations: 62,
            entered: 2,
            crossed: 62,
            ..Tally::default()
        };
        assert_eq!(tally.service_ratio(), Some(0.0));
        assert_eq!(tally.miss_rate(), Some(2.0 / 62.0));
        assert_eq!(Tally::default().service_ratio(), None);
        // A list that is filled and drained without a hit serves nothing, and not less.
        let idle = Tally {
            crossed: 93,
            ..tally
        };
        assert_eq!(idle.service_ratio(), Some(0.0));
    }

    #[test]
    fn waiting_of_any_kind_is_contention() {
        let mut tally = Tally::default();
        let before = everybuddy::Counts::default();
        let mut note = |change: &dyn Fn(&mut everybuddy::Counts)| {
            let mut after = before;
            change(&mut after);
            tally.note(Order::ZERO, &before, &after);
        };
        // A hit, an immediate refill, a refill that waits for a lock, a drain that waits for a domain.
        note(&|_| ());
        note(&|counts| (counts.refills, counts.locks) = (1, 1));
        note(&|counts| (counts.refills, counts.locks_contended) = (1, 1));
        note(&|counts| (counts.drains, counts.ghosts) = (1, 1));
        assert_eq!(tally.contention_rate(), Some(2.0 / 4.0));
        assert_eq!(tally.contention_rate_core(), Some(2.0 / 3.0));
        assert_eq!(tally.counts.ghosts, 1);
    }
}
