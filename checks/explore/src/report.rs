//! What a search prints: a row of a table, and what is wrong as tests.
//!
//! # Invariants
//! A row is written when its scope is done, so the table of an interrupted run can be continued.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use everybuddy_explore::platform::alone;

use crate::exceptions::EXCEPTIONS;
use crate::pairs::Pairs;
use crate::scope::Scope;
use crate::search::Explorer;

/// The columns of the table. `exceptions` has a number for each one of [`EXCEPTIONS`].
#[rustfmt::skip]
const COLUMNS: [&str; 22] = [
    "scope", "verdict", "depth", "states", "states_of_bytes", "steps", "transitions", "experiments", "compared",
    "mismatches", "walked", "refused", "exceptions", "findings", "pairs_from", "paths", "paths_covered", "pairs",
    "pairs_that_share", "schedules", "interrupted", "seconds",
];
/// The position of `exceptions`.
const OF_EXCEPTIONS: usize = 12;
/// The position of `findings`.
const OF_FINDINGS: usize = OF_EXCEPTIONS + 1;

/// The rows, and where they are written.
pub(crate) struct Report {
    file: Option<fs::File>,
    rows: Vec<String>,
    minutes: u64,
}

impl Report {
    /// Goes on with a table, or begins one. Each search may take the given number of minutes.
    pub(crate) fn to(path: Option<String>, minutes: u64) -> Result<Self, String> {
        let mut report = Self {
            file: None,
            rows: Vec::new(),
            minutes,
        };
        if let Some(path) = path {
            let rows = fs::read_to_string(&path).unwrap_or_default();
            report.rows = rows.lines().map(str::to_owned).collect();
            let file = fs::File::options().append(true).create(true).open(&path);
            report.file = Some(file.map_err(|error| format!("{path}: {error}"))?);
            if rows.is_empty() {
                report.write(COLUMNS.join("\t"))?;
            }
        }
        Ok(report)
    }

    /// Returns `true` if the table has a row of this scope.
    pub(crate) fn has(&self, scope: &Scope) -> bool {
        self.rows
            .iter()
            .any(|row| row.split('\t').next() == Some(&scope.to_string()))
    }

    /// Returns `true` if no row has findings, those of earlier runs included.
    pub(crate) fn is_clean(&self) -> bool {
        let found = |row: &String| row.split('\t').nth(OF_FINDINGS).map(str::parse::<u64>);
        !self
            .rows
            .iter()
            .any(|row| matches!(found(row), Some(Ok(1..))))
    }

    /// Returns the exceptions that no row has.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let is_in = |index: usize, row: &String| {
            let counts = row.split('\t').nth(OF_EXCEPTIONS).unwrap_or_default();
            counts
                .split('/')
                .nth(index)
                .is_some_and(|count| count.parse().is_ok_and(|count: u64| count > 0))
        };
        let missing =
            (0..EXCEPTIONS.len()).filter(|index| !self.rows.iter().any(|row| is_in(*index, row)));
        missing.map(|index| EXCEPTIONS[index].text).collect()
    }

    /// Explores a scope, and prints its row.
    pub(crate) fn explore(&mut self, scope: &Scope) -> Result<(), String> {
        let started = Instant::now();
        let mut explorer = Explorer::new(scope).map_err(|error| format!("{scope}: {error}"))?;
        explorer.deadline = Some(started + Duration::from_secs(60 * self.minutes));
        explorer.run();
        let mut pairs = Pairs::of(&mut explorer);
        pairs.run(scope.pairs);
        let (both, mut findings) = (pairs.counts, pairs.findings);
        findings.append(&mut explorer.findings);
        let counts = explorer.counts;
        let verdict = match (explorer.is_closed(), counts.mismatches) {
            (true, 0) => "closed".to_owned(),
            (true, _) => "closed but for mismatches".to_owned(),
            (false, _) => format!("to depth {}", explorer.depth()),
        };
        let row = [
            scope.to_string(),
            verdict,
            explorer.depth().to_string(),
            explorer.nodes.len().to_string(),
            counts.bytes.to_string(),
            explorer.steps.len().to_string(),
            counts.transitions.to_string(),
            explorer.experiments.len().to_string(),
            counts.compared.to_string(),
            counts.mismatches.to_string(),
            counts.walked.to_string(),
            counts.refused.to_string(),
            explorer.exceptions.map(|count| count.to_string()).join("/"),
            findings.len().to_string(),
            both.states.to_string(),
            both.paths.0.to_string(),
            both.paths.1.to_string(),
            both.pairs.0.to_string(),
            both.pairs.1.to_string(),
            both.schedules.to_string(),
            both.interrupted.1.to_string(),
            format!("{:.1}", started.elapsed().as_secs_f64()),
        ];
        let texts = COLUMNS.iter().zip(&row).filter(|(_, value)| *value != "0");
        let texts: Vec<String> = texts
            .map(|(column, value)| format!("{column} {value}"))
            .collect();
        println!("{}", texts.join(", "));
        if both.long > 0 {
            println!(
                "  {} pairs have too many schedules, of which only the first ones ran",
                both.long
            );
        }
        // The shortest first.
        let mut findings: Vec<_> = findings.into_iter().collect();
        findings.sort_by_key(|(_, finding)| finding.way.lines().count());
        for (kind, finding) in &findings {
            let (count, after) = (finding.count, finding.after);
            let steps = finding.way.matches("system.").count();
            println!("  {kind} (steps {steps}, first after {after}, times {count}):");
            println!("{}", finding.way);
        }
        for (exception, count) in EXCEPTIONS.iter().zip(explorer.exceptions) {
            if count > 0 {
                println!("  exception, {count} times: {}", exception.text);
            }
        }
        self.write(row.join("\t"))
    }

    /// Adds a row to the table.
    fn write(&mut self, row: String) -> Result<(), String> {
        if let Some(file) = &mut self.file {
            writeln!(file, "{row}").map_err(|error| error.to_string())?;
        }
        self.rows.push(row);
        Ok(())
    }
}

/// Hides the messages of panics, which are findings, unless `EVERYBUDDY_PANICS` is set.
pub(crate) fn quiet() {
    if std::env::var_os("EVERYBUDDY_PANICS").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    alone();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_earlier_rows_count() {
        let row = |findings: &str| {
            let mut row = vec!["0"; COLUMNS.len()];
            row[OF_FINDINGS] = findings;
            row.join("\t")
        };
        let mut report = Report::to(None, 1).unwrap();
        report.rows = vec![COLUMNS.join("\t"), row("0")];
        assert!(report.is_clean());
        report.rows.push(row("5"));
        assert!(!report.is_clean());
        assert_eq!(COLUMNS[OF_FINDINGS], "findings");
    }
}
