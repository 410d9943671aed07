//! Count, mean and standard deviation of values that are not stored.
//!
//! Probes receive millions of values in places where they must not allocate memory.
//!
//! # Invariants
//! The sums are integers, so the order of the values does not matter.

/// Sums over some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// The number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The sum of their squares.
    squares: u128,
}

impl Moments {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, number: u64) {
        self.count += 1;
        self.sum += number;
        self.squares += u128::from(number) * u128::from(number);
    }

    /// Adds the numbers of another CPU.
    pub fn join(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Returns the mean, if there were any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the standard deviation, if there were any.
    pub fn stddev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let variance = self.squares as f64 / self.count as f64 - mean * mean;
        Some(variance.max(0.0).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.stddev()), (None, None));
        [1, 3].into_iter().for_each(|number| moments.add(number));
        let mut other = Moments::default();
        [5, 7].into_iter().for_each(|number| other.add(number));
        moments.join(&other);
        assert_eq!(moments.count, 4);
        assert_eq!(moments.mean(), Some(4.0));
        assert_eq!(moments.stddev(), Some(5.0f64.sqrt()));
    }
}
