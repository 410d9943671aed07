//! Errors of an import, with messages for users.
//!
//! Every refusal says where, what, and what to do instead.
//!
//! # Invariants
//! Lines are counted from 1, bytes from 0.

use everybuddy_trace::shown;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The reason why a recording could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The operating system could not read the file.
    #[error("{}: {}", shown(file), unread(error))]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The recording is invalid.
    #[error("{}{}{place}: {what}\nhelp: {help}", shown(file), if place.is_empty() { "" } else { ", " })]
    Refused {
        /// The file.
        file: PathBuf,
        /// The place in the file for readers: `line 7`, `byte 104`; empty for the whole file.
        place: String,
        /// The problem.
        what: String,
        /// The remedy.
        help: String,
    },
}

/// Says what is wrong with a file that could not be read, and what to do.
fn unread(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::IsADirectory => {
            "is a folder\nhelp: pass a file; of the folder of `perf record --threads`, import \
                                    the output of `perf script --ns -i FOLDER`"
                .to_string()
        }
        _ => format!("{error}\nhelp: check that the file is readable"),
    }
}

/// An error before the file's name is known.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(std::io::Error),
    Refused {
        place: String,
        what: String,
        help: String,
    },
}

impl Fault {
    pub(crate) fn refuse(
        place: impl Into<String>,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Fault {
        Fault::Refused {
            place: place.into(),
            what: what.into(),
            help: help.into(),
        }
    }

    pub(crate) fn of(self, file: &std::path::Path) -> ImportError {
        let file = file.to_path_buf();
        match self {
            Fault::Io(error) => ImportError::Io { file, error },
            Fault::Refused { place, what, help } => ImportError::Refused {
                file,
                place,
                what,
                help,
            },
        }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        Fault::Io(error)
    }
}
