//! Shared by all figures: panels, axes with units, one legend, colours.
//!
//! A figure's file describes the contents, not the drawing of lines.
//!
//! # Invariants
//! A panel's axes include all of its points. The legend names every series once, whatever panels contain it, and is
//! next to the data, never over it.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;

use crate::shared::experiment::Experiment;

/// The reason why a figure could not be drawn.
pub type Undrawn = String;

/// The colours of Okabe and Ito, the most distinct ones first, then two of Tol.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(136, 34, 85),
    RGBColor(153, 153, 51),
];
/// The patterns of lines: none, or the lengths of dash and gap.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((9, 4)), Some((2, 3)), Some((14, 6))];
const GREY: RGBColor = RGBColor(110, 110, 110);
const PALE: RGBColor = RGBColor(232, 232, 232);
const FONT: &str = "sans-serif";

const WIDTH: u32 = 960;
const PANEL: u32 = 330;
/// The height of a line of the legend.
const LINE: i32 = 20;

/// An axis: positions are numbers, labels are text.
pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    /// The minimum range.
    pub range: (f64, f64),
    /// The approximate number of ticks.
    pub ticks: usize,
    /// The base of the positions, if they are logarithms; `None` if they are the numbers themselves.
    pub base: Option<f64>,
    /// Formats a position; returns an empty text for one without a label.
    pub write: Box<dyn Fn(f64) -> String>,
}

/// The side of a point.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// The places of a label: the side of its point, and the distance of its upper edge from the point. The best first.
const PLACES: [(Side, i32); 8] = [
    (Side::Right, -17),
    (Side::Left, -17),
    (Side::Right, 6),
    (Side::Left, 6),
    (Side::Right, -30),
    (Side::Left, 19),
    (Side::Right, 19),
    (Side::Left, -30),
];

/// The style of a series.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A line.
    Line,

    /// A line through markers with intervals.
    Interval,

    /// Markers with intervals, without a line.
    Points,

    /// A ring around each point, without a line. The legend shows only a line of the same name.
    Ring,
}

/// One series.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Position and value.
    pub points: Vec<(f64, f64)>,
    /// The interval of each value; for [`Shape::Interval`].
    pub intervals: Vec<(f64, f64)>,
    /// A label for each point; may be shorter than `points`.
    pub labels: Vec<String>,
    /// The style.
    pub shape: Shape,
    /// The index of its colour and mark.
    pub kind: usize,
}

/// One pair of axes and its contents.
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

impl Series {
    /// Creates a series without intervals and labels.
    pub(crate) fn new(
        name: impl Into<String>,
        kind: usize,
        shape: Shape,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        Series {
            name: name.into(),
            points: points.into_iter().collect(),
            intervals: Vec::new(),
            labels: Vec::new(),
            shape,
            kind,
        }
    }

    /// Creates a series from positions with their values and intervals.
    pub(crate) fn of_bars(
        name: impl Into<String>,
        kind: usize,
        shape: Shape,
        bars: impl IntoIterator<Item = (f64, Bar)>,
    ) -> Series {
        let bars: Vec<(f64, Bar)> = bars.into_iter().collect();
        Series {
            intervals: bars.iter().filter_map(|(_, bar)| bar.1).collect(),
            ..Series::new(name, kind, shape, bars.iter().map(|(at, bar)| (*at, bar.0)))
        }
    }
}

impl Panel {
    /// Creates a panel without a shaded range.
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Panel {
        Panel {
            title: title.into(),
            x,
            y,
            series,
            shade: None,
        }
    }
}

/// The value of a point, and its interval if it has one.
pub(crate) type Bar = (f64, Option<(f64, f64)>);

/// Returns the positions of all points.
pub(crate) fn widths(series: &[Series]) -> impl Iterator<Item = f64> {
    let points = series.iter().flat_map(|own| &own.points);
    points.map(|point| point.0)
}

/// Returns the values of all points.
pub(crate) fn heights(series: &[Series]) -> impl Iterator<Item = f64> {
    let points = series.iter().flat_map(|own| &own.points);
    points.map(|point| point.1)
}

/// Returns the values of all points, and the upper ends of their intervals.
pub(crate) fn tops(series: &[Series]) -> impl Iterator<Item = f64> {
    let ends = series.iter().flat_map(|own| &own.intervals);
    heights(series).chain(ends.map(|end| end.1))
}

/// Returns the values of all points, and both ends of their intervals.
pub(crate) fn spans(series: &[Series]) -> impl Iterator<Item = f64> {
    let ends = series.iter().flat_map(|own| &own.intervals);
    tops(series).chain(ends.map(|end| end.0))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Axis {
    /// Creates an axis whose positions are the numbers themselves.
    pub(crate) fn plain(label: impl Into<String>, range: (f64, f64), ticks: usize) -> Axis {
        Axis {
            label: label.into(),
            range,
            ticks,
            base: None,
            write: Box::new(plain),
        }
    }

    /// Creates an axis that labels whole numbers only.
    pub(crate) fn whole(label: impl Into<String>, range: (f64, f64), ticks: usize) -> Axis {
        let write = Box::new(|position| whole(position, plain));
        Axis {
            write,
            ..Axis::plain(label, range, ticks)
        }
    }

    /// Creates an axis of logarithms to base 10.
    pub(crate) fn log10(label: impl Into<String>, range: (f64, f64), ticks: usize) -> Axis {
        Axis {
            base: Some(10.0),
            write: Box::new(power),
            ..Axis::plain(label, range, ticks)
        }
    }

    /// Creates an axis of logarithms to base 2.
    pub(crate) fn log2(label: impl Into<String>, range: (f64, f64), ticks: usize) -> Axis {
        Axis {
            base: Some(2.0),
            write: Box::new(|position| whole(position, |power| power.exp2().to_string())),
            ..Axis::plain(label, range, ticks)
        }
    }

    /// Creates an axis of logarithms of counts to base 2. A count of zero has a negative position.
    pub(crate) fn counts(label: impl Into<String>, range: (f64, f64), ticks: usize) -> Axis {
        let count = |power: f64| everybuddy_measure::size::count(power.exp2() as u64);
        Axis {
            write: Box::new(move |position| whole(position, count)),
            ..Axis::log2(label, range, ticks)
        }
    }

    /// Creates an axis with names at the positions 0, 1 and so on.
    pub(crate) fn of_names(label: &str, names: Vec<String>) -> Axis {
        let range = (-0.5, names.len().max(1) as f64 - 0.5);
        let ticks = names.len() + 1;
        Axis {
            write: Box::new(move |position| {
                let is_one = position.fract().abs() < 1e-9 && position >= 0.0;
                let name = names.get(position as usize).filter(|_| is_one);
                name.cloned().unwrap_or_default()
            }),
            ..Axis::plain(label, range, ticks)
        }
    }

    /// Creates an axis with the numbers from 1 to `count` at these positions.
    pub(crate) fn from_one(label: impl Into<String>, count: usize) -> Axis {
        Axis::whole(label, (0.4, count as f64 + 0.6), count)
    }

    /// Returns the tick marks and their labels, without unlabelled ones.
    pub fn marks(&self) -> Vec<(f64, String)> {
        let (least, most) = self.range;
        let axis: RangedCoordf64 = (least..most).into();
        let at = axis.key_points(BoldPoints(self.ticks));
        let marks = at.into_iter().map(|at| (at, (self.write)(at)));
        marks.filter(|(_, text)| !text.is_empty()).collect()
    }
}

/// A figure as plain data: its contents, independent of the drawing.
pub struct Drawing {
    /// The title.
    pub title: String,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
    /// Source and conditions, in one line.
    pub note: String,
}

/// Returns the drawing of an experiment. `note` continues its source.
pub(crate) fn drawing(
    experiment: &Experiment,
    panels: impl IntoIterator<Item = Panel>,
    note: &str,
) -> Drawing {
    Drawing {
        title: experiment.title.clone(),
        panels: panels.into_iter().collect(),
        note: format!("{}{note}", experiment.source),
    }
}

impl Drawing {
    /// Returns every series once, with its colour and shape, in the order of the panels.
    pub fn legend(&self) -> Vec<(String, usize, Shape)> {
        legend(&self.panels)
    }

    /// Draws panels with a title, a legend and a note below.
    ///
    /// # Errors
    /// Returns the error of the drawing library.
    pub fn svg(&self) -> Result<String, Undrawn> {
        draw(&self.title, &self.panels, &self.note)
    }
}

fn draw(title: &str, panels: &[Panel], note: &str) -> Result<String, Undrawn> {
    let names = legend(panels);
    let rows = places(&names).last().map_or(0, |place| place.1 / LINE + 1);
    let head = 40 + LINE * rows;
    // Four small panels in two columns, fewer in one column.
    let columns = if panels.len() >= 4 { 2 } else { 1 };
    let lines = panels.len().div_ceil(columns);
    let body_height = PANEL * lines as u32;
    let height = head as u32 + body_height + 26;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(said)?;
        let (top, rest) = root.split_vertically(head);
        let (body, foot) = rest.split_vertically(body_height);
        write(&top, title, (16, 12), 17, &BLACK, HPos::Left)?;
        for ((name, kind, shape), (x, y)) in names.iter().zip(places(&names)) {
            key(&top, name, *kind, *shape, (x + 16, y + 40))?;
        }
        for (area, panel) in body.split_evenly((lines, columns)).iter().zip(panels) {
            draw_panel(area, panel)?;
        }
        write(&foot, note, (16, 4), 12, &GREY, HPos::Left)?;
        root.present().map_err(said)?;
    }
    Ok(svg)
}

fn said(error: impl Display) -> Undrawn {
    error.to_string()
}

/// Returns every series once.
fn legend(panels: &[Panel]) -> Vec<(String, usize, Shape)> {
    let mut names: Vec<(String, usize, Shape)> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !names.iter().any(|known| known.0 == series.name) {
            names.push((series.name.clone(), series.kind, series.shape));
        }
    }
    names
}

/// Returns the positions of the legend's entries, in lines that fit.
fn places(names: &[(String, usize, Shape)]) -> Vec<(i32, i32)> {
    let (mut x, mut y) = (0, 0);
    let mut places = Vec::new();
    for (name, _, _) in names {
        let width = 60 + 8 * name.chars().count() as i32;
        if x > 0 && x + width > WIDTH as i32 - 32 {
            (x, y) = (0, y + LINE);
        }
        places.push((x, y));
        x += width;
    }
    places
}

fn write(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: i32,
    colour: &RGBColor,
    hpos: HPos,
) -> Result<(), Undrawn> {
    let style = (FONT, size).into_font().color(colour);
    let style = style.pos(Pos::new(hpos, VPos::Top));
    area.draw(&Text::new(text.to_string(), at, style))
        .map_err(said)
}

/// Draws one entry of the legend.
fn key(
    area: &Area<'_>,
    name: &str,
    kind: usize,
    shape: Shape,
    (x, y): (i32, i32),
) -> Result<(), Undrawn> {
    let style = stroke(kind);
    let line = [(x, y), (x + 30, y)];
    if shape != Shape::Points {
        match DASHES[kind % DASHES.len()] {
            None => area.draw(&PathElement::new(line, style)),
            Some((dash, gap)) => area.draw(&DashedPathElement::new(line, dash, gap, style)),
        }
        .map_err(said)?;
    }
    let (at, colour) = ((x + 15, y), COLOURS[kind % COLOURS.len()]);
    if shape != Shape::Line {
        match marker(kind) {
            0 => area.draw(&Circle::new(at, 4, colour.filled())),
            1 => area.draw(&TriangleMarker::new(at, 5, colour.filled())),
            _ => area.draw(&Cross::new(at, 4, colour.stroke_width(2))),
        }
        .map_err(said)?;
    }
    write(area, name, (x + 37, y - 8), 14, &BLACK, HPos::Left)
}

/// Returns the form of points: with the colour it differs for 27 kinds.
fn marker(kind: usize) -> usize {
    (kind + kind / COLOURS.len()) % 3
}

fn stroke(kind: usize) -> ShapeStyle {
    // No line is wider than another one: colour and pattern together differ for 36 kinds.
    COLOURS[kind % COLOURS.len()].stroke_width(2)
}

/// Draws one panel.
fn draw_panel(area: &Area<'_>, panel: &Panel) -> Result<(), Undrawn> {
    let (x, y) = (&panel.x, &panel.y);
    let mut chart = ChartBuilder::on(area)
        .margin_left(10)
        .margin_right(24)
        .margin_top(8)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .caption(&panel.title, (FONT, 15))
        .build_cartesian_2d(x.range.0..x.range.1, y.range.0..y.range.1)
        .map_err(said)?;
    if let Some((from, to, why)) = &panel.shade {
        let corners = [(*from, y.range.0), (*to, y.range.1)];
        let shaded = Rectangle::new(corners, PALE.filled());
        chart.draw_series([shaded]).map_err(said)?;
        let style = (FONT, 12).into_font().color(&GREY);
        let style = style.pos(Pos::new(HPos::Left, VPos::Top));
        let inset = (x.range.1 - x.range.0) / 150.0;
        let words = Text::new(why.clone(), (from + inset, y.range.1), style);
        chart.draw_series([words]).map_err(said)?;
    }
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(222, 222, 222))
        .axis_style(GREY)
        .x_labels(x.ticks)
        .y_labels(y.ticks)
        .x_label_formatter(&|position| (x.write)(*position))
        .y_label_formatter(&|position| (y.write)(*position))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 14))
        .x_desc(&x.label)
        .y_desc(&y.label)
        .draw()
        .map_err(said)?;
    for series in &panel.series {
        let points = || series.points.iter().copied();
        let style = stroke(series.kind);
        let colour = COLOURS[series.kind % COLOURS.len()];
        if series.shape == Shape::Ring {
            let rings = points().map(|at| {
                EmptyElement::at(at)
                    + Circle::new((0, 0), 7, WHITE.filled())
                    + Circle::new((0, 0), 7, colour.stroke_width(3))
                    + Circle::new((0, 0), 2, colour.filled())
            });
            chart.draw_series(rings).map_err(said)?;
            continue;
        }
        if series.shape != Shape::Points {
            match DASHES[series.kind % DASHES.len()] {
                None => chart
                    .draw_series(LineSeries::new(points(), style))
                    .map(drop),
                Some((dash, gap)) => chart
                    .draw_series(DashedLineSeries::new(points(), dash, gap, style))
                    .map(drop),
            }
            .map_err(said)?;
        }
        if matches!(series.shape, Shape::Interval | Shape::Points) {
            let ends = points().zip(&series.intervals);
            let bars = ends.map(|((at, _), (least, most))| {
                PathElement::new([(at, *least), (at, *most)], style.stroke_width(1))
            });
            chart.draw_series(bars).map_err(said)?;
        }
        if series.shape != Shape::Line {
            match marker(series.kind) {
                0 => chart.draw_series(points().map(|p| Circle::new(p, 4, colour.filled()))),
                1 => {
                    chart.draw_series(points().map(|p| TriangleMarker::new(p, 5, colour.filled())))
                }
                _ => chart.draw_series(points().map(|p| Cross::new(p, 4, colour.stroke_width(2)))),
            }
            .map_err(said)?;
        }
    }
    // Last, each on a pale background: lines may cross labels. No label covers another one, if there is a free place.
    let mut placed: Vec<[i32; 4]> = Vec::new();
    for series in &panel.series {
        let colour = COLOURS[series.kind % COLOURS.len()];
        for (at, word) in series.points.iter().zip(&series.labels) {
            let style = (FONT, 12).into_font().color(&colour);
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            let width = 13 * word.chars().count() as i32 / 2;
            let (x, y) = chart.backend_coord(at);
            let ground =
                |(left, top): (i32, i32)| [x + left, y + top, x + left + width + 2, y + top + 11];
            let is_free = |own: &(i32, i32)| {
                let [left, top, right, bottom] = ground(*own);
                let apart = |other: &[i32; 4]| {
                    right < other[0] || other[2] < left || bottom < other[1] || other[3] < top
                };
                placed.iter().all(apart)
            };
            let places = PLACES.map(|(side, top)| match side {
                Side::Right => (9, top),
                Side::Left => (-11 - width, top),
            });
            let (left, top) = places.into_iter().find(is_free).unwrap_or(places[0]);
            placed.push(ground((left, top)));
            let words = EmptyElement::at(*at)
                + Rectangle::new(
                    [(left, top), (left + width + 2, top + 11)],
                    WHITE.mix(0.7).filled(),
                )
                + Text::new(word.clone(), (left + 1, top + 6), style);
            chart.draw_series([words]).map_err(said)?;
        }
    }
    Ok(())
}

/// Returns the minimum and the maximum of some logarithms, with a margin on both sides.
pub(crate) fn around(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(value), most.max(value)),
    );
    match ends {
        (least, most) if least < most => {
            let margin = (most - least) * 0.06;
            (least - margin, most + margin)
        }
        (least, _) if least.is_finite() => (least - 0.5, least + 0.5),
        _ => (0.0, 1.0),
    }
}

/// Formats a whole position; no other has a label.
fn whole(position: f64, write: impl Fn(f64) -> String) -> String {
    if position.fract().abs() < 1e-9 {
        write(position)
    } else {
        String::new()
    }
}

/// Formats a position on a logarithmic axis to base 10: whole powers only.
fn power(position: f64) -> String {
    whole(position, |position| match 10f64.powf(position) {
        value if position < 0.0 => value.to_string(),
        value => everybuddy_measure::size::count(value.round() as u64),
    })
}

/// Returns the range from 0 to the maximum, with a margin above.
pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let most = values.fold(0.0, f64::max);
    (0.0, if most > 0.0 { most * 1.08 } else { 1.0 })
}

/// Formats a position as a number without unnecessary digits.
fn plain(position: f64) -> String {
    if position.fract().abs() < 1e-9 {
        format!("{position:.0}")
    } else {
        format!("{position:.2}")
    }
}
