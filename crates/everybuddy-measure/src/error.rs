//! What can go wrong in the program, in words for people.
//!
//! Exists so that every failure is one clear message with one exit code: what was asked, what is
//! wrong with it, what to do.
//!
//! Invariant: exit code 1 means that a comparison failed, 2 that the usage, the input or a file
//! did; 0 never comes with an error on the terminal.

use std::fmt;
use std::io;
use std::path::PathBuf;

use everybuddy_trace::TraceError;

/// Why a command gave no result.
#[derive(Debug)]
pub enum Error {
    /// The command line asks for something that does not exist or can't be.
    Usage(String),
    /// A trace was refused.
    Trace(TraceError),
    /// A recording could not be made or imported.
    Recording(Box<dyn std::error::Error + Send + Sync>),
    /// A file could not be written.
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Whoever reads standard output has closed it (`everybuddy systems | head`): no failure.
    ReaderGone,
    /// An allocator broke its contract: a result of this run can't be trusted.
    Broken(String),
    /// Somebody else's allocator, or a comparison, failed a check.
    Failed(String),
}

impl Error {
    /// Returns the exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::ReaderGone => 0,
            Error::Broken(_) | Error::Failed(_) => 1,
            Error::Usage(_) | Error::Trace(_) | Error::Recording(_) | Error::Write { .. } => 2,
        }
    }

    /// Gives an error of a recording.
    pub fn recording(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Recording(Box::new(error))
    }

    /// Gives an error of the usage.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::Usage(message.into())
    }

    /// Gives the error of writing to standard output or standard error.
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
            Error::Write { path, cause } => write!(
                out,
                "{}: {cause}: nothing was written; choose a file in a folder that can be written",
                path.display()
            ),
            Error::ReaderGone => write!(out, "nobody reads the output any more"),
            Error::Broken(message) => {
                write!(
                    out,
                    "{message}: a bug of Everybuddy; please report it with this command"
                )
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<TraceError> for Error {
    fn from(error: TraceError) -> Error {
        Error::Trace(error)
    }
}
