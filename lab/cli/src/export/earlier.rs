//! The rows of an earlier run.
//!
//! What one command exported, others read: they judge, draw or compare it without measuring again.
//!
//! # Invariants
//! No two rows have different values of the same number.

use std::collections::BTreeMap;
use std::path::Path;

use everybuddy_measure::Error;
use everybuddy_text::packed;
use everybuddy_trace::shown;

use super::{Row, json};
use crate::show::rows::key;

/// Reads the rows of a file, or of all files of a folder, packed or not. `argument` is the one that named it.
///
/// # Errors
/// Fails if a file cannot be read or is damaged, if a line is not a row, or if two rows have different values of the
/// same number.
pub fn rows(argument: &str, path: &Path) -> Result<Vec<Row>, Error> {
    let wrong = |what: String, help: &str| {
        let path = shown(path);
        Error::usage(format!("{argument}: {path}: {what}\nhelp: {help}"))
    };
    let help =
        format!("{argument} takes the file that --json wrote, or a folder of them, packed or not");
    let text = packed::read(path).map_err(|cause| wrong(cause.to_string(), &help))?;
    let rows = json::decode(&text).map_err(|what| wrong(what, &help))?;
    let mut seen = BTreeMap::new();
    for (line, row) in (1..).zip(&rows) {
        if *seen.entry(key(row)).or_insert(row.value) != row.value {
            let what = format!("line {line}: another line has another value of the same number");
            return Err(wrong(what, "a file may have the rows of one run only"));
        }
    }
    Ok(rows)
}
