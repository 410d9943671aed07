//! The data of the page of experiments.
//!
//! The figures and tables of papers, and the results measured here, can be rendered without measuring anything: the
//! measuring program fills in a [`Study`].
//!
//! # Invariants
//! A missing number is `None`, and the page shows nothing for it. Positions on axes are finite. A column has as many
//! values as its table has lines.

use serde::Serialize;

use crate::report::Machine;

/// The contents of the page.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// The heading of the page.
    pub title: String,
    /// The command line that produced it.
    pub command: String,
    /// The date, formatted for readers.
    pub date: String,
    /// The program's version, with the commit if known.
    pub version: String,
    /// The machine of the measurement.
    pub machine: Machine,
    /// The mean cost of reading the clock, in nanoseconds.
    pub timer_ns: f64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The factor by which everything was shortened; 1 for a valid run.
    pub shrink: u32,
    /// The experiments, in the order of the page, with distinct names.
    pub experiments: Vec<Experiment>,
}

/// One experiment: published and measured results.
#[derive(Clone, Debug, Default)]
pub struct Experiment {
    /// The name on the command line.
    pub name: String,
    /// A one-sentence description.
    pub title: String,
    /// The paper and its section, figure or table.
    pub source: String,
    /// A sentence about the number of measurements and how rounds were summarized.
    pub measured: String,
    /// The limits of the comparison with the source, in words.
    pub remarks: String,
    /// The figure, if there is one.
    pub figure: Option<Figure>,
    /// The tables of results.
    pub tables: Vec<Table>,
    /// The printed numbers of the source that have no counterpart in the tables.
    pub printed: Option<Printed>,
    /// The claims.
    pub claims: Vec<Claim>,
}

/// A figure: panels with a common legend.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// Source and conditions, in one line.
    pub note: String,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
    /// Each series once.
    pub legend: Vec<Key>,
}

/// An entry of the legend.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Key {
    /// The name of the series.
    pub name: String,
    /// The index of its colour and mark.
    pub look: usize,
    /// The style in which it is drawn.
    pub shape: Shape,
}

/// The style in which a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A line.
    #[default]
    Line,
    /// A line through marks with intervals.
    Interval,
    /// Marks with intervals, without a line.
    Points,
    /// A ring around each point, without a line.
    Ring,
}

/// A pair of axes and its contents.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Panel {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
    /// A shaded range of the horizontal axis, and the reason.
    pub shade: Option<(f64, f64, String)>,
}

/// An axis: positions are numbers, labels are text.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    /// The smallest and the largest position.
    pub range: (f64, f64),
    /// The tick marks: positions and labels.
    pub marks: Vec<(f64, String)>,
    /// The base of a logarithmic axis; `None` for a linear axis.
    pub base: Option<f64>,
}

/// One series.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// The name, as in the legend.
    pub name: String,
    /// The index of its colour and mark.
    pub look: usize,
    /// The style in which it is drawn.
    pub shape: Shape,
    /// Positions and values.
    pub points: Vec<(f64, f64)>,
    /// The interval of each value; may be empty.
    pub intervals: Vec<(f64, f64)>,
    /// A label for each point; may be shorter than `points`.
    pub labels: Vec<String>,
}

/// A table of results: one line per system.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The title.
    pub title: String,
    /// The systems.
    pub names: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
}

/// A column of a table, and its expected values.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The workload or trace: adjacent columns with the same source share a heading.
    pub source: String,
    /// The name of the number.
    pub what: String,
    /// The numbers.
    pub values: Vec<Option<f64>>,
    /// The expected values; all `None` if there are none.
    pub expected: Vec<Option<f64>>,
    /// The origin of the expected values: `source`, or `expected` if they follow from the method.
    pub by: String,
    /// The line with the best number, if any.
    pub best: Option<usize>,
}

/// Numbers that a paper printed, as text.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    /// The title.
    pub title: String,
    /// The column headings.
    pub heads: Vec<String>,
    /// The lines.
    pub lines: Vec<Vec<String>>,
}

/// A claim and its verdict.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// The text of the claim.
    pub text: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The numbers, one line per case.
    pub cases: Vec<(Verdict, String)>,
    /// The reason for a deviation, if known.
    pub why: Option<String>,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The claim is confirmed.
    Pass,
    /// The claim is not confirmed, for a known reason.
    KnownDeviation,
    /// The claim is not confirmed.
    Fail,
    /// The rounds disagree, or there are no numbers.
    Inconclusive,
    /// The claim was not checked: the run was shortened.
    #[default]
    NotJudged,
}

impl Verdict {
    /// All verdicts, in display order.
    pub const ALL: [Verdict; 5] = [
        Verdict::Pass,
        Verdict::KnownDeviation,
        Verdict::Fail,
        Verdict::Inconclusive,
        Verdict::NotJudged,
    ];
}
