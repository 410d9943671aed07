//! The rows of committed results.
//!
//! A document names an experiment and not a file, if one run alone has rows of it in the file that its command writes.
//! Other files, and folders with a file for each run, are named by their path below `results`, without its ending.
//!
//! # Invariants
//! A file is read once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use everybuddy_text::packed;

use super::digests::Digests;

/// What the names of files with rows end in.
pub(crate) const ENDING: &str = ".jsonl.gz";

/// The files in which the commands' own rows are stored.
const OUTPUTS: [&str; 3] = ["reproduce", "compare", "bench"];

/// All results.
pub(crate) struct Results {
    root: PathBuf,
    files: RefCell<BTreeMap<String, Rc<Vec<Row>>>>,
    /// The files and folders with the commands' own rows, below the root and without their endings.
    own: Vec<String>,
    pub(crate) digests: Digests,
    /// Whether a value is of an older program that was asked for since this was read.
    older: Cell<bool>,
}

/// A measurement.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) experiment: String,
    /// Source, system with its options, operation, metric, statistic and order.
    pub(crate) names: [String; 6],
    pub(super) cpus: String,
    pub(super) value: f64,
    pub(crate) is_older: bool,
}

impl Results {
    pub(crate) fn new(root: &Path) -> Self {
        let digests = Digests::new(root);
        let root = root.join("results");
        let runs = fs::read_dir(&root).into_iter().flatten();
        let runs = runs.filter_map(|run| run.ok()?.file_name().into_string().ok());
        let own = runs.flat_map(|run| OUTPUTS.map(|file| format!("{run}/{file}")));
        let mut own: Vec<String> = own.filter(|file| place(&root, file).exists()).collect();
        own.sort();
        Self {
            root,
            files: RefCell::default(),
            own,
            digests,
            older: Cell::new(false),
        }
    }

    /// Returns the values of rows, and notes if one is of an older program.
    pub(super) fn values<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Vec<f64> {
        let noted = rows.map(|row| {
            self.older.set(self.older.get() || row.is_older);
            row.value
        });
        noted.collect()
    }

    /// Returns whether a value since the last call was of an older program.
    pub(super) fn take_older(&self) -> bool {
        self.older.take()
    }

    /// Returns the rows of a file, or of the only one that has the experiment if `file` is empty.
    pub(crate) fn rows(&self, file: &str, experiment: &str) -> Result<Rc<Vec<Row>>, String> {
        if file.is_empty() {
            return self.rows(self.of(experiment)?, experiment);
        }
        if let Some(rows) = self.files.borrow().get(file) {
            return Ok(Rc::clone(rows));
        }
        let text = packed::read(&place(&self.root, file));
        let text = text.map_err(|error| format!("results/{file}: {error}"))?;
        let read = |line| Row::read(line, &self.digests);
        let rows: Rc<Vec<Row>> = Rc::new(text.lines().filter_map(read).collect());
        let mut files = self.files.borrow_mut();
        files.insert(file.to_owned(), Rc::clone(&rows));
        Ok(rows)
    }

    /// Returns the file with the rows of an experiment.
    pub(super) fn of(&self, experiment: &str) -> Result<&str, String> {
        let mut found = Vec::new();
        for file in &self.own {
            let rows = self.rows(file, experiment)?;
            if rows.iter().any(|row| row.experiment == experiment) {
                found.push(file.as_str());
            }
        }
        let (count, files) = (found.len(), found.join(", "));
        let many = format!("{count} runs have `{experiment}`: name a file by `in=`: {files}");
        found.pop().filter(|_| count == 1).ok_or(many)
    }
}

impl Row {
    /// Reads a flat JSON object.
    fn read(line: &str, digests: &Digests) -> Option<Self> {
        let text = |name: &str| {
            let value = field(line, name)?.trim_matches('"');
            Some(if value == "null" { "" } else { value }.to_owned())
        };
        let (mut system, options) = (text("system")?, text("options").unwrap_or_default());
        if !options.is_empty() {
            system = format!("{system}+{options}");
        }
        let [platform, program] =
            ["platform", "program"].map(|name| text(name).unwrap_or_default());
        let is_older = digests.is_older(&system, &platform, &program);
        let [source, operation] = [text("source")?, text("operation")?];
        let [metric, statistic] = [text("metric")?, text("statistic")?];
        let order = text("order").unwrap_or_default();
        Some(Self {
            experiment: text("experiment")?,
            names: [source, system, operation, metric, statistic, order],
            cpus: text("cpus")?,
            value: text("value")?.parse().ok()?,
            is_older,
        })
    }
}

/// Returns the path of what a document names: of a folder, or of a file.
fn place(root: &Path, name: &str) -> PathBuf {
    let folder = root.join(name);
    if folder.is_dir() {
        folder
    } else {
        root.join(format!("{name}{ENDING}"))
    }
}

/// Returns the text of a field of a flat JSON object.
fn field<'r>(row: &'r str, name: &str) -> Option<&'r str> {
    let key = format!("\"{name}\":");
    let (_, rest) = row.split_once(&key)?;
    let rest = rest.trim_start();
    let end = match rest.strip_prefix('"') {
        Some(text) => text.find('"')? + 2,
        None => rest.find([',', '}'])?,
    };
    Some(&rest[..end])
}
