//! Rules of documents: links and paths of results exist, the glossary is sorted, the README is short, and all documents
//! together have a limited number of words.
//!
//! # Invariants
//!
//! A document that quotes a file of the repository names one that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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

/// Returns the paths of a line that start with `results/` and name a run.
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
        if path.starts_with("results/2") {
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

/// Reports a README that is not 10 to 120 lines long.
pub(crate) fn readme(root: &Path, faults: &mut Vec<String>) {
    let text = fs::read_to_string(root.join("README.md")).unwrap_or_default();
    let lines = text.lines().count();
    if !(10..=120).contains(&lines) {
        faults.push(format!(
            "README.md:{lines}: readme: 10 to 120 lines, not {lines}"
        ));
    }
}

/// Reports if all documents together have more than `most` words. Results do not count, and neither do comments and
/// what is generated.
pub(crate) fn words(root: &Path, files: &[String], most: usize, faults: &mut Vec<String>) {
    let counts = |name: &&String| name.ends_with(".md") && !name.starts_with("results/");
    let texts = files.iter().filter(counts).map(|name| {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        (name.as_str(), text)
    });
    let mut counted: Vec<(usize, &str)> = texts
        .map(|(name, text)| (written(&text), name))
        .collect();
    let total: usize = counted.iter().map(|(words, _)| words).sum();
    if total <= most {
        return;
    }
    counted.sort_unstable_by(|one, other| other.cmp(one));
    let longest: Vec<String> = counted
        .iter()
        .take(3)
        .map(|(words, name)| format!("{name} {words}"))
        .collect();
    faults.push(format!(
        "docs:1: words: all documents have {total} words, and at most {most} are allowed; the longest: {}",
        longest.join(", ")
    ));
}

/// Returns the number of words of a document that a person wrote. A comment that begins with "generated by" or "graph
/// of" excludes all up to the one that begins with "end of", or up to the end of the document.
fn written(text: &str) -> usize {
    let (open, close) = ("<!--", "-->");
    let mut words = 0;
    let mut is_generated = false;
    let mut rest = text;
    while !rest.is_empty() {
        let (before, after) = rest.split_once(open).unwrap_or((rest, ""));
        if !is_generated {
            words += before.split_whitespace().count();
        }
        let (comment, after) = after.split_once(close).unwrap_or((after, ""));
        let comment = comment.trim_start();
        let starts = ["generated by", "graph of"];
        is_generated = starts.iter().any(|start| comment.starts_with(start))
            || is_generated && !comment.starts_with("end of");
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_results_must_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut faults = Vec::new();
        let text = "[a](Cargo.toml) [b](none.md) [c](https://example.org)\n\
                    <!-- results/2000-none/compare.txt -->, see results/NAME and (results/2000-b/x.)\n";
        links(root, "x.md", text, &mut faults);
        let found = [
            "x.md:1: dead-link: none.md",
            "x.md:2: dead-link: results/2000-none/compare.txt",
            "x.md:2: dead-link: results/2000-b/x",
        ];
        assert_eq!(faults, found);
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

    #[test]
    fn what_a_person_wrote_counts() {
        assert_eq!(written("# Two words\n\nthree\n"), 4);
        assert_eq!(written("one <!-- a comment of\nmany words --> two"), 2);
        let part = "one <!-- generated by `x` -->\na <!-- b --> c\n<!-- end of what is generated -->two three";
        assert_eq!(written(part), 3);
        assert_eq!(written("one\n<!-- generated by `x` -->\n# All\n\nthe rest"), 1);
        assert_eq!(written("<!-- graph of x -->\na b\n<!-- end of x -->\nc"), 1);
        assert_eq!(written("one <!-- no end"), 1);
    }

    #[test]
    fn a_fault_names_the_documents_with_the_most_words() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = ["GLOSSARY.md", "README.md", "results/README.md", "Cargo.toml"];
        let files = files.map(str::to_owned);
        let mut faults = Vec::new();
        words(&root, &files, 1_000_000, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        words(&root, &files, 10, &mut faults);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("README.md") && faults[0].contains("GLOSSARY.md"));
        assert!(!faults[0].contains("results") && !faults[0].contains("Cargo.toml"));
    }
}
