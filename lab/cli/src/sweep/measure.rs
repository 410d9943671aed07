//! What a search minimizes, and the bounds that it keeps.
//!
//! A number of a cell is named as in rows: `latency:p99:allocate`.
//!
//! # Invariants
//! A name selects one row of a cell, or is refused with the names that would.

use std::str::FromStr;

use everybuddy_measure::choice::{nearest, unknown};
use everybuddy_measure::rows::Row;
use everybuddy_metrics::{METRICS, find};

/// The name of a number: METRIC, METRIC:STATISTIC, METRIC:STATISTIC:OPERATION or METRIC:STATISTIC:OPERATION:ORDER.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measure {
    text: String,
    metric: &'static str,
    statistic: Option<String>,
    operation: Option<String>,
    order: Option<u8>,
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Measure, String> {
        let mut parts = text.split(':').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let metric = find(name).ok_or_else(|| {
            let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
            let longer: Vec<&str> = names
                .iter()
                .copied()
                .filter(|own| !name.is_empty() && own.contains(name))
                .collect();
            match (nearest(name, names.iter().copied()), longer.is_empty()) {
                (None, false) => format!(
                    "metric `{name}` does not exist; did you mean {}?",
                    quoted(&longer, " or ")
                ),
                (Some(near), _) => {
                    format!("metric `{name}` does not exist; did you mean `{near}`?")
                }
                _ => format!("metric `{name}` does not exist; `everybuddy metrics` lists them"),
            }
        })?;
        let statistic = parts.next().map(str::to_string);
        if let Some(own) = &statistic
            && !metric.statistics.contains(&own.as_str())
        {
            return Err(unknown("statistic", own, &metric.statistics));
        }
        let operation = parts.next().map(str::to_string);
        let order = match parts.next() {
            None => None,
            Some(order) => Some(
                order
                    .parse()
                    .map_err(|_| format!("`{order}` is not an order"))?,
            ),
        };
        match parts.next() {
            Some(_) => Err(format!("`{text}`: write METRIC:STATISTIC:OPERATION:ORDER")),
            None => Ok(Measure {
                text: text.trim().to_string(),
                metric: metric.name,
                statistic,
                operation,
                order,
            }),
        }
    }
}

impl Measure {
    /// Returns the name as it was given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the unit.
    pub(crate) fn unit(&self) -> &'static str {
        let statistic = self.statistic.as_deref().unwrap_or("value");
        find(self.metric).map_or("", |metric| metric.unit(statistic))
    }

    /// Returns the value of a system among the rows of a cell.
    ///
    /// # Errors
    /// A message if no row, or more than one, has the name.
    pub(crate) fn value(&self, rows: &[Row], system: &str) -> Result<f64, String> {
        let all = rows
            .iter()
            .filter(|row| row.name() == system && row.metric == self.metric);
        let all: Vec<&Row> = all.collect();
        let fits = |own: &Option<String>, value: &str| own.as_ref().is_none_or(|own| own == value);
        let mut found = all.iter().filter(|row| {
            fits(&self.statistic, row.statistic)
                && fits(&self.operation, row.operation)
                && self.order.is_none_or(|order| row.order == Some(order))
        });
        let others = |rows: &[&Row]| {
            let mut names: Vec<String> = rows.iter().map(|row| name(row)).collect();
            names.sort();
            names.dedup();
            quoted(&names, ", ")
        };
        match (found.next(), found.next()) {
            (Some(row), None) => Ok(row.value),
            (None, _) if all.is_empty() => Err(format!("cells have no metric `{}`", self.metric)),
            (None, _) => Err(format!(
                "cells have no `{}`, but {}",
                self.text,
                others(&all)
            )),
            (Some(_), Some(_)) => Err(format!(
                "`{}` is the name of several numbers of a cell: choose one of {}",
                self.text,
                others(&all)
            )),
        }
    }
}

/// Returns the whole name of a row's number.
fn name(row: &Row) -> String {
    let order = row.order.map_or(String::new(), |order| format!(":{order}"));
    format!("{}:{}:{}{order}", row.metric, row.statistic, row.operation)
}

fn quoted(names: &[impl AsRef<str>], between: &str) -> String {
    let names = names.iter().map(|name| format!("`{}`", name.as_ref()));
    names.collect::<Vec<_>>().join(between)
}

/// A bound of a number: `metadata_bytes_per_frame<9`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    text: String,
    /// The number.
    pub(crate) measure: Measure,
    sign: Sign,
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sign {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// The signs; longer ones first.
const SIGNS: [(&str, Sign); 4] = [
    ("<=", Sign::AtMost),
    (">=", Sign::AtLeast),
    ("<", Sign::Less),
    (">", Sign::Greater),
];

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let found = SIGNS
            .iter()
            .find_map(|(sign, kind)| Some((text.split_once(sign)?, *kind)));
        let ((measure, limit), sign) =
            found.ok_or_else(|| format!("`{text}`: write METRIC:STATISTIC<NUMBER"))?;
        let limit = limit
            .trim()
            .parse()
            .ok()
            .filter(|limit: &f64| limit.is_finite());
        let limit = limit.ok_or_else(|| format!("`{text}`: after the sign must be a number"))?;
        Ok(Bound {
            text: text.to_string(),
            measure: measure.parse()?,
            sign,
            limit,
        })
    }
}

impl Bound {
    /// Returns the bound as it was given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns how far a value is beyond the bound: positive if it breaks the bound, and otherwise not.
    pub(crate) fn excess(&self, value: f64) -> f64 {
        let (excess, is_met) = match self.sign {
            Sign::Less => (value - self.limit, value < self.limit),
            Sign::AtMost => (value - self.limit, value <= self.limit),
            Sign::Greater => (self.limit - value, value > self.limit),
            Sign::AtLeast => (self.limit - value, value >= self.limit),
        };
        if is_met {
            excess
        } else {
            // A value that is equal to what it must not reach.
            excess.max(f64::MIN_POSITIVE)
        }
    }

    /// Returns the worse one of two values.
    pub(crate) fn worse(&self, one: f64, other: f64) -> f64 {
        if self.excess(one) >= self.excess(other) {
            one
        } else {
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(operation: &'static str, statistic: &'static str, value: f64) -> Row {
        Row {
            system: "bs".into(),
            options: "order=9".into(),
            operation,
            metric: "latency",
            statistic,
            value,
            ..Row::default()
        }
    }

    #[test]
    fn a_name_selects_one_row() {
        let rows = [
            row("allocate", "p99", 7.0),
            row("free", "p99", 5.0),
            row("free", "mean", 3.0),
        ];
        let value = |text: &str| text.parse::<Measure>().unwrap().value(&rows, "bs+order=9");
        assert_eq!(value("latency:p99:free"), Ok(5.0));
        assert_eq!(value("latency:mean"), Ok(3.0));
        let several = value("latency:p99").unwrap_err();
        assert!(several.contains("`latency:p99:allocate`"), "{several}");
        assert!(
            value("latency:max")
                .unwrap_err()
                .contains("but `latency:mean:free`")
        );
        assert!(value("throughput").unwrap_err().contains("no metric"));
        assert!(
            "latency"
                .parse::<Measure>()
                .unwrap()
                .value(&rows, "bs")
                .is_err()
        );
    }

    #[test]
    fn wrong_names_are_explained() {
        let message = |text: &str| text.parse::<Measure>().unwrap_err();
        assert!(message("latncy").contains("did you mean `latency`?"));
        assert!(message("metadata").contains("`metadata_bytes_per_frame`"));
        assert!(message("latency:p98").contains("statistic `p98`"));
        assert!(message("latency:p99:all:x").contains("`x` is not an order"));
        assert!(message("latency:p99:all:1:2").contains("METRIC:STATISTIC"));
        assert!(message("").contains("does not exist"));
    }

    #[test]
    fn bounds_are_kept_or_broken() {
        let excess = |text: &str, value| text.parse::<Bound>().unwrap().excess(value);
        for (text, met, broken) in [
            ("latency:p99<5", 4.5, 5.0),
            ("latency:p99 <= 5", 5.0, 5.5),
            ("latency:p99>5", 5.5, 5.0),
            ("latency:p99>=5", 5.0, 4.5),
        ] {
            assert!(excess(text, met) <= 0.0, "{text}");
            assert!(excess(text, broken) > 0.0, "{text}");
        }
        let bound: Bound = "latency:p99<5".parse().unwrap();
        assert_eq!(bound.worse(4.0, 6.0), 6.0);
        for text in [
            "latency:p99",
            "latency:p99<",
            "latency:p99<x",
            "<5",
            "latency<nan",
        ] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }
}
