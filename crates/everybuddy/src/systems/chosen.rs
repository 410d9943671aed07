//! The systems of a library that has not all of them.
//!
//! The variable `EVERYBUDDY_SYSTEMS` names them when the library is compiled, such as `everybuddy,linux-6`. Another one
//! is [`BuildError::NotCompiled`](crate::BuildError::NotCompiled) by name, and its code is not in the program. A system
//! that is built by its type needs no such choice.

use super::ROWS;

const NAMES: Option<&str> = option_env!("EVERYBUDDY_SYSTEMS");

const _: () = {
    if let Some(list) = NAMES {
        let (mut row, mut known, mut byte, mut names) = (0, 0, 0, 1);
        while row < ROWS.len() {
            known += contains(list, ROWS[row].name) as usize;
            row += 1;
        }
        while byte < list.len() {
            names += (list.as_bytes()[byte] == b',') as usize;
            byte += 1;
        }
        assert!(
            known == names,
            "EVERYBUDDY_SYSTEMS names a system that does not exist, or one twice: SYSTEMS.md has their names"
        );
    }
};

/// Returns `true` if a list of names that commas separate contains a name.
const fn contains(list: &str, name: &str) -> bool {
    let (list, name) = (list.as_bytes(), name.as_bytes());
    let mut start = 0;
    while start + name.len() <= list.len() {
        let (end, mut equal) = (start + name.len(), 0);
        while equal < name.len() && list[start + equal] == name[equal] {
            equal += 1;
        }
        let begins = start == 0 || list[start - 1] == b',';
        let ends = end == list.len() || list[end] == b',';
        if begins && ends && equal == name.len() {
            return true;
        }
        start += 1;
    }
    false
}

/// Returns `true` if a system of this composition can be built by name.
pub(super) const fn is_compiled(composition: &str) -> bool {
    let Some(list) = NAMES else { return true };
    let mut row = 0;
    while row < ROWS.len() {
        if contains(ROWS[row].built, composition) && contains(list, ROWS[row].name) {
            return true;
        }
        row += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whole() {
        let list = "everybuddy,lbs-31";
        assert!(contains(list, "everybuddy") && contains(list, "lbs-31"));
        for name in ["lbs-3", "bs-31", "every", "bs"] {
            assert!(!contains(list, name), "{name}");
        }
        assert!(!contains("", "bs"));
    }

    #[test]
    fn every_row_names_a_composition_of_the_list() {
        let names = crate::systems::COMPOSITION_NAMES;
        for row in ROWS {
            assert!(names.contains(&row.built), "{}: {}", row.name, row.built);
        }
    }
}
