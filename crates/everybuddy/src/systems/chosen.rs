//! The systems of a library that has not all of them.
//!
//! The variable `EVERYBUDDY_ONLY` names them when the library is compiled, such as `everybuddy,bs`. With a system come
//! those that have the same layers, which the list in `mod.rs` calls a composition. If options of a system select
//! another one, the variable names that: `PcpLocked` for `linux-6+percpu=locked`. What is left out is
//! [`BuildError::NotCompiled`](crate::BuildError::NotCompiled) by name, and its code is not in the program. A system
//! that is built by its type needs no such choice.

use super::{COMPOSITION_NAMES, ROWS};

const NAMES: Option<&str> = match option_env!("EVERYBUDDY_ONLY") {
    Some(list) if !list.is_empty() => Some(list),
    _ => None,
};

const _: () = {
    if let Some(list) = NAMES {
        let (mut at, mut known, mut names) = (0, 0, 1);
        while at < ROWS.len() {
            known += contains(list, ROWS[at].name) as usize;
            at += 1;
        }
        at = 0;
        while at < COMPOSITION_NAMES.len() {
            known += contains(list, COMPOSITION_NAMES[at]) as usize;
            at += 1;
        }
        at = 0;
        while at < list.len() {
            names += (list.as_bytes()[at] == b',') as usize;
            at += 1;
        }
        assert!(
            known == names,
            "EVERYBUDDY_ONLY names a system that does not exist, or one twice: SYSTEMS.md has their names"
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
    if contains(list, composition) {
        return true;
    }
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
        for row in ROWS {
            assert!(
                COMPOSITION_NAMES.contains(&row.built),
                "{}: {}",
                row.name,
                row.built
            );
        }
    }
}
