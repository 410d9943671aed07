//! `everybuddy memory`: which large blocks a Linux machine has.
//!
//! [`everybuddy_memory::command`] has the options and the output, which the program `everybuddy-memory` shares. This
//! program also writes Parquet, whose library would make the other one large.
//!
//! # Invariants
//! The exit codes of `--need` pass through unchanged. A number in Parquet is one of those of `--json`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_memory::command;
use parquet::data_type::{Int32Type, Int64Type};
use parquet::errors::ParquetError;
use serde_json::Value;

use crate::export::{Outputs, parquet as table};

/// The numbers of an order that are rows, by their names in `--json`.
const CLASSES: [&str; 7] = [
    "free",
    "usable",
    "below_watermark",
    "by_moving",
    "by_dropping_cache",
    "never",
    "in_zone",
];

/// The columns and their types.
const SCHEMA: &str = "message memory {
    required int32 state (integer(32, false));
    optional int32 node (integer(32, false));
    required binary zone (string);
    required int32 order (integer(8, false));
    required int64 bytes (integer(64, false));
    required binary class (string);
    required int64 low (integer(64, false));
    optional int64 high (integer(64, false));
}";

/// Show which large blocks a machine has, from /proc, or from copies and logs.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Arguments {
    #[command(flatten)]
    own: command::Arguments,

    /// Write the numbers of --json to FILE as Parquet, a row for each
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    parquet: Option<PathBuf>,
}

/// Runs the command and returns its exit code.
pub(super) fn run(arguments: &Arguments) -> Result<u8, Error> {
    let Some(path) = &arguments.parquet else {
        return command::run(&arguments.own).map_err(usage);
    };
    if path.as_os_str() == "-" {
        return Err(Error::usage(
            "--parquet -: standard output has the answer\nhelp: pass the name of a file",
        ));
    }
    let mut failure = None;
    let mut export = |states: &[Value]| {
        failure = write(path, states).err();
        match failure {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    };
    let code = command::run_with(&arguments.own, Some(&mut export));
    match failure {
        Some(error) => Err(error),
        None => code.map_err(usage),
    }
}

fn usage(error: everybuddy_memory::MemoryError) -> Error {
    Error::usage(error.to_string())
}

/// The number of blocks of an order that are of a class.
struct Row {
    state: u32,
    node: Option<u64>,
    zone: String,
    order: u64,
    bytes: u64,
    class: String,
    low: u64,
    /// `None` if the input does not bound the number.
    high: Option<u64>,
}

/// Replaces the file by one with the rows of these states.
fn write(path: &Path, states: &[Value]) -> Result<(), Error> {
    let file = Outputs::default().open("--parquet", path)?;
    let rows: Vec<Row> = (0..).zip(states).flat_map(of_state).collect();
    let bytes = table::table(SCHEMA, &rows, &[], fill);
    let bytes = bytes.map_err(|error| Error::Broken(format!("--parquet: {error}")))?;
    file.finish(&bytes)
}

fn fill(out: &mut table::Columns<'_, '_, Row>) -> Result<(), ParquetError> {
    out.all::<Int32Type>(|row| row.state as i32)?;
    out.some::<Int32Type>(|row| row.node.map(|node| node as i32))?;
    out.texts(|row| row.zone.as_str().into())?;
    out.all::<Int32Type>(|row| row.order as i32)?;
    out.all::<Int64Type>(|row| row.bytes as i64)?;
    out.texts(|row| row.class.as_str().into())?;
    out.all::<Int64Type>(|row| row.low as i64)?;
    out.some::<Int64Type>(|row| row.high.map(|high| high as i64))
}

/// Returns the rows of a state as `--json` writes it.
fn of_state((state, value): (u32, &Value)) -> Vec<Row> {
    let mut rows = Vec::new();
    for zone in value["zones"].as_array().into_iter().flatten() {
        for order in zone["orders"].as_array().into_iter().flatten() {
            let special = order["special"].as_array().into_iter().flatten();
            let special = special.filter_map(|own| Some((own["type"].as_str()?, &own["blocks"])));
            let classes = CLASSES.iter().map(|class| (*class, &order[*class]));
            for (class, count) in classes.chain(special) {
                let Some((low, high)) = bounds(count) else {
                    continue;
                };
                rows.push(Row {
                    state,
                    node: zone["node"].as_u64(),
                    zone: zone["zone"].as_str().unwrap_or_default().to_string(),
                    order: order["order"].as_u64().unwrap_or_default(),
                    bytes: order["bytes"].as_u64().unwrap_or_default(),
                    class: class.to_string(),
                    low,
                    high,
                });
            }
        }
    }
    rows
}

/// Returns a number, or its bounds. Returns `None` if it is unknown.
fn bounds(count: &Value) -> Option<(u64, Option<u64>)> {
    if let Some(exact) = count.as_u64() {
        return Some((exact, Some(exact)));
    }
    Some((count["low"].as_u64()?, count["high"].as_u64()))
}
