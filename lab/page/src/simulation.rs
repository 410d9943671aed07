//! The data of the page of a simulation.
//!
//! Figures and tables of simulated machines can be rendered without simulating anything: the program fills in a
//! [`Simulation`].
//!
//! # Invariants
//! A line of a table has as many texts as the table has headings.

use crate::study::Figure;

/// The contents of the page.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// The heading of the page.
    pub title: String,
    /// What was simulated, in a few sentences.
    pub about: String,
    /// The command line that produced it.
    pub command: String,
    /// The date, formatted for readers.
    pub date: String,
    /// The program's version, with the commit if known.
    pub version: String,
    /// All loads next to each other. Without lines it is not shown, nor are the causes.
    pub overview: Grid,
    /// A table below the overview.
    pub causes: Lines,
    /// The workloads and traces, with distinct names.
    pub loads: Vec<Load>,
    /// The parameters of the machine, with their sources.
    pub machine: Lines,
}

/// The results under one load.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The name of the workload or trace.
    pub name: String,
    /// The heading.
    pub title: String,
    /// What readers must know about it; may be empty.
    pub remarks: String,
    /// The figure.
    pub figure: Figure,
    /// The tables.
    pub tables: Vec<Lines>,
}

/// A table of shaded cells with vertical headings.
///
/// A line has as many cells as the table has headings.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The title.
    pub title: String,
    /// What the cells mean.
    pub note: String,
    /// The headings of the columns.
    pub heads: Vec<String>,
    /// The name of each line, and its cells.
    pub lines: Vec<(String, Vec<Cell>)>,
}

/// A cell of a grid.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// What it shows.
    pub text: String,
    /// The text that appears when the pointer is over the cell.
    pub title: String,
    /// How dark it is, from 0 to 1.
    pub shade: f64,
}

/// A table of text.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// The title.
    pub title: String,
    /// What the columns mean; may be empty.
    pub note: String,
    /// The column headings.
    pub heads: Vec<String>,
    /// The lines. The first text of each is its name.
    pub lines: Vec<Vec<String>>,
}
