//! Linux of today as the baseline: what is slower than it, and what a user of Linux does next.
//!
//! # Invariants
//! The burden of proof is on the other system. It counts as slower if Linux is faster in each round, and also if its
//! median or its mean is much longer while single rounds contradict: one disturbed round does not make a slow system as
//! fast.

use super::LEAST_CALLING;
use super::criteria::{LEAST_ROUNDS, SHARE};
use crate::bench::ratio::Ratio;
use crate::choice;

/// The time of a system over that of Linux.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// The median over the rounds, or the ratio of the means.
    median: f64,
    /// The ratio of the mean times, which the table shows.
    means: f64,
    /// The least and the largest ratio of a round, if rounds are known.
    ends: Option<(f64, f64)>,
}

impl Beside {
    /// Compares two mean times. The times of their rounds are empty if only rows are left of the run.
    pub(super) fn of(time: Option<f64>, linux: Option<f64>, rounds: [&[f64]; 2]) -> Option<Beside> {
        let [own, of_linux] = rounds;
        let means = time? / linux?.max(f64::MIN_POSITIVE);
        let ratio = Ratio::of(own, of_linux).filter(|_| own.len() >= LEAST_ROUNDS);
        Some(Beside {
            median: ratio.map_or(means, |ratio| ratio.median),
            means,
            ends: ratio.map(|ratio| (ratio.least, ratio.most)),
        })
    }

    /// Returns `true` if the system is slower than Linux.
    pub(super) fn is_slower(&self) -> bool {
        let longest = self.median.max(self.means);
        longest * (1.0 - SHARE) > 1.0 || self.ends.is_some_and(|(least, _)| least > 1.0)
    }

    /// Returns `true` if neither of the two is faster.
    fn is_undecided(&self) -> bool {
        let is_faster = match self.ends {
            Some((_, most)) => most < 1.0,
            None => self.median < 1.0 - SHARE,
        };
        !is_faster && !self.is_slower()
    }

    /// Describes the ratio.
    pub(super) fn text(&self) -> String {
        let noise = if self.is_undecided() {
            ", within noise"
        } else {
            ""
        };
        let median = self.median;
        match self.ends {
            Some((least, most)) => {
                format!(" Time: {median:.2} of Linux's ({least:.2} to {most:.2}{noise}).")
            }
            None => format!(" Time: {median:.2} of Linux's{noise}."),
        }
    }
}

/// States whether the choice matters to the program of the trace, by the share of its time that the calls take with
/// Linux's lists.
pub(super) fn matters(share: f64) -> String {
    let percent = match share * 100.0 {
        small if small < 0.01 => "less than 0.01".to_string(),
        percent => everybuddy_metrics::short(percent),
    };
    let text = format!(
        "With Linux's lists, these calls take {percent}% of the time of the CPUs that made them"
    );
    if share < LEAST_CALLING {
        format!(
            "{text}: no allocator makes this program noticeably faster, unless CPUs wait for locks."
        )
    } else {
        format!("{text}: apart from waits for locks, no allocator can save more than that.")
    }
}

/// States why Linux is kept, of `judged` systems. `best_of` is the number of systems that are not slower, if Linux is
/// the best compromise of them; `is_timed`, whether times are known; `is_time_a_reason`, whether they could be a reason
/// to replace it.
pub(super) fn kept(
    judged: usize,
    best_of: Option<usize>,
    is_timed: bool,
    is_time_a_reason: bool,
) -> String {
    let why = match (best_of, is_timed) {
        (_, false) => "without times, no other system is shown to be as fast".to_string(),
        (Some(fast), _) => format!(
            "it is the best compromise of the {fast} systems, of {judged}, that are not slower"
        ),
        (None, _) if is_time_a_reason => {
            format!("of {judged} systems, no other is as fast and better by a criterion")
        }
        (None, _) => format!(
            "of {judged} systems, no other is as fast and better by a criterion; time does not count, since \
             these calls are rare"
        ),
    };
    format!("Keep Linux (`{}`): {why}.", choice::LINUX)
}

/// States what to do next. `share` is that of the CPUs' time in the calls, if it is known; `lacks_blocks`, whether
/// another system leaves more memory in large blocks; `other`, the system that replaces Linux.
pub(super) fn next(share: Option<f64>, lacks_blocks: bool, other: Option<&str>) -> String {
    let own = match share {
        Some(share) if share >= LEAST_CALLING => {
            "`everybuddy advise` states which setting of Linux makes these calls cheaper."
        }
        _ if lacks_blocks => {
            "Linux leaves less memory in large blocks than others: `everybuddy memory` states whether a machine lacks \
             them."
        }
        Some(_) => "If a machine is slow, record it under that load: `everybuddy record`.",
        None => "`everybuddy advise` states the share of the CPUs' time that such calls take.",
    };
    match other {
        None => own.to_string(),
        Some(other) => {
            format!("{own} `everybuddy simulate` predicts `{other}` and Linux on more CPUs.")
        }
    }
}
