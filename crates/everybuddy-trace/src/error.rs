//! What can be wrong with a trace, in words for people.
//!
//! Exists so that every refusal says three things: where (file and row), what, and what to do
//! about it. The kinds are data, so that programs and tests can tell them apart.
//!
//! Invariant: rows are counted from 0, in the file as it lies on disk, as `row` of
//! `NAME.faults.parquet`, pandas and polars count them.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::model::LARGEST_ORDER;

/// Why a trace was refused: where, what, and what to do.
///
/// Prints as one line: `gcc.parquet, row 1234: free of frame 0x1f3 ...: what to do`.
#[derive(Debug)]
#[non_exhaustive]
pub struct TraceError {
    /// File at fault; the trace's name when a trace in memory was refused.
    pub file: PathBuf,
    /// Row at fault, counted from 0; `None` when the file as a whole is at fault.
    pub row: Option<u64>,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with a trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system refused to read or write the file.
    Io(std::io::Error),
    /// The file is empty: no bytes.
    Empty,
    /// The bytes are no Parquet file, or a damaged one.
    NotParquet(String),
    /// A column is compressed in a way that this program does not read.
    Compression(String),
    /// Columns that a trace cannot do without are missing.
    MissingColumns {
        /// Columns that the file lacks.
        missing: Vec<&'static str>,
        /// Columns that such a file needs.
        needed: Vec<&'static str>,
    },
    /// A column holds something other than whole numbers.
    ColumnType {
        /// Name of the column.
        column: &'static str,
        /// What it holds.
        found: String,
    },
    /// A value is missing (null).
    NoValue {
        /// Name of the column.
        column: &'static str,
    },
    /// A value is outside of the range that its column allows.
    OutOfRange {
        /// Name of the column.
        column: &'static str,
        /// The value.
        value: i128,
    },
    /// There is nothing in the trace.
    NoRows,
    /// More events than block numbers can tell apart.
    TooManyRows,
    /// `op` is neither 0 nor 1.
    UnknownOp(i128),
    /// The order is larger than any that a trace may hold.
    UnknownOrder(u8),
    /// The frame number is no multiple of the block's size.
    Misaligned {
        /// First frame.
        pfn: u64,
        /// Order of the block.
        order: u8,
    },
    /// The frames of the trace lie too far apart.
    Span {
        /// Lowest frame.
        first: u64,
        /// Highest frame.
        last: u64,
    },
    /// The row's time is before that of the row above it.
    TimeRunsBack {
        /// Time of this row, in nanoseconds.
        time_ns: u64,
        /// Time of the row above.
        before_ns: u64,
    },
    /// A frame is allocated that lives.
    DoubleAllocation {
        /// The frame that lives.
        pfn: u64,
        /// Row that allocated it.
        earlier: u64,
    },
    /// A frame is freed that was never allocated.
    FreeWithoutAllocation {
        /// The frame.
        pfn: u64,
    },
    /// A frame is freed that was freed before.
    DoubleFree {
        /// The frame.
        pfn: u64,
        /// Row that last allocated it.
        allocated: u64,
        /// Last row that freed something of that block.
        freed: u64,
    },
    /// A free gives back more than its block holds.
    FreeLargerThanBlock {
        /// First frame.
        pfn: u64,
        /// Order of the free.
        order: u8,
        /// Order of the block.
        block_order: u8,
        /// Row that allocated the block.
        allocated: u64,
    },
    /// A fault belongs to a row that the trace does not have.
    FaultBeyondEnd {
        /// Row that the fault names.
        row: u64,
        /// Number of rows of the trace.
        events: u64,
    },
    /// A fault belongs to a free.
    FaultOfFree {
        /// Row that the fault names.
        row: u64,
    },
    /// Two faults belong to the same allocation.
    FaultTwice {
        /// Row that both name.
        row: u64,
    },
    /// A fault lies in an address region that nobody described.
    UnknownRegion {
        /// Number of the region.
        number: u64,
    },
    /// Two address regions have the same number, or one has the number 0.
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
        write!(out, "{}", self.file.display())?;
        if let Some(row) = self.row {
            write!(out, ", row {row}")?;
        }
        write!(out, ": {}: {}", self.problem, self.problem.help())
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
    /// Returns what a person can do about the problem.
    pub fn help(&self) -> &'static str {
        match self {
            Problem::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "check the path; a trace is named by its file NAME.parquet"
            }
            Problem::Io(_) => "check that the file can be read and its folder written",
            Problem::Empty => "the recording or copy was broken off; get the file again",
            Problem::NotParquet(_) => "get the file again, or import it from its original format",
            Problem::Compression(_) => "write it again with zstd, snappy or no compression",
            Problem::MissingColumns { .. } => {
                "name the main file of a trace, NAME.parquet, or add the columns"
            }
            Problem::ColumnType { .. } => "write the column as integers",
            Problem::NoValue { .. } => "fill the gap (use --lenient to drop such rows)",
            Problem::NoRows => "record something that allocates memory",
            Problem::TooManyRows => "cut the trace into shorter ones",
            Problem::UnknownOp(_) => {
                "0 is an allocation and 1 a free (use --lenient to drop such rows)"
            }
            Problem::Span { .. } => {
                "a trace may span 2^32 - 2^24 frames (use --lenient to drop frames far from the others)"
            }
            Problem::TimeRunsBack { .. } => "sort the rows (use --lenient to have them sorted)",
            Problem::DoubleAllocation { .. } => {
                "a free was lost (use --lenient to add a free before such rows)"
            }
            Problem::FreeLargerThanBlock { .. } => {
                "use --lenient to have such frees cut to their block"
            }
            Problem::FaultBeyondEnd { .. }
            | Problem::FaultOfFree { .. }
            | Problem::FaultTwice { .. }
            | Problem::UnknownRegion { .. } => {
                "does the file belong to this trace? (use --lenient to drop such faults)"
            }
            Problem::RegionNumber { .. } => {
                "number regions from 1, each once (use --lenient to drop such regions)"
            }
            Problem::OutOfRange { .. }
            | Problem::UnknownOrder(_)
            | Problem::Misaligned { .. }
            | Problem::FreeWithoutAllocation { .. }
            | Problem::DoubleFree { .. } => "use --lenient to drop such rows",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => write!(out, "{error}"),
            Problem::Empty => write!(out, "the file is empty"),
            Problem::NotParquet(why) => write!(out, "not a Parquet file, or damaged ({why})"),
            Problem::Compression(codec) => write!(out, "compressed with {codec}"),
            Problem::MissingColumns { missing, needed } => {
                let (missing, needed) = (missing.join(", "), needed.join(", "));
                write!(out, "columns missing: {missing}; needed are {needed}")
            }
            Problem::ColumnType { column, found } => {
                write!(out, "column {column} holds {found}, not whole numbers")
            }
            Problem::NoValue { column } => write!(out, "no value in column {column}"),
            Problem::OutOfRange { column, value } => {
                write!(out, "{value} is outside of the range of column {column}")
            }
            Problem::NoRows => write!(out, "the trace has no rows"),
            Problem::TooManyRows => write!(out, "the trace has 2^31 rows or more"),
            Problem::UnknownOp(op) => write!(out, "unknown op {op}"),
            Problem::UnknownOrder(order) => {
                write!(
                    out,
                    "order {order} is above {LARGEST_ORDER}, the largest known"
                )
            }
            Problem::Misaligned { pfn, order } => {
                write!(
                    out,
                    "frame {pfn:#x} is not aligned to a block of order {order}"
                )
            }
            Problem::Span { first, last } => {
                write!(
                    out,
                    "frames from {first:#x} to {last:#x} are too many to replay"
                )
            }
            Problem::TimeRunsBack { time_ns, before_ns } => {
                write!(
                    out,
                    "time {time_ns} ns is before {before_ns} ns of the row above"
                )
            }
            Problem::DoubleAllocation { pfn, earlier } => {
                write!(
                    out,
                    "allocation of frame {pfn:#x}, live since row {earlier}"
                )
            }
            Problem::FreeWithoutAllocation { pfn } => {
                write!(out, "free of frame {pfn:#x} that no allocation gave")
            }
            Problem::DoubleFree {
                pfn,
                allocated,
                freed,
            } => write!(
                out,
                "free of frame {pfn:#x}, which is dead: allocated in row {allocated}, \
                 freed by row {freed}"
            ),
            Problem::FreeLargerThanBlock {
                pfn,
                order,
                block_order,
                allocated,
            } => write!(
                out,
                "free of order {order} at frame {pfn:#x}, where row {allocated} allocated \
                 a block of order {block_order}"
            ),
            Problem::FaultBeyondEnd { row, events } => {
                write!(out, "fault of row {row}, but the trace has {events} rows")
            }
            Problem::FaultOfFree { row } => {
                write!(out, "fault of row {row}, which is not an allocation")
            }
            Problem::FaultTwice { row } => write!(out, "second fault of row {row}"),
            Problem::UnknownRegion { number } => {
                write!(
                    out,
                    "fault in address region {number}, which is not described"
                )
            }
            Problem::RegionNumber { number } => {
                write!(out, "address region {number} is 0 or described twice")
            }
        }
    }
}
