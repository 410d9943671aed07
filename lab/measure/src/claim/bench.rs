//! The claims about benchmarks: `bench.toml`, read and checked.
//!
//! A benchmark is evaluated like an experiment, by the same engine and with the same words.
//!
//! # Invariants
//! A claim is evaluated only if its system and one of its rivals took part. Such a claim without numbers is
//! inconclusive.

use everybuddy_workload::WORKLOADS;
use serde::Deserialize;

use super::judge::Case;
use super::{Claim, Kind, Verdict, Words};
use crate::Error;
use crate::choice;
use crate::rows::Row;

/// The claims' file.
const FILE: &str = include_str!("bench.toml");
/// The name of the file in messages.
const NAME: &str = "bench.toml";
/// The experiment of a benchmark's rows.
pub const EXPERIMENT: &str = "bench";

/// The file's fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Contenders that are not our systems.
    others: Vec<String>,
    claims: Vec<Claim>,
}

/// Reads the claims.
///
/// # Errors
/// Returns the problem with the file.
pub fn claims() -> Result<Vec<Claim>, Error> {
    parse(NAME, FILE)
}

fn parse(name: &str, text: &str) -> Result<Vec<Claim>, Error> {
    let refuse = |what: String| Error::usage(format!("{name}: {what}"));
    let file: File = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let mut systems = file.others;
    systems.extend(choice::compared().iter().map(ToString::to_string));
    let words = Words {
        systems: &systems,
        operations: &[],
    };
    let variants = WORKLOADS.iter().flat_map(|row| row.variants);
    let mut sources: Vec<&str> = variants.map(|variant| variant.name).collect();
    sources.push("start");
    for claim in &file.claims {
        let place = |what: String| refuse(format!("claim \"{}\": {what}", claim.text));
        claim.check(words).map_err(place)?;
        choice::all_known("workload", &claim.sources, &sources).map_err(place)?;
    }
    Ok(file.claims)
}

/// Checks the claims against the rows of a benchmark. Claims about systems or sources that did not take part are
/// omitted.
///
/// # Errors
/// Like [`claims`].
pub fn judge(rows: &[Row]) -> Result<Vec<(Claim, Verdict)>, Error> {
    Ok(judge_all(claims()?, rows))
}

fn judge_all(claims: Vec<Claim>, rows: &[Row]) -> Vec<(Claim, Verdict)> {
    let judged = claims.into_iter().filter_map(|claim| {
        let mut verdict = claim.judge(EXPERIMENT, rows);
        if verdict.cases.is_empty() {
            // A claim about rows that are never written must not vanish.
            took_part(&claim, rows).then(|| verdict.cases.push(no_numbers(&claim)))?;
        }
        Some((claim, verdict))
    });
    judged.collect()
}

/// Returns `true` if the systems of a claim were measured on the same source, which the claim is about.
fn took_part(claim: &Claim, rows: &[Row]) -> bool {
    let own = |row: &&Row| {
        row.experiment == EXPERIMENT
            && (claim.sources.is_empty() || claim.sources.contains(&row.source))
            && claim.cpus.is_none_or(|cpus| cpus == row.cpus)
    };
    rows.iter().filter(own).any(|place| {
        let is_there = |name: &String| {
            let mut rows = rows.iter().filter(own);
            rows.any(|row| {
                (&row.source, row.cpus) == (&place.source, place.cpus) && row.name() == *name
            })
        };
        let has_systems = match claim.kind {
            Kind::Bound if claim.systems.is_empty() => {
                rows.iter().filter(own).any(Row::is_of_system)
            }
            Kind::Bound => claim.systems.iter().any(is_there),
            _ => claim.systems.iter().all(is_there),
        };
        has_systems && (claim.rivals.is_empty() || claim.rivals.iter().any(is_there))
    })
}

fn no_numbers(claim: &Claim) -> Case {
    let (metric, operations) = (&claim.metric, claim.operation.list().join(", "));
    Case::unknown(format!("no numbers: {metric} of {operations}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::State;

    #[test]
    fn the_file_is_right_and_mistakes_in_it_are_explained() {
        assert!(claims().unwrap().len() > 10);
        let message = |from: &str, to: &str| {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            parse(NAME, &text).unwrap_err().to_string()
        };
        for (from, to, near) in [
            ("metric = \"latency\"", "metric = \"latency_\"", "`latency`"),
            ("\"handover\"", "\"handovr\"", "`handover`"),
            ("[\"spring\"]", "[\"sprin\"]", "`spring`"),
        ] {
            let message = message(from, to);
            assert!(message.contains(NAME), "{message}");
            assert!(message.contains(near), "{message}");
        }
    }

    #[test]
    fn no_claim_bounds_a_time_of_the_host() {
        let claims = claims().unwrap();
        let times: Vec<&Claim> = claims.iter().filter(|own| own.bounds_a_time()).collect();
        assert!(times.is_empty(), "state a ratio instead: {times:?}");
    }

    #[test]
    fn times_alone_are_reported_without_a_verdict() {
        let row = |system: &str, source: &str, operation, metric| Row {
            experiment: EXPERIMENT.to_string(),
            source: source.to_string(),
            system: system.to_string(),
            cpus: 1,
            operation,
            metric,
            statistic: "p50",
            // A second: a busy machine can be as slow as that.
            value: 1e9,
            ..Row::default()
        };
        let rows = [
            row("spring", "start", "all", "start_time"),
            row("spring", "burst:in-order", "allocate", "latency"),
        ];
        assert!(judge(&rows).unwrap().is_empty());
    }

    #[test]
    fn a_claim_about_every_system_is_not_about_the_floor() {
        let text = "kind = 'bound'\ntext = ''\nmetric = 'free_blocks'\nstatistic = 'value'\norder = 9\n\
                    systems = []\nat_least = 1.0";
        let row = |system: &str, value| Row {
            experiment: EXPERIMENT.to_string(),
            source: "batch".to_string(),
            system: system.to_string(),
            operation: "all",
            order: Some(9),
            metric: "free_blocks",
            statistic: "value",
            value,
            ..Row::default()
        };
        let judge = |rows: &[Row]| judge_all(vec![toml::from_str(text).unwrap()], rows);
        let floors = [
            row("floor", 0.0),
            row("floor+table", 0.0),
            row("timer", 0.0),
        ];
        assert!(judge(&floors).is_empty(), "no system took part");
        let verdicts = judge(&[&floors[..], &[row("bs", 2.0)]].concat());
        let cases = &verdicts[0].1.cases;
        assert_eq!(verdicts[0].1.state, State::Pass, "{cases:?}");
        assert_eq!(cases.len(), 1, "{cases:?}");
    }

    #[test]
    fn a_claim_without_numbers_is_inconclusive_if_its_systems_took_part() {
        let judge = |metric: &str, systems: &[&str], source: &str| {
            let text = format!(
                "kind = 'ratio'\ntext = ''\nmetric = '{metric}'\nstatistic = 'mean'\noperation = 'pair'\n\
                 systems = ['bs']\nrivals = ['is', 'lbs-31']\nsources = ['batch']\nat_most = 1.0"
            );
            let row = |system: &&str| Row {
                experiment: EXPERIMENT.to_string(),
                source: source.to_string(),
                system: system.to_string(),
                operation: "pair",
                metric: "latency",
                statistic: "mean",
                value: 1.0,
                ..Row::default()
            };
            let rows: Vec<Row> = systems.iter().map(row).collect();
            let verdicts = judge_all(vec![toml::from_str(&text).unwrap()], &rows);
            let first = verdicts.into_iter().next();
            first.map(|(_, verdict)| (verdict.state, verdict.cases.len()))
        };
        let both = ["bs", "is"];
        assert_eq!(judge("latency", &both, "batch"), Some((State::Pass, 1)));
        // The metric exists, but a benchmark writes no row of it.
        let undecided = Some((State::Inconclusive, 1));
        assert_eq!(judge("steps", &both, "batch"), undecided);
        // Nothing is said about what did not take part.
        assert_eq!(judge("steps", &both, "hot:order0"), None);
        assert_eq!(judge("steps", &["bs"], "batch"), None);
        assert_eq!(judge("steps", &["is", "lbs-31"], "batch"), None);
    }

    #[cfg(feature = "peers")]
    #[test]
    fn the_file_knows_everybody_who_takes_part() {
        let file: File = toml::from_str(FILE).unwrap();
        let peers = everybuddy_peers::PEERS.iter().map(|row| row.name);
        assert!(
            peers
                .clone()
                .all(|name| file.others.iter().any(|own| own == name))
        );
        assert_eq!(peers.count(), file.others.len());
    }
}
