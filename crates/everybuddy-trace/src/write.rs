//! Writes a trace as its files.
//!
//! # Purpose
//!
//! Recorded, imported and repaired traces have one form that pandas, polars and DuckDB read directly: unsigned types,
//! zstd, and a suitable encoding for each column.
//!
//! # Invariants
//!
//! Each file appears completely or not at all. It is written under a temporary name in the same directory and renamed
//! when complete; the trace itself is renamed last.

use std::fs::{self, File};
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

use crate::companions::beside;
use crate::error::TraceError;
use crate::model::{AddressRegion, Event, Fault, Trace};
use crate::schema::{DIFFERENCES, EVENTS, FAULTS, REGIONS};

/// Rows per row group: one group for most traces, bounded memory for all.
const ROWS_OF_GROUP: usize = 1 << 20;

/// The zstd level: higher levels reduce the size by a few per cent but take many times as long.
const ZSTD_LEVEL: i32 = 9;

/// A file under its temporary name, deleted unless it is kept.
struct Draft {
    temporary: PathBuf,
    place: PathBuf,
    kept: bool,
}

/// Writes `trace` to `path`, which should end in `.parquet`, and its faults and address regions to companion files.
/// Files of an older trace with this name are replaced or, if this trace has no faults or no regions, deleted.
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
    let write_faults =
        |group: &mut Group<'_>, rows: &[Fault]| write_faults(group, rows, &trace.regions);
    let main = draft(path, EVENTS, &trace.metadata, &trace.events, write_events)?;
    let faults = draft(
        &beside(path, "faults"),
        FAULTS,
        &[],
        &trace.faults,
        write_faults,
    )?;
    let regions = draft(
        &beside(path, "vmas"),
        REGIONS,
        &[],
        &trace.regions,
        write_regions,
    )?;
    // From here on nothing is written, only renamed.
    if trace.faults.is_empty() {
        faults.leave_out()?
    } else {
        faults.keep()?
    }
    if trace.regions.is_empty() {
        regions.leave_out()?
    } else {
        regions.keep()?
    }
    main.keep()
}

impl Draft {
    fn new(place: &Path) -> Draft {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let temporary = place.with_file_name(format!(".{name}.{}.part", std::process::id()));
        Draft {
            temporary,
            place: place.to_path_buf(),
            kept: false,
        }
    }

    fn keep(mut self) -> Result<(), TraceError> {
        fs::rename(&self.temporary, &self.place)
            .map_err(|error| TraceError::io(&self.place, error))?;
        self.kept = true;
        Ok(())
    }

    /// Deletes the file that the draft would have replaced: it belongs to an older trace.
    fn leave_out(self) -> Result<(), TraceError> {
        match fs::remove_file(&self.place) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(TraceError::io(&self.place, error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing can be done about a leftover that cannot be deleted.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Writes a whole file under its temporary name.
fn draft<R>(
    place: &Path,
    schema: &str,
    metadata: &[(String, String)],
    rows: &[R],
    write_rows: impl Fn(&mut Group<'_>, &[R]) -> Result<(), ParquetError>,
) -> Result<Draft, TraceError> {
    let draft = Draft::new(place);
    let file = File::create(&draft.temporary).map_err(|error| TraceError::io(place, error))?;
    let write = || -> Result<File, ParquetError> {
        let schema = Arc::new(parse_message_type(schema)?);
        let properties = Arc::new(properties(metadata)?);
        let mut writer = SerializedFileWriter::new(BufWriter::new(file), schema, properties)?;
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
    let file = write().map_err(|error| TraceError::io(place, std::io::Error::other(error)))?;
    // The rename must not be persisted before the contents, in case the machine crashes in between.
    file.sync_all()
        .map_err(|error| TraceError::io(place, error))?;
    Ok(draft)
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
struct Group<'a>(SerializedRowGroupWriter<'a, BufWriter<File>>);

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
