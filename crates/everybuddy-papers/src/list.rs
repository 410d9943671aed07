//! The lists: experiments, methods, figures.
//!
//! Exists so that what is chosen by name is found in one place. To add an experiment: one folder, one line in
//! `EXPERIMENTS`.
//!
//! Invariant: an [`Experiment`] that is given names only systems, methods and figures that there are.

use std::fs;
use std::path::Path;

use everybuddy_measure::Error;
use everybuddy_measure::bench::Plan;
use everybuddy_measure::choice::nearest;

use crate::shared::figure::Figure;
use crate::shared::method::Method;
use crate::shared::{Experiment, Repeats};
use crate::*;

/// The experiments that come with the program: their names and their files.
const EXPERIMENTS: &[(&str, &str)] = &[
    (
        "fragmentation",
        include_str!("fragmentation/experiment.toml"),
    ),
    ("space-size", include_str!("space_size/experiment.toml")),
    ("fill-levels", include_str!("fill_levels/experiment.toml")),
    ("bulk-sizes", include_str!("bulk_sizes/experiment.toml")),
    (
        "latency-distribution",
        include_str!("latency_distribution/experiment.toml"),
    ),
    ("lock-hold", include_str!("lock_hold/experiment.toml")),
    ("run-lengths", include_str!("run_lengths/experiment.toml")),
    ("contention", include_str!("contention/experiment.toml")),
    ("prediction", include_str!("prediction/experiment.toml")),
    ("buffers", include_str!("buffers/experiment.toml")),
    ("stages", include_str!("stages/experiment.toml")),
    ("coalescing", include_str!("coalescing/experiment.toml")),
    ("odd-sizes", include_str!("odd_sizes/experiment.toml")),
    ("division", include_str!("division/experiment.toml")),
    ("actions", include_str!("actions/experiment.toml")),
    ("break-even", include_str!("break_even/experiment.toml")),
    ("emulation", include_str!("emulation/experiment.toml")),
    (
        "streams-costs",
        include_str!("streams_costs/experiment.toml"),
    ),
    (
        "streams-blocking",
        include_str!("streams_blocking/experiment.toml"),
    ),
    (
        "streams-distribution",
        include_str!("streams_distribution/experiment.toml"),
    ),
    (
        "streams-memory",
        include_str!("streams_memory/experiment.toml"),
    ),
];

/// All methods.
pub const METHODS: &[Method] = &[
    Method {
        name: "fragmentation",
        repeats: Repeats::Counted,
        steps: fragmentation::measure::steps,
        run: fragmentation::measure::run,
    },
    Method {
        name: "workloads",
        repeats: Repeats::Rounds(Plan::ROUNDS),
        steps: fill_levels::measure::steps,
        run: fill_levels::measure::run,
    },
    Method {
        name: "spaces",
        repeats: Repeats::RoundsAndCounted(Plan::ROUNDS),
        steps: space_size::measure::steps,
        run: space_size::measure::run,
    },
    Method {
        name: "bulk",
        repeats: Repeats::Counted,
        steps: bulk_sizes::measure::steps,
        run: bulk_sizes::measure::run,
    },
    Method {
        name: "locks",
        repeats: Repeats::Rounds(lock_hold::measure::ROUNDS),
        steps: lock_hold::measure::steps,
        run: lock_hold::measure::run,
    },
    Method {
        name: "distribution",
        repeats: Repeats::Calls(latency_distribution::measure::ROUNDS as u32),
        steps: latency_distribution::measure::steps,
        run: latency_distribution::measure::run,
    },
    Method {
        name: "lengths",
        repeats: Repeats::Counted,
        steps: run_lengths::measure::steps,
        run: run_lengths::measure::run,
    },
    Method {
        name: "contention",
        repeats: Repeats::Rounds(contention::measure::ROUNDS as u32),
        steps: contention::measure::steps,
        run: contention::measure::run,
    },
    Method {
        name: "prediction",
        repeats: Repeats::Counted,
        steps: prediction::measure::steps,
        run: prediction::measure::run,
    },
    Method {
        name: "buffers",
        repeats: Repeats::Counted,
        steps: buffers::measure::steps,
        run: buffers::measure::run,
    },
    Method {
        name: "stages",
        repeats: Repeats::Simulated,
        steps: stages::measure::steps,
        run: stages::measure::run,
    },
    Method {
        name: "coalescing",
        repeats: Repeats::Counted,
        steps: coalescing::measure::steps,
        run: coalescing::measure::run,
    },
    Method {
        name: "odd-sizes",
        repeats: Repeats::Counted,
        steps: odd_sizes::measure::steps,
        run: odd_sizes::measure::run,
    },
    Method {
        name: "division",
        repeats: Repeats::Counted,
        steps: division::measure::steps,
        run: division::measure::run,
    },
    Method {
        name: "actions",
        repeats: Repeats::RoundsAndCounted(actions::measure::ROUNDS),
        steps: actions::measure::steps,
        run: actions::measure::run,
    },
    Method {
        name: "break-even",
        repeats: Repeats::Rounds(break_even::measure::ROUNDS as u32),
        steps: break_even::measure::steps,
        run: break_even::measure::run,
    },
    Method {
        name: "emulation",
        repeats: Repeats::Seeds(emulation::measure::SEEDS),
        steps: emulation::measure::steps,
        run: emulation::measure::run,
    },
    Method {
        name: "streams-costs",
        repeats: Repeats::Seeds(streams::rows::SEEDS as u32),
        steps: streams_costs::measure::steps,
        run: streams_costs::measure::run,
    },
    Method {
        name: "streams-blocking",
        repeats: Repeats::Seeds(streams::rows::SEEDS as u32),
        steps: streams_blocking::measure::steps,
        run: streams_blocking::measure::run,
    },
    Method {
        name: "streams-distribution",
        repeats: Repeats::Seeds(streams::rows::SEEDS as u32),
        steps: streams_distribution::measure::steps,
        run: streams_distribution::measure::run,
    },
    Method {
        name: "streams-memory",
        repeats: Repeats::Seeds(streams::rows::SEEDS as u32),
        steps: streams_memory::measure::steps,
        run: streams_memory::measure::run,
    },
];

/// All figures.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "fragmentation",
        draw: fragmentation::figure::draw,
    },
    Figure {
        name: "space-size",
        draw: space_size::figure::draw,
    },
    Figure {
        name: "fill-levels",
        draw: fill_levels::figure::draw,
    },
    Figure {
        name: "latency-distribution",
        draw: latency_distribution::figure::draw,
    },
    Figure {
        name: "lock-hold",
        draw: lock_hold::figure::draw,
    },
    Figure {
        name: "run-lengths",
        draw: run_lengths::figure::draw,
    },
    Figure {
        name: "contention",
        draw: contention::figure::draw,
    },
    Figure {
        name: "prediction",
        draw: prediction::figure::draw,
    },
    Figure {
        name: "buffers",
        draw: buffers::figure::draw,
    },
    Figure {
        name: "stages",
        draw: stages::figure::draw,
    },
    Figure {
        name: "coalescing",
        draw: coalescing::figure::draw,
    },
    Figure {
        name: "odd-sizes",
        draw: odd_sizes::figure::draw,
    },
    Figure {
        name: "division",
        draw: division::figure::draw,
    },
    Figure {
        name: "actions",
        draw: actions::figure::draw,
    },
    Figure {
        name: "break-even",
        draw: break_even::figure::draw,
    },
    Figure {
        name: "emulation",
        draw: emulation::figure::draw,
    },
    Figure {
        name: "streams-costs",
        draw: streams_costs::figure::draw,
    },
    Figure {
        name: "streams-blocking",
        draw: streams_blocking::figure::draw,
    },
    Figure {
        name: "streams-distribution",
        draw: streams_distribution::figure::draw,
    },
    Figure {
        name: "streams-memory",
        draw: streams_memory::figure::draw,
    },
];

/// Reads an experiment from the text of its file.
///
/// # Errors
/// A usage error that says what the file has wrong.
pub fn read(file: &str, text: &str) -> Result<Experiment, Error> {
    let own = Experiment::parse(file, text)?;
    let refuse = |what: String| Error::usage(format!("experiment {file}: {what}"));
    if !METHODS.iter().any(|method| method.name == own.method) {
        return Err(refuse(format!("no method `{}`", own.method)));
    }
    let known = |name: &String| FIGURES.iter().any(|figure| figure.name == name);
    if let Some(name) = own.figure.iter().find(|name| !known(name)) {
        return Err(refuse(format!("no figure `{name}`")));
    }
    Ok(own)
}

/// Returns the way an experiment is measured.
///
/// # Errors
/// A usage error for a method that does not exist.
pub fn method(experiment: &Experiment) -> Result<&'static Method, Error> {
    let found = METHODS
        .iter()
        .find(|method| method.name == experiment.method);
    found.ok_or_else(|| Error::usage(format!("no method `{}`", experiment.method)))
}

/// Returns how an experiment is drawn; none for tables only.
pub fn figure(experiment: &Experiment) -> Option<&'static Figure> {
    let name = experiment.figure.as_deref()?;
    FIGURES.iter().find(|figure| figure.name == name)
}

/// Returns all experiments that come with the program.
///
/// # Errors
/// As [`Experiment::parse`].
pub fn all_experiments() -> Result<Vec<Experiment>, Error> {
    let read = |(name, text): &(&str, &str)| read(name, text);
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
            method(&own).unwrap();
        }
    }

    #[test]
    fn mistakes_are_explained() {
        let message = |text: &str| read("x.toml", text).unwrap_err().to_string();
        assert!(message("name = 1").contains("x.toml"));
        let text = EXPERIMENTS[0].1;
        let wrong = text.replacen("method = \"", "method = \"no", 1);
        assert!(message(&wrong).contains("no method `no"));
        let wrong = text.replacen("\"lbs-31\"", "\"lbs31\"", 1);
        assert!(message(&wrong).contains("did you mean"));
    }
}
