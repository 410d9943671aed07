//! The columns of the four files: names, required columns, and types.
//!
//! Reading and writing share one definition and cannot diverge. `traces/README.md` documents the meaning of the values.
//!
//! # Invariants
//! Files are written with exactly these columns, in this order, with unsigned types for unsigned values, so that
//! pandas, polars and DuckDB display them correctly.

use crate::model::{Acquisition, AddressRegion, Event, Fault};

/// The required columns of `NAME.parquet`.
pub(crate) const NEEDED_OF_EVENTS: [&str; 6] = ["time_ns", "cpu", "pid", "op", "pfn", "order"];

/// The required columns of `NAME.faults.parquet`.
pub(crate) const NEEDED_OF_FAULTS: [&str; 3] = ["row", "vpn", "vma"];

/// The required columns of `NAME.vmas.parquet`.
pub(crate) const NEEDED_OF_REGIONS: [&str; 3] = ["vma", "start", "len"];

/// The required columns of `NAME.locks.parquet`.
pub(crate) const NEEDED_OF_LOCKS: [&str; 3] = ["time_ns", "cpu", "wait_ns"];

/// A column of a file: its type, and its value in a row, as the bits of a number.
pub(crate) struct FileColumn<R> {
    pub(crate) name: &'static str,
    /// The width of its numbers: 8, 16, 32 or 64.
    pub(crate) bits: u8,
    is_signed: bool,
    pub(crate) value: fn(&R) -> i64,
}

const fn unsigned<R>(name: &'static str, bits: u8, value: fn(&R) -> i64) -> FileColumn<R> {
    FileColumn {
        name,
        bits,
        is_signed: false,
        value,
    }
}

const fn signed<R>(name: &'static str, bits: u8, value: fn(&R) -> i64) -> FileColumn<R> {
    FileColumn {
        is_signed: true,
        ..unsigned(name, bits, value)
    }
}

/// Returns the schema of a file.
pub(crate) fn message<R>(name: &str, columns: &[FileColumn<R>]) -> String {
    let line = |own: &FileColumn<R>| {
        let FileColumn {
            name,
            bits,
            is_signed,
            ..
        } = own;
        let stored = if *bits == 64 { 64 } else { 32 };
        format!("required int{stored} {name} (INTEGER({bits},{is_signed}));")
    };
    let lines: String = columns.iter().map(line).collect();
    format!("message {name} {{ {lines} }}")
}

/// Returns the names of columns.
pub(crate) fn names<R, const N: usize>(columns: &[FileColumn<R>; N]) -> [&'static str; N] {
    columns.each_ref().map(|own| own.name)
}

/// Columns of `NAME.parquet`.
pub(crate) const EVENTS: [FileColumn<Event>; 11] = [
    unsigned("time_ns", 64, |own| own.time_ns as i64),
    unsigned("cpu", 16, |own| own.cpu.into()),
    unsigned("pid", 32, |own| own.pid.into()),
    unsigned("op", 8, |own| own.op as i64),
    unsigned("pfn", 64, |own| own.pfn as i64),
    unsigned("order", 8, |own| own.order.into()),
    signed("migratetype", 8, |own| own.migratetype.into()),
    unsigned("gfp", 32, |own| own.gfp.into()),
    unsigned("ctx", 8, |own| own.context.into()),
    unsigned("sysno", 16, |own| own.sysno.into()),
    unsigned("flags", 8, |own| own.flags.0.into()),
];

/// Columns of `NAME.faults.parquet`: of a fault with the number of its region.
pub(crate) const FAULTS: [FileColumn<(Fault, u64)>; 4] = [
    unsigned("row", 32, |own| own.0.row.into()),
    unsigned("vpn", 64, |own| own.0.vpn as i64),
    unsigned("vma", 64, |own| own.1 as i64),
    unsigned("fault", 32, |own| own.0.sequence.into()),
];

/// Columns of `NAME.vmas.parquet`.
pub(crate) const REGIONS: [FileColumn<AddressRegion>; 9] = [
    unsigned("vma", 64, |own| own.number as i64),
    unsigned("tgid", 32, |own| own.tgid.into()),
    unsigned("start", 64, |own| own.start as i64),
    unsigned("len", 64, |own| own.len as i64),
    unsigned("prot", 32, |own| own.prot.into()),
    unsigned("flags", 32, |own| own.flags.into()),
    signed("fd", 32, |own| own.fd.into()),
    unsigned("kind", 8, |own| own.kind as i64),
    unsigned("created_ns", 64, |own| own.created_ns as i64),
];

/// Columns of `NAME.locks.parquet`.
pub(crate) const LOCKS: [FileColumn<Acquisition>; 7] = [
    unsigned("time_ns", 64, |own| own.time_ns as i64),
    unsigned("cpu", 16, |own| own.cpu.into()),
    unsigned("pid", 32, |own| own.pid.into()),
    unsigned("wait_ns", 64, |own| own.wait_ns as i64),
    unsigned("hold_ns", 64, |own| own.hold_ns as i64),
    unsigned("batch", 32, |own| own.batch.into()),
    unsigned("source", 8, |own| own.source.into()),
];

/// Columns whose consecutive values are close together are stored as differences. All others have few distinct values
/// and are stored by dictionary.
pub(crate) const DIFFERENCES: [&str; 5] = ["time_ns", "pfn", "row", "vpn", "fault"];

/// Metadata about one file, which would be wrong for another: the columns as the program that wrote it describes them,
/// and the identity of the trace. It is not copied to other files.
pub(crate) const FOREIGN_METADATA: [&str; 3] = ["ARROW:schema", "pandas", crate::identity::KEY];
