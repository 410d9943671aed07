//! Parquet: the columns of rows, compressed, as pandas, polars and DuckDB read them.
//!
//! A run with samples has a hundred thousand rows. As Parquet they take a hundredth of the bytes of JSON lines, and
//! load with their types.
//!
//! # Invariants
//! Columns have the names and the order of [`COLUMNS`](everybuddy_measure::rows::COLUMNS). A value that a row lacks is
//! null. What is written is read as the same rows.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use super::json;
use everybuddy_measure::rows::Row;

/// The zstd level, as for traces.
const ZSTD_LEVEL: i32 = 9;

/// The columns and their types.
const SCHEMA: &str = "message rows {
    required binary experiment (string);
    required binary source (string);
    required binary system (string);
    required binary options (string);
    required binary contender (string);
    required binary platform (string);
    required int32 cpus (integer(16, false));
    required int64 seed (integer(64, false));
    required binary operation (string);
    optional int32 order (integer(8, false));
    required binary metric (string);
    required binary statistic (string);
    required double value;
    required binary unit (string);
    optional double expected;
    required boolean simulated;
    required binary program (string);
}";

/// Keys and values that describe a file.
pub(crate) type Metadata = Vec<(String, String)>;

/// Writes rows as a Parquet file.
pub(super) fn encode(rows: &[Row]) -> io::Result<Vec<u8>> {
    encode_with(rows, &[])
}

/// Writes rows as a Parquet file with metadata.
pub(crate) fn encode_with(rows: &[Row], metadata: &[(&str, String)]) -> io::Result<Vec<u8>> {
    written(rows, metadata).map_err(io::Error::other)
}

fn written(rows: &[Row], metadata: &[(&str, String)]) -> Result<Vec<u8>, ParquetError> {
    table(SCHEMA, rows, metadata, fill)
}

/// Writes a table of rows of any kind. `fill` writes the columns of the schema, in their order.
///
/// # Errors
/// That of the library: a column does not have the type of the schema.
pub(crate) fn table<R>(
    schema: &str,
    rows: &[R],
    metadata: &[(&str, String)],
    fill: impl FnOnce(&mut Columns<'_, '_, R>) -> Result<(), ParquetError>,
) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(schema)?);
    let metadata = metadata.iter();
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_string(), value.clone()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_key_value_metadata(Some(metadata.collect()).filter(|own: &Vec<_>| !own.is_empty()))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    {
        let group = writer.next_row_group()?;
        let mut columns = Columns { group, rows };
        fill(&mut columns)?;
        columns.group.close()?;
    }
    writer.into_inner()
}

/// Reads the rows of a file that this module has written, and its metadata. The error says what is wrong.
///
/// A damaged file can make the library panic: call this through [`everybuddy_trace::quietly`].
pub(crate) fn decode(file: File) -> Result<(Vec<Row>, Metadata), String> {
    let damaged = |error: ParquetError| format!("not Parquet ({error})");
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let metadata = metadata.into_iter().flatten();
    let metadata = metadata.map(|own| (own.key.clone(), own.value.clone().unwrap_or_default()));
    let metadata = metadata.collect();
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None).map_err(damaged)? {
        let row = row.map_err(damaged)?;
        let columns = row.get_column_iter();
        let columns = columns.map(|(name, field)| Ok((name.clone(), value(field)?)));
        rows.push(json::read(&columns.collect::<Result<_, String>>()?)?);
    }
    Ok((rows, metadata))
}

/// Returns a field as JSON has it.
fn value(field: &Field) -> Result<Value, String> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(value) => value.as_str().into(),
        _ => return Err("a column has another type".into()),
    })
}

/// Writes all columns, in the order of the schema.
fn fill(out: &mut Columns<'_, '_, Row>) -> Result<(), ParquetError> {
    out.texts(|row| row.experiment.as_str().into())?;
    out.texts(|row| row.source.as_str().into())?;
    out.texts(|row| row.system.as_str().into())?;
    out.texts(|row| row.options.as_str().into())?;
    out.texts(|row| row.name().as_str().into())?;
    out.texts(|row| row.platform.to_string().as_str().into())?;
    out.all::<Int32Type>(|row| row.cpus.into())?;
    out.all::<Int64Type>(|row| row.seed as i64)?;
    out.texts(|row| row.operation.into())?;
    out.some::<Int32Type>(|row| row.order.map(i32::from))?;
    out.texts(|row| row.metric.into())?;
    out.texts(|row| row.statistic.into())?;
    out.all::<DoubleType>(|row| row.value)?;
    out.texts(|row| row.unit().into())?;
    out.some::<DoubleType>(|row| row.expected)?;
    out.all::<BoolType>(|row| row.platform.is_simulated())?;
    out.texts(|row| row.program.as_str().into())
}

/// A row group that is written column by column.
pub(crate) struct Columns<'w, 'r, R> {
    group: SerializedRowGroupWriter<'w, Vec<u8>>,
    rows: &'r [R],
}

impl<R> Columns<'_, '_, R> {
    /// Writes a column of texts.
    pub(crate) fn texts(&mut self, value: impl Fn(&R) -> ByteArray) -> Result<(), ParquetError> {
        self.all::<ByteArrayType>(value)
    }

    /// Writes a column without missing values.
    pub(crate) fn all<T: DataType>(
        &mut self,
        value: impl Fn(&R) -> T::T,
    ) -> Result<(), ParquetError> {
        let values: Vec<T::T> = self.rows.iter().map(value).collect();
        self.column::<T>(&values, None)
    }

    /// Writes a column with missing values.
    pub(crate) fn some<T: DataType>(
        &mut self,
        value: impl Fn(&R) -> Option<T::T>,
    ) -> Result<(), ParquetError> {
        let values: Vec<Option<T::T>> = self.rows.iter().map(value).collect();
        let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
        let values: Vec<T::T> = values.into_iter().flatten().collect();
        self.column::<T>(&values, Some(&levels))
    }

    fn column<T: DataType>(
        &mut self,
        values: &[T::T],
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General("a column is missing in the schema".to_string());
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_measure::rows::{COLUMNS, Platform};

    #[test]
    fn rows_come_back_as_they_went() {
        let row = |value, order, expected| Row {
            experiment: "compare@0.5000".to_string(),
            source: "gcc, \"quoted\"".to_string(),
            system: "lbs-31".to_string(),
            options: "batch=7".to_string(),
            platform: Platform::Sim("flat".to_string()),
            cpus: 65_535,
            seed: 7,
            operation: "free",
            order,
            metric: "residual",
            statistic: "mean",
            value,
            expected,
            program: "0123abc 89abcdef -".to_string(),
        };
        let rows = [
            row(0.1, None, None),
            row(-0.0, Some(10), Some(2.5)),
            row(1e300, Some(0), None),
        ];
        for rows in [&rows[..], &[]] {
            let bytes = bytes::Bytes::from(encode(rows).unwrap());
            let file = SerializedFileReader::new(bytes).unwrap();
            let back = file.get_row_iter(None).unwrap().map(|row| {
                let row = row.unwrap();
                row.get_column_iter()
                    .map(|(name, field)| (name.clone(), value(field).unwrap()))
                    .collect::<serde_json::Map<_, _>>()
            });
            let went = rows.iter().map(|row| match serde_json::to_value(row) {
                Ok(serde_json::Value::Object(map)) => map,
                other => panic!("{other:?}"),
            });
            assert_eq!(back.collect::<Vec<_>>(), went.collect::<Vec<_>>());
            let schema = file.metadata().file_metadata().schema_descr_ptr();
            let names: Vec<_> = schema.columns().iter().map(|own| own.name()).collect();
            assert_eq!(names, COLUMNS.map(|name| name));
        }
    }
}
