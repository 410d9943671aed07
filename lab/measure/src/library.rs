//! The traces that come with the program, and the locations of others.
//!
//! A trace can be named by its file or, if it is bundled with the program, by its bare name. Bundled traces are part of
//! the program, so they are there wherever it is installed and from whatever folder it runs.
//!
//! # Invariants
//! The same name selects the same trace for every subcommand.

use std::env;
use std::path::{Path, PathBuf};

use everybuddy_trace::{Embedded, Leniency, Machine, Repairs, Trace, files, read_embedded, shown};

use crate::Error;
use crate::choice::nearest;

/// A trace that is bundled with the program.
#[derive(Clone, Copy)]
pub struct Bundled {
    /// What was recorded, in a few words.
    pub program: &'static str,
    /// Its name and its files.
    pub trace: Embedded,
}

/// The files of the folder `traces`. The bundled traces have no acquisitions of locks.
macro_rules! bundled {
    ($($name:literal: $program:literal,)+) => {
        [$(Bundled {
            program: $program,
            trace: Embedded {
                name: $name,
                calls: include_bytes!(concat!("../traces/", $name, ".parquet")),
                companions: [
                    Some(include_bytes!(concat!("../traces/", $name, ".faults.parquet"))),
                    Some(include_bytes!(concat!("../traces/", $name, ".vmas.parquet"))),
                    None,
                ],
            },
        }),+]
    };
}

/// The traces that are bundled with the program.
pub static BUNDLED: [Bundled; 6] = bundled![
    "gcc_build": "gcc builds lua and zlib, two jobs at a time",
    "dbench_tar": "dbench, then tar: file operations, mostly page cache",
    "numpy_thp": "data processing with numpy and pandas, with transparent huge pages",
    "sysbench_mt_cut": "sysbench, its tests of memory and threads: the first 150,000 calls",
    "linux_scalability": "two threads allocate 150,000 objects of 512 bytes each, and free them",
    "threadtest": "two threads allocate 15,000 objects of 1 KiB each and free them, ten times",
];

/// Returns the machine on which all bundled traces were recorded, as traces/README.md describes it: their files do not
/// name it. Its zones, and how much was free, are not known.
fn recorded_on() -> Machine {
    Machine {
        kernel: "6.18.44".to_string(),
        cpus: 2,
        total_kib: 24 << 20,
        settings: vec![(
            "transparent_hugepage/enabled".to_string(),
            "madvise".to_string(),
        )],
        ..Machine::default()
    }
}

/// The bundled traces that run if none is named, in the order in which they run. Experiments name the others.
pub const DEFAULT: [&str; 3] = ["gcc_build", "dbench_tar", "numpy_thp"];

/// The environment variable that names a folder of traces, which replaces the bundled ones.
pub const FOLDER_VARIABLE: &str = "EVERYBUDDY_TRACES";

/// Returns the bundled trace with a name.
pub fn bundled(name: &str) -> Option<&'static Bundled> {
    BUNDLED.iter().find(|own| own.trace.name == name)
}

/// The place of a trace.
enum Place {
    File(PathBuf),
    Program(&'static Bundled),
}

/// Finds a trace that is given by path or by bare name.
fn locate(name: &str) -> Result<Place, Error> {
    let folder = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    locate_in(name, folder.as_deref().map(Path::new))
}

/// Finds a trace as if [`FOLDER_VARIABLE`] had this value.
fn locate_in(name: &str, folder: Option<&Path>) -> Result<Place, Error> {
    let path = Path::new(name);
    let is_bare = path.components().count() == 1 && path.extension().is_none();
    if path.is_file() || !is_bare {
        return Ok(Place::File(path.to_path_buf()));
    }
    if let Some(folder) = folder {
        let path = folder.join(format!("{name}.parquet"));
        let found = (path.is_file(), folder.is_dir());
        let (folder, name) = (shown(folder), shown(name));
        return match found {
            (true, _) => Ok(Place::File(path)),
            (false, true) => Err(Error::usage(format!(
                "trace `{name}` not found (no {name}.parquet in {folder}, the folder that {FOLDER_VARIABLE} names)\n\
                 help: pass a .parquet file, or unset {FOLDER_VARIABLE} to use the bundled traces"
            ))),
            (false, false) => Err(Error::usage(format!(
                "trace `{name}` not found ({FOLDER_VARIABLE} names {folder}, which is not a folder)\n\
                 help: set {FOLDER_VARIABLE} to a folder of traces, or unset it to use the bundled traces"
            ))),
        };
    }
    if let Some(own) = bundled(name) {
        return Ok(Place::Program(own));
    }
    let known = BUNDLED.map(|own| own.trace.name);
    let hint = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    let name = shown(name);
    Err(Error::usage(format!(
        "trace `{name}` not found (neither a file nor a bundled trace)\nhelp: {hint}pass a .parquet file, or one of {}",
        known.join(", "),
    )))
}

/// Returns the file of a trace that is given by path or by bare name, or `None` if the trace is part of the program.
///
/// A path that does not exist is returned anyway, and reading it reports the error. For an unknown bare name, the
/// error lists the known names.
///
/// # Errors
/// Returns a usage error for an unknown bare name.
pub fn file(name: &str) -> Result<Option<PathBuf>, Error> {
    Ok(match locate(name)? {
        Place::File(path) => Some(path),
        Place::Program(_) => None,
    })
}

/// Reads a trace with calls that is given by path or by bare name. The name of the trace, which follows from that of
/// its file, may be shown as it is.
///
/// # Errors
/// Returns the errors of [`read_any`], or a usage error for a trace that contains only waits.
pub fn read(name: &str, leniency: Leniency) -> Result<(Trace, Repairs), Error> {
    let (trace, repairs) = read_any(name, leniency)?;
    if trace.events.is_empty() {
        let name = shown(name);
        return Err(Error::usage(format!(
            "trace {name} has no page events: it contains only waits for zones' locks\n\
             help: use `everybuddy advise {name}` or `everybuddy trace info {name}`, or record without --contended"
        )));
    }
    Ok((trace, repairs))
}

/// Reads a trace like [`read`], or one that contains only waits for zones' locks.
///
/// # Errors
/// Returns the errors of [`file`](fn@file) and of the trace.
pub fn read_any(name: &str, leniency: Leniency) -> Result<(Trace, Repairs), Error> {
    let (mut trace, repairs) = match locate(name)? {
        Place::File(path) => everybuddy_trace::read(&path, leniency)?,
        Place::Program(own) => {
            let (mut trace, repairs) = read_embedded(&own.trace, leniency)?;
            trace.metadata.push(recorded_on().entry());
            (trace, repairs)
        }
    };
    trace.name = shown(&trace.name);
    Ok((trace, repairs))
}

/// Rejects an output file that is not named like a trace, or that is one of the files of `input`, if that is a file.
///
/// # Errors
/// Returns a usage error that suggests another name.
pub fn check_output(output: &Path, input: Option<&Path>) -> Result<(), Error> {
    if output
        .extension()
        .is_none_or(|extension| extension != "parquet")
    {
        let better = output.with_extension("parquet");
        return Err(Error::usage(format!(
            "{}: the name of a trace must end in .parquet\nhelp: use {}",
            shown(output),
            shown(&better)
        )));
    }
    // The companions are written, too.
    let mut written = files(output).into_iter();
    let Some(input) = input else { return Ok(()) };
    written.try_for_each(|file| check_distinct("-o", &file, input))
}

/// Rejects a trace that would replace another one, or its companions, unless the user asked for that.
///
/// # Errors
/// Returns a usage error that names the existing file.
pub fn check_replaced(output: &Path, is_forced: bool) -> Result<(), Error> {
    let existing = files(output).into_iter().find(|file| file.exists());
    match existing {
        Some(file) if !is_forced => Err(Error::usage(format!(
            "{} already exists\nhelp: choose another name with -o, or replace the trace with --force",
            shown(&file)
        ))),
        _ => Ok(()),
    }
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
    if read.any(|read| same(output, &read)) {
        Err(Error::usage(format!(
            "{option} {}: the input file is never changed\nhelp: choose another file",
            shown(output)
        )))
    } else {
        Ok(())
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
        assert!(check_output(&input, Some(&input)).is_err());
        assert!(check_output(&folder.join("b.parquet"), Some(&input)).is_ok());
        assert!(check_output(&folder.join("b"), Some(&input)).is_err());
        // Its faults would replace those of the input.
        assert!(check_output(&folder.join("a.faults.parquet"), Some(&input)).is_err());
        // A recording has no companions: this trace was made of it before.
        std::fs::write(folder.join("a.data"), "").unwrap();
        assert!(check_output(&input, Some(&folder.join("a.data"))).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn paths_stay_and_names_are_explained() {
        let is_file = |name: &str| {
            let found = locate_in(name, None);
            matches!(found, Ok(Place::File(path)) if path == Path::new(name))
        };
        assert!(is_file("no/such.parquet") && is_file("such.parquet"));
        let message = |name, folder| match locate_in(name, folder) {
            Ok(_) => panic!("{name} was found"),
            Err(error) => error.to_string(),
        };
        assert!(message("gcc_biuld", None).contains("did you mean `gcc_build`?"));
        let nowhere = message("gcc_build", Some(Path::new("/no/such/folder")));
        assert!(nowhere.contains("not a folder") && nowhere.contains("or unset it"));
        let folder = env::temp_dir();
        assert!(message("gcc_build", Some(&folder)).contains("no gcc_build.parquet in"));
    }

    #[test]
    fn the_default_traces_are_bundled() {
        for name in DEFAULT {
            let own = bundled(name).expect("bundled");
            let (trace, repairs) = read_embedded(&own.trace, Leniency::Strict).unwrap();
            assert!(repairs.is_empty() && trace.name == name);
            assert_eq!(
                Machine::of(&read(name, Leniency::Strict).unwrap().0),
                Some(recorded_on())
            );
            assert!(!trace.faults.is_empty() && !trace.regions.is_empty());
        }
    }
}
