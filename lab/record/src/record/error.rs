//! Errors of a recording, with remedies.
//!
//! # Purpose
//!
//! Recording needs more of a machine than anything else here: privileges, a
//! mounted tracefs, a kernel with the tracepoints.
//!
//! # Invariants
//!
//! Each error names what was tried and a remedy.

use everybuddy_trace::shown;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a recording failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// The kernel's tracing files are not writable.
    NotPermitted {
        /// The file or directory.
        path: PathBuf,
    },
    /// tracefs is not mounted in a usual place.
    NoTracefs,
    /// The kernel lacks a required tracepoint.
    NoTracepoint {
        /// Its group and name.
        tracepoint: &'static str,
    },
    /// The kernel does not report waits for a zone's lock, and nothing else was to be recorded.
    NoWaits {
        /// What it lacks.
        tracepoint: &'static str,
    },
    /// The kernel describes a page or a tracepoint in an unknown format.
    UnknownFormat {
        /// The description.
        path: PathBuf,
    },
    /// The kernel did not allocate the memory for its buffers.
    NoBuffer {
        /// The requested bytes per CPU.
        bytes: u64,
    },
    /// The command could not be started.
    NoCommand {
        /// The command.
        program: String,
        /// The cause.
        cause: io::Error,
    },
    /// The command's tasks are not in the kernel's events.
    OtherNumbers {
        /// The number of the command as seen by this program.
        pid: u32,
    },
    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
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
                "{}: permission denied, because only root may read the kernel's trace events\nhelp: \
                 use `sudo`, or record with `sudo perf record` and use \
                 `everybuddy trace import`",
                shown(path)
            ),
            RecordError::NoTracefs => write!(
                out,
                "no tracefs in /sys/kernel/tracing or /sys/kernel/debug/tracing\nhelp: mount it with \
                 `sudo mount -t tracefs none /sys/kernel/tracing`; if that fails \
                 (\"unknown filesystem type\"), the kernel was built without CONFIG_FTRACE and \
                 CONFIG_EVENT_TRACING, and in a container the host must allow it"
            ),
            RecordError::NoTracepoint { tracepoint } => write!(
                out,
                "this kernel lacks the required tracepoint {tracepoint}\nhelp: use a kernel \
                 with CONFIG_EVENT_TRACING"
            ),
            RecordError::NoWaits { tracepoint } => write!(
                out,
                "this kernel lacks {tracepoint}, so it does not report waits for a zone's lock\nhelp: use \
                 Linux 5.19 or later, and let root read addresses (sysctl kernel.kptr_restrict=1)"
            ),
            RecordError::UnknownFormat { path } => write!(
                out,
                "{}: this kernel describes its records in an unknown format\nhelp: record with \
                 `perf record` and use `everybuddy trace import`, and please report this file",
                shown(path)
            ),
            RecordError::NoBuffer { bytes } => write!(
                out,
                "the kernel could not allocate buffers of {} MiB per CPU\nhelp: use a smaller --buffer",
                bytes >> 20
            ),
            RecordError::NoCommand { program, cause } => {
                let remedy = match cause.kind() {
                    io::ErrorKind::NotFound => "program not found; check its name and the PATH",
                    io::ErrorKind::PermissionDenied => {
                        "permission denied; check that it is executable"
                    }
                    _ => return write!(out, "failed to run {program}: {cause}"),
                };
                write!(out, "failed to run {program}: {remedy}")
            }
            RecordError::OtherNumbers { pid } => write!(
                out,
                "no kernel events of process {pid}, because processes in a container have other \
                 numbers than in the kernel\nhelp: record outside the container, or share the host's \
                 (docker run --pid=host)"
            ),
            RecordError::Io { path, cause } => write!(
                out,
                "{}: {cause}\nhelp: check the permissions of the file and the free space of its directory",
                shown(path)
            ),
        }
    }
}

impl std::error::Error for RecordError {}
