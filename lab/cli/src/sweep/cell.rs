//! A cell: a command line of this program, its key, and running it.
//!
//! A cell runs in a process of its own, wherever it runs. So its rows are those of its command line, and a crash loses
//! one cell.
//!
//! # Invariants
//! The rows of a cell are its own: what is about several cells, or about a trace without a run, is left out, so that no
//! row appears twice in a grid.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use everybuddy_measure::Error;
use everybuddy_measure::rows::{self, Row};
use everybuddy_simulate::rows::OF_SEVERAL_CELLS;

use super::command::Command;
use super::input::{Input, Word};
use crate::export::json;
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

/// Why a cell has no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Whether a check of the program failed, as opposed to an input.
    pub(crate) is_check: bool,
    /// The message.
    pub(crate) message: String,
}

impl Failure {
    /// Creates a failure of an input or a file.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure {
            is_check: false,
            message: message.into(),
        }
    }

    /// Returns the error of the whole program.
    pub(crate) fn error(self) -> Error {
        if self.is_check {
            Error::Failed(self.message)
        } else {
            Error::usage(self.message)
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// The exit code of a check that failed.
pub(crate) const CHECK_FAILED: i32 = 1;
/// The file that the cells of a machine that measure times lock, one after the other.
const TURN: &str = "everybuddy-native-cells.lock";

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
        let _turn = if self.command == Command::Compare && !together {
            turn(&shared_folder().join(TURN))
        } else {
            None
        };
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

/// Returns a folder that all processes of this machine share. The temporary folder may be that of one job of a cluster.
fn shared_folder() -> PathBuf {
    if cfg!(unix) {
        "/tmp".into()
    } else {
        std::env::temp_dir()
    }
}

/// Waits for the turn of a process on this machine, which ends when the file is dropped. Returns `None` where files
/// have no locks.
fn turn(path: &Path) -> Option<File> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).open(path);
    // Another user's file cannot be written, but locked.
    let file = file.or_else(|_| File::open(path)).ok()?;
    file.lock().ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_turn_begins_when_the_one_before_ends() {
        let path = std::env::temp_dir().join(format!("everybuddy-turn-{}", std::process::id()));
        let first = turn(&path).unwrap();
        let (sender, begun) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| sender.send(turn(&path).is_some()));
            assert!(begun.recv_timeout(Duration::from_millis(50)).is_err());
            drop(first);
            assert_eq!(begun.recv(), Ok(true));
        });
        std::fs::remove_file(&path).unwrap();
    }

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
