//! Page-allocation traces: what real programs asked of a page allocator, as files, checked.
//!
//! A trace is a Parquet file with one row for each call of the allocator, in order of time:
//! `NAME.parquet`. Beside it may lie `NAME.faults.parquet`, which says at what address each fault
//! touched memory, and `NAME.vmas.parquet`, the address regions that these addresses belong to.
//! The format, column by column, is documented once, in `traces/README.md` of the repository.
//!
//! | step | function | what it gives |
//! |------|----------|---------------|
//! | read and check | [`read()`] | a [`Trace`]: events as they were recorded, address regions |
//! | resolve | [`resolve()`] | [`Resolved`]: each free matched with its allocation, ready for replay |
//! | summarize | [`Statistics::of`] | counts, runs, lifetimes, live frames over time |
//! | write | [`write()`] | the same three files |
//! | export | [`export()`] | CSV, or text like that of `perf script` |
//! | gather sizes | [`Sizes::of`] | how many blocks of each order the first requests need; [`division()`] divides memory by it |
//! | cut | [`cut()`] | a part of a trace that replays by itself |
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
//! Recordings become traces in the crate `everybuddy-record`.
//!
//! Invariant of the whole crate: a [`Trace`] that [`read()`] gave **replays by itself**. Time never
//! runs backwards, no live frame is allocated, and every free lies inside a block that lives.
//! [`Leniency::Strict`] refuses a file for which this does not hold, with its first bad row;
//! [`Leniency::Lenient`] repairs it and says what it did, in [`Repairs`]. Damaged files of any
//! kind give a [`TraceError`], never a panic.

mod check;
mod columns;
mod companions;
mod cut;
mod error;
mod export;
mod guard;
mod live;
mod mend;
mod model;
mod read;
mod repair;
mod resolve;
mod schema;
mod sizes;
mod statistics;
mod write;

pub use check::{Broken, LARGEST_SPAN};
pub use cut::{Cut, CutReport, cut};
pub use error::{Problem, TraceError};
pub use export::{CSV_COLUMNS, ExportFormat, export};
pub use guard::quietly;
pub use model::{
    AddressRegion, Context, Event, EventFlags, Fault, LARGEST_ORDER, Op, PAGE_SHIFT, RegionId,
    RegionKind, Trace,
};
pub use read::{Legal, legalize, read};
pub use repair::{Leniency, Repair, Repairs};
pub use resolve::{Resolved, Step, StepKind, resolve};
pub use sizes::{Need, ORDERS, Sizes, SizesError, division};
pub use statistics::{
    CpuRun, LiveSample, OrderShare, Quantiles, RunLengths, Statistics, cpu_runs, region_runs,
    task_runs,
};
pub use write::write;
