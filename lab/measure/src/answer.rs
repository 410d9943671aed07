//! The answer of a comparison: one system to take, the others that one could choose and for what, and whether the
//! choice matters.
//!
//! Most systems of a table are worse than another one. Of the rest, the best compromise comes first, then the best by
//! each criterion. The terminal and the page have the same sentences, for a new run and for the rows of an earlier one.
//!
//! # Invariants
//! A difference within noise never decides. Each system that was not chosen is worse than another one, or left out by
//! the rule that the answer states. By each criterion, a system with the first rank is chosen.

use everybuddy_metrics::short;

use crate::bench::ratio::Ratio;
use crate::choice;
use crate::replay::memory::Initial;
use crate::replay::outcome::Comparison;
use crate::rows::Row;
use crate::rows::table::{self, Column, Which};

/// The largest number of systems that an answer has.
const MOST: usize = 5;
/// The smallest number of systems that an answer has, if there are as many that no other one beats.
const LEAST: usize = 3;
/// The difference that is noise, as a share of the larger number.
const SHARE: f64 = 0.05;

/// The names of what systems are judged by, where more is said about it.
const TIME: &str = "time";
const PRICE: &str = "time with use";
const UNUSABLE: &str = "unusable memory";
const OWN: &str = "own memory";
const SPREAD: &str = "spread";

/// Below this share of the CPUs' time, the calls of the page allocator are not a machine's problem: if they took none,
/// its programs would gain less than their run times vary by themselves, about a percent.
pub const LEAST_CALLING: f64 = 0.01;

/// The size of a frame, in bytes.
const FRAME: f64 = 4096.0;

/// The points of memory that are noise: a machine does not notice a hundredth of its memory.
const POINT: f64 = 1.0;

/// The answer, in sentences.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which system to take, of how many.
    pub summary: String,
    /// The system to take, and the others that one could choose, each with its reason and its price.
    pub systems: Vec<(String, String)>,
    /// Whether the choice matters to the program of the trace; empty if that is not known.
    pub matters: String,
    /// What the run cannot say.
    pub limits: String,
    /// What the systems were judged by.
    pub rule: String,
}

/// Returns the answer of one trace's comparison. `was_busy` states whether other programs ran meanwhile. `None` if the
/// rows are of one system, or lack the numbers.
pub fn of(comparison: &Comparison, rows: &[Row], was_busy: bool) -> Option<Answer> {
    let table = table::compared(rows, Which::Defined, comparison.threads);
    let names = &table.names[table.competing.clone()];
    let refused = table
        .columns
        .iter()
        .find(|column| column.metric == "blocking_probability");
    let refused = |at: usize| refused.and_then(|column| column.values[at]).unwrap_or(0.0);
    let linux = names.iter().position(|name| name == choice::LINUX);
    // No kernel can take systems that leave out the locks of their lists.
    let is_judged =
        |at: &usize| linux.is_none() || !choice::WITHOUT_LOCKS.contains(&names[*at].as_str());
    let (judged, left_out): (Vec<usize>, Vec<usize>) = (0..names.len()).partition(is_judged);
    let left_out: Vec<String> = left_out
        .into_iter()
        .map(|at| format!("`{}`", names[at]))
        .collect();
    let fewest = judged.iter().copied().map(refused);
    let fewest = fewest.fold(f64::INFINITY, f64::min);
    let mut competing = judged.clone();
    competing.retain(|at| refused(*at) <= fewest);
    let rounds: Vec<Vec<f64>> = names.iter().map(|name| rounds(comparison, name)).collect();
    let criteria = criteria(comparison, &table.columns, &competing, &rounds);
    if judged.len() < 2 || criteria.is_empty() {
        return None;
    }
    let choice = Choice::of(&criteria);
    let times = times(&table.columns);
    let systems = choice.chosen.iter().enumerate().map(|(rank, own)| {
        let at = competing[*own];
        let mut text = match rank {
            0 => choice.described(&criteria, *own),
            _ => choice.reason(&criteria, *own),
        };
        if let (Some(linux), Some(times)) = (linux, &times) {
            text += &beside(at, linux, times, &rounds);
        }
        (names[at].clone(), text)
    });
    let systems: Vec<(String, String)> = systems.collect();
    let mut summary = choice.summary(&systems[0].0, judged.len());
    match judged.len() - competing.len() {
        0 => (),
        1 => summary += " One does not count: it refused requests that others served.",
        refusing => {
            summary +=
                &format!(" {refusing} do not count: they refused requests that others served.");
        }
    }
    if linux.is_some() {
        summary += &format!(" Linux is `{}`.", choice::LINUX);
    }
    let time = linux
        .zip(times.as_ref())
        .and_then(|(linux, times)| times[linux]);
    Some(Answer {
        summary,
        systems,
        matters: time
            .filter(|_| !comparison.touches && comparison.recorded_ns > 0)
            .map(|time| {
                matters(time * f64::from(comparison.events) / 2.0 / comparison.recorded_ns as f64)
            })
            .unwrap_or_default(),
        limits: limits(comparison, was_busy),
        rule: rule(&criteria, &left_out),
    })
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

/// What decides that one number is worse than another.
#[derive(Clone, Debug)]
enum Noise {
    /// The other is smaller in each round: the times of all systems in all rounds.
    Rounds(Vec<Vec<f64>>),
    /// The other is smaller by more than this.
    Points(f64),
    /// The other is smaller by more than this share.
    Share(f64),
}

/// What systems are judged by: one number per system, of which small ones are good.
#[derive(Clone, Debug)]
struct Criterion {
    name: &'static str,
    unit: &'static str,
    values: Vec<f64>,
    noise: Noise,
}

impl Criterion {
    /// Returns a number as text, with its unit.
    fn text(&self, at: usize) -> String {
        format!("{}{}", short(self.values[at]), self.unit)
    }

    /// Returns `true` if one system is worse than another one by more than noise.
    fn is_worse(&self, one: usize, other: usize) -> bool {
        let [own, better] = [one, other].map(|at| self.values[at]);
        match &self.noise {
            _ if self.text(one) == self.text(other) => false,
            Noise::Rounds(rounds) => {
                Ratio::of(&rounds[one], &rounds[other]).is_some_and(|ratio| ratio.least > 1.0)
            }
            Noise::Points(points) => own > better + points,
            Noise::Share(share) => own * (1.0 - share) > better,
        }
    }

    /// Returns the place of each system, from 1. A place is shared by all that are within noise of its best one, so
    /// that places have an order even where noise has none.
    fn places(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|a, b| self.values[*a].total_cmp(&self.values[*b]));
        let mut places = vec![1; order.len()];
        let (mut first, mut place) = (order.first().copied().unwrap_or(0), 1);
        for (at, system) in order.into_iter().enumerate() {
            if self.is_worse(system, first) {
                (first, place) = (system, at + 1);
            }
            places[system] = place;
        }
        places
    }
}

/// Returns the time of an allocation and a free together of each line, if the table has it.
fn times(columns: &[Column]) -> Option<Vec<Option<f64>>> {
    let mut means = columns
        .iter()
        .filter(|column| column.metric == "latency" && is_judged(column));
    let (allocate, free) = (means.next()?, means.next()?);
    let pairs = allocate.values.iter().zip(&free.values);
    Some(
        pairs
            .map(|(one, other)| Some((*one)? + (*other)?))
            .collect(),
    )
}

/// Returns what the competing systems are judged by: all criteria for which each has a number.
fn criteria(
    comparison: &Comparison,
    columns: &[Column],
    competing: &[usize],
    rounds: &[Vec<f64>],
) -> Vec<Criterion> {
    let rounds: Vec<Vec<f64>> = competing.iter().map(|at| rounds[*at].clone()).collect();
    let of_times = if rounds.iter().all(|own| !own.is_empty()) {
        Noise::Rounds(rounds)
    } else {
        Noise::Share(SHARE)
    };
    let find = |metric: &str| {
        let column = columns
            .iter()
            .find(|column| column.metric == metric && is_judged(column));
        column.map(|column| column.values.clone())
    };
    let of_blocks = Noise::Points(points(comparison.threads));
    let time = if comparison.touches { PRICE } else { TIME };
    let own = find("residual").zip(find("metadata_bytes_per_frame"));
    let own = own.map(|(idle, metadata)| own_memory(&idle, &metadata, comparison.memory.frames));
    let all = [
        (time, " ns", times(columns), of_times),
        (UNUSABLE, "%", find("unusable_index"), of_blocks),
        (OWN, "%", own, Noise::Points(POINT)),
        (SPREAD, "", find("owner_spread"), Noise::Share(SHARE)),
    ];
    let known = all.into_iter().filter_map(|(name, unit, values, noise)| {
        let values = values?;
        let values: Option<Vec<f64>> = competing.iter().map(|at| values[*at]).collect();
        Some(Criterion {
            name,
            unit,
            values: values?,
            noise,
        })
    });
    known.collect()
}

/// Returns the share of memory that each system takes for itself, in percent: idle frames in lists, and metadata.
fn own_memory(idle: &[Option<f64>], metadata: &[Option<f64>], frames: u64) -> Vec<Option<f64>> {
    let share = |(idle, metadata): (&Option<f64>, &Option<f64>)| {
        let of_frame = (*idle)? / frames.max(1) as f64 + (*metadata)? / FRAME;
        Some(of_frame * 100.0)
    };
    idle.iter().zip(metadata).map(share).collect()
}

/// Returns the difference of unusable memory that is noise, in percentage points. Counts of one thread are exact.
/// Those of several are of one pass, and differ by up to 5 points in the next one (results/compare-zen4).
fn points(threads: usize) -> f64 {
    if threads > 1 { 5.0 } else { POINT }
}

/// The choice among systems.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    /// The places of all systems by each criterion.
    places: Vec<Vec<usize>>,
    /// The systems that no other one beats.
    front: Vec<usize>,
    /// At most [`MOST`] of them, by the sum of their places.
    chosen: Vec<usize>,
}

impl Choice {
    /// Chooses the systems that no other one beats. One beats another if it has no later place by any criterion, and
    /// is better by one, by more than noise. If these are more than [`MOST`], only the best by each criterion and the
    /// one with the smallest sum of places remain; and more by this sum, if they are less than [`LEAST`].
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
        Choice {
            places,
            front,
            chosen,
        }
    }

    /// States which system to take, of all.
    fn summary(&self, first: &str, all: usize) -> String {
        match (self.front.len(), self.chosen.len() - 1) {
            (1, _) => format!(
                "`{first}` is the best of {all} systems: beyond noise, no other is better by any criterion."
            ),
            (front, others) if others + 1 < front => format!(
                "`{first}` is the best compromise of {all} systems. For {front}, no other is as good in all and better \
                 in one; the best by each criterion follow."
            ),
            (_, 1) => format!(
                "`{first}` is the best compromise of {all} systems. One other is better in something."
            ),
            (_, others) => {
                format!(
                    "`{first}` is the best compromise of {all} systems. {others} others are better in something."
                )
            }
        }
    }

    /// Returns a criterion's number of a system, and what it is measured against.
    fn number(&self, criterion: &Criterion, places: &[usize], own: usize) -> String {
        let (name, text) = (criterion.name, criterion.text(own));
        let all = 0..criterion.values.len();
        let least = all.min_by(|a, b| criterion.values[*a].total_cmp(&criterion.values[*b]));
        let least = least.map(|at| criterion.text(at)).unwrap_or_default();
        match places[own] {
            1 if text == least => format!("{name} {text} (the best)"),
            1 => format!("{name} {text} (within noise of the best, {least})"),
            place => format!("{name} {text} (rank {place}; the best: {least})"),
        }
    }

    /// Describes the system to take: each of its numbers and the best one.
    fn described(&self, criteria: &[Criterion], own: usize) -> String {
        let numbers = criteria.iter().zip(&self.places);
        let numbers: Vec<String> = numbers
            .map(|(criterion, places)| self.number(criterion, places, own))
            .collect();
        let text = numbers.join(", ");
        let mut chars = text.chars();
        chars
            .next()
            .map(|first| first.to_uppercase().chain(chars).collect::<String>() + ".")
            .unwrap_or_default()
    }

    /// Describes when one would choose another system than the first, and what it costs.
    fn reason(&self, criteria: &[Criterion], own: usize) -> String {
        let first = self.chosen[0];
        let (mut better, mut price) = (Vec::new(), Vec::new());
        for (criterion, places) in criteria.iter().zip(&self.places) {
            if places[own] < places[first] && criterion.is_worse(first, own) {
                better.push(format!("{} {}", criterion.name, criterion.text(own)));
            } else if criterion.is_worse(own, first) {
                price.push(format!("{} {}", criterion.name, criterion.text(own)));
            }
        }
        let reason = match &better[..] {
            [] => "As good a compromise".to_string(),
            better => format!("Better: {}", better.join(", ")),
        };
        match &price[..] {
            [] => format!("{reason}."),
            price => format!("{reason}. Worse: {}.", price.join(", ")),
        }
    }
}

/// States whether the choice matters to the program of the trace, by the share of its time that the calls take with
/// Linux's lists.
fn matters(share: f64) -> String {
    let percent = match share * 100.0 {
        small if small < 0.01 => "less than 0.01".to_string(),
        percent => short(percent),
    };
    let text = format!(
        "With Linux's lists, these calls take {percent}% of the time of the CPUs that made them"
    );
    if share < LEAST_CALLING {
        format!(
            "{text}: no allocator makes this program noticeably faster, unless CPUs wait for locks."
        )
    } else {
        format!("{text}: more than that, waits for locks apart, no allocator can save.")
    }
}

/// Describes the time of a system in relation to Linux's.
fn beside(own: usize, linux: usize, times: &[Option<f64>], rounds: &[Vec<f64>]) -> String {
    let (Some(time), Some(of_linux)) = (times[own], times[linux]) else {
        return String::new();
    };
    if own == linux {
        return String::new();
    }
    let noise = |is_noise: bool| if is_noise { ", within noise" } else { "" };
    match Ratio::of(&rounds[own], &rounds[linux]) {
        Some(ratio) => format!(
            " Time: {:.2} of Linux's ({:.2} to {:.2}{}).",
            ratio.median,
            ratio.least,
            ratio.most,
            noise(ratio.is_undecided())
        ),
        None => {
            let is_noise = (time - of_linux).abs() <= SHARE * time.max(of_linux);
            let ratio = time / of_linux.max(f64::MIN_POSITIVE);
            format!(" Time: {ratio:.2} of Linux's{}.", noise(is_noise))
        }
    }
}

/// States what the systems were judged by, and which were not.
fn rule(criteria: &[Criterion], left_out: &[String]) -> String {
    let meaning = |criterion: &Criterion| {
        let more = match criterion.name {
            TIME => " (mean allocation and mean free together)",
            PRICE => " (mean allocation with the use of its frames, and mean free, together)",
            UNUSABLE => " (the share of free memory in blocks below 4 MiB)",
            OWN => " (frames in lists after allocations, and metadata, in percent of memory)",
            SPREAD => " (regions of 2 MiB that an owner's frames span, over the fewest)",
            _ => "",
        };
        criterion.name.to_string() + more
    };
    let better = |Criterion { name, noise, .. }: &Criterion| match noise {
        Noise::Rounds(_) => format!("a shorter {name} in each round"),
        Noise::Points(1.0) => format!("more than a point less {name}"),
        Noise::Points(points) => format!("more than {points} points less {name}"),
        Noise::Share(share) => format!("more than {:.0}% less {name}", share * 100.0),
    };
    let meanings: Vec<String> = criteria.iter().map(meaning).collect();
    let betters: Vec<String> = criteria.iter().map(better).collect();
    let without_locks = match left_out {
        [] => String::new(),
        names => format!(
            " Not judged, since no kernel has such lists without locks: {}.",
            names.join(", ")
        ),
    };
    format!(
        "The criteria are {}. Better is {}: smaller differences are noise. A system is left out if another is better \
         by a criterion and not worse by any. Of the others, the best compromise has the smallest sum of ranks by \
         criterion. If more than {MOST} are left, those are shown that are the best of them by a \
         criterion.{without_locks}",
        meanings.join(", "),
        betters.join(", ")
    )
}

/// States what the run cannot say.
fn limits(comparison: &Comparison, was_busy: bool) -> String {
    let mut text = String::new();
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
