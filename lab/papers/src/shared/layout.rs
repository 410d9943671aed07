//! A figure that is data: a table of `figures.toml`.
//!
//! Most figures show metrics of systems by source, order or CPUs, and differ only in words and ranges.
//!
//! # Invariants
//! A system has the same colour in all panels, unless a panel has colours of its own.

use everybuddy_measure::rows::Row;
use everybuddy_measure::size::Size;
use serde::Deserialize;

use super::chart::{self, Axis, Bar, Drawing, Panel, Series, Shape};
use super::experiment::Experiment;
use super::figure::{Chosen, distinct};

/// A figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    /// What follows the source below the panels; `{}` is the simulated machine.
    note: String,
    panels: Vec<View>,
}

/// A panel, or one for each source or workload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct View {
    /// The title; `{}` is the source or workload.
    #[serde(default)]
    title: String,
    each: Option<Each>,
    metric: String,
    operation: Option<String>,
    /// The order of the rows; of no effect if orders are the places.
    order: Option<u8>,
    /// The systems; all if empty.
    #[serde(default)]
    systems: Vec<String>,
    /// The sources: `*` is a place, `{}` the source or workload of the panel.
    #[serde(default = "any")]
    source: String,
    /// Whether only traces are shown.
    #[serde(default)]
    traces: bool,
    /// The statistics of the value and of both ends of its bar; `ci95` is half of the bar, `rounds` are the values of
    /// single rounds.
    statistics: Vec<String>,
    #[serde(default)]
    series: By,
    /// The names of the series, in the order of their colours; those in the rows of all panels if empty.
    #[serde(default)]
    names: Vec<String>,
    /// The first colour of a panel that has only series of its own rows.
    colour: Option<usize>,
    shape: Shape,
    /// The distance between points of different series at one place.
    #[serde(default)]
    apart: f64,
    x: Across,
    y: Up,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Each {
    Source,
    Workload,
}

/// What a series is about.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum By {
    #[default]
    System,
    /// A system with all of its options.
    Family,
    Operation,
}

/// The horizontal axis.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Across {
    label: String,
    at: At,
    /// How names and titles are written: of the first pattern that fits, with what its `*` stand for.
    #[serde(default)]
    rename: Vec<[String; 2]>,
    #[serde(default)]
    scale: Scale,
    /// The range, or the space beyond the first and the last place.
    range: Option<[f64; 2]>,
    /// Whether the range ends beyond the largest number.
    #[serde(default)]
    grows: bool,
    /// The number of ticks, in addition to the largest number if the range grows.
    ticks: Option<usize>,
}

/// The place of a row.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum At {
    /// That of its source among all.
    Source,
    System,
    /// That of its order among all.
    OrderName,
    Order,
    /// The number in its source.
    Number,
    /// The size of its spaces in MiB.
    Space,
}

/// The vertical axis.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Up {
    label: String,
    #[serde(default)]
    scale: Scale,
    /// The factor of the unit.
    #[serde(default = "one")]
    unit: f64,
    /// The smallest value that is drawn as it is. Without it, a logarithmic axis has no zeros.
    least: Option<f64>,
    range: Extent,
    ticks: usize,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Scale {
    #[default]
    Plain,
    /// With labels at whole numbers only.
    Whole,
    Log2,
    Log10,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Extent {
    /// From zero to the largest value.
    Zero,
    /// The values with a margin.
    Around,
    /// The same, in whole powers, so that each has a tick mark.
    Powers,
    /// From zero to 105 %.
    Percent,
}

fn any() -> String {
    "*".to_string()
}

fn one() -> f64 {
    1.0
}

/// Returns what the `*` of a pattern stand for in a text: one anywhere, and a second one at the end.
fn matched<'t>(pattern: &str, text: &'t str) -> Option<[&'t str; 2]> {
    let mut parts = pattern.splitn(3, '*');
    let (head, tail) = (parts.next()?, parts.next());
    match (tail, parts.next()) {
        (None, _) => (head == text).then_some([""; 2]),
        (Some(tail), None) => Some([text.strip_prefix(head)?.strip_suffix(tail)?, ""]),
        (Some(tail), Some(_)) => Some(text.strip_prefix(head)?.split_once(tail)?.into()),
    }
}

impl Layout {
    /// Draws the figure of an experiment.
    pub(crate) fn draw(&self, experiment: &Experiment, rows: &[Row]) -> Drawing {
        let drawn = &experiment.drawn;
        let own = Chosen::new(rows, |row| {
            let is_drawn = || drawn.is_empty() || drawn.contains(&row.name());
            self.panels.iter().any(|view| view.fits(experiment, row)) && is_drawn()
        });
        let mut panels = Vec::new();
        for view in &self.panels {
            let names = match view.each {
                None => vec![String::new()],
                Some(Each::Source) => own.sources(),
                Some(Each::Workload) => experiment.workloads.clone(),
            };
            panels.extend(names.iter().map(|name| view.panel(experiment, &own, name)));
        }
        let machine = experiment.platform.to_string();
        let note = self.note.replace("{}", machine.trim_start_matches("sim:"));
        chart::drawing(experiment, panels, &note)
    }
}

impl View {
    /// Returns `true` for a row that the panels show, or a row of one of its rounds.
    fn fits(&self, experiment: &Experiment, row: &Row) -> bool {
        let has_rounds = self.statistics.iter().any(|own| own == "rounds");
        let name = row.experiment.split('@').next();
        (row.experiment == experiment.name || has_rounds && name == Some(&experiment.name))
            && row.metric == self.metric
            && self
                .operation
                .as_ref()
                .is_none_or(|own| own == row.operation)
            && (matches!(self.x.at, At::Order | At::OrderName) || row.order == self.order)
            && (self.systems.is_empty() || self.systems.contains(&row.name()))
            && (self.each.is_some() || matched(&self.source, &row.source).is_some())
            && (!self.traces || experiment.trace_names().contains(&row.source))
    }

    /// Returns the name of the series of a row.
    fn series(&self, row: &Row) -> String {
        match self.series {
            By::System => row.name(),
            By::Family => row.system.clone(),
            By::Operation => format!("{}, {}", row.name(), row.operation),
        }
    }

    fn panel(&self, experiment: &Experiment, all: &Chosen<'_>, each: &str) -> Panel {
        let source = self.source.replace("{}", each);
        let found = |row: &Row| Some(matched(&source, &row.source)?[0].to_string());
        let own = Chosen::new(all.rows(), |row| {
            self.fits(experiment, row) && found(row).is_some()
        });
        let shown = own.with(&self.statistics[0]);
        let shown = Chosen::new(shown.rows(), |row| row.experiment == experiment.name);
        let names = match (&self.names[..], self.colour) {
            ([], None) => distinct(all.rows().map(|row| self.series(row))),
            ([], Some(_)) => distinct(shown.rows().map(|row| self.series(row))),
            (names, _) => names.to_vec(),
        };
        let mut places = distinct(shown.rows().filter_map(found));
        if places.is_empty() {
            places = distinct(all.rows().filter_map(found));
        }
        let mut orders = distinct(shown.rows().filter_map(|row| row.order));
        orders.sort_unstable();
        let x = &self.x;
        let place = |row: &Row, kind: usize| {
            let number = match x.at {
                At::Source => places
                    .iter()
                    .position(|own| Some(own) == found(row).as_ref())?
                    as f64,
                At::System => kind as f64,
                At::OrderName => orders.iter().position(|own| Some(*own) == row.order)? as f64,
                At::Order => f64::from(row.order?),
                At::Number => found(row)?.parse().ok()?,
                At::Space => space(row)?,
            };
            Some(x.scale.place(number) + if x.at == At::System { 1.0 } else { 0.0 })
        };
        let present = distinct(shown.rows().map(|row| self.series(row))).len();
        let middle = (present as f64 - 1.0) / 2.0;
        // All points of a place lie nearer to it than to the next one.
        let apart = self.apart.min(0.8 / present.max(1) as f64);
        let series = names.iter().enumerate().map(|(kind, name)| {
            let shift = (kind as f64 - middle) * apart;
            let rows = shown.rows().filter(|row| self.series(row) == *name);
            let bars =
                rows.filter_map(|row| Some((place(row, kind)? + shift, self.bar(&own, row)?)));
            let mut bars: Vec<(f64, Bar)> = bars.collect();
            bars.sort_by(|one, other| one.0.total_cmp(&other.0));
            bars.dedup_by_key(|bar| bar.0);
            Series::of_bars(name, kind + self.colour.unwrap_or(0), self.shape, bars)
        });
        let series: Vec<Series> = series.collect();
        let named = places.iter().map(|place| x.renamed(place));
        let named: Vec<String> = match x.at {
            At::OrderName => orders.iter().map(u8::to_string).collect(),
            At::System => names,
            _ => named.collect(),
        };
        let title = self.title.replace("{}", &x.renamed(each));
        let most = shown
            .rows()
            .filter_map(|row| place(row, 0))
            .fold(0.0, f64::max);
        let (across, up) = (x.axis(named, most), self.y.axis(&series));
        Panel::new(title, across, up, series)
    }

    /// Returns the value of a row, and the ends of its bar from the rows next to it.
    fn bar(&self, own: &Chosen<'_>, row: &Row) -> Option<Bar> {
        let key = |row: &Row| (row.name(), row.operation, row.order);
        let beside = Chosen::new(own.rows(), |other| {
            other.source == row.source && key(other) == key(row)
        });
        let find = |statistic: &String| {
            let beside = beside.with(statistic);
            beside.rows().find_map(|row| self.y.place(row.value))
        };
        let value = self.y.place(row.value)?;
        let ends = match &self.statistics[1..] {
            [] => None,
            [way] if way == "rounds" => {
                let rounds = beside.with(row.statistic);
                let rounds = Chosen::new(rounds.rows(), |own| own.experiment != row.experiment);
                let values = || rounds.rows().map(|own| own.value);
                Some((
                    values().fold(f64::INFINITY, f64::min),
                    values().fold(0.0, f64::max),
                ))
            }
            [half] => {
                let half = beside.with(half).rows().next().map_or(0.0, |row| row.value);
                self.y
                    .place(row.value - half)
                    .zip(self.y.place(row.value + half))
            }
            [least, most, ..] => {
                let ends = (find(least), find(most));
                // A line without ends has no area around it.
                let has_ends = self.shape == Shape::Points || ends.0.or(ends.1).is_some();
                has_ends.then(|| (ends.0.unwrap_or(value), ends.1.unwrap_or(value)))
            }
        };
        Some((value, ends))
    }
}

/// The size of a row's spaces, in MiB.
fn space(row: &Row) -> Option<f64> {
    let mut options = row.options.split('+');
    let size = options.find_map(|option| option.strip_prefix("space="))?;
    Some(size.parse::<Size>().ok()?.frames as f64 / 256.0)
}

impl Scale {
    fn place(self, number: f64) -> f64 {
        match self {
            Scale::Plain | Scale::Whole => number,
            Scale::Log2 => number.log2(),
            Scale::Log10 => number.log10(),
        }
    }

    fn axis(self, label: String, range: (f64, f64), ticks: usize) -> Axis {
        let new: fn(String, (f64, f64), usize) -> Axis = match self {
            Scale::Plain => Axis::plain,
            Scale::Whole => Axis::whole,
            Scale::Log2 => Axis::log2,
            Scale::Log10 => Axis::log10,
        };
        new(label, range, ticks)
    }
}

impl Across {
    fn renamed(&self, name: &str) -> String {
        let written = self.rename.iter().find_map(|[pattern, new]| {
            let [first, second] = matched(pattern, name)?;
            Some(new.replacen('*', first, 1).replacen('*', second, 1))
        });
        written.unwrap_or_else(|| name.to_string())
    }

    /// `most` is the largest number of a place.
    fn axis(&self, names: Vec<String>, most: f64) -> Axis {
        let (count, label) = (names.len(), &self.label);
        let range = self.range.unwrap_or_default();
        let axis = match self.at {
            At::Source => Axis::of_names(label, names),
            At::System => Axis::from_one(label, count),
            At::OrderName => Axis {
                range: (-range[0], count as f64 - 1.0 + range[1]),
                ..Axis::of_names(label, names)
            },
            At::Order | At::Number | At::Space => {
                let beyond = if self.grows { most } else { 0.0 };
                let ticks = self.ticks.unwrap_or(0) + beyond as usize;
                self.scale
                    .axis(label.clone(), (range[0], beyond + range[1]), ticks)
            }
        };
        match (self.at, self.ticks) {
            (At::Source, Some(ticks)) => Axis {
                ticks: count + ticks,
                ..axis
            },
            _ => axis,
        }
    }
}

impl Up {
    /// Returns the position of a value.
    fn place(&self, value: f64) -> Option<f64> {
        let value = value * self.unit;
        let value = self.least.map_or(value, |least| value.max(least));
        Some(self.scale.place(value)).filter(|place| place.is_finite())
    }

    fn axis(&self, series: &[Series]) -> Axis {
        let range = match self.range {
            Extent::Zero => chart::from_zero(chart::tops(series)),
            Extent::Around => chart::around(chart::spans(series)),
            Extent::Powers => {
                let (least, most) = chart::around(chart::spans(series));
                (least.floor(), most.ceil())
            }
            Extent::Percent => (0.0, 105.0),
        };
        self.scale.axis(self.label.clone(), range, self.ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_a_place() {
        for (pattern, text, place) in [
            ("*", "gcc_build", Some("gcc_build")),
            ("fill:*", "fill:50", Some("50")),
            ("fill:*", "split:4", None),
            ("burst:*/2000ms", "burst:9/2000ms", Some("9")),
            ("burst:*/2000ms", "burst:9/250ms", None),
            ("*-user*", "3-users", Some("3")),
            ("*-user*", "mean", None),
            ("sequence", "sequence", Some("")),
            ("sequence", "all:sequence", None),
        ] {
            let found = matched(pattern, text).map(|found| found[0]);
            assert_eq!(found, place, "{pattern} {text}");
        }
    }

    #[test]
    fn a_panel_shows_the_rows_that_its_table_asks_for() {
        let text = r#"
            note = "; on {}"
            [[panels]]
            title = "steps"
            metric = "steps"
            source = "* x"
            statistics = ["mean", "ci95"]
            shape = "points"
            apart = 0.2
            x = { at = "source", label = "trace", rename = [["a", "first"]] }
            y = { label = "tenths", unit = 10.0, range = "zero", ticks = 6 }
        "#;
        let layout: Layout = toml::from_str(text).unwrap();
        let file = include_str!("../structures/experiment.toml");
        let own = Experiment::parse("x.toml", file).unwrap();
        let row = |source: &str, system: &str, statistic, value| Row {
            experiment: own.name.clone(),
            source: source.to_string(),
            system: system.to_string(),
            metric: "steps",
            statistic,
            value,
            ..Row::default()
        };
        let rows = [
            row("a x", "bs", "mean", 2.0),
            row("a x", "bs", "ci95", 0.5),
            row("b x", "bs", "mean", 4.0),
            row("b x", "is", "mean", 8.0),
            row("c y", "is", "mean", 9.0),
        ];
        let drawing = layout.draw(&own, &rows);
        assert!(drawing.note.ends_with("; on native"), "{}", drawing.note);
        let panel = &drawing.panels[0];
        assert_eq!(panel.title, "steps");
        assert_eq!(
            panel.x.marks(),
            [(0.0, "first".to_string()), (1.0, "b".to_string())]
        );
        assert!((panel.y.range.1 - 86.4).abs() < 1e-9, "a margin above 80");
        let [bs, is] = &panel.series[..] else {
            panic!("two systems");
        };
        assert_eq!(bs.points, [(-0.1, 20.0), (0.9, 40.0)]);
        assert_eq!(bs.intervals, [(15.0, 25.0), (40.0, 40.0)]);
        assert_eq!(
            (is.name.as_str(), &is.points[..]),
            ("is", &[(1.1, 80.0)][..])
        );
    }
}
