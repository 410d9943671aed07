//! JSON lines: one object per row, `null` where a column has no value.
//!
//! For `jq`, `pandas.read_json(lines=True)`, `polars.read_ndjson` and DuckDB.
//!
//! # Invariants
//! Each line is a complete JSON value. What `encode` writes, `decode` reads as the same rows.

use std::io;
use std::sync::{Mutex, PoisonError};

use everybuddy_metrics::{METRICS, OPERATIONS, STATISTICS};
use serde_json::{Map, Value};

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

/// Decodes JSON lines. The error names the line and the column that is missing or wrong.
pub fn decode(text: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: String| format!("line {number}: {what}");
        let row: Map<String, Value> = serde_json::from_str(line)
            .map_err(|_| wrong("not a JSON object; the file may be cut off".into()))?;
        rows.push(read(&row).map_err(wrong)?);
    }
    Ok(rows)
}

/// Reads a row. The error names the column that is missing or wrong.
pub(crate) fn read(row: &Map<String, Value>) -> Result<Row, String> {
    let missing = |name: &str| format!("`{name}` is missing or wrong");
    let text = |name: &str| row.get(name).and_then(Value::as_str).ok_or(missing(name));
    let number = |name: &str| row.get(name).and_then(Value::as_u64).ok_or(missing(name));
    let order = match row.get("order") {
        None | Some(Value::Null) => None,
        Some(_) => Some(u8::try_from(number("order")?).map_err(|_| missing("order"))?),
    };
    Ok(Row {
        experiment: text("experiment")?.to_owned(),
        source: text("source")?.to_owned(),
        system: text("system")?.to_owned(),
        options: text("options")?.to_owned(),
        platform: text("platform")?.parse()?,
        cpus: u16::try_from(number("cpus")?).map_err(|_| missing("cpus"))?,
        // What scripts measure in kernels depends on no seed.
        seed: match row.get("seed") {
            Some(Value::Null) => 0,
            _ => number("seed")?,
        },
        operation: name(text("operation")?),
        order,
        metric: name(text("metric")?),
        statistic: name(text("statistic")?),
        value: row
            .get("value")
            .and_then(Value::as_f64)
            .ok_or(missing("value"))?,
        expected: row.get("expected").and_then(Value::as_f64),
        // Earlier programs did not say what they were, and this one did not make their rows.
        program: text("program").unwrap_or("- - -").to_owned(),
    })
}

/// Returns a name that lives as long as the program. Experiments may have operations of their own: those are leaked,
/// once per name.
fn name(text: &str) -> &'static str {
    static OWN: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let pairs = STATISTICS.iter().chain(OPERATIONS).map(|own| own.0);
    let mut known = METRICS.iter().map(|metric| metric.name).chain(pairs);
    if let Some(known) = known.find(|known| *known == text) {
        return known;
    }
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = own.iter().find(|known| **known == text) {
        return known;
    }
    let new: &'static str = Box::leak(text.into());
    own.push(new);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let row = Row {
            experiment: "e@0.5".into(),
            source: "a \"name\"".into(),
            system: "lbs-31".into(),
            options: "batch=7".into(),
            platform: "sim:flat".parse().expect("a platform"),
            cpus: 2,
            seed: u64::from(u32::MAX) + 1,
            operation: "insert",
            order: Some(9),
            metric: "latency",
            statistic: "p50",
            value: 0.1 + 0.2,
            expected: Some(1.5),
            program: "0123abc 89abcdef amd-25".into(),
        };
        let rows = vec![
            Row {
                order: None,
                expected: None,
                ..row.clone()
            },
            row,
        ];
        let text = String::from_utf8(encode(&rows).expect("rows")).expect("text");
        assert_eq!(decode(&text), Ok(rows));
        let earlier = decode(&text.replace("\"program\"", "\"by\"")).expect("rows");
        assert!(earlier.iter().all(|row| row.program == "- - -"));
        let seed = format!("\"seed\":{}", u64::from(u32::MAX) + 1);
        let of_scripts = decode(&text.replace(&seed, "\"seed\":null")).expect("rows");
        assert!(of_scripts.iter().all(|row| row.seed == 0));
        let cut = text.replace("\"source\"", "\"sauce\"");
        assert_eq!(
            decode(&cut),
            Err("line 1: `source` is missing or wrong".into())
        );
        assert!(decode("{").is_err());
    }
}
