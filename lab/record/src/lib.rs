//! Recordings: turns the events of a kernel, recorded while a program ran, into a trace.
//!
//! Separate from the trace format because it is platform-specific: recording requires Linux and root, and importing
//! reads the output of Linux's tools. Readers of traces need neither.
//!
//! | folder | contents |
//! |--------|---------------|
//! | [`record`] | recording a command on this machine |
//! | `import` | [`import()`]: recordings by perf, ftrace or trace-cmd, and CSV |
//! | `assemble` | [`Assembly`]: a trace from the events of a kernel |
//! | [`fuzz_checks`] | entry points for fuzzing |
//!
//! # Invariants
//! The result is a trace that replays by itself, whatever the input.

mod assemble;
mod format;
mod functions;
pub mod fuzz_checks;
mod import;
mod kernel;
#[cfg(target_os = "linux")]
pub mod record;

pub use assemble::{Accounts, Assembled, Assembly, KnownProcess, KnownRegion, Scope};
pub use functions::Functions;
pub use import::{
    ImportError, ImportLog, ImportOptions, Imported, Source, import, import_file, import_stream,
};
pub use kernel::{KernelEvent, What};
