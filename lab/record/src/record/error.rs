//! Errors of a recording, with remedies.
//!
//! Recording needs more of a machine than anything else here: privileges, a
//! mounted tracefs, a kernel with the tracepoints.
//!
//! # Invariants
//! Each error names what was tried and a remedy.

use everybuddy_trace::shown;
use std::io;
use std::path::PathBuf;

/// The reason why a recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The kernel's tracing files are not writable.
    #[error(
        "{}: permission denied, because only root may read the kernel's trace events\nhelp: use `sudo`, or record with \
         `sudo perf record` and use `everybuddy trace import`",
        shown(path)
    )]
    NotPermitted {
        /// The file or directory.
        path: PathBuf,
    },
    /// tracefs is not mounted in a usual place.
    #[error(
        "no tracefs in /sys/kernel/tracing or /sys/kernel/debug/tracing\nhelp: mount it with `sudo mount -t tracefs \
         none /sys/kernel/tracing`; if that fails (\"unknown filesystem type\"), the kernel was built without \
         CONFIG_FTRACE and CONFIG_EVENT_TRACING, and in a container the host must allow it"
    )]
    NoTracefs,
    /// The kernel lacks a required tracepoint.
    #[error(
        "this kernel lacks the required tracepoint {tracepoint}\nhelp: use a kernel with CONFIG_EVENT_TRACING"
    )]
    NoTracepoint {
        /// Its group and name.
        tracepoint: &'static str,
    },
    /// The kernel does not report waits for a zone's lock, and nothing else was to be recorded.
    #[error(
        "this kernel lacks {tracepoint}, so it does not report waits for a zone's lock\nhelp: use Linux 5.19 or later, \
         and let root read addresses (sysctl kernel.kptr_restrict=1)"
    )]
    NoWaits {
        /// What it lacks.
        tracepoint: &'static str,
    },
    /// The kernel describes a page or a tracepoint in an unknown format.
    #[error(
        "{}: this kernel describes its records in an unknown format\nhelp: record with `perf record` and use \
         `everybuddy trace import`, and please report this file",
        shown(path)
    )]
    UnknownFormat {
        /// The description.
        path: PathBuf,
    },
    /// The kernel did not allocate the memory for its buffers.
    #[error(
        "the kernel could not allocate buffers of {} MiB per CPU\nhelp: use a smaller --buffer",
        bytes >> 20
    )]
    NoBuffer {
        /// The requested bytes per CPU.
        bytes: u64,
    },
    /// The command could not be started.
    #[error("failed to run {program}: {}", not_started(cause))]
    NoCommand {
        /// The command.
        program: String,
        /// The cause.
        cause: io::Error,
    },
    /// The command's tasks are not in the kernel's events.
    #[error(
        "no kernel events of process {pid}, because processes in a container have other numbers than in the kernel\n\
         help: record outside the container, or share the host's (docker run --pid=host)"
    )]
    OtherNumbers {
        /// The number of the command as seen by this program.
        pid: u32,
    },
    /// A file could not be read or written.
    #[error(
        "{}: {cause}\nhelp: check the permissions of the file and the free space of its directory",
        shown(path)
    )]
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

/// Says why a command could not be started.
fn not_started(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => "program not found; check its name and the PATH".to_string(),
        io::ErrorKind::PermissionDenied => {
            "permission denied; check that it is executable".to_string()
        }
        _ => cause.to_string(),
    }
}
