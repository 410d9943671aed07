//! Experiments as a page: converts the results of `everybuddy reproduce` to the types of [`everybuddy_page::study`].
//!
//! The page does not depend on the files of experiments, and experiments do not depend on pages. Figures are passed
//! as plain data instead of the images that `--svg` draws. Their text then keeps its size on a narrow screen, their
//! colours follow the page's theme, and points can show their values.
//!
//! # Invariants
//! The page shows the same numbers as the tables on the terminal, from rows that are also exported.

use chrono::Utc;
use everybuddy_metrics::Better;
use everybuddy_page::study as page;

use crate::commit;
use everybuddy_measure::Error;
use everybuddy_measure::claim::{Claim, State, Verdict, short};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::rows::Row;
use everybuddy_papers::list;
use everybuddy_papers::shared::chart::{Axis, Drawing, Panel, Series, Shape};
use everybuddy_papers::shared::experiment::{Experiment, TableSpec};
use everybuddy_papers::shared::grid::Grid;
use everybuddy_papers::shared::method::Conditions;

/// Creates a page without experiments.
pub fn study(machine: &HostInfo, timer: &Timer, conditions: &Conditions) -> page::Study {
    page::Study {
        title: "Papers’ experiments on buddy systems, reproduced".to_string(),
        command: super::command_line(),
        date: Utc::now().format("%Y-%m-%d %H:%M UTC").to_string(),
        version: commit::version(),
        machine: super::machine(machine),
        timer_ns: timer.mean(),
        seed: conditions.seed,
        shrink: conditions.shrink,
        experiments: Vec::new(),
    }
}

/// Converts an experiment and its results; `verdicts` is `None` if claims were not judged.
///
/// # Errors
/// Returns a usage error for an unknown method.
pub fn experiment(
    own: &Experiment,
    rows: &[Row],
    drawing: Option<&Drawing>,
    verdicts: Option<&[(Claim, Verdict)]>,
) -> Result<page::Experiment, Error> {
    let unjudged = |claim: &Claim| page::Claim {
        text: claim.text.clone(),
        ..page::Claim::default()
    };
    Ok(page::Experiment {
        name: own.name.clone(),
        title: own.title.clone(),
        source: own.source.clone(),
        measured: list::method(own)?.repeats().words(),
        remarks: own.remarks.clone(),
        figure: drawing.map(figure),
        tables: own
            .tables
            .iter()
            .map(|spec| table(own, spec, rows))
            .collect(),
        printed: printed(own),
        claims: match verdicts {
            Some(verdicts) => verdicts.iter().map(judged).collect(),
            None => own.claims.iter().map(unjudged).collect(),
        },
    })
}

fn judged((claim, verdict): &(Claim, Verdict)) -> page::Claim {
    let word = |state| match state {
        State::Pass => page::Verdict::Pass,
        State::Inconclusive => page::Verdict::Inconclusive,
        State::Fail if verdict.is_failure(claim) => page::Verdict::Fail,
        State::Fail => page::Verdict::KnownDeviation,
    };
    let cases = verdict
        .cases
        .iter()
        .map(|(state, text)| (word(*state), text.clone()));
    let beyond = verdict.beyond.iter().map(|text| {
        let text = format!("further off than recorded: {text}");
        (page::Verdict::Fail, text)
    });
    page::Claim {
        text: claim.text.clone(),
        verdict: word(verdict.state),
        cases: cases.chain(beyond).collect(),
        why: claim.differs.clone(),
    }
}

fn table(own: &Experiment, spec: &TableSpec, rows: &[Row]) -> page::Table {
    let grid = Grid::of(own, spec, rows);
    let by = if spec.beside { "source" } else { "expected" };
    let columns = grid.columns.into_iter().map(|column| page::Column {
        best: best(&column.values, spec.better()),
        source: column.source,
        what: column.what,
        values: column.values,
        expected: column.expected,
        by: by.to_string(),
    });
    page::Table {
        title: spec.title.clone(),
        columns: columns.collect(),
        names: grid.names,
    }
}

/// Returns the line with the best number, if it is unique.
fn best(values: &[Option<f64>], better: Better) -> Option<usize> {
    let sign = match better {
        Better::Higher => -1.0,
        Better::Lower => 1.0,
        Better::Neither => return None,
    };
    let numbers = values.iter().enumerate();
    let numbers = numbers.filter_map(|(at, value)| Some((at, sign * (*value)?)));
    let mut numbers: Vec<(usize, f64)> = numbers.collect();
    numbers.sort_by(|a, b| a.1.total_cmp(&b.1));
    match numbers[..] {
        [first, second, ..] if first.1 < second.1 => Some(first.0),
        _ => None,
    }
}

fn printed(own: &Experiment) -> Option<page::Printed> {
    if own.published.is_empty() {
        return None;
    }
    let on = own.printed.as_deref().unwrap_or("on other workloads");
    let line = |all: &everybuddy_papers::shared::experiment::Published| {
        let mean = match all.mean {
            // Probabilities.
            small if small < 0.1 => short(small),
            mean => format!("{mean:.2}"),
        };
        let deviation = all.stddev.map_or(String::new(), |own| format!("{own:.2}"));
        let names = [&all.what, &all.metric, &all.operation].map(String::clone);
        [&names[..], &[mean, deviation]].concat()
    };
    Some(page::Printed {
        title: format!("Published numbers of {}, {on}", own.source),
        heads: ["workload", "metric", "operation", "mean", "stddev"]
            .map(String::from)
            .to_vec(),
        lines: own.published.iter().map(line).collect(),
    })
}

fn figure(drawing: &Drawing) -> page::Figure {
    let key = |(name, look, own): (String, usize, Shape)| page::Key {
        name,
        look,
        shape: shape(own),
    };
    page::Figure {
        note: drawing.note.clone(),
        panels: drawing.panels.iter().map(panel).collect(),
        legend: drawing.legend().into_iter().map(key).collect(),
    }
}

fn shape(shape: Shape) -> page::Shape {
    match shape {
        Shape::Line => page::Shape::Line,
        Shape::Interval => page::Shape::Interval,
        Shape::Points => page::Shape::Points,
        Shape::Ring => page::Shape::Ring,
    }
}

fn panel(own: &Panel) -> page::Panel {
    page::Panel {
        title: own.title.clone(),
        x: axis(&own.x),
        y: axis(&own.y),
        series: own.series.iter().map(|one| series(one, &own.y)).collect(),
        shade: own.shade.clone(),
    }
}

fn axis(own: &Axis) -> page::Axis {
    page::Axis {
        label: own.label.clone(),
        range: own.range,
        marks: own.marks(),
        base: own.base,
    }
}

/// Converts a series; an unbounded interval extends to the end of the axis.
fn series(own: &Series, axis: &Axis) -> page::Series {
    let place = |end: f64, otherwise| if end.is_finite() { end } else { otherwise };
    let ends = own.intervals.iter();
    page::Series {
        name: own.name.clone(),
        look: own.kind,
        shape: shape(own.shape),
        points: own.points.clone(),
        intervals: ends
            .map(|(least, most)| (place(*least, axis.range.0), place(*most, axis.range.1)))
            .collect(),
        labels: own.labels.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_alone() {
        let values = [Some(3.0), None, Some(1.0), Some(2.0)];
        assert_eq!(best(&values, Better::Lower), Some(2));
        assert_eq!(best(&values, Better::Higher), Some(0));
        assert_eq!(best(&values, Better::Neither), None);
        assert_eq!(best(&[Some(1.0), Some(1.0)], Better::Lower), None);
        assert_eq!(best(&[Some(1.0)], Better::Lower), None);
    }
}
