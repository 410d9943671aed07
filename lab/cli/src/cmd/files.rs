//! The options for files of results: rows for programs, a page and Markdown for readers.
//!
//! All measuring commands write the same formats, with the same options.
//!
//! # Invariants
//! At most one format uses standard output. Impossible files are rejected before the work starts. A page and Markdown
//! have what the terminal has.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_page::document::Block;
use everybuddy_page::{Document, markdown};

use crate::export::page::{Page, made};
use crate::export::{Format, Outputs, Sink};
use crate::show::{document, output};

/// The destinations of results.
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

    /// Write a page with tables and figures to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Write the tables to FILE as Markdown (- for standard output)
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Files {
    /// Prepares the files.
    pub(super) fn open(&self, outputs: &mut Outputs) -> Result<Sinks, Error> {
        let sinks = self.without_page(outputs)?;
        let page = Page::open_named(outputs, self.html.as_deref())?;
        Ok(Sinks { page, ..sinks })
    }

    /// Prepares the files of a command that makes a page of its own.
    pub(super) fn without_page(&self, outputs: &mut Outputs) -> Result<Sinks, Error> {
        let formats = [
            (Format::Json, &self.json),
            (Format::Csv, &self.csv),
            (Format::Parquet, &self.parquet),
        ];
        let mut rows = Vec::new();
        let mut to_output: Option<&'static str> = None;
        let mut open = |option: &'static str, path: &PathBuf| {
            let sink = Sink::open(outputs, option, path)?;
            match to_output.filter(|_| sink.is_output()) {
                Some(other) => Err(Error::usage(format!(
                    "{other} - and {option} -: only one of them can use standard output\nhelp: name a file in one of \
                     them"
                ))),
                None => {
                    to_output = sink.is_output().then_some(option).or(to_output);
                    Ok(sink)
                }
            }
        };
        for (format, path) in formats {
            if let Some(path) = path {
                rows.push((format, open(format.option(), path)?));
            }
        }
        let markdown = self.markdown.as_ref();
        let markdown = markdown.map(|path| open("--markdown", path));
        Ok(Sinks {
            rows,
            page: None,
            markdown: markdown.transpose()?,
            shown: Mutex::default(),
        })
    }
}

/// Files that are ready for results.
pub(super) struct Sinks {
    rows: Vec<(Format, Sink)>,
    page: Option<Page>,
    markdown: Option<Sink>,
    /// What was shown, if a file for readers needs it.
    shown: Mutex<Vec<Block>>,
}

impl Sinks {
    /// Returns `true` if a file is standard output; tables then go to standard error.
    pub(super) fn take_output(&self) -> bool {
        let rows = self.rows.iter().map(|(_, sink)| sink);
        rows.chain(&self.markdown).any(Sink::is_output)
    }

    /// Shows blocks of the document, on the stream that no file uses.
    pub(super) fn show(&self, blocks: Vec<Block>) -> Result<(), Error> {
        self.write_text(&document::text(&blocks, &self.style()))?;
        self.keep(blocks);
        Ok(())
    }

    /// Shows text that is laid out already.
    pub(super) fn print(&self, text: &str) -> Result<(), Error> {
        self.write_text(text)?;
        let plain = console::strip_ansi_codes(text).into_owned();
        self.keep(vec![Block::Verbatim(plain)]);
        Ok(())
    }

    /// Adds blocks that only a page and Markdown have.
    pub(super) fn keep(&self, blocks: Vec<Block>) {
        if self.page.is_some() || self.markdown.is_some() {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.extend(blocks);
        }
    }

    fn write_text(&self, text: &str) -> Result<(), Error> {
        if self.take_output() {
            output::aside(text)
        } else {
            output::text(text)
        }
    }

    /// Returns `true` if a page or Markdown will have what is shown.
    pub(super) fn are_for_readers(&self) -> bool {
        self.page.is_some() || self.markdown.is_some()
    }

    /// Returns the style of text for readers.
    pub(super) fn style(&self) -> output::Style {
        output::Style::of_output(self.take_output())
    }

    /// Writes all rows, and what was shown as a document whose top is `about`.
    pub(super) fn write(self, rows: &[Row], about: Document) -> Result<(), Error> {
        if self.are_for_readers() {
            let shown = self.shown.into_inner().unwrap_or_default();
            let about = made(about);
            let document = Document {
                blocks: [about.blocks, shown].concat(),
                ..about
            };
            if let Some(page) = self.page {
                page.write_document(&document)?;
            }
            if let Some(sink) = self.markdown {
                sink.write(markdown::of(&document).as_bytes())?;
            }
        }
        let mut all = self.rows.into_iter();
        all.try_for_each(|(format, sink)| sink.write(&format.encode(rows)?))
    }
}

/// Returns the top of a document of which the title says everything.
pub(super) fn titled(title: impl Into<String>) -> Document {
    Document {
        title: title.into(),
        ..Document::default()
    }
}
