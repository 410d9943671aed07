//! The selection of systems and workloads by name.
//!
//! The error for a mistyped name suggests the nearest name and lists all names.
//!
//! # Invariants
//! The selection is never empty and contains no system twice.

use everybuddy::SystemSpec;
pub use everybuddy::systems::nearest;
use everybuddy::systems::{OPTIONS, ROWS, SpecError};
use everybuddy_workload::{Variant, WORKLOADS};

use crate::Error;

/// Returns every system.
pub fn all() -> Vec<SystemSpec> {
    ROWS.iter().map(SystemSpec::of).collect()
}

/// Linux's lists as they are in Linux: under a lock. `linux-6` has none.
pub const LINUX: &str = "linux-6+percpu=locked";

/// Returns `true` for systems whose lists are Linux's without locks: no kernel has them. They show what the locks cost.
pub fn no_kernel_has(system: &str) -> bool {
    let mut parts = system.split('+');
    let name = parts.next().unwrap_or_default();
    ["linux-6", "zones-4"].contains(&name) && !parts.any(|option| option == "percpu=locked")
}

/// Returns every system, and before `linux-6` the same with the locks that Linux has.
pub fn compared() -> Vec<SystemSpec> {
    let mut systems = all();
    let plain = systems
        .iter()
        .position(|spec| LINUX.starts_with(spec.name()));
    if let (Some(position), Ok(linux)) = (plain, LINUX.parse()) {
        systems.insert(position, linux);
    }
    systems
}

/// The systems that answer most questions: Linux of 2009 and of today, another author's design for many CPUs, and ours.
const MAIN: [&str; 4] = ["lbs-31", LINUX, "llfree", "everybuddy"];

/// Returns the systems that a long command runs if none are named.
///
/// # Errors
/// Returns an error if one of them does not exist.
pub fn main() -> Result<Vec<SystemSpec>, Error> {
    parse(&MAIN.map(String::from))
}

/// Parses a list of systems, each `NAME` or `NAME+key=value+...`.
///
/// # Errors
/// Returns an error for the first text that names no system, with a suggestion.
pub fn parse(texts: &[String]) -> Result<Vec<SystemSpec>, Error> {
    let mut chosen: Vec<SystemSpec> = Vec::new();
    for text in texts {
        let spec = one(text)?;
        if !chosen.contains(&spec) {
            chosen.push(spec);
        }
    }
    if chosen.is_empty() {
        return Err(Error::usage(
            "--systems: the list is empty; name systems, or omit the option",
        ));
    }
    Ok(chosen)
}

/// Parses one system.
///
/// # Errors
/// Like [`parse`].
pub fn one(text: &str) -> Result<SystemSpec, Error> {
    text.parse().map_err(|error| explain(text, error))
}

/// Parses a list of workloads and variants. The name of a workload stands for all its variants.
///
/// # Errors
/// Returns an error for the first name that does not exist, with a suggestion.
pub fn workloads(texts: &[String]) -> Result<Vec<&'static Variant>, Error> {
    let mut chosen: Vec<&'static Variant> = Vec::new();
    for text in texts {
        let all = || WORKLOADS.iter().flat_map(|row| row.variants);
        let row = WORKLOADS.iter().find(|row| row.name == text);
        let own: Vec<&'static Variant> = match row {
            Some(row) => row.variants.iter().collect(),
            None => all().filter(|variant| variant.name == text).collect(),
        };
        if own.is_empty() {
            let names: Vec<&str> = all().map(|variant| variant.name).collect();
            let rows = WORKLOADS.iter().map(|row| row.name);
            let known: Vec<&str> = rows.chain(names.iter().copied()).collect();
            let hint = match nearest(text, known) {
                Some(near) => format!("did you mean `{near}`? "),
                None => String::new(),
            };
            return Err(Error::usage(format!(
                "workload `{text}` not found\nhelp: {hint}the workloads are {}",
                names.join(", ")
            )));
        }
        for variant in own {
            if !chosen.iter().any(|other| other.name == variant.name) {
                chosen.push(variant);
            }
        }
    }
    Ok(chosen)
}

/// Returns the options of a system in the syntax of the command line, without the name: `batch=7+order=9`.
pub fn options(spec: &SystemSpec) -> String {
    let text = spec.to_string();
    text.split_once('+')
        .map(|(_, options)| options.to_string())
        .unwrap_or_default()
}

fn explain(text: &str, error: SpecError) -> Error {
    let help = match error {
        SpecError::UnknownOption { nearest: None, .. } => {
            let is_taken = |key: &&str| ROWS.iter().any(|row| row.takes(key));
            let keys = OPTIONS.iter().map(|option| option.key).filter(is_taken);
            format!("the options are {}", keys.collect::<Vec<_>>().join(", "))
        }
        SpecError::UnknownOption { .. } => String::new(),
        SpecError::UnknownSystem { .. } if error.part(text).is_empty() => {
            "write names with a comma between them, as in bs,lbs-31".to_string()
        }
        SpecError::UnknownSystem { .. } => {
            let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            format!("the systems are {}", names.join(", "))
        }
        SpecError::BadValue { key, needs } => match near_value(text, key, needs) {
            Some(near) => format!("did you mean `{key}={near}`?"),
            None => String::new(),
        },
        SpecError::NotTaken { .. } => String::new(),
        _ => "write options as in lbs-31+batch=7+percpu=locked".to_string(),
    };
    let help = if help.is_empty() {
        help
    } else {
        format!("\nhelp: {help}")
    };
    let part = match error.part(text) {
        part if part == text => String::new(),
        "" => ", an empty option".to_string(),
        part => format!(", `{part}`"),
    };
    Error::usage(format!("system `{text}`{part}: {error}{help}"))
}

/// Returns the value of an option that is most similar to the given one, for options whose values have names. `needs`
/// describes the values, with names in back quotes.
fn near_value<'n>(text: &str, key: &str, needs: &'n str) -> Option<&'n str> {
    let mut options = text.split('+').filter_map(|option| option.split_once('='));
    let (_, given) = options.find(|option| option.0 == key)?;
    let names: Vec<&str> = needs.split('`').skip(1).step_by(2).collect();
    nearest(given, names)
}

/// Describes an unknown name, with the nearest known one. `what` is a noun whose plural ends in `s`.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the {what}s are {}", known.join(", ")),
    };
    format!("{what} `{name}` does not exist; {hint}")
}

/// Checks that all names are known.
///
/// # Errors
/// Returns the description of the first unknown name.
pub fn all_known(what: &str, names: &[String], known: &[&str]) -> Result<(), String> {
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(unknown(what, name, known)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_explained() {
        let message = |text: &str| one(text).unwrap_err().to_string();
        assert!(message("lbs31").contains("did you mean `lbs-31`?"));
        assert!(message("BS").contains("did you mean `bs`?"));
        assert!(!message("jemalloc").contains("did you mean"));
        assert!(message("jemalloc").contains("linux-6"));
        assert!(message("").contains("help: write names with a comma between them"));
        let not_taken = message("bs+batch=3");
        assert!(not_taken.contains("it takes order, zone") && !not_taken.contains("help:"));
        assert!(message("lbs-31+percpu=lockd").contains("did you mean `percpu=locked`?"));
        assert!(message("lbs-31+colour").contains("help: write options as in"));
        assert!(message("lbs-31+bacth=3").contains("did you mean `batch`?"));
        // Of several options, the wrong one is named.
        assert!(message("lbs-31+high=9+bacth=3+order=4").contains(", `bacth=3`: "));
        assert!(message("lbs-31+batch=7+high=9+batch=8").contains(", `batch=8`: "));
        let number = message("lbs-31+batch=x");
        assert!(
            number.ends_with("`batch` takes a number, 1 to 1048576"),
            "{number}"
        );
        let names = ["bs".to_string(), "iss".to_string()];
        assert_eq!(all_known("system", &names, &["bs", "iss"]), Ok(()));
        let message = |known: &[&str]| all_known("system", &names, known).unwrap_err();
        assert_eq!(
            message(&["bs", "is"]),
            "system `iss` does not exist; did you mean `is`?"
        );
        let far = unknown("system", "jemalloc", &["bs", "lbs-31"]);
        assert_eq!(
            far,
            "system `jemalloc` does not exist; the systems are bs, lbs-31"
        );
    }

    #[test]
    fn nothing_runs_twice() {
        let list = ["bs", "lbs-31", "bs"].map(String::from);
        assert_eq!(parse(&list).unwrap().len(), 2);
        assert!(parse(&[]).is_err());
        assert_eq!(all().len(), ROWS.len());
        let names: Vec<String> = compared().iter().map(ToString::to_string).collect();
        let linux = names.iter().position(|name| name == LINUX).unwrap();
        assert_eq!(names[linux + 1].as_str(), "linux-6");
        assert_eq!(names.len(), ROWS.len() + 1);
        let main: Vec<String> = main().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(main, MAIN);
        assert!(main.iter().all(|name| names.contains(name)));
        assert_eq!(options(&one("lbs-31+batch=7").unwrap()), "batch=7");
        let rows = names.iter().filter(|name| no_kernel_has(name));
        assert_eq!(rows.collect::<Vec<_>>(), ["linux-6", "zones-4"]);
        assert!(no_kernel_has("linux-6+fraction=8"));
        assert!(!no_kernel_has("linux-6+fraction=8+percpu=locked"));
    }
}
