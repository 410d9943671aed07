//! Experiments: what a paper measured, what is measured here, and what has to come out.
//!
//! Exists so that an experiment is data: which systems, on what, with which source and which claims. A
//! file in `experiments/` says so in TOML; [`crate::run::reproduce`] holds the ways to measure, and
//! [`crate::figures`] the pictures. To add an experiment: one file, one line in `EXPERIMENTS`.
//!
//! | file | what it is |
//! |------|------------|
//! | `mod` | the file's fields, and the list |
//! | [`claim`] | what has to come out, and whether it did |
//! | [`grid`] | a table of the results, as numbers |
//!
//! Invariant: an [`Experiment`] names only systems, methods and figures that there are.

pub mod claim;
pub mod grid;

use std::fs;
use std::path::Path;

use everybuddy::SystemSpec;
use serde::Deserialize;

use crate::Error;
use crate::choice::{self, nearest};
use crate::figures::{FIGURES, Figure};
use crate::library;
use crate::run::reproduce::{METHODS, Method};
use crate::size::Size;

use claim::Claim;

/// The experiments that come with the program: their names and their files.
const EXPERIMENTS: &[(&str, &str)] = &[
    (
        "fragmentation",
        include_str!("../../../../experiments/fragmentation.toml"),
    ),
    (
        "space-size",
        include_str!("../../../../experiments/space-size.toml"),
    ),
    (
        "fill-levels",
        include_str!("../../../../experiments/fill-levels.toml"),
    ),
    (
        "bulk-sizes",
        include_str!("../../../../experiments/bulk-sizes.toml"),
    ),
    (
        "latency-distribution",
        include_str!("../../../../experiments/latency-distribution.toml"),
    ),
    (
        "lock-hold",
        include_str!("../../../../experiments/lock-hold.toml"),
    ),
    (
        "run-lengths",
        include_str!("../../../../experiments/run-lengths.toml"),
    ),
    (
        "contention",
        include_str!("../../../../experiments/contention.toml"),
    ),
    (
        "prediction",
        include_str!("../../../../experiments/prediction.toml"),
    ),
    (
        "buffers",
        include_str!("../../../../experiments/buffers.toml"),
    ),
    (
        "stages",
        include_str!("../../../../experiments/stages.toml"),
    ),
    (
        "coalescing",
        include_str!("../../../../experiments/coalescing.toml"),
    ),
    (
        "odd-sizes",
        include_str!("../../../../experiments/odd-sizes.toml"),
    ),
    (
        "division",
        include_str!("../../../../experiments/division.toml"),
    ),
    (
        "actions",
        include_str!("../../../../experiments/actions.toml"),
    ),
    (
        "break-even",
        include_str!("../../../../experiments/break-even.toml"),
    ),
    (
        "emulation",
        include_str!("../../../../experiments/emulation.toml"),
    ),
    (
        "streams-costs",
        include_str!("../../../../experiments/streams-costs.toml"),
    ),
    (
        "streams-blocking",
        include_str!("../../../../experiments/streams-blocking.toml"),
    ),
    (
        "streams-distribution",
        include_str!("../../../../experiments/streams-distribution.toml"),
    ),
    (
        "streams-memory",
        include_str!("../../../../experiments/streams-memory.toml"),
    ),
];

/// An experiment, as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The name on the command line and in rows.
    pub name: String,
    /// What it shows, in one sentence.
    pub title: String,
    /// Paper and figure or table.
    pub source: String,
    /// What it needs, and how long it takes, in words.
    pub needs: String,
    /// How it is measured: a name of [`METHODS`].
    pub method: String,
    /// How it is drawn: a name of [`FIGURES`]; nothing for tables only.
    pub figure: Option<String>,
    /// Where it runs: `native`, this machine, or `sim:flat`, simulated CPUs on which all accesses cost the same.
    pub platform: String,
    /// The systems; none where a trace alone answers.
    #[serde(default)]
    pub systems: Vec<String>,
    /// The traces, where the method replays traces; all bundled ones when empty.
    #[serde(default)]
    pub traces: Vec<String>,
    /// The workloads, where the method runs workloads.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Threads of a replay; one thread in the trace's order when not given.
    pub threads: Option<u16>,
    /// Memory of a replay, like `4GiB`; 1.25 times the most that is live at once when not given.
    pub memory: Option<String>,
    /// What is measured beside the systems and is none: claims may name it as they name systems.
    #[serde(default)]
    pub others: Vec<String>,
    /// Bytes of the arena of message buffers, where the method needs one.
    pub arena: Option<u32>,
    /// How far the result can be compared with its source, in words.
    #[serde(default)]
    pub remarks: String,
    /// What is printed.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
    /// The system that the source's numbers can be compared with.
    pub comparable: Option<String>,
    /// On what the source's numbers were measured, in words, when it was the same work as here.
    pub printed: Option<String>,
    /// Numbers of the source.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What has to come out.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// A table of the results: a line for each system, a column for each source and statistic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// What it shows.
    pub title: String,
    /// The metric.
    pub metric: String,
    /// The statistics, in the order of the columns.
    pub statistics: Vec<String>,
    /// The operations, in the order of the columns.
    #[serde(default = "all")]
    pub operations: Vec<String>,
    /// The order that the metric is about.
    pub order: Option<u8>,
    /// The workloads or traces; all when empty.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Which values are good: `lower` or `higher`; neither when not given.
    pub better: Option<String>,
    /// Whether a column beside each shows what the source has.
    #[serde(default)]
    pub beside: bool,
}

fn all() -> Vec<String> {
    vec!["all".to_string()]
}

/// Numbers that the source printed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What was measured, on what: the first column.
    pub what: String,
    /// The operation, as rows name it.
    pub operation: String,
    /// The metric, as rows name it.
    pub metric: String,
    /// The mean.
    pub mean: f64,
    /// The standard deviation, where it was printed.
    pub stddev: Option<f64>,
}

impl Experiment {
    /// Reads an experiment from the text of its file.
    ///
    /// # Errors
    /// A usage error that says what the file has wrong.
    pub fn parse(file: &str, text: &str) -> Result<Experiment, Error> {
        let refuse = |what: String| Error::usage(format!("experiment {file}: {what}"));
        let mut own: Experiment =
            toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        for text in &mut own.systems {
            *text = choice::one(text)?.to_string();
        }
        let named = own.claims.iter_mut().flat_map(|claim| &mut claim.systems);
        for text in named.filter(|text| !own.others.contains(text)) {
            let canonical = choice::one(text)?.to_string();
            if !own.systems.contains(&canonical) {
                return Err(refuse(format!("a claim names `{text}`, which doesn't run")));
            }
            *text = canonical;
        }
        own.frames().map_err(refuse)?;
        for claim in &own.claims {
            claim.check().map_err(|what| refuse(what.to_string()))?;
        }
        if !METHODS.iter().any(|method| method.name == own.method) {
            return Err(refuse(format!("no method `{}`", own.method)));
        }
        let known = |name: &String| FIGURES.iter().any(|figure| figure.name == name);
        if let Some(name) = own.figure.iter().find(|name| !known(name)) {
            return Err(refuse(format!("no figure `{name}`")));
        }
        if !["native", "sim:flat"].contains(&own.platform.as_str()) {
            let what = format!("platform `{}`: `native` or `sim:flat`", own.platform);
            return Err(refuse(what));
        }
        Ok(own)
    }

    /// Returns the way it is measured.
    ///
    /// # Errors
    /// A usage error for a method that does not exist.
    pub fn method(&self) -> Result<&'static Method, Error> {
        let found = METHODS.iter().find(|method| method.name == self.method);
        found.ok_or_else(|| Error::usage(format!("no method `{}`", self.method)))
    }

    /// Returns how it is drawn; none for tables only.
    pub fn drawn(&self) -> Option<&'static Figure> {
        let name = self.figure.as_deref()?;
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Returns the systems.
    ///
    /// # Errors
    /// A usage error for a name that is no system.
    pub fn specs(&self) -> Result<Vec<SystemSpec>, Error> {
        choice::parse(&self.systems)
    }

    /// Returns the frames of a replay's memory, if they are given.
    ///
    /// # Errors
    /// What is wrong with the size.
    pub fn frames(&self) -> Result<Option<u64>, String> {
        let size = self.memory.as_deref().map(str::parse::<Size>).transpose()?;
        Ok(size.map(|size| size.frames))
    }

    /// Returns the traces to replay.
    pub fn traces(&self) -> Vec<String> {
        match self.traces.is_empty() {
            true => library::BUNDLED.map(String::from).to_vec(),
            false => self.traces.clone(),
        }
    }
}

/// Returns all experiments that come with the program.
///
/// # Errors
/// As [`Experiment::parse`].
pub fn all_experiments() -> Result<Vec<Experiment>, Error> {
    let read = |(name, text): &(&str, &str)| Experiment::parse(name, text);
    EXPERIMENTS.iter().map(read).collect()
}

/// Returns the experiments that are named: by name, by the path of a TOML file, or `all`.
///
/// # Errors
/// A usage error for an unknown name, with the nearest that there is.
pub fn named(names: &[String]) -> Result<Vec<Experiment>, Error> {
    if names.is_empty() || names.iter().any(|name| name == "all") {
        return all_experiments();
    }
    let mut chosen: Vec<Experiment> = Vec::new();
    for name in names {
        let own = one(name)?;
        if !chosen.iter().any(|other| other.name == own.name) {
            chosen.push(own);
        }
    }
    Ok(chosen)
}

fn one(name: &str) -> Result<Experiment, Error> {
    if let Some((name, text)) = EXPERIMENTS.iter().find(|known| known.0 == name) {
        return Experiment::parse(name, text);
    }
    let path = Path::new(name);
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let text = fs::read_to_string(path)
            .map_err(|cause| Error::usage(format!("experiment {name}: {cause}")))?;
        return Experiment::parse(name, &text);
    }
    let names: Vec<&str> = EXPERIMENTS.iter().map(|known| known.0).collect();
    let hint = match nearest(name, &names) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    Err(Error::usage(format!(
        "experiment `{name}`: there is no such experiment: {hint}the experiments are {}",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_right_and_named_as_listed() {
        for ((name, _), own) in EXPERIMENTS.iter().zip(all_experiments().unwrap()) {
            assert_eq!(*name, own.name);
            assert!(!own.tables.is_empty(), "{name} prints nothing");
            assert!(!own.source.is_empty() && !own.needs.is_empty());
            assert!(own.systems.is_empty() || own.specs().is_ok());
            own.method().unwrap();
        }
    }

    #[test]
    fn mistakes_are_explained() {
        let message = |text: &str| Experiment::parse("x.toml", text).unwrap_err().to_string();
        assert!(message("name = 1").contains("x.toml"));
        let text = EXPERIMENTS[0].1;
        let wrong = text.replacen("method = \"", "method = \"no", 1);
        assert!(message(&wrong).contains("no method `no"));
        let wrong = text.replacen("\"lbs-31\"", "\"lbs31\"", 1);
        assert!(message(&wrong).contains("did you mean"));
    }
}
