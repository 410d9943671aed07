//! JSON lines: one object a row, `null` where a column has no value.
//!
//! Exists for `jq`, `pandas.read_json(lines=True)`, `polars.read_ndjson` and DuckDB.
//!
//! Invariant: each line stands for itself.

use std::io;

use super::Row;

/// Writes rows as JSON lines.
pub(super) fn encode(rows: &[Row]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(rows.len() * 256);
    for row in rows {
        serde_json::to_writer(&mut bytes, row)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
