//! Rows of `/proc/buddyinfo`, `/proc/pagetypeinfo` and `/proc/zoneinfo`.
//!
//! Several readers need different fields of these files.
//!
//! # Invariants
//! A row that has another form is `None`, never a guess.

/// The row that begins a zone, or that contains its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRow<'a> {
    /// The number of the node.
    pub node: u32,
    /// The name of the zone, with the comma of a row that goes on with a type.
    pub zone: &'a [u8],
    /// What follows the name.
    pub rest: &'a [u8],
}

/// Reads `Node 0, zone   Normal`, and keeps the rest of the row.
#[must_use]
pub fn zone_row(text: &[u8]) -> Option<ZoneRow<'_>> {
    let words = text.trim_ascii_start().strip_prefix(b"Node")?;
    let (digits, words) = digits(words.trim_ascii_start());
    let node = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let words = words.strip_prefix(b",")?.trim_ascii_start();
    let words = words.strip_prefix(b"zone")?.trim_ascii_start();
    let (zone, rest) = word(words)?;
    Some(ZoneRow { node, zone, rest })
}

/// Splits a text after its first word, which has at most 32 bytes.
#[must_use]
pub fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(u8::is_ascii_whitespace);
    let end = end.unwrap_or(text.len());
    (end > 0 && end <= 32).then(|| text.split_at(end))
}

/// Splits a text after the digits at its begin, of which there may be none.
#[must_use]
pub fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    text.split_at(text.iter().take_while(is_digit).count())
}

/// Reads a row of a zone in `/proc/zoneinfo`, such as `managed  758582`, `high: 378` or `pages free 17272`, which is
/// named `free`.
#[must_use]
pub fn zone_field(text: &str) -> Option<(&str, u64)> {
    let mut words = text.split_whitespace();
    let mut name = words.next()?;
    if name == "pages" {
        name = words.next().filter(|name| *name == "free")?;
    }
    Some((name, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_kernels_print_them() {
        let row = zone_row(b"Node 1, zone   Normal  5 0").unwrap();
        assert_eq!(
            (row.node, row.zone, row.rest),
            (1, &b"Normal"[..], &b"  5 0"[..])
        );
        let text = b"Node    0, zone   Normal, type      Movable >100000";
        assert_eq!(zone_row(text).unwrap().zone, b"Normal,");
        for text in [
            "",
            "Node",
            "Node x, zone DMA",
            "Node 0 zone DMA",
            "Node 0, zone ",
        ] {
            assert_eq!(zone_row(text.as_bytes()), None, "{text}");
        }
        assert_eq!(zone_field("  pages free     21173"), Some(("free", 21173)));
        assert_eq!(zone_field("   high:  378"), Some(("high:", 378)));
        for text in [
            "",
            "pagesets",
            "pages scanned 5",
            "pages free",
            "low x",
            "min -1",
        ] {
            assert_eq!(zone_field(text), None, "{text}");
        }
    }
}
