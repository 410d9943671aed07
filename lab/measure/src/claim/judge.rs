//! The verdict on a claim.
//!
//! Turns a claim and rows into a verdict, with the numbers behind it: one case for each source, operation and number of
//! CPUs.
//!
//! # Invariants
//! The verdict is that of the worst case; a claim without cases is inconclusive.

use super::numbers::{Cell, Finder, Number, short};
use super::{Claim, Kind, Of};
use crate::rows::Row;

/// The state of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The claim is confirmed.
    Pass,
    /// The rounds disagree, or there are no numbers.
    Inconclusive,
    /// The claim is not confirmed.
    Fail,
}

/// A place where a claim is checked: a source, an operation and a number of CPUs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The state.
    pub state: State,
    /// The numbers, in one line.
    pub text: String,
    /// How far the numbers are beyond the bound, relative to it; negative if they keep it.
    pub off: f64,
}

impl Case {
    /// Creates a case that nothing is known of.
    pub(super) fn unknown(text: impl Into<String>) -> Case {
        Case {
            state: State::Inconclusive,
            text: text.into(),
            off: f64::NEG_INFINITY,
        }
    }
}

/// The result of checking a claim.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The state of the worst case.
    pub state: State,
    /// The cases.
    pub cases: Vec<Case>,
    /// The cases that are beyond the bound of a known deviation.
    pub beyond: Vec<String>,
}

impl Verdict {
    pub(super) fn of(cases: Vec<Case>) -> Verdict {
        let worst = cases.iter().map(|case| case.state).max();
        Verdict {
            state: worst.unwrap_or(State::Inconclusive),
            cases,
            beyond: Vec::new(),
        }
    }

    /// Returns the case that decides: of those with the state of the verdict, the one furthest beyond the bound, or
    /// nearest to it.
    pub fn deciding(&self) -> Option<&Case> {
        let own = self.cases.iter().filter(|case| case.state == self.state);
        // The first of several that are as far off.
        own.rev().max_by(|one, other| one.off.total_cmp(&other.off))
    }

    /// Returns the word for the verdict on a claim.
    pub fn word(&self, claim: &Claim) -> &'static str {
        match self.state {
            State::Pass => "pass",
            State::Inconclusive => "inconclusive",
            State::Fail if self.is_failure(claim) => "FAIL",
            State::Fail => "known deviation",
        }
    }

    /// Returns `true` if the claim fails, and not for a known reason or further than that explains.
    pub fn is_failure(&self, claim: &Claim) -> bool {
        self.state == State::Fail && (claim.differs.is_none() || !self.beyond.is_empty())
    }
}

impl Claim {
    /// Checks the claim against the rows of an experiment.
    pub fn judge(&self, experiment: &str, rows: &[Row]) -> Verdict {
        let mut verdict = self.judge_as_it_is(experiment, rows);
        if verdict.state == State::Fail
            && let Some(wider) = self.widened()
        {
            let cases = wider.judge_as_it_is(experiment, rows).cases.into_iter();
            let beyond = cases.filter(|case| case.state == State::Fail);
            verdict.beyond = beyond.map(|case| case.text).collect();
        }
        verdict
    }

    /// Checks the claim, without regard to a known deviation.
    fn judge_as_it_is(&self, experiment: &str, rows: &[Row]) -> Verdict {
        let finder = Finder {
            claim: self,
            experiment,
            rows,
        };
        let cells = finder.cells();
        let several = Several {
            operations: self.operation.list().len() > 1,
            cpus: cells.iter().any(|cell| cell.cpus != cells[0].cpus),
        };
        let mut cases = Vec::new();
        match (self.kind, self.of) {
            (Kind::Ratio, Of::Spread) => cases.extend(self.spreads(&finder, &cells)),
            (Kind::Ratio, Of::Systems) if !self.rivals.is_empty() => {
                let case = |cell: &Cell<'_>| self.nearest(&finder, *cell, &several.place(*cell));
                cases.extend(cells.iter().filter_map(case));
            }
            _ => {
                for cell in &cells {
                    self.cases(&finder, *cell, &several.place(*cell), &mut cases);
                }
            }
        }
        for source in finder.missing(&cells) {
            cases.push(Case::unknown(format!("{source}: no numbers")));
        }
        Verdict::of(cases)
    }

    /// Returns the cases of one cell.
    fn cases(&self, finder: &Finder<'_>, cell: Cell<'_>, place: &str, cases: &mut Vec<Case>) {
        match (self.kind, self.of) {
            (Kind::Ordering, _) => cases.push(self.ordering(finder, cell, place)),
            (Kind::Below, _) => cases.push(self.below(finder, cell, place)),
            (Kind::Ratio, Of::Expected) => {
                for system in &self.systems {
                    let expected = finder.row(system, cell).and_then(|row| row.expected);
                    let number = finder.number(system, cell);
                    let ratio = number.zip(expected);
                    let ratio = ratio.map(|(own, expected)| own.over(Number::exact(expected)));
                    cases.push(self.bounded(format!("{place}: {system} / expected"), ratio));
                }
            }
            (Kind::Ratio, Of::Difference) => {
                let [own, other] = [0, 1].map(|at| &self.systems[at]);
                let numbers = finder.number(own, cell).zip(finder.number(other, cell));
                let difference = numbers.map(|(own, other)| own.minus(other));
                cases.push(self.bounded(format!("{place}: {own} - {other}"), difference));
            }
            (Kind::Ratio, _) => {
                let [own, other] = [0, 1].map(|at| &self.systems[at]);
                let ratio = self.ratio(finder, own, other, cell);
                cases.push(self.bounded(format!("{place}: {own} / {other}"), ratio));
            }
            (Kind::Bound, _) => {
                let systems = if self.systems.is_empty() {
                    finder.systems(cell)
                } else {
                    self.systems.clone()
                };
                for system in systems {
                    let number = finder.number(&system, cell);
                    cases.push(self.bounded(format!("{place}: {system}"), number));
                }
            }
        }
    }

    /// Returns the ratio of two systems.
    fn ratio(&self, finder: &Finder<'_>, own: &str, other: &str, cell: Cell<'_>) -> Option<Number> {
        if self.paired {
            finder.paired(own, other, cell)
        } else {
            let (own, other) = (finder.number(own, cell)?, finder.number(other, cell)?);
            Some(own.over(other))
        }
    }

    /// Returns the ratio of the largest to the smallest number, over all cells.
    fn spreads(&self, finder: &Finder<'_>, cells: &[Cell<'_>]) -> Vec<Case> {
        let spread = |system: &String| {
            let numbers = cells.iter().filter_map(|cell| finder.number(system, *cell));
            let all: Vec<Number> = numbers.collect();
            let by = |a: &&Number, b: &&Number| a.value.total_cmp(&b.value);
            let ends = all.iter().max_by(by).zip(all.iter().min_by(by));
            let ratio = ends.map(|(most, least)| most.over(*least));
            self.bounded(format!("{system}: largest / smallest"), ratio)
        };
        self.systems.iter().map(spread).collect()
    }

    /// Returns the ratio to the rival nearest to the bound, or `None` if no rival supports the work.
    fn nearest(&self, finder: &Finder<'_>, cell: Cell<'_>, place: &str) -> Option<Case> {
        let own = self.systems.first()?;
        let bound = self.at_most.unwrap_or(f64::INFINITY);
        let mut nearest: Option<(&String, Number)> = None;
        for rival in &self.rivals {
            let Some(rough) = finder.number(rival, cell) else {
                continue;
            };
            if finder.is_disturbed(own, cell) || finder.is_disturbed(rival, cell) {
                // A disturbed value decides nothing, unless it is far from the bound.
                let value = finder.number(own, cell)?.value / rough.value;
                if value * 2.0 >= bound {
                    let text = format!("{place}: {own} / {rival}: disturbed");
                    return Some(Case::unknown(text));
                }
                continue;
            }
            let is_nearer = |ratio: &Number, other: &Number| match self.at_most {
                Some(_) => ratio.most > other.most,
                None => ratio.least < other.least,
            };
            if let Some(ratio) = self.ratio(finder, own, rival, cell)
                && nearest
                    .as_ref()
                    .is_none_or(|(_, other)| is_nearer(&ratio, other))
            {
                nearest = Some((rival, ratio));
            }
        }
        let (rival, ratio) = nearest?;
        Some(self.bounded(format!("{place}: {own} / {rival}"), Some(ratio)))
    }

    fn ordering(&self, finder: &Finder<'_>, cell: Cell<'_>, place: &str) -> Case {
        let (mut state, mut off) = (State::Pass, f64::NEG_INFINITY);
        let mut text = format!("{place}:");
        let mut before: Option<Number> = None;
        for (at, system) in self.systems.iter().enumerate() {
            let Some(number) = finder.number(system, cell) else {
                return Case::unknown(format!("{place}: no number of {system}"));
            };
            if let (Some(before), Some(relation)) = (before, self.relations.get(at.wrapping_sub(1)))
            {
                text += &format!(" {relation}");
                // A difference instead of a ratio, because values can be 0.
                let size = before.value.abs().max(number.value.abs());
                let slack = self.tolerance * size;
                let difference = before.minus(number);
                let wrong = match relation.as_str() {
                    ">=" | ">" => -difference.value,
                    _ => difference.value,
                };
                off = off.max(wrong / size.max(f64::MIN_POSITIVE) - self.tolerance);
                let own = self.decided(difference, |difference| match relation.as_str() {
                    ">=" => difference >= -slack,
                    ">" => difference > 0.0,
                    "<=" => difference <= slack,
                    _ => difference < 0.0,
                });
                state = state.max(own);
            }
            text += &format!(" {system} {}", short(number.value));
            before = Some(number);
        }
        Case {
            state,
            text: text + &self.within(),
            off,
        }
    }

    /// Describes the tolerance of an ordering or a curve.
    fn within(&self) -> String {
        match self.tolerance {
            0.0 => String::new(),
            own => format!(", within {}", short(own)),
        }
    }

    fn below(&self, finder: &Finder<'_>, cell: Cell<'_>, place: &str) -> Case {
        let point = |system: &String| {
            let price = finder.price(system, cell)?;
            Some((system.clone(), finder.number(system, cell)?.value, price))
        };
        let Some((own, value, price)) = self.systems.first().and_then(point) else {
            return Case::unknown(format!("{place}: no numbers"));
        };
        let curve: Vec<_> = self.systems.iter().skip(1).filter_map(point).collect();
        let text = format!("{place}: {own} {} at {}", short(value), short(price));
        // The best system at no higher cost or, if there is none, the system with the lowest cost.
        let affordable = curve.iter().filter(|other| other.2 <= price);
        let best = affordable.min_by(|a, b| a.1.total_cmp(&b.1));
        let least = curve.iter().min_by(|a, b| a.2.total_cmp(&b.2));
        let Some((name, other, its)) = best.or(least) else {
            return Case::unknown(format!("{text}: no curve"));
        };
        let size = value.abs().max(other.abs());
        let slack = self.tolerance * size;
        let off = (value - *other) / size.max(f64::MIN_POSITIVE) - self.tolerance;
        let state = match (value - *other < slack || value < *other, best) {
            (true, _) => State::Pass,
            (false, Some(_)) => State::Fail,
            (false, None) => State::Inconclusive,
        };
        let (other, its) = (short(*other), short(*its));
        let slack = self.within();
        Case {
            state,
            text: format!("{text}, {name} {other} at {its}{slack}"),
            off,
        }
    }

    /// Checks a condition that is monotone in the number.
    fn decided(&self, number: Number, is_right: impl Fn(f64) -> bool) -> State {
        let ends = [number.least, number.most].map(&is_right);
        match (is_right(number.value), ends) {
            (true, [true, true]) => State::Pass,
            (true, _) if !self.sure => State::Pass,
            (false, [false, false]) => State::Fail,
            _ => State::Inconclusive,
        }
    }

    fn bounded(&self, what: String, number: Option<Number>) -> Case {
        let Some(number) = number.filter(|number| number.value.is_finite()) else {
            return Case::unknown(format!("{what}: no numbers"));
        };
        let bounds = self.bounds();
        let least = bounds[0].unwrap_or(f64::NEG_INFINITY);
        let most = bounds[1].unwrap_or(f64::INFINITY);
        let sure = self.sure || self.within.is_some();
        let is_within = |value: f64| (least..=most).contains(&value);
        let is_sure = is_within(number.least) && is_within(number.most);
        let state = if is_within(number.value) && (is_sure || !sure) {
            State::Pass
        } else if number.most < least || number.least > most {
            State::Fail
        } else {
            State::Inconclusive
        };
        let bounds = match (self.within, bounds) {
            (Some(factor), _) => {
                let expected = self.expected.unwrap_or(1.0);
                let gain = if most < expected * factor {
                    format!(", and at most {most}")
                } else if least > expected / factor {
                    format!(", and at least {}", short(least))
                } else {
                    String::new()
                };
                format!("{} within a factor of {factor}{gain}", short(expected))
            }
            (None, [Some(least), Some(most)]) => format!("{least} to {most}"),
            (None, [Some(least), None]) => format!("at least {least}"),
            (None, [None, _]) => format!("at most {most}"),
        };
        let interval = if number.least == number.most {
            String::new()
        } else {
            format!(" [{}, {}]", short(number.least), short(number.most))
        };
        let off = beyond(number.value, most).max(-beyond(number.value, least));
        Case {
            state,
            text: format!("{what} {}{interval}, {bounds}", short(number.value)),
            off,
        }
    }
}

/// Returns how far a number is above a bound: the logarithm of their ratio if both are positive, or else the difference
/// relative to the bound.
fn beyond(value: f64, bound: f64) -> f64 {
    if value > 0.0 && bound > 0.0 {
        (value / bound).ln()
    } else {
        (value - bound) / bound.abs().max(1.0)
    }
}

/// The properties that distinguish the cases of a claim, besides their sources.
struct Several {
    operations: bool,
    cpus: bool,
}

impl Several {
    /// Describes the place of a case.
    fn place(&self, cell: Cell<'_>) -> String {
        let mut place = cell.source.to_string();
        if self.operations && cell.operation != "pair" && cell.operation != "all" {
            place += &format!(" {}", cell.operation);
        }
        if self.cpus {
            place += &format!(" {}T", cell.cpus);
        }
        place
    }
}
