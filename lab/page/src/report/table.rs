//! The table of systems on a trace, and the answer above it.
//!
//! Which numbers a table shows, how they are written and which are best is decided where they are measured: the
//! terminal shows the same.
//!
//! # Invariants
//! A column has a value, a text and a mark for each system of its trace, in the same order.

use everybuddy_metrics::Better;
use serde::Serialize;

/// The table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// Its columns, from left to right.
    #[serde(skip)]
    pub columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The metric: the page links to its definition.
    pub metric: String,
    /// What it shows, and the unit or what else tells it from others. Neighbours of the same first line share it.
    pub head: [String; 2],
    /// What it shows, in a line.
    pub legend: String,
    /// Which values are good.
    pub better: Better,
    /// The numbers, for sorting.
    pub values: Vec<Option<f64>>,
    /// The numbers as text.
    pub texts: Vec<String>,
    /// Which of them are best.
    pub best: Vec<bool>,
    /// The number of the replay with no allocator, as text.
    pub overhead: String,
}

/// Whether to keep Linux or which system to take, in the sentences of the terminal.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Which system to take. Text in back quotes is code.
    pub summary: String,
    /// Whether the choice matters to the program of the trace; empty if that is not known.
    pub matters: String,
    /// What to do next; empty if that is not known. Text in back quotes is code.
    pub next: String,
    /// The systems, each with its reason and its price.
    pub systems: Vec<(String, String)>,
    /// Systems that are better in something, and were not considered; empty if there are none. Text in back quotes is
    /// code.
    pub slower: String,
    /// What the run cannot say. Text in back quotes is code.
    pub limits: String,
    /// What they were judged by. Text in back quotes is code.
    pub rule: String,
}
