//! Reads columns of integers from Parquet files of any writer.
//!
//! Programs write the same number with different types: pandas writes a nullable signed 64-bit integer where another
//! program writes an unsigned 16-bit integer. This module accepts any width and sign as long as the values fit, and
//! columns in any order. It ignores unknown columns.
//!
//! # Invariants
//! A scan passes on exactly the number of rows of the table, and holds one batch of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parquet::basic::{Compression, ConvertedType, LogicalType, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::FileReader;
use parquet::schema::types::ColumnDescriptor;

use crate::error::{Problem, TraceError};
use crate::guard::guarded;
use crate::identity;
use crate::repair::{Leniency, Repair, Repairs};
use crate::source::Source;

/// One row of the columns that a scan reads.
pub(crate) struct ParquetRow<'t, const N: usize> {
    table: &'t ParquetTable,
    names: &'t [&'static str; N],
    columns: &'t [Option<ColumnScan>; N],
    /// The position in the current batch.
    at: usize,
    /// The number of the row.
    pub(crate) row: usize,
}

impl<const N: usize> ParquetRow<'_, N> {
    /// Returns the value of a column, by its position in the scan, or `default` if the file lacks the column. A row
    /// without a suitable value that `sieve` accepts has the `default`, too.
    pub(crate) fn value<T: TryFrom<i128>>(
        &self,
        column: usize,
        default: T,
        sieve: &mut Sieve,
    ) -> Result<T, TraceError> {
        let Some(values) = &self.columns[column] else {
            return Ok(default);
        };
        let column = self.names[column];
        let problem = match values.values[self.at] {
            Some(value) => match T::try_from(value) {
                Ok(fitting) => return Ok(fitting),
                Err(_) => Problem::OutOfRange { column, value },
            },
            None => Problem::NoValue { column },
        };
        self.reject(sieve, problem)?;
        Ok(default)
    }

    /// Rejects the row or, if lenient, marks it to be dropped.
    pub(crate) fn reject(&self, sieve: &mut Sieve, problem: Problem) -> Result<(), TraceError> {
        sieve
            .reject(self.row, problem)
            .map_err(|problem| self.table.error(Some(self.row), problem))
    }
}

/// One column of a row group, of which a batch is decoded.
struct ColumnScan {
    reader: ColumnReader,
    unsigned: bool,
    values: Vec<Option<i128>>,
    levels: Vec<i16>,
}

impl ColumnScan {
    fn new(reader: ColumnReader, unsigned: bool) -> ColumnScan {
        ColumnScan {
            reader,
            unsigned,
            values: Vec::with_capacity(BATCH),
            levels: Vec::with_capacity(BATCH),
        }
    }

    /// Decodes the next batch. Returns its number of rows, which is 0 at the end of the row group.
    fn fill(&mut self, table: &ParquetTable, name: &str) -> Result<usize, TraceError> {
        let ColumnScan {
            reader,
            unsigned,
            values,
            levels,
        } = self;
        values.clear();
        match reader {
            ColumnReader::Int32ColumnReader(reader) => {
                let narrow = |value: i32| {
                    if *unsigned {
                        i128::from(value as u32)
                    } else {
                        value.into()
                    }
                };
                drain(table, reader, narrow, levels, values)?;
            }
            ColumnReader::Int64ColumnReader(reader) => {
                let wide = |value: i64| {
                    if *unsigned {
                        i128::from(value as u64)
                    } else {
                        value.into()
                    }
                };
                drain(table, reader, wide, levels, values)?;
            }
            _ => {
                return Err(
                    table.damaged(format!("column {name} changes its type between row groups"))
                );
            }
        }
        Ok(values.len())
    }
}

/// Decodes a batch of values, `None` for a missing one.
fn drain<D: DataType>(
    table: &ParquetTable,
    reader: &mut ColumnReaderImpl<D>,
    widen: impl Fn(D::T) -> i128,
    levels: &mut Vec<i16>,
    values: &mut Vec<Option<i128>>,
) -> Result<(), TraceError> {
    let mut decoded = Vec::with_capacity(BATCH);
    while values.len() < BATCH {
        levels.clear();
        decoded.clear();
        let wanted = BATCH - values.len();
        let (rows, present, _) = guarded(&table.file, || {
            reader.read_records(wanted, Some(&mut *levels), None, &mut decoded)
        })?;
        if rows == 0 {
            break;
        }
        let mut decoded = decoded.drain(..);
        if present == rows {
            values.extend(decoded.map(|value| Some(widen(value))));
            continue;
        }
        // Columns have neither lists nor structures, so that level 0 is a missing value.
        values.extend(levels.iter().map(|level| match level {
            0 => None,
            _ => decoded.next().map(&widen),
        }));
    }
    Ok(())
}

/// The number of values decoded per call: large enough to amortize the call, small enough for the cache.
const BATCH: usize = 8192;

/// The maximum number of rows that are reserved in advance: a damaged file may claim any number. A file of any size may
/// have as many: reading them takes at most 60 bytes each, 250 MB.
pub(crate) const RESERVED_ROWS: usize = 1 << 22;

/// The environment variable with the number of rows that a file of any size may have.
const ROWS_VARIABLE: &str = "EVERYBUDDY_TRACE_ROWS";

/// The rows per byte that a file of events may have, so that memory is in proportion to the size of the file. Recorded
/// events have at least two bytes per row, whereas a file of repetitions may have a thousandth.
pub(crate) const EVENTS_PER_BYTE: usize = 1;

/// The same for a companion. Faults of neighbouring frames have down to a fifth of a byte per row.
pub(crate) const COMPANIONS_PER_BYTE: usize = 16;

/// Returns the maximum number of rows of a file.
fn most_rows(bytes: u64, per_byte: usize, variable: Option<&str>) -> usize {
    let permitted = variable.and_then(|rows| rows.parse().ok());
    let bytes = usize::try_from(bytes)
        .unwrap_or(usize::MAX)
        .saturating_mul(per_byte);
    bytes.max(permitted.unwrap_or(0)).max(RESERVED_ROWS)
}

/// An open Parquet file.
pub(crate) struct ParquetTable {
    file: PathBuf,
    reader: Box<dyn FileReader>,
    bytes: u64,
    rows: usize,
}

/// The treatment of missing or unsuitable values.
pub(crate) struct Sieve {
    leniency: Leniency,
    dropped: BTreeMap<usize, Repair>,
}

impl Sieve {
    pub(crate) fn new(leniency: Leniency) -> Sieve {
        Sieve {
            leniency,
            dropped: BTreeMap::new(),
        }
    }

    /// Rejects a row or, if lenient, marks it to be dropped. The first reason counts.
    pub(crate) fn reject(&mut self, row: usize, problem: Problem) -> Result<(), Problem> {
        if self.leniency == Leniency::Strict {
            return Err(problem);
        }
        let repair = match problem {
            Problem::NoValue { .. } => Repair::NoValue,
            Problem::UnknownOp(_) => Repair::UnknownOp,
            _ => Repair::OutOfRange,
        };
        self.dropped.entry(row).or_insert(repair);
        Ok(())
    }

    /// Returns `true` if a row will be dropped.
    pub(crate) fn drops(&self, row: usize) -> bool {
        self.dropped.contains_key(&row)
    }

    /// Returns `true` if no row will be dropped.
    pub(crate) fn is_empty(&self) -> bool {
        self.dropped.is_empty()
    }

    /// Adds the dropped rows to a report.
    pub(crate) fn report(&self, repairs: &mut Repairs) {
        for repair in self.dropped.values() {
            repairs.add(*repair, 1);
        }
    }
}

impl ParquetTable {
    /// Opens a file and checks that it has the required columns.
    pub(crate) fn open(
        source: &Source,
        needed: &[&'static str],
        per_byte: usize,
    ) -> Result<ParquetTable, TraceError> {
        let (reader, bytes) = source.open()?;
        let table = ParquetTable {
            file: source.path.clone(),
            reader,
            bytes,
            rows: 0,
        };
        let missing: Vec<_> = needed
            .iter()
            .copied()
            .filter(|name| table.position(name).is_none())
            .collect();
        if !missing.is_empty() {
            let needed = needed.to_vec();
            return Err(table.error(None, Problem::MissingColumns { missing, needed }));
        }
        let claimed = table.reader.metadata().file_metadata().num_rows();
        match usize::try_from(claimed) {
            Ok(rows) if rows < 1 << 31 => {
                let variable = std::env::var(ROWS_VARIABLE).ok();
                if rows > most_rows(bytes, per_byte, variable.as_deref()) {
                    return Err(table.error(None, Problem::TooDense { rows, bytes }));
                }
                Ok(ParquetTable { rows, ..table })
            }
            Ok(_) => Err(table.error(None, Problem::TooManyRows)),
            Err(_) => Err(table.damaged(format!("it claims {claimed} rows"))),
        }
    }

    /// Returns the number of rows that the file claims; [`ParquetTable::scan`] checks the claim.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the key and value pairs of the file.
    pub(crate) fn metadata(&self) -> Vec<(String, String)> {
        let pairs = self.reader.metadata().file_metadata().key_value_metadata();
        let pairs = pairs.map(Vec::as_slice).unwrap_or_default();
        pairs
            .iter()
            .map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default()))
            .collect()
    }

    /// Returns the identity of the trace that the file belongs to, if the file has one.
    pub(crate) fn identity(&self) -> Option<String> {
        let own = self.metadata().into_iter();
        own.rev()
            .find(|(key, _)| key == identity::KEY)
            .map(|(_, value)| value)
    }

    /// Creates an error about this file.
    pub(crate) fn error(&self, row: Option<usize>, problem: Problem) -> TraceError {
        TraceError::new(&self.file, row.map(|row| row as u64), problem)
    }

    /// Passes on each row of some columns, a batch at a time, so that memory consumption does not depend on the number
    /// of rows.
    pub(crate) fn scan<const N: usize>(
        &self,
        names: [&'static str; N],
        mut take: impl FnMut(ParquetRow<'_, N>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let places = names.map(|name| self.position(name));
        let mut unsigned = [false; N];
        let schema = self.reader.metadata().file_metadata().schema_descr_ptr();
        for (at, place) in places.iter().enumerate() {
            if let Some(place) = place {
                unsigned[at] = self.unsigned(names[at], &schema.column(*place))?;
            }
        }
        let mut row = 0;
        for group in 0..self.reader.num_row_groups() {
            let mut columns: [Option<ColumnScan>; N] = [const { None }; N];
            for (at, place) in places.iter().enumerate() {
                if let Some(place) = place {
                    let reader = self.reader_of(group, *place)?;
                    columns[at] = Some(ColumnScan::new(reader, unsigned[at]));
                }
            }
            loop {
                let mut rows = None;
                for (column, name) in columns.iter_mut().zip(names) {
                    let Some(column) = column else { continue };
                    let count = column.fill(self, name)?;
                    if *rows.get_or_insert(count) != count {
                        return Err(
                            self.damaged(format!("column {name} has another number of rows"))
                        );
                    }
                }
                let rows = rows.unwrap_or(0);
                if row + rows > self.rows {
                    let claimed = self.rows;
                    return Err(
                        self.damaged(format!("it has more than the claimed {claimed} rows"))
                    );
                }
                for at in 0..rows {
                    take(ParquetRow {
                        table: self,
                        names: &names,
                        columns: &columns,
                        at,
                        row,
                    })?;
                    row += 1;
                }
                if rows == 0 {
                    break;
                }
            }
        }
        if row != self.rows {
            let claimed = self.rows;
            return Err(self.damaged(format!("it has {row} of {claimed} rows")));
        }
        Ok(())
    }

    fn position(&self, name: &str) -> Option<usize> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        // A column inside a list or structure has a longer path and does not count.
        schema
            .columns()
            .iter()
            .position(|column| column.path().parts() == [name])
    }

    /// Returns `true` if the numbers of a column are unsigned, or an error if they are not integers.
    fn unsigned(&self, name: &'static str, column: &ColumnDescriptor) -> Result<bool, TraceError> {
        let other = |found: String| {
            Err(self.error(
                None,
                Problem::ColumnType {
                    column: name,
                    found,
                },
            ))
        };
        if column.max_rep_level() > 0 {
            return other("lists".to_string());
        }
        if !matches!(
            column.physical_type(),
            PhysicalType::INT32 | PhysicalType::INT64
        ) {
            return other(column.physical_type().to_string());
        }
        match column.logical_type_ref() {
            Some(LogicalType::Integer(kind)) => Ok(!kind.is_signed),
            Some(kind) => other(format!("{kind:?}")),
            None => match column.converted_type() {
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64 => Ok(true),
                ConvertedType::NONE
                | ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::INT_64 => Ok(false),
                kind => other(kind.to_string()),
            },
        }
    }

    fn reader_of(&self, group: usize, position: usize) -> Result<ColumnReader, TraceError> {
        let chunks = self.reader.metadata().row_group(group).columns();
        let Some(chunk) = chunks.get(position) else {
            return Err(self.damaged(format!("row group {group} lacks a column")));
        };
        // The library would reserve memory for any size that a damaged file claims.
        let start = chunk
            .dictionary_page_offset()
            .unwrap_or(chunk.data_page_offset());
        let end = start
            .checked_add(chunk.compressed_size())
            .and_then(|end| u64::try_from(end).ok());
        if start < 0 || chunk.compressed_size() < 0 || end.is_none_or(|end| end > self.bytes) {
            return Err(self.damaged("a column is outside the file".to_string()));
        }
        match chunk.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => {}
            other => return Err(self.error(None, Problem::Compression(other.to_string()))),
        }
        guarded(&self.file, || {
            self.reader
                .get_row_group(group)?
                .get_column_reader(position)
        })
    }

    fn damaged(&self, why: String) -> TraceError {
        self.error(None, Problem::NotParquet(why))
    }
}

#[cfg(test)]
mod tests {
    use super::{RESERVED_ROWS, most_rows};

    #[test]
    fn rows_are_limited_by_the_size_of_the_file_or_by_the_user() {
        assert_eq!(most_rows(1000, 1, None), RESERVED_ROWS);
        assert_eq!(most_rows(50_000_000, 1, None), 50_000_000);
        assert_eq!(most_rows(1_000_000, 16, None), 16_000_000);
        assert_eq!(most_rows(1000, 1, Some("20000000")), 20_000_000);
        assert_eq!(most_rows(50_000_000, 1, Some("20000000")), 50_000_000);
        assert_eq!(most_rows(1000, 1, Some("many")), RESERVED_ROWS);
    }
}
