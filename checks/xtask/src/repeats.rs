//! Rejects a constant or a type that has the name of another one in the same crate: rule `one-meaning`.
//!
//! A reader who has met a constant or a type takes its name for the same thing in the next file. The rule looks at the
//! crates that people link, outside of tests and of `impl` blocks. Items that mean the same belong in one place.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::graph::without_tests;

/// Names that files share on purpose: what each allocator or family of rows defines for itself.
const SHARED: [&str; 5] = [
    "DEVIATES",
    "FAITHFUL",
    "Geometry",
    "LARGEST_TREE",
    "SMALLEST_TREE",
];

/// Reports each name that a second file of a crate defines.
pub(crate) fn check(
    root: &Path,
    files: &[String],
    faults: &mut Vec<String>,
) -> Result<(), Box<dyn Error>> {
    let mut firsts = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let Some((package, inside)) = file.split_once("/src/") else {
            continue;
        };
        let path = root.join(file);
        if !package.starts_with("crates/") || inside.contains("tests") || !path.is_file() {
            continue;
        }
        let (code, _) = without_tests(&fs::read_to_string(path)?);
        for name in code.lines().filter_map(defined) {
            let first = firsts.entry((package, name.to_owned())).or_insert(file);
            if *first != file && !SHARED.contains(&name) {
                faults.push(format!(
                    "{file}:1: one-meaning: {first} defines `{name}`, too: name each after what it is, or share one"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the name of the constant or the type that a line of a module defines.
fn defined(line: &str) -> Option<&str> {
    let item = ["pub ", "pub(crate) ", "pub(super) "]
        .iter()
        .find_map(|start| line.strip_prefix(start));
    let (kind, rest) = item.unwrap_or(line).split_once(' ')?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    let kinds = ["const", "static", "struct", "enum", "trait", "type"];
    let is_named = rest.starts_with(|letter: char| letter.is_ascii_uppercase());
    (kinds.contains(&kind) && is_named).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::defined;

    #[test]
    fn items_of_a_module_are_found_and_others_are_not() {
        for (line, name) in [
            ("const FEW: u32 = 4;", Some("FEW")),
            ("pub(crate) struct Place<'a>(&'a u8);", Some("Place")),
            ("pub trait Load {", Some("Load")),
            ("    const FEW: u32 = 4;", None),
            ("pub const fn new() -> Self {", None),
            ("use super::Place;", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
    }
}
