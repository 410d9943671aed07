//! Which conclusions change with an assumption.
//!
//! A simulation is as good as its numbers, and some of them are assumed. Two runs with different assumptions are
//! compared by what readers conclude: up to how many CPUs a system scales, and which of two systems is faster.
//!
//! # Invariants
//! The two runs have the same loads, systems and numbers of CPUs. Times that differ by less than [`MARGIN`] count as
//! equal.

use crate::rows::Scaling;

/// A system is faster than another one if it makes this many times its calls.
pub const MARGIN: f64 = 1.1;

/// A conclusion that two runs do not share.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// A system scales up to another number of CPUs.
    Limit {
        /// The name of the load.
        load: String,
        /// The system.
        system: String,
        /// The number of CPUs beyond which twice as many bring too little, in the first run.
        before: Option<u16>,
        /// The same in the second run.
        after: Option<u16>,
    },
    /// Of two systems, another one is faster on the largest number of CPUs.
    Order {
        /// The name of the load.
        load: String,
        /// The system that is faster in the first run.
        before: String,
        /// The system that is faster in the second run.
        after: String,
    },
}

/// Returns the conclusions that differ between two runs of a plan.
pub fn differences(first: &[Scaling], second: &[Scaling]) -> Vec<Difference> {
    let mut all = Vec::new();
    let pairs: Vec<(&Scaling, &Scaling)> = first.iter().zip(second).collect();
    for (before, after) in &pairs {
        if before.limit != after.limit {
            all.push(Difference::Limit {
                load: before.load.clone(),
                system: before.system.clone(),
                before: before.limit,
                after: after.limit,
            });
        }
    }
    let rate = |scaling: &Scaling| scaling.rates.last().map_or(0.0, |(_, rate)| *rate);
    for (fast, then_slow) in &pairs {
        for (slow, then_fast) in &pairs {
            if fast.load == slow.load
                && rate(fast) >= MARGIN * rate(slow)
                && rate(then_fast) >= MARGIN * rate(then_slow)
            {
                all.push(Difference::Order {
                    load: fast.load.clone(),
                    before: fast.system.clone(),
                    after: slow.system.clone(),
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(load: &str, system: &str, rate: f64, limit: Option<u16>) -> Scaling {
        Scaling {
            load: load.to_string(),
            system: system.to_string(),
            rates: vec![(1, 1.0), (64, rate)],
            limit,
            hottest: None,
        }
    }

    #[test]
    fn limits_and_orders_are_conclusions_and_small_differences_are_not() {
        let first = [
            scaling("a", "x", 20.0, None),
            scaling("a", "y", 10.0, Some(8)),
            scaling("a", "z", 10.5, Some(8)),
            scaling("b", "x", 1.0, None),
        ];
        assert_eq!(differences(&first, &first), []);
        let second = [
            scaling("a", "x", 10.0, None),
            scaling("a", "y", 11.5, Some(16)),
            scaling("a", "z", 10.0, Some(8)),
            // Faster than others, but under another load.
            scaling("b", "x", 100.0, None),
        ];
        let limit = Difference::Limit {
            load: "a".to_string(),
            system: "y".to_string(),
            before: Some(8),
            after: Some(16),
        };
        let order = Difference::Order {
            load: "a".to_string(),
            before: "x".to_string(),
            after: "y".to_string(),
        };
        assert_eq!(differences(&first, &second), [limit, order]);
    }
}
