//! What can keep a recording from happening, and what to do about it.
//!
//! # Purpose
//!
//! Recording needs more of a machine than anything else here: privileges, a
//! mounted tracefs, a kernel with the tracepoints.
//!
//! # Invariants
//!
//! Each error names what was tried and a remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a recording could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// The kernel's tracing files may not be written.
    NotPermitted {
        /// The file or folder.
        path: PathBuf,
    },
    /// No tracefs is mounted where it usually is.
    NoTracefs,
    /// The kernel lacks a tracepoint without which there is no trace.
    NoTracepoint {
        /// Its group and name.
        tracepoint: &'static str,
    },
    /// The kernel describes a page or a tracepoint in a way that is not understood.
    UnknownFormat {
        /// The description.
        path: PathBuf,
    },
    /// The kernel did not give the memory for its buffers.
    NoBuffer {
        /// Bytes asked for, for each CPU.
        bytes: u64,
    },
    /// The command could not be started.
    NoCommand {
        /// The command.
        program: String,
        /// Why.
        cause: io::Error,
    },
    /// The command's tasks are not the ones that the kernel tells of.
    OtherNumbers {
        /// Number of the command as this program sees it.
        pid: u32,
    },
    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

impl RecordError {
    /// Creates an error from the answer of a file.
    pub(super) fn at(path: impl Into<PathBuf>, cause: io::Error) -> RecordError {
        let path = path.into();
        match cause.kind() {
            io::ErrorKind::PermissionDenied => RecordError::NotPermitted { path },
            _ => RecordError::Io { path, cause },
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::NotPermitted { path } => write!(
                out,
                "{}: not permitted: recording reads the kernel's trace events, which only root may; \
                 put `sudo` in front, or record with `sudo perf record` and use \
                 `everybuddy trace import`",
                path.display()
            ),
            RecordError::NoTracefs => write!(
                out,
                "no tracefs in /sys/kernel/tracing or /sys/kernel/debug/tracing: mount it with \
                 `sudo mount -t tracefs none /sys/kernel/tracing`; a kernel that can't \
                 (\"unknown filesystem type\") was built without CONFIG_FTRACE and \
                 CONFIG_EVENT_TRACING, and in a container the host must allow it"
            ),
            RecordError::NoTracepoint { tracepoint } => write!(
                out,
                "this kernel has no tracepoint {tracepoint}, without which nothing can be \
                 recorded: it needs CONFIG_EVENT_TRACING"
            ),
            RecordError::UnknownFormat { path } => write!(
                out,
                "{}: this kernel describes its records in an unknown way; record with \
                 `perf record` and use `everybuddy trace import`, and please report this file",
                path.display()
            ),
            RecordError::NoBuffer { bytes } => write!(
                out,
                "the kernel gave no buffers of {} MiB for each CPU: ask for less with --buffer",
                bytes >> 20
            ),
            RecordError::NoCommand { program, cause } => {
                let remedy = match cause.kind() {
                    io::ErrorKind::NotFound => "no such program; check its name and the PATH",
                    io::ErrorKind::PermissionDenied => "it may not be run; is it executable?",
                    _ => return write!(out, "{program}: {cause}: nothing was recorded"),
                };
                write!(out, "{program}: {remedy}: nothing was recorded")
            }
            RecordError::OtherNumbers { pid } => write!(
                out,
                "the kernel told nothing of process {pid}: in a container processes have other \
                 numbers than for the kernel; record outside of it, or share the host's \
                 (docker run --pid=host)"
            ),
            RecordError::Io { path, cause } => write!(
                out,
                "{}: {cause}: check that the file can be used and its folder has room",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RecordError {}
