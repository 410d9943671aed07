//! Parses and formats times.
//!
//! `--from 1.5s` requires no counting of zeros.
//!
//! # Invariants
//! Times are whole nanoseconds; finer times are rejected, not rounded.

use std::fmt;
use std::str::FromStr;

/// A time since the start of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Nanoseconds.
    pub nanos: u64,
}

/// Units and their number of decimal places down to nanoseconds; longer names first.
const UNITS: [(&str, usize); 5] = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let refuse =
            |why: &str| format!("`{text}` {why}; write a time such as 1.5s, 200ms, 30us or 400ns");
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
        let Some((unit, decimals)) = unit else {
            return Err(refuse("has no unit"));
        };
        let number = text[..text.len() - unit.len()].trim_end();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fraction = fraction.trim_end_matches('0');
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return Err(refuse("is not a number with a unit"));
        }
        if fraction.len() > *decimals {
            return Err(refuse("is finer than a nanosecond"));
        }
        let digits = format!("{whole}{fraction:0<decimals$}");
        let nanos = digits.parse().map_err(|_| refuse("is too large"))?;
        Ok(Time { nanos })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.nanos as f64;
        match self.nanos {
            0..1_000 => write!(out, "{} ns", self.nanos),
            1_000..1_000_000 => write!(out, "{:.1} us", nanos / 1e3),
            1_000_000..1_000_000_000 => write!(out, "{:.1} ms", nanos / 1e6),
            _ => write!(out, "{:.1} s", nanos / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, nanos) in [
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("200ms", 200_000_000),
            ("30us", 30_000),
            ("30 µs", 30_000),
            ("400ns", 400),
            ("1.000s", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Time { nanos }), "{text}");
        }
        for text in [
            "",
            "1",
            "s",
            "-1s",
            "1.5ns",
            "1e3s",
            "99999999999s",
            "1.2.3s",
        ] {
            let error = text.parse::<Time>().unwrap_err();
            assert!(error.contains("200ms"), "{error}");
        }
    }
}
