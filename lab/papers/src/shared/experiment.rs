//! The file of an experiment: published measurements, the measurement here, and the claims.
//!
//! An experiment is data: the systems, their input, the source and the claims.
//!
//! # Invariants
//! An [`Experiment`] names only what exists.

use std::path::Path;

use everybuddy::SystemSpec;
use everybuddy_metrics::Better;
use everybuddy_workload::WORKLOADS;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::claim::{Claim, Of, Words};
use everybuddy_measure::library;
use everybuddy_measure::rows::Platform;
use everybuddy_measure::size::Size;

/// The simulated machine on which all accesses to shared metadata take the same time.
const FLAT: &str = "flat";

/// The contents of an experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The name on the command line and in rows.
    pub name: String,
    /// A one-sentence description.
    pub title: String,
    /// Paper and figure or table.
    pub source: String,
    /// Its requirements and its duration, in words.
    pub needs: String,
    /// The name of the method.
    pub method: String,
    /// The name of the figure; `None` for tables only.
    pub figure: Option<String>,
    /// The systems that the figure shows, if it can leave out some; all if empty.
    #[serde(default)]
    pub drawn: Vec<String>,
    /// Where it runs: `native`, this machine; `sim:flat`, simulated CPUs on which all accesses cost the same;
    /// `sim:NAME`, a machine of the simulator; or `sim:FILE.toml`, one of your own.
    #[serde(deserialize_with = "platform")]
    pub platform: Platform,
    /// The systems; empty if only the trace is examined.
    #[serde(default)]
    pub systems: Vec<String>,
    /// The traces, if the method replays traces; all bundled ones if empty.
    #[serde(default)]
    pub traces: Vec<String>,
    /// The workloads, if the method runs workloads.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Memory of a replay, such as `4GiB`; by default 1.25 times the peak of the allocated frames.
    pub memory: Option<String>,
    /// Measured subjects that are not systems: claims may name it as they name systems.
    #[serde(default)]
    pub others: Vec<String>,
    /// The parameters of the method.
    #[serde(default)]
    pub parameters: toml::Table,
    /// Parameters that replace those above in a [full](Self::in_full) run.
    #[serde(default)]
    pub full: toml::Table,
    /// Operations that rows name besides `allocate`, `free`, `pair` and `all`.
    #[serde(default)]
    pub operations: Vec<String>,
    /// The limits of the comparison with the source, in words.
    #[serde(default)]
    pub remarks: String,
    /// The tables.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
    /// The system whose numbers can be compared with the source's.
    pub comparable: Option<String>,
    /// The conditions of the source's numbers, in words, if its work was the same as here.
    pub printed: Option<String>,
    /// Numbers of the source.
    #[serde(default)]
    pub published: Vec<Published>,
    /// The claims.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// A table of the results: one line per system, one column per source and statistic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// The title.
    pub title: String,
    /// The metric.
    pub metric: String,
    /// The statistics, in the order of the columns.
    pub statistics: Vec<String>,
    /// The operations, in the order of the columns.
    #[serde(default = "all")]
    pub operations: Vec<String>,
    /// The order of the metric.
    pub order: Option<u8>,
    /// The workloads or traces; all if empty.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Whether a column next to each shows the source's value.
    #[serde(default)]
    pub beside: bool,
}

/// Parses the platform of an experiment.
fn platform<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Platform, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse() {
        Ok(Platform::Native) => Ok(Platform::Native),
        Ok(Platform::Sim(machine)) => {
            let mut known = everybuddy_simulate::machines::names();
            known.push(FLAT);
            // A file is read when the experiment runs.
            if known.contains(&machine.as_str()) || machine.ends_with(".toml") {
                Ok(Platform::Sim(machine))
            } else {
                Err(D::Error::custom(choice::unknown(
                    "machine", &machine, &known,
                )))
            }
        }
        Ok(_) => {
            let what = format!("platform `{text}`: experiments run on `native` or `sim:MACHINE`");
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
    /// The subject of the measurement: the first column.
    pub what: String,
    /// The operation, as rows name it.
    pub operation: String,
    /// The metric, as rows name it.
    pub metric: String,
    /// The mean.
    pub mean: f64,
    /// The standard deviation, if it was printed.
    pub stddev: Option<f64>,
}

impl TableSpec {
    /// Returns which values of its metric are good.
    pub fn better(&self) -> Better {
        everybuddy_metrics::find(&self.metric).map_or(Better::Neither, |metric| metric.better)
    }
}

impl Experiment {
    /// Parses an experiment's file.
    ///
    /// # Errors
    /// Returns a usage error with the problem.
    pub fn parse(file: &str, text: &str) -> Result<Experiment, Error> {
        let refuse = |what: String| Error::usage(format!("experiment {file}: {what}"));
        let mut own: Experiment =
            toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        for text in own.systems.iter_mut().chain(&mut own.drawn) {
            *text = choice::one(text)?.to_string();
        }
        let claims = own.claims.iter_mut();
        let names = claims.flat_map(|claim| claim.systems.iter_mut().chain(&mut claim.rivals));
        for text in names.chain(&mut own.comparable) {
            // A name that is not a system is reported with its place.
            if let (false, Ok(spec)) = (own.others.contains(text), choice::one(text)) {
                *text = spec.to_string();
            }
        }
        for name in &own.traces {
            // Another folder of traces need not have those that the experiments of the program name.
            if library::bundled(name).is_none() {
                library::file(name).map_err(|error| refuse(error.to_string()))?;
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
        if let Some(own) = &self.comparable {
            let place = |what: String| format!("comparable: {what}");
            words.systems(std::slice::from_ref(own)).map_err(place)?;
        }
        let place = |what: String| format!("drawn: {what}");
        words.systems(&self.drawn).map_err(place)?;
        let variants = WORKLOADS.iter().flat_map(|row| row.variants);
        let workloads: Vec<&str> = variants.map(|variant| variant.name).collect();
        choice::all_known("workload", &self.workloads, &workloads)?;
        for all in [&self.systems, &self.trace_names(), &self.workloads] {
            let is_twice = |at: &usize| all[..*at].contains(&all[*at]);
            if let Some(at) = (1..all.len()).find(is_twice) {
                return Err(format!("`{}` is listed twice", all[at]));
            }
        }
        for table in &self.tables {
            let place = |what: String| format!("table \"{}\": {what}", table.title);
            words
                .metric(&table.metric, &table.statistics)
                .map_err(place)?;
            words.operations(&table.operations).map_err(place)?;
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

    /// Checks that tables and claims name only sources that rows can have.
    ///
    /// # Errors
    /// Returns the description of the first unknown one.
    pub fn check_sources(&self, known: &[String]) -> Result<(), String> {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for table in &self.tables {
            let place = |what: String| format!("table \"{}\": {what}", table.title);
            choice::all_known("source", &table.sources, &known).map_err(place)?;
        }
        for claim in &self.claims {
            let place = |what: String| format!("claim \"{}\": {what}", claim.text);
            choice::all_known("source", &claim.sources, &known).map_err(place)?;
        }
        Ok(())
    }

    /// Returns the experiment without the tables and claims of a [full](Self::in_full) run. `sources` are those of a
    /// short one.
    #[must_use]
    pub(crate) fn in_short(mut self, sources: &[String]) -> Experiment {
        // A table or a claim without sources applies to all sources.
        let stays = |own: &mut Vec<String>| {
            let is_about_all = own.is_empty();
            own.retain(|name| sources.contains(name));
            is_about_all || !own.is_empty()
        };
        self.tables.retain_mut(|table| stays(&mut table.sources));
        // The spread of a part of the sources says nothing about the spread of all.
        let is_whole = |claim: &Claim| {
            claim.of != Of::Spread || claim.sources.iter().all(|name| sources.contains(name))
        };
        self.claims
            .retain_mut(|claim| is_whole(claim) && stays(&mut claim.sources));
        self
    }

    /// Returns the experiment with everything that its file lists: more CPUs, readings and seeds. It takes much longer.
    #[must_use]
    pub fn in_full(mut self) -> Experiment {
        self.parameters.extend(self.full.clone());
        self
    }

    /// Returns the systems.
    ///
    /// # Errors
    /// Returns a usage error for an unknown system.
    pub fn specs(&self) -> Result<Vec<SystemSpec>, Error> {
        choice::parse(&self.systems)
    }

    /// Returns the frames of a replay's memory, if specified.
    ///
    /// # Errors
    /// Returns the problem with the size.
    pub fn frames(&self) -> Result<Option<u64>, String> {
        let size = self.memory.as_deref().map(str::parse::<Size>).transpose()?;
        Ok(size.map(|size| size.frames))
    }

    /// Returns the names of its traces, as rows have them as sources.
    pub fn trace_names(&self) -> Vec<String> {
        let stem = |trace: String| {
            let stem = Path::new(&trace).file_stem();
            stem.map_or(trace.clone(), |stem| stem.to_string_lossy().into_owned())
        };
        self.traces().into_iter().map(stem).collect()
    }

    /// Returns the traces to replay.
    pub fn traces(&self) -> Vec<String> {
        if self.traces.is_empty() {
            library::DEFAULT.map(String::from).to_vec()
        } else {
            self.traces.clone()
        }
    }
}
