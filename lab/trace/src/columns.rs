//! Reads columns of integers from Parquet files of any writer.
//!
//! # Purpose
//!
//! Programs write the same number with different types: pandas writes a nullable signed 64-bit integer where another
//! program writes an unsigned 16-bit integer. This module accepts any width and sign as long as the values fit, and
//! columns in any order. It ignores unknown columns.
//!
//! # Invariants
//!
//! Every returned column has exactly the number of rows of the table.

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

/// The number of values decoded per call: large enough to amortize the call, small enough for the cache.
const BATCH: usize = 8192;

/// The maximum number of rows that are reserved in advance: a damaged file may claim any number.
const RESERVED_ROWS: usize = 1 << 22;

/// An open Parquet file.
pub(crate) struct Table {
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

impl Table {
    /// Opens a file and checks that it has the required columns.
    pub(crate) fn open(source: &Source, needed: &[&'static str]) -> Result<Table, TraceError> {
        let (reader, bytes) = source.open()?;
        let table = Table {
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
            Ok(rows) if rows < 1 << 31 => Ok(Table { rows, ..table }),
            Ok(_) => Err(table.error(None, Problem::TooManyRows)),
            Err(_) => Err(table.damaged(format!("it claims {claimed} rows"))),
        }
    }

    /// Returns the number of rows that the file claims; [`Table::column`] checks the claim.
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

    /// Reads a column, which must be in the list passed to [`Table::open`], or returns `default` for every row if the
    /// file lacks the column. Rows without a suitable value that `sieve` accepts get `default`.
    pub(crate) fn column<T: TryFrom<i128> + Copy>(
        &self,
        name: &'static str,
        default: T,
        sieve: &mut Sieve,
    ) -> Result<Vec<T>, TraceError> {
        let Some(position) = self.position(name) else {
            return Ok(vec![default; self.rows]);
        };
        let schema = self.reader.metadata().file_metadata().schema_descr_ptr();
        let unsigned = self.unsigned(name, &schema.column(position))?;
        let mut values = Vec::with_capacity(self.rows.min(RESERVED_ROWS));
        let mut take = |value: Option<i128>| {
            let problem = match value {
                Some(value) => match T::try_from(value) {
                    Ok(fitting) => {
                        values.push(fitting);
                        return Ok(());
                    }
                    Err(_) => Problem::OutOfRange {
                        column: name,
                        value,
                    },
                },
                None => Problem::NoValue { column: name },
            };
            let row = values.len();
            values.push(default);
            sieve
                .reject(row, problem)
                .map_err(|problem| self.error(Some(row), problem))
        };
        for group in 0..self.reader.num_row_groups() {
            match self.reader_of(group, position)? {
                ColumnReader::Int32ColumnReader(mut reader) if unsigned => {
                    self.drain(&mut reader, |value| i128::from(value as u32), &mut take)?;
                }
                ColumnReader::Int32ColumnReader(mut reader) => {
                    self.drain(&mut reader, i128::from, &mut take)?;
                }
                ColumnReader::Int64ColumnReader(mut reader) if unsigned => {
                    self.drain(&mut reader, |value| i128::from(value as u64), &mut take)?;
                }
                ColumnReader::Int64ColumnReader(mut reader) => {
                    self.drain(&mut reader, i128::from, &mut take)?;
                }
                _ => {
                    return Err(
                        self.damaged(format!("column {name} changes its type between row groups"))
                    );
                }
            }
        }
        if values.len() != self.rows {
            let (found, claimed) = (values.len(), self.rows);
            return Err(self.damaged(format!("column {name} has {found} of {claimed} rows")));
        }
        Ok(values)
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

    /// Passes every value of one column chunk to `take`, `None` for a missing value.
    fn drain<D: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<D>,
        widen: impl Fn(D::T) -> i128,
        take: &mut impl FnMut(Option<i128>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let (mut levels, mut values) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        loop {
            levels.clear();
            values.clear();
            let (rows, present, _) = guarded(&self.file, || {
                reader.read_records(BATCH, Some(&mut levels), None, &mut values)
            })?;
            if rows == 0 {
                return Ok(());
            }
            if present == rows {
                values
                    .drain(..)
                    .try_for_each(|value| take(Some(widen(value))))?;
                continue;
            }
            // This is called only for columns without lists or structures, so level 0 is a missing value.
            let mut values = values.drain(..);
            for level in &levels {
                let value = if *level > 0 { values.next() } else { None };
                take(value.map(&widen))?;
            }
        }
    }

    fn damaged(&self, why: String) -> TraceError {
        self.error(None, Problem::NotParquet(why))
    }
}
