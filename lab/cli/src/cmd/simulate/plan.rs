//! What the arguments of `everybuddy simulate` ask for.
//!
//! All arguments are checked here, before anything is simulated.
//!
//! # Invariants
//! A plan that is returned can be simulated: its names are known, its traces are read, and its memory is large enough.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use everybuddy_measure::Error;
use everybuddy_measure::choice;
use everybuddy_measure::replay::free_map::FreeMap;
use everybuddy_measure::replay::merge::cut;
use everybuddy_measure::size;
use everybuddy_simulate::machines::Machine;
use everybuddy_simulate::trace::LEAST_FRAMES;
use everybuddy_simulate::{Frees, Load, Phases, Plan, Services, Traced, Zones};
use everybuddy_trace::{LockWaits, resolve};
use everybuddy_workload::Variant;

use super::Arguments;
use crate::cmd::trace_file::read;

/// Returns the machine.
pub(super) fn machine(arguments: &Arguments) -> Result<Machine, Error> {
    let mut machine = everybuddy_simulate::machines::by_name_or_path(&arguments.machine)
        .map_err(|error| Error::usage(error.to_string()))?;
    if machine.name != arguments.machine {
        // A file may have the name of a machine that it has changed.
        let path = Path::new(&arguments.machine);
        if let Some(file) = path.file_name() {
            machine.name = file.to_string_lossy().into_owned();
        }
    }
    Ok(machine)
}

/// Returns what the arguments ask for.
///
/// # Errors
/// A usage [`Error`] that names the argument that is wrong.
pub(super) fn plan(arguments: &Arguments, machine: &Machine) -> Result<Plan, Error> {
    let all = machine.hardware.cpus();
    let cpus: BTreeSet<u16> = match &arguments.cpus {
        Some(given) => given.iter().copied().collect(),
        None => COUNTS
            .into_iter()
            .filter(|count| u32::from(*count) <= all)
            .collect(),
    };
    let most = cpus.last().copied().unwrap_or(1);
    if u32::from(most) > all && arguments.slice.is_none() {
        return Err(Error::usage(format!(
            "--cpus {most}: machine `{}` has {all} CPUs\nhelp: `everybuddy machines` lists larger ones; with --slice \
             more virtual CPUs take turns",
            machine.name,
        )));
    }
    if let (true, Services::Idle) = (u32::from(most) > all, arguments.services) {
        return Err(Error::usage(format!(
            "--services idle: {most} CPUs are more than the machine has, {all}\nhelp: choose fewer --cpus"
        )));
    }
    if most > MOST_CPUS {
        return Err(Error::usage(format!(
            "--cpus {most}: at most {MOST_CPUS} virtual CPUs can be simulated"
        )));
    }
    let variants = workloads(arguments, most)?;
    if let Some(variant) = variants.iter().find(|variant| variant.threads > most) {
        return Err(Error::usage(format!(
            "--cpus {most}: workload `{}` needs {} CPUs",
            variant.name, variant.threads
        )));
    }
    if let (Some(name), Phases::Apart) = (arguments.trace.first(), arguments.phases) {
        return Err(Error::usage(format!(
            "--phases apart: trace `{name}` has no phases; the CPUs never meet\nhelp: leave the option out, or \
             simulate workloads and traces separately"
        )));
    }
    let passes = variants.iter().find(|variant| variant.threads > 1);
    if let (Some(variant), Phases::Apart) = (passes, arguments.phases) {
        return Err(Error::usage(format!(
            "--phases apart: the CPUs of workload `{}` pass blocks to each other, which needs both at the same time",
            variant.name
        )));
    }
    if let (Frees::One, Phases::Apart) = (arguments.frees, arguments.phases) {
        return Err(Error::usage(
            "--frees one: with --phases apart no CPU waits until one has freed everything\nhelp: leave one of them out",
        ));
    }
    let start = started(arguments)?;
    let has_workloads = !variants.is_empty();
    let mut loads: Vec<Load> = variants.into_iter().map(Load::Workload).collect();
    for name in &arguments.trace {
        let traced = traced(arguments, name)?;
        if loads.iter().any(|load| load.name() == traced.name()) {
            return Err(Error::usage(format!(
                "--trace {name}: `{}` is given twice\nhelp: rename one of the files",
                traced.name()
            )));
        }
        for count in &cpus {
            if let Some(map) = &start {
                let peak = traced.peak(*count);
                if peak > map.free() {
                    return Err(Error::usage(format!(
                        "--trace {name}: up to {} are in use on {}, and {} are free in {}\nhelp: choose \
                         another --start, or fewer --cpus",
                        size::frames(peak),
                        size::cpus(u64::from(*count)),
                        size::frames(map.free()),
                        map.described(),
                    )));
                }
                continue;
            }
            let frames = traced.memory(*count);
            let least = u64::from(LEAST_FRAMES) * u64::from(*count);
            if !(least..=MOST).contains(&frames) {
                return Err(Error::usage(format!(
                    "--trace {name}: {} of memory for {count} CPUs, that is {} copies of the trace; it must be from \
                     {} to {}\nhelp: choose another --memory, which is that of a copy, or other numbers of --cpus",
                    size::frames(frames),
                    traced.copies(*count),
                    size::frames(least),
                    size::frames(MOST),
                )));
            }
        }
        loads.push(Load::Trace(Arc::new(traced)));
    }
    // Each CPU needs a share that the workloads can use.
    let least = u64::from(LEAST_FRAMES) * u64::from(most.max(2));
    let frames = match (&start, arguments.memory, has_workloads) {
        (Some(map), ..) => map.free(),
        (None, Some(size), true) => size.frames.next_multiple_of(1024),
        _ => MEMORY,
    };
    let span = start.as_ref().map_or(frames, |map| map.frames());
    if frames < least || span > MOST {
        let option = if start.is_some() { "start" } else { "memory" };
        return Err(Error::usage(format!(
            "--{option}: {most} CPUs need from {} to {}",
            size::frames(least),
            size::frames(MOST)
        )));
    }
    Ok(Plan {
        machine: machine.name.clone(),
        hardware: machine.hardware,
        loads,
        specs: match &arguments.systems {
            Some(texts) => choice::parse(texts)?,
            None if arguments.all => choice::compared(),
            None => choice::main()?,
        },
        cpus: cpus.into_iter().collect(),
        frames: frames as u32,
        start,
        think: arguments.think,
        around: arguments.around,
        program: arguments.program.unwrap_or_default(),
        shrink: arguments.shrink.unwrap_or(SHRINK),
        phases: arguments.phases,
        frees: arguments.frees,
        zones: arguments.zones,
        slice: arguments.slice.unwrap_or(0),
        whole_calls: arguments.whole_calls,
        cut_off: arguments.cut_off,
        services: arguments.services,
        stops: arguments.to_limit,
        seeds: (arguments.seed..arguments.seed + arguments.seeds).collect(),
    })
}

/// Returns the workloads. Without names, those of the default that can run as the other options say.
fn workloads(arguments: &Arguments, most: u16) -> Result<Vec<&'static Variant>, Error> {
    let defaults = WORKLOADS.map(String::from);
    let is_default = arguments.workloads.is_none();
    let names = match &arguments.workloads {
        Some(names) => &names[..],
        None if arguments.trace.is_empty() => &defaults[..],
        None => &[],
    };
    let mut variants = choice::workloads(names)?;
    let is_apart = arguments.phases == Phases::Apart;
    variants.retain(|own| !is_default || own.threads == 1 || (own.threads <= most && !is_apart));
    Ok(variants)
}

/// Returns the memory of a machine, if one is given.
fn started(arguments: &Arguments) -> Result<Option<Arc<FreeMap>>, Error> {
    if arguments.start.is_recorded() {
        return Err(Error::usage(
            "--start recorded: all loads of a simulation start alike\nhelp: use `compare`, or pass files",
        ));
    }
    let Some(map) = arguments.start.read(arguments.seed)? else {
        return Ok(None);
    };
    if let Zones::Socket = arguments.zones {
        return Err(Error::usage(
            "--zones socket: --start has the memory of one zone\nhelp: leave one of them out",
        ));
    }
    let free = arguments.memory.map_or(map.free(), |size| size.frames);
    map.part(free).map(|map| Some(Arc::new(map)))
}

/// Reads a trace.
fn traced(arguments: &Arguments, name: &str) -> Result<Traced, Error> {
    let trace = read(name, arguments.lenient)?;
    let resolved = match arguments.shrink {
        None | Some(1) => resolve(&trace)?,
        Some(shrink) => cut(resolve(&trace)?, shrink),
    };
    let frames = arguments.memory.map(|size| size.frames);
    let traced = Traced::new(&trace.name, &resolved, frames)?;
    Ok(traced.with_recorded(LockWaits::of(&trace)))
}

/// The most virtual CPUs.
const MOST_CPUS: u16 = 1024;
/// The workloads, if neither workloads nor traces are named: frames that their own CPU frees, or that another one does.
const WORKLOADS: [&str; 2] = ["burst:in-order", "handover"];
/// The numbers of CPUs, as far as the machine has them.
const COUNTS: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The factor by which workloads are shortened. A trace is not.
const SHRINK: u32 = 4;
/// The frames of the memory under workloads: 8 GiB.
const MEMORY: u64 = 1 << 21;
/// The most frames: 64 GiB.
const MOST: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        own: Arguments,
    }

    fn planned(words: &str) -> Plan {
        let words = ["simulate"].into_iter().chain(words.split_whitespace());
        let arguments = Command::try_parse_from(words).unwrap().own;
        plan(&arguments, &machine(&arguments).unwrap()).unwrap()
    }

    #[test]
    fn the_default_is_short_and_answers_something() {
        let default = planned("");
        let names: Vec<String> = default.specs.iter().map(ToString::to_string).collect();
        let main = ["lbs-31", "linux-6+percpu=locked", "llfree", "everybuddy"];
        assert_eq!(names, main);
        let loads = |plan: &Plan| {
            let names = plan.loads.iter().map(|load| load.name().to_string());
            names.collect::<Vec<String>>()
        };
        assert_eq!(loads(&default), WORKLOADS);
        assert!(default.cells().len() <= 160, "{}", default.cells().len());
        assert_eq!(planned("--all").specs.len(), choice::compared().len());
        // What cannot run is not in the default, and named by the error if it is asked for.
        assert_eq!(loads(&planned("--cpus 1")), ["burst:in-order"]);
        assert_eq!(loads(&planned("--phases apart")), ["burst:in-order"]);
        assert_eq!(
            loads(&planned("--trace gcc_build --shrink 100")),
            ["gcc_build"]
        );
    }
}
