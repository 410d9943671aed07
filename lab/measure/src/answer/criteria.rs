//! What systems are judged by: time, unusable memory, own memory and spread.
//!
//! # Invariants
//! Small numbers are good. Only times have noise: counts are compared exactly, and a difference of counts that is too
//! small to matter is called by its size.

use everybuddy_metrics::short;

use super::is_judged;
use crate::bench::ratio::Ratio;
use crate::replay::outcome::Comparison;
use crate::rows::table::Column;

/// The share by which a number must be smaller to be better, where rounds do not decide.
pub(super) const SHARE: f64 = 0.05;
/// The points of memory that do not matter: a machine does not notice a hundredth of its memory.
const POINT: f64 = 1.0;
/// The size of a frame, in bytes.
const FRAME: f64 = 4096.0;

/// The names of the criteria.
pub(super) const TIME: &str = "time";
pub(super) const PRICE: &str = "time with use";
pub(super) const UNUSABLE: &str = "unusable memory";
pub(super) const OWN: &str = "own memory";
pub(super) const SPREAD: &str = "spread";

/// What decides that one number is worse than another.
#[derive(Clone, Debug)]
pub(super) enum Margin {
    /// The other time is shorter in each round: the times of all systems in all rounds.
    Rounds(Vec<Vec<f64>>),
    /// The other time is shorter by more than this share: only means are known.
    Means(f64),
    /// The other count is smaller by more than this.
    Points(f64),
    /// The other count is smaller by more than this share.
    Share(f64),
}

/// What systems are judged by: one number per system, of which small ones are good.
#[derive(Clone, Debug)]
pub(super) struct Criterion {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) values: Vec<f64>,
    pub(super) margin: Margin,
}

impl Criterion {
    /// Returns a number as text, with its unit.
    pub(super) fn text(&self, at: usize) -> String {
        format!("{}{}", short(self.values[at]), self.unit)
    }

    /// Returns `true` for a time. Times alone have noise.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.margin, Margin::Rounds(_) | Margin::Means(_))
    }

    /// Returns `true` if one system is worse than another one by more than the margin.
    pub(super) fn is_worse(&self, one: usize, other: usize) -> bool {
        let [own, better] = [one, other].map(|at| self.values[at]);
        match &self.margin {
            _ if self.text(one) == self.text(other) => false,
            Margin::Rounds(rounds) => {
                Ratio::of(&rounds[one], &rounds[other]).is_some_and(|ratio| ratio.least > 1.0)
            }
            Margin::Points(points) => own > better + points,
            Margin::Means(share) | Margin::Share(share) => own * (1.0 - share) > better,
        }
    }

    /// Returns the place of each system, from 1. A place is shared by all that are within the margin of its best one,
    /// so that places have an order even where the margin has none.
    pub(super) fn places(&self) -> Vec<usize> {
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

    /// Returns the same of some of the systems, in the order of `these`.
    pub(super) fn of_some(&self, these: &[usize]) -> Criterion {
        let margin = match &self.margin {
            Margin::Rounds(rounds) => {
                Margin::Rounds(these.iter().map(|at| rounds[*at].clone()).collect())
            }
            other => other.clone(),
        };
        Criterion {
            values: these.iter().map(|at| self.values[*at]).collect(),
            margin,
            ..*self
        }
    }

    /// Describes a number of the first place: how near it is to the best one.
    pub(super) fn near(&self, least: &str) -> String {
        match &self.margin {
            Margin::Rounds(_) | Margin::Means(_) => format!("within noise of the best, {least}"),
            Margin::Points(points) => {
                format!("at most {} above the best, {least}", self::points(*points))
            }
            Margin::Share(share) => {
                format!("at most {:.0}% above the best, {least}", share * 100.0)
            }
        }
    }

    /// Describes what a better number is.
    pub(super) fn better(&self) -> String {
        let name = self.name;
        match &self.margin {
            Margin::Rounds(_) => format!("a shorter {name} in each round"),
            Margin::Points(points) => format!("more than {} less {name}", self::points(*points)),
            Margin::Means(share) | Margin::Share(share) => {
                format!("more than {:.0}% less {name}", share * 100.0)
            }
        }
    }

    /// Returns the name with what it means.
    pub(super) fn meaning(&self) -> String {
        let more = match self.name {
            TIME => " (mean allocation and mean free together)",
            PRICE => " (mean allocation with the use of its frames, and mean free, together)",
            UNUSABLE => " (the share of free memory in blocks below 4 MiB)",
            OWN => " (frames in lists after allocations, and metadata, in percent of memory)",
            SPREAD => " (regions of 2 MiB that an owner's frames span, over the fewest)",
            _ => "",
        };
        self.name.to_string() + more
    }
}

/// Returns a number of percentage points in words.
fn points(points: f64) -> String {
    if points == POINT {
        "a point".to_string()
    } else {
        format!("{points} points")
    }
}

/// Returns the time of an allocation and a free together of each line, if the table has it.
pub(super) fn times(columns: &[Column]) -> Option<Vec<Option<f64>>> {
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

/// The smallest number of rounds that show noise.
pub(super) const LEAST_ROUNDS: usize = 3;

/// Returns what the competing systems are judged by: all criteria for which each has a number.
pub(super) fn criteria(
    comparison: &Comparison,
    columns: &[Column],
    competing: &[usize],
    rounds: &[Vec<f64>],
) -> Vec<Criterion> {
    let rounds: Vec<Vec<f64>> = competing.iter().map(|at| rounds[*at].clone()).collect();
    // Fewer rounds do not show noise.
    let of_times = if rounds.iter().all(|own| own.len() >= LEAST_ROUNDS) {
        Margin::Rounds(rounds)
    } else {
        Margin::Means(SHARE)
    };
    let find = |metric: &str| {
        let column = columns
            .iter()
            .find(|column| column.metric == metric && is_judged(column));
        column.map(|column| column.values.clone())
    };
    let of_blocks = Margin::Points(points_of(comparison.threads));
    let time = if comparison.touches { PRICE } else { TIME };
    let own = find("residual").zip(find("metadata_bytes_per_frame"));
    let own = own.map(|(idle, metadata)| own_memory(&idle, &metadata, comparison.memory.frames));
    let all = [
        (time, " ns", times(columns), of_times),
        (UNUSABLE, "%", find("unusable_index"), of_blocks),
        (OWN, "%", own, Margin::Points(POINT)),
        (SPREAD, "", find("owner_spread"), Margin::Share(SHARE)),
    ];
    let known = all.into_iter().filter_map(|(name, unit, values, margin)| {
        let values = values?;
        let values: Option<Vec<f64>> = competing.iter().map(|at| values[*at]).collect();
        Some(Criterion {
            name,
            unit,
            values: values?,
            margin,
        })
    });
    known.collect()
}

/// Returns the share of memory that each system takes for itself, in percent: idle frames in lists, and metadata.
pub(super) fn own_memory(
    idle: &[Option<f64>],
    metadata: &[Option<f64>],
    frames: u64,
) -> Vec<Option<f64>> {
    let share = |(idle, metadata): (&Option<f64>, &Option<f64>)| {
        let of_frame = (*idle)? / frames.max(1) as f64 + (*metadata)? / FRAME;
        Some(of_frame * 100.0)
    };
    idle.iter().zip(metadata).map(share).collect()
}

/// Returns the difference of unusable memory that does not matter, in percentage points. The counts of several threads
/// are of one pass, and differ by up to 5 points in the next one (results/compare-zen4).
pub(super) fn points_of(threads: usize) -> f64 {
    if threads > 1 { 5.0 } else { POINT }
}
