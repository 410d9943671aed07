//! What a source leaves open, and one way to read it.
//!
//! # Invariants
//! Rows name the systems that were simulated. Only while they are judged do they have the names of the paper's table.

use everybuddy_measure::choice;
use everybuddy_sim::Hardware;
use everybuddy_simulate::{Frees, Phases, Program, Services, Zones, machines};

use crate::shared::prelude::*;

/// A way to read a source that leaves something open.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reading {
    /// The name; that of the first one is not shown.
    pub(super) name: String,
    /// Which CPU frees a frame: `own`, `other` or `one`.
    #[serde(default, with = "Freeing")]
    pub(super) frees: Frees,
    /// Whether CPUs do the same at the same time: `together` or `apart`.
    #[serde(default, with = "Meeting")]
    pub(super) phases: Phases,
    /// How many zones there are: `one`, or one for each `socket`, with CPUs of all sockets in turn.
    #[serde(default, with = "Zoning")]
    pub(super) zones: Zones,
    /// Where services run: with the `callers`, or on CPUs of their `own`.
    #[serde(default, with = "Serving")]
    pub(super) services: Services,
    /// The mean number of cycles between two calls, if it is not that of all readings.
    pub(super) think: Option<u32>,
    /// The instructions that each call executes around the allocator.
    #[serde(default)]
    pub(super) around: u32,
    /// What programs do between two calls, as `everybuddy simulate --program` has it.
    #[serde(default)]
    pub(super) program: String,
    /// Numbers of the machine that this reading changes, by the keys of machine files.
    #[serde(default)]
    pub(super) machine: toml::Table,
    /// An option that the systems that take it have here, such as `state=record`.
    #[serde(default)]
    pub(super) with: String,
}

#[derive(Deserialize)]
#[serde(remote = "Frees", rename_all = "lowercase")]
enum Freeing {
    Own,
    Other,
    One,
}

#[derive(Deserialize)]
#[serde(remote = "Phases", rename_all = "lowercase")]
enum Meeting {
    Together,
    Apart,
}

#[derive(Deserialize)]
#[serde(remote = "Zones", rename_all = "lowercase")]
enum Zoning {
    One,
    Socket,
}

#[derive(Deserialize)]
#[serde(remote = "Services", rename_all = "lowercase")]
enum Serving {
    Callers,
    Own,
}

impl Reading {
    /// Returns what programs do.
    ///
    /// # Errors
    /// A text that names what is wrong, as of the others.
    pub(super) fn program(&self) -> Result<Program, String> {
        match &self.program[..] {
            "" => Ok(Program::default()),
            text => text.parse().map_err(|what| format!("program: {what}")),
        }
    }

    /// Returns a machine with the numbers of this reading.
    pub(super) fn hardware(&self, hardware: &Hardware) -> Result<Hardware, String> {
        machines::with(hardware, &self.machine).map_err(|what| format!("machine: {what}"))
    }

    /// Returns the systems with the option that those have here that take it.
    pub(super) fn specs(&self, specs: &[SystemSpec]) -> Result<Vec<SystemSpec>, String> {
        if self.with.is_empty() {
            return Ok(specs.to_vec());
        }
        let with = |spec: &SystemSpec| format!("{spec}+{}", self.with).parse().ok();
        if specs.iter().all(|spec| with(spec).is_none()) {
            return Err(format!("with: no system takes +{}", self.with));
        }
        Ok(specs
            .iter()
            .map(|spec| with(spec).unwrap_or(*spec))
            .collect())
    }
}

/// Gives the rows of each system of `from` the options of the one at the same place of `to`.
pub(super) fn rename(rows: &mut [Row], from: &[SystemSpec], to: &[SystemSpec]) {
    let names: Vec<String> = from.iter().map(ToString::to_string).collect();
    for row in rows {
        let own = names.iter().position(|own| *own == row.name());
        if let Some(to) = own.and_then(|at| to.get(at)) {
            row.options = choice::options(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_changes_the_machine_the_program_and_the_systems_that_take_an_option() {
        let reading = |text: &str| toml::from_str::<Reading>(text).unwrap();
        let own = reading(
            "name = 'r'\nprogram = 'zeroes=64,touch'\nwith = 'state=record'\nmachine = { chains = 3 }",
        );
        assert_eq!(own.program().unwrap().to_string(), "zeroes=64,touch");
        let machine = machines::by_name_or_path("x5570").unwrap().hardware;
        let changed = own.hardware(&machine).unwrap();
        assert_eq!(
            changed,
            Hardware {
                chains: 3,
                ..machine
            }
        );
        let specs = ["bs+lock=ticket", "is+lock=ticket"].map(|own| own.parse().unwrap());
        let names: Vec<String> = own
            .specs(&specs)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["bs+state=record+lock=ticket", "is+lock=ticket"]);
        let with = own.specs(&specs).unwrap();
        let mut rows = vec![Row {
            system: "bs".into(),
            options: "lock=ticket".into(),
            ..Row::default()
        }];
        rename(&mut rows, &specs, &with);
        assert_eq!(rows[0].name(), names[0]);
        rename(&mut rows, &with, &specs);
        assert_eq!(rows[0].name(), "bs+lock=ticket");
        for (text, named) in [
            ("name = 'r'\nprogram = 'zero'", "program: `zero`"),
            (
                "name = 'r'\nwith = 'state=nowhere'",
                "no system takes +state=nowhere",
            ),
            ("name = 'r'\nmachine = { chain = 3 }", "`chain`"),
            ("name = 'r'\nmachine = { chains = -1 }", "`chains` is -1"),
        ] {
            let own = reading(text);
            let faults = [
                own.program().err(),
                own.hardware(&machine).err(),
                own.specs(&specs).err(),
            ];
            let what: Vec<String> = faults.into_iter().flatten().collect();
            assert!(what.len() == 1 && what[0].contains(named), "{what:?}");
        }
        let none = reading("name = 'r'");
        assert_eq!(none.specs(&specs).unwrap(), specs);
        assert_eq!(none.hardware(&machine).unwrap(), machine);
    }
}
