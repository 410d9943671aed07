//! What the tests share: scratch folders, small traces, files as other programs write them.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everybuddy_trace::{Acquisition, Event, Op, Trace};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// A folder that disappears with its owner.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A folder, and the place of a trace in it.
pub(crate) fn made() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let path = scratch.path("made.parquet");
    (scratch, path)
}

/// The folder of the traces that come with the project.
pub(crate) fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../traces")
        .join(name)
}

pub(crate) fn allocate(time_ns: u64, pfn: u64, order: u8) -> Event {
    Event::new(time_ns, 0, 1, Op::Allocate, pfn, order)
}

pub(crate) fn free(time_ns: u64, pfn: u64, order: u8) -> Event {
    Event::new(time_ns, 0, 1, Op::Free, pfn, order)
}

/// An acquisition of a zone's lock on CPU 0.
pub(crate) fn acquisition(time_ns: u64, wait_ns: u64) -> Acquisition {
    Acquisition {
        time_ns,
        wait_ns,
        pid: 1,
        source: 3,
        ..Acquisition::default()
    }
}

pub(crate) fn trace(events: &[Event]) -> Trace {
    Trace {
        name: "made".to_string(),
        events: events.to_vec(),
        ..Trace::default()
    }
}

/// A column of a file that another program wrote.
pub(crate) enum Column {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    /// A nullable column.
    Gaps(Vec<Option<i64>>),
    Double(Vec<f64>),
    Text(Vec<&'static str>),
}

/// Writes a file with any columns at all.
pub(crate) fn foreign(path: &Path, schema: &str, compression: Compression, columns: Vec<Column>) {
    foreign_groups(path, schema, compression, 1, &columns);
}

/// The same, with the rows repeated in this number of row groups.
pub(crate) fn foreign_groups(
    path: &Path,
    schema: &str,
    compression: Compression,
    groups: usize,
    columns: &[Column],
) {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {schema} }}")).unwrap());
    let properties = Arc::new(
        WriterProperties::builder()
            .set_compression(compression)
            .build(),
    );
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    for _ in 0..groups {
        let mut group = writer.next_row_group().unwrap();
        for values in columns {
            let mut column = group.next_column().unwrap().unwrap();
            match values {
                Column::Int32(values) => fill::<Int32Type>(&mut column, values, None),
                Column::Int64(values) => fill::<Int64Type>(&mut column, values, None),
                Column::Gaps(values) => {
                    let levels: Vec<i16> =
                        values.iter().map(|value| value.is_some() as i16).collect();
                    let values: Vec<i64> = values.iter().copied().flatten().collect();
                    fill::<Int64Type>(&mut column, &values, Some(&levels));
                }
                Column::Double(values) => fill::<DoubleType>(&mut column, values, None),
                Column::Text(values) => {
                    let values: Vec<ByteArray> =
                        values.iter().copied().map(ByteArray::from).collect();
                    fill::<ByteArrayType>(&mut column, &values, None);
                }
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn fill<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) {
    let written = column.typed::<T>().write_batch(values, levels, None);
    written.unwrap();
}
