//! Why inputs could not be read, or an output not written.
//!
//! A message names the file, the problem, and what to pass instead.
//!
//! # Invariants
//! A [`Problem`] says nothing about its place, which [`MemoryError::file`] names.

use std::fmt;
use std::io;

use crate::frames::snapshot::SnapshotError;

/// A problem and its place.
#[derive(Debug)]
pub struct MemoryError {
    /// The file, the option or the stream; `None` if the problem names it.
    pub file: Option<String>,
    /// The problem.
    pub problem: Problem,
}

/// What is wrong with an input or an output.
#[derive(Debug)]
pub enum Problem {
    /// The operating system could not read or write it.
    Io(io::Error),
    /// The flags of frames cannot be read.
    Snapshot(SnapshotError),
    /// The zones have no places, so that nothing tells to which the frames belong.
    NoPlaces,
    /// The flags are not those of the zones.
    Foreign {
        /// The zone.
        zone: String,
        /// Its free memory according to the flags.
        flagged: String,
        /// Its free memory according to its own counter.
        free: String,
    },
    /// The file describes frames whose flags are missing.
    NoFlags,
    /// No input contains a state.
    NoState,
    /// No line of the input is a moment of a history.
    NoMoment,
    /// A history does not permit this option.
    NotOfHistory(&'static str),
    /// A history was passed with other files.
    MixedHistory,
    /// The folder of an output does not exist.
    NoFolder,
    /// An output needs a state, and there is none.
    Empty,
    /// The file is not text; what it is instead.
    Encoding(&'static str),
    /// This number of lines were too long.
    CutLines(u64),
    /// The reader of standard output has closed the pipe. This is not a failure.
    Closed,
    /// A further output could not be written.
    Stopped,
}

impl Problem {
    /// Names the place.
    pub fn of(self, file: impl Into<String>) -> MemoryError {
        let (file, problem) = (Some(file.into()), self);
        MemoryError { file, problem }
    }
}

impl MemoryError {
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.problem, Problem::Closed)
    }
}

impl From<Problem> for MemoryError {
    fn from(problem: Problem) -> MemoryError {
        let file = None;
        MemoryError { file, problem }
    }
}

impl From<io::Error> for Problem {
    fn from(cause: io::Error) -> Problem {
        Problem::Io(cause)
    }
}

impl From<SnapshotError> for Problem {
    fn from(cause: SnapshotError) -> Problem {
        Problem::Snapshot(cause)
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(out, "{file}: ")?;
        }
        self.problem.fmt(out)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Problem::Io(cause) => return cause.fmt(out),
            Problem::Snapshot(cause) => return cause.fmt(out),
            Problem::Foreign {
                zone,
                flagged,
                free,
            } => {
                return write!(
                    out,
                    "{zone}: the flags show {flagged} free, and the zone's own counter {free}: the files are of \
                     different machines or moments"
                );
            }
            Problem::CutLines(lines) => {
                return write!(
                    out,
                    "{lines} lines were longer than 1 MiB: their rest was skipped"
                );
            }
            Problem::NoPlaces => {
                "the flags of frames need the zones of the same machine and moment: pass a copy of /proc/zoneinfo as \
                 well"
            }
            Problem::NoFlags => {
                "it says nothing without the flags of frames: pass a copy of /proc/kpageflags as well"
            }
            Problem::NoState => {
                "no state of memory found. Pass a copy of /proc/buddyinfo or zoneinfo, or a log with a report of the \
                 kernel (\"Mem-Info:\")"
            }
            Problem::NotOfHistory(option) => {
                return write!(
                    out,
                    "{option} cannot be used with a history; only --need and --html can"
                );
            }
            Problem::NoMoment => {
                "no line is a record of a history, such as `--every 60s -o FILE` writes"
            }
            Problem::MixedHistory => "a history cannot be read together with other files",
            Problem::NoFolder => {
                "its folder does not exist: create the folder, or name a file in another one"
            }
            Problem::Empty => "the input contains no state",
            Problem::Encoding(reason) => reason,
            Problem::Closed => "the reader has closed it",
            Problem::Stopped => "a further output could not be written",
        })
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(cause) => Some(cause),
            Problem::Snapshot(cause) => Some(cause),
            _ => None,
        }
    }
}
