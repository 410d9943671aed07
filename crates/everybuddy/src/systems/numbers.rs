//! The values of options that are numbers: what is in range, and how each is read and written.
//!
//! # Invariants
//! A number out of range cannot be created. No floating point is used, which a kernel does not have.

use core::fmt;

use crate::frame::Order;

use super::values::OptionValue;

/// A number that an option does not take.
///
/// It is an error, and not `None`: in [`Options`](super::Options), `None` leaves the choice to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The values that the option takes.
    pub needs: &'static str,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value must be {}", self.needs)
    }
}

impl core::error::Error for OutOfRange {}

/// Returns an error unless a number is in range.
const fn in_range(is: bool, needs: &'static str) -> Result<(), OutOfRange> {
    if is {
        Ok(())
    } else {
        Err(OutOfRange { needs })
    }
}

/// A number of frames, or of blocks: 1 to 2^20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(u32);

impl Count {
    /// The largest.
    pub const MAX: u32 = 1 << 20;

    /// Creates a count.
    ///
    /// # Errors
    /// [`OutOfRange`] outside 1 to [`MAX`](Self::MAX).
    pub const fn new(count: u32) -> Result<Self, OutOfRange> {
        match in_range(count >= 1 && count <= Self::MAX, Self::VALUES) {
            Ok(()) => Ok(Self(count)),
            Err(error) => Err(error),
        }
    }

    /// Creates the count of a row's preset. A wrong one does not compile.
    pub(super) const fn preset(count: u32) -> Self {
        assert!(count >= 1 && count <= Self::MAX);
        Self(count)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl OptionValue for Count {
    const VALUES: &'static str = "a number, 1 to 1048576";

    fn parse(text: &str) -> Option<Self> {
        Self::new(text.parse().ok()?).ok()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The inverse of a share of memory: 8 to 2^20. Linux refuses shares above an eighth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(u32);

impl Fraction {
    /// Creates a fraction.
    ///
    /// # Errors
    /// [`OutOfRange`] outside 8 to 2^20.
    pub const fn new(fraction: u32) -> Result<Self, OutOfRange> {
        match in_range(fraction >= 8 && fraction <= 1 << 20, Self::VALUES) {
            Ok(()) => Ok(Self(fraction)),
            Err(error) => Err(error),
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl OptionValue for Fraction {
    const VALUES: &'static str = "a number, 8 to 1048576";

    fn parse(text: &str) -> Option<Self> {
        Self::new(text.parse().ok()?).ok()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl OptionValue for Order {
    const VALUES: &'static str = "an order, 0 to 18";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::new)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The slots of a queue: a power of two up to 2^16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots(u32);

impl Slots {
    /// Creates a number of slots.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is not a power of two up to 2^16.
    pub const fn new(slots: u32) -> Result<Self, OutOfRange> {
        match in_range(slots.is_power_of_two() && slots <= 1 << 16, Self::VALUES) {
            Ok(()) => Ok(Self(slots)),
            Err(error) => Err(error),
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl OptionValue for Slots {
    const VALUES: &'static str = "a power of two up to 65536";

    fn parse(text: &str) -> Option<Self> {
        Self::new(text.parse().ok()?).ok()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A ratio from 0 to 1/2, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u32);

impl Ratio {
    /// One half.
    pub const HALF: Ratio = Ratio(500);

    /// Creates a ratio of thousandths.
    ///
    /// # Errors
    /// [`OutOfRange`] above 500.
    pub const fn new(thousandths: u32) -> Result<Self, OutOfRange> {
        match in_range(thousandths <= Self::HALF.0, Self::VALUES) {
            Ok(()) => Ok(Self(thousandths)),
            Err(error) => Err(error),
        }
    }

    /// Returns the thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl OptionValue for Ratio {
    const VALUES: &'static str = "a ratio from 0 to 0.5";

    fn parse(text: &str) -> Option<Self> {
        if text == "1/2" {
            return Some(Self::HALF);
        }
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = whole.len() + decimals.len() > 0 && whole.bytes().all(|byte| byte == b'0');
        if !is_number || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut digits = decimals.bytes().map(|byte| u32::from(byte - b'0'));
        let thousandths = (0..3).fold(0, |sum, _| sum * 10 + digits.next().unwrap_or(0));
        let next = digits.next().unwrap_or(0);
        let is_above = thousandths == Self::HALF.0 && (next > 0 || digits.any(|digit| digit > 0));
        Self::new(thousandths + u32::from(next >= 5))
            .ok()
            .filter(|_| !is_above)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.0 % 100, self.0 % 10) {
            (0, ..) => write!(f, "0"),
            (tenths, 0, _) => write!(f, "0.{}", tenths / 100),
            (hundredths, _, 0) => write!(f, "0.{:02}", hundredths / 10),
            (thousandths, ..) => write!(f, "0.{thousandths:03}"),
        }
    }
}

/// The size of a buddy space: frames, a power of two up to 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceFrames(u32);

/// Units of a space's size, in frames of 4 KiB; 0 stands for a quarter of a frame.
const UNITS: [(&str, u32); 3] = [("KiB", 0), ("MiB", 1 << 8), ("GiB", 1 << 18)];

impl SpaceFrames {
    /// Creates a size.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is not a power of two.
    pub const fn new(frames: u32) -> Result<Self, OutOfRange> {
        match in_range(frames.is_power_of_two(), Self::VALUES) {
            Ok(()) => Ok(Self(frames)),
            Err(error) => Err(error),
        }
    }

    /// Returns the frames.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl OptionValue for SpaceFrames {
    const VALUES: &'static str = "a power of two of memory, like 4MiB or 64MiB";

    fn parse(text: &str) -> Option<Self> {
        let (unit, frames) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
        match frames {
            // A frame has 4 KiB.
            0 if number.is_multiple_of(4) => Self::new(number / 4).ok(),
            0 => None,
            frames => Self::new(number.checked_mul(*frames)?).ok(),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &&(&str, u32)| unit.1 > 0 && self.0.is_multiple_of(unit.1);
        match UNITS.iter().rev().find(fits) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}KiB", self.0 * 4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    struct Written<V>(V);

    impl<V: OptionValue> fmt::Display for Written<V> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write(f)
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for thousandths in 0..=500 {
            let ratio = Ratio::new(thousandths).unwrap();
            assert_eq!(Ratio::parse(&Written(ratio).to_string()), Some(ratio));
        }
        for shift in 0..=31 {
            let space = SpaceFrames::new(1 << shift).unwrap();
            assert_eq!(SpaceFrames::parse(&Written(space).to_string()), Some(space));
        }
        for (text, frames) in [
            ("4KiB", 1),
            ("1024KiB", 256),
            ("1MiB", 256),
            ("64GiB", 1 << 24),
            ("8192GiB", 1 << 31),
            ("16384GiB", 0),
        ] {
            assert_eq!(
                SpaceFrames::parse(text),
                SpaceFrames::new(frames).ok(),
                "{text}"
            );
        }
        // A half is rounded up, and 0.0196 to 20 thousandths.
        for (text, thousandths) in [
            ("0.0196", 20),
            ("0.0195", 20),
            ("0.0194999", 19),
            ("0.49999", 500),
            ("0.50000", 500),
            ("00.25", 250),
            (".1", 100),
            ("0", 0),
        ] {
            assert_eq!(Ratio::parse(text), Ratio::new(thousandths).ok(), "{text}");
        }
    }

    #[test]
    fn numbers_beyond_their_range_are_refused() {
        // The number of MiB is such that its frames, modulo 2^32, would be those of one MiB.
        for text in ["6KiB", "2KiB", "3MiB", "16384GiB", "16777217MiB", "4"] {
            assert_eq!(SpaceFrames::parse(text), None, "{text}");
        }
        for text in [
            "0.501", "0.5001", "0.500001", "0.9", "1.1", "-0.1", "0.1.1", ".", "", "0.1x", "NaN",
            "inf",
        ] {
            assert_eq!(Ratio::parse(text), None, "{text}");
        }
        assert_eq!((Count::parse("0"), Count::parse("1048577")), (None, None));
        assert_eq!(Count::parse("1048576").map(Count::get), Some(Count::MAX));
        assert_eq!((Slots::parse("3"), Slots::parse("131072")), (None, None));
        assert_eq!(Slots::parse("65536").map(Slots::get), Some(1 << 16));
    }
    #[test]
    fn a_number_out_of_range_is_an_error_that_says_what_is_in_range() {
        // `None` would leave the choice to the system.
        let needs = |result: Result<u32, OutOfRange>| result.map_err(|error| error.needs);
        let counts =
            [0, 1, Count::MAX, Count::MAX + 1].map(|n| needs(Count::new(n).map(Count::get)));
        let refused = Err("a number, 1 to 1048576");
        assert_eq!(counts, [refused, Ok(1), Ok(Count::MAX), refused]);
        let fractions = [0, 1, 7, 8, 1 << 20].map(|n| needs(Fraction::new(n).map(Fraction::get)));
        let refused = Err("a number, 8 to 1048576");
        assert_eq!(fractions, [refused, refused, refused, Ok(8), Ok(1 << 20)]);
        assert!(Ratio::new(501).is_err() && Slots::new(3).is_err() && SpaceFrames::new(3).is_err());
        let text = Count::new(0).unwrap_err().to_string();
        assert_eq!(text, "the value must be a number, 1 to 1048576");
    }
}
