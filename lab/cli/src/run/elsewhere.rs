//! Cells that run elsewhere: as commands that a scheduler starts, or as tasks of a Ray cluster.
//!
//! Any run that keeps its cells can be divided among machines that see the same folders. Each cell is a command line:
//! that of the run, with the key of the cell.
//!
//! # Invariants
//! A command leaves the file of its cell in the store, and nothing else. The key depends on all that the rows depend
//! on, so a machine with other inputs or another program refuses the command.

use everybuddy_trace::shown;
use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use everybuddy_measure::Error;
use everybuddy_measure::library;
use serde_json::json;

use super::RunOptions;
use super::driver::Driver;
use crate::show::output;

/// The program that runs commands as tasks of Ray.
const RAY: &str = include_str!("../../python/_ray.py");
/// The exit code of a check that failed.
pub(crate) const CHECK_FAILED: i32 = 1;
/// The file by which only one cell of a sweep or a divided run measures times on a machine at a time.
const TURN: &str = "everybuddy-native-cells.lock";

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

/// Connects to a Ray cluster.
///
/// # Errors
/// A usage error if Python, Ray or the cluster is missing.
pub(crate) fn ray(address: &str, python: &str) -> Result<Driver, Error> {
    let option = format!("--ray {address}");
    Driver::start(&option, python, RAY, address, "ray")
}

/// Runs command lines as tasks of Ray. Calls `done` with the position of each one that has ended, and why it failed if
/// it did.
///
/// # Errors
/// Those of `done`, and a usage error if the cluster is lost.
pub(crate) fn run_on_ray(
    driver: &mut Driver,
    commands: &[Vec<String>],
    done: &mut dyn FnMut(usize, Option<Failure>) -> Result<(), Error>,
) -> Result<(), Error> {
    for (at, command) in commands.iter().enumerate() {
        driver.send(&json!({ "cell": at.to_string(), "command": command }))?;
    }
    let mut left: BTreeMap<String, usize> =
        (0..commands.len()).map(|at| (at.to_string(), at)).collect();
    while !left.is_empty() {
        let answer = driver.receive()?;
        let key = answer["cell"].as_str().unwrap_or_default();
        let Some(at) = left.remove(key) else {
            continue;
        };
        let message = answer["message"].as_str().unwrap_or_default().trim();
        let failure = Failure {
            is_check: answer["code"] == CHECK_FAILED,
            message: message.to_string(),
        };
        done(at, (answer["code"] != 0).then_some(failure))?;
    }
    Ok(())
}

/// Returns why a cell has no rows although its command has ended.
pub(crate) fn without_file(cell: &str, folder: &Path) -> Failure {
    Failure::new(format!(
        "{cell}: the cell has ended, but its file is not in {}\nhelp: all machines must see this folder",
        shown(folder)
    ))
}

/// Prints command lines, one a line, as a shell reads them.
///
/// # Errors
/// A usage error if a word cannot be quoted, and [`Error::ReaderGone`].
pub(crate) fn print(commands: &[Vec<String>]) -> Result<(), Error> {
    let mut text = String::new();
    for words in commands {
        let line = shlex::try_join(words.iter().map(String::as_str));
        text += &line.map_err(|cause| Error::usage(format!("--print-commands: {cause}")))?;
        text.push('\n');
    }
    output::text(&text)
}

/// Options without a value that are not those of a command of one cell.
const FLAGS: [&str; 1] = ["--print-commands"];
/// Such options with a value: where cells run, and files, which are of all cells.
const VALUES: [&str; 8] = [
    "--ray",
    "--markdown",
    "--python",
    "--json",
    "--csv",
    "--parquet",
    "--html",
    "--svg",
];

/// Returns the command line that runs one cell of this process's run, in the same folder and with the same traces.
///
/// # Errors
/// A usage error if a word is not Unicode text, or if the folder or the program is not known.
pub(crate) fn command_of(key: &str) -> Result<Vec<String>, Error> {
    let lacks = |what: &str, cause| Error::usage(format!("no {what} ({cause})"));
    let folder = env::current_dir().map_err(|cause| lacks("current folder", cause))?;
    let program = env::current_exe().map_err(|cause| lacks("program", cause))?;
    // The shell of a scheduler may be in any folder.
    let mut words = vec!["sh".to_string(), "-c".to_string()];
    match env::var_os(library::FOLDER_VARIABLE) {
        None => words.extend([r#"cd "$0" && exec "$@""#.to_string(), text(folder)?]),
        Some(traces) => {
            let variable = library::FOLDER_VARIABLE;
            let line = format!(r#"cd "$0" && export {variable}="$1" && shift && exec "$@""#);
            words.extend([line, text(folder)?, text(traces.into())?]);
        }
    }
    words.push(text(program)?);
    let given = env::args_os().skip(1).map(|word| text(word.into()));
    let given: Result<Vec<String>, Error> = given.collect();
    words.extend(words_of(given?, key));
    Ok(words)
}

fn text(word: PathBuf) -> Result<String, Error> {
    match word.to_str() {
        Some(text) => Ok(text.to_string()),
        None => Err(Error::usage(format!(
            "{}: the word is not Unicode text\nhelp: rename the file or the folder",
            shown(&word)
        ))),
    }
}

/// Returns the words of the command of one cell, from those of the run.
fn words_of(given: Vec<String>, key: &str) -> Vec<String> {
    let mut words = Vec::with_capacity(given.len() + 1);
    let mut given = given.into_iter();
    let mut operands = Vec::new();
    while let Some(word) = given.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word.as_str(), false),
        };
        if word == "--" {
            operands.push(word);
            operands.extend(given.by_ref());
        } else if VALUES.contains(&name) {
            if !value {
                given.next();
            }
        } else if !FLAGS.contains(&name) {
            words.push(word);
        }
    }
    words.push(format!("--cell={key}"));
    words.extend(operands);
    words
}

/// Returns the error for a key that no cell of the run has.
pub(super) fn unknown(key: &str) -> Error {
    Error::usage(format!(
        "--cell {key}: the run has no such cell: an option, an input, the program or, for times, the processor is \
         another one than when the command was printed\nhelp: print the commands again; all machines need the same \
         files and the same build"
    ))
}

/// Returns the error of an option that needs a store.
pub(super) fn needs_store(options: &RunOptions) -> Option<Error> {
    let option = match options {
        RunOptions {
            print_commands: true,
            ..
        } => "--print-commands",
        RunOptions { cell: Some(_), .. } => "--cell",
        RunOptions { ray: Some(_), .. } => "--ray",
        _ => return None,
    };
    Some(Error::usage(format!(
        "{option}: cells that run elsewhere leave their rows in a folder\nhelp: add --resume DIR, which all machines \
         see"
    )))
}

/// Returns the error of a run whose cells failed, here or elsewhere. Returns `Ok` if none did.
pub(crate) fn failed(all: usize, failures: BTreeMap<usize, Failure>) -> Result<(), Error> {
    let count = failures.len();
    let Some((_, first)) = failures.into_iter().next() else {
        return Ok(());
    };
    let message = format!(
        "{count} of {all} cells failed; the first one: {}\nhelp: correct the cause; the same command runs the cells \
         that are not finished",
        first.message
    );
    Err(Failure { message, ..first }.error())
}

/// Waits until no other process has the turn to measure times on this machine. The turn ends when the file is dropped.
/// Returns `None` if there is no such file, or no lock.
pub(crate) fn turn() -> Option<File> {
    turn_at(&shared_folder().join(TURN))
}

/// Returns a folder that all processes of this machine share. The temporary folder may be that of one job of a cluster.
fn shared_folder() -> PathBuf {
    if cfg!(unix) {
        "/tmp".into()
    } else {
        env::temp_dir()
    }
}

fn turn_at(path: &Path) -> Option<File> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).open(path);
    // Another user's file cannot be opened for writing, but it can be locked.
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
    fn the_command_of_a_cell_has_the_options_of_its_rows() {
        let of = |line: &str| {
            let given = line.split(' ').map(String::from).collect();
            words_of(given, "12").join(" ")
        };
        let line =
            "compare --ray auto --seed 2 --json rows --csv=x --resume=c --python p -- --json y";
        assert_eq!(
            of(line),
            "compare --seed 2 --resume=c --cell=12 -- --json y"
        );
        let line = "reproduce a --print-commands --html - --svg s b --cells d";
        assert_eq!(of(line), "reproduce a b --cells d --cell=12");
    }

    #[test]
    fn a_turn_begins_when_the_one_before_ends() {
        let path = env::temp_dir().join(format!("everybuddy-turn-{}", std::process::id()));
        let first = turn_at(&path).unwrap();
        let (sender, begun) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| sender.send(turn_at(&path).is_some()));
            assert!(begun.recv_timeout(Duration::from_millis(50)).is_err());
            drop(first);
            assert_eq!(begun.recv(), Ok(true));
        });
        std::fs::remove_file(&path).unwrap();
    }
}
