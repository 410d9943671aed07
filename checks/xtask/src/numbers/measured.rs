//! Measured numbers in documents that no result fills.
//!
//! # Purpose
//!
//! A number that is written by hand stays when the measurement changes. A measured number is a number with a unit of
//! time, a percentage, a ratio ("times"), or a cell of a table that consists of numbers. It must lie in a mark, or be
//! exempted in `checks/xtask/numbers.txt` with one of two reasons:
//!
//! ```text
//! # docs/coalescing.md
//! paper: (the paper: 6%)          a figure of a source
//! parameter: pauses of 10 us      a setting, a definition, or arithmetic on them
//! open: 12                        how many others the document may still have; the count may only fall
//! ```
//!
//! # Invariants
//!
//! An exemption that the document does not contain is a fault, so the list does not outlive its numbers.

use std::error::Error;
use std::fs;
use std::path::Path;

use regex::Regex;

use super::without_marks;

/// The list of documents and exemptions.
const LIST: &str = "checks/xtask/numbers.txt";

/// The exemptions of a document.
#[derive(Debug, Default, PartialEq)]
struct Listed {
    document: String,
    exempt: Vec<String>,
    open: usize,
}

/// Reports measured numbers that are neither filled nor exempt.
pub(super) fn check(root: &Path, faults: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    let finder = Finder::new()?;
    for own in listed(&fs::read_to_string(root.join(LIST))?) {
        let text = fs::read_to_string(root.join(&own.document))?;
        let found = finder.found(&text, &own.exempt);
        for exempt in &own.exempt {
            if !visible(&text).contains(exempt.as_str()) {
                faults.push(format!(
                    "{LIST}:1: numbers: {} has no `{exempt}`",
                    own.document
                ));
            }
        }
        if found.len() > own.open {
            for (line, number) in found {
                let what = "comes from no result: fill it, or exempt it";
                faults.push(format!(
                    "{}:{line}: numbers: `{number}` {what}",
                    own.document
                ));
            }
        }
    }
    Ok(())
}

/// Lists the measured numbers of a document that are neither filled nor exempt.
pub(crate) fn list(root: &Path, document: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let all = listed(&fs::read_to_string(root.join(LIST))?);
    let own = all
        .into_iter()
        .find(|own| own.document == document)
        .unwrap_or_default();
    let text = fs::read_to_string(root.join(document))?;
    let found = Finder::new()?.found(&text, &own.exempt);
    let line = |(line, number): (usize, String)| format!("{document}:{line}: {number}");
    Ok(found.into_iter().map(line).collect())
}

fn listed(text: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for line in text.lines() {
        if let Some(document) = line.strip_prefix("# docs/") {
            all.push(Listed {
                document: format!("docs/{document}"),
                ..Listed::default()
            });
        }
        let Some(own) = all.last_mut() else { continue };
        match line.split_once(": ") {
            Some(("paper" | "parameter", text)) => own.exempt.push(text.to_owned()),
            Some(("open", count)) => own.open = count.parse().unwrap_or(0),
            _ => {}
        }
    }
    all
}

/// Returns the text as a reader sees it, with one space for a line break.
fn visible(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(without_marks).collect();
    lines.join(" ")
}

/// The patterns of measured numbers.
struct Finder {
    unit: Regex,
    cell: Regex,
    span: Regex,
    code: Regex,
}

impl Finder {
    fn new() -> Result<Self, regex::Error> {
        let number = r"[-±≤~]?\d[\d,]*(\.\d+)?";
        Ok(Self {
            unit: Regex::new(&format!(
                r"{number}( to {number})?( ?(%|ns|µs|us|ms|GHz)| (s|seconds?|minutes?|times|cycles|instructions)\b)"
            ))?,
            cell: Regex::new(&format!(r"^[\s(*]*{number}"))?,
            span: Regex::new("<!--= .*?<!--/-->")?,
            code: Regex::new("`[^`]*`")?,
        })
    }

    /// Returns the numbers with their lines.
    fn found(&self, text: &str, exempt: &[String]) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let (mut is_code, mut is_filled, mut is_note) = (false, false, false);
        for (index, line) in text.lines().enumerate() {
            is_code ^= line.starts_with("```");
            is_filled |= line.starts_with("<!-- numbers: ");
            is_note |= line.starts_with("<!--") && !line.starts_with("<!--=");
            let was_note = is_note;
            is_note &= !line.contains("-->");
            if line.is_empty() {
                is_filled = false;
            }
            if is_code || is_filled || was_note {
                continue;
            }
            let mut line = self.span.replace_all(line, "").into_owned();
            for exempt in exempt {
                line = line.replace(exempt.as_str(), "");
            }
            let line = self.code.replace_all(&line, "");
            match line.starts_with('|') {
                true => {
                    let cells = line.split('|').filter(|cell| self.cell.is_match(cell));
                    found.extend(cells.map(|cell| (index + 1, cell.trim().to_owned())));
                }
                false => {
                    let numbers = self.unit.find_iter(&line);
                    found.extend(numbers.map(|own| (index + 1, own.as_str().to_owned())));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_numbers_lie_in_marks_or_are_exempt() {
        let finder = Finder::new().expect("the patterns are right");
        let found = |text: &str, exempt: &[&str]| -> Vec<String> {
            let exempt: Vec<String> = exempt.iter().map(|text| (*text).to_owned()).collect();
            let found = finder.found(text, &exempt);
            found.into_iter().map(|own| own.1).collect()
        };
        assert_eq!(
            found("It takes 5 ns, 3% or 2.5 times as long on 2 CPUs.", &[]),
            ["5 ns", "3%", "2.5 times"]
        );
        assert_eq!(
            found("between 10 and 12% or 4 to 21%", &[]),
            ["12%", "4 to 21%"]
        );
        assert_eq!(
            found("| `bs` | 1.2 | **0.5** (64) | text 3 |", &[]),
            ["1.2", "**0.5** (64)"]
        );
        assert_eq!(
            found("pauses of 10 µs cost 5 ns", &["pauses of 10 µs"]),
            ["5 ns"]
        );
        assert!(found("<!--= 1 as 0% -->100%<!--/--> and `lis-31 5 ns`", &[]).is_empty());
        assert!(found("```text\n5 ns\n```", &[]).is_empty());
        assert!(
            found(
                "<!-- numbers: e x:\n a b c -->\n| a |\n|---|\n| 1.5 |\n",
                &[]
            )
            .is_empty()
        );
        assert_eq!(
            found("<!-- a note of 5 ns\n and 6 ns -->\n7 ns", &[]),
            ["7 ns"]
        );
    }

    #[test]
    fn the_list_names_documents_reasons_and_counts() {
        let all = listed(
            "text: x\n# docs/a.md\npaper: the paper: 6%\nparameter: 10 µs\nopen: 3\n# docs/b.md\n",
        );
        let exempt = ["the paper: 6%", "10 µs"].map(String::from).to_vec();
        let expected = Listed {
            document: "docs/a.md".to_owned(),
            exempt,
            open: 3,
        };
        assert_eq!(all[0], expected);
        assert_eq!((all[1].document.as_str(), all[1].open), ("docs/b.md", 0));
    }
}
