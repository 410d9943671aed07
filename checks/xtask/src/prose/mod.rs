//! Checks the English of documents, comments and string literals.
//!
//! A rule is a ratchet: `checks/xtask/prose-limits.toml` stores how often each file breaks it, and the counts may only
//! fall.
//! `cargo run -p xtask -- prose` stores the present counts, and refuses if a rule is broken more often than before.
//!
//! # Invariants
//!
//! A file without an entry breaks no rule. A moved passage is not a fault: only the sum of a rule counts
//! when the limits are stored again.

mod limits;
mod rules;
mod text;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use regex::Regex;

use rules::RULES;
use text::Passage;

/// The stored counts.
const LIMITS: &str = "checks/xtask/prose-limits.toml";

/// The name of the rule about the length of sentences.
const LONG: &str = "long-sentence";

/// Sentences of documents have at most this many words.
const LONGEST_SENTENCE: usize = 40;

/// Files that are not checked: records, licences, the rules' own examples, and documents that are generated from source
/// files whose strings are checked.
const EXEMPT: &[&str] = &[
    "results/",
    "LICENSE",
    "checks/fuzz/corpus/",
    "checks/xtask/src/prose/",
    "checks/xtask/prose-limits.toml",
    "SYSTEMS.md",
    "docs/metrics.md",
];

/// For each rule, how often each file breaks it.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// The counts, and every fault with its file.
type Counted = (Counts, Vec<(String, Fault)>);

/// A place where a rule is broken.
struct Fault {
    rule: &'static str,
    line: usize,
    words: String,
    advice: &'static str,
}

/// The rules with their patterns compiled.
struct Checker {
    rules: Vec<(&'static rules::Rule, Regex, Option<Regex>)>,
}

impl Checker {
    fn new() -> Result<Self, regex::Error> {
        let mut compiled = Vec::new();
        for rule in RULES {
            let except = match rule.except {
                "" => None,
                except => Some(Regex::new(except)?),
            };
            compiled.push((rule, Regex::new(rule.pattern)?, except));
        }
        Ok(Self { rules: compiled })
    }

    fn faults(&self, name: &str, text: &str) -> Vec<Fault> {
        let document = name.ends_with(".md");
        let passages = match name.rsplit('.').next() {
            Some("md") => text::markdown(text),
            Some("rs") => text::rust(text),
            Some("toml") => text::toml(text),
            _ => Vec::new(),
        };
        let mut faults = Vec::new();
        for passage in &passages {
            for (rule, pattern, except) in &self.rules {
                if rule.documents_only && !document {
                    continue;
                }
                for found in pattern.find_iter(&passage.text) {
                    if except
                        .as_ref()
                        .is_some_and(|except| except.is_match(found.as_str()))
                    {
                        continue;
                    }
                    faults.push(Fault {
                        rule: rule.name,
                        line: passage.line(found.start()),
                        words: found.as_str().trim().to_owned(),
                        advice: rule.advice,
                    });
                }
            }
            if document {
                faults.extend(long_sentences(passage));
            }
        }
        faults.sort_by_key(|fault| fault.line);
        faults
    }
}

/// Returns the sentences of a passage that have too many words.
fn long_sentences(passage: &Passage) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut start = 0;
    let ends = passage.text.match_indices(". ").map(|(at, _)| at + 2);
    for end in ends.chain([passage.text.len()]) {
        let words = passage.text[start..end].split_whitespace().count();
        if words > LONGEST_SENTENCE {
            faults.push(Fault {
                rule: LONG,
                line: passage.line(start),
                words: format!("{words} words"),
                advice: "write one idea per sentence, at most 40 words",
            });
        }
        start = end;
    }
    faults
}

/// Reports each file that breaks a rule more often, or less often, than the stored limit says.
pub(crate) fn check(
    root: &Path,
    files: &[String],
    faults: &mut Vec<String>,
) -> Result<(), Box<dyn Error>> {
    let stored = limits::read(&root.join(LIMITS))?;
    let (counts, found) = count(root, files)?;
    let mut fallen = 0;
    for (rule, limit, now, file) in differences(&stored, &counts) {
        if now < limit {
            fallen += 1;
            continue;
        }
        for (_, fault) in found
            .iter()
            .filter(|(name, fault)| *name == file && fault.rule == rule)
        {
            faults.push(format!(
                "{file}:{}: prose: {rule}: `{}`: {} (limit {limit}, now {now})",
                fault.line, fault.words, fault.advice
            ));
        }
    }
    if fallen > 0 {
        faults.push(format!(
            "{LIMITS}:1: prose: {fallen} counts have fallen: cargo run -p xtask -- prose"
        ));
    }
    Ok(())
}

/// Stores the present counts, unless a rule is broken more often than before.
pub(crate) fn store(root: &Path, files: &[String]) -> Result<Vec<String>, Box<dyn Error>> {
    let path = root.join(LIMITS);
    let stored = limits::read(&path)?;
    let (counts, _) = count(root, files)?;
    let mut faults = Vec::new();
    for (rule, files) in &counts {
        // A rule without a section is new.
        let limit: Option<usize> = stored.get(rule).map(|files| files.values().sum());
        let now: usize = files.values().sum();
        if let Some(limit) = limit.filter(|limit| now > *limit) {
            faults.push(format!(
                "{LIMITS}:1: prose: {rule} may not rise from {limit} to {now}"
            ));
        }
    }
    if faults.is_empty() {
        fs::write(path, limits::text(&counts))?;
    }
    Ok(faults)
}

/// Lists every place in the files whose names start with `prefix`, whatever the limits are.
pub(crate) fn list(
    root: &Path,
    files: &[String],
    prefix: &str,
) -> Result<Vec<String>, Box<dyn Error>> {
    let (_, found) = count(root, files)?;
    Ok(found
        .iter()
        .filter(|(file, _)| file.starts_with(prefix))
        .map(|(file, fault)| {
            format!(
                "{file}:{}: {}: `{}`: {}",
                fault.line, fault.rule, fault.words, fault.advice
            )
        })
        .collect())
}

fn count(root: &Path, files: &[String]) -> Result<Counted, Box<dyn Error>> {
    let checker = Checker::new()?;
    // A rule that no file breaks has an empty section, so that it cannot be broken again.
    let names = RULES.iter().map(|rule| rule.name).chain([LONG]);
    let mut counts: Counts = names
        .map(|name| (name.to_owned(), BTreeMap::new()))
        .collect();
    let mut found = Vec::new();
    for file in files {
        if EXEMPT.iter().any(|exempt| file.starts_with(exempt)) {
            continue;
        }
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue;
        };
        for fault in checker.faults(file, &text) {
            *counts
                .entry(fault.rule.into())
                .or_default()
                .entry(file.clone())
                .or_default() += 1;
            found.push((file.clone(), fault));
        }
    }
    Ok((counts, found))
}

/// Returns rule, limit, count and file where the last three disagree.
fn differences(stored: &Counts, counts: &Counts) -> Vec<(String, usize, usize, String)> {
    let get = |counts: &Counts, rule: &str, file: &str| {
        counts
            .get(rule)
            .and_then(|files| files.get(file))
            .copied()
            .unwrap_or(0)
    };
    let mut keys: Vec<(&String, &String)> = stored
        .iter()
        .chain(counts)
        .flat_map(|(rule, files)| files.keys().map(move |file| (rule, file)))
        .collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .map(|(rule, file)| (rule, get(stored, rule, file), get(counts, rule, file), file))
        .filter(|(_, limit, now, _)| limit != now)
        .map(|(rule, limit, now, file)| (rule.clone(), limit, now, file.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_fires_on_its_wrong_examples_and_not_on_right_ones() {
        let checker = Checker::new().expect("the patterns are valid");
        for rule in RULES {
            assert!(
                !rule.wrong.is_empty() && !rule.right.is_empty(),
                "{} lacks examples",
                rule.name
            );
            let fires = |text: &str| {
                let faults = checker.faults("x.md", text);
                faults.iter().any(|fault| fault.rule == rule.name)
            };
            for wrong in rule.wrong {
                assert!(fires(wrong), "{} misses: {wrong}", rule.name);
            }
            for right in rule.right {
                assert!(!fires(right), "{} fires on: {right}", rule.name);
            }
        }
    }

    #[test]
    fn long_sentences_are_found_in_documents_only() {
        let checker = Checker::new().expect("the patterns are valid");
        let long = "word ".repeat(41);
        assert_eq!(checker.faults("x.md", &long).len(), 1);
        assert_eq!(checker.faults("x.rs", &format!("// {long}\n")).len(), 0);
        let short = format!("{}end. {}end.", "word ".repeat(39), "word ".repeat(39));
        assert_eq!(checker.faults("x.md", &short).len(), 0);
    }

    #[test]
    fn code_is_not_prose() {
        let checker = Checker::new().expect("the patterns are valid");
        let text = "Use `is no block` here.\n\n```text\nNobody waits.\n```\n";
        assert!(checker.faults("x.md", text).is_empty());
        assert!(
            checker
                .faults("x.rs", "fn nobody() { let Nobody = 1; }\n")
                .is_empty()
        );
        assert_eq!(
            checker.faults("x.rs", "let x = \"nobody waits\";\n").len(),
            1
        );
    }

    #[test]
    fn limits_differ_in_both_directions() {
        let of = |rule: &str, count| {
            Counts::from([(rule.into(), BTreeMap::from([("a.md".into(), count)]))])
        };
        assert!(differences(&of("is-no", 2), &of("is-no", 2)).is_empty());
        assert_eq!(differences(&of("is-no", 2), &of("is-no", 3))[0].2, 3);
        assert_eq!(differences(&of("is-no", 2), &Counts::new())[0].2, 0);
        assert_eq!(differences(&Counts::new(), &of("is-no", 1))[0].1, 0);
    }
}
