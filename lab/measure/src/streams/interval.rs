//! The mean over several seeds, and its confidence interval.
//!
//! A difference between two policies is not significant if it is smaller than the difference between two seeds.
//!
//! # Invariants
//! The interval of a single number is unknown, not zero.

/// A mean with the half width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width; NaN for a single value.
    pub half: f64,
}

/// The two-sided 95 % quantiles of Student's distribution, by degrees of freedom from 1.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Interval {
    /// Summarizes independent values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Interval> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let free = values.len() - 1;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = match free {
            0 => f64::NAN,
            _ => {
                let error = (squares / free as f64 / count).sqrt();
                STUDENT.get(free - 1).copied().unwrap_or(1.96) * error
            }
        };
        Some(Interval { mean, half })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(Interval::of(&[]), None);
        assert!(Interval::of(&[1.0]).is_some_and(|own| own.mean == 1.0 && own.half.is_nan()));
        // A standard deviation of 1 over three values.
        let own = Interval::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(own.mean, 2.0);
        assert!((own.half - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(Interval::of(&[5.0; 40]).unwrap().half, 0.0);
    }
}
