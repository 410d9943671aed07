//! Determines the arena in which a manager fails as often as a paper reports.
//!
//! The paper prints the failure rate of each policy, but not the size of its arena. One number has to be fitted; the
//! others are then predictions.
//!
//! # Invariants
//! Uses one manager and one kind of traffic only.

/// An evaluated arena.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Units of the arena.
    pub units: u32,
    /// The share of failed requests.
    pub refused: f64,
}

/// Finds the multiple of `step` between `from` and `to` (both such multiples) at which the share of failed requests
/// is nearest to `target` in ratio, assuming that it decreases with the size of the arena. Returns it with all
/// evaluated points, in order. O(log((to - from) / step)) evaluations.
///
/// # Errors
/// Returns any error of `refused`.
pub fn fit<E>(
    target: f64,
    (from, to): (u32, u32),
    step: u32,
    mut refused: impl FnMut(u32) -> Result<f64, E>,
) -> Result<(Point, Vec<Point>), E> {
    let mut seen: Vec<Point> = Vec::new();
    let mut look = |units| {
        let point = Point {
            units,
            refused: refused(units)?,
        };
        seen.push(point);
        Ok(point)
    };
    let (mut low, mut high) = (look(from)?, look(to)?);
    while high.units - low.units > step {
        let middle = look(low.units + (high.units - low.units) / step / 2 * step)?;
        if middle.refused > target {
            low = middle
        } else {
            high = middle
        }
    }
    // A failure rate of zero is infinitely far from any target.
    let distance = |point: &Point| (point.refused / target).ln().abs();
    let found = if distance(&low) < distance(&high) {
        low
    } else {
        high
    };
    Ok((found, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found() {
        // Decreases by a factor of two per step of 32.
        let refused = |units: u32| Ok::<f64, ()>(0.5f64.powf(f64::from(units) / 32.0));
        for wanted in [3u32, 10, 17] {
            for off in [0.8, 1.0, 1.3] {
                let target = 0.5f64.powi(wanted as i32) * off;
                let (found, seen) = fit(target, (0, 32 * 20), 32, refused).unwrap();
                assert_eq!(found.units, 32 * wanted);
                assert!(seen.len() <= 7);
            }
        }
        let stops = fit(0.5, (0, 64), 32, |_| Err::<f64, _>("broken"));
        assert_eq!(stops.unwrap_err(), "broken");
    }
}
