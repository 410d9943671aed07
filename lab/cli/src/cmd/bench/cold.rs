//! `everybuddy bench --cold`: calls one by one, with programs between them that use the caches.
//!
//! # Invariants
//! What is predicted is the same load with the same programs.

use std::num::NonZero;
use std::thread;

use everybuddy_measure::bench::cold::{self, Between, ColdPlan};
use everybuddy_measure::bench::{ContenderSpec, rows};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::memory::Initial;
use everybuddy_measure::rows::Row;
use everybuddy_measure::{Error, choice};
use everybuddy_simulate::machines::{Machine, by_name_or_path};
use everybuddy_simulate::{Load, Plan, Program};

use super::super::files::titled;
use super::Arguments;
use crate::export::Outputs;
use crate::show::cold as tables;
use crate::show::output;
use crate::show::progress::Progress;

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.threads.as_deref().is_some_and(|own| own != [1]) {
        return Err(Error::usage(
            "--cold times the calls of one thread\nhelp: leave --threads out",
        ));
    }
    let machine = arguments.predict.as_deref().map(by_name_or_path);
    let machine = machine.transpose()?;
    let memory = super::memory(arguments)?;
    if memory.initial != Initial::Fresh {
        return Err(Error::usage(
            "--cold measures in free memory\nhelp: leave --start out",
        ));
    }
    let mut contenders = super::contenders(arguments)?;
    if !contenders.iter().any(ContenderSpec::is_floor) {
        // What a call costs that loads no more than its code.
        let [floor, _] = ContenderSpec::floors();
        contenders.insert(0, floor);
    }
    let plan = ColdPlan {
        contenders,
        memory,
        rounds: arguments.rounds,
        seed: arguments.seed,
        shrink: arguments.shrink,
    };
    let mut outputs = Outputs::beside(Vec::new());
    let sinks = arguments.files.open(&mut outputs)?;
    let visits = plan.rounds as usize * plan.contenders.len() * Between::ALL.len();
    let progress = Progress::new(visits as u64);
    let timer = Timer::calibrated();
    let results = cold::measure(&plan, &timer, &mut Arena::default(), |what| {
        progress.says(what);
        progress.step();
    })?;
    progress.done();
    let mut all = rows::of_cold(&plan, &results);
    if let Some(machine) = &machine {
        all.extend(predicted(&plan, results.swept, machine)?);
    }
    let host = HostInfo::look();
    let machine = (machine.as_ref(), &host);
    sinks.show(tables::blocks(&plan, &results, &all, machine))?;
    sinks.write(&all, titled("The times of single calls, with cold caches"))
}

/// Simulates the same on a machine.
fn predicted(plan: &ColdPlan, swept: u64, machine: &Machine) -> Result<Vec<Row>, Error> {
    let specs = plan.contenders.iter().filter_map(|own| match own {
        ContenderSpec::System(spec) => Some(*spec),
        ContenderSpec::Peer(_) => None,
    });
    let specs: Vec<_> = specs.collect();
    let variant = choice::workloads(&[cold::WORKLOAD.to_string()])?[0];
    let jobs = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let mut all = Vec::new();
    for between in Between::ALL {
        output::note(&format!("predicting {}", between.name()));
        let (sweep, reach) = between.lines(swept);
        let own = Plan {
            frames: u32::try_from(plan.memory.free()).unwrap_or(u32::MAX),
            // The stores of a call are done before the next one.
            think: 20_000,
            program: Program {
                zeroes: if between.zeroes() { 64 } else { 0 },
                sweep,
                reach,
                fence: true,
                ..Program::default()
            },
            shrink: plan.shrink,
            seeds: vec![plan.seed],
            ..Plan::new(machine, vec![Load::Workload(variant)], specs.clone())
        };
        let known = vec![None; own.cells().len()];
        let (rows, _) = own.run(jobs, known, &mut |_, _| Ok(()))?;
        let is_wanted =
            |row: &Row| row.metric == "latency" && ["p50", "mean", "p99"].contains(&row.statistic);
        all.extend(rows.into_iter().filter(is_wanted).map(|row| Row {
            experiment: format!("{}+cold", everybuddy_measure::claim::bench::EXPERIMENT),
            source: format!("{}:{}", cold::WORKLOAD, between.name()),
            ..row
        }));
    }
    Ok(all)
}
