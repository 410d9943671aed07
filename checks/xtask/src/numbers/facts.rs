//! Numbers in sentences.
//!
//! A number that is written by hand stays when the measurement changes. A sentence that has one is listed in
//! `checks/xtask/numbers.txt` with the query that gives it, so the document itself has no mark:
//!
//! ```text
//! # docs/papers.md
//! fact: saves {-0%} of all splits = coalescing gcc_build@ system=delay-2 all splits mean over system=bs
//! paper: (the paper: 6%)          a figure of a source
//! parameter: pauses of 10 us      a setting, a definition, or arithmetic on them
//! open: 12                        how many others the document may still have; the count may only fall
//! ```
//!
//! The braces hold the format of the number. In a document with a line `open`, each measured number is in a generated
//! table, in a fact, or exempt. A measured number is a number with a unit of time, a percentage, a ratio ("times"), or
//! a cell of a table that consists of numbers.
//!
//! # Invariants
//! The text of a fact is found exactly once in its document, and each exemption at least once: the list does not
//! outlive its sentences.

use std::fs;
use std::path::Path;

use regex::Regex;

use super::query::Query;
use super::results::Results;
use crate::Outcome;

/// The list of facts and exemptions.
const LIST: &str = "checks/xtask/numbers.txt";

/// What the list has about a document.
#[derive(Debug, Default, PartialEq)]
struct Listed {
    document: String,
    /// Lines of facts and exemptions, with their numbers.
    lines: Vec<(usize, String)>,
    open: Option<usize>,
}

/// Reports facts that the results do not give, and measured numbers that are nowhere listed.
pub(crate) fn check(root: &Path, results: &Results, faults: &mut Vec<String>) -> Outcome<()> {
    let finder = Finder::new()?;
    for listed in listed(&fs::read_to_string(root.join(LIST))?) {
        let document = &listed.document;
        let text = fs::read_to_string(root.join(document));
        let text = text.map_err(|error| format!("{LIST}: {document}: {error}"))?;
        faults.extend(finder.faults(&text, &listed, results));
    }
    Ok(())
}

fn listed(text: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(document) = line.strip_prefix("# ") {
            all.push(Listed {
                document: document.to_owned(),
                ..Listed::default()
            });
        } else if let Some(own) = all.last_mut() {
            match line.split_once(": ") {
                Some(("open", count)) => own.open = count.parse().ok(),
                _ if line.is_empty() => {}
                _ => own.lines.push((number, line.to_owned())),
            }
        }
    }
    all
}

/// Returns the text of a fact or an exemption, and how often a document may have it.
fn stated(line: &str, results: &Results) -> Result<(String, usize), String> {
    if let Some(("paper" | "parameter", text)) = line.split_once(": ") {
        return Ok((text.to_owned(), usize::MAX));
    }
    let parts = || {
        let (text, query) = line.strip_prefix("fact: ")?.rsplit_once(" = ")?;
        let (before, rest) = text.split_once('{')?;
        let (format, after) = rest.split_once('}')?;
        // The format comes first: what follows `over` belongs to the base.
        let query = query.replacen(' ', &format!(" {format} "), 1);
        Some((before, query, after))
    };
    let wrong = "a line is `fact: TEXT {FORMAT} TEXT = QUERY`, `paper: TEXT` or `parameter: TEXT`";
    let (before, query, after) = parts().ok_or(wrong)?;
    let number = Query::parse(&query)?.text(results)?;
    Ok((format!("{before}{number}{after}"), 1))
}

/// The patterns of measured numbers, and of the parts of a document.
struct Finder {
    unit: Regex,
    cell: Regex,
    code: Regex,
    apart: Regex,
    start: Regex,
}

impl Finder {
    fn new() -> Result<Self, regex::Error> {
        let number = r"[-±≤~]?\d[\d,]*(\.\d+)?";
        Ok(Self {
            unit: Regex::new(&format!(
                r"{number}( to {number})?( ?(%|ns|µs|us|ms|GHz)| (s|seconds?|minutes?|times|cycles|instructions)\b)"
            ))?,
            cell: Regex::new(&format!(r"^[\s(*]*{number}"))?,
            code: Regex::new("`[^`]*`")?,
            apart: Regex::new(
                r"(?ms)^ *```.*?^ *```$|^<!-- numbers: .*?(\n\n|\z)|<!--.*?-->|\n *\n",
            )?,
            start: Regex::new(r"\n *([|#]|- )")?,
        })
    }

    fn faults(&self, text: &str, listed: &Listed, results: &Results) -> Vec<String> {
        let (mut faults, left) = self.left(text, listed, results);
        let found = self.found(&left);
        if let Some(open) = listed.open.filter(|open| found.len() > *open) {
            let (document, count) = (&listed.document, found.len());
            let what = format!("comes from no result; {count} do, at most {open} may");
            let fault = |number| format!("{document}:1: numbers: {number} {what}");
            faults.extend(found.iter().map(fault));
        }
        faults
    }

    /// Returns faults of facts and exemptions, and the paragraphs and rows without what these contain.
    fn left(&self, text: &str, listed: &Listed, results: &Results) -> (Vec<String>, Vec<String>) {
        let (mut faults, mut texts) = (Vec::new(), Vec::new());
        let mut paragraphs = self.paragraphs(text);
        for (line, listed) in &listed.lines {
            let mut fault = |what| faults.push(format!("{LIST}:{line}: numbers: {what}"));
            match stated(listed, results) {
                Ok((text, most)) => {
                    let counts = paragraphs.iter().map(|own| own.matches(&text).count());
                    let count = counts.sum::<usize>();
                    if !(1..=most).contains(&count) {
                        fault(format!("`{text}` is {count} times in its document"));
                    }
                    texts.push(text);
                }
                Err(error) => fault(error),
            }
        }
        for paragraph in &mut paragraphs {
            // Texts may overlap, so all of them are found before any is taken out.
            let found = texts.iter().flat_map(|text| paragraph.match_indices(text));
            let found: Vec<_> = found.map(|(at, own)| at..at + own.len()).collect();
            let is_left = |at: usize| !found.iter().any(|range| range.contains(&at));
            let left = paragraph.char_indices().filter(|(at, _)| is_left(*at));
            *paragraph = left.map(|(_, letter)| letter).collect();
        }
        (faults, paragraphs)
    }

    /// Returns paragraphs, each with one space for a line break, and rows of tables. Code blocks, comments and
    /// generated tables are left out.
    fn paragraphs(&self, text: &str) -> Vec<String> {
        let text = self.apart.replace_all(text, "\0\n");
        let text = self.start.replace_all(&text, "\0\n$1");
        let words = |own: &str| own.split_whitespace().collect::<Vec<_>>().join(" ");
        let all = text.split('\0').map(words);
        all.filter(|own| !own.is_empty()).collect()
    }

    /// Returns the numbers, each with the beginning of its paragraph.
    fn found(&self, paragraphs: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        for own in paragraphs {
            let text = self.code.replace_all(own, "");
            let numbers: Vec<&str> = if text.starts_with('|') {
                let cells = text.split('|');
                cells.filter(|cell| self.cell.is_match(cell)).collect()
            } else {
                self.unit.find_iter(&text).map(|own| own.as_str()).collect()
            };
            let begin: String = own.chars().take(40).collect();
            let line = |number: &&str| format!("`{}` in `{begin}...`", number.trim());
            found.extend(numbers.iter().map(line));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;

    fn listed_one(text: &str) -> Listed {
        listed(text).pop().expect("a document")
    }

    #[test]
    fn measured_numbers_are_facts_or_exempt() {
        let finder = Finder::new().expect("the patterns are right");
        let folder = Folder::new("measured");
        folder.run("a", &[("x", "bs", 1, "m", "mean", 5.0)]);
        let results = Results::new(&folder.0);
        let found = |text: &str, list: &str| -> Vec<String> {
            let (_, left) = finder.left(text, &listed_one(&format!("# x.md\n{list}\n")), &results);
            let number = |own: &String| own.split('`').nth(1).unwrap_or_default().to_owned();
            finder.found(&left).iter().map(number).collect()
        };
        #[rustfmt::skip]
        let cases = [
            ("It takes 5 ns, 3% or 2.5 times as long on 2 CPUs.", "", &["5 ns", "3%", "2.5 times"][..]),
            ("between 10 and 12% or 4 to 21%", "", &["12%", "4 to 21%"]),
            ("| `bs` | 1.2 | **0.5** (64) | text 3 |", "", &["1.2", "**0.5** (64)"]),
            ("pauses of\n10 µs, 5 ns", "paper: pauses of 10 µs", &["5 ns"]),
            ("<!-- a note of 5 ns\n and 6 ns -->\n7 ns", "", &["7 ns"]),
            ("`lis-31 5 ns`\n```text\n5 ns\n```\n", "", &[]),
        ];
        for (text, list, numbers) in cases {
            assert_eq!(found(text, list), numbers, "{text}");
        }
        let fact = "fact: takes {.0} ns = e x@ system=bs all m mean";
        assert_eq!(found("it takes\n5 ns, not 6 ns", fact), ["6 ns"]);
        let both = format!("{fact}\nparameter: ns or 6 ns");
        assert!(found("It takes 5 ns or 6 ns.", &both).is_empty());
        let table = "<!-- numbers: e x:\n a b c -->\n| a |\n|---|\n| 1.5 |\n";
        assert!(found(table, "").is_empty());
    }

    #[test]
    fn a_fact_is_in_its_document_once_and_as_the_results_have_it() {
        let finder = Finder::new().expect("the patterns are right");
        let folder = Folder::new("facts");
        folder.run("a", &[("x", "bs", 1, "m", "mean", 5.0)]);
        let results = Results::new(&folder.0);
        let faults = |text: &str, list: &str| {
            finder.faults(text, &listed_one(&format!("# x.md\n{list}\n")), &results)
        };
        let fact = "fact: takes {.0} ns = e x@ system=bs all m mean\nopen: 0";
        assert_eq!(faults("It takes\n5 ns.", fact), Vec::<String>::new());
        for text in ["It takes 6 ns.", "It needs 5 ns.", "takes 5 ns, takes 5 ns"] {
            let faults = faults(text, fact);
            assert!(
                faults[0].starts_with("checks/xtask/numbers.txt:2: numbers: "),
                "{text} {faults:?}"
            );
        }
        for wrong in [
            "facts: takes {.0} ns = e x@ system=bs all m mean =",
            "fact: takes 5 ns = e x@ system=bs all m mean",
            "fact: takes {z} ns = e x@ system=bs all m mean",
            "fact: takes {.0} ns = e x@ system=none all m mean",
            "paper: 6 ns",
        ] {
            assert_eq!(faults("It takes 5 ns.", wrong).len(), 1, "{wrong}");
        }
        assert_eq!(faults("It takes 5 ns.", "open: 0").len(), 1);
        assert!(faults("It takes 5 ns.", "open: 1").is_empty());
        assert!(faults("It takes 5 ns.", "").is_empty());
    }
}
