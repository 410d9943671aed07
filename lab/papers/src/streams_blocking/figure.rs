//! The share of failed requests over the size of the arena, in the fitted arena, and in the source.
//!
//! One number had to be fitted: the curves show the results for other values.
//!
//! # Invariants
//! Zeros have no point, since the axis is logarithmic.

use crate::shared::prelude::*;

/// Draws the figure.
pub(crate) fn draw(experiment: &Experiment, rows: &[Row]) -> Drawing {
    let curves = Chosen::new(rows, |row| row.source == "arena");
    let series = curves.curves(Shape::Line, |row| {
        let kibibytes = position(row)? / 1024.0;
        (row.value > 0.0).then(|| (kibibytes, row.value.log10()))
    });
    let arena = Axis::plain("arena (KiB)", (55.5, 66.5), 12);
    let mut panels = vec![panel(
        "M/M/m, over the arena",
        "share refused",
        series,
        arena,
    )];
    let fitted = Chosen::new(rows, |row| row.metric == "arena");
    for (arena, row) in fitted.rows().enumerate() {
        let (name, kib) = (&row.source, row.value / 1024.0);
        if arena == 0 {
            panels[0].shade = Some((kib - 0.05, kib + 0.05, name.clone()));
        }
        let title = format!("{kib} KiB, {name}");
        panels.push(judged(experiment, rows, &curves.systems(), (arena, &title)));
    }
    let note = ". Nothing is refused under D/D/m. Bars: nine of ten runs.";
    chart::drawing(experiment, panels, note)
}

/// Draws the numbers of refused requests in an arena, with those of the source.
fn judged(
    experiment: &Experiment,
    rows: &[Row],
    names: &[String],
    (arena, title): (usize, &str),
) -> Panel {
    let suffix = match arena {
        0 => String::new(),
        _ => format!(", arena {}", arena + 1),
    };
    let own = Chosen::new(rows, |row| {
        row.metric == "refusals" && row.experiment == experiment.name
    });
    // The runs of another length are a reading of their own.
    let name = |source: &String| source.strip_suffix(&suffix).unwrap_or(source).to_string();
    let mut traffic = Chosen::new(own.with("mean").rows(), |row| row.value > 0.0).sources();
    traffic.retain(|source| source.ends_with(&suffix) && !name(source).contains([',', ' ']));
    let mut series: Vec<Series> = Vec::new();
    for (kind, name) in names.iter().enumerate() {
        let shift = (kind as f64 - 1.5) * 0.16;
        let bars = |shift: f64, find: &dyn Fn(&str) -> Option<chart::Bar>| {
            let bars = traffic.iter().enumerate();
            let bars =
                bars.filter_map(|(place, source)| Some((place as f64 + shift, find(source)?)));
            bars.collect::<Vec<_>>()
        };
        let here = bars(shift, &|source| {
            own.row(name, source, "mean")
                .filter(|row| row.value > 0.0)?;
            // The axis is logarithmic.
            let (value, ends) = own.bar((name, source), ["mean", "p5", "p95"], |own| own)?;
            let ends = ends.map(|(least, most)| (least.max(0.5).log10(), most.max(0.5).log10()));
            Some((value.log10(), ends))
        });
        let there = bars(shift + 0.06, &|source| {
            let printed = own.row(name, source, "mean")?.expected;
            let value = printed.filter(|value| *value > 0.0)?.log10();
            Some((value, Some((value, value))))
        });
        let of_source = format!("{name}, the source");
        series.push(Series::of_bars(name, kind, Shape::Points, here));
        series.push(Series::of_bars(
            of_source,
            kind + names.len(),
            Shape::Points,
            there,
        ));
    }
    series.retain(|series| !series.points.is_empty());
    let x = Axis::of_names("traffic", traffic.iter().map(name).collect());
    panel(title, "refused of 74,000", series, x)
}

fn panel(title: &str, label: &str, series: Vec<Series>, x: Axis) -> Panel {
    let range = chart::around(chart::spans(&series));
    Panel::new(title, x, Axis::log10(label, range, 6), series)
}
