//! A document: what a command answers, for every reader.
//!
//! A command says once what it found, in blocks. A terminal shows them as text, a page as HTML with figures, and
//! [Markdown](crate::markdown) as what one pastes into a discussion.
//!
//! # Invariants
//! A column has as many texts as its table has names. Positions on axes are finite. A missing number is an empty text.

use std::ops::Range;

use serde::Serialize;

/// The whole document.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The heading.
    pub title: String,
    /// What was done, and where, in a few sentences.
    pub lede: String,
    /// What readers must know before they trust a number, and whether it is a warning.
    pub remarks: Vec<(bool, String)>,
    /// How it was made.
    pub made: Made,
    /// The contents.
    pub blocks: Vec<Block>,
}

/// How a document was made.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// The command line.
    pub command: String,
    /// The program's version, with the commit if known.
    pub version: String,
    /// The date, formatted for readers.
    pub date: String,
    /// What else it depends on, such as a seed; may be empty.
    pub more: String,
}

/// A part of a document.
#[derive(Clone, Debug)]
pub enum Block {
    /// The start of a section.
    Section(Section),
    /// A text.
    Text(Text),
    /// Claims and their verdicts.
    Claims(Vec<Claim>),
    /// A table.
    Table(Table),
    /// A table of shaded cells.
    Grid(Grid),
    /// A figure.
    Figure(Figure),
    /// Lines that are laid out already.
    Verbatim(String),
    /// An empty line of a terminal.
    Space,
    /// What only some readers see, because the others see the same in another form.
    Only(Reader, Box<Block>),
}

/// The reader of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Readers at a terminal.
    Terminal,
    /// Readers of a page or of Markdown.
    Page,
}

impl Block {
    /// Creates a paragraph.
    pub fn text(text: impl Into<String>) -> Block {
        Block::entry("", 0, text)
    }

    /// Creates a text after its head. A terminal indents its lines as far as `indent`.
    pub fn entry(head: impl Into<String>, indent: usize, text: impl Into<String>) -> Block {
        Block::Text(Text {
            head: head.into(),
            indent,
            text: text.into(),
            look: Look::Plain,
        })
    }

    /// Creates a headline of which the first part is prominent.
    pub fn title(head: impl Into<String>, rest: impl Into<String>) -> Block {
        Block::Text(Text {
            head: head.into(),
            text: rest.into(),
            look: Look::Title,
            indent: 0,
        })
    }

    /// Returns a text with another look. Other blocks stay as they are.
    #[must_use]
    pub fn looking(self, look: Look) -> Block {
        match self {
            Block::Text(text) => Block::Text(Text { look, ..text }),
            other => other,
        }
    }

    /// Returns the block for readers at a terminal only.
    #[must_use]
    pub fn in_terminal(self) -> Block {
        Block::Only(Reader::Terminal, Box::new(self))
    }

    /// Returns the block for readers of a page only.
    #[must_use]
    pub fn on_page(self) -> Block {
        Block::Only(Reader::Page, Box::new(self))
    }

    /// Returns what a reader sees of the block.
    pub fn seen_by(&self, reader: Reader) -> Option<&Block> {
        match self {
            Block::Only(of, own) if *of == reader => own.seen_by(reader),
            Block::Only(..) => None,
            own => Some(own),
        }
    }
}

/// The start of a section, which lasts until the next one.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The name: short, as in a command line.
    pub name: String,
    /// A description in one line; may be empty.
    pub title: String,
    /// The paper, and its section, figure or table; may be empty.
    pub source: String,
}

/// A text.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// What it begins with; may be empty.
    pub head: String,
    /// The column of a terminal in which its lines begin, under the head.
    pub indent: usize,
    /// The text. Names are in backquotes, and no-break spaces hold words together.
    pub text: String,
    /// How prominent it is.
    pub look: Look,
}

/// How prominent a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// As most texts.
    #[default]
    Plain,
    /// A headline.
    Title,
    /// A text with a prominent head.
    Entry,
    /// A warning.
    Warning,
    /// Less prominent than most texts.
    Dim,
}

/// A table: lines with names, and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The title; may be empty.
    pub title: String,
    /// What the names are of, such as `system`.
    pub first: String,
    /// The names of the lines.
    pub names: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The lines that compete; the others are less prominent.
    pub competing: Range<usize>,
    /// What the columns mean; may be empty.
    pub note: String,
    /// Whether a page shows only its title until a reader asks for more.
    pub is_folded: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The heading in two lines: neighbours with the same first line share it.
    pub head: [String; 2],
    /// The texts.
    pub texts: Vec<String>,
    /// Whether a text is that of the best line.
    pub best: Vec<bool>,
    /// What was expected of the numbers, if anything was.
    pub beside: Option<Beside>,
}

/// What a column is compared with.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Where it comes from: `source`, or `expected` if it follows from the method.
    pub by: String,
    /// The numbers of the column.
    pub values: Vec<Option<f64>>,
    /// What was expected of them.
    pub expected: Vec<Option<f64>>,
}

/// A table of shaded cells with vertical headings. A line has as many cells as the table has headings.
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
    /// The numbers that are further off than the known deviation allows.
    pub beyond: Vec<String>,
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
