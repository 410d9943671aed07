//! The records of docs/decisions.md: each one is short, and each one that a file refers to exists.
//!
//! A record that grows becomes a history, and a reference to a record that was removed explains nothing.
//!
//! # Invariants
//! Results are records of their time, and may refer to decisions that no longer bind.

use std::collections::BTreeSet;

use regex::Regex;

use crate::Outcome;

/// The document with the records.
const DOCUMENT: &str = "docs/decisions.md";
/// The lines of the longest record.
const LONGEST_RECORD: usize = 6;

/// Reports records that are too long or exist twice, and references to records that do not exist.
pub(crate) fn check(texts: &[&(String, String)], faults: &mut Vec<String>) -> Outcome<()> {
    let own = texts.iter().find(|(name, _)| name == DOCUMENT);
    let known = records(&own.ok_or("docs/decisions.md does not exist")?.1, faults);
    let reference = Regex::new(r"\bD[0-9]{1,3}\b")?;
    // The tests of this file name records that do not exist.
    let is_exempt = |name: &str| name == "checks/xtask/src/decisions.rs";
    for (name, text) in texts.iter().filter(|own| !is_exempt(&own.0)) {
        for (at, line) in (1..).zip(text.lines()) {
            let numbers = reference.find_iter(line).map(|found| found.as_str());
            for number in numbers.filter(|number| !known.contains(*number)) {
                let what = format!("{DOCUMENT} has no {number}: state the reason instead");
                faults.push(format!("{name}:{at}: decisions: {what}"));
            }
        }
    }
    Ok(())
}

/// Returns the numbers of all records, and reports those that are too long or exist twice.
fn records(text: &str, faults: &mut Vec<String>) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let record = line.strip_prefix("**").map(|line| line.split_once('.'));
        let (at, Some(Some((number, _)))) = (index + 1, record) else {
            continue;
        };
        let mut fault = |what| faults.push(format!("{DOCUMENT}:{at}: decisions: {number} {what}"));
        // A record ends where the next one or a heading begins, whatever paragraphs it has.
        let rest = lines[index + 1..].iter();
        let own = rest.take_while(|next| !next.starts_with("**D") && !next.starts_with('#'));
        let length = 1 + own.filter(|line| !line.is_empty()).count();
        if length > LONGEST_RECORD {
            fault(format!("has {length} lines, at most {LONGEST_RECORD}"));
        }
        if !known.insert(number.to_owned()) {
            fault("exists twice".to_owned());
        }
    }
    known
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

        let text = "As D1 and D20 say.\nMD5, 0xD7 and D10000 are not records, D2 is removed.\n";
        let [records, source] = [(DOCUMENT, short), ("a.rs", text)]
            .map(|(name, text)| (name.to_owned(), text.to_owned()));
        check(&[&records, &source], &mut faults).expect("a document");
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
            "docs/decisions.md:1: decisions: D1 has 7 lines, at most 6",
            "docs/decisions.md:10: decisions: D1 exists twice",
        ];
        assert_eq!(faults, found);
    }
}
