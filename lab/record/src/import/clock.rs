//! The times of lines, on the clocks of all tools.
//!
//! Most lines have seconds with a fraction. The kernel's clocks `counter` and `x86-tsc` have plain numbers, its latency
//! format has microseconds, perf may write the time of day, and some lines have no time at all.
//!
//! # Invariants
//! A number without a unit is never taken for seconds: it is a [`Clock::Count`].

/// The clock of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clock {
    /// A real time, in nanoseconds.
    Time,
    /// A count without a unit, of which only the order is known.
    Count,
    /// The line has no time.
    #[default]
    Missing,
}

const SECOND: u64 = 1_000_000_000;

/// Parses `seconds.fraction:` with up to nine decimal places as nanoseconds.
pub(crate) fn seconds(word: &str) -> Option<u64> {
    decimal(word.strip_suffix(':')?)
}

/// Parses `seconds.fraction` with up to nine decimal places as nanoseconds.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !is_digits(fraction) {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let nanos = fraction.parse::<u64>().ok()? * scale;
    digits(seconds)?.checked_mul(SECOND)?.checked_add(nanos)
}

/// Parses a count, `369060000:`.
pub(crate) fn count(word: &str) -> Option<u64> {
    digits(word.strip_suffix(':')?)
}

/// Parses the time of the kernel's latency format, `889213383us`, as nanoseconds. The colon and a mark of the time
/// since the previous line, as in `12us+:`, may follow or be the `next` word. Returns the length of both words.
pub(crate) fn microseconds(word: &str, next: &str) -> Option<(u64, usize)> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (number, mark) = word.split_once("us")?;
    let words = match (mark, next) {
        (":" | "+:" | "!:" | "#:" | "*:" | "@:" | "$:", _) => 1,
        ("", ":") => 2,
        _ => return None,
    };
    Some((digits(number)?.checked_mul(1000)?, words))
}

/// Parses a date and a time of day of perf, `2023-01-01` and `12:00:01.632199`, as nanoseconds since 1970.
pub(crate) fn of_day(date: &str, time: &str) -> Option<u64> {
    let mut parts = date.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = time.splitn(3, ':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let nanos = decimal(parts.next()?)?;
    let is_valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && nanos <= 60 * SECOND;
    if !is_valid {
        return None;
    }
    let seconds = (days(year, month, day) * 24 + hour) * 3600 + minute * 60;
    (seconds * SECOND).checked_add(nanos)
}

/// Returns the number of days from 1970 to a date. A year starts in March here, so that the day of a leap year is its
/// last one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    // The first of March of the year 0 is 719,468 days before 1970.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses digits only, without a sign.
pub(crate) fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| is_digits(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clock_has_its_own_form() {
        assert_eq!(seconds("12.000001:"), Some(12_000_001_000));
        assert_eq!(seconds("12:"), None);
        assert_eq!(count("369060000:"), Some(369_060_000));
        assert_eq!(count("+5:"), None);
        assert_eq!(microseconds("12us", ":"), Some((12_000, 2)));
        assert_eq!(microseconds("12us+:", ""), Some((12_000, 1)));
        assert_eq!(microseconds("12us", "x"), None);
        assert_eq!(microseconds("bus:", ""), None);
    }

    #[test]
    fn days_are_counted_from_1970() {
        let second = |date, time| of_day(date, time).map(|nanos| nanos / SECOND);
        assert_eq!(second("1970-01-01", "00:00:00.0"), Some(0));
        assert_eq!(second("2000-03-01", "00:00:00.0"), Some(951_868_800));
        assert_eq!(second("2024-02-29", "23:59:59.5"), Some(1_709_251_199));
        assert_eq!(
            of_day("2023-01-01", "12:00:01.632199"),
            Some(1_672_574_401_632_199_000)
        );
        assert_eq!(second("2023-13-01", "12:00:01.6"), None);
        assert_eq!(second("2023-01-01", "12:00"), None);
    }
}
