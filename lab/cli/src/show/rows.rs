//! What two files of rows differ in, as text.
//!
//! The answer comes first: how many rows are the same. Then what moved, by experiment and metric, so that a reader sees
//! which of them a change has touched.
//!
//! # Invariants
//! Each row is counted once. What all rows of a table have in common is above the table, and not a column of it.

use std::collections::{BTreeMap, BTreeSet};

use everybuddy_measure::claim::short;
use everybuddy_measure::rows::Row;
use everybuddy_metrics::{count, find};

use super::output::Style;
use super::table::{self, plain};

/// All that a row is about: experiment, source, system and options; platform, CPUs and seed; operation, order, metric
/// and statistic.
pub type Key<'r> = ([&'r str; 4], (String, u16, u64), About);

/// Operation, order, metric and statistic.
type About = (&'static str, Option<u8>, &'static str, &'static str);

/// Returns what a row is about.
pub fn key(row: &Row) -> Key<'_> {
    (
        [&row.experiment, &row.source, &row.system, &row.options],
        (row.platform.to_string(), row.cpus, row.seed),
        (row.operation, row.order, row.metric, row.statistic),
    )
}

/// A number that both files have.
struct Change<'r> {
    before: &'r Row,
    after: f64,
}

/// The rows of one experiment about one metric, on one kind of platform.
type Group<'r> = (&'r str, &'static str, bool);

/// What a reader knows a row by, with the heading of its column.
type Field = (&'static str, fn(&Row) -> String);

/// In the order of the columns.
const FIELDS: [Field; 8] = [
    ("round", |row| {
        row.experiment.split('@').nth(1).unwrap_or("").to_owned()
    }),
    ("source", |row| row.source.clone()),
    ("platform", |row| row.platform.to_string()),
    ("CPUs", |row| row.cpus.to_string()),
    ("seed", |row| row.seed.to_string()),
    ("calls", |row| row.operation.to_owned()),
    ("order", |row| {
        row.order.map_or(String::new(), |order| order.to_string())
    }),
    ("statistic", |row| row.statistic.to_owned()),
];

impl Change<'_> {
    /// Returns by how many percent of the value it changed; without end from 0.
    fn percent(&self) -> f64 {
        match (self.before.value, self.after) {
            (before, after) if before == after => 0.0,
            (0.0, after) => after.signum() * f64::INFINITY,
            (before, after) => (after - before) / before.abs() * 100.0,
        }
    }

    /// Returns how many times larger the larger value is. Values with different signs come first.
    fn factor(&self) -> f64 {
        let (before, after) = (self.before.value, self.after);
        if before * after <= 0.0 {
            f64::INFINITY
        } else {
            (before / after).max(after / before)
        }
    }

    fn text(&self) -> String {
        match self.percent() {
            percent if percent.is_infinite() => "from 0".to_owned(),
            percent if percent.abs() < 9.95 => format!("{percent:+.1}%"),
            percent => format!("{percent:+.0}%"),
        }
    }
}

/// Renders the differences: those above a percentage, and at most `most` of a metric.
pub fn text(before: &[Row], after: &[Row], above: f64, most: usize, style: &Style) -> String {
    let mut rest: BTreeMap<_, &Row> = after.iter().map(|row| (key(row), row)).collect();
    let own: BTreeMap<_, &Row> = before.iter().map(|row| (key(row), row)).collect();
    let (mut gone, mut groups) = (Vec::new(), BTreeMap::<Group<'_>, Vec<Change<'_>>>::new());
    let (mut same, mut changed, mut large) = (0, 0, 0);
    for (about, before) in &own {
        let Some(after) = rest.remove(about) else {
            gone.push(*before);
            continue;
        };
        let after = after.value;
        let change = Change { before, after };
        match change.percent().abs() {
            0.0 => same += 1,
            percent => {
                changed += 1;
                large += usize::from(percent > above);
            }
        }
        groups.entry(group(before)).or_default().push(change);
    }
    let new: Vec<&Row> = rest.into_values().collect();
    let number = |number: usize| count(number as u64);
    let percent = format!("{above}%");
    let answer = format!(
        "rows: {} the same, {} changed ({} by more than {percent}), {} only in A, {} only in B",
        number(same),
        number(changed),
        number(large),
        number(gone.len()),
        number(new.len()),
    );
    let mut out = style.paragraph(&answer);
    out += &alone("only in A", &gone, style);
    out += &alone("only in B", &new, style);
    let mut moved: Vec<_> = groups
        .into_iter()
        .filter_map(|(group, changes)| Moved::of(group, changes, above))
        .collect();
    // Equal ones stay in the order of their names.
    moved.sort_by(|one, other| {
        other.changes[0]
            .factor()
            .total_cmp(&one.changes[0].factor())
    });
    for own in &moved {
        out.push('\n');
        out += &own.text(&percent, most, style);
    }
    out
}

fn group(row: &Row) -> Group<'_> {
    let experiment = row.experiment.split('@').next().unwrap_or_default();
    (experiment, row.metric, row.platform.is_simulated())
}

/// Renders which rows one file alone has: their numbers by experiment and metric, the largest first.
fn alone(head: &str, rows: &[&Row], style: &Style) -> String {
    const MOST: usize = 12;
    let mut groups = BTreeMap::<_, usize>::new();
    for row in rows {
        *groups.entry(group(row)).or_default() += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, rows)| usize::MAX - rows);
    let others: usize = groups.iter().skip(MOST).map(|(_, rows)| rows).sum();
    let mut parts: Vec<String> = groups
        .iter()
        .take(MOST)
        .map(|((experiment, metric, _), rows)| {
            format!("{experiment} {metric} ({})", count(*rows as u64))
        })
        .collect();
    if others > 0 {
        parts.push(format!("{} others", count(others as u64)));
    }
    if parts.is_empty() {
        String::new()
    } else {
        style.wrapped(head, 11, &parts.join(", "))
    }
}

/// A group of which rows changed by more than the percentage.
struct Moved<'r> {
    group: Group<'r>,
    /// How many rows both files have.
    all: usize,
    /// Those that changed by more, the largest factor first.
    changes: Vec<Change<'r>>,
}

impl<'r> Moved<'r> {
    fn of(group: Group<'r>, mut changes: Vec<Change<'r>>, above: f64) -> Option<Self> {
        let all = changes.len();
        changes.retain(|change| change.percent().abs() > above);
        changes.sort_by(|one, other| other.factor().total_cmp(&one.factor()));
        (!changes.is_empty()).then_some(Self {
            group,
            all,
            changes,
        })
    }

    fn text(&self, percent: &str, most: usize, style: &Style) -> String {
        let (experiment, metric, is_simulated) = self.group;
        let larger = self.changes.iter().filter(|change| change.percent() > 0.0);
        let larger = larger.count();
        let (moved, listed) = (self.changes.len(), self.changes.len().min(most));
        let changes = &self.changes[..listed];
        let mut facts = vec![format!(
            "{moved} of {} rows by more than {percent}, {larger} up and {} down",
            self.all,
            moved - larger,
        )];
        if listed < moved {
            facts.push(format!("{listed} of them below"));
        }
        facts.extend(
            find(metric)
                .map(|metric| metric.better.name())
                .filter(|better| !better.is_empty())
                .map(|better| format!("{better} is better")),
        );
        if is_simulated {
            facts.push("simulated".to_owned());
        }
        let (mut columns, rows) = (Vec::new(), changes.iter().map(|change| change.before));
        for (head, field) in FIELDS {
            let texts: Vec<String> = rows.clone().map(field).collect();
            let different: BTreeSet<&String> = texts.iter().collect();
            match (different.len(), texts.first()) {
                (1, Some(only)) if only.is_empty() => {}
                (1, Some(only)) => facts.push(format!("{head}\u{a0}{only}")),
                _ => columns.push(plain("", [head, ""], texts)),
            }
        }
        let units: BTreeSet<&str> = rows.clone().map(Row::unit).collect();
        let unit = match units.first() {
            Some(&only) if units.len() == 1 && only != "1" => only,
            _ => "",
        };
        if units.len() > 1 {
            let texts = rows.clone().map(|row| row.unit().to_owned());
            columns.push(plain("", ["unit", ""], texts.collect()));
        }
        let texts = |text: fn(&Change<'_>) -> String| changes.iter().map(text).collect();
        columns.extend([
            plain("", ["A", unit], texts(|change| short(change.before.value))),
            plain("", ["B", unit], texts(|change| short(change.after))),
            plain("", ["change", ""], texts(|change| change.text())),
        ]);
        let names: Vec<String> = rows.map(Row::name).collect();
        let head = format!("{experiment}\u{a0}{metric}:");
        style.paragraph(&format!("{head} {}", facts.join(", ")))
            + &table::words(&names, &columns, style)
    }
}
