//! Claims and their verdicts.
//!
//! The program compares results with a source's figures, or with predictions, in the same way for every experiment
//! and for benchmarks. Claims are data, and use rows only.
//!
//! A number from several rounds has an interval, from the minimum to the maximum over the rounds. A claim fails only
//! if it is false everywhere in the intervals. If it is false for the medians alone, it is inconclusive.
//!
//! A claim that is known to fail here records why ([`Claim::differs`]) and how far: a wider bound that it still keeps
//! ([`Claim::still_at_most`] and the other two). Beyond that bound it fails like any other claim. A bound that is
//! further than [`SLACK`] times what a run measured hides the next change: [`Claim::loose_bounds`] finds it.
//!
//! A claim about a number that its source prints is two-sided (`within`): a system that is ten times too fast
//! is as wrong as one that is ten times too slow. Where it is a gain of one system over another, the band ends below no
//! gain ([`NO_GAIN`]).
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the contents of a claim, and its errors |
//! | [`judge`](mod@judge) | the verdict |
//! | [`complete`](mod@complete) | the rows that a claim needs |
//! | [`bench`](mod@bench) | the claims of `bench`, and their file |
//! | `numbers` | the rows that a claim applies to |
//!
//! # Invariants
//! A claim without numbers never passes. A checked claim names only what exists.

pub mod bench;
pub mod complete;
pub mod judge;
mod numbers;
#[cfg(test)]
mod tests;

use everybuddy_metrics::OPERATIONS;
use serde::Deserialize;

use crate::choice::{all_known, unknown};

pub use complete::Complete;
pub use judge::{Case, State, Verdict};
pub use numbers::short;

/// The factor by which the bound of a known deviation may be further off than the result for which it was set.
pub const SLACK: f64 = 2.0;

/// Where the band of a claim about a gain ends: a ratio that the source prints below 0.9 is at most 0.95, and one that
/// it prints above 1 / 0.9 at least 1 / 0.95, whatever factor is allowed.
pub const NO_GAIN: f64 = 0.95;

/// The kind of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The systems are in this order.
    Ordering,
    /// A ratio is within bounds.
    Ratio,
    /// The number of each system is within bounds.
    Bound,
    /// The first system's point is below the curve of the others: see [`Claim::against`].
    Below,
}

/// Whose words a claim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// A sentence, a number, an order or the shape of a figure of the source.
    #[default]
    Source,
    /// The same under another assumption, where the source leaves something open: at most one of them is meant.
    Reading,
    /// What the source does not say: an extension, an ablation, a model, or a check of the method.
    Ours,
}

/// The operands of a ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// The first system and the second, or each of the [`Claim::rivals`], for each source.
    #[default]
    Systems,
    /// The largest and the smallest value over the sources, for each system.
    Spread,
    /// Each number and its expected value.
    Expected,
    /// The first system minus the second, for each source: not a ratio, but what a paper prints in percentage points.
    Difference,
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The kind.
    pub kind: Kind,
    /// The claim in words.
    pub text: String,
    /// Whose words they are. Only those of the source are counted as its claims.
    #[serde(default)]
    pub whose: Whose,
    /// Where the source says it; or, of what is ours, what it is instead.
    pub said: Option<String>,
    /// The metric.
    pub metric: String,
    /// The statistic.
    pub statistic: String,
    /// The operation, or several: the claim applies to each.
    #[serde(default)]
    pub operation: Operations,
    /// The order.
    pub order: Option<u8>,
    /// The sources to which the claim applies; all if empty.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The number of CPUs to which the claim applies; all by default.
    pub cpus: Option<u16>,
    /// The systems. For a bound, all that ran if empty.
    pub systems: Vec<String>,
    /// For a ratio: the system is compared with each of these, and the one nearest to the bound counts. A rival that
    /// does not support the work is ignored.
    #[serde(default)]
    pub rivals: Vec<String>,
    /// For an ordering, the relations between consecutive systems: `>=`, `>`, `<=` or `<`.
    #[serde(default)]
    pub relations: Vec<String>,
    /// The relative difference, with respect to the larger value, up to which values count as equal for `>=` and `<=`.
    #[serde(default)]
    pub tolerance: f64,
    /// For a curve, the cost: another metric, with statistic `mean`. The first system is below the curve if its
    /// metric is less than that of every other system whose cost is not higher. If there is no such system, it is
    /// compared with the system of the lowest cost; if that comparison fails, the claim is inconclusive.
    pub against: Option<String>,
    /// The operands of a ratio.
    #[serde(default)]
    pub of: Of,
    /// The ratio or number that the source prints; 1 by default if the operands are numbers and their expected values.
    pub expected: Option<f64>,
    /// The factor by which the ratio or number may be larger or smaller than the expected one. It stands for both
    /// bounds. The claim is inconclusive if a bound is inside the interval.
    pub within: Option<f64>,
    /// The lower bound of a ratio or number.
    pub at_least: Option<f64>,
    /// The upper bound of a ratio or number.
    pub at_most: Option<f64>,
    /// Whether the claim passes only if it is true everywhere in the intervals.
    #[serde(default)]
    pub sure: bool,
    /// Whether ratios are formed within each round: times on a shared machine drift, but such ratios do not.
    #[serde(default)]
    pub paired: bool,
    /// The reason for a known failure. The failure is shown as a known deviation, and does not fail the run as long
    /// as the result is within the wider bound that is recorded with it.
    pub differs: Option<String>,
    /// The run and the systems that show that this is the cause: an ablation that changes it alone. Without one, the
    /// reason was not measured.
    pub shown_by: Option<String>,
    /// For a known deviation of a ratio or number: the lower bound that holds instead of [`Claim::at_least`].
    pub still_at_least: Option<f64>,
    /// For a known deviation of a ratio or number: the upper bound that holds instead of [`Claim::at_most`].
    pub still_at_most: Option<f64>,
    /// For a known deviation of an ordering or a curve: the relative difference, with respect to the larger value, up
    /// to which a value may be on the wrong side.
    pub still_within: Option<f64>,
}

/// The operations of a claim: one or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Operations {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Default for Operations {
    fn default() -> Operations {
        Operations::One("all".to_string())
    }
}

impl Operations {
    /// Returns them as a list.
    pub fn list(&self) -> &[String] {
        match self {
            Operations::One(one) => std::slice::from_ref(one),
            Operations::Several(several) => several,
        }
    }
}

/// The names that a file may use besides those of metrics and statistics.
#[derive(Clone, Copy, Debug)]
pub struct Words<'w> {
    /// Systems, and other measured subjects.
    pub systems: &'w [String],
    /// Operations besides those of [`OPERATIONS`].
    pub operations: &'w [&'w str],
}

impl Words<'_> {
    /// Checks the name of a metric, and those of its statistics.
    ///
    /// # Errors
    /// Returns an error for an unknown name, with the nearest known one.
    pub fn metric(&self, name: &str, statistics: &[String]) -> Result<(), String> {
        let Some(metric) = everybuddy_metrics::find(name) else {
            let all = everybuddy_metrics::METRICS.iter();
            let names: Vec<&str> = all.map(|metric| metric.name).collect();
            return Err(unknown("metric", name, &names));
        };
        all_known("statistic", statistics, &metric.statistics)
            .map_err(|what| format!("metric `{name}`: {what}"))
    }

    /// Checks the names of operations.
    ///
    /// # Errors
    /// Like [`metric`](Self::metric).
    pub fn operations(&self, names: &[String]) -> Result<(), String> {
        let own = self.operations.iter().copied();
        let known: Vec<&str> = OPERATIONS.iter().map(|own| own.0).chain(own).collect();
        all_known("operation", names, &known)
    }

    /// Checks the names of systems.
    ///
    /// # Errors
    /// Like [`metric`](Self::metric).
    pub fn systems(&self, names: &[String]) -> Result<(), String> {
        let known: Vec<&str> = self.systems.iter().map(String::as_str).collect();
        all_known("system", names, &known)
    }
}

impl Claim {
    /// Checks that the claim is complete, and names only what exists.
    ///
    /// # Errors
    /// Returns the problem with the claim.
    pub fn check(&self, words: Words<'_>) -> Result<(), String> {
        words.metric(&self.metric, std::slice::from_ref(&self.statistic))?;
        words.operations(self.operation.list())?;
        words.systems(&self.systems)?;
        words.systems(&self.rivals)?;
        if let Some(cost) = &self.against {
            words.metric(cost, &["mean".to_string()])?;
        }
        if self.shown_by.is_some() && self.differs.is_none() {
            return Err("`shown_by` belongs to a known deviation: say why with `differs`".into());
        }
        self.is_complete().map_err(String::from)
    }

    /// Returns `true` if the claim bounds a time, or a rate, by a number: on a host, the verdict then depends on the
    /// machine, and on what else it runs. A ratio of two times of the same run does not.
    pub fn bounds_a_time(&self) -> bool {
        let unit =
            everybuddy_metrics::find(&self.metric).map_or("", |own| own.unit(&self.statistic));
        self.kind == Kind::Bound && ["ns", "cycles", "1/s"].contains(&unit)
    }

    /// Returns the bounds of a ratio or number: those of the claim, or those within its factor.
    fn bounds(&self) -> [Option<f64>; 2] {
        match self.within {
            Some(factor) => {
                let expected = self.expected.unwrap_or(1.0);
                let (mut least, mut most) = (expected / factor, expected * factor);
                if self.kind == Kind::Ratio && self.of == Of::Systems {
                    if expected < 0.9 {
                        most = most.min(NO_GAIN);
                    } else if expected > 1.0 / 0.9 {
                        least = least.max(1.0 / NO_GAIN);
                    }
                }
                [Some(least), Some(most)]
            }
            None => [self.at_least, self.at_most],
        }
    }

    /// Returns the bounds of a known deviation that are further off than [`SLACK`] times what was measured, so that a
    /// result could become that much worse without a failure. `judge` judges a claim by committed rows. A bound within
    /// [`SLACK`] of the claim's own is never loose.
    pub fn loose_bounds(&self, judge: impl Fn(&Claim) -> State) -> Vec<&'static str> {
        let [least, most] = self.bounds();
        // Only the one bound decides, and the numbers without their intervals.
        let alone = Claim {
            differs: None,
            sure: false,
            expected: None,
            within: None,
            at_least: None,
            at_most: None,
            ..self.clone()
        };
        let mut tighter = Vec::new();
        if let Some(own) = self.still_at_least {
            let at_least = Some(own * SLACK).filter(|own| *own > 0.0);
            let is_near = at_least >= least;
            let claim = Claim {
                at_least,
                ..alone.clone()
            };
            tighter.push(("still_at_least", is_near, claim));
        }
        if let Some(own) = self.still_at_most {
            let at_most = Some(own / SLACK);
            let claim = Claim {
                at_most,
                ..alone.clone()
            };
            tighter.push(("still_at_most", at_most <= most, claim));
        }
        if let Some(own) = self.still_within {
            let tolerance = 1.0 - SLACK * (1.0 - own);
            let widened = self.widened().unwrap_or_else(|| self.clone());
            let claim = Claim {
                tolerance,
                sure: false,
                ..widened
            };
            tighter.push(("still_within", tolerance <= self.tolerance, claim));
        }
        let is_loose =
            |(_, is_near, claim): &(_, bool, Claim)| !is_near && judge(claim) == State::Pass;
        let loose = tighter.into_iter().filter(is_loose);
        loose.map(|(name, ..)| name).collect()
    }

    /// Returns the claim with the wider bounds of its known deviation; `None` if it has none.
    fn widened(&self) -> Option<Claim> {
        self.differs.as_ref()?;
        let [least, most] = self.bounds();
        let equal = |relation: &String| match relation.as_str() {
            ">" => ">=".to_string(),
            "<" => "<=".to_string(),
            other => other.to_string(),
        };
        Some(Claim {
            differs: None,
            expected: None,
            within: None,
            at_least: self.still_at_least.or(least),
            at_most: self.still_at_most.or(most),
            tolerance: self.still_within.unwrap_or(self.tolerance),
            relations: self.relations.iter().map(equal).collect(),
            ..self.clone()
        })
    }

    /// Checks that a known deviation has a wider bound, which some result would leave, and that no other claim has.
    fn has_its_bound(&self) -> Result<(), &'static str> {
        let is_relative = matches!(self.kind, Kind::Ordering | Kind::Below);
        let [least, most] = self.bounds();
        let ends = [
            self.still_at_least.zip(least).map(|(own, of)| own < of),
            self.still_at_most.zip(most).map(|(own, of)| own > of),
        ];
        let given = [self.still_at_least, self.still_at_most];
        let is_given = given.iter().any(Option::is_some);
        let is_wider =
            |(own, end): (&Option<f64>, &Option<bool>)| own.is_none() || *end == Some(true);
        let fits = given.iter().zip(&ends).all(is_wider);
        match (&self.differs, is_relative) {
            (None, _) if is_given || self.still_within.is_some() => {
                Err("`still_...` belongs to a known deviation: say why with `differs`")
            }
            (None, _) => Ok(()),
            (Some(_), true) if is_given => Err("an ordering or a curve has `still_within`"),
            (Some(_), true) => match self.still_within {
                Some(own) if own > self.tolerance && own < 1.0 => Ok(()),
                Some(_) => Err("`still_within` lies between the tolerance and 1"),
                None => Err("a known deviation needs `still_within`, how far it may be off"),
            },
            (Some(_), false) if self.still_within.is_some() => {
                Err("a ratio or bound has `still_at_least` or `still_at_most`")
            }
            (Some(_), false) if !is_given => Err(
                "a known deviation needs `still_at_least` or `still_at_most`, how far it may be off",
            ),
            (Some(_), false) if !fits => {
                Err("the bound of a known deviation is not wider than the claim's")
            }
            (Some(_), false) => Ok(()),
        }
    }

    /// Checks that a claim about a printed number has the number and a factor, and no other bound.
    fn is_two_sided(&self) -> Result<(), &'static str> {
        let Some(factor) = self.within else {
            return match self.expected {
                Some(_) => Err("`expected` needs `within`, the factor that is allowed"),
                None => Ok(()),
            };
        };
        let is_of_rows = self.of == Of::Expected;
        match self.kind {
            Kind::Ordering | Kind::Below => Err("a ratio or bound has `within`"),
            _ if self.at_least.is_some() || self.at_most.is_some() => {
                Err("`within` stands for both bounds")
            }
            _ if !self.rivals.is_empty() => Err("a ratio to `rivals` has one bound"),
            _ if factor.is_nan() || factor <= 1.0 => Err("`within` is a factor above 1"),
            _ if self.expected.is_some_and(|own| own.is_nan() || own <= 0.0) => {
                Err("an expected number is positive")
            }
            _ if is_of_rows == self.expected.is_some() => {
                Err("`within` needs `expected`, unless rows have the expected numbers")
            }
            _ => Ok(()),
        }
    }

    fn is_complete(&self) -> Result<(), &'static str> {
        self.has_its_bound()?;
        self.is_two_sided()?;
        let known = |text: &String| [">=", ">", "<=", "<"].contains(&text.as_str());
        let is_bounded = self.bounds().iter().any(Option::is_some);
        match (self.kind, self.of) {
            (Kind::Ordering, _) if self.relations.len() + 1 != self.systems.len() => {
                Err("an ordering needs one relation fewer than systems")
            }
            (Kind::Ordering, _) if !self.relations.iter().all(known) => {
                Err("relations are `>=`, `>`, `<=` and `<`")
            }
            (Kind::Below, _) if self.systems.len() < 2 || self.against.is_none() => {
                Err("a curve needs `against`, and a system besides the one that is compared")
            }
            (Kind::Ratio | Kind::Bound, _) if !is_bounded => {
                Err("a ratio or bound needs `at_least`, `at_most` or `within`")
            }
            (Kind::Ratio, Of::Difference) if self.systems.len() != 2 => {
                Err("a difference of systems needs two")
            }
            (Kind::Ratio, Of::Systems) if self.rivals.is_empty() && self.systems.len() != 2 => {
                Err("a ratio of systems needs two, or one and `rivals`")
            }
            (Kind::Ratio, Of::Systems) if !self.rivals.is_empty() && self.systems.len() != 1 => {
                Err("a ratio to `rivals` needs one system")
            }
            _ => Ok(()),
        }
    }
}
