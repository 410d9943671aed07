//! A cell: a command line of this program, its key, and running it.
//!
//! A cell runs in a process of its own, wherever it runs. So its rows are those of its command line, and a crash loses
//! one cell.
//!
//! # Invariants
//! The rows of a cell are its own: what is about several cells, or about a trace without a run, is left out, so that no
//! row appears twice in a grid.

use std::process::{Command as Process, Stdio};

use everybuddy_measure::rows::{self, Row};
use everybuddy_simulate::rows::OF_SEVERAL_CELLS;

use super::command::Command;
use super::input::{Input, Word};
use crate::export::json;
use crate::run::elsewhere::{self, CHECK_FAILED, Failure};
use crate::run::store::Store;

/// A cell of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The name for readers.
    pub(crate) name: String,
    /// All that its rows depend on, besides the program.
    pub(crate) identity: String,
    /// The key of the store.
    pub(crate) key: String,
    /// The number of its group: cells that differ in CPUs and seed only are neighbours, and have the same one.
    pub(crate) group: usize,
    /// Its systems, separated by commas.
    pub(crate) systems: String,
    command: Command,
    words: Vec<String>,
    /// The files that it reads.
    inputs: Vec<Input>,
}

impl Cell {
    /// Creates a cell from its command line.
    pub(crate) fn new(
        name: String,
        (command, group): (Command, usize),
        systems: &[String],
        words: &[Word],
    ) -> Cell {
        let keys: Vec<&str> = words.iter().map(|word| word.key.as_str()).collect();
        let identity = format!("{keys:?}");
        Cell {
            name,
            key: Store::key(&identity),
            identity,
            group,
            systems: systems.join(","),
            command,
            words: words.iter().map(|word| word.text.clone()).collect(),
            inputs: words.iter().filter_map(|word| word.input.clone()).collect(),
        }
    }

    /// Runs the cell and returns its rows. Unless `together`, a cell that measures times waits until no other one runs
    /// on this machine.
    ///
    /// # Errors
    /// The message of the program, or what is wrong with its rows. A file that has changed since the key of the cell
    /// was computed is an error, because the rows are not those of the key.
    pub(crate) fn run(&self, together: bool) -> Result<Vec<Row>, Failure> {
        let failed = |what: String| Failure::new(format!("{}: {what}", self.name));
        let program = std::env::current_exe();
        let program = program.map_err(|cause| failed(format!("no program ({cause})")))?;
        let waits = self.command == Command::Compare && !together;
        let _turn = waits.then(elsewhere::turn);
        let mut process = Process::new(program);
        let process = process.args(&self.words).stdin(Stdio::null());
        let output = process.output();
        let output = output.map_err(|cause| failed(format!("failed to start ({cause})")))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let message = match text.rfind("error: ") {
                Some(at) => text[at + "error: ".len()..].trim_end().to_string(),
                None => format!("the process ended with {}", output.status),
            };
            return Err(Failure {
                is_check: output.status.code() == Some(CHECK_FAILED),
                message: format!("{}: {message}", self.name),
            });
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut rows = json::decode(&text).map_err(|what| failed(format!("its rows: {what}")))?;
        rows.retain(|row| self.owns(row));
        rows::checked(&rows).map_err(|error| failed(error.to_string()))?;
        match self.inputs.iter().find(|input| !input.is_unchanged()) {
            None => Ok(rows),
            Some(input) => Err(failed(format!(
                "{} has changed since the sweep began\nhelp: run the sweep again",
                input.name
            ))),
        }
    }

    /// Returns `true` for a row that no other cell has.
    fn owns(&self, row: &Row) -> bool {
        match self.command {
            Command::Simulate => {
                row.platform.is_simulated() && !OF_SEVERAL_CELLS.contains(&row.metric)
            }
            Command::Compare => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_cell_depends_on_its_words_and_files() {
        let key = |words: &[Word]| Cell::new("cell".into(), (Command::Compare, 1), &[], words).key;
        let file = |text: &str, key: &str| Word {
            text: text.into(),
            key: key.into(),
            input: None,
        };
        let own = key(&[Word::plain("a"), file("/one/x", "x (1)")]);
        // Where a file is does not matter.
        assert_eq!(own, key(&[Word::plain("a"), file("/two/x", "x (1)")]));
        for other in [
            key(&[Word::plain("b"), file("/one/x", "x (1)")]),
            key(&[Word::plain("a"), file("/one/x", "x (2)")]),
            key(&[Word::plain("a")]),
            key(&[Word::plain("ax (1)")]),
        ] {
            assert_ne!(own, other);
        }
    }
}
