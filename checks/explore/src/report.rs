//! What a search prints: a row of a table, and what is wrong as tests.

use std::fs;
use std::io::Write;
use std::time::Instant;

use everybuddy_explore::platform::alone;

use crate::exceptions::EXCEPTIONS;
use crate::pairs::Pairs;
use crate::scope::Scope;
use crate::search::Explorer;

/// The columns of the table.
const COLUMNS: [&str; 15] = [
    "scope",
    "verdict",
    "depth",
    "states",
    "states_of_bytes",
    "steps",
    "transitions",
    "experiments",
    "compared",
    "mismatches",
    "walked",
    "refused",
    "exceptions",
    "findings",
    "seconds",
];

/// The rows, and where they are written.
pub(crate) struct Report {
    file: Option<fs::File>,
    rows: String,
    findings: usize,
}

impl Report {
    /// Goes on with a table, or begins one.
    pub(crate) fn to(path: Option<String>) -> Result<Self, String> {
        let Some(path) = path else {
            return Ok(Self { file: None, rows: String::new(), findings: 0 });
        };
        let rows = fs::read_to_string(&path).unwrap_or_default();
        let file = fs::File::options().append(true).create(true).open(&path);
        let mut file = file.map_err(|error| format!("{path}: {error}"))?;
        if rows.is_empty() {
            writeln!(file, "{}", COLUMNS.join("\t")).map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(Self { file: Some(file), rows, findings: 0 })
    }

    /// Returns `true` if the table has a row of this scope.
    pub(crate) fn has(&self, scope: &Scope) -> bool {
        self.rows.lines().any(|row| row.split('\t').next() == Some(&scope.to_string()))
    }

    /// Returns `true` if nothing was found.
    pub(crate) fn is_clean(&self) -> bool {
        self.findings == 0
    }

    /// Explores a scope, and prints its row.
    pub(crate) fn explore(&mut self, scope: &Scope) -> Result<(), String> {
        let started = Instant::now();
        let mut explorer = Explorer::new(scope).map_err(|error| format!("{scope}: {error}"))?;
        explorer.run();
        let counts = explorer.counts;
        let verdict = match (explorer.is_closed(), counts.mismatches) {
            (true, 0) => "closed",
            (true, _) => "closed but for mismatches",
            (false, _) => "to a depth",
        };
        let row = [
            scope.to_string(),
            verdict.to_owned(),
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
            explorer.exceptions.iter().sum::<u64>().to_string(),
            explorer.findings.len().to_string(),
            format!("{:.1}", started.elapsed().as_secs_f64()),
        ];
        let texts = COLUMNS.iter().zip(&row).map(|(column, value)| format!("{column} {value}"));
        println!("{}", texts.collect::<Vec<_>>().join(", "));
        for (kind, finding) in &explorer.findings {
            println!("  {kind} ({} times):\n{}", finding.count, finding.way);
        }
        self.findings += explorer.findings.len();
        if scope.pairs > 0 {
            let mut pairs = Pairs::of(&mut explorer);
            pairs.run(scope.pairs);
            let counts = pairs.counts;
            println!(
                "  from {} states: {} of {} paths, {} pairs, {} with shared words, {} schedules, {} too long, \
                {} busy; {} interrupted operations, at {} accesses; {:.1} s",
                counts.states,
                counts.paths.1,
                counts.paths.0,
                counts.pairs.0,
                counts.pairs.1,
                counts.schedules,
                counts.long,
                counts.busy,
                counts.interrupted.0,
                counts.interrupted.1,
                started.elapsed().as_secs_f64()
            );
            for (kind, finding) in &pairs.findings {
                println!("  {kind} ({} times):\n{}", finding.count, finding.way);
            }
            self.findings += pairs.findings.len();
        }
        for (exception, count) in EXCEPTIONS.iter().zip(explorer.exceptions) {
            if count > 0 {
                println!("  exception, {count} times: {}", exception.text);
            }
        }
        match &mut self.file {
            Some(file) => writeln!(file, "{}", row.join("\t")).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// Hides the messages of panics, which are findings, unless `EVERYBUDDY_PANICS` is set.
pub(crate) fn quiet() {
    if std::env::var_os("EVERYBUDDY_PANICS").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    alone();
}
