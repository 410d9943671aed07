//! Rounds numbers to the digits that matter.
//!
//! Digits that are invisible on a chart would make up most of the size of the page.
//!
//! # Invariants
//! A missing number stays null; no other number becomes null.

use serde::{Serialize, Serializer};

/// Rounds to a number of significant digits.
fn significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = digits - 1 - value.abs().log10().floor() as i32;
    match places {
        // A division by a power of ten is exact to the last digit; a multiplication by 0.1 is not.
        300.. => value,
        0.. => {
            let scale = 10f64.powi(places);
            (value * scale).round() / scale
        }
        _ => {
            let scale = 10f64.powi(-places);
            (value / scale).round() * scale
        }
    }
}

/// A number that is written without a fraction if it is an integer: `12`, not `12.0`.
#[derive(Serialize)]
#[serde(untagged)]
enum Short {
    Whole(i64),
    Fraction(f64),
}

fn short(value: f64, digits: i32) -> Option<Short> {
    let value = significant(value, digits);
    match value {
        v if !v.is_finite() => None,
        v if v.fract() == 0.0 && v.abs() < 9e15 => Some(Short::Whole(v as i64)),
        v => Some(Short::Fraction(v)),
    }
}

/// Serializes a number with five digits.
pub(crate) fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    short(*value, 5).serialize(serializer)
}

/// Serializes times with three digits: a pixel of a chart is coarser.
pub(crate) fn times<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| short(*value, 3)))
}

/// Serializes shares with four decimal places.
pub(crate) fn shares<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| place(*value)))
}

/// Serializes lists of shares with four decimal places.
pub(crate) fn lists_of_shares<S: Serializer>(
    lists: &[Vec<f64>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let rounded = |list: &Vec<f64>| list.iter().map(|v| place(*v)).collect::<Vec<_>>();
    serializer.collect_seq(lists.iter().map(rounded))
}

fn place(value: f64) -> Option<Short> {
    short((value * 1e4).round() / 1e4, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64, digits: i32) -> String {
        serde_json::to_string(&short(value, digits)).unwrap()
    }

    #[test]
    fn digits_are_left_out_and_no_more() {
        assert_eq!(text(12.345, 3), "12.3");
        assert_eq!(text(0.000_123_45, 3), "0.000123");
        assert_eq!(text(123_456.0, 3), "123000");
        assert_eq!(text(-9.999, 3), "-10");
        assert_eq!(text(0.0, 3), "0");
        assert_eq!(text(f64::NAN, 3), "null");
        assert_eq!(text(f64::INFINITY, 3), "null");
        assert!(text(1.2e-280, 3).parse::<f64>().unwrap() > 0.0);
    }

    #[test]
    fn shares_have_four_places() {
        assert_eq!(serde_json::to_string(&place(0.333_333)).unwrap(), "0.3333");
        assert_eq!(serde_json::to_string(&place(0.000_01)).unwrap(), "0");
        assert_eq!(serde_json::to_string(&place(1.0)).unwrap(), "1");
    }
}
