//! Comma-separated values with a header, empty where a column has no value.
//!
//! Exists for spreadsheets and everything else.
//!
//! Invariant: fields are quoted only where they need it; lines end with a line feed.

use std::io;

use super::Row;

/// Writes rows as CSV.
pub(super) fn encode(rows: &[Row]) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::with_capacity(rows.len() * 128));
    for row in rows {
        writer.serialize(row).map_err(io::Error::other)?;
    }
    writer
        .into_inner()
        .map_err(|error| io::Error::other(error.to_string()))
}
