//! What came out of a comparison, in numbers.
//!
//! Exists as the one place that tables and exports read from. Each number is defined in
//! `docs/metrics.md`.
//!
//! Invariant: times are nanoseconds without the timer's cost; shares are fractions from 0 to 1.

use everybuddy::{Counts, Order, SystemSpec};

use crate::replay::detail::Detail;
use crate::replay::memory::Memory;
use crate::replay::observe::{Sample, Tally};
use crate::replay::pace::Pace;
use crate::replay::script::Assignment;
use crate::replay::services::Served;

/// All systems on one trace.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The name of the trace.
    pub trace: String,
    /// Its calls.
    pub events: u32,
    /// Most frames live at once.
    pub peak_frames: u64,
    /// CPUs of the replay.
    pub cpus: u16,
    /// Threads of the replay.
    pub threads: usize,
    /// How calls came to CPUs.
    pub assignment: Assignment,
    /// The memory managed.
    pub memory: Memory,
    /// How often each timed pass was repeated.
    pub rounds: u32,
    /// How often a thread was switched out during timed passes.
    pub switches: u64,
    /// The systems, in the order asked for.
    pub systems: Vec<Outcome>,
    /// What the replay itself costs, with nothing behind it.
    pub floor: Pace,
}

/// One system on one trace.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The system.
    pub spec: SystemSpec,
    /// What its options and the memory made of it, in words.
    pub parameters: String,
    /// The largest order that it gives.
    pub max_order: Order,
    /// Frames that it manages, less those that were taken before the replay began.
    pub given: u64,
    /// Bytes of metadata.
    pub metadata_bytes: usize,
    /// How fast it served.
    pub pace: Pace,
    /// Mean latencies of allocations and frees in each round, disturbances included.
    pub rounds: Vec<[f64; 2]>,
    /// What allocations and frees did inside.
    pub tallies: [Tally; 2],
    /// What the services did that have threads of their own, while counts were taken.
    pub services: Vec<Served>,
    /// What they counted.
    pub background: Counts,
    /// What all CPUs counted of the queues to them.
    pub queues: Counts,
    /// Requests that were refused.
    pub refused: u64,
    /// Free memory over time; the last sample is from the end.
    pub samples: Vec<Sample>,
    /// What pictures show beside.
    pub detail: Detail,
}

impl Outcome {
    /// The tallies of both directions together.
    pub fn all(&self) -> Tally {
        let [mut all, frees] = self.tallies;
        all.add(&frees);
        all
    }

    /// Blocks that were split, and pairs of buddies that were joined, by callers and services.
    pub fn moved(&self) -> (u64, u64) {
        let (own, background) = (self.all().counts, self.background);
        (
            own.splits + background.splits,
            own.coalescings + background.coalescings,
        )
    }

    /// What the services worked for each operation of the trace, in nanoseconds, without units that were interrupted.
    pub fn background_work(&self) -> f64 {
        let steady = self.services.iter().map(|own| own.steady.as_nanos());
        let steady = steady.sum::<u128>() as f64;
        steady / self.all().operations.max(1) as f64
    }

    /// How many blocks of `order` could be given, at each sample.
    pub fn available(&self, order: Order) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(move |sample| sample.snapshot.available_blocks(order) as f64)
    }

    /// The unusable free space index for `order`, at each sample.
    pub fn unusable(&self, order: Order) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(move |sample| sample.snapshot.unusable_index(order))
    }

    /// Frames held over frames asked for, at each sample at which something was asked for and is live.
    pub fn internal(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .filter_map(|sample| self.internal_at(sample))
    }

    /// The same at one sample; none where nothing is live, or nobody knows what was asked for.
    pub fn internal_at(&self, sample: &Sample) -> Option<f64> {
        let asked = sample.asked.filter(|asked| *asked > 0)?;
        let free = sample.snapshot.free_frames() + sample.snapshot.buffered_frames;
        Some(self.given.saturating_sub(free) as f64 / asked as f64)
    }

    /// The parts that free memory is divided into, at each sample.
    pub fn domains(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(|sample| f64::from(sample.snapshot.domains))
    }

    /// Frames that per-CPU lists keep, at each sample.
    pub fn buffered(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples
            .iter()
            .map(|sample| sample.snapshot.buffered_frames as f64)
    }
}

impl Tally {
    /// The share of order-0 operations that the per-CPU layer served, by frames that crossed its
    /// border: 1 - crossed / operations. Negative when more frames move than are asked for.
    pub fn service_ratio(&self) -> Option<f64> {
        share(self.crossed, self.single_frames).map(|crossed| 1.0 - crossed)
    }

    /// The share of order-0 operations that entered the core layer.
    pub fn miss_rate(&self) -> Option<f64> {
        share(self.entered, self.single_frames)
    }

    /// The share of operations that had to wait for another CPU.
    pub fn contention_rate(&self) -> Option<f64> {
        share(self.contended, self.operations)
    }

    /// The same share of the operations that visited the core layer.
    pub fn contention_rate_core(&self) -> Option<f64> {
        share(self.contended_visits, self.visits)
    }

    /// Frames that a CPU's list kept when a run ended, on average over the runs.
    pub fn residual(&self) -> Option<f64> {
        share(self.residual, self.runs)
    }

    /// Lock acquisitions for each operation.
    pub fn locks(&self) -> Option<f64> {
        share(self.counts.locks, self.operations)
    }
}

/// A part of a whole, or nothing when there is no whole.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The mean, or nothing of nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// The least, or nothing of nothing.
pub fn least(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.min_by(f64::total_cmp)
}

/// The median: the mean of the two middle values when there is no middle one; 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
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
        // 62 requests of a burst on a list of batch 31: two refills, so 62 frames cross, two miss.
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
        // A hit, a refill at once, a refill that waits for a lock, a drain that waits for a domain.
        note(&|_| ());
        note(&|counts| (counts.refills, counts.locks) = (1, 1));
        note(&|counts| (counts.refills, counts.locks_contended) = (1, 1));
        note(&|counts| (counts.drains, counts.ghosts) = (1, 1));
        assert_eq!(tally.contention_rate(), Some(2.0 / 4.0));
        assert_eq!(tally.contention_rate_core(), Some(2.0 / 3.0));
        assert_eq!(tally.counts.ghosts, 1);
    }
}
