//! A made-up page of experiments with every kind of series, table and verdict.
//!
//! The page can be viewed and tested without measuring anything; the numbers are meaningless.
//!
//! # Invariants
//! The same study each time.

use everybuddy_page::report::Machine;
use everybuddy_page::study::{
    Axis, Claim, Column, Experiment, Figure, Key, Panel, Printed, Series, Shape, Study, Table,
    Verdict,
};

/// Creates the study.
pub(crate) fn study() -> Study {
    Study {
        title: "Papers’ experiments, made up".into(),
        command: "everybuddy reproduce all --html made-up.html".into(),
        date: "2026-11-20 12:00 UTC".into(),
        version: "everybuddy 0.1.0 (commit 0123abc)".into(),
        machine: Machine {
            processor: "a made-up processor".into(),
            cores: 2,
            quiet: "Nothing else of note was running.".into(),
            ..Machine::default()
        },
        timer_ns: 12.3,
        seed: 1,
        shrink: 1,
        experiments: vec![drawn(), tabled(), wide()],
    }
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
fn drawn() -> Experiment {
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
    Experiment {
        name: "drawn".into(),
        title: "What a figure shows".into(),
        source: "a paper, figure 1".into(),
        measured: "Measured in 5 rounds in which systems take turns; medians.".into(),
        remarks: "Made up.".into(),
        figure: Some(Figure {
            note: "Made up.".into(),
            panels: vec![panel(&numbers, &all), panel(&names, &all[1..])],
            legend: legend.collect(),
        }),
        tables: vec![table("with the source", 1)],
        printed: None,
        claims: vec![
            claim("This holds, in three cases.", Verdict::Pass),
            claim("This holds, too.", Verdict::Pass),
            claim("This differs.", Verdict::KnownDeviation),
        ],
    }
}

fn claim(text: &str, verdict: Verdict) -> Claim {
    Claim {
        text: text.into(),
        verdict,
        cases: vec![(verdict, "trace: bs 1 > is 0.5".into()); 3],
        why: (verdict == Verdict::KnownDeviation).then(|| "it is made up".into()),
    }
}

/// Creates a table whose columns have expected values in all lines except the last.
fn table(title: &str, columns: usize) -> Table {
    let column = |at: usize| Column {
        source: format!("source-{at}"),
        what: "mean".into(),
        values: vec![Some(0.75), Some(2.0), Some(3.0)],
        expected: vec![Some(0.5), Some(0.0), None],
        by: "source".into(),
        best: None,
    };
    Table {
        title: title.into(),
        names: ["bs", "lbs-31", "is"].map(String::from).to_vec(),
        columns: (0..columns).map(column).collect(),
    }
}

fn tabled() -> Experiment {
    Experiment {
        name: "tabled".into(),
        title: "What only a table shows".into(),
        source: "a paper, table 1".into(),
        tables: vec![table("with the source, on several sources", 4)],
        printed: Some(Printed {
            title: "What the paper has".into(),
            heads: ["on what", "mean"].map(String::from).to_vec(),
            lines: vec![["a workload", "1.5"].map(String::from).to_vec()],
        }),
        claims: vec![
            claim("This fails.", Verdict::Fail),
            claim("This is undecided.", Verdict::Inconclusive),
        ],
        ..Experiment::default()
    }
}

/// An experiment with more columns than fit, and a figure without expected values.
fn wide() -> Experiment {
    let mut wide = table("many columns", 14);
    for column in &mut wide.columns {
        column.expected = vec![None; 3];
        column.best = Some(0);
    }
    Experiment {
        name: "wide".into(),
        title: "What is wider than a telephone".into(),
        source: "a paper".into(),
        tables: vec![wide],
        claims: vec![Claim {
            text: "This was not judged.".into(),
            ..Claim::default()
        }],
        ..Experiment::default()
    }
}
