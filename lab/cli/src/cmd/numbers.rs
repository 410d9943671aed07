//! Numbers on the command line.
//!
//! A number that an option cannot use is refused with what the option takes.
//!
//! # Invariants
//! A message contains no word of the parser.

/// Parses a number of threads. The command checks the largest.
pub(super) fn threads(text: &str) -> Result<u16, String> {
    let single = text.split(['-', '.', ',', ':']).count() == 1;
    text.parse().map_err(|_| {
        if single {
            "pass a number of threads, such as 2".to_string()
        } else {
            "pass a number of threads, such as 2, and not the numbers or a range of CPUs"
                .to_string()
        }
    })
}

/// Parses a number of calls or requests.
pub(super) fn at_least_one(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        "pass a whole number from 1 on; leave the option out to select all".to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_is_taken() {
        assert_eq!(threads("2"), Ok(2));
        for text in ["1-4", "0..4", "0,1"] {
            assert!(threads(text).unwrap_err().contains("range"), "{text}");
        }
        assert!(!threads("two").unwrap_err().contains("range"));
        assert_eq!(at_least_one("1"), Ok(1));
        for text in ["0", "-1", "all", ""] {
            assert!(at_least_one(text).is_err(), "{text}");
        }
    }
}
