//! Sizes in units of 1024, and numbers with separators.
//!
//! Users write and read `32MiB`.
//!
//! # Invariants
//! [`parse`] reads everything that [`shown`] writes for whole units.

/// Reads `4096`, `64KiB`, `2 MiB`, `1G`. Units of 1000 do not exist here.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    number.checked_mul(1 << unit(text[digits..].trim())?)
}

/// Returns the binary logarithm of a unit in bytes, in capitals or not: 10 for `k`, `kb` and `kib`.
#[must_use]
pub fn unit(name: &str) -> Option<u32> {
    Some(match name.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    })
}

/// Writes a size with at most one decimal.
#[must_use]
pub fn shown(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = 0;
    while unit + 1 < units.len() && bytes >> (10 * (unit + 1)) > 0 {
        unit += 1;
    }
    let whole = bytes >> (10 * unit);
    let rest = bytes - (whole << (10 * unit));
    let tenths = if unit == 0 {
        0
    } else {
        (rest >> (10 * (unit - 1))) * 10 / 1024
    };
    if tenths == 0 || whole >= 100 {
        format!("{whole} {}", units[unit])
    } else {
        format!("{whole}.{tenths} {}", units[unit])
    }
}

/// Writes a number with a comma between groups of three digits: `431,168`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64KiB", 65536),
            ("2 MiB", 2 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(parse(text), Some(bytes));
        }
        assert_eq!(parse("1x"), None);
        assert_eq!(parse("99999999999T"), None);
        assert_eq!(shown(4096), "4 KiB");
        assert_eq!(shown(1536), "1.5 KiB");
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(u64::MAX), "15.9 EiB");
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
