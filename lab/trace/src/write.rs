//! Writes a trace as its files.
//!
//! # Purpose
//!
//! Recorded, imported and repaired traces have one form that pandas, polars and DuckDB read directly: unsigned types,
//! zstd, and a suitable encoding for each column.
//!
//! # Invariants
//!
//! Each file appears completely or not at all, after all of them have been written: first the companions, then the
//! trace itself. Files of an older trace are deleted last. All files contain the [identity] of the
//! trace, so a set that was interrupted in between is rejected when it is read.

use std::fs;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::error::{Problem, TraceError};
use crate::file::Pending;
use crate::identity;
use crate::model::{Acquisition, AddressRegion, Event, Fault, Trace};
use crate::schema::{DIFFERENCES, EVENTS, FAULTS, LOCKS, REGIONS};
use crate::source::{files, is_companion};

/// Rows per row group: one group for most traces, bounded memory for all.
const ROWS_OF_GROUP: usize = 1 << 20;

/// The zstd level: higher levels reduce the size by a few per cent but take many times as long.
const ZSTD_LEVEL: i32 = 9;

/// A trace that has been written and not yet appeared.
#[derive(Debug)]
pub struct Prepared {
    /// The files that will appear, in this order.
    written: Vec<Pending>,
    /// The files of an older trace that will be deleted.
    outdated: Vec<PathBuf>,
}

/// Writes `trace` to `path`, which should end in `.parquet`, and its faults, address regions and acquisitions of a
/// zone's lock to companion files. Files of an older trace with this name are replaced or, if this trace has no such
/// data, deleted.
///
/// # Complexity
///
/// About 0.2 us per event, and memory for one row group of 2^20 rows.
///
/// # Errors
///
/// Returns a [`TraceError`] with the file that could not be written. Existing files are unchanged unless a rename
/// fails after all files were written.
pub fn write(trace: &Trace, path: &Path) -> Result<(), TraceError> {
    prepare(trace, path)?.publish()
}

/// Like [`write()`], up to the moment at which the files appear.
///
/// # Errors
///
/// Returns a [`TraceError`] with the file that could not be written; nothing has changed then.
pub fn prepare(trace: &Trace, path: &Path) -> Result<Prepared, TraceError> {
    let refuse = |problem| {
        Err(TraceError {
            file: path.to_path_buf(),
            row: None,
            problem,
        })
    };
    if is_companion(path) {
        return refuse(Problem::CompanionName);
    }
    // Of the trace itself: the first file that is written is a companion.
    let folder = path.parent().unwrap_or(Path::new(""));
    if !(folder.as_os_str().is_empty() || folder.is_dir()) {
        return refuse(Problem::NoDirectory);
    }
    let [main, faults, regions, locks] = files(path);
    let own = (identity::KEY.to_string(), identity::of(trace));
    let pairs = std::slice::from_ref(&own);
    let mut prepared = Prepared {
        written: Vec::new(),
        outdated: Vec::new(),
    };
    if trace.faults.is_empty() {
        prepared.outdated.push(faults)
    } else {
        let write_faults =
            |group: &mut Group<'_>, rows: &[Fault]| write_faults(group, rows, &trace.regions);
        let written = written(&faults, FAULTS, pairs, &trace.faults, write_faults)?;
        prepared.written.push(written);
    }
    if trace.regions.is_empty() {
        prepared.outdated.push(regions)
    } else {
        let written = written(&regions, REGIONS, pairs, &trace.regions, write_regions)?;
        prepared.written.push(written);
    }
    if trace.acquisitions.is_empty() {
        prepared.outdated.push(locks)
    } else {
        let written = written(&locks, LOCKS, pairs, &trace.acquisitions, write_locks)?;
        prepared.written.push(written);
    }
    let pairs: Vec<_> = trace.metadata.iter().cloned().chain([own]).collect();
    let written = written(&main, EVENTS, &pairs, &trace.events, write_events)?;
    prepared.written.push(written);
    Ok(prepared)
}

impl Prepared {
    /// Lets the files appear.
    ///
    /// # Errors
    ///
    /// Returns a [`TraceError`] with the file that could not be renamed or deleted.
    pub fn publish(self) -> Result<(), TraceError> {
        for pending in self.written {
            let path = pending.path().to_path_buf();
            let finished = pending.finish(&[]);
            finished.map_err(|error| TraceError::io(&path, error))?;
        }
        for path in self.outdated {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(TraceError::io(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes a whole file that has not appeared yet.
fn written<R>(
    path: &Path,
    schema: &str,
    metadata: &[(String, String)],
    rows: &[R],
    write_rows: impl Fn(&mut Group<'_>, &[R]) -> Result<(), ParquetError>,
) -> Result<Pending, TraceError> {
    let pending = Pending::create(path).map_err(|error| TraceError::io(path, error))?;
    let write = || -> Result<Pending, ParquetError> {
        let schema = Arc::new(parse_message_type(schema)?);
        let properties = Arc::new(properties(metadata)?);
        let mut writer = SerializedFileWriter::new(BufWriter::new(pending), schema, properties)?;
        for rows in rows.chunks(ROWS_OF_GROUP) {
            let mut group = Group(writer.next_row_group()?);
            write_rows(&mut group, rows)?;
            group.0.close()?;
        }
        let buffer = writer.into_inner()?;
        buffer
            .into_inner()
            .map_err(|error| ParquetError::External(Box::new(error.into_error())))
    };
    write().map_err(|error| TraceError::io(path, std::io::Error::other(error)))
}

fn properties(metadata: &[(String, String)]) -> Result<WriterProperties, ParquetError> {
    let pairs: Vec<_> = metadata
        .iter()
        .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
        .collect();
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata((!pairs.is_empty()).then_some(pairs));
    for name in DIFFERENCES {
        builder = builder
            .set_column_dictionary_enabled(ColumnPath::from(name), false)
            .set_column_encoding(ColumnPath::from(name), Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}

/// A row group that receives its columns one after another.
struct Group<'a>(SerializedRowGroupWriter<'a, BufWriter<Pending>>);

impl Group<'_> {
    fn column<T: DataType>(&mut self, values: Vec<T::T>) -> Result<(), ParquetError> {
        let Some(mut column) = self.0.next_column()? else {
            return Err(ParquetError::General(
                "more columns than the schema has".to_string(),
            ));
        };
        column.typed::<T>().write_batch(&values, None, None)?;
        column.close()
    }

    /// Writes numbers of up to 32 bits; unsigned numbers are passed as their bits.
    fn narrow(&mut self, values: impl Iterator<Item = i32>) -> Result<(), ParquetError> {
        self.column::<Int32Type>(values.collect())
    }

    /// Writes unsigned 64-bit numbers as their bits.
    fn wide(&mut self, values: impl Iterator<Item = u64>) -> Result<(), ParquetError> {
        self.column::<Int64Type>(values.map(|value| value as i64).collect())
    }
}

fn write_events(group: &mut Group<'_>, rows: &[Event]) -> Result<(), ParquetError> {
    group.wide(rows.iter().map(|event| event.time_ns))?;
    group.narrow(rows.iter().map(|event| i32::from(event.cpu)))?;
    group.narrow(rows.iter().map(|event| event.pid as i32))?;
    group.narrow(rows.iter().map(|event| event.op as i32))?;
    group.wide(rows.iter().map(|event| event.pfn))?;
    group.narrow(rows.iter().map(|event| i32::from(event.order)))?;
    group.narrow(rows.iter().map(|event| i32::from(event.migratetype)))?;
    group.narrow(rows.iter().map(|event| event.gfp as i32))?;
    group.narrow(rows.iter().map(|event| i32::from(event.context)))?;
    group.narrow(rows.iter().map(|event| i32::from(event.sysno)))?;
    group.narrow(rows.iter().map(|event| i32::from(event.flags.0)))
}

fn write_faults(
    group: &mut Group<'_>,
    rows: &[Fault],
    regions: &[AddressRegion],
) -> Result<(), ParquetError> {
    let number = |fault: &Fault| {
        let region = fault.region.and_then(|id| regions.get(id.index()));
        region.map_or(0, |region| region.number)
    };
    group.narrow(rows.iter().map(|fault| fault.row as i32))?;
    group.wide(rows.iter().map(|fault| fault.vpn))?;
    group.wide(rows.iter().map(number))?;
    group.narrow(rows.iter().map(|fault| fault.sequence as i32))
}

fn write_regions(group: &mut Group<'_>, rows: &[AddressRegion]) -> Result<(), ParquetError> {
    group.wide(rows.iter().map(|region| region.number))?;
    group.narrow(rows.iter().map(|region| region.tgid as i32))?;
    group.wide(rows.iter().map(|region| region.start))?;
    group.wide(rows.iter().map(|region| region.len))?;
    group.narrow(rows.iter().map(|region| region.prot as i32))?;
    group.narrow(rows.iter().map(|region| region.flags as i32))?;
    group.narrow(rows.iter().map(|region| region.fd))?;
    group.narrow(rows.iter().map(|region| region.kind as i32))?;
    group.wide(rows.iter().map(|region| region.created_ns))
}

fn write_locks(group: &mut Group<'_>, rows: &[Acquisition]) -> Result<(), ParquetError> {
    group.wide(rows.iter().map(|own| own.time_ns))?;
    group.narrow(rows.iter().map(|own| i32::from(own.cpu)))?;
    group.narrow(rows.iter().map(|own| own.pid as i32))?;
    group.wide(rows.iter().map(|own| own.wait_ns))?;
    group.wide(rows.iter().map(|own| own.hold_ns))?;
    group.narrow(rows.iter().map(|own| own.batch as i32))?;
    group.narrow(rows.iter().map(|own| i32::from(own.source)))
}
