//! An experiment as its file has it: what a paper measured, what is measured here, and what has to come out.
//!
//! # Purpose
//!
//! An experiment is data: which systems, on what, with which source and which claims.
//!
//! # Invariants
//!
//! An [`Experiment`] names only systems that there are.

use everybuddy::SystemSpec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::claim::{Claim, Words};
use everybuddy_measure::library;
use everybuddy_measure::rows::Platform;
use everybuddy_measure::size::Size;

/// The simulated machine on which all accesses to shared metadata take the same time.
const FLAT: &str = "flat";

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
    /// How it is measured: the name of a method.
    pub method: String,
    /// How it is drawn: the name of a figure; nothing for tables only.
    pub figure: Option<String>,
    /// Where it runs: `native`, this machine, or `sim:flat`, simulated CPUs on which all accesses cost the same.
    #[serde(deserialize_with = "platform")]
    pub platform: Platform,
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
    /// Memory of a replay, like `4GiB`; by default 1.25 times the peak of the allocated frames.
    pub memory: Option<String>,
    /// Measured subjects that are not systems: claims may name it as they name systems.
    #[serde(default)]
    pub others: Vec<String>,
    /// What the method lets an experiment set: its constants.
    #[serde(default)]
    pub parameters: toml::Table,
    /// Operations that rows name besides `allocate`, `free`, `pair` and `all`.
    #[serde(default)]
    pub operations: Vec<String>,
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
    /// Whether a column next to each shows the value of the source.
    #[serde(default)]
    pub beside: bool,
}

/// Reads a platform on which experiments run.
fn platform<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Platform, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse() {
        Ok(Platform::Native) => Ok(Platform::Native),
        Ok(Platform::Sim(machine)) if machine == FLAT => Ok(Platform::Sim(machine)),
        Ok(_) => {
            let what = format!("platform `{text}`: experiments run on `native` or `sim:{FLAT}`");
            Err(D::Error::custom(what))
        }
        Err(what) => Err(D::Error::custom(what)),
    }
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
        for claim in &mut own.claims {
            for text in claim.systems.iter_mut().chain(&mut claim.rivals) {
                // A name that means no system is reported with the claim.
                if let (false, Ok(spec)) = (own.others.contains(text), choice::one(text)) {
                    *text = spec.to_string();
                }
            }
        }
        own.frames().map_err(refuse)?;
        own.check().map_err(refuse)?;
        Ok(own)
    }

    /// Checks that tables, claims and printed numbers name only metrics, statistics, operations and systems that exist.
    fn check(&self) -> Result<(), String> {
        let systems = [&self.systems[..], &self.others].concat();
        let operations: Vec<&str> = self.operations.iter().map(String::as_str).collect();
        let words = Words {
            systems: &systems,
            operations: &operations,
        };
        for table in &self.tables {
            let place = |what: String| format!("table \"{}\": {what}", table.title);
            words
                .metric(&table.metric, &table.statistics)
                .map_err(place)?;
            words.operations(&table.operations).map_err(place)?;
            match table.better.as_deref() {
                None | Some("lower" | "higher") => {}
                Some(other) => {
                    return Err(place(format!(
                        "better `{other}`: write `lower` or `higher`"
                    )));
                }
            }
        }
        for own in &self.published {
            let place = |what: String| format!("published \"{}\": {what}", own.what);
            words.metric(&own.metric, &[]).map_err(place)?;
            words
                .operations(std::slice::from_ref(&own.operation))
                .map_err(place)?;
        }
        for claim in &self.claims {
            let place = |what: String| format!("claim \"{}\": {what}", claim.text);
            claim.check(words).map_err(place)?;
        }
        Ok(())
    }

    /// Returns the systems.
    ///
    /// # Errors
    /// A usage error for an unknown system.
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
