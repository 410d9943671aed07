//! Texts of users in messages.
//!
//! A file, a program or a field of a file may be named anything. A message that shows such a name must not control the
//! terminal, nor look like two messages.
//!
//! # Invariants
//! The result contains no control character and no character that changes the direction of text.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;

/// Returns the name of a file, or another text of a user, for a message: invisible characters are escaped.
pub fn shown(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    escaped(&text, |_| false).into_owned()
}

/// Escapes invisible characters, except those that `keeps` accepts.
pub fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_invisible(c) && !keeps(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c)
        }
    }
    Cow::Owned(out)
}

/// Returns `true` for control characters, and for those that change the direction of the text around them.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_and_others_stay() {
        assert_eq!(shown("é ü 漢.parquet"), "é ü 漢.parquet");
        assert_eq!(
            shown("a\x1b[31mb\nc\u{9b}d\u{202e}e"),
            "a\\u{1b}[31mb\\nc\\u{9b}d\\u{202e}e"
        );
        assert_eq!(escaped("a\nb\x07", |c| c == '\n'), "a\nb\\u{7}");
    }
}
