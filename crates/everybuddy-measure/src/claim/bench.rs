//! The claims about benchmarks: `bench.toml`, read and checked.
//!
//! # Purpose
//!
//! A benchmark is evaluated like an experiment, by the same engine and with the same words.
//!
//! # Invariants
//!
//! A claim is evaluated only if its system and one of its rivals took part.

use everybuddy_workload::WORKLOADS;
use serde::Deserialize;

use super::{Claim, Verdict, Words};
use crate::Error;
use crate::choice::{self, nearest};
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
    systems.extend(choice::all().iter().map(ToString::to_string));
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
        let known = |source: &&String| !sources.contains(&source.as_str());
        if let Some(source) = claim.sources.iter().find(known) {
            let near = nearest(source, &sources).unwrap_or("start");
            return Err(place(format!(
                "workload `{source}` does not exist: did you mean `{near}`?"
            )));
        }
    }
    Ok(file.claims)
}

/// Checks the claims against the rows of a benchmark; claims without a case are omitted.
///
/// # Errors
/// Like [`claims`].
pub fn judge(rows: &[Row]) -> Result<Vec<(Claim, Verdict)>, Error> {
    let judged = claims()?.into_iter().map(|claim| {
        let verdict = claim.judge(EXPERIMENT, rows);
        (claim, verdict)
    });
    Ok(judged
        .filter(|(_, verdict)| !verdict.cases.is_empty())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(
                message.contains(NAME) && message.contains(near),
                "{message}"
            );
        }
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
