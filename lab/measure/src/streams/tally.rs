//! Counters for the internal events of calls.
//!
//! A time depends on the machine, a count does not. A mean hides the one call that did a hundred times as much work
//! as the others.
//!
//! # Invariants
//! Nothing is sampled: every successful call is in a tally.

use everybuddy::{Event, NoProbe, Order, Probe};

/// One entry per order.
const ORDERS: usize = Order::LIMIT.index() + 1;

/// The work of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Blocks inserted into a list or removed from one.
    pub links: u32,
    /// Bits of the map read or written.
    pub marks: u32,
    /// Blocks split.
    pub splits: u32,
    /// Buddies coalesced, by order.
    pub coalescings: [u32; ORDERS],
}

impl Work {
    /// Returns the total number of operations on lists and on the map.
    pub fn operations(&self) -> u32 {
        self.links + self.marks
    }

    /// Returns the number of coalescings of all orders.
    pub fn delays(&self) -> u32 {
        self.coalescings.iter().sum()
    }
}

impl Probe for Work {
    #[inline]
    fn record(&mut self, event: Event) {
        match event {
            Event::Link => self.links += 1,
            Event::Mark => self.marks += 1,
            Event::Split(_) => self.splits += 1,
            Event::Coalesce(order) => self.coalescings[order.index()] += 1,
            _ => {}
        }
    }
}

/// A probe that reports the work of a call.
pub trait Listener: Probe {
    /// Returns the work since the last call.
    fn take(&mut self) -> Work;
}

impl Listener for Work {
    fn take(&mut self) -> Work {
        core::mem::take(self)
    }
}

impl Listener for NoProbe {
    fn take(&mut self) -> Work {
        Work::default()
    }
}

/// A histogram of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Occurrences, by number.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Adds a number.
    pub fn add(&mut self, number: u32) {
        let at = number as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
    }

    /// Adds the numbers of another.
    pub fn join(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
    }

    /// Returns how many numbers there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all numbers.
    pub fn sum(&self) -> u64 {
        let weighted = (0..)
            .zip(&self.counts)
            .map(|(number, count)| number * count);
        weighted.sum()
    }

    /// Returns the mean; 0 if there are no numbers.
    pub fn mean(&self) -> f64 {
        self.sum() as f64 / self.count().max(1) as f64
    }

    /// Returns the standard deviation; 0 if there are no numbers.
    pub fn stddev(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self
            .counts
            .iter()
            .enumerate()
            .map(|(number, count)| (number as f64 - mean).powi(2) * *count as f64)
            .sum();
        (squares / self.count().max(1) as f64).sqrt()
    }

    /// Returns the largest number.
    pub fn max(&self) -> u32 {
        self.counts.len().saturating_sub(1) as u32
    }

    /// Returns the quantile for a share from 0 to 1.
    pub fn quantile(&self, share: f64) -> u32 {
        let rank = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (number, count) in (0..).zip(&self.counts) {
            seen += count;
            if seen >= rank {
                return number;
            }
        }
        self.max()
    }
}

/// The work of calls of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations on lists and the map, per call.
    pub operations: Histogram,
    /// Coalescings per call.
    pub delays: Histogram,
    /// Splits per call.
    pub splits: Histogram,
    /// Operations on lists.
    pub links: u64,
    /// Operations on the map.
    pub marks: u64,
    /// The maximum number of coalescings that a single free caused at each distance above its own order.
    pub worst: [u32; ORDERS],
}

impl Tally {
    /// Records a call on a block.
    pub fn note(&mut self, order: Order, work: &Work) {
        self.operations.add(work.operations());
        self.delays.add(work.delays());
        self.splits.add(work.splits);
        self.links += u64::from(work.links);
        self.marks += u64::from(work.marks);
        let above = work.coalescings.iter().skip(order.index());
        for (worst, delays) in self.worst.iter_mut().zip(above) {
            *worst = (*worst).max(*delays);
        }
    }

    /// Adds the calls of another run.
    pub fn join(&mut self, other: &Tally) {
        self.operations.join(&other.operations);
        self.delays.join(&other.delays);
        self.splits.join(&other.splits);
        self.links += other.links;
        self.marks += other.marks;
        for (worst, other) in self.worst.iter_mut().zip(other.worst) {
            *worst = (*worst).max(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_know_their_numbers() {
        let mut own = Histogram::default();
        assert_eq!((own.mean(), own.stddev(), own.max()), (0.0, 0.0, 0));
        [1, 3].into_iter().for_each(|number| own.add(number));
        let mut other = Histogram::default();
        [5, 7].into_iter().for_each(|number| other.add(number));
        own.join(&other);
        assert_eq!((own.count(), own.sum(), own.mean()), (4, 16, 4.0));
        assert_eq!(own.stddev(), 5f64.sqrt());
        assert_eq!(own.max(), 7);
        assert_eq!(own.quantile(0.5), 3);
        assert_eq!(own.quantile(0.75), 5);
    }

    #[test]
    fn the_worst_is_counted_from_the_order_of_the_call() {
        let mut tally = Tally::default();
        let mut work = Work::default();
        let orders: Vec<Order> = Order::up_to(Order::TEN).collect();
        [2, 2, 3, 3, 3]
            .into_iter()
            .for_each(|order| work.record(Event::Coalesce(orders[order])));
        work.record(Event::Link);
        work.record(Event::Mark);
        tally.note(orders[2], &work.take());
        assert_eq!(tally.worst[..3], [2, 3, 0]);
        assert_eq!((tally.delays.max(), tally.operations.max()), (5, 2));
        assert_eq!(work, Work::default());
    }
}
