//! Recordings: what a kernel told while a program ran becomes a trace.
//!
//! Exists apart from the trace format because it is bound to platforms: recording needs Linux and root, and importing
//! reads what Linux's tools write. Whoever reads traces needs neither.
//!
//! | folder | what is there |
//! |--------|---------------|
//! | [`record`] | recording a command on this machine |
//! | `import` | [`import()`]: recordings by perf, ftrace or trace-cmd, and CSV |
//! | `assemble` | [`Assembly`]: a trace of the events of a kernel |
//! | [`trial`] | entry points for fuzzing |
//!
//! Invariant: what comes out is a trace that replays by itself, whatever went in.

mod assemble;
mod format;
mod import;
mod kernel;
#[cfg(target_os = "linux")]
pub mod record;
pub mod trial;

pub use assemble::{Accounts, Assembled, Assembly, KnownProcess, KnownRegion, Scope};
pub use import::{
    Heard, ImportError, ImportOptions, Imported, Source, import, import_file, import_stream,
};
pub use kernel::{KernelEvent, What};
