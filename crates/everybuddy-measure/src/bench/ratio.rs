//! The ratio of two contenders' times, and its reliability.
//!
//! # Purpose
//!
//! Times on a shared machine drift, but ratios within a round do not.
//!
//! # Invariants
//!
//! A ratio is formed only from two undisturbed times of the same round.

use everybuddy_workload::Part;

use super::outcome::{Cell, extremes};
use crate::replay::outcome::median;

/// A ratio of two times, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median over the rounds.
    pub median: f64,
    /// The minimum over the rounds.
    pub least: f64,
    /// The maximum over the rounds. With five rounds, minimum and maximum enclose the true median in 94 of 100 cases.
    pub most: f64,
}

impl Ratio {
    /// Returns the ratio of a part of one cell to that of another. Returns `None` if one of the contenders cannot run
    /// the workload, or had only disturbed sections in some round.
    pub fn of(own: &Cell, other: &Cell, part: Part) -> Option<Ratio> {
        let (own_rounds, other_rounds) = (own.rounds(part), other.rounds(part));
        if own.is_disturbed || other.is_disturbed || own_rounds.len() != other_rounds.len() {
            return None;
        }
        let ratios = own_rounds.iter().zip(other_rounds).map(|(a, b)| a / b);
        Ratio::over(&ratios.collect::<Vec<f64>>())
    }

    /// Summarizes the ratios of all rounds.
    fn over(ratios: &[f64]) -> Option<Ratio> {
        let (least, most) = extremes(ratios)?;
        let median = median(ratios.to_vec());
        most.is_finite().then_some(Ratio {
            median,
            least,
            most,
        })
    }

    /// Returns `true` if it is undecided which of the two is faster.
    pub fn is_undecided(&self) -> bool {
        self.least <= 1.0 && self.most >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(rounds: &[f64]) -> Cell {
        Cell {
            parts: vec![(Part::Pair, rounds.to_vec())],
            requests: 1,
            ..Cell::default()
        }
    }

    #[test]
    fn ratios_are_formed_within_rounds() {
        // The machine is twice as slow in the second round, which does not affect the ratio.
        let (own, other) = (cell(&[10.0, 20.0, 11.0]), cell(&[20.0, 40.0, 20.0]));
        let ratio = Ratio::of(&own, &other, Part::Pair).unwrap();
        assert_eq!((ratio.median, ratio.least, ratio.most), (0.5, 0.5, 0.55));
        assert!(!ratio.is_undecided());
        let back = Ratio::of(&cell(&[1.0, 3.0]), &cell(&[2.0, 2.0]), Part::Pair).unwrap();
        assert!(back.is_undecided());
    }

    #[test]
    fn what_was_disturbed_or_not_done_has_no_ratio() {
        let calm = cell(&[1.0, 1.0]);
        let disturbed = Cell {
            is_disturbed: true,
            ..calm.clone()
        };
        assert_eq!(Ratio::of(&calm, &disturbed, Part::Pair), None);
        assert_eq!(Ratio::of(&calm, &cell(&[1.0]), Part::Pair), None);
        assert_eq!(Ratio::of(&calm, &Cell::default(), Part::Pair), None);
        assert_eq!(Ratio::of(&calm, &calm, Part::Free), None);
    }
}
