//! The columns of the three files: their names, which are needed, and their types.
//!
//! Exists so that reading and writing cannot drift apart, and that the contract stands in one
//! place. What the values mean is documented in `traces/README.md`.
//!
//! Invariant: files are written with exactly these columns, in this order, with unsigned types
//! where the values are unsigned, so that pandas, polars and DuckDB show them as they are.

/// Columns that `NAME.parquet` cannot do without.
pub(crate) const NEEDED_OF_EVENTS: [&str; 6] = ["time_ns", "cpu", "pid", "op", "pfn", "order"];

/// Columns that `NAME.faults.parquet` cannot do without.
pub(crate) const NEEDED_OF_FAULTS: [&str; 3] = ["row", "vpn", "vma"];

/// Columns that `NAME.vmas.parquet` cannot do without.
pub(crate) const NEEDED_OF_REGIONS: [&str; 3] = ["vma", "start", "len"];

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

/// Columns whose neighbours lie close together: stored as differences. All others have few
/// distinct values and are stored by dictionary.
pub(crate) const DIFFERENCES: [&str; 5] = ["time_ns", "pfn", "row", "vpn", "fault"];

/// Metadata that describes the columns of a file for the program that wrote it. It would be wrong
/// for a file with other types, so it does not travel with a trace.
pub(crate) const FOREIGN_METADATA: [&str; 2] = ["ARROW:schema", "pandas"];
