//! Figures of experiments as plain data, instead of the images that `--svg` draws.
//!
//! Their text keeps its size on a narrow screen, their colours follow the page's theme, and points can show their
//! values.
//!
//! # Invariants
//! A position on an axis is finite.

use everybuddy_page::document as page;
use everybuddy_papers::shared::chart::{Axis, Drawing, Panel, Series, Shape};

/// Converts a drawing.
pub(super) fn figure(drawing: &Drawing) -> page::Figure {
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
