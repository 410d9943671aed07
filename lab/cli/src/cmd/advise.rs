//! `everybuddy advise`: is the page allocator a machine's problem, and would a setting of Linux help?
//!
//! An administrator who cannot change the kernel gets an answer in one command, from a recording of the machine.
//!
//! # Invariants
//! Nothing on this machine is changed. The answer is [`everybuddy_measure::advise`]'s.

use std::collections::HashSet;

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::advise::{Advice, Load, Setting, Settings, Verdict};
use everybuddy_measure::library;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::memory::Initial;
use everybuddy_measure::replay::merge::{emptied, in_sequence};
use everybuddy_measure::replay::{self, ComparePlan, Script};
use everybuddy_measure::rows::{Row, comparison as rows};
use everybuddy_trace::{LockWaits, Machine, Quantiles, Trace, WaitsOnly, resolve};

use crate::export::{self, Outputs};
use crate::left_out;
use crate::show::advise::{self, Context};
use crate::show::progress::Progress;

use super::files::{Files, Sinks, titled};
use super::trace_file::read_any;

/// Say whether the allocator slows a machine down, and which setting would help.
///
/// The trace is replayed with the lists of free pages that the machine's CPUs have now, and with those
/// that other values of vm.percpu_pagelist_high_fraction would give them.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = include_str!("help/advise.txt"))]
pub(super) struct Arguments {
    /// Take this recording: a file, or the name of a bundled trace
    #[arg(value_name = "TRACE")]
    trace: Option<String>,

    #[command(flatten)]
    files: Files,

    /// Repair an invalid trace and report the repairs, instead of rejecting it
    #[arg(long)]
    lenient: bool,
}

/// The heading of the page.
const TITLE: &str = "Whether the allocator slows a machine down";

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let Some(name) = &arguments.trace else {
        return Err(Error::usage(
            "no trace to take advice from\nhelp: record this machine as root with `everybuddy record --seconds 10 -o \
             mine.parquet`, and pass mine.parquet; with --contended, record only waits, which answers only whether \
             they matter",
        ));
    };
    let mut outputs = Outputs::beside(library::file(name)?.into_iter().collect());
    let sinks = arguments.files.open(&mut outputs)?;
    let trace = read_any(name, arguments.lenient)?;
    let waits = LockWaits::of(&trace).or_else(|| no_waits(&trace));
    let machine = Machine::of(&trace);
    let style = sinks.style();
    let context = Context {
        name: &trace.name,
        waits: waits.as_ref(),
        machine: machine.as_ref(),
        style,
    };
    if let (Some(waits), Some(waits_only)) = (&waits, WaitsOnly::of(&trace)) {
        let load = Load::of_waits(waits);
        sinks.print(&advise::of_waits(&context, &load, waits, &waits_only))?;
        return sinks.write(
            &export::trace::waits_only(&trace.name, waits),
            titled(TITLE),
        );
    }
    replayed(&trace, &context, sinks)
}

/// Returns what a trace says about waits in which they were recorded and none was for a zone's lock; `None` for others.
fn no_waits(trace: &Trace) -> Option<LockWaits> {
    let times = trace.events.first().zip(trace.events.last());
    let (first, last) = times.filter(|_| left_out::has_no_waits(trace))?;
    let cpus: HashSet<u16> = trace.events.iter().map(|event| event.cpu).collect();
    Some(LockWaits {
        calls: trace.events.len() as u64,
        cpus: cpus.len() as u32,
        duration_ns: last.time_ns - first.time_ns,
        acquisitions: 0,
        wait_ns: Quantiles::default(),
        hold_ns: Quantiles::default(),
        batch: Quantiles::default(),
        sources: Vec::new(),
    })
}

/// Replays a trace with each value of the setting, and shows the advice.
fn replayed(trace: &Trace, context: &Context<'_>, sinks: Sinks) -> Result<(), Error> {
    const SEED: u64 = 1;
    let times = trace.events.first().zip(trace.events.last());
    let duration = times.map_or(0, |(first, last)| last.time_ns - first.time_ns);
    if duration == 0 {
        return Err(Error::usage(format!(
            "{}: all calls have the same time, so nothing can be said per second\nhelp: record for ten seconds",
            trace.name
        )));
    }
    // The lists of a machine in use are not empty, so the trace is replayed twice in a row. What the first time takes
    // is subtracted.
    let resolved = resolve(trace)?;
    let first = emptied(resolved.clone());
    let twice = in_sequence(&[first.clone(), resolved]);
    let script = |resolved| Script::new(&trace.name, resolved, None);
    let (first, script) = (script(&first)?, script(&twice)?);
    let settings = Settings::of(trace, script.cpus);
    let plan = ComparePlan {
        systems: settings.list.iter().map(|own| own.spec).collect(),
        memory: Some(settings.room(&script)),
        initial: Initial::Fresh,
        seed: SEED,
        rounds: ComparePlan::ROUNDS,
        touches: false,
    };
    let counted = ComparePlan {
        rounds: 0,
        ..plan.clone()
    };
    let host = HostInfo::look();
    let progress = Progress::new(plan.passes() + counted.passes());
    progress.says(&trace.name);
    let timer = Timer::calibrated();
    let mut arena = Arena::default();
    arena.place(Some(settings.machine));
    let mut compare = |script: &Script, plan: &ComparePlan| {
        replay::compare(script, plan, &timer, &mut arena, || progress.step())
    };
    let first = compare(&first, &counted)?;
    let comparison = compare(&script, &plan)?;
    progress.done();
    let advice = Advice::of(&settings, [&first, &comparison], duration, context.waits);
    let advice = advice.ok_or_else(|| Error::usage("no setting to replay"))?;
    sinks.print(&advise::text(
        context,
        &settings,
        &advice,
        &comparison,
        &host,
    ))?;
    let mut all = rows::of(&comparison, &timer, SEED, false);
    all.extend(concluded(&advice, &all));
    for row in &mut all {
        row.experiment = row.experiment.replacen("compare", "advise", 1);
    }
    all.extend(
        context
            .waits
            .iter()
            .flat_map(|waits| export::trace::locks(&trace.name, waits)),
    );
    sinks.write(&all, titled(TITLE))
}

/// Converts the advice to rows, by the rows of the comparison from which it follows.
fn concluded(advice: &Advice, rows: &[Row]) -> Vec<Row> {
    let of = |setting: &Setting| {
        let name = setting.spec.to_string();
        rows.iter().find(move |row| {
            name.split_once('+') == Some((row.system.as_str(), row.options.as_str()))
        })
    };
    let mut all = Vec::new();
    for effect in &advice.effects {
        let Some(row) = of(&effect.setting) else {
            continue;
        };
        for (operation, frames) in ["allocate", "free"].into_iter().zip(effect.moved_frames) {
            all.push(Row {
                operation,
                order: Some(0),
                metric: "moved_frames",
                statistic: "count",
                value: frames as f64,
                ..row.clone()
            });
        }
        if advice.verdict == Verdict::Set(effect.setting.fraction) {
            all.push(Row {
                operation: "all",
                order: None,
                metric: "advised_fraction",
                statistic: "value",
                value: f64::from(effect.setting.fraction),
                ..row.clone()
            });
        }
    }
    all
}
