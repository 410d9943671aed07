//! Rules of documents: their source is readable, links and paths of results exist, results are few, the glossary is
//! sorted, the README is short.
//!
//! # Invariants
//!
//! A document that quotes a file of the repository names one that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How many kinds of runs `results` may have, and how many bytes. Older runs are in the history.
const MOST_RUNS: usize = 12;
const MOST_BYTES: u64 = 12_000_000;

/// Reports results that are too many or too large.
pub(crate) fn results(root: &Path, files: &[String], faults: &mut Vec<String>) {
    let size = |file: &String| {
        let length = fs::metadata(root.join(file)).ok()?.len();
        Some((file.strip_prefix("results/")?.to_owned(), length))
    };
    faults.extend(excess(&files.iter().filter_map(size).collect::<Vec<_>>()));
}

/// How many characters a line outside of tables may have, and which part of a document may be comments.
const LONGEST_LINE: usize = 200;
const COMMENTS: usize = 10;

/// Reports what keeps a reader from reading the source of a document: long lines, and comments that hide the text.
pub(crate) fn raw(file: &str, text: &str, faults: &mut Vec<String>) {
    let (mut is_code, mut is_comment, mut hidden) = (false, false, 0);
    for (index, line) in text.lines().enumerate() {
        let is_row = line.trim_start().starts_with('|');
        if !is_row && line.chars().count() > LONGEST_LINE {
            let at = index + 1;
            faults.push(format!(
                "{file}:{at}: long-line: more than {LONGEST_LINE} characters"
            ));
        }
        is_code ^= line.starts_with("```");
        let mut rest = line;
        while !is_code && !rest.is_empty() {
            let mark = if is_comment { "-->" } else { "<!--" };
            let end = rest.find(mark).map_or(rest.len(), |at| at + mark.len());
            hidden += if is_comment { end } else { 0 };
            is_comment ^= rest.contains(mark);
            rest = &rest[end..];
        }
    }
    if hidden * COMMENTS > text.len() && !file.starts_with(".github/") {
        let length = text.len();
        faults.push(format!(
            "{file}:1: comments: {hidden} of {length} bytes, at most a tenth"
        ));
    }
}

/// Returns what is wrong with results that have these files and sizes.
fn excess(files: &[(String, u64)]) -> Vec<String> {
    let runs: BTreeSet<&str> = files
        .iter()
        .filter_map(|(file, _)| Some(file.split_once('/')?.0))
        .collect();
    let bytes: u64 = files.iter().map(|(_, size)| size).sum();
    let mut faults = Vec::new();
    if runs.len() > MOST_RUNS {
        let count = runs.len();
        faults.push(format!(
            "results/README.md:1: results: {count} folders, at most {MOST_RUNS}: replace an older run of the kind"
        ));
    }
    if bytes > MOST_BYTES {
        faults.push(format!(
            "results/README.md:1: results: {bytes} bytes, at most {MOST_BYTES}: keep the rows that documents show"
        ));
    }
    faults
}

/// Reports relative links of a document, and paths of results in it, that do not exist.
pub(crate) fn links(root: &Path, file: &str, text: &str, faults: &mut Vec<String>) {
    let folder = root.join(file);
    let folder = folder.parent().unwrap_or(root);
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        for target in link_targets(line) {
            let target = target.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                faults.push(format!("{file}:{at}: dead-link: {target}"));
            }
        }
        for path in result_paths(line) {
            // Inside the results a path may be relative to the folder of the run.
            if !root.join(&path).exists() && !folder.join(&path).exists() {
                faults.push(format!("{file}:{at}: dead-link: {path}"));
            }
        }
    }
}

fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|part| part.split(')').next())
}

/// Returns the paths of a line that start with `results/` and name a run, or a file of one.
fn result_paths(line: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (start, _) in line.match_indices("results/") {
        let before = line[..start].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || "/_-.".contains(letter)) {
            continue; // A link has been checked as such; "xresults" is another word.
        }
        let end = line[start..]
            .find(|letter: char| !(letter.is_ascii_alphanumeric() || "/_-.".contains(letter)))
            .map_or(line.len(), |length| start + length);
        let path = line[start..end].trim_end_matches('.');
        let run = path["results/".len()..].chars().next();
        // Not "results/NAME".
        if run.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit()) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// Reports terms of the glossary's tables that are not in order or are defined twice.
pub(crate) fn glossary(text: &str, faults: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    let mut last = String::new();
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        let Some(row) = line.strip_prefix("| ") else {
            last.clear();
            continue;
        };
        let cell = row.split(" |").next().unwrap_or_default().trim();
        if cell == "term" || cell.starts_with("---") {
            continue;
        }
        let key = cell.to_lowercase();
        if key < last {
            faults.push(format!(
                "GLOSSARY.md:{at}: glossary: `{cell}` belongs above `{last}`"
            ));
        }
        for term in key.split(", ") {
            if !seen.insert(term.to_owned()) {
                faults.push(format!(
                    "GLOSSARY.md:{at}: glossary: `{term}` is defined twice"
                ));
            }
        }
        last = key;
    }
    if seen.is_empty() {
        faults.push("GLOSSARY.md:1: glossary: no table of terms".to_owned());
    }
}

/// Documents that must stay short, and their largest number of lines.
const LENGTHS: [(&str, usize); 2] = [("README.md", 120), ("ARCHITECTURE.md", 120)];

/// Reports a document of [`LENGTHS`] that is longer, or nearly empty.
pub(crate) fn lengths(root: &Path, faults: &mut Vec<String>) {
    for (name, most) in LENGTHS {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        let lines = text.lines().count();
        if !(10..=most).contains(&lines) {
            faults.push(format!(
                "{name}:{lines}: length: 10 to {most} lines, not {lines}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_results_must_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut faults = Vec::new();
        let text = "[a](Cargo.toml) [b](none.md) [c](https://example.org)\n\
                    <!-- results/none/compare.txt -->, see results/NAME and (results/bench-b/x.)\n";
        links(root, "x.md", text, &mut faults);
        let found = [
            "x.md:1: dead-link: none.md",
            "x.md:2: dead-link: results/none/compare.txt",
            "x.md:2: dead-link: results/bench-b/x",
        ];
        assert_eq!(faults, found);
    }

    #[test]
    fn the_source_of_a_document_is_readable() {
        let rules = |text: &str| {
            let mut faults = Vec::new();
            raw("x.md", text, &mut faults);
            let rule = |fault: &String| fault.split(": ").nth(1).unwrap_or_default().to_owned();
            faults.iter().map(rule).collect::<Vec<_>>()
        };
        let long = "word ".repeat(40);
        assert_eq!(rules(&long), Vec::<String>::new());
        assert_eq!(rules(&format!("{long}x")), ["long-line"]);
        assert!(rules(&format!("| {long}x |")).is_empty());
        let comment = "<!-- x\n234567 -->\n";
        assert_eq!(comment.len(), 18);
        assert!(rules(&format!("{comment}{}", "text\n".repeat(30))).is_empty());
        assert_eq!(
            rules(&format!("{comment}{}", "text\n".repeat(5))),
            ["comments"]
        );
        assert_eq!(rules("a <!--= x --> b <!--/--> c"), ["comments"]);
        assert!(rules("```\n<!-- text of a program -->\n```\n").is_empty());
    }

    #[test]
    fn results_are_few_and_small() {
        let run = |at: usize| (format!("run-{at}/bench.jsonl"), 1_000);
        let mut files: Vec<_> = (0..12).map(run).collect();
        files.push(("README.md".to_owned(), 1_000));
        files.push(("run-0/README.md".to_owned(), 11_000_000 - 13_000));
        assert_eq!(excess(&files), Vec::<String>::new());
        files.push(("run-0/bench.txt".to_owned(), 1_000_001));
        assert!(excess(&files)[0].contains("12000001 bytes"));
        files.push(("run-12/bench.txt".to_owned(), 0));
        assert!(excess(&files)[0].contains("13 folders"));
    }

    #[test]
    fn the_glossary_is_sorted_and_has_no_duplicates() {
        let mut faults = Vec::new();
        glossary(
            "| term | meaning |\n|---|---|\n| block | a |\n| Buddy | b |\n\n| arena | c |\n",
            &mut faults,
        );
        assert_eq!(faults, Vec::<String>::new());
        glossary("| buddy | a |\n| block, buddy | b |\n", &mut faults);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].contains("belongs above") && faults[1].contains("defined twice"));
    }
}
