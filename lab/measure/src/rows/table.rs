//! Rows arranged as a table: systems down, columns across.
//!
//! The terminal and the page show the same tables, each in its own way. The numbers come from rows, and the columns
//! from [`everybuddy_metrics::COLUMNS`].
//!
//! # Invariants
//! Every column has as many values, texts and marks as the table has names.

use std::borrow::Cow;
use std::ops::Range;

use everybuddy_metrics::{At, Better, COLUMNS, Column as Spec, Group, METRICS, Places, When};

use super::Row;
use super::comparison::{FLOOR, TIMER};
use crate::choice;

/// The maximum number of systems that may share the mark of the best value.
const SHARED: usize = 3;

/// The name of the replay without an allocator.
pub const OVERHEAD: &str = "replay overhead";

/// A column of numbers.
#[derive(Clone, Debug)]
pub struct Column {
    /// The metric; empty if a column shows something else.
    pub metric: &'static str,
    /// The two lines of the heading: the name, and the unit or another qualifier.
    pub head: [Cow<'static, str>; 2],
    /// The description in one line; empty if a headline contains it.
    pub legend: Cow<'static, str>,
    /// The direction in which values improve.
    pub better: Better,
    /// The values for comparison; `None` if there is no value.
    pub values: Vec<Option<f64>>,
    /// The values as text.
    pub texts: Vec<String>,
}

impl Column {
    /// Returns `true` for each line in `competing` with the best value. If too many share it, no line is marked.
    pub fn best(&self, competing: &Range<usize>) -> Vec<bool> {
        let is_known = |at: &usize| competing.contains(at) && self.values[*at].is_some();
        let known: Vec<usize> = (0..self.values.len()).filter(is_known).collect();
        let by = |a: &&usize, b: &&usize| {
            let [a, b] = [a, b].map(|at| self.values[**at].unwrap_or(f64::NAN));
            a.total_cmp(&b)
        };
        let best = match self.better {
            Better::Lower => known.iter().min_by(by),
            Better::Higher => known.iter().max_by(by),
            Better::Neither => None,
        };
        let text = best.map(|at| self.texts[*at].as_str());
        let is_best = |at: &usize| text == Some(self.texts[*at].as_str());
        let alike = known.iter().filter(|at| is_best(at)).count();
        let says = alike <= SHARED && alike < known.len();
        (0..self.values.len())
            .map(|at| says && known.contains(&at) && is_best(&at))
            .collect()
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The names of the lines.
    pub names: Vec<String>,
    /// The lines that compete for the best value. All lines after them but the last are of systems that no kernel has.
    pub competing: Range<usize>,
    /// The columns.
    pub columns: Vec<Column>,
}

/// The selection of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The most important ones.
    Default,
    /// All defined ones.
    Defined,
    /// All defined ones, and every counter with a nonzero value.
    All,
}

/// Arranges the rows of one trace's comparison: systems, those that no kernel has, then the overhead of the replay.
/// Only the first compete.
pub fn compared(rows: &[Row], which: Which, threads: usize) -> Table {
    let whole: Vec<&Row> = rows
        .iter()
        .filter(|row| !row.experiment.contains('@'))
        .collect();
    let mut names: Vec<String> = Vec::new();
    for row in &whole {
        let name = row.name();
        if row.is_of_system() && !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_by_key(|name| choice::no_kernel_has(name));
    let competing = names.partition_point(|name| !choice::no_kernel_has(name));
    let competing = 0..competing;
    names.push(FLOOR.to_string());
    let floor = whole
        .iter()
        .find(|row| row.system == TIMER && row.statistic == "value");
    let source = whole.first().map_or("", |row| &row.source);
    let layout = Layout {
        rows: whole
            .iter()
            .copied()
            .filter(|row| row.source == source)
            .collect(),
        names: &names,
        floor: floor.map(|row| row.value),
        threads,
    };
    let mut columns = Vec::new();
    for spec in COLUMNS {
        if spec.is_default || which != Which::Default {
            columns.extend(layout.column(spec));
        }
    }
    if which == Which::All {
        columns.extend(layout.counters());
    }
    if let Some(last) = names.last_mut() {
        *last = OVERHEAD.to_string();
    }
    Table {
        names,
        competing,
        columns,
    }
}

/// The input for columns.
struct Layout<'l> {
    rows: Vec<&'l Row>,
    names: &'l [String],
    /// The timer's spread, in nanoseconds; rows of an earlier run may lack it.
    floor: Option<f64>,
    threads: usize,
}

impl Layout<'_> {
    fn find(&self, name: &str, spec: &Spec, statistic: &str) -> Option<f64> {
        let is_own = |row: &&&Row| {
            row.metric == spec.metric
                && row.operation == spec.operation
                && row.statistic == statistic
                && row.name() == name
                && match spec.at {
                    At::NoOrder => row.order.is_none(),
                    At::Order(order) => row.order == Some(order),
                }
        };
        self.rows.iter().find(is_own).map(|row| row.value)
    }

    /// Returns a column, unless it is omitted.
    fn column(&self, spec: &Spec) -> Option<Column> {
        let value = |name: &String| {
            let value = self.find(name, spec, spec.statistic);
            match spec.places {
                // A value below the resolution has no row.
                Places::AboveFloor => value.or_else(|| self.find(name, spec, "mean").map(|_| 0.0)),
                _ => value,
            }
        };
        let scaled = |name: &String| value(name).map(|value| value * spec.factor);
        let values: Vec<Option<f64>> = self.names.iter().map(scaled).collect();
        let show = |value: f64| match (spec.places, self.floor) {
            (Places::AboveFloor, None) if value <= 0.0 => String::new(),
            (_, floor) => spec.text(value, floor.unwrap_or_default()),
        };
        let is_shown = match spec.when {
            When::Always => values.iter().any(Option::is_some),
            When::Threads => self.threads > 1,
            When::AnyOther(usual) => values
                .iter()
                .flatten()
                .any(|value| show(*value) != show(usual * spec.factor)),
            When::Changes => self
                .names
                .iter()
                .any(|name| self.find(name, spec, "min") != self.find(name, spec, "max")),
        };
        is_shown.then(|| Column {
            metric: spec.metric,
            head: spec.heading().map(Cow::Owned),
            legend: spec.line().into(),
            better: everybuddy_metrics::find(spec.metric).map_or(Better::Neither, |own| own.better),
            texts: values
                .iter()
                .map(|own| own.map(show).unwrap_or_default())
                .collect(),
            values,
        })
    }

    /// Returns columns for the counters without another column, if any system has a nonzero value.
    fn counters(&self) -> Vec<Column> {
        let is_free = |name: &str| COLUMNS.iter().all(|spec| spec.metric != name);
        let inside = METRICS
            .iter()
            .filter(|metric| metric.group == Group::Inside);
        let mut columns = Vec::new();
        for metric in inside.filter(|metric| is_free(metric.name)) {
            let value = |name: &String| {
                let is_own = |row: &&&Row| {
                    row.metric == metric.name
                        && row.operation == "all"
                        && row.statistic == "count"
                        && row.name() == *name
                };
                self.rows.iter().find(is_own).map(|row| row.value)
            };
            let values: Vec<Option<f64>> = self.names.iter().map(value).collect();
            if values.iter().flatten().all(|value| *value == 0.0) {
                continue;
            }
            columns.push(Column {
                metric: metric.name,
                head: metric.heading("count").map(Cow::Owned),
                legend: metric.line().into(),
                better: metric.better,
                texts: values
                    .iter()
                    .map(|own| {
                        own.map(|count| crate::size::count(count as u64))
                            .unwrap_or_default()
                    })
                    .collect(),
                values,
            });
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of two systems, the timer and the floor.
    fn rows() -> Vec<Row> {
        let row = |system: &str, operation, metric, statistic, value| Row {
            experiment: "compare".to_string(),
            source: "t".to_string(),
            system: system.to_string(),
            operation,
            metric,
            statistic,
            value,
            ..Row::default()
        };
        let at = |order, row| Row {
            order: Some(order),
            ..row
        };
        vec![
            row(TIMER, "all", "latency", "value", 20.0),
            row(FLOOR, "allocate", "latency", "mean", 0.5),
            row("bs", "allocate", "latency", "mean", 9.0),
            row("bs", "allocate", "latency", "p99", 30.0),
            row("bs", "all", "miss_rate", "value", 1.0),
            row("bs", "allocate", "blocking_probability", "count", 0.0),
            at(9, row("bs", "all", "free_blocks", "mean", 12.0)),
            at(10, row("bs", "all", "free_blocks", "mean", 6.0)),
            row("bs", "all", "splits", "count", 1234.0),
            row("is", "allocate", "latency", "mean", 8.0),
            row("is", "all", "miss_rate", "value", 0.0471),
            row("is", "allocate", "blocking_probability", "count", 0.0),
            at(10, row("is", "all", "free_blocks", "mean", 7.0)),
            row("is", "all", "splits", "count", 0.0),
            Row {
                experiment: "compare@0.5".to_string(),
                ..row("is", "all", "miss_rate", "value", 9.0)
            },
        ]
    }

    fn text(table: &Table, head: [&str; 2]) -> Vec<String> {
        let column = table.columns.iter().find(|own| own.head == head);
        column.map(|own| own.texts.clone()).unwrap_or_default()
    }

    #[test]
    fn rows_become_columns() {
        let table = compared(&rows(), Which::Default, 1);
        assert_eq!(table.names, ["bs", "is", OVERHEAD]);
        assert_eq!(table.competing, 0..2);
        assert_eq!(text(&table, ["alloc", "mean ns"]), ["9.00", "8.00", "0.50"]);
        // A percentile without a row, of a call with a mean, is below the timer's spread.
        assert_eq!(text(&table, ["alloc", "p99 ns"]), ["30.0", "≤20", "≤20"]);
        assert_eq!(text(&table, ["list", "misses %"]), ["100.0", "4.7", ""]);
        // Without the spread, nothing is said about such a time.
        let unknown: Vec<Row> = rows().into_iter().skip(1).collect();
        let unknown = compared(&unknown, Which::Default, 1);
        assert_eq!(text(&unknown, ["alloc", "p99 ns"]), ["30.0", "", ""]);
        // No request failed, and one thread cannot wait.
        assert!(text(&table, ["refused", "requests"]).is_empty());
        assert!(text(&table, ["calls that", "wait %"]).is_empty());
        assert!(text(&table, ["free 4M", "avg"]).is_empty());
        let table = compared(&rows(), Which::Defined, 1);
        assert_eq!(text(&table, ["free 4M", "avg"]), ["6.0", "7.0", ""]);
        assert!(text(&table, ["splits", "count"]).is_empty());
        let table = compared(&rows(), Which::All, 1);
        assert_eq!(text(&table, ["splits", "count"]), ["1,234", "0", ""]);
    }

    #[test]
    fn what_no_kernel_has_comes_last_and_is_never_the_best() {
        let rename = |row: Row| Row {
            system: match row.system.as_str() {
                "bs" => "linux-6".to_string(),
                _ => row.system.clone(),
            },
            ..row
        };
        let mut rows: Vec<Row> = rows().into_iter().map(rename).collect();
        let other = |row: &Row| Row {
            system: "bs".to_string(),
            value: row.value + 1.0,
            ..row.clone()
        };
        let others = rows.iter().filter(|row| row.system == "is").map(other);
        rows.extend(others.collect::<Vec<_>>());
        let time = rows.iter_mut().find(|row| row.system == "linux-6");
        time.unwrap().value = 1.0;
        let table = compared(&rows, Which::Default, 1);
        assert_eq!(table.names, ["is", "bs", "linux-6", OVERHEAD]);
        assert_eq!(table.competing, 0..2);
        let mean = table
            .columns
            .iter()
            .find(|own| own.head == ["alloc", "mean ns"]);
        let mean = mean.unwrap();
        assert_eq!(mean.texts, ["8.00", "9.00", "1.00", "0.50"]);
        let best = mean.best(&table.competing);
        assert_eq!(best, [true, false, false, false]);
    }

    #[test]
    fn the_best_is_marked_where_it_says_something() {
        let column = |better, values: &[f64]| Column {
            metric: "latency",
            head: ["a".into(), "b".into()],
            legend: "".into(),
            better,
            values: values.iter().copied().map(Some).collect(),
            texts: values.iter().map(|value| format!("{value:.1}")).collect(),
        };
        let best = |better, values: &[f64]| column(better, values).best(&(0..values.len() - 1));
        assert_eq!(best(Better::Lower, &[3.0, 2.0, 1.0]), [false, true, false]);
        assert_eq!(best(Better::Higher, &[3.0, 2.0, 9.0]), [true, false, false]);
        assert_eq!(best(Better::Neither, &[3.0, 2.0, 1.0]), [false; 3]);
        // Values that are formatted equally count as equal.
        assert_eq!(
            best(Better::Lower, &[1.01, 1.02, 2.0, 0.0]),
            [true, true, false, false]
        );
        assert_eq!(best(Better::Lower, &[1.0, 1.0, 0.0]), [false; 3]);
        assert_eq!(
            best(Better::Lower, &[1.0, 1.0, 1.0, 1.0, 2.0, 0.0]),
            [false; 6]
        );
    }
}
