//! The answer of a comparison: the few systems that no other one beats, with what each is best in and what it costs.
//!
//! A table of many systems and columns has no winner, but most of its systems are beaten by another one. The terminal
//! and the page show the others first, in the same sentences, for a new run and for the rows of an earlier one.
//!
//! # Invariants
//! A difference within noise never decides. Each system that was not chosen is beaten by another one, or left out by
//! the rule that the answer states. In each column, a system with the first place is chosen.

use everybuddy_metrics::short;

use crate::bench::ratio::Ratio;
use crate::choice;
use crate::replay::memory::Initial;
use crate::replay::outcome::Comparison;
use crate::rows::Row;
use crate::rows::table::{self, Column, Which};

/// The largest number of systems that an answer has.
const MOST: usize = 5;
/// The smallest number of systems that an answer has, if as many are not beaten.
const LEAST: usize = 3;
/// The difference that is noise, as a share of the larger number.
const SHARE: f64 = 0.05;

/// The names of what systems are judged by, where more is said about it.
const TIME: &str = "time";
const PRICE: &str = "time with use";
const UNUSABLE: &str = "unusable memory";
const IDLE: &str = "idle memory in lists";
const SPREAD: &str = "spread";

/// The answer, in sentences.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How many systems were not beaten.
    pub summary: String,
    /// These, or the best of them, each with its reason and its price. The best compromise is first.
    pub systems: Vec<(String, String)>,
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
    let fewest = (0..names.len()).map(refused).fold(f64::INFINITY, f64::min);
    let competing: Vec<usize> = (0..names.len())
        .filter(|at| refused(*at) <= fewest)
        .collect();
    let rounds: Vec<Vec<f64>> = names.iter().map(|name| rounds(comparison, name)).collect();
    let criteria = criteria(comparison, &table.columns, &competing, &rounds);
    if names.len() < 2 || criteria.is_empty() {
        return None;
    }
    let choice = Choice::of(&criteria);
    let linux = names.iter().position(|name| name == choice::LINUX);
    let times = times(&table.columns);
    let systems = choice.chosen.iter().map(|own| {
        let at = competing[*own];
        let mut text = choice.praise(&criteria, *own);
        if let (Some(linux), Some(times)) = (linux, &times) {
            text += &beside(at, linux, times, &rounds);
        }
        (names[at].clone(), text)
    });
    let systems = systems.collect();
    let mut summary = choice.summary(names.len());
    match names.len() - competing.len() {
        0 => (),
        refusing => {
            summary +=
                &format!(" {refusing} do not count: they refused requests that others served.");
        }
    }
    if linux.is_some() {
        summary += &format!(" Linux is `{}`.", choice::LINUX);
    }
    Some(Answer {
        summary,
        systems,
        limits: limits(comparison, was_busy),
        rule: rule(&criteria),
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
    let share = Noise::Share(SHARE);
    let all = [
        (time, " ns", times(columns), of_times),
        (UNUSABLE, "%", find("unusable_index"), of_blocks),
        (IDLE, " frames", find("residual"), share.clone()),
        (SPREAD, "", find("owner_spread"), share.clone()),
        (
            "metadata",
            " B/frame",
            find("metadata_bytes_per_frame"),
            share,
        ),
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

/// Returns the difference of unusable memory that is noise, in percentage points. Counts of one thread are exact.
/// Those of several are of one pass, and differ by up to 5 points in the next one (results/compare-zen4).
fn points(threads: usize) -> f64 {
    if threads > 1 { 5.0 } else { 1.0 }
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
        let sum = |own: &usize| places.iter().map(|places| places[*own]).sum::<usize>();
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

    /// States how many systems were not beaten, of all.
    fn summary(&self, all: usize) -> String {
        match (self.front.len(), self.chosen.len()) {
            (1, _) => format!("Of {all} systems, one is not beaten by another one."),
            (front, chosen) if chosen < front => format!(
                "Of {all} systems, {front} are not beaten by another one. These are the best of them by each \
                 criterion, and by the sum of the places."
            ),
            (front, _) => format!("Of {all} systems, these {front} are not beaten by another one."),
        }
    }

    /// Describes what a system is best in, and what it costs against the best.
    fn praise(&self, criteria: &[Criterion], own: usize) -> String {
        let (mut best, mut price, mut order) = (Vec::new(), Vec::new(), Vec::new());
        for (criterion, places) in criteria.iter().zip(&self.places) {
            let (name, text) = (criterion.name, criterion.text(own));
            order.push((places[own], name));
            let all = 0..criterion.values.len();
            let least = all.min_by(|a, b| criterion.values[*a].total_cmp(&criterion.values[*b]));
            let least = least.map(|at| criterion.text(at)).unwrap_or_default();
            match places[own] {
                1 if text == least => best.push(format!("{name} ({text})")),
                1 => best.push(format!("{name} ({text}, within noise of {least})")),
                _ => price.push(format!("{name} {text} (best: {least})")),
            }
        }
        order.sort();
        let reason = match &order[..] {
            [(place, name), (next, other), ..] if best.is_empty() => {
                format!("A trade: place {place} in {name}, {next} in {other}.")
            }
            _ => format!("Best: {}.", best.join(", ")),
        };
        match price.len() {
            0 => reason,
            _ => format!("{reason} Price: {}.", price.join(", ")),
        }
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

/// States what the systems were judged by.
fn rule(criteria: &[Criterion]) -> String {
    let meaning = |criterion: &Criterion| {
        let more = match criterion.name {
            TIME => " (mean allocation and mean free together)",
            PRICE => " (mean allocation with the use of its frames, and mean free, together)",
            UNUSABLE => " (at 4 MiB)",
            IDLE => " (after allocations)",
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
    format!(
        "A system beats another one if it is better by a criterion, and not worse by the others. The criteria are {}. \
         Better is {}: smaller differences are noise. If more than {MOST} are not beaten, those are shown that are \
         the best of them by a criterion, or by the sum of their places.",
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
mod tests {
    use super::*;

    /// Creates what systems are judged by, from one line of whole numbers per criterion.
    fn criteria(noise: &Noise, values: &[&[f64]]) -> Vec<Criterion> {
        let criterion = |values: &&[f64]| Criterion {
            name: "a number",
            unit: "",
            values: values.to_vec(),
            noise: noise.clone(),
        };
        values.iter().map(criterion).collect()
    }

    #[test]
    fn the_beaten_never_appear_and_the_best_always_do() {
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % 40) as f64
        };
        let mut shortened = 0;
        for round in 0..300 {
            let lines: Vec<Vec<f64>> = (0..4)
                .map(|_| (0..26).map(|_| random()).collect())
                .collect();
            let lines: Vec<&[f64]> = lines.iter().map(|line| &line[..]).collect();
            let exact = round % 2 == 0;
            let noise = if exact {
                Noise::Points(0.0)
            } else {
                Noise::Points(3.0)
            };
            let criteria = criteria(&noise, &lines);
            let choice = Choice::of(&criteria);
            shortened += usize::from(choice.chosen.len() < choice.front.len());
            assert!(choice.chosen.len() >= LEAST.min(choice.front.len()));
            assert!(choice.chosen.len() <= MOST);
            for own in &choice.chosen {
                let beats = |other: usize| {
                    lines.iter().all(|line| line[other] <= line[*own])
                        && lines.iter().any(|line| line[other] < line[*own])
                };
                assert!(choice.front.contains(own));
                assert!(!exact || !(0..26).any(beats), "{own} is beaten: {choice:?}");
            }
            for (line, places) in lines.iter().zip(&choice.places) {
                let is_first = |own: &usize| places[*own] == 1;
                assert!(choice.chosen.iter().any(is_first), "{choice:?}");
                let least = line.iter().copied().fold(f64::INFINITY, f64::min);
                let is_best = |own: &usize| line[*own] == least;
                assert!(!exact || choice.chosen.iter().any(is_best));
            }
        }
        assert!(shortened > 100, "{shortened}");
    }

    #[test]
    fn noise_makes_ties() {
        let of = |noise: &Noise, values: &[&[f64]]| Choice::of(&criteria(noise, values)).chosen;
        // The first is a little slower than the second and much better otherwise: one beats the other.
        let values: &[&[f64]] = &[&[104.0, 100.0], &[1.0, 9.0]];
        assert_eq!(of(&Noise::Share(0.05), values), [0]);
        assert_eq!(of(&Noise::Share(0.0), values), [0, 1]);
        assert_eq!(of(&Noise::Points(4.0), values), [0]);
        assert_eq!(of(&Noise::Points(3.9), values), [0, 1]);
        // Rounds decide, where no round is an exception.
        let in_each = Noise::Rounds(vec![vec![104.0, 52.0], vec![100.0, 50.0]]);
        let in_most = Noise::Rounds(vec![vec![104.0, 52.0], vec![100.0, 53.0]]);
        let mut both = criteria(&Noise::Share(0.05), values);
        both[0].noise = in_each;
        assert_eq!(Choice::of(&both).chosen, [0, 1]);
        both[0].noise = in_most;
        assert_eq!(Choice::of(&both).chosen, [0]);
        // Steps of noise add up to a difference: the first beats the last, and the second beats nothing.
        let steps = criteria(&Noise::Points(1.0), &[&[1.0, 2.0, 3.0]]);
        assert_eq!(steps[0].places(), [1, 1, 3]);
        assert_eq!(Choice::of(&steps).chosen, [0, 1]);
        // A later place is not enough: the last is within noise of the second, which beats the first.
        let values: &[&[f64]] = &[&[1.0, 1.9, 2.5], &[9.0, 1.0, 1.0]];
        assert_eq!(of(&Noise::Points(1.0), values), [1, 2]);
        // Numbers that are written alike are equal.
        assert_eq!(of(&Noise::Share(0.0), &[&[0.001, 0.0]]), [0, 1]);
    }

    #[test]
    fn the_price_is_what_is_not_the_best() {
        let mut both = criteria(
            &Noise::Share(0.05),
            &[&[10.0, 20.0, 15.0], &[3.0, 1.0, 2.0]],
        );
        (both[0].name, both[0].unit) = (TIME, " ns");
        let choice = Choice::of(&both);
        let praise = |own| choice.praise(&both, own);
        assert_eq!(
            praise(0),
            "Best: time (10.0 ns). Price: a number 3.00 (best: 1.00)."
        );
        assert_eq!(
            praise(1),
            "Best: a number (1.00). Price: time 20.0 ns (best: 10.0 ns)."
        );
        assert!(
            praise(2).starts_with("A trade: place 2 in a number, 2 in time. Price: time 15.0 ns")
        );
        // What is within noise of the best is in the first place, too.
        let near = criteria(&Noise::Points(1.0), &[&[1.0, 2.0]]);
        let praised = Choice::of(&near).praise(&near, 1);
        assert_eq!(praised, "Best: a number (2.00, within noise of 1.00).");
        let alone = criteria(&Noise::Share(0.05), &[&[1.0, 2.0]]);
        assert_eq!(
            Choice::of(&alone).praise(&alone, 0),
            "Best: a number (1.00)."
        );
    }

    #[test]
    fn the_rule_says_what_decides() {
        let mut both = criteria(&Noise::Share(0.05), &[&[1.0], &[1.0]]);
        (both[0].name, both[0].noise) = (TIME, Noise::Rounds(vec![vec![1.0]]));
        let text = rule(&both);
        assert!(
            text.contains("time (mean allocation and mean free together), a number."),
            "{text}"
        );
        assert!(
            text.contains("a shorter time in each round, more than 5% less a number:"),
            "{text}"
        );
        both[0].noise = Noise::Points(points(2));
        assert!(rule(&both).contains("more than 5 points less time"));
        let summary = |front: usize, chosen: usize| {
            let (front, chosen) = ((0..front).collect(), (0..chosen).collect());
            let places = Vec::new();
            Choice {
                places,
                front,
                chosen,
            }
            .summary(26)
        };
        assert_eq!(
            summary(1, 1),
            "Of 26 systems, one is not beaten by another one."
        );
        assert_eq!(
            summary(4, 4),
            "Of 26 systems, these 4 are not beaten by another one."
        );
        assert!(
            summary(9, 5).starts_with("Of 26 systems, 9 are not beaten by another one. These are")
        );
    }

    #[test]
    fn linux_stands_beside_each_with_an_interval() {
        let times = [Some(5.0), Some(10.0), Some(10.2)];
        let rounds = [vec![5.0, 6.0], vec![10.0, 10.0], vec![10.5, 9.5]];
        let text = |own, rounds: &[Vec<f64>]| beside(own, 1, &times, rounds);
        assert_eq!(text(0, &rounds), " Time: 0.55 of Linux's (0.50 to 0.60).");
        assert_eq!(text(1, &rounds), "");
        assert_eq!(
            text(2, &rounds),
            " Time: 1.00 of Linux's (0.95 to 1.05, within noise)."
        );
        let none = [vec![], vec![], vec![]];
        assert_eq!(text(0, &none), " Time: 0.50 of Linux's.");
        assert_eq!(text(2, &none), " Time: 1.02 of Linux's, within noise.");
    }
}
