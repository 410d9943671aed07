//! The options for files of rows.
//!
//! All measuring commands write rows in the same formats, with the same options.
//!
//! # Invariants
//! At most one format uses standard output. Impossible files are rejected before the work starts.

use std::path::PathBuf;

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;

use crate::export::{Format, Outputs, Sink};
use crate::show::output;

/// The destinations of rows.
#[derive(Debug, Args)]
pub(super) struct Files {
    /// Write every measurement to FILE as JSON lines (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write every measurement to FILE as CSV (- for standard output)
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write every measurement to FILE as Parquet (- for standard output)
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

impl Files {
    /// Prepares the files.
    pub(super) fn open(&self, outputs: &mut Outputs) -> Result<Sinks, Error> {
        let formats = [
            (Format::Json, &self.json),
            (Format::Csv, &self.csv),
            (Format::Parquet, &self.parquet),
        ];
        let mut sinks = Vec::new();
        let mut to_output: Option<Format> = None;
        for (format, path) in formats {
            let Some(path) = path else { continue };
            let sink = Sink::open(outputs, format, path)?;
            if sink.is_output()
                && let Some(other) = to_output.replace(format)
            {
                return Err(Error::usage(format!(
                    "{} - and {} -: only one of them can use standard output\nhelp: name a file in one of them",
                    other.option(),
                    format.option()
                )));
            }
            sinks.push(sink);
        }
        Ok(Sinks { sinks })
    }
}

/// Files that are ready for rows.
pub(super) struct Sinks {
    sinks: Vec<Sink>,
}

impl Sinks {
    /// Returns `true` if rows go to standard output; tables then go to standard error.
    pub(super) fn take_output(&self) -> bool {
        self.sinks.iter().any(Sink::is_output)
    }

    /// Prints text for readers to the stream without rows.
    pub(super) fn print(&self, text: &str) -> Result<(), Error> {
        if self.take_output() {
            output::aside(text)
        } else {
            output::text(text)
        }
    }

    /// Returns the style of text for readers.
    pub(super) fn style(&self) -> output::Style {
        output::Style::of_output(self.take_output())
    }

    /// Writes all rows.
    pub(super) fn write(self, rows: &[Row]) -> Result<(), Error> {
        self.sinks.into_iter().try_for_each(|sink| sink.write(rows))
    }
}
