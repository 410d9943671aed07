//! Errors in traces, with messages for readers.
//!
//! Every error message states the place (file and row), the problem, and a remedy. The kinds are data, so that
//! programs and tests can distinguish them.
//!
//! # Invariants
//! Rows are counted from 0 in the file on disk, as in the column `row` of `NAME.faults.parquet`, in pandas and in
//! polars.

use crate::shown::shown;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::model::LARGEST_ORDER;

/// The reason why a trace was rejected: the place, the problem, and a remedy.
///
/// Prints `gcc.parquet, row 1234: free of frame 0x1f3 ...`, and on a second line `help:` and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub struct TraceError {
    /// The file with the error, or the name of a trace in memory.
    pub file: PathBuf,
    /// The row with the error, counted from 0; `None` if the error concerns the whole file.
    pub row: Option<u64>,
    /// The problem.
    pub problem: Problem,
}

/// The kinds of errors in a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system could not read or write the file.
    #[error("{0}")]
    Io(std::io::Error),
    /// The file is empty: no bytes.
    #[error("the file is empty")]
    Empty,
    /// The bytes are not a Parquet file, or the file is damaged.
    #[error("not a Parquet file, or a damaged one ({0})")]
    NotParquet(String),
    /// A column uses a compression that this program does not support.
    #[error("unsupported compression {0}")]
    Compression(String),
    /// Required columns are missing.
    #[error("missing columns {} (required: {})", .missing.join(", "), .needed.join(", "))]
    MissingColumns {
        /// The missing columns.
        missing: Vec<&'static str>,
        /// All required columns.
        needed: Vec<&'static str>,
    },
    /// A column does not contain integers.
    #[error("column {column} contains {found} instead of integers")]
    ColumnType {
        /// Name of the column.
        column: &'static str,
        /// The type of its values.
        found: String,
    },
    /// A value is missing (null).
    #[error("missing value in column {column}")]
    NoValue {
        /// Name of the column.
        column: &'static str,
    },
    /// A value is outside the range of its column.
    #[error("{value} is outside the range of column {column}")]
    OutOfRange {
        /// Name of the column.
        column: &'static str,
        /// The value.
        value: i128,
    },
    /// The trace is empty.
    #[error("the trace has no rows")]
    NoRows,
    /// The file's name is that of a companion file of another trace.
    #[error("the name is that of a companion file of another trace")]
    CompanionName,
    /// The directory to write to does not exist.
    #[error("its directory does not exist")]
    NoDirectory,
    /// The trace has more events than there are block numbers.
    #[error("the trace has 2^31 rows or more")]
    TooManyRows,
    /// The file is so small that its rows repeat each other, and reading them takes memory out of proportion.
    #[error("{rows} rows in {bytes} bytes: more than one per byte")]
    TooDense {
        /// The number of rows that the file claims.
        rows: usize,
        /// The size of the file in bytes.
        bytes: u64,
    },
    /// `op` is neither 0 nor 1.
    #[error("unknown op {0}")]
    UnknownOp(i128),
    /// The order exceeds the largest that a trace may contain.
    #[error("order {0} exceeds the maximum of {LARGEST_ORDER}")]
    UnknownOrder(u8),
    /// The frame number is not a multiple of the block's size.
    #[error("frame {pfn:#x} is not aligned to a block of order {order}")]
    Misaligned {
        /// First frame.
        pfn: u64,
        /// Order of the block.
        order: u8,
    },
    /// The frames of the trace are too far apart.
    #[error("the frames from {first:#x} to {last:#x} are too far apart to replay")]
    Span {
        /// Lowest frame.
        first: u64,
        /// Highest frame.
        last: u64,
    },
    /// The timestamp of the row is before that of the previous row.
    #[error("time {time_ns} ns is before the {before_ns} ns of the previous row")]
    TimeRunsBack {
        /// The timestamp of this row, in nanoseconds.
        time_ns: u64,
        /// The timestamp of the previous row.
        before_ns: u64,
    },
    /// A live frame is allocated again.
    #[error("allocation of frame {pfn:#x}, which is in use since row {earlier}")]
    DoubleAllocation {
        /// The live frame.
        pfn: u64,
        /// The row that allocated it.
        earlier: u64,
    },
    /// A frame that was never allocated is freed.
    #[error("free of frame {pfn:#x}, which was never allocated")]
    FreeWithoutAllocation {
        /// The frame.
        pfn: u64,
    },
    /// A frame is freed twice.
    #[error(
        "free of frame {pfn:#x}, which is already free: allocated in row {allocated}, freed by row {freed}"
    )]
    DoubleFree {
        /// The frame.
        pfn: u64,
        /// The row that last allocated it.
        allocated: u64,
        /// The last row that freed a part of that block.
        freed: u64,
    },
    /// A free covers more frames than its block has.
    #[error(
        "free of order {order} at frame {pfn:#x}, where row {allocated} allocated a block of order {block_order}"
    )]
    FreeLargerThanBlock {
        /// First frame.
        pfn: u64,
        /// Order of the free.
        order: u8,
        /// Order of the block.
        block_order: u8,
        /// The row that allocated the block.
        allocated: u64,
    },
    /// A fault refers to a row beyond the end of the trace.
    #[error("fault of row {row}, but the trace has only {events} rows")]
    FaultBeyondEnd {
        /// The row that the fault refers to.
        row: u64,
        /// Number of rows of the trace.
        events: u64,
    },
    /// A fault refers to a free.
    #[error("fault of row {row}, which is not an allocation")]
    FaultOfFree {
        /// The row that the fault refers to.
        row: u64,
    },
    /// Two faults refer to the same allocation.
    #[error("second fault of row {row}")]
    FaultTwice {
        /// The row that both refer to.
        row: u64,
    },
    /// A fault refers to an address region that is not described.
    #[error("fault in unknown address region {number}")]
    UnknownRegion {
        /// Number of the region.
        number: u64,
    },
    /// A CPU began to wait for a zone's lock before its previous acquisition had ended.
    #[error(
        "CPU {cpu} waits for a zone's lock from {begin_ns} ns on, but its previous acquisition ends at {end_ns} ns"
    )]
    WaitOverlaps {
        /// The CPU.
        cpu: u16,
        /// When it began to wait, in nanoseconds.
        begin_ns: u64,
        /// When its previous acquisition ended, as far as is known.
        end_ns: u64,
    },
    /// A companion file and the trace were not written together.
    #[error(
        "the file does not belong to the trace next to it; writing them was interrupted, or one was replaced"
    )]
    OtherTrace,
    /// Two address regions have the same number, or one has the number 0.
    #[error("address region number {number} is 0 or a duplicate")]
    RegionNumber {
        /// The number.
        number: u64,
    },
}

impl TraceError {
    pub(crate) fn new(file: &Path, row: Option<u64>, problem: Problem) -> TraceError {
        TraceError {
            file: file.to_path_buf(),
            row,
            problem,
        }
    }

    pub(crate) fn io(file: &Path, error: std::io::Error) -> TraceError {
        TraceError::new(file, None, Problem::Io(error))
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", shown(&self.file))?;
        if let Some(row) = self.row {
            write!(out, ", row {row}")?;
        }
        write!(out, ": {}\nhelp: {}", self.problem, self.problem.help())
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl Problem {
    /// Returns a remedy for the problem.
    #[rustfmt::skip]
    pub fn help(&self) -> &'static str {
        match self {
            Problem::Io(error) if error.kind() == std::io::ErrorKind::NotFound =>
                "check the path: the argument is the file NAME.parquet",
            Problem::Io(_) => "check the permissions of the file and its directory",
            Problem::Empty => "the recording or copy was interrupted; obtain the file again",
            Problem::NotParquet(_) => "obtain the file again, or import it from its original format",
            Problem::Compression(_) => "rewrite it with zstd, snappy or no compression",
            Problem::MissingColumns { .. } => "pass the main file of a trace, NAME.parquet, or add the columns",
            Problem::ColumnType { .. } => "write the column as integers",
            Problem::NoValue { .. } => "add the value, or use --lenient to drop such rows",
            Problem::NoRows => "record a program that allocates memory",
            Problem::CompanionName =>
                "choose a name that does not end with .faults.parquet, .vmas.parquet or .locks.parquet",
            Problem::NoDirectory => "create it first, or choose a file in one that exists",
            Problem::TooManyRows => "use `everybuddy trace cut` to extract shorter traces",
            Problem::TooDense { .. } =>
                "if you trust the file, set EVERYBUDDY_TRACE_ROWS to its number of rows; each takes 60 bytes of memory",
            Problem::UnknownOp(_) => "use 0 for an allocation and 1 for a free, or use --lenient to drop such rows",
            Problem::Span { .. } =>
                "a trace may span 2^32 - 2^24 frames; use --lenient to drop frames far from the others",
            Problem::TimeRunsBack { .. } => "sort the rows, or use --lenient to sort them while reading",
            Problem::DoubleAllocation { .. } => "a free was lost; use --lenient to add a free before such rows",
            Problem::FreeLargerThanBlock { .. } => "use --lenient to shorten such frees to their block",
            Problem::FaultBeyondEnd { .. } | Problem::FaultOfFree { .. } | Problem::FaultTwice { .. }
            | Problem::UnknownRegion { .. } =>
                "check that the file belongs to this trace, or use --lenient to drop such faults",
            Problem::WaitOverlaps { .. } =>
                "a CPU waits for one zone's lock at a time; use --lenient to drop such acquisitions",
            Problem::OtherTrace =>
                "write the trace again: record, import or cut it; or delete this file, or use --lenient to ignore it",
            Problem::RegionNumber { .. } =>
                "number regions from 1 without duplicates, or use --lenient to drop such regions",
            Problem::OutOfRange { .. } | Problem::UnknownOrder(_) | Problem::Misaligned { .. }
            | Problem::FreeWithoutAllocation { .. } | Problem::DoubleFree { .. } =>
                "use --lenient to drop such rows",
        }
    }
}
