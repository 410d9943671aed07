//! Comma-separated values with a header, empty where a column has no value.
//!
//! For spreadsheets and other programs.
//!
//! # Invariants
//! Fields are quoted only if necessary; lines end with a line feed.

use std::io;

use super::Row;

/// Encodes rows as CSV.
pub(super) fn encode(rows: &[Row]) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::with_capacity(rows.len() * 128));
    for row in rows {
        writer.serialize(row).map_err(io::Error::other)?;
    }
    writer
        .into_inner()
        .map_err(|error| io::Error::other(error.to_string()))
}
