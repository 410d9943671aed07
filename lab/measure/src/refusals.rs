//! Requests and refusals by order.
//!
//! Most requests are for single frames, which nearly every system can always serve. A share of all requests therefore
//! hides that a system refuses larger blocks.
//!
//! # Invariants
//! `compare`, `bench` and the experiments make the same rows from the same counts.

use everybuddy::Order;

/// The number of orders.
const ORDERS: usize = Order::LIMIT.get() as usize + 1;

/// The metric of the requests of one order, or of all.
const ALL: &str = "blocking_probability";
/// The metric of the requests above order 0.
const LARGE: &str = "blocking_probability_large";

/// A number of requests of each order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByOrder([u64; ORDERS]);

impl ByOrder {
    /// Adds requests of an order.
    pub fn add(&mut self, order: Order, requests: u64) {
        if let Some(own) = self.0.get_mut(usize::from(order.get())) {
            *own += requests;
        }
    }

    /// Adds the numbers of another thread or round.
    pub fn join(&mut self, other: &ByOrder) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own += other;
        }
    }

    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of requests above order 0.
    pub fn large(&self) -> u64 {
        self.0.iter().skip(1).sum()
    }
}

/// The requests of a run, and those that were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// All requests.
    pub requests: ByOrder,
    /// The requests for which no block was found.
    pub refused: ByOrder,
}

/// A number about refusals: order, metric, statistic, value.
pub type Entry = (Option<u8>, &'static str, &'static str, f64);

impl Refusals {
    /// Adds those of another thread or round.
    pub fn join(&mut self, other: &Refusals) {
        self.requests.join(&other.requests);
        self.refused.join(&other.refused);
    }

    /// Returns the rows' numbers: of all requests, of those above order 0, and of each order that was requested.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut add = |order, metric, refused: u64, requests: u64| {
            if requests > 0 {
                let share = refused as f64 / requests as f64;
                entries.push((order, metric, "count", refused as f64));
                entries.push((order, metric, "rate", share));
            }
        };
        let (refused, requests) = (&self.refused, &self.requests);
        add(None, ALL, refused.total(), requests.total());
        add(None, LARGE, refused.large(), requests.large());
        for (order, (refused, requests)) in (0u8..).zip(refused.0.iter().zip(&requests.0)) {
            add(Some(order), ALL, *refused, *requests);
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_large_blocks_are_not_averaged_away() {
        let mut own = Refusals::default();
        own.requests.add(Order::ZERO, 990);
        own.requests.add(Order::TEN, 10);
        let mut other = Refusals::default();
        other.refused.add(Order::TEN, 4);
        own.join(&other);
        let entries = own.entries();
        let value = |order, metric, statistic| {
            let found = entries
                .iter()
                .find(|own| (own.0, own.1, own.2) == (order, metric, statistic));
            found.map(|own| own.3)
        };
        assert_eq!(value(None, ALL, "rate"), Some(0.004));
        assert_eq!(value(None, LARGE, "rate"), Some(0.4));
        assert_eq!(value(None, LARGE, "count"), Some(4.0));
        assert_eq!(value(Some(10), ALL, "rate"), Some(0.4));
        assert_eq!(value(Some(0), ALL, "rate"), Some(0.0));
        assert_eq!(value(Some(9), ALL, "rate"), None, "nothing was requested");
        assert!(Refusals::default().entries().is_empty());
    }
}
