//! The rows of committed results.
//!
//! # Purpose
//!
//! A document names an experiment and not a file, if one run alone has rows of it in the file that its command writes.
//! Other files are named by their path below `results`.
//!
//! # Invariants
//!
//! A file is read once.

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
    /// The paths of the commands' own rows.
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
        runs.sort();
        let path = |run: &String| OUTPUTS.map(|file| format!("results/{run}/{file}"));
        let own = runs.iter().flat_map(path);
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

    /// Returns the file with the rows of an experiment.
    pub(crate) fn of(&self, experiment: &str) -> Result<&str, String> {
        let mut found = Vec::new();
        for path in &self.own {
            if self
                .file(path)?
                .iter()
                .any(|row| row.experiment == experiment)
            {
                found.push(path.as_str());
            }
        }
        match found[..] {
            [path] => Ok(path),
            [] => Err(format!(
                "no run has rows of `{experiment}`: name the file by `in=`"
            )),
            _ => {
                let paths = found.join(", ");
                Err(format!("`{experiment}` is in {paths}: name one by `in=`"))
            }
        }
    }
}

impl Row {
    /// Returns what a query selects by.
    pub(crate) fn names(&self) -> [&str; 6] {
        [
            &self.source,
            &self.system,
            &self.operation,
            &self.metric,
            &self.statistic,
            &self.order,
        ]
    }

    /// Reads a flat JSON object.
    fn read(line: &str) -> Option<Self> {
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
