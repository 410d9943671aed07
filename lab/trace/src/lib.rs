//! Page-allocation traces: the calls that real programs made to a page allocator, as checked files.
//!
//! A trace is a Parquet file with one row per call of the allocator, ordered by time: `NAME.parquet`. It may have three
//! companion files. `NAME.faults.parquet` contains the address at which each fault accessed memory, and
//! `NAME.vmas.parquet` contains the address regions of these addresses. `NAME.locks.parquet` contains acquisitions of
//! a zone's lock. `traces/README.md` of the repository documents the format, column by column.
//!
//! | step | function | result |
//! |------|----------|---------------|
//! | read and check | [`read()`], [`read_embedded`] | a [`Trace`]: events as recorded, and address regions |
//! | resolve | [`resolve()`] | [`Resolved`]: each free matched with its allocation, ready for replay |
//! | summarize | [`Statistics::of`] | counts, runs, lifetimes, frames in use over time |
//! | write | [`write()`] | the same files |
//! | export | [`export()`] | CSV, or text like that of `perf script` |
//! | gather sizes | [`Sizes::of`] | the number of blocks of each order that the first requests need; [`division()`] divides memory accordingly |
//! | cut | [`cut()`] | a part of a trace, which replays by itself |
//!
//! ```no_run
//! # fn main() -> Result<(), everybuddy_trace::TraceError> {
//! use everybuddy_trace::{Leniency, Statistics, read, resolve};
//!
//! let (trace, _) = read("traces/gcc_build.parquet".as_ref(), Leniency::Strict)?;
//! let resolved = resolve(&trace)?;
//! let statistics = Statistics::of(&trace, &resolved);
//! println!("{} frames live at the peak", statistics.peak_frames);
//! # Ok(())
//! # }
//! ```
//!
//! The crate `everybuddy-record` turns recordings into traces.
//!
//! # Invariants
//! A [`Trace`] returned by [`read()`] **replays by itself**: time never decreases, no live frame is allocated, and
//! every free is inside a live block. One without calls contains only waits for zones' locks ([`WaitsOnly`]).
//! [`Leniency::Strict`] rejects a file that violates this and reports its first bad row;
//! [`Leniency::Lenient`] repairs the file and reports the repairs in [`Repairs`]. A damaged file of any kind produces
//! a [`TraceError`], never a panic.

mod acquisitions;
mod check;
mod columns;
mod companions;
mod cut;
mod error;
mod export;
mod guard;
mod identity;
mod live;
mod machine;
mod model;
mod processes;
mod read;
mod repair;
mod repair_events;
mod resolve;
mod schema;
mod shown;
mod sizes;
mod source;
mod statistics;
mod waits_only;
mod write;

pub use acquisitions::OnCpus;
pub use check::{Broken, LARGEST_SPAN};
pub use cut::{Cut, CutReport, cut};
pub use error::{Problem, TraceError};
pub use everybuddy_text::{Pending, by_name, named};
pub use export::{CSV_COLUMNS, ExportFormat, export};
pub use guard::quietly;
pub use machine::{Machine, MachineZone, add_blocks, zones};
pub use model::{
    Acquisition, AddressRegion, Context, Event, EventFlags, Fault, LARGEST_ORDER, LockSource, Op,
    PAGE_SHIFT, RegionId, RegionKind, Trace,
};
pub use processes::{OwnerKind, Owners, Processes, programs};
pub use read::{Legal, legalize, read, read_embedded};
pub use repair::{Leniency, Repair, Repairs};
pub use resolve::{Resolved, Step, StepKind, resolve};
pub use shown::{escaped, shown};
pub use sizes::{Need, ORDERS, Sizes, SizesError, division};
pub use source::{Embedded, files};
pub use statistics::{
    CpuRun, LiveSample, LockWaits, OrderShare, Quantiles, RunLengths, Statistics, cpu_runs,
    region_runs, task_runs,
};
pub use waits_only::{WaitingCaller, WaitsOnly};
pub use write::{Prepared, prepare, write};
