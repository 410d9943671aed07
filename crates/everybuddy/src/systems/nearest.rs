//! The name that a mistyped one was meant to be.
//!
//! Every error about an unknown name suggests the nearest one, in a kernel without a heap as in the program.

/// The letters of the longest name that is compared.
const LONGEST: usize = 64;

/// Returns the name that is most similar to `text`, if any is similar. Among equally similar names, it prefers the one
/// that differs in hyphens only, then the first. Longer names than 64 letters are not similar.
///
/// O(letters of the text * letters of all names), without a heap.
///
/// ```
/// use everybuddy::systems::nearest;
///
/// let names = ["bs", "is", "lbs-31"];
/// assert_eq!(nearest("LBS31", names), Some("lbs-31"));
/// assert_eq!(nearest("jemalloc", names), None);
/// ```
pub fn nearest<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let near = |name: &'n str| {
        let differs = !letters(name).eq(letters(text).flat_map(char::to_lowercase));
        Some(((distance(text, name)?, differs), name))
    };
    let found = names
        .into_iter()
        .filter_map(near)
        .min_by_key(|found| found.0);
    let ((distance, _), name) = found?;
    (distance <= 1 + text.len() / 3).then_some(name)
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(char::is_ascii_alphanumeric)
}

/// Returns how many letters must be inserted, removed or replaced to make `name` of the text in lower case. Returns
/// `None` for a name that is too long.
fn distance(text: &str, name: &str) -> Option<usize> {
    // The distances of the text so far from each beginning of the name.
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|place| place);
    let row = row.get_mut(..=name.chars().count())?;
    for (done, own) in text.chars().flat_map(char::to_lowercase).enumerate() {
        let mut before = core::mem::replace(&mut row[0], done + 1);
        for (place, letter) in name.chars().enumerate() {
            let replaced = before + usize::from(own != letter);
            before = row[place + 1];
            row[place + 1] = replaced.min(before + 1).min(row[place] + 1);
        }
    }
    row.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_inserted_removed_and_replaced_letters() {
        for (text, name, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("everybudy", "everybuddy", 1),
            ("ABC", "abc", 0),
            ("ab", "ba", 2),
            ("\u{e4}b", "ab", 1),
        ] {
            assert_eq!(distance(text, name), Some(expected), "{text} {name}");
        }
        let long = ["a"; LONGEST + 1].concat();
        assert_eq!(distance("a", &long), None);
        assert_eq!(distance(&long, &long[1..]), Some(1));
    }

    #[test]
    fn a_name_that_differs_in_hyphens_only_is_nearer() {
        assert_eq!(nearest("linux6", ["linux", "linux-6"]), Some("linux-6"));
        assert_eq!(nearest("b", []), None);
        assert_eq!(nearest("bss", ["is", "bs"]), Some("bs"));
        assert_eq!(nearest("jemalloc", ["bs", "lbs-31"]), None);
    }
}
