//! What the page of experiments shows, as plain data.
//!
//! Exists so that papers' figures and tables, and what came out here, can be laid out without measuring
//! anything: whoever has measured fills in a [`Study`].
//!
//! Invariant: a number that does not exist is `None`, and the page then shows nothing. Positions on axes are
//! finite. A column has as many values as its table has lines.

use serde::Serialize;

use crate::report::Machine;

/// Everything that the page shows.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// The heading of the page.
    pub title: String,
    /// The command line that made it.
    pub command: String,
    /// When it was made, as people write it.
    pub date: String,
    /// The program's version, with the commit where known.
    pub version: String,
    /// Where it was measured.
    pub machine: Machine,
    /// What reading the clock costs on average, in nanoseconds.
    pub timer_ns: f64,
    /// What all random choices came from.
    pub seed: u64,
    /// Everything was so many times shorter than it should be; 1 for a run that counts.
    pub shrink: u32,
    /// The experiments, in the order of the page. Names differ.
    pub experiments: Vec<Experiment>,
}

/// One experiment: what a paper has, and what came out.
#[derive(Clone, Debug, Default)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// What it shows, in a sentence.
    pub title: String,
    /// Paper, section, figure or table.
    pub source: String,
    /// How often it was measured, and how rounds were summed up: a sentence.
    pub measured: String,
    /// How far the result can be compared with its source, in words.
    pub remarks: String,
    /// The figure, where it has one.
    pub figure: Option<Figure>,
    /// The tables of what came out.
    pub tables: Vec<Table>,
    /// What its source printed, where that has no counterpart in the tables.
    pub printed: Option<Printed>,
    /// What has to come out.
    pub claims: Vec<Claim>,
}

/// A figure: panels with one legend.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// Source and conditions, in a line.
    pub note: String,
    /// The panels, in the order in which they are read.
    pub panels: Vec<Panel>,
    /// Every series once.
    pub legend: Vec<Key>,
}

/// What a line or a mark of a figure stands for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Key {
    /// The name of the series.
    pub name: String,
    /// Which of the colours and marks it has.
    pub look: usize,
    /// How it is drawn.
    pub shape: Shape,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A line.
    #[default]
    Line,
    /// A line through marks, with the interval of each.
    Interval,
    /// Marks with the interval of each, and no line.
    Points,
    /// A ring around each point, and no line.
    Ring,
}

/// A pair of axes with what is between them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// A stretch of the horizontal axis that is shaded, and why.
    pub shade: Option<(f64, f64, String)>,
}

/// An axis: positions are numbers, and what they mean is text.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// From where to where it reaches.
    pub range: (f64, f64),
    /// Where it is marked, and what the marks say.
    pub marks: Vec<(f64, String)>,
    /// Of what the positions are logarithms; nothing where they are the numbers themselves.
    pub base: Option<f64>,
}

/// One series.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Its name, as the legend has it.
    pub name: String,
    /// Which of the colours and marks it has.
    pub look: usize,
    /// How it is drawn.
    pub shape: Shape,
    /// Position and value.
    pub points: Vec<(f64, f64)>,
    /// The interval of each value, or nothing.
    pub intervals: Vec<(f64, f64)>,
    /// A word beside each point; fewer than points where some have none.
    pub labels: Vec<String>,
}

/// A table of what came out: a line for each system.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The systems.
    pub names: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
}

/// A column of a table, and what was expected of it.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// On what it was measured: columns beside each other of the same share a heading.
    pub source: String,
    /// What the numbers are.
    pub what: String,
    /// The numbers.
    pub values: Vec<Option<f64>>,
    /// What was expected; all `None` where nothing was.
    pub expected: Vec<Option<f64>>,
    /// Who expected it: `source`, or `expected` where it follows from what was done.
    pub by: String,
    /// The line with the best number, if there is one.
    pub best: Option<usize>,
}

/// Numbers that a paper printed: text, as it is.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    /// What the numbers are.
    pub title: String,
    /// The heads of the columns.
    pub heads: Vec<String>,
    /// The lines.
    pub lines: Vec<Vec<String>>,
}

/// What has to come out, and whether it did.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// What is said.
    pub text: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The numbers, a line for each case.
    pub cases: Vec<(Verdict, String)>,
    /// Why it does not come out here, where that is known.
    pub why: Option<String>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not, and it is known why.
    Differs,
    /// It does not.
    Fails,
    /// The rounds disagree, or there are no numbers.
    Undecided,
    /// Nobody judged it: the run was shortened.
    #[default]
    NotJudged,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Verdict; 5] = [
        Verdict::Holds,
        Verdict::Differs,
        Verdict::Fails,
        Verdict::Undecided,
        Verdict::NotJudged,
    ];
}
