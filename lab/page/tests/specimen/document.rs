//! A made-up document with every kind of block, series and verdict.
//!
//! It can be viewed and tested without measuring anything; the numbers are meaningless.
//!
//! # Invariants
//! The same document each time.

use everybuddy_page::document::{
    Axis, Beside, Block, Cell, Claim, Column, Document, Figure, Grid, Key, Look, Made, Panel,
    Section, Series, Shape, Table, Verdict,
};

/// Creates the document.
pub(crate) fn document() -> Document {
    Document {
        title: "Papers’ experiments, made up".into(),
        lede: "Three experiments, measured on `a made-up processor`.".into(),
        remarks: vec![
            (false, "Nothing else of note was running.".into()),
            (true, "Everything was shortened 50 times.".into()),
        ],
        made: Made {
            command: "everybuddy reproduce all --html made-up.html".into(),
            date: "2026-11-20 12:00 UTC".into(),
            version: "everybuddy 0.1.0 (commit 0123abc)".into(),
            more: "seed 1".into(),
        },
        blocks: [drawn(), tabled(), wide()].concat(),
    }
}

fn section(name: &str, title: &str, source: &str) -> Block {
    Block::Section(Section {
        name: name.into(),
        title: title.into(),
        source: source.into(),
    })
}

fn axis(label: &str, marks: &[(f64, &str)]) -> Axis {
    let ends = (marks[0].0 - 0.2, marks[marks.len() - 1].0 + 0.2);
    Axis {
        label: label.into(),
        range: ends,
        marks: marks
            .iter()
            .map(|(at, text)| (*at, text.to_string()))
            .collect(),
        base: None,
    }
}

fn series(name: &str, look: usize, shape: Shape, height: f64) -> Series {
    let points: Vec<(f64, f64)> = (0..4).map(|at| (f64::from(at), height)).collect();
    let ends = points.iter().map(|point| (point.1 - 0.1, point.1 + 0.2));
    Series {
        name: name.into(),
        look,
        shape,
        intervals: ends.collect(),
        labels: if look == 0 {
            vec!["first".into()]
        } else {
            Vec::new()
        },
        points,
    }
}

/// An experiment with two panels that contain every shape, on axes of numbers and of names.
fn drawn() -> Vec<Block> {
    let numbers = [(0.0, "0"), (1.0, "1"), (2.0, "2"), (3.0, "3")];
    let names = [
        (0.0, "sequence"),
        (1.0, "at-once"),
        (2.0, "geometric-4"),
        (3.0, "hypervisor"),
    ];
    let all = [
        series("bs", 0, Shape::Line, 0.5),
        series("lbs-31", 1, Shape::Interval, 1.0),
        series("is", 2, Shape::Points, 1.5),
        series("is", 2, Shape::Ring, 1.5),
        series("spring", 3, Shape::Line, 2.5),
    ];
    let panel = |x: &[(f64, &str)], series: &[Series]| Panel {
        title: "a panel".into(),
        x: axis("a number or a name", x),
        y: axis("another (%)", &numbers),
        series: series.to_vec(),
        shade: Some((1.5, 2.0, "shaded".into())),
    };
    let legend = all.iter().map(|one| Key {
        name: one.name.clone(),
        look: one.look,
        shape: one.shape,
    });
    vec![
        section("drawn", "What a figure shows", "a paper, figure 1"),
        Block::Claims(vec![
            claim("This holds, in three cases.", Verdict::Pass),
            claim("This holds, too.", Verdict::Pass),
            claim("This differs.", Verdict::KnownDeviation),
        ]),
        Block::Figure(Figure {
            note: "Made up.".into(),
            panels: vec![panel(&numbers, &all), panel(&names, &all[1..])],
            legend: legend.collect(),
        }),
        Block::Table(table("with the source", 1)),
        Block::entry("remarks", 11, "Made up."),
        Block::text("only at a terminal").in_terminal(),
    ]
}

fn claim(text: &str, verdict: Verdict) -> Claim {
    Claim {
        text: text.into(),
        verdict,
        cases: vec![(verdict, "trace: bs 1 > is 0.5".into()); 3],
        why: (verdict == Verdict::KnownDeviation).then(|| "it is made up".into()),
        beyond: Vec::new(),
    }
}

/// Creates a table whose columns have expected values in all lines except the last.
fn table(title: &str, columns: usize) -> Table {
    let column = |at: usize| Column {
        head: [format!("source-{at}"), "mean".into()],
        texts: ["0.75", "2.00", "3.00"].map(String::from).to_vec(),
        best: vec![false; 3],
        beside: Some(Beside {
            by: "source".into(),
            values: vec![Some(0.75), Some(2.0), Some(3.0)],
            expected: vec![Some(0.5), Some(0.0), None],
        }),
    };
    Table {
        title: title.into(),
        first: "system".into(),
        names: ["bs", "lbs-31", "is"].map(String::from).to_vec(),
        columns: (0..columns).map(column).collect(),
        competing: 0..3,
        ..Table::default()
    }
}

fn tabled() -> Vec<Block> {
    let text = |text: &str| Column {
        head: [text.into(), String::new()],
        texts: vec!["1.5".into()],
        ..Column::default()
    };
    let printed = Table {
        title: "What the paper has".into(),
        first: "on what".into(),
        names: vec!["a workload".into()],
        columns: vec![text("mean")],
        competing: 0..1,
        note: "Printed.".into(),
        is_folded: true,
    };
    vec![
        section("tabled", "What only a table shows", "a paper, table 1"),
        Block::Claims(vec![
            claim("This fails.", Verdict::Fail),
            claim("This is undecided.", Verdict::Inconclusive),
        ]),
        Block::Table(table("with the source, on several sources", 4)),
        Block::Table(printed),
    ]
}

/// A section with more columns than fit, without expected values, and a grid.
fn wide() -> Vec<Block> {
    let mut wide = table("many columns", 14);
    for column in &mut wide.columns {
        column.beside = None;
        column.best = vec![true, false, false];
    }
    wide.competing = 0..2;
    let cell = Cell {
        text: "> 8".into(),
        title: "it has not stopped".into(),
        shade: 0.5,
    };
    vec![
        section("wide", "What is wider than a telephone", "a paper"),
        Block::Claims(vec![Claim {
            text: "This was not judged.".into(),
            ..Claim::default()
        }]),
        Block::Table(wide),
        Block::title("A grid", ", made up"),
        Block::Grid(Grid {
            title: "A grid".into(),
            note: "What the cells mean.".into(),
            heads: vec!["bs".into()],
            lines: vec![("burst".into(), vec![cell])],
        }),
        Block::text("Few `words`.").looking(Look::Warning),
        Block::Verbatim("laid out\n  already".into()),
    ]
}
