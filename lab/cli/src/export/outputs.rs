//! The files that a command writes.
//!
//! A mistake in a file name is reported before the work starts, and never costs a file that the user has.
//!
//! # Invariants
//! The outputs of a command are different files, and none of them is an input, whatever names lead to them. A file
//! appears completely or not at all, and an interrupt leaves no temporary file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_trace::{Pending, Trace, prepare, shown};

use crate::signals;

/// The files that a command reads and those that it will write.
#[derive(Debug, Default)]
pub struct Outputs {
    inputs: Vec<PathBuf>,
    /// The option and the path of each output as they were given, and the file.
    known: Vec<(String, PathBuf)>,
}

impl Outputs {
    /// Starts with the files that the command reads: traces, with their companion files, and others.
    pub fn beside(inputs: Vec<PathBuf>) -> Outputs {
        Outputs {
            inputs,
            known: Vec::new(),
        }
    }

    /// Prepares a file that an option names.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if the file cannot be written, or a usage error if it is an input or another output, or
    /// has the name of a trace.
    pub fn open(&mut self, option: &str, path: &Path) -> Result<Output, Error> {
        for input in &self.inputs {
            library::check_distinct(option, path, input)?;
        }
        // Commands read such a file as a trace or as its companion, and another trace may have this name. Rows may be
        // in such a file, too.
        let is_of_rows = ["--parquet", "--resume"].contains(&option);
        if !is_of_rows && path.extension().is_some_and(|end| end == "parquet") {
            return Err(Error::usage(format!(
                "{option}: a name that ends with .parquet is that of a trace, and this is not one\n\
                 help: choose another name",
            )));
        }
        let created = signals::deferred(|| Pending::create(path));
        let pending = created.map_err(|cause| refused(path, cause))?;
        if let Some(place) = pending.place() {
            let name = format!("{option} {}", shown(path));
            if let Some((other, _)) = self.known.iter().find(|known| known.1 == place) {
                return Err(Error::usage(format!(
                    "{name}: the same file as {other}\nhelp: choose another file for one of them"
                )));
            }
            self.known.push((name, place.to_path_buf()));
        }
        Ok(Output { pending })
    }
}

/// A file that will be written. If it is dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct Output {
    pending: Pending,
}

impl Output {
    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        self.pending.path()
    }

    /// Appends `bytes` to the earlier output and completes the file.
    ///
    /// # Errors
    /// Returns [`Error::Write`]; the file is then unchanged.
    pub fn finish(self, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path().to_path_buf();
        let finished = signals::deferred(|| self.pending.finish(bytes));
        finished.map_err(|cause| refused(&path, cause))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pending.flush()
    }
}

/// Writes a trace as its files.
///
/// # Errors
/// Returns an error with the file that could not be written.
pub fn write_trace(trace: &Trace, path: &Path) -> Result<(), Error> {
    let prepared = prepare(trace, path)?;
    Ok(signals::deferred(|| prepared.publish())?)
}

/// Creates the error for a file that cannot be written.
pub(crate) fn refused(path: &Path, cause: io::Error) -> Error {
    Error::Write {
        path: path.to_path_buf(),
        cause,
    }
}
