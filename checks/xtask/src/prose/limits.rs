//! Reads and writes the stored counts of the prose rules.
//!
//! # Invariants
//!
//! The file is sorted by rule and file, so that two changes of different files merge without a conflict.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::Counts;

/// Reads the limits; a file that does not exist has none.
pub(super) fn read(path: &Path) -> Result<Counts, Box<dyn Error>> {
    if !path.exists() {
        return Ok(Counts::new());
    }
    parse(&fs::read_to_string(path)?)
}

fn parse(text: &str) -> Result<Counts, Box<dyn Error>> {
    let mut counts = Counts::new();
    let mut rule = String::new();
    for (index, line) in text.lines().enumerate() {
        let bad = || {
            format!(
                "prose limits, line {}: expected `\"FILE\" = COUNT` below `[RULE]`",
                index + 1
            )
        };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            rule = name.to_owned();
            counts.entry(rule.clone()).or_default();
            continue;
        }
        let (file, count) = line.split_once(" = ").ok_or_else(bad)?;
        let count: usize = count.parse().map_err(|_| bad())?;
        if rule.is_empty() {
            return Err(bad().into());
        }
        let files = counts.entry(rule.clone()).or_default();
        // A merge may leave two lines for a file.
        let stored = files
            .entry(file.trim_matches('"').to_owned())
            .or_insert(count);
        *stored = count.min(*stored);
    }
    Ok(counts)
}

/// Returns the text of the file.
pub(super) fn text(counts: &Counts) -> String {
    let mut text = String::from(
        "# How often each file breaks a rule of plain English. The counts may only fall.\n\
         # Written by `cargo run -p xtask -- prose`; `-- prose PATH` lists the places.\n",
    );
    for (rule, files) in counts {
        let _ = write!(text, "\n[{rule}]\n");
        for (file, count) in files {
            let _ = writeln!(text, "\"{file}\" = {count}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut counts = Counts::new();
        counts
            .entry("is-no".into())
            .or_default()
            .insert("docs/a.md".into(), 3);
        counts
            .entry("calque".into())
            .or_default()
            .insert("src/b.rs".into(), 1);
        assert_eq!(parse(&text(&counts)).expect("it was written here"), counts);
    }

    #[test]
    fn the_smaller_of_two_counts_holds() {
        let merged = parse("[is-no]\n\"a.md\" = 2\n\"a.md\" = 1\n\"a.md\" = 3\n").expect("counts");
        assert_eq!(merged["is-no"]["a.md"], 1);
    }

    #[test]
    fn a_line_without_a_count_is_an_error() {
        assert!(parse("[is-no]\n\"a.md\" = many\n").is_err());
        assert!(parse("\"a.md\" = 1\n").is_err());
    }
}
