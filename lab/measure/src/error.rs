//! Errors of the program, with messages for users.
//!
//! Every failure is one clear message and one exit code. The message states the request, the problem and a remedy.
//!
//! # Invariants
//! Exit code 1 means that a comparison failed; 2 means an error in usage, input or a file; 0 never accompanies an
//! error message.

use everybuddy_trace::shown;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use everybuddy_trace::TraceError;

/// The name of standard output in messages.
pub const STANDARD_OUTPUT: &str = "standard output";
/// The name of standard error in messages.
pub const STANDARD_ERROR: &str = "standard error";

/// The reason why a command produced no result.
#[derive(Debug)]
pub enum Error {
    /// The command line requests something that does not exist or is impossible.
    Usage(String),
    /// A trace was rejected.
    Trace(TraceError),
    /// A recording could not be made or imported.
    Recording(Box<dyn std::error::Error + Send + Sync>),
    /// A file could not be written.
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// The reader of standard output has closed the pipe (`everybuddy systems | head`). This is not a failure.
    ReaderGone,
    /// Only a part of a run was wanted, and it has ended. This is not a failure, and nothing more is printed.
    Part,
    /// An allocator broke its contract: the results of this run are not reliable.
    Broken(String),
    /// A third-party allocator, or a comparison, failed a check.
    Failed(String),
}

impl Error {
    /// Returns the exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::ReaderGone | Error::Part => 0,
            Error::Broken(_) | Error::Failed(_) => 1,
            Error::Usage(_) | Error::Trace(_) | Error::Recording(_) | Error::Write { .. } => 2,
        }
    }

    /// Creates an error of a recording.
    pub fn recording(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Recording(Box::new(error))
    }

    /// Creates a usage error.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::Usage(message.into())
    }

    /// Creates an error of writing to standard output or standard error.
    pub fn stream(name: &str, cause: io::Error) -> Error {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => Error::ReaderGone,
            _ => Error::Write {
                path: PathBuf::from(name),
                cause,
            },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(message) | Error::Failed(message) => write!(out, "{message}"),
            Error::Trace(error) => write!(out, "{error}"),
            Error::Recording(error) => write!(out, "{error}"),
            Error::Write { path, cause } => {
                write!(out, "{}: failed to write ({cause})", shown(path))?;
                match remedy(path, cause) {
                    "" => Ok(()),
                    help => write!(out, "\nhelp: {help}"),
                }
            }
            Error::ReaderGone => write!(out, "output pipe closed"),
            Error::Part => write!(out, "a part of a run has ended"),
            Error::Broken(message) => {
                write!(
                    out,
                    "internal error: {message}\nhelp: please report this bug together with the command"
                )
            }
        }
    }
}

/// Returns what helps against a failure to write. The text is empty if that is not known.
fn remedy(path: &Path, cause: &io::Error) -> &'static str {
    let is_stream = [STANDARD_OUTPUT, STANDARD_ERROR]
        .map(Path::new)
        .contains(&path);
    match (cause.kind(), is_stream) {
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, true) => {
            "free space on the device, or redirect the output to another one"
        }
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, false) => {
            "free space on the device, or choose a file on another one"
        }
        (_, true) => "redirect the output to a file, or to a program that reads it",
        (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) => {
            "create the directory first, or choose a file in one that exists"
        }
        (io::ErrorKind::IsADirectory, _) => "choose a file, not a directory",
        (io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem, _) => {
            "choose a file in a writable directory"
        }
        _ => "",
    }
}

impl std::error::Error for Error {}

impl From<TraceError> for Error {
    fn from(error: TraceError) -> Error {
        Error::Trace(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_for_a_failed_write_follows_the_cause() {
        let help = |path: &str, kind: io::ErrorKind| {
            let (path, cause) = (PathBuf::from(path), io::Error::from(kind));
            let text = Error::Write { path, cause }.to_string();
            text.split_once("help: ").map(|parts| parts.1.to_string())
        };
        let file = |kind| help("x/y.csv", kind).unwrap();
        assert!(file(io::ErrorKind::NotFound).contains("create the directory"));
        assert!(file(io::ErrorKind::PermissionDenied).contains("writable directory"));
        assert!(file(io::ErrorKind::IsADirectory).contains("not a directory"));
        assert!(file(io::ErrorKind::StorageFull).contains("space"));
        assert_eq!(help("x/y.csv", io::ErrorKind::Other), None);
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            let stream = help(STANDARD_OUTPUT, kind).unwrap();
            assert!(stream.contains("redirect"), "{stream}");
        }
    }
}
