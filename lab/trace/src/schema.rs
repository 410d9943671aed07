//! The columns of the four files: names, required columns, and types.
//!
//! # Purpose
//!
//! Reading and writing share one definition and cannot diverge. `traces/README.md` documents the meaning of the
//! values.
//!
//! # Invariants
//!
//! Files are written with exactly these columns, in this order, with unsigned types for unsigned values, so that
//! pandas, polars and DuckDB display them correctly.

/// The required columns of `NAME.parquet`.
pub(crate) const NEEDED_OF_EVENTS: [&str; 6] = ["time_ns", "cpu", "pid", "op", "pfn", "order"];

/// The required columns of `NAME.faults.parquet`.
pub(crate) const NEEDED_OF_FAULTS: [&str; 3] = ["row", "vpn", "vma"];

/// The required columns of `NAME.vmas.parquet`.
pub(crate) const NEEDED_OF_REGIONS: [&str; 3] = ["vma", "start", "len"];

/// The required columns of `NAME.locks.parquet`.
pub(crate) const NEEDED_OF_LOCKS: [&str; 3] = ["time_ns", "cpu", "wait_ns"];

/// Columns of `NAME.parquet`.
pub(crate) const EVENTS: &str = "
message trace {
    required int64 time_ns (INTEGER(64,false));
    required int32 cpu (INTEGER(16,false));
    required int32 pid (INTEGER(32,false));
    required int32 op (INTEGER(8,false));
    required int64 pfn (INTEGER(64,false));
    required int32 order (INTEGER(8,false));
    required int32 migratetype (INTEGER(8,true));
    required int32 gfp (INTEGER(32,false));
    required int32 ctx (INTEGER(8,false));
    required int32 sysno (INTEGER(16,false));
    required int32 flags (INTEGER(8,false));
}";

/// Columns of `NAME.faults.parquet`.
pub(crate) const FAULTS: &str = "
message faults {
    required int32 row (INTEGER(32,false));
    required int64 vpn (INTEGER(64,false));
    required int64 vma (INTEGER(64,false));
    required int32 fault (INTEGER(32,false));
}";

/// Columns of `NAME.vmas.parquet`.
pub(crate) const REGIONS: &str = "
message vmas {
    required int64 vma (INTEGER(64,false));
    required int32 tgid (INTEGER(32,false));
    required int64 start (INTEGER(64,false));
    required int64 len (INTEGER(64,false));
    required int32 prot (INTEGER(32,false));
    required int32 flags (INTEGER(32,false));
    required int32 fd (INTEGER(32,true));
    required int32 kind (INTEGER(8,false));
    required int64 created_ns (INTEGER(64,false));
}";

/// Columns of `NAME.locks.parquet`.
pub(crate) const LOCKS: &str = "
message locks {
    required int64 time_ns (INTEGER(64,false));
    required int32 cpu (INTEGER(16,false));
    required int32 pid (INTEGER(32,false));
    required int64 wait_ns (INTEGER(64,false));
    required int64 hold_ns (INTEGER(64,false));
    required int32 batch (INTEGER(32,false));
    required int32 source (INTEGER(8,false));
}";

/// Columns whose consecutive values are close together are stored as differences. All others have few distinct values
/// and are stored by dictionary.
pub(crate) const DIFFERENCES: [&str; 5] = ["time_ns", "pfn", "row", "vpn", "fault"];

/// Metadata about one file, which would be wrong for another: the columns as the program that wrote it describes them,
/// and the identity of the trace. It is not copied to other files.
pub(crate) const FOREIGN_METADATA: [&str; 3] = ["ARROW:schema", "pandas", crate::identity::KEY];
