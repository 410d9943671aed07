//! The lists: experiments, methods, figures.
//!
//! Everything that is selected by name is in one place. To add an experiment on an existing method, add a directory
//! with an `experiment.toml`. To add a figure, add a table to `figures.toml`; to add a method or a figure that is code,
//! add its file, and a line here.
//!
//! # Invariants
//! A returned [`Experiment`] names only existing systems, methods and figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use everybuddy_measure::Error;
use everybuddy_measure::choice::{all_known, unknown};
use everybuddy_measure::claim::{Claim, Complete, Verdict};
use everybuddy_measure::rows::Row;

use crate::shared::Experiment;
use crate::shared::design::Design;
use crate::shared::figure::{Draw, Drawing};
use crate::shared::layout::Layout;
use crate::shared::method::{Conditions, Measure, Method};
use crate::shared::rows::BASE;
use crate::{
    actions, break_even, buffers, bulk_sizes, coalescing, components, contention, division,
    emulation, fill_levels, fragmentation, giving_back, latency_distribution, list_operations,
    lock_cost, lock_hold, odd_sizes, prediction, request_sizes, run_lengths, simulated,
    size_sequences, space_size, stages, streams_blocking, streams_costs, streams_distribution,
    streams_memory, structures,
};

// The files of the experiments, by name: `EXPERIMENTS`. The build script finds the directories.
include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// All methods.
pub const METHODS: &[Method] = &[
    Method::of::<fragmentation::Parameters>("fragmentation"),
    Method::of::<fill_levels::Parameters>("workloads"),
    Method::of::<space_size::Parameters>("spaces"),
    Method::of::<bulk_sizes::Parameters>("bulk"),
    Method::of::<lock_hold::Parameters>("locks"),
    Method::of::<lock_cost::Parameters>("lock-cost"),
    Method::of::<components::Parameters>("calls"),
    Method::of::<list_operations::Parameters>("counts"),
    Method::of::<request_sizes::Parameters>("sizes"),
    Method::of::<latency_distribution::Parameters>("distribution"),
    Method::of::<run_lengths::Parameters>("lengths"),
    Method::of::<contention::Parameters>("contention"),
    Method::of::<prediction::Parameters>("prediction"),
    Method::of::<buffers::Parameters>("buffers"),
    Method::of::<stages::Parameters>("stages"),
    Method::of::<coalescing::Parameters>("coalescing"),
    Method::of::<odd_sizes::Parameters>("odd-sizes"),
    Method::of::<size_sequences::Parameters>("size-sequences"),
    Method::of::<division::Parameters>("division"),
    Method::of::<actions::Parameters>("actions"),
    Method::of::<break_even::Parameters>("break-even"),
    Method::of::<emulation::measure::Parameters>("emulation"),
    Method::of::<streams_costs::Parameters>("streams-costs"),
    Method::of::<streams_blocking::Parameters>("streams-blocking"),
    Method::of::<streams_distribution::Parameters>("streams-distribution"),
    Method::of::<streams_memory::Parameters>("streams-memory"),
    Method::of::<structures::Parameters>("structures"),
    Method::of::<simulated::Parameters>("simulated"),
    Method::of::<giving_back::Parameters>("giving-back"),
];

/// The figures that are code.
const FIGURES: &[(&str, Draw)] = &[
    ("fragmentation", fragmentation::figure::draw),
    ("latency-distribution", latency_distribution::figure::draw),
    ("run-lengths", run_lengths::figure::draw),
    ("prediction", prediction::figure::draw),
    ("buffers", buffers::figure::draw),
    ("stages", stages::figure::draw),
    ("division", division::figure::draw),
    ("break-even", break_even::figure::draw),
    ("emulation", emulation::figure::draw),
    ("streams-costs", streams_costs::figure::draw),
    ("streams-blocking", streams_blocking::figure::draw),
    ("streams-distribution", streams_distribution::figure::draw),
    ("streams-memory", streams_memory::figure::draw),
];

/// The figures that are data.
static LAYOUTS: LazyLock<BTreeMap<String, Layout>> = LazyLock::new(|| {
    toml::from_str(include_str!("figures.toml")).expect("the program's own figures are right")
});

/// Parses the file of an experiment.
///
/// # Errors
/// Returns a usage error with the problem.
pub fn read(file: &str, text: &str) -> Result<Experiment, Error> {
    let own = Experiment::parse(file, text)?;
    let refuse = |what: String| Error::usage(format!("experiment {file}: {what}"));
    let short = design(&own)?;
    // Tables and claims may be about a full run only. It must also have the sources of the short run.
    let full = own.clone().in_full();
    let whole = design(&full)?;
    let all = whole.sources();
    let known: Vec<&str> = all.iter().map(String::as_str).collect();
    all_known("[full]: source", &short.sources(), &known).map_err(refuse)?;
    own.check_sources(&all).map_err(refuse)?;
    for (run, design) in [(&own, &short), (&full, &whole)] {
        none_left_out(run, design).map_err(refuse)?;
    }
    let in_code = FIGURES.iter().map(|figure| figure.0);
    let figures: Vec<&str> = in_code.chain(LAYOUTS.keys().map(String::as_str)).collect();
    all_known("figure", own.figure.as_slice(), &figures).map_err(refuse)?;
    Ok(own)
}

/// Checks that no claim needs a cell that a run leaves out.
fn none_left_out(run: &Experiment, design: &Design) -> Result<(), String> {
    for claim in &run.claims {
        let about = if claim.sources.is_empty() {
            design.sources_of(&claim.metric)
        } else {
            claim.sources.clone()
        };
        let base = claim.metric.ends_with("_over_bs").then_some(BASE);
        let systems = claim.systems.iter().chain(&claim.rivals);
        for system in systems.map(String::as_str).chain(base) {
            if let Some(source) = about.iter().find(|name| design.is_left_out(system, name)) {
                return Err(format!(
                    "claim \"{}\": needs {system} under {source}, which `without` leaves out\n\
                     help: run that cell, or make the claim about others",
                    claim.text
                ));
            }
        }
    }
    Ok(())
}

/// Returns the method of an experiment, with its parameters.
///
/// # Errors
/// Returns a usage error for an unknown method, or for unknown parameters.
pub fn method(experiment: &Experiment) -> Result<Box<dyn Measure>, Error> {
    let (name, own) = (&experiment.name, &experiment.method);
    let found = METHODS.iter().find(|method| method.name == own);
    let refuse = || {
        let known: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
        let what = unknown("method", own, &known);
        Error::usage(format!("experiment {name}: {what}"))
    };
    found.ok_or_else(refuse)?.read(experiment)
}

/// Returns the design of an unshortened run of an experiment.
///
/// # Errors
/// Like [`method`], and a usage error for what the method refuses.
pub fn design(experiment: &Experiment) -> Result<Design, Error> {
    study(experiment, &Conditions::WHOLE).map(|(_, design)| design)
}

/// Returns the method of an experiment, and what it measures.
///
/// # Errors
/// Like [`design`].
pub fn study(
    experiment: &Experiment,
    conditions: &Conditions,
) -> Result<(Box<dyn Measure>, Design), Error> {
    let method = method(experiment)?;
    let design = method.design(experiment, conditions)?;
    // Finished cells are known by their names.
    let mut names = BTreeSet::new();
    let twice = design.cells.iter().find(|own| !names.insert(&own.name));
    match twice.map(|own| &own.name) {
        None => Ok((method, design)),
        Some(twice) => Err(Error::usage(format!(
            "experiment {}: `{twice}` is measured twice\nhelp: give traces, groups and loads different names",
            experiment.name
        ))),
    }
}

/// Judges the claims of an experiment by the rows of an earlier run. A claim that lacks rows, which a complete run has,
/// is inconclusive.
///
/// # Errors
/// Like [`method`].
pub fn judge_earlier(experiment: &Experiment, rows: &[Row]) -> Result<Vec<Verdict>, Error> {
    let (method, design) = study(experiment, &Conditions::WHOLE)?;
    let has_ends = method.repeats().has_ends();
    let judge = |claim: &Claim| {
        let complete = Complete {
            systems: &experiment.systems,
            sources: design.sources_of(&claim.metric),
            has_ends,
            rounds: &|system| design.rounds_of(system, &claim.metric),
        };
        claim.judge_part(&experiment.name, rows, &complete)
    };
    Ok(experiment.claims.iter().map(judge).collect())
}

/// Draws the figure of an experiment. Returns `None` if it has only tables.
pub fn draw(experiment: &Experiment, rows: &[Row]) -> Option<Drawing> {
    let name = experiment.figure.as_deref()?;
    match FIGURES.iter().find(|figure| figure.0 == name) {
        Some((_, draw)) => Some(draw(experiment, rows)),
        None => Some(LAYOUTS.get(name)?.draw(experiment, rows)),
    }
}

/// Returns all experiments that belong to the program.
///
/// # Errors
/// Like [`Experiment::parse`].
pub fn all_experiments() -> Result<Vec<Experiment>, Error> {
    let read = |(name, text): &(&str, &str)| read(name, text);
    EXPERIMENTS.iter().map(read).collect()
}

/// Returns the experiment with the tables and claims for which a run has rows. A `full` run keeps all of them, and so
/// does an `earlier` one with rows that only a full run has.
///
/// # Errors
/// Like [`method`].
pub fn run_of(experiment: Experiment, full: bool, earlier: &[Row]) -> Result<Experiment, Error> {
    let sources = design(&experiment)?.sources();
    let whole = experiment.clone().in_full();
    let of_whole = design(&whole)?.sources();
    let is_of_whole = |row: &Row| {
        row.experiment == whole.name
            && of_whole.contains(&row.source)
            && !sources.contains(&row.source)
    };
    Ok(if full || earlier.iter().any(is_of_whole) {
        whole
    } else {
        experiment.in_short(&sources)
    })
}

/// Returns the named experiments: by name, by the path of a TOML file, or `all`.
///
/// # Errors
/// Returns a usage error for an unknown name, with the nearest known name.
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
        return read(name, text);
    }
    let path = Path::new(name);
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let text = fs::read_to_string(path)
            .map_err(|cause| Error::usage(format!("experiment {name}: {cause}")))?;
        return read(name, &text);
    }
    let names: Vec<&str> = EXPERIMENTS.iter().map(|known| known.0).collect();
    Err(Error::usage(unknown("experiment", name, &names)))
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
            method(&own).unwrap();
        }
    }

    #[test]
    fn no_claim_bounds_a_time_of_the_host() {
        for own in all_experiments().unwrap() {
            let is_simulated = own.platform.is_simulated();
            for claim in own.claims.iter().filter(|_| !is_simulated) {
                assert!(!claim.bounds_a_time(), "{}: {}", own.name, claim.text);
            }
        }
    }

    #[test]
    fn a_short_run_has_the_tables_and_claims_of_its_sources() {
        // A reading runs in full only.
        let known = EXPERIMENTS
            .iter()
            .find(|known| known.0 == "spring-programs");
        let (reading, cut) = ("    { name = \"one\", frees = \"one\" },\n", "\n[full]\n");
        let text = known.unwrap().1;
        let all = &text[text.find("readings = [").unwrap()..text.find("examined =").unwrap()];
        let text = text
            .replacen(reading, "", 1)
            .replacen(cut, &format!("{cut}{all}"), 1);
        let find = || read("x.toml", &text).unwrap();
        let (short, full) = (
            run_of(find(), false, &[]).unwrap(),
            run_of(find(), true, &[]).unwrap(),
        );
        let sources = design(&short).unwrap().sources();
        let of_tables = short.tables.iter().map(|table| &table.sources);
        let of_claims = short.claims.iter().map(|claim| &claim.sources);
        for own in of_tables.chain(of_claims).flatten() {
            assert!(sources.contains(own), "{own}");
        }
        // Other readings have claims of their own, and the first one has all of its own.
        assert!(short.claims.len() < full.claims.len());
        let first = |own: &Experiment| -> Vec<String> {
            let all = own.claims.iter().flat_map(|claim| claim.sources.clone());
            all.filter(|source| sources.contains(source)).collect()
        };
        assert_eq!(first(&full), first(&short));
        let complete = one("fragmentation").unwrap();
        let tables = complete.tables.len();
        assert_eq!(run_of(complete, false, &[]).unwrap().tables.len(), tables);
        // Rows tell which run they are of.
        let row = |source: &String| Row {
            experiment: short.name.clone(),
            source: source.clone(),
            ..Row::default()
        };
        let of_short = sources.iter().map(row).collect::<Vec<_>>();
        let own = run_of(find(), false, &of_short).unwrap();
        assert_eq!(own.claims.len(), short.claims.len());
        let of_full = design(&full).unwrap().sources();
        let of_full = of_full.iter().map(row).collect::<Vec<_>>();
        let own = run_of(find(), false, &of_full).unwrap();
        assert_eq!(own.claims.len(), full.claims.len());
    }

    #[test]
    fn mistakes_are_explained() {
        let message = |text: &str| read("x.toml", text).unwrap_err().to_string();
        assert!(message("name = 1").contains("x.toml"));
        assert!(
            one("fragmentatio").unwrap_err().to_string().contains(
                "experiment `fragmentatio` does not exist; did you mean `fragmentation`?"
            )
        );
        // A line: the experiment, what is replaced, what replaces it, and what the error says.
        for line in include_str!("mistakes.txt").lines() {
            let line = line.replace("\\n", "\n");
            let [name, right, wrong, near] = line.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let known = EXPERIMENTS.iter().find(|known| known.0 == name);
            let text = known.unwrap().1;
            let changed = text.replacen(right, wrong, 1);
            assert_ne!(changed, *text, "{right}");
            let message = message(&changed);
            let mut parts = near.split(" & ");
            assert!(parts.all(|part| message.contains(part)), "{message}");
        }
    }
}
