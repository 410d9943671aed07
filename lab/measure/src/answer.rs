//! The answer of a comparison: whether to keep Linux or which system to take, what the others are better in, and
//! whether the choice matters.
//!
//! Linux of today is the baseline: a system that is slower is never named instead of it. Of the rest, most are worse
//! than another one. Of what is left, the best compromise comes first, then the best by each criterion. The terminal
//! and the page have the same sentences, for a new run and for the rows of an earlier one.
//!
//! # Invariants
//! A difference within noise never decides, and counts have no noise. Each system that was not chosen is slower than
//! Linux, worse than another one, or left out by the rule that the answer states.

mod criteria;
mod linux;

use crate::choice;
use crate::replay::memory::Initial;
use crate::replay::outcome::Comparison;
use crate::rows::Row;
use crate::rows::table::{self, Column, Table, Which};

use criteria::{Criterion, Margin, UNUSABLE, criteria, times};
use linux::{Beside, kept, matters, next};

/// The largest number of systems that an answer has, Linux apart.
const MOST: usize = 5;
/// The smallest number of systems that an answer has, if there are as many that no other one beats.
const LEAST: usize = 3;

/// The share of the requests that a system may refuse although others serve them, before it no longer counts.
const FEW_REFUSED: f64 = 0.001;

/// The points of memory that no other advantage makes up for, if a system wastes that much more than Linux.
const WASTE: f64 = 5.0;

/// Below this share of the CPUs' time, the calls of the page allocator are not a machine's problem: if they took none,
/// its programs would gain less than their run times vary by themselves, about a percent.
pub const LEAST_CALLING: f64 = 0.01;

/// The answer, in sentences.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Which system to take, of how many.
    pub summary: String,
    /// Whether the choice matters to the program of the trace; empty if that is not known.
    pub matters: String,
    /// What a user of Linux does next; empty if Linux was not compared.
    pub next: String,
    /// The system to take, and the others that one could choose, each with its reason and its price.
    pub systems: Vec<(String, String)>,
    /// Systems that are better by a criterion, and slower than Linux; empty if there are none.
    pub slower: String,
    /// What the run cannot say.
    pub limits: String,
    /// What the systems were judged by.
    pub rule: String,
}

/// Returns the answer of one trace's comparison. `was_busy` states whether other programs ran meanwhile. `None` if the
/// rows are of one system that a kernel could have, or lack the numbers.
pub fn of(comparison: &Comparison, rows: &[Row], was_busy: bool) -> Option<Answer> {
    let table = table::compared(rows, Which::Defined, comparison.threads);
    let rounds = table.names.iter().map(|name| rounds(comparison, name));
    judge(comparison, &table, &rounds.collect::<Vec<_>>(), was_busy)
}

/// Judges the lines of a table that compete. `rounds` are the times of each line in each round; empty if they are not
/// known.
fn judge(
    comparison: &Comparison,
    table: &Table,
    rounds: &[Vec<f64>],
    was_busy: bool,
) -> Option<Answer> {
    let trial = Trial::of(comparison, table, rounds)?;
    let candidates = trial.candidates();
    let ranked: Vec<Criterion> = trial
        .criteria
        .iter()
        .map(|own| own.of_some(&candidates))
        .collect();
    let choice = Choice::of(&ranked);
    let chosen: Vec<usize> = choice.chosen.iter().map(|own| candidates[*own]).collect();
    // The first that is not Linux must be better than Linux in something.
    let first = chosen
        .iter()
        .copied()
        .find(|own| trial.replaces_linux(*own));
    let first = first.or(trial.linux)?;
    let is_kept = Some(first) == trial.linux;
    let mut systems = Vec::new();
    let others = chosen.iter().copied().filter(|own| *own != first);
    let linux = trial.linux.filter(|own| !chosen.contains(own) && !is_kept);
    for own in [first].into_iter().chain(others).chain(linux) {
        let mut text = if own == first {
            trial.described(own)
        } else {
            trial.reason(own, first)
        };
        if let Some(beside) = &trial.beside[own] {
            text += &beside.text();
        }
        systems.push((trial.names[own].clone(), text));
    }
    let mut summary = if is_kept {
        let is_best = candidates.len() > 1 && chosen.first() == Some(&first);
        let is_timed = trial.criteria.iter().any(Criterion::is_time);
        kept(
            trial.judged,
            is_best.then_some(candidates.len()),
            is_timed,
            trial.is_time_a_reason(),
        )
    } else {
        let of = match trial.linux {
            None => format!("{} systems", trial.judged),
            Some(_) => fast_of(candidates.len(), trial.judged),
        };
        match candidates.len() {
            1 => format!(
                "`{}` is the only system, of {}, that serves what others serve and is not slower than Linux (`{}`).",
                trial.names[first],
                trial.judged,
                choice::LINUX
            ),
            _ => choice.summary(&trial.names[first], &of),
        }
    };
    match (trial.refusing, trial.serves_linux) {
        (0, _) => (),
        (_, false) => summary += " Linux refused requests that others served.",
        (1, _) => summary += " One does not count: it refused requests that others served.",
        (refusing, _) => {
            summary +=
                &format!(" {refusing} do not count: they refused requests that others served.");
        }
    }
    let other = (!is_kept).then_some(trial.names[first].as_str());
    let next = match trial.linux {
        Some(linux) => next(trial.share, trial.lacks_blocks(linux), other),
        None => String::new(),
    };
    let left_out = &table.names[table.competing.end..table.names.len() - 1];
    Some(Answer {
        summary,
        matters: trial.share.map(matters).unwrap_or_default(),
        next,
        systems,
        slower: trial.slower(&candidates),
        limits: limits(comparison, was_busy, trial.linux.is_some()),
        rule: rule(&ranked, trial.linux.is_some(), left_out),
    })
}

/// Describes the systems that are not slower than Linux, by their number.
fn fast_of(fast: usize, judged: usize) -> String {
    let of_all = match judged - fast {
        0 => String::new(),
        _ => format!(", of {judged},"),
    };
    format!(
        "the {fast} systems{of_all} that are not slower than Linux (`{}`)",
        choice::LINUX
    )
}

/// Returns `true` for the columns of a table that an answer judges by.
pub fn is_judged(column: &Column) -> bool {
    match column.metric {
        "latency" => column.head[1] == "mean ns",
        "residual" => column.head[1] == "allocs",
        metric => ["unusable_index", "owner_spread", "metadata_bytes_per_frame"].contains(&metric),
    }
}

/// Returns the time of an allocation and a free together in each round; empty if only rows are left of the run.
pub(crate) fn rounds(comparison: &Comparison, name: &str) -> Vec<f64> {
    let mut systems = comparison.systems.iter();
    let own = systems.find(|outcome| outcome.spec.to_string() == name);
    let rounds = own.map(|outcome| {
        outcome
            .rounds
            .iter()
            .map(|[allocate, free]| allocate + free)
    });
    rounds.map(Iterator::collect).unwrap_or_default()
}

/// The systems that serve as many requests as any other, and Linux, with their numbers.
struct Trial {
    names: Vec<String>,
    /// The criteria for which each system has a number.
    criteria: Vec<Criterion>,
    /// The time of each over that of Linux. `None` for Linux, and if a time is not known.
    beside: Vec<Option<Beside>>,
    /// The position of Linux, the first one; `None` if it was not compared.
    linux: Option<usize>,
    /// Whether Linux serves as many requests as any other.
    serves_linux: bool,
    /// The share of the CPUs' time that the calls take with Linux, if it is known.
    share: Option<f64>,
    /// The number of all systems that a kernel could have.
    judged: usize,
    /// The number of those that refused requests that others served.
    refusing: usize,
}

impl Trial {
    /// Collects the numbers. `None` if there is nothing to choose from.
    fn of(comparison: &Comparison, table: &Table, rounds: &[Vec<f64>]) -> Option<Trial> {
        let (names, columns, judged) = (&table.names, &table.columns, table.competing.clone());
        let refused = |at: usize| {
            let mut columns = columns.iter();
            let column = columns.find(|column| column.metric == "blocking_probability");
            column.and_then(|column| column.values[at]).unwrap_or(0.0)
        };
        let fewest = judged.clone().map(refused).fold(f64::INFINITY, f64::min);
        let few = f64::from(comparison.events) / 2.0 * FEW_REFUSED;
        let serves = |at: &usize| refused(*at) <= fewest + few;
        let linux = judged.clone().find(|at| names[*at] == choice::LINUX);
        // Of equal compromises, Linux is the first.
        let others = judged.clone().filter(|at| Some(*at) != linux && serves(at));
        let subjects: Vec<usize> = linux.into_iter().chain(others).collect();
        let criteria = criteria(comparison, columns, &subjects, rounds);
        if judged.len() < 2 || criteria.is_empty() {
            return None;
        }
        let times = times(columns);
        let time = |at: usize| times.as_ref().and_then(|times| times[at]);
        let beside = subjects.iter().map(|at| {
            let linux = linux.filter(|linux| linux != at)?;
            Beside::of(time(*at), time(linux), [&rounds[*at], &rounds[linux]])
        });
        let of_calls =
            |time: f64| time * f64::from(comparison.events) / 2.0 / comparison.recorded_ns as f64;
        let is_known = !comparison.touches && comparison.recorded_ns > 0;
        Some(Trial {
            beside: beside.collect(),
            share: linux.and_then(time).filter(|_| is_known).map(of_calls),
            linux: linux.map(|_| 0),
            serves_linux: linux.is_none_or(|linux| serves(&linux)),
            refusing: judged.clone().filter(|at| !serves(at)).count(),
            judged: judged.len(),
            names: subjects.iter().map(|at| names[*at].clone()).collect(),
            criteria,
        })
    }

    /// Returns the systems to choose from: those that are not slower than Linux. What has no time is not shown to be as
    /// fast. Linux is one of them, unless it refused requests that another one of them serves.
    fn candidates(&self) -> Vec<usize> {
        let is_fast = |own: &usize| match self.linux {
            Some(linux) if linux != *own => self.beside[*own]
                .as_ref()
                .is_some_and(|own| !own.is_slower()),
            Some(_) => self.serves_linux,
            None => true,
        };
        let fast: Vec<usize> = (0..self.names.len()).filter(is_fast).collect();
        if fast.is_empty() { vec![0] } else { fast }
    }

    /// Returns `true` if a system is Linux, or is better by a criterion that is a reason to replace it, and wastes
    /// little more memory. Ranks ignore how much worse a system is.
    fn replaces_linux(&self, own: usize) -> bool {
        let Some(linux) = self
            .linux
            .filter(|linux| self.serves_linux && *linux != own)
        else {
            return true;
        };
        let wastes = |one: &Criterion| {
            matches!(one.margin, Margin::Points(_)) && one.values[own] > one.values[linux] + WASTE
        };
        if self.criteria.iter().any(wastes) {
            return false;
        }
        let is_reason = |one: &&Criterion| !one.is_time() || self.is_time_a_reason();
        let mut reasons = self.criteria.iter().filter(is_reason);
        reasons.any(|one| one.is_worse(linux, own))
    }

    /// Returns `true` unless the calls are known to take hardly any time.
    fn is_time_a_reason(&self) -> bool {
        self.share.is_none_or(|share| share >= LEAST_CALLING)
    }

    /// Returns `true` if another system leaves more memory in large blocks than Linux does.
    fn lacks_blocks(&self, linux: usize) -> bool {
        let mut blocks = self.criteria.iter().filter(|one| one.name == UNUSABLE);
        blocks.any(|one| (0..self.names.len()).any(|own| one.is_worse(linux, own)))
    }

    /// Describes a system: each of its numbers, and the best one of all systems, also of those that are slower.
    fn described(&self, own: usize) -> String {
        let numbers = self.criteria.iter().map(|criterion| {
            let values = &criterion.values;
            let by = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
            let best = (0..values.len()).min_by(by).unwrap_or(own);
            let [text, least] = [own, best].map(|at| criterion.text(at));
            let more = if text == least {
                "the best".to_string()
            } else if criterion.is_worse(own, best) {
                format!("the best: {least}")
            } else {
                criterion.near(&least)
            };
            format!("{} {text} ({more})", criterion.name)
        });
        let text = numbers.collect::<Vec<_>>().join(", ");
        let mut chars = text.chars();
        let first = chars.next().map(|first| first.to_uppercase().to_string());
        first.unwrap_or_default() + chars.as_str() + "."
    }

    /// Describes when one would choose another system than the first, and what it costs.
    fn reason(&self, own: usize, first: usize) -> String {
        let (mut better, mut price) = (Vec::new(), Vec::new());
        for criterion in &self.criteria {
            let text = format!("{} {}", criterion.name, criterion.text(own));
            if criterion.is_worse(first, own) {
                better.push(text);
            } else if criterion.is_worse(own, first) {
                price.push(text);
            }
        }
        match (&better[..], &price[..]) {
            ([], []) => "As good a compromise.".to_string(),
            ([], price) => format!("Worse: {}.", price.join(", ")),
            (better, []) => format!("Better: {}.", better.join(", ")),
            (better, price) => {
                format!(
                    "Better: {}. Worse: {}.",
                    better.join(", "),
                    price.join(", ")
                )
            }
        }
    }

    /// Names the systems that are slower than Linux, and better than each candidate by a criterion.
    fn slower(&self, candidates: &[usize]) -> String {
        let is_slower = |own: &usize| {
            let beside = self.beside[*own].as_ref();
            beside.is_some_and(Beside::is_slower) && !candidates.contains(own)
        };
        let slower = || (0..self.names.len()).filter(is_slower);
        let mut found: Vec<(usize, Vec<String>)> = Vec::new();
        for criterion in self.criteria.iter().filter(|own| !own.is_time()) {
            let by = |a: &usize, b: &usize| criterion.values[*a].total_cmp(&criterion.values[*b]);
            let best = slower().min_by(by);
            let is_better =
                |best: &usize| candidates.iter().all(|own| criterion.is_worse(*own, *best));
            let Some(best) = best.filter(is_better) else {
                continue;
            };
            let text = format!("{} {}", criterion.name, criterion.text(best));
            match found.iter_mut().find(|own| own.0 == best) {
                Some((_, texts)) => texts.push(text),
                None => found.push((best, vec![text])),
            }
        }
        let text = |(own, texts): &(usize, Vec<String>)| {
            format!("`{}` ({})", self.names[*own], texts.join(", "))
        };
        let texts: Vec<String> = found.iter().map(text).collect();
        if texts.is_empty() {
            return String::new();
        }
        format!(
            "Better in something, but slower than Linux: {}.",
            texts.join(", ")
        )
    }
}

/// The choice among systems.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    /// The systems that no other one beats.
    front: Vec<usize>,
    /// At most [`MOST`] of them, by the sum of their places.
    chosen: Vec<usize>,
}

impl Choice {
    /// Chooses the systems that no other one beats. One beats another if it has no later place by any criterion, and
    /// is better by one, by more than the margin. If these are more than [`MOST`], only the best by each criterion and
    /// the one with the smallest sum of places remain; and more by this sum, if they are less than [`LEAST`].
    ///
    /// Takes time in the square of the number of systems.
    fn of(criteria: &[Criterion]) -> Choice {
        let places: Vec<Vec<usize>> = criteria.iter().map(Criterion::places).collect();
        let systems = criteria
            .first()
            .map_or(0, |criterion| criterion.values.len());
        let beats = |one: usize, other: usize| {
            let is_better = |(criterion, places): (&Criterion, &Vec<usize>)| {
                places[one] < places[other] && criterion.is_worse(other, one)
            };
            places.iter().all(|places| places[one] <= places[other])
                && criteria.iter().zip(&places).any(is_better)
        };
        let is_beaten = |own: &usize| (0..systems).any(|other| beats(other, *own));
        let mut front: Vec<usize> = (0..systems).filter(|own| !is_beaten(own)).collect();
        // Of equal sums, the one that is better by the first criterion, time.
        let sum = |own: &usize| {
            let sum: usize = places.iter().map(|places| places[*own]).sum();
            (sum, places.first().map(|places| places[*own]))
        };
        front.sort_by_key(sum);
        let mut chosen = front.clone();
        if front.len() > MOST {
            // Sorted by sums: of several with the same place, the first has the smallest sum.
            let best = |places: &Vec<usize>| front.iter().copied().min_by_key(|own| places[*own]);
            let best: Vec<usize> = places.iter().filter_map(best).collect();
            let is_best = |own: &usize| *own == front[0] || best.contains(own);
            chosen.sort_by_key(|own| !is_best(own));
            chosen.truncate(front.iter().filter(|own| is_best(own)).count().max(LEAST));
            chosen.sort_by_key(sum);
        }
        Choice { front, chosen }
    }

    /// States which system to take. `of` describes all systems to choose from.
    fn summary(&self, first: &str, of: &str) -> String {
        let others = match self.front.len() {
            0 | 1 => {
                return format!(
                    "`{first}` is the best of {of}: none of the others is better by any criterion."
                );
            }
            2 => "One other is better in something".to_string(),
            front => format!("{} others are better in something", front - 1),
        };
        let more = if self.chosen.len() < self.front.len() {
            "; the best by each criterion follow"
        } else {
            ""
        };
        format!("`{first}` is the best compromise of {of}. {others}{more}.")
    }
}

/// States what the systems were judged by, and which were not. `left_out` are the systems that no kernel has.
fn rule(criteria: &[Criterion], has_linux: bool, left_out: &[String]) -> String {
    let times = criteria.iter().find(|own| own.is_time());
    let slower = match times.map(|own| &own.margin) {
        _ if !has_linux => "",
        Some(Margin::Rounds(_)) => {
            "Linux is kept unless a system that is not slower is better by a criterion. One is slower if Linux's time \
             is shorter in each round, or if Linux's median or mean is more than 5% shorter. "
        }
        _ => {
            "Linux is kept unless a system that is not slower is better by a criterion. One is slower if Linux's time \
             is more than 5% shorter. "
        }
    };
    let meanings: Vec<String> = criteria.iter().map(Criterion::meaning).collect();
    let betters: Vec<String> = criteria.iter().map(Criterion::better).collect();
    let replaced = if has_linux {
        " It replaces Linux if it is better by a criterion and wastes at most 5 points more memory, but not by time \
         alone where these calls take less than 1% of the CPUs' time."
    } else {
        ""
    };
    let left_out: Vec<String> = left_out.iter().map(|name| format!("`{name}`")).collect();
    let without_locks = match &left_out[..] {
        [] => String::new(),
        names => format!(
            " Not judged, since no kernel has such lists without locks: {}.",
            names.join(", ")
        ),
    };
    format!(
        "{slower}The criteria are {}. Better is {}: smaller differences do not count. A system is left out if another \
         is better by a criterion and not worse by any. Of the others, the best compromise has the smallest sum of \
         ranks by criterion.{replaced} If more than {MOST} are left, only the best by each criterion are \
         shown.{without_locks}",
        meanings.join(", "),
        betters.join(", ")
    )
}

/// States what the run cannot say.
fn limits(comparison: &Comparison, was_busy: bool, has_linux: bool) -> String {
    let mut text = String::new();
    if !has_linux {
        text += &format!("Linux (`{}`) was not compared. ", choice::LINUX);
    }
    if !comparison.touches {
        text +=
            "Frames were not used (`--touch` uses them), so the cost of cold memory is missing. ";
    }
    text += match comparison.threads {
        1 => "One thread made all calls, so nothing waited (`everybuddy simulate` predicts it).",
        _ => "Counts are of one pass, and depend on which thread came first.",
    };
    if comparison.memory.initial == Initial::Fresh {
        text += " Memory was fresh (`--aged SEED` scatters long-lived blocks).";
    }
    if was_busy {
        text += " Other programs were running, so rounds were disturbed, and more is within noise.";
    }
    text
}

#[cfg(test)]
mod tests;
