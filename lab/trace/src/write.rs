//! Writes a trace as its files.
//!
//! Recorded, imported and repaired traces have one form that pandas, polars and DuckDB read directly: unsigned types,
//! zstd, and a suitable encoding for each column.
//!
//! # Invariants
//! Each file appears completely or not at all, after all of them have been written: first the companions, then the
//! trace itself. Files of an older trace are deleted last. All files contain the [identity] of the
//! trace, so a set that was interrupted in between is rejected when it is read.

use std::fs;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everybuddy_text::Pending;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::error::{Problem, TraceError};
use crate::identity;
use crate::model::{Fault, Trace};
use crate::schema::{DIFFERENCES, EVENTS, FAULTS, FileColumn, LOCKS, REGIONS, message};
use crate::source::{files, is_companion};

/// Rows per row group: one group for most traces, bounded memory for all.
const ROWS_OF_GROUP: usize = 1 << 20;

/// The zstd level: higher levels reduce the size by a few per cent but take many times as long.
const ZSTD_LEVEL: i32 = 9;

/// A trace that has been written and not yet appeared.
#[derive(Debug, Default)]
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
    let number = |fault: &Fault| {
        let region = fault.region.and_then(|id| trace.region(id));
        (*fault, region.map_or(0, |region| region.number))
    };
    let numbered: Vec<_> = trace.faults.iter().map(number).collect();
    let mut prepared = Prepared::default();
    prepared.add(faults, ("faults", &FAULTS), pairs, &numbered)?;
    prepared.add(regions, ("vmas", &REGIONS), pairs, &trace.regions)?;
    prepared.add(locks, ("locks", &LOCKS), pairs, &trace.acquisitions)?;
    let pairs: Vec<_> = trace.metadata.iter().cloned().chain([own]).collect();
    let written = written(&main, ("trace", &EVENTS), &pairs, &trace.events)?;
    prepared.written.push(written);
    Ok(prepared)
}

/// The name of a schema, and its columns.
type Schema<'s, R> = (&'s str, &'s [FileColumn<R>]);

impl Prepared {
    /// Writes a companion file, or notes that a trace without these rows has none.
    fn add<R>(
        &mut self,
        path: PathBuf,
        schema: Schema<'_, R>,
        metadata: &[(String, String)],
        rows: &[R],
    ) -> Result<(), TraceError> {
        if rows.is_empty() {
            self.outdated.push(path);
        } else {
            self.written.push(written(&path, schema, metadata, rows)?);
        }
        Ok(())
    }

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
    (name, columns): Schema<'_, R>,
    metadata: &[(String, String)],
    rows: &[R],
) -> Result<Pending, TraceError> {
    let pending = Pending::create(path).map_err(|error| TraceError::io(path, error))?;
    let write = || -> Result<Pending, ParquetError> {
        let schema = Arc::new(parse_message_type(&message(name, columns))?);
        let properties = Arc::new(properties(metadata)?);
        let mut writer = SerializedFileWriter::new(BufWriter::new(pending), schema, properties)?;
        for rows in rows.chunks(ROWS_OF_GROUP) {
            let mut group = writer.next_row_group()?;
            for column in columns {
                let values = rows.iter().map(column.value);
                if column.bits == 64 {
                    fill::<Int64Type>(&mut group, values.collect())?;
                } else {
                    // Unsigned numbers are stored as their bits.
                    fill::<Int32Type>(&mut group, values.map(|value| value as i32).collect())?;
                }
            }
            group.close()?;
        }
        let buffer = writer.into_inner()?;
        buffer
            .into_inner()
            .map_err(|error| ParquetError::External(Box::new(error.into_error())))
    };
    write().map_err(|error| TraceError::io(path, std::io::Error::other(error)))
}

/// Writes the next column of a row group.
fn fill<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<Pending>>,
    values: Vec<T::T>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("more columns than the schema has".to_string());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
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
