//! The machines that belong to the program, and machines by name.
//!
//! Machines are selected by name, or by the path of a file. To add one, add a file to `machines` and a line here.
//!
//! # Invariants
//! Every file in `machines` is listed.

use std::fs;
use std::path::Path;

use everybuddy_measure::Error;
use everybuddy_measure::choice::unknown;

use crate::machines::machine::Machine;

macro_rules! bundled {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../machines/", $name, ".toml")))),+]
    };
}

/// The files that belong to the program, by name.
const BUNDLED: &[(&str, &str)] = bundled![
    "x5570",
    "porter-smp",
    "x5355",
    "e5-2620v3",
    "epyc-7763",
    "xeon-8480",
];

/// Returns the names of the machines that belong to the program.
pub fn names() -> Vec<&'static str> {
    BUNDLED.iter().map(|own| own.0).collect()
}

/// Returns all machines that belong to the program.
///
/// # Errors
/// Like [`Machine::parse`].
pub fn all_machines() -> Result<Vec<Machine>, Error> {
    let read = |(name, text): &(&str, &str)| Machine::parse(name, text);
    BUNDLED.iter().map(read).collect()
}

/// Returns a machine: by name, or by the path of a TOML file.
///
/// # Errors
/// Returns a usage error for an unknown name, with the nearest known name, and like [`Machine::parse`].
pub fn by_name_or_path(name: &str) -> Result<Machine, Error> {
    if let Some((name, text)) = BUNDLED.iter().find(|own| own.0 == name) {
        return Machine::parse(name, text);
    }
    let path = Path::new(name);
    if path.extension().is_some_and(|own| own == "toml") {
        let text = fs::read_to_string(path).map_err(|cause| {
            Error::usage(format!(
                "machine {name}: {cause}\nhelp: `everybuddy machines --measure -o {name}` writes one for this host"
            ))
        })?;
        return Machine::parse(name, &text);
    }
    let what = unknown("machine", name, &names());
    let help = "help: pass one of them, or the path of a .toml file";
    Err(Error::usage(format!("{what}\n{help}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::number::NUMBERS;

    #[test]
    fn the_files_are_right_and_named_as_listed() {
        let all = all_machines().unwrap();
        for ((name, _), own) in BUNDLED.iter().zip(&all) {
            assert_eq!(*name, own.name);
            own.hardware.check().unwrap();
            assert!(own.title.len() <= 80 && !own.text.is_empty(), "{name}");
            for number in NUMBERS {
                let (value, source) = (number.text(&own.hardware), own.source(number.key));
                assert_eq!(value.is_some(), source.is_some(), "{name}: {}", number.key);
            }
            assert_eq!(&Machine::parse(name, &own.to_toml()).unwrap(), own);
        }
        let cpus: Vec<u32> = all.iter().map(|own| own.hardware.cpus()).collect();
        assert_eq!(cpus, [16, 32, 8, 24, 256, 224]);
    }

    #[test]
    fn every_file_of_the_folder_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/machines");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let listed = name.strip_suffix(".toml");
            assert!(listed.is_some_and(|own| names().contains(&own)), "{name}");
        }
    }

    #[test]
    fn machines_are_found_by_name_and_by_path() {
        assert_eq!(by_name_or_path("x5570").unwrap().name, "x5570");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/x5355.toml");
        assert_eq!(by_name_or_path(path).unwrap().hardware.l2, None);
        let message = |name: &str| by_name_or_path(name).unwrap_err().to_string();
        assert!(message("x557").contains("did you mean `x5570`?"));
        assert!(message("pdp-11/70").contains("the machines are x5570, porter-smp"));
        let missing = message("no/such.toml");
        assert!(missing.contains("no/such.toml") && missing.contains("--measure"));
    }
}
