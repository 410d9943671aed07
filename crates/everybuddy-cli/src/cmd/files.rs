//! The options that name files for rows.
//!
//! # Purpose
//!
//! Every command that measures writes rows in the same formats, by the same options.
//!
//! # Invariants
//!
//! At most one format goes to standard output. Impossible files are refused before the work begins.

use std::path::PathBuf;

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;

use crate::export::{Format, Sink};
use crate::show::output;

/// Where rows go.
#[derive(Debug, Args)]
pub(super) struct Files {
    /// Write every measurement as JSON lines (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write every measurement as CSV (- for standard output)
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write every measurement as Parquet (- for standard output)
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

impl Files {
    /// Prepares the files.
    pub(super) fn open(&self) -> Result<Sinks, Error> {
        let formats = [
            (Format::Json, &self.json),
            (Format::Csv, &self.csv),
            (Format::Parquet, &self.parquet),
        ];
        let mut sinks = Vec::new();
        let mut to_output: Option<Format> = None;
        for (format, path) in formats {
            let Some(path) = path else { continue };
            let sink = Sink::open(format, path)?;
            if sink.is_output() {
                if let Some(other) = to_output.replace(format) {
                    return Err(Error::usage(format!(
                        "{} - and {} -: only one of them can use standard output",
                        other.option(),
                        format.option()
                    )));
                }
            }
            sinks.push(sink);
        }
        Ok(Sinks { sinks })
    }
}

/// Files that are ready to take rows.
pub(super) struct Sinks {
    sinks: Vec<Sink>,
}

impl Sinks {
    /// Returns `true` if rows go to standard output: then tables go to standard error, since they cannot share it.
    pub(super) fn take_output(&self) -> bool {
        self.sinks.iter().any(Sink::is_output)
    }

    /// Prints text for people, where it does not disturb rows.
    pub(super) fn print(&self, text: &str) -> Result<(), Error> {
        match self.take_output() {
            true => output::aside(text),
            false => output::text(text),
        }
    }

    /// Returns how text for people may look.
    pub(super) fn style(&self) -> output::Style {
        output::Style::of_output(self.take_output())
    }

    /// Writes all rows.
    pub(super) fn write(self, rows: &[Row]) -> Result<(), Error> {
        self.sinks.into_iter().try_for_each(|sink| sink.write(rows))
    }
}
