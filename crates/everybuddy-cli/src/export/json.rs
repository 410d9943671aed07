//! JSON lines: one object per row, `null` where a column has no value.
//!
//! # Purpose
//!
//! For `jq`, `pandas.read_json(lines=True)`, `polars.read_ndjson` and DuckDB.
//!
//! # Invariants
//!
//! Each line is a complete JSON value.

use std::io;

use super::Row;

/// Encodes rows as JSON lines.
pub(super) fn encode(rows: &[Row]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(rows.len() * 256);
    for row in rows {
        serde_json::to_writer(&mut bytes, row)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
