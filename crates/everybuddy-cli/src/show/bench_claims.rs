//! What a benchmark has to show, and whether it does.
//!
//! Exists so that "faster" is a statement with a bar, a rival and an interval, judged by the run itself.
//!
//! # Invariants
//!
//! A claim is met only when the whole interval of its ratio lies on the right side; what could not be measured is
//! never met.

use std::fmt::Write;

use everybuddy_workload::Part;

use super::bench::PARTS;
use super::output::Style;
use everybuddy_measure::bench::ratio::Ratio;
use everybuddy_measure::bench::start::Start;
use everybuddy_measure::bench::{Cell, Entrant, Results};
use everybuddy_measure::replay::outcome::median;

/// Whom a claim compares with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rivals {
    /// Each of other people's allocators; the closest is shown.
    Peers,
    /// The contender of this name.
    One(&'static str),
    /// Nobody: the bar is in nanoseconds.
    Nobody,
}

/// A claim: on these workloads, one contender takes at most so many times as long as its rivals, or so long.
struct Claim {
    text: &'static str,
    who: &'static str,
    rivals: Rivals,
    /// Variants whose names begin so; all if none. After a `!`: not those whose names end so.
    on: &'static [&'static str],
    /// Only on so many threads, if not on all.
    threads: Option<u16>,
    most: f64,
}

/// Workloads that reach below the lists.
const BELOW: &[&str] = &["burst:in-order", "batch", "steady:50", "handover"];

/// What iBuddy's paper found on eight cores of 2009 and page-allocation traces. Hypotheses here: a machine on
/// which a lock costs less than a cache miss may say otherwise.
const HYPOTHESES: &[Claim] = &[
    Claim {
        text: "lis-1 is faster than lbs-31 (iBuddy, table 1: 35 % on average)",
        who: "lis-1",
        rivals: Rivals::One("lbs-31"),
        on: BELOW,
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "lis-1 is faster than lis-31, always (iBuddy 6.3.3)",
        who: "lis-1",
        rivals: Rivals::One("lis-31"),
        on: BELOW,
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "is is faster than lis-1 on pure bursts at one thread (iBuddy 6.3.1)",
        who: "is",
        rivals: Rivals::One("lis-1"),
        on: &["burst"],
        threads: Some(1),
        most: 1.0,
    },
    Claim {
        text: "is is faster than bs (iBuddy, table 1)",
        who: "is",
        rivals: Rivals::One("bs"),
        on: &[
            "hot:order0",
            "burst:in-order",
            "batch",
            "steady:50",
            "handover",
        ],
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "lbs-31 is faster than lbs-1 (iBuddy 6.2: the best of the three traditional ones)",
        who: "lbs-31",
        rivals: Rivals::One("lbs-1"),
        on: BELOW,
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "lbs-31 is faster than bs (iBuddy 6.2)",
        who: "lbs-31",
        rivals: Rivals::One("bs"),
        on: BELOW,
        threads: None,
        most: 1.0,
    },
];

/// Workloads of single frames.
const SINGLE: &[&str] = &[
    "hot:order0",
    "burst",
    "batch",
    "steady:50",
    "steady:90",
    "handover",
    "!mixed",
];

/// What is claimed of these systems on this kind of machine.
const CLAIMS: &[Claim] = &[
    Claim {
        text: "spring is no slower than lis-1 on single frames (5 % count as equal)",
        who: "spring",
        rivals: Rivals::One("lis-1"),
        on: SINGLE,
        threads: None,
        most: 1.05,
    },
    Claim {
        text: "spring is faster than lbs-31 below the lists",
        who: "spring",
        rivals: Rivals::One("lbs-31"),
        on: BELOW,
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "spring is faster than bs below the lists",
        who: "spring",
        rivals: Rivals::One("bs"),
        on: BELOW,
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "spring is faster than everybody else's allocator (the closest is named)",
        who: "spring",
        rivals: Rivals::Peers,
        on: &["hot:order0", "steady", "handover"],
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "a burst takes spring less than 10 ns an allocation and a release",
        who: "spring",
        rivals: Rivals::Nobody,
        on: &["burst:in-order"],
        threads: None,
        most: 10.0,
    },
    Claim {
        text: "a pair of hits of spring, misuse detection on, takes at most 3 times what a private array takes",
        who: "spring",
        rivals: Rivals::One("floor"),
        on: &["hot:order0"],
        threads: Some(1),
        most: 3.0,
    },
    Claim {
        text: "lbs-31 is faster than everybody else's allocator (the closest is named)",
        who: "lbs-31",
        rivals: Rivals::Peers,
        on: &["hot:order0", "steady", "handover"],
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "bs is faster than buddy_system_allocator everywhere",
        who: "bs",
        rivals: Rivals::One("buddy_system_allocator"),
        on: &[],
        threads: None,
        most: 1.0,
    },
    Claim {
        text: "a pair of hits of lbs-31, misuse detection on, takes at most 3 times what a private array takes",
        who: "lbs-31",
        rivals: Rivals::One("floor"),
        on: &["hot:order0"],
        threads: Some(1),
        most: 3.0,
    },
];

impl Claim {
    /// Tells whether it is about a variant.
    fn means(&self, variant: &str) -> bool {
        let left_out = |text: &&str| {
            text.strip_prefix('!')
                .is_some_and(|end| variant.ends_with(end))
        };
        let named = |text: &&str| variant.starts_with(*text);
        self.on.is_empty() || self.on.iter().any(named) && !self.on.iter().any(left_out)
    }
}

/// Milliseconds in which every system of ours starts on a million frames.
const MOST_MILLIS: f64 = 10.0;

/// One line: where, against whom, the ratio, the verdict.
struct Line {
    place: String,
    rival: String,
    numbers: String,
    is_met: bool,
}

/// Judges all claims whose contenders took part; empty when none did.
pub fn text(results: &Results, starts: &[Start], style: &Style) -> String {
    let judge = |claims: &[Claim]| {
        let mut out = String::new();
        for claim in claims {
            add(&mut out, claim.text, &judged(results, claim), style);
        }
        out
    };
    let mut claims = judge(CLAIMS);
    if !claims.is_empty() {
        let text = "every system starts in less than 10 ms";
        add(&mut claims, text, &started(starts), style);
    }
    let hypotheses = judge(HYPOTHESES);
    let mut out = String::new();
    if !claims.is_empty() {
        out += "Claims: met when the whole interval lies on the right side\n\n";
        out += &claims;
    }
    if !hypotheses.is_empty() {
        out += "Found elsewhere: what papers measured on other machines, tried on this one\n\n";
        out += &hypotheses;
    }
    out
}

fn add(out: &mut String, text: &str, lines: &[Line], style: &Style) {
    if lines.is_empty() {
        return;
    }
    let met = lines.iter().filter(|line| line.is_met).count();
    let _ = writeln!(out, "{text}: {met} of {}", lines.len());
    for line in lines {
        let verdict = match line.is_met {
            true => style.best("met"),
            false => style.warning("not met"),
        };
        let Line {
            place,
            rival,
            numbers,
            ..
        } = line;
        let _ = writeln!(out, "  {place:<32}{rival:<24}{numbers:<22}{verdict}");
    }
    out.push('\n');
}

fn judged(results: &Results, claim: &Claim) -> Vec<Line> {
    let entrants = results.entrants();
    let Some(own) = position(entrants, claim.who) else {
        return Vec::new();
    };
    let is_rival = |entrant: &Entrant| match claim.rivals {
        Rivals::Peers => entrant.is_peer() && !entrant.is_floor(),
        Rivals::One(name) => entrant.name() == name,
        Rivals::Nobody => false,
    };
    let rivals: Vec<usize> = (0..entrants.len())
        .filter(|at| is_rival(&entrants[*at]))
        .collect();
    if rivals.is_empty() && claim.rivals != Rivals::Nobody {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for ((variant, threads), cells) in results.columns.iter().zip(&results.cells) {
        if !claim.means(variant.name) || claim.threads.is_some_and(|only| only != *threads) {
            continue;
        }
        for (part, what) in PARTS {
            if cells[own].rounds(part).is_empty() {
                continue;
            }
            let place = format!("{} {what}{threads}T", variant.name);
            if claim.rivals == Rivals::Nobody {
                lines.push(within(place, cells[own].rounds(part), claim.most, "ns"));
                continue;
            }
            let mut closest: Option<(usize, Ratio)> = None;
            for rival in &rivals {
                let (own, other) = (&cells[own], &cells[*rival]);
                match Ratio::of(own, other, part) {
                    Some(ratio) if closest.is_none_or(|(_, c)| c.most < ratio.most) => {
                        closest = Some((*rival, ratio));
                    }
                    // What was disturbed decides nothing, unless it is out of reach.
                    None if could_be(own, other, part, claim.most) => lines.push(Line {
                        place: place.clone(),
                        rival: entrants[*rival].name(),
                        numbers: "disturbed".to_string(),
                        is_met: false,
                    }),
                    _ => {}
                }
            }
            let Some((at, ratio)) = closest else { continue };
            lines.push(Line {
                place,
                rival: entrants[at].name(),
                numbers: interval(&ratio),
                is_met: ratio.most < claim.most,
            });
        }
    }
    lines
}

/// Tells whether two that had no calm section, but can both do the work, are nearer than twice the bar.
fn could_be(own: &Cell, other: &Cell, part: Part, most: f64) -> bool {
    match (own.median(part), other.median(part)) {
        (Some(own), Some(other)) => own / other * 2.0 >= most,
        _ => false,
    }
}

fn started(starts: &[Start]) -> Vec<Line> {
    let ours = starts.iter().filter(|start| !start.entrant.is_peer());
    let line = |start: &Start| within(start.entrant.name(), &start.millis, MOST_MILLIS, "ms");
    ours.map(line).collect()
}

/// A line about times that have a bar of their own.
fn within(place: String, times: &[f64], bar: f64, unit: &str) -> Line {
    let most = times.iter().copied().fold(0.0, f64::max);
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = median(times.to_vec());
    Line {
        place,
        rival: String::new(),
        numbers: format!("{middle:.2} {unit} [{least:.2}, {most:.2}]"),
        is_met: most < bar,
    }
}

/// A ratio with its interval.
pub fn interval(ratio: &Ratio) -> String {
    let Ratio {
        median,
        least,
        most,
    } = ratio;
    format!("{median:.2} [{least:.2}, {most:.2}]")
}

fn position(entrants: &[Entrant], name: &str) -> Option<usize> {
    entrants.iter().position(|entrant| entrant.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_measure::bench::Plan;
    use everybuddy_workload::WORKLOADS;

    fn cell(rounds: &[f64]) -> Cell {
        Cell {
            parts: vec![(Part::Pair, rounds.to_vec())],
            requests: 1,
            ..Cell::default()
        }
    }

    /// Results of `bs`, then of `lbs-31` standing in for a rival, on one column.
    fn results(own: &[f64], other: &[f64]) -> Results {
        let entrants = ["bs", "lbs-31"].map(|name| Entrant::System(name.parse().unwrap()));
        let variant = &WORKLOADS[0].variants[0];
        let plan = Plan {
            entrants: entrants.to_vec(),
            variants: vec![variant],
            threads: vec![1],
            frames: Plan::FRAMES,
            rounds: own.len() as u32,
            seed: 1,
            shrink: 1,
        };
        Results {
            plan,
            columns: vec![(variant, 1)],
            cells: vec![vec![cell(own), cell(other)]],
        }
    }

    const CLAIM: Claim = Claim {
        text: "",
        who: "bs",
        rivals: Rivals::One("lbs-31"),
        on: &[],
        threads: None,
        most: 1.0,
    };

    #[test]
    fn claims_name_systems_and_workloads_that_exist() {
        let variants = || WORKLOADS.iter().flat_map(|row| row.variants);
        for claim in CLAIMS.iter().chain(HYPOTHESES) {
            assert!(claim.who.parse::<everybuddy::SystemSpec>().is_ok());
            for prefix in claim.on.iter().filter(|text| !text.starts_with('!')) {
                assert!(variants().any(|v| v.name.starts_with(prefix)), "{prefix}");
            }
        }
    }

    #[test]
    fn the_whole_interval_must_lie_on_the_right_side() {
        let met = |own: &[f64], other: &[f64]| judged(&results(own, other), &CLAIM)[0].is_met;
        assert!(met(&[1.0, 1.0, 1.0], &[2.0, 1.5, 1.1]));
        assert!(!met(&[1.0, 1.0, 1.0], &[2.0, 1.5, 0.9]));
        assert!(!met(&[2.0], &[1.0]));
    }

    #[test]
    fn what_was_disturbed_is_not_met_unless_it_is_far_off() {
        let mut results = results(&[1.0], &[1.5]);
        results.cells[0][1].is_disturbed = true;
        assert!(!judged(&results, &CLAIM)[0].is_met);
        results.cells[0][1].parts[0].1[0] = 100.0;
        assert!(judged(&results, &CLAIM).is_empty());
    }
}
