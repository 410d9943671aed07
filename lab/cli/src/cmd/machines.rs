//! `everybuddy machines`: the list of machines, and the measurement of this host.
//!
//! Users look up what a simulated machine is made of, how well each number is known, and how many instructions an
//! access stands for. They measure their own host to compare the simulation with it.
//!
//! # Invariants
//! Every number is shown with its source. A measurement never replaces a file that was not named.

use everybuddy_trace::shown;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_simulate::machines::{
    Machine, NUMBERS, Source, all_machines, by_name_or_path, host,
};
use serde_json::{Map, Value, json};

use crate::export::refused;
use crate::show::machines;
use crate::show::output::{self, Style};

/// List the machines of the simulator, or measure this one.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/machines.txt"))]
pub(super) struct Arguments {
    /// Describe these machines in full: names, or paths of .toml files
    #[arg(value_name = "NAME", conflicts_with = "measure")]
    names: Vec<String>,

    /// Measure caches, memory and transfers of this host
    #[arg(long)]
    measure: bool,

    /// Show the instructions that each system's accesses stand for
    #[arg(long, conflicts_with_all = ["measure", "names"])]
    work: bool,

    /// Write the measured machine to this file
    #[arg(short, long, value_name = "FILE", requires = "measure")]
    output: Option<PathBuf>,

    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if arguments.measure {
        return measure(&arguments);
    }
    if arguments.work {
        return output::text(&if arguments.json {
            machines::work_lines()
        } else {
            machines::work(&Style::of_output(false))
        });
    }
    let is_list = arguments.names.is_empty();
    let chosen = if is_list {
        all_machines()?
    } else {
        let named = arguments.names.iter().map(|name| by_name_or_path(name));
        named.collect::<Result<Vec<Machine>, Error>>()?
    };
    let style = Style::of_output(false);
    output::text(&match (arguments.json, is_list) {
        (true, _) => chosen.iter().map(line).collect(),
        (false, true) => machines::list(&chosen, &style),
        (false, false) => {
            let all: Vec<String> = chosen
                .iter()
                .map(|own| machines::full(own, &style))
                .collect();
            all.join("\n")
        }
    })
}

/// Refuses a file that cannot be written, or that could not be read as a machine, before anything is measured.
fn check(path: &Path) -> Result<(), Error> {
    if path.extension().is_none_or(|own| own != "toml") {
        return Err(Error::usage(format!(
            "--output {}: a machine file must end in .toml\nhelp: pass a name such as host.toml",
            shown(path)
        )));
    }
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|cause| refused(path, cause))
}

fn measure(arguments: &Arguments) -> Result<(), Error> {
    let new = arguments.output.as_ref().filter(|path| !path.exists());
    if let Some(path) = &arguments.output {
        check(path)?;
    }
    let own = host::measure(&mut |what| output::note(&format!("measuring {what}")));
    if let (Err(_), Some(path)) = (&own, new) {
        // A busy host is refused. What the check left is of no use.
        let _ = fs::remove_file(path);
    }
    let own = own?;
    if let Some(path) = &arguments.output {
        fs::write(path, own.to_toml()).map_err(|cause| refused(path, cause))?;
        output::note(&format!("wrote {}", shown(path)));
    }
    let style = Style::of_output(false);
    output::text(&if arguments.json {
        line(&own)
    } else {
        machines::full(&own, &style)
    })
}

fn line(own: &Machine) -> String {
    let mut numbers = Map::new();
    for number in NUMBERS {
        let (Some(value), Some(source)) = (number.text(&own.hardware), own.source(number.key))
        else {
            continue;
        };
        let value = match (value.parse::<u64>(), value.parse::<bool>()) {
            (Ok(number), _) => Value::from(number),
            (_, Ok(flag)) => Value::from(flag),
            _ => Value::from(value),
        };
        let object = json!({
            "value": value,
            "unit": number.unit,
            "source": source,
            "assumed": Source::of(source) == Source::Assumed,
            "unused": Source::of(source) == Source::Unused,
        });
        numbers.insert(number.key.to_string(), object);
    }
    let object = json!({
        "name": own.name,
        "title": own.title,
        "text": own.text,
        "cpus": own.hardware.cpus(),
        "hardware": numbers,
    });
    format!("{object}\n")
}
