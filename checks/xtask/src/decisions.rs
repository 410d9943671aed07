//! The records of docs/decisions.md: each one is short, and each one that a file refers to exists.
//!
//! A record that grows becomes a history, and a reference to a record that was removed explains nothing.
//!
//! # Invariants
//!
//! Results are records of their time, and may refer to decisions that no longer bind.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use regex::Regex;

/// The document with the records.
const DOCUMENT: &str = "docs/decisions.md";
/// The lines of the longest record.
const LONGEST_RECORD: usize = 6;
/// How the names of files end that may refer to a record.
const REFERRING: [&str; 8] = ["md", "rs", "toml", "sh", "py", "c", "h", "yml"];

/// Reports records that are too long or exist twice, and references to records that do not exist.
pub(crate) fn check(
    root: &Path,
    files: &[String],
    faults: &mut Vec<String>,
) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(root.join(DOCUMENT))?;
    let known = records(&text, faults);
    let reference = Regex::new(r"\bD[0-9]{1,3}\b")?;
    for name in files {
        let ending = name.rsplit('.').next().unwrap_or_default();
        // The tests of this file name records that do not exist.
        let is_exempt = name.starts_with("results/") || name == "checks/xtask/src/decisions.rs";
        if is_exempt || !REFERRING.contains(&ending) {
            continue;
        }
        if let Ok(text) = fs::read_to_string(root.join(name)) {
            references(name, &text, &reference, &known, faults);
        }
    }
    Ok(())
}

/// Returns the numbers of all records, and reports those that are too long or exist twice.
fn records(text: &str, faults: &mut Vec<String>) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((number, _)) = line
            .strip_prefix("**")
            .and_then(|line| line.split_once('.'))
        else {
            continue;
        };
        let mut fault = |what: String| {
            faults.push(format!("{DOCUMENT}:{}: decisions: {what}", index + 1));
        };
        // A record ends where the next one or a heading begins, whatever paragraphs it has.
        let rest = &lines[index + 1..];
        let ends = |next: &&str| next.starts_with("**D") || next.starts_with('#');
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let length = 1 + rest[..end].iter().filter(|line| !line.is_empty()).count();
        if length > LONGEST_RECORD {
            fault(format!(
                "{number} has {length} lines instead of at most {LONGEST_RECORD}"
            ));
        }
        if !known.insert(number.to_owned()) {
            fault(format!("{number} exists twice"));
        }
    }
    known
}

fn references(
    name: &str,
    text: &str,
    reference: &Regex,
    known: &BTreeSet<String>,
    faults: &mut Vec<String>,
) {
    for (index, line) in text.lines().enumerate() {
        for found in reference.find_iter(line) {
            if !known.contains(found.as_str()) {
                let (at, number) = (index + 1, found.as_str());
                faults.push(format!(
                    "{name}:{at}: decisions: {DOCUMENT} has no {number}: state the reason instead"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_short_and_what_refers_to_one_finds_it() {
        let short = "# Decisions\n\n**D1. A rule.** A reason.\n\n**D20. A rule** and a reason.\n";
        let mut faults = Vec::new();
        let known = records(short, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(known.len(), 2);

        let reference = Regex::new(r"\bD[0-9]{1,3}\b").expect("a pattern");
        let text = "As D1 and D20 say.\nMD5, 0xD7 and D10000 are not records, D2 is removed.\n";
        references("a.rs", text, &reference, &known, &mut faults);
        let dead = "a.rs:2: decisions: docs/decisions.md has no D2: state the reason instead";
        assert_eq!(faults, [dead]);
    }

    #[test]
    fn long_records_and_repeated_numbers_are_faults() {
        let mut faults = Vec::new();
        let paragraphs = "**D1. A rule.** One.\n\ntwo\nthree\nfour\nfive\nsix\n\n## Next\n\n";
        records(paragraphs, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let long =
            format!("**D1. A rule.** One.\ntwo\nthree\nfour\nfive\n\nsix\nseven\n\n{paragraphs}");
        records(&long, &mut faults);
        let found = [
            "docs/decisions.md:1: decisions: D1 has 7 lines instead of at most 6",
            "docs/decisions.md:10: decisions: D1 exists twice",
        ];
        assert_eq!(faults, found);
    }
}
