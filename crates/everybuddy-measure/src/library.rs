//! The locations of traces.
//!
//! # Purpose
//!
//! A trace can be named by its file or, if it belongs to the project, by its bare name, from any working directory.
//!
//! # Invariants
//!
//! The same name selects the same file for every subcommand.

use std::env;
use std::path::{Path, PathBuf};

use everybuddy_trace::{Leniency, Repairs, Trace, files};

use crate::Error;
use crate::choice::nearest;

/// The traces of the project that run if none is named, in the order in which they run.
pub const BUNDLED: [&str; 3] = ["gcc_build", "dbench_tar", "numpy_thp"];

/// The other traces of the project, for experiments that name them.
pub const NAMED: [&str; 1] = ["sysbench_mt_cut"];

/// Returns `true` if a trace belongs to the project.
pub fn is_bundled(name: &str) -> bool {
    BUNDLED.iter().chain(&NAMED).any(|known| *known == name)
}

/// The environment variable that names a directory of traces, which replaces the default locations.
pub const FOLDER_VARIABLE: &str = "EVERYBUDDY_TRACES";

/// The directories that are searched for bare names.
fn folders() -> Vec<PathBuf> {
    match env::var_os(FOLDER_VARIABLE) {
        Some(folder) if !folder.is_empty() => vec![PathBuf::from(folder)],
        _ => vec![
            PathBuf::from("traces"),
            // The project's own directory, if the program was built there: `cargo run` from anywhere.
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .ancestors()
                .nth(2)
                .map_or_else(PathBuf::new, |project| project.join("traces")),
        ],
    }
}

/// Returns the file of a trace that is given by path or by bare name.
///
/// A path that does not exist is returned anyway, and reading it reports the error. For an unknown bare name, the
/// error lists the known names.
///
/// # Errors
/// Returns a usage error for an unknown bare name.
pub fn locate(name: &str) -> Result<PathBuf, Error> {
    let path = Path::new(name);
    let is_bare = path.components().count() == 1 && path.extension().is_none();
    if path.is_file() || !is_bare {
        return Ok(path.to_path_buf());
    }
    let file = format!("{name}.parquet");
    let folders = folders();
    if let Some(found) = folders
        .iter()
        .map(|folder| folder.join(&file))
        .find(|p| p.is_file())
    {
        return Ok(found);
    }
    let places: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    let known = [&BUNDLED[..], &NAMED].concat();
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    Err(Error::usage(format!(
        "trace `{name}` not found (no {file} in {})\nhelp: {hint}pass a .parquet file, or one of {}",
        places.join(" or "),
        known.join(", "),
    )))
}

/// Reads a trace that is given by path or by bare name.
///
/// # Errors
/// Returns the errors of [`locate`] and of the trace.
pub fn read(name: &str, leniency: Leniency) -> Result<(Trace, Repairs), Error> {
    Ok(everybuddy_trace::read(&locate(name)?, leniency)?)
}

/// Rejects an output file that is not named like a trace, or that is one of the files of `input`.
///
/// # Errors
/// Returns a usage error that suggests another name.
pub fn check_output(output: &Path, input: &Path) -> Result<(), Error> {
    if output
        .extension()
        .is_none_or(|extension| extension != "parquet")
    {
        let better = output.with_extension("parquet");
        return Err(Error::usage(format!(
            "{}: the name of a trace must end in .parquet\nhelp: use {}",
            output.display(),
            better.display()
        )));
    }
    // The companions are written, too.
    let mut written = files(output).into_iter();
    written.try_for_each(|file| check_distinct("-o", &file, input))
}

/// Rejects an output file, named by an option, that is `input` or, if that is a trace, a companion of it.
///
/// # Errors
/// Returns a usage error.
pub fn check_distinct(option: &str, output: &Path, input: &Path) -> Result<(), Error> {
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let is_trace = input.extension().is_some_and(|end| end == "parquet");
    // Only a trace has companions: next to `perf.data`, `perf.parquet` is the result of an earlier import.
    let companions = files(input).into_iter().skip(1).filter(|_| is_trace);
    let mut read = std::iter::once(input.to_path_buf()).chain(companions);
    match read.any(|read| same(output, &read)) {
        true => Err(Error::usage(format!(
            "{option} {}: the input file is never changed\nhelp: choose another file",
            output.display()
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_not_written() {
        let folder = env::temp_dir().join(format!("everybuddy-output-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let input = folder.join("a.parquet");
        for name in ["a.parquet", "a.faults.parquet"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert!(check_output(&input, &input).is_err());
        assert!(check_output(&folder.join("b.parquet"), &input).is_ok());
        assert!(check_output(&folder.join("b"), &input).is_err());
        // Its faults would replace those of the input.
        assert!(check_output(&folder.join("a.faults.parquet"), &input).is_err());
        // A recording has no companions: this trace was made of it before.
        std::fs::write(folder.join("a.data"), "").unwrap();
        assert!(check_output(&input, &folder.join("a.data")).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn paths_stay_and_names_are_explained() {
        assert_eq!(
            locate("no/such.parquet").unwrap(),
            Path::new("no/such.parquet")
        );
        assert_eq!(locate("such.parquet").unwrap(), Path::new("such.parquet"));
        let message = locate("gcc_biuld").unwrap_err().to_string();
        assert!(message.contains("did you mean `gcc_build`?"), "{message}");
    }
}
