//! The values of a grid's lists.
//!
//! A wrong value is refused with its key and what the key takes.
//!
//! # Invariants
//! A list is never empty, and has no value twice.

use std::fmt;
use std::ops::RangeInclusive;

use everybuddy_measure::Error;
use everybuddy_measure::choice::unknown;
use serde_json::json;
use toml::{Table, Value};

/// The values of an option.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// These.
    List(Vec<String>),
    /// Whole numbers, for a search.
    Range {
        /// The smallest one.
        min: i64,
        /// The largest one.
        max: i64,
        /// The distance between two of them.
        step: i64,
        /// Whether the search looks at ratios instead of differences.
        log: bool,
    },
}

/// The keys of a range.
const RANGE: [&str; 4] = ["min", "max", "step", "log"];

impl Choice {
    /// Reads the values of an option.
    ///
    /// # Errors
    /// A usage error with the key.
    pub(crate) fn of(key: &str, value: &Value) -> Result<Choice, Error> {
        match value {
            Value::Table(table) => {
                range(table).map_err(|what| Error::usage(format!("[options]: `{key}`: {what}")))
            }
            value => Ok(Choice::List(texts(key, value)?)),
        }
    }

    /// Returns the values for the program that searches.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Choice::List(values) => json!({ "choices": values }),
            Choice::Range {
                min,
                max,
                step,
                log,
            } => {
                json!({ "low": min, "high": max, "step": step, "log": log })
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::List(values) => out.write_str(&values.join(",")),
            Choice::Range {
                min,
                max,
                step,
                log,
            } => {
                let log = if *log { ", log" } else { "" };
                write!(out, "{min} to {max}, step {step}{log}")
            }
        }
    }
}

fn range(table: &Table) -> Result<Choice, String> {
    if let Some(key) = table.keys().find(|key| !RANGE.contains(&key.as_str())) {
        return Err(unknown("key", key, &RANGE));
    }
    let number = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::Integer(number)) => Ok(Some(*number)),
        Some(other) => Err(format!("`{key}` is {other}, but must be a whole number")),
    };
    let log = match table.get("log") {
        None => false,
        Some(Value::Boolean(log)) => *log,
        Some(other) => return Err(format!("`log` is {other}, but must be true or false")),
    };
    let (Some(min), Some(max)) = (number("min")?, number("max")?) else {
        return Err("a range needs `min` and `max`\nhelp: write { min = 1, max = 64 }".into());
    };
    let step = number("step")?.unwrap_or(1);
    if min < 0 || max <= min || step < 1 || step > max - min {
        return Err(format!(
            "the range from {min} to {max} in steps of {step} has fewer than two numbers, or negative ones"
        ));
    }
    if log && (min == 0 || step > 1) {
        return Err(
            "a range with `log` begins above 0 and has no `step`\nhelp: leave one of them out"
                .into(),
        );
    }
    Ok(Choice::Range {
        min,
        max,
        step,
        log,
    })
}

/// Returns the text of a single value. Returns `None` for lists, tables and switches.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Reads a list of texts or numbers. A single one is a list, too.
///
/// # Errors
/// A usage error if the list is empty, or has something twice or something else.
pub(crate) fn texts(key: &str, value: &Value) -> Result<Vec<String>, Error> {
    let refuse = |what: String| Err(Error::usage(format!("`{key}`: {what}")));
    let items = match value {
        Value::Array(items) => &items[..],
        other => std::slice::from_ref(other),
    };
    let mut all: Vec<String> = Vec::new();
    for item in items {
        let Some(text) = scalar(item).filter(|text| !text.is_empty()) else {
            return refuse(format!(
                "{item} is neither a text nor a number\nhelp: write {key} = [\"...\"]"
            ));
        };
        if all.contains(&text) {
            return refuse(format!("`{text}` is given twice"));
        }
        all.push(text);
    }
    if all.is_empty() {
        refuse("the list is empty\nhelp: leave it out, or add a value".into())
    } else {
        Ok(all)
    }
}

/// Reads a list of whole numbers.
///
/// # Errors
/// As for [`texts`], and if a number is not in `range`.
pub(crate) fn numbers(
    key: &str,
    value: &Value,
    range: RangeInclusive<i64>,
) -> Result<Vec<i64>, Error> {
    let texts = texts(key, value)?;
    let numbers = texts.iter().map(|text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            Error::usage(format!(
                "`{key}`: `{text}` is not a whole number from {least} to {most}"
            ))
        })
    });
    numbers.collect()
}
