//! Claims: what has to come out, and whether it did.
//!
//! Exists so that a figure of a paper is compared with by the program and not by eye, in the same way for
//! every experiment: claims are data, and look at exported rows only.
//!
//! A number of several rounds has an interval: the least and the most of all rounds. A claim fails only if
//! it is wrong at every point of the intervals; if it is wrong for the medians alone it is undecided.
//!
//! Invariant: a claim that finds no numbers never holds.

use serde::Deserialize;

use crate::rows::Row;

/// What kind of thing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The systems come in this order.
    Ordering,
    /// A ratio lies within bounds.
    Ratio,
    /// The first system's point lies below the curve of the others: see [`Claim::against`].
    Below,
}

/// Of what a ratio is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// The first system to the second, for each source.
    #[default]
    Systems,
    /// The largest to the smallest over the sources, for each system.
    Spread,
    /// Each number to what is expected of it.
    Expected,
}

/// What has to come out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Ordering, ratio or below a curve.
    pub kind: Kind,
    /// What is said, in words.
    pub text: String,
    /// The metric that it is about.
    pub metric: String,
    /// The statistic.
    pub statistic: String,
    /// The operation.
    #[serde(default = "operation")]
    pub operation: String,
    /// The order.
    pub order: Option<u8>,
    /// The sources that it is said of; all when empty.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The systems.
    pub systems: Vec<String>,
    /// For an ordering, what stands between successive systems: `>=`, `>`, `<=` or `<`.
    #[serde(default)]
    pub relations: Vec<String>,
    /// How far values may differ and still count as equal for `>=` and `<=`, relative to the larger.
    #[serde(default)]
    pub tolerance: f64,
    /// For a curve, what the metric is bought with: a metric whose statistic is `mean`. The first system lies
    /// below if its metric is less than that of every other that has no more of this. If none has so little,
    /// it lies below if its metric is less than that of the one that has least; else nothing can be said.
    pub against: Option<String>,
    /// Of what a ratio is.
    #[serde(default)]
    pub of: Of,
    /// The least that a ratio may be.
    pub at_least: Option<f64>,
    /// The most that it may be.
    pub at_most: Option<f64>,
    /// For a claim of the source that does not come out here: why. Its failure is shown, and is no failure
    /// of the run.
    pub differs: Option<String>,
}

fn operation() -> String {
    "all".to_string()
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Holds,
    /// The rounds disagree, or there are no numbers.
    Undecided,
    /// It does not.
    Fails,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether it holds: the worst of all cases.
    pub state: State,
    /// The numbers, a line for each case.
    pub cases: Vec<(State, String)>,
}

/// A number with the interval of its rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number {
    value: f64,
    least: f64,
    most: f64,
}

impl Number {
    /// Forms the ratio of two numbers.
    fn over(self, other: Number) -> Number {
        Number {
            value: self.value / other.value,
            least: self.least / other.most,
            most: self.most / other.least,
        }
    }

    /// Judges whether a condition that is monotone in the number holds.
    fn judge(self, holds: impl Fn(f64) -> bool) -> State {
        match (holds(self.value), holds(self.least), holds(self.most)) {
            (true, _, _) => State::Holds,
            (false, false, false) => State::Fails,
            _ => State::Undecided,
        }
    }
}

impl Claim {
    /// Tells what the claim has wrong, if anything.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(&self) -> Result<(), &'static str> {
        let known = |text: &String| [">=", ">", "<=", "<"].contains(&text.as_str());
        match (self.kind, self.of) {
            (Kind::Ordering, _) if self.relations.len() + 1 != self.systems.len() => {
                Err("an ordering needs one relation fewer than systems")
            }
            (Kind::Ordering, _) if !self.relations.iter().all(known) => {
                Err("relations are `>=`, `>`, `<=` and `<`")
            }
            (Kind::Below, _) if self.systems.len() < 2 || self.against.is_none() => {
                Err("a curve needs `against`, and a system beside the one that is compared")
            }
            (Kind::Ratio, _) if self.at_least.is_none() && self.at_most.is_none() => {
                Err("a ratio needs `at_least` or `at_most`")
            }
            (Kind::Ratio, Of::Systems) if self.systems.len() != 2 => {
                Err("a ratio of systems needs two")
            }
            _ => Ok(()),
        }
    }

    /// Judges the claim by the rows of an experiment.
    pub fn judge(&self, experiment: &str, rows: &[Row]) -> Verdict {
        let finder = Finder {
            claim: self,
            experiment,
            rows,
        };
        let sources = finder.sources();
        let mut cases = Vec::new();
        match (self.kind, self.of) {
            (Kind::Ordering, _) => cases.extend(sources.iter().map(|s| self.ordering(&finder, s))),
            (Kind::Below, _) => cases.extend(sources.iter().map(|s| self.below(&finder, s))),
            (Kind::Ratio, Of::Systems) => {
                for source in &sources {
                    let [own, other] = [0, 1].map(|at| finder.number(&self.systems[at], source));
                    let what = format!("{source}: {} / {}", self.systems[0], self.systems[1]);
                    let ratio = own.zip(other).map(|(own, other)| own.over(other));
                    cases.push(self.bounded(what, ratio));
                }
            }
            (Kind::Ratio, Of::Spread) => {
                for system in &self.systems {
                    let all: Vec<Number> = sources
                        .iter()
                        .filter_map(|source| finder.number(system, source))
                        .collect();
                    let by = |a: &&Number, b: &&Number| a.value.total_cmp(&b.value);
                    let ends = all.iter().max_by(by).zip(all.iter().min_by(by));
                    let ratio = ends.map(|(most, least)| most.over(*least));
                    cases.push(self.bounded(format!("{system}: largest / smallest"), ratio));
                }
            }
            (Kind::Ratio, Of::Expected) => {
                for (system, source) in self
                    .systems
                    .iter()
                    .flat_map(|system| sources.iter().map(move |source| (system, source)))
                {
                    let expected = finder.row(system, source).and_then(|row| row.expected);
                    let number = finder.number(system, source);
                    let ratio = number.zip(expected).map(|(own, expected)| {
                        own.over(Number {
                            value: expected,
                            least: expected,
                            most: expected,
                        })
                    });
                    cases.push(self.bounded(format!("{source}: {system} / expected"), ratio));
                }
            }
        }
        let worst = |cases: &[(State, String)]| {
            let has = |state| cases.iter().any(|case| case.0 == state);
            match (has(State::Fails), has(State::Undecided) || cases.is_empty()) {
                (true, _) => State::Fails,
                (_, true) => State::Undecided,
                _ => State::Holds,
            }
        };
        Verdict {
            state: worst(&cases),
            cases,
        }
    }

    fn ordering(&self, finder: &Finder<'_>, source: &str) -> (State, String) {
        let mut state = State::Holds;
        let mut text = format!("{source}:");
        let mut before: Option<Number> = None;
        for (at, system) in self.systems.iter().enumerate() {
            let Some(number) = finder.number(system, source) else {
                return (State::Undecided, format!("{source}: no number of {system}"));
            };
            if let (Some(before), Some(relation)) = (before, self.relations.get(at.wrapping_sub(1)))
            {
                text += &format!(" {relation}");
                // A difference instead of a ratio: values can be 0.
                let slack = self.tolerance * before.value.abs().max(number.value.abs());
                let difference = Number {
                    value: before.value - number.value,
                    least: before.least - number.most,
                    most: before.most - number.least,
                };
                let own = difference.judge(|difference| match relation.as_str() {
                    ">=" => difference >= -slack,
                    ">" => difference > 0.0,
                    "<=" => difference <= slack,
                    _ => difference < 0.0,
                });
                state = match (state, own) {
                    (State::Fails, _) | (_, State::Fails) => State::Fails,
                    (State::Undecided, _) | (_, State::Undecided) => State::Undecided,
                    _ => State::Holds,
                };
            }
            text += &format!(" {system} {}", short(number.value));
            before = Some(number);
        }
        (state, text)
    }

    fn below(&self, finder: &Finder<'_>, source: &str) -> (State, String) {
        let point = |system: &String| {
            let price = finder.price(system, source)?;
            Some((system.clone(), finder.number(system, source)?.value, price))
        };
        let Some((own, value, price)) = self.systems.first().and_then(point) else {
            return (State::Undecided, format!("{source}: no numbers"));
        };
        let curve: Vec<_> = self.systems.iter().skip(1).filter_map(point).collect();
        let text = format!("{source}: {own} {} at {}", short(value), short(price));
        // Who does best for no more, or, if nobody asks for so little, who asks for least.
        let affordable = curve.iter().filter(|other| other.2 <= price);
        let best = affordable.min_by(|a, b| a.1.total_cmp(&b.1));
        let least = curve.iter().min_by(|a, b| a.2.total_cmp(&b.2));
        let Some((name, other, its)) = best.or(least) else {
            return (State::Undecided, format!("{text}: no curve"));
        };
        let state = match (value < *other, best) {
            (true, _) => State::Holds,
            (false, Some(_)) => State::Fails,
            (false, None) => State::Undecided,
        };
        let (other, its) = (short(*other), short(*its));
        (state, format!("{text}, {name} {other} at {its}"))
    }

    fn bounded(&self, what: String, ratio: Option<Number>) -> (State, String) {
        let Some(ratio) = ratio.filter(|ratio| ratio.value.is_finite()) else {
            return (State::Undecided, format!("{what}: no numbers"));
        };
        let least = self.at_least.unwrap_or(f64::NEG_INFINITY);
        let most = self.at_most.unwrap_or(f64::INFINITY);
        let state = match () {
            () if (least..=most).contains(&ratio.value) => State::Holds,
            () if ratio.most < least || ratio.least > most => State::Fails,
            () => State::Undecided,
        };
        let bounds = match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (_, most) => format!("at most {}", most.unwrap_or(f64::INFINITY)),
        };
        let interval = match ratio.least == ratio.most {
            true => String::new(),
            false => format!(" (rounds {} to {})", short(ratio.least), short(ratio.most)),
        };
        let text = format!("{what} {}{interval}, {bounds}", short(ratio.value));
        (state, text)
    }
}

/// Finds the rows that a claim is about.
struct Finder<'f> {
    claim: &'f Claim,
    experiment: &'f str,
    rows: &'f [Row],
}

impl<'f> Finder<'f> {
    fn fits(&self, row: &Row, statistic: &str) -> bool {
        row.experiment == self.experiment
            && row.metric == self.claim.metric
            && row.statistic == statistic
            && row.operation == self.claim.operation
            && row.order == self.claim.order
    }

    /// The sources that the claim is about, in the order of the rows.
    fn sources(&self) -> Vec<&'f str> {
        let mut found: Vec<&str> = Vec::new();
        let wanted = &self.claim.sources;
        for row in self.rows {
            let is_wanted = wanted.is_empty() || wanted.contains(&row.source);
            let fits = is_wanted && self.fits(row, &self.claim.statistic);
            if fits && !found.contains(&row.source.as_str()) {
                found.push(&row.source);
            }
        }
        found
    }

    fn row_of(&self, system: &str, source: &str, statistic: &str) -> Option<&'f Row> {
        let is_own =
            |row: &&Row| row.name() == system && row.source == source && self.fits(row, statistic);
        self.rows.iter().find(is_own)
    }

    fn row(&self, system: &str, source: &str) -> Option<&'f Row> {
        self.row_of(system, source, &self.claim.statistic)
    }

    /// What the metric is bought with; see [`Claim::against`].
    fn price(&self, system: &str, source: &str) -> Option<f64> {
        let metric = self.claim.against.as_deref()?;
        let is_own = |row: &&Row| {
            row.experiment == self.experiment
                && row.source == source
                && row.metric == metric
                && row.statistic == "mean"
                && row.operation == self.claim.operation
                && row.name() == system
        };
        self.rows.iter().find(is_own).map(|row| row.value)
    }

    fn number(&self, system: &str, source: &str) -> Option<Number> {
        let value = self.row(system, source)?.value;
        let (least, most) = self.rounds(system, source);
        // Medians of rounds have their least and most beside them.
        let end = |statistic| {
            let row = self.row_of(system, source, statistic);
            row.filter(|_| self.claim.statistic == "p50")
                .map(|row| row.value)
        };
        Some(Number {
            value,
            least: end("min").unwrap_or(value).min(least),
            most: end("max").unwrap_or(value).max(most),
        })
    }

    /// The least and the most mean of the rounds, where rounds have rows of their own.
    fn rounds(&self, system: &str, source: &str) -> (f64, f64) {
        let claim = self.claim;
        let is_round = |row: &&Row| {
            let experiment = row.experiment.split_once('@').map(|(name, _)| name);
            claim.statistic == "mean"
                && experiment == Some(self.experiment)
                && row.name() == system
                && row.source == source
                && row.metric == claim.metric
                && row.statistic == "mean"
                && row.operation == claim.operation
                && row.order == claim.order
        };
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let rounds = self.rows.iter().filter(is_round).map(|row| row.value);
        rounds.fold(ends, |(least, most), value| {
            (least.min(value), most.max(value))
        })
    }
}

/// Three digits or so.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v != 0.0 && v < 0.000_095 => format!("{value:.0e}"),
        v if v != 0.0 && v < 0.00995 => format!("{value:.5}"),
        v if v != 0.0 && v < 0.0995 => format!("{value:.3}"),
        v if v < 9.95 => format!("{value:.2}"),
        v if v < 99.5 => format!("{value:.1}"),
        v if v < 1e6 => format!("{value:.0}"),
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[(&str, &'static str, f64)]) -> Vec<Row> {
        let row = |(system, statistic, value): &(&str, &'static str, f64)| Row {
            experiment: "x".to_string(),
            source: "s".to_string(),
            system: system.to_string(),
            operation: "all",
            metric: "latency",
            statistic,
            value: *value,
            expected: Some(2.0),
            ..Row::default()
        };
        values.iter().map(row).collect()
    }

    fn judge(claim: &str, values: &[(&str, &'static str, f64)]) -> State {
        let text = format!("text = ''\nmetric = 'latency'\n{claim}");
        let claim: Claim = toml::from_str(&text).unwrap();
        claim.check().unwrap();
        claim.judge("x", &rows(values)).state
    }

    #[test]
    fn points_below_a_curve() {
        // Each system with its misses and what it has left.
        let judge = |points: &[(&str, f64, f64)]| {
            let numbers = points.iter().flat_map(|(system, missed, left)| {
                let row = |metric, statistic, value| Row {
                    experiment: "x".to_string(),
                    source: "s".to_string(),
                    system: system.to_string(),
                    operation: "free",
                    metric,
                    statistic,
                    value,
                    ..Row::default()
                };
                [
                    row("miss_rate", "value", *missed),
                    row("residual", "mean", *left),
                ]
            });
            let rows: Vec<Row> = numbers.collect();
            let text = "kind = 'below'\ntext = ''\nmetric = 'miss_rate'\nstatistic = 'value'\n\
                        operation = 'free'\nagainst = 'residual'\nsystems = ['linux-6', 'bs', 'is']";
            let claim: Claim = toml::from_str(text).unwrap();
            claim.judge("x", &rows).state
        };
        let curve = [("bs", 8.0, 10.0), ("is", 2.0, 40.0)];
        let with = |missed, left| {
            let points = [&[("linux-6", missed, left)], &curve[..]].concat();
            judge(&points)
        };
        // Between the two only the one that keeps less counts.
        assert_eq!(with(7.0, 20.0), State::Holds);
        assert_eq!(with(8.0, 20.0), State::Fails);
        assert_eq!(with(7.0, 40.0), State::Fails);
        assert_eq!(with(1.0, 40.0), State::Holds);
        // Left of the curve, below and above its end.
        assert_eq!(with(7.0, 5.0), State::Holds);
        assert_eq!(with(9.0, 5.0), State::Undecided);
        assert_eq!(judge(&curve), State::Undecided);
    }

    #[test]
    fn orderings() {
        let claim = "kind = 'ordering'\nstatistic = 'mean'\nsystems = ['bs', 'is']\n";
        let more = format!("{claim}relations = ['>']");
        assert_eq!(
            judge(&more, &[("bs", "mean", 2.0), ("is", "mean", 1.0)]),
            State::Holds
        );
        assert_eq!(
            judge(&more, &[("bs", "mean", 1.0), ("is", "mean", 1.0)]),
            State::Fails
        );
        assert_eq!(judge(&more, &[("bs", "mean", 1.0)]), State::Undecided);
        let equal = format!("{claim}relations = ['>=']\ntolerance = 0.1");
        assert_eq!(
            judge(&equal, &[("bs", "mean", 95.0), ("is", "mean", 100.0)]),
            State::Holds
        );
        assert_eq!(
            judge(&equal, &[("bs", "mean", 85.0), ("is", "mean", 100.0)]),
            State::Fails
        );
    }

    #[test]
    fn a_claim_about_times_fails_only_if_all_rounds_say_so() {
        let claim = "kind = 'ratio'\nstatistic = 'p50'\nsystems = ['is', 'bs']\nat_most = 1.5\n";
        let of = |least, most| {
            [
                ("is", "p50", 2.0),
                ("is", "min", least),
                ("is", "max", most),
                ("bs", "p50", 1.0),
                ("bs", "min", 1.0),
                ("bs", "max", 1.0),
            ]
        };
        assert_eq!(judge(claim, &of(1.4, 2.1)), State::Undecided);
        assert_eq!(judge(claim, &of(1.6, 2.1)), State::Fails);
        let expected = "kind = 'ratio'\nof = 'expected'\nstatistic = 'mean'\nsystems = ['bs']\n\
                        at_least = 1\nat_most = 1";
        assert_eq!(judge(expected, &[("bs", "mean", 2.0)]), State::Holds);
        assert_eq!(judge(expected, &[("bs", "mean", 2.1)]), State::Fails);
        assert_eq!(judge(expected, &[]), State::Undecided);
    }
}
