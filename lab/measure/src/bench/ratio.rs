//! The ratio of two contenders' times, and its reliability.
//!
//! Times on a shared machine drift, but ratios within a round do not.
//!
//! # Invariants
//! A ratio is formed only from two undisturbed times of the same round.

use super::outcome::extremes;
use crate::replay::pace::median;

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
    /// Returns the ratio of two contenders' times, given those of all rounds. Returns `None` if one of the contenders
    /// cannot run the workload.
    pub fn of(own: &[f64], other: &[f64]) -> Option<Ratio> {
        if own.len() != other.len() {
            return None;
        }
        let ratios = own.iter().zip(other).map(|(own, other)| own / other);
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

    #[test]
    fn ratios_are_formed_within_rounds() {
        // The machine is twice as slow in the second round: the ratio doesn't care.
        let ratio = Ratio::of(&[10.0, 20.0, 11.0], &[20.0, 40.0, 20.0]).unwrap();
        assert_eq!((ratio.median, ratio.least, ratio.most), (0.5, 0.5, 0.55));
        assert!(!ratio.is_undecided());
        assert!(Ratio::of(&[1.0, 3.0], &[2.0, 2.0]).unwrap().is_undecided());
        assert_eq!(Ratio::of(&[1.0, 1.0], &[1.0]), None);
        assert_eq!(Ratio::of(&[], &[]), None);
    }
}
