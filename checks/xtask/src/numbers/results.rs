//! The rows of committed results.
//!
//! # Purpose
//!
//! A document names an experiment and not a file, so a new run refreshes it: of all runs below `results`, sorted by
//! date and number, the last one counts that has rows of the experiment in the file that its command writes. Other
//! files are named by their path.
//!
//! # Invariants
//!
//! A file is read once. Rows about single moments (`@` in `experiment`) are found under their own names only.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The files in which the commands' own rows are stored: `reproduce`, `compare`, `bench`.
const OUTPUTS: [&str; 3] = ["reproduce.jsonl", "compare.jsonl", "bench.jsonl"];

/// All results.
pub(crate) struct Results {
    root: PathBuf,
    files: RefCell<BTreeMap<String, Rc<Vec<Row>>>>,
    /// The paths of the commands' own rows, the last run first.
    own: Vec<String>,
}

/// A measurement.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) experiment: String,
    pub(crate) source: String,
    /// The system with its options.
    pub(crate) system: String,
    pub(crate) operation: String,
    pub(crate) metric: String,
    pub(crate) statistic: String,
    pub(crate) order: String,
    pub(crate) cpus: String,
    pub(crate) value: f64,
}

impl Results {
    pub(crate) fn new(root: &Path) -> Self {
        let runs = fs::read_dir(root.join("results")).into_iter().flatten();
        let mut runs: Vec<String> = runs
            .filter_map(|run| run.ok()?.file_name().into_string().ok())
            .collect();
        runs.sort_by_cached_key(|run| numbered(run));
        let path = |run: &String| OUTPUTS.map(|file| format!("results/{run}/{file}"));
        let own = runs.iter().rev().flat_map(path);
        Self {
            root: root.to_path_buf(),
            files: RefCell::default(),
            own: own.filter(|path| root.join(path).is_file()).collect(),
        }
    }

    /// Returns the rows of a file.
    pub(crate) fn file(&self, path: &str) -> Result<Rc<Vec<Row>>, String> {
        if let Some(rows) = self.files.borrow().get(path) {
            return Ok(Rc::clone(rows));
        }
        let text = fs::read_to_string(self.root.join(path));
        let text = text.map_err(|error| format!("{path}: {error}"))?;
        let rows: Rc<Vec<Row>> = Rc::new(text.lines().filter_map(Row::read).collect());
        let mut files = self.files.borrow_mut();
        files.insert(path.to_owned(), Rc::clone(&rows));
        Ok(rows)
    }

    /// Returns the file with the rows of an experiment: that of the last run. Returns `None` if no run has any.
    pub(crate) fn of(&self, experiment: &str) -> Result<Option<&str>, String> {
        for path in &self.own {
            let rows = self.file(path)?;
            if rows.iter().any(|row| row.experiment == experiment) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// Returns the text with every number in ten digits, so that the tenth run of a day sorts after the ninth.
fn numbered(name: &str) -> String {
    let mut text = String::new();
    for part in name.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
        let digits = part.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        text += &format!("{digits:0>10}{}", &part[digits.len()..]);
    }
    text
}

#[test]
fn the_tenth_run_of_a_day_sorts_after_the_ninth() {
    let mut runs = [
        "21-2cpu-10",
        "21-2cpu",
        "21-2cpu-9",
        "20-2cpu-serewa",
        "21-2cpu-2",
    ];
    runs.sort_by_cached_key(|run| numbered(run));
    assert_eq!(
        runs,
        [
            "20-2cpu-serewa",
            "21-2cpu",
            "21-2cpu-2",
            "21-2cpu-9",
            "21-2cpu-10"
        ]
    );
}

impl Results {
    /// Returns `true` if the last run of an experiment measured a metric or a system; with an empty name, any.
    pub(crate) fn has(&self, experiment: &str, name: &str) -> Result<bool, String> {
        let Some(path) = self.of(experiment)? else {
            return Ok(false);
        };
        let rows = self.file(path)?;
        let mut own = rows.iter().filter(|row| row.experiment == experiment);
        Ok(name.is_empty() || own.any(|row| row.metric == name || row.system == name))
    }
}

impl Row {
    /// Reads a flat JSON object.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let text = |name: &str| {
            let value = field(line, name)?.trim_matches('"');
            Some(if value == "null" { "" } else { value }.to_owned())
        };
        let options = text("options").unwrap_or_default();
        let mut system = text("system")?;
        if !options.is_empty() {
            system = format!("{system}+{options}");
        }
        Some(Self {
            experiment: text("experiment")?,
            source: text("source")?,
            system,
            operation: text("operation")?,
            metric: text("metric")?,
            statistic: text("statistic")?,
            order: text("order").unwrap_or_default(),
            cpus: text("cpus")?,
            value: text("value")?.parse().ok()?,
        })
    }
}

/// Returns the text of a field of a flat JSON object.
fn field<'r>(row: &'r str, name: &str) -> Option<&'r str> {
    let key = format!("\"{name}\":");
    let start = row.find(&key)? + key.len();
    let rest = row[start..].trim_start();
    let end = match rest.strip_prefix('"') {
        Some(text) => text.find('"')? + 2,
        None => rest.find([',', '}'])?,
    };
    Some(&rest[..end])
}
