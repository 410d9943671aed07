//! Parses and formats amounts of memory.
//!
//! `--memory 512MiB` has the same meaning everywhere, and the error for any other syntax shows an example.
//!
//! # Invariants
//! Frames are 4 KiB; units are powers of 1024, with or without the `i`.

use std::str::FromStr;

use everybuddy_text::size;
pub use everybuddy_text::size::grouped as count;
use everybuddy_trace::PAGE_SHIFT;

/// An amount of memory in whole frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Frames of 4 KiB.
    pub frames: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let refuse =
            |why: &str| format!("`{text}` {why}; write a size such as 512MiB, 2GiB or 64M");
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: u64 = number
            .parse()
            .map_err(|_| refuse("is not a number with a unit"))?;
        let unit = unit.trim();
        let why = if unit.is_empty() {
            "has no unit"
        } else {
            "has an unknown unit"
        };
        let shift = size::unit(unit).filter(|shift| *shift > 0);
        let shift = shift.ok_or_else(|| refuse(why))?;
        let bytes = number
            .checked_mul(1 << shift)
            .ok_or_else(|| refuse("is too large"))?;
        match bytes >> PAGE_SHIFT {
            0 => Err(refuse("is less than a frame of 4 KiB")),
            frames => Ok(Size { frames }),
        }
    }
}

/// Formats a number of frames with a unit that keeps three digits: `76 MiB`, `1.2 GiB`.
pub fn frames(frames: u64) -> String {
    bytes((frames as f64) * f64::from(1u32 << PAGE_SHIFT))
}

/// Formats a number of bytes with a unit that keeps three digits.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match value {
        v if v >= 9.95 || v.fract() == 0.0 => format!("{v:.0} {}", UNITS[unit]),
        v => format!("{v:.1} {}", UNITS[unit]),
    }
}

/// Formats a number of CPUs: `1 CPU`, `2 CPUs`.
pub fn cpus(number: u64) -> String {
    match number {
        1 => "1 CPU".to_string(),
        number => format!("{number} CPUs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, frames) in [
            ("4KiB", 1),
            ("512MiB", 131_072),
            ("2g", 524_288),
            ("64 M", 16_384),
            ("9k", 2),
        ] {
            assert_eq!(text.parse(), Ok(Size { frames }), "{text}");
        }
        for text in [
            "",
            "12",
            "MiB",
            "3KB ish",
            "-1MiB",
            "1KiB",
            "99999999999999T",
            "1.5GiB",
        ] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.contains("512MiB"), "{error}");
        }
    }

    #[test]
    fn amounts_are_written() {
        assert_eq!(frames(19_456), "76 MiB");
        assert_eq!(frames(262_144 + 52_429), "1.2 GiB");
    }
}
