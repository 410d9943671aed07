//! The tables of `everybuddy simulate` and of `everybuddy sweep`.
//!
//! One table for each workload or trace: how many calls a system makes with each number of CPUs, and where and why it
//! stops.
//!
//! # Invariants
//! Every table says that its numbers are simulated, or that they are not.

use std::collections::{BTreeMap, BTreeSet};

use everybuddy_measure::rows::Row;
use everybuddy_measure::size;
use everybuddy_simulate::rows::scalings;
use everybuddy_simulate::{Load, Plan, Scaling, Traced};

use super::output::Style;
use super::table::{self, Better, Column, plain};
use super::values::{largest, mean, value_at};
use super::waits::Waits;

/// Returns the table of a load, of the rows and scalings of this load.
pub fn text(plan: &Plan, load: &Load, scalings: &[Scaling], rows: &[Row], style: &Style) -> String {
    let own: Vec<&Scaling> = scalings.iter().collect();
    let names: Vec<String> = own.iter().map(|own| own.system.clone()).collect();
    let mut out = style.bold(load.name());
    out += ": calls per microsecond of all CPUs, simulated\n\n";
    let columns = columns(plan, load, &own, rows);
    out += &table::text(&names, &columns, 0..names.len(), style);
    out += "\n";
    let refused = refused(load, rows);
    if !refused.is_empty() {
        out += &style.paragraph(&format!("Refused requests: {}.", refused.join(", ")));
        out += "\n";
    }
    if let Load::Trace(traced) = load {
        out += &style.paragraph(&dealt(plan, traced));
        out += "\n";
        if let Some(waits) = Waits::of(plan, traced, &names, rows) {
            out += &waits_text(&waits, style);
            out += "\n";
        }
    }
    out
}

/// Returns what is below all tables: the machine, and what the columns are.
pub fn closing(plan: &Plan, style: &Style) -> String {
    let hardware = &plan.hardware;
    let text = format!(
        "Simulated: machine {}, {} CPUs at {} MHz{}; {} cycles between two calls; {}{}. `p99`: 99 of 100 \
             allocations took at most this on the largest number of CPUs, in the worst seed. `scales to`: the number \
             of CPUs beyond which twice as many bring less than 1.2 times the calls. `most time with memory`: the \
             part of the metadata on which calls spend most of their time with memory, and its share, on the first \
             number of CPUs beyond the limit, or on the largest one.{}",
        plan.machine,
        hardware.cpus(),
        hardware.mhz,
        memory(plan),
        plan.think,
        match plan.seeds.len() {
            1 => "one seed".to_string(),
            seeds => format!("means of {seeds} seeds"),
        },
        plan.remarks(),
        if plan.stops { LEFT_OUT } else { "" },
    );
    style.paragraph(&text)
}

/// What tables say where systems are not simulated beyond their limits.
pub const LEFT_OUT: &str = " A system that has stopped scaling was not simulated on more CPUs. For it, the largest \
                            number of CPUs is the last one with a result.";

/// Returns a table for each machine and load in the rows of a grid.
pub fn of_grid(rows: &[Row], style: &Style) -> String {
    let mut machines: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_of_system()) {
        let own = machines.entry(row.platform.to_string()).or_default();
        own.push(row.clone());
    }
    let mut out = String::new();
    for (machine, rows) in &machines {
        let machine = match machine.strip_prefix("sim:") {
            Some(machine) => format!("simulated, machine {machine}"),
            None => "measured".to_string(),
        };
        let mut scalings = scalings(rows);
        scalings.sort_by(|one, other| one.load.cmp(&other.load));
        for of_load in scalings.chunk_by(|one, other| one.load == other.load) {
            let own: Vec<&Scaling> = of_load.iter().collect();
            let names: Vec<String> = own.iter().map(|own| own.system.clone()).collect();
            let counts = own.iter().flat_map(|own| own.rates.iter());
            let counts: BTreeSet<u16> = counts.map(|(cpus, _)| *cpus).collect();
            out += &style.bold(&own[0].load);
            out += &format!(": calls per microsecond of all CPUs, {machine}\n\n");
            out += &table::text(&names, &rates(counts, &own), 0..names.len(), style);
            out += "\n";
        }
    }
    out
}

/// Renders the recorded waits for the zone's lock next to the simulated ones.
fn waits_text(waits: &Result<Waits, String>, style: &Style) -> String {
    let waits = match waits {
        Ok(waits) => waits,
        Err(remark) => return style.paragraph(remark),
    };
    let mut out = style.bold(&waits.title) + "\n\n";
    out += &table::text(&waits.names, &waits.columns, 0..waits.names.len(), style);
    out += "\n";
    out += &style.paragraph(&waits.note);
    out
}

/// Returns the largest share of requests that each system refused, for those that refused any.
fn refused(load: &Load, rows: &[Row]) -> Vec<String> {
    let is_own = |row: &&Row| {
        row.source == load.name() && row.metric == "blocking_probability" && row.value > 0.0
    };
    let mut worst: Vec<(String, f64)> = Vec::new();
    for row in rows.iter().filter(is_own) {
        match worst.iter_mut().find(|(system, _)| *system == row.name()) {
            Some((_, share)) => *share = share.max(row.value),
            None => worst.push((row.name(), row.value)),
        }
    }
    let text = |(system, share): &(String, f64)| format!("{system} up to {:.2}%", share * 100.0);
    worst.iter().map(text).collect()
}

/// Returns the memory of workloads, if there are any.
fn memory(plan: &Plan) -> String {
    let is_workload = |load: &Load| matches!(load, Load::Workload(_));
    if plan.loads.iter().any(is_workload) {
        format!("; {} of memory", size::frames(u64::from(plan.frames)))
    } else {
        String::new()
    }
}

/// Describes how a trace was dealt out to the CPUs.
pub fn dealt(plan: &Plan, traced: &Traced) -> String {
    let of = |cpus: &u16| {
        let copies = match traced.copies(*cpus) {
            1 => "one copy".to_string(),
            copies => format!("{copies} copies"),
        };
        match plan.start {
            Some(_) => copies,
            None => format!("{copies} on {}", size::frames(traced.memory(*cpus))),
        }
    };
    let memory = match plan.start {
        Some(_) => "in the same memory",
        None => "on memory that grows with the copies",
    };
    let ends = match &plan.cpus[..] {
        [] => String::new(),
        [only] => of(only),
        [least, .., most] => format!(
            "from {} with {least} to {} with {most} CPUs",
            of(least),
            of(most)
        ),
    };
    format!(
        "The {} tasks of the trace are dealt out to the CPUs, round robin; with fewer tasks than CPUs, copies of the \
         trace run at the same time, {memory}: {ends}. Copies begin at different times. \
         Nothing has warmed up. `idle`: share of the CPUs' time, on the largest number of CPUs, in which they wait for \
         a block of another CPU, or have no calls left.",
        size::count(u64::from(traced.tasks())),
    )
}

/// Returns a number of a system on the largest number of CPUs: the mean over the seeds, or the largest.
fn at_most(
    scaling: &Scaling,
    rows: &[Row],
    key: (&str, &str, &str),
    join: impl Fn(&[f64]) -> f64,
) -> Option<f64> {
    let (cpus, _) = scaling.rates.last()?;
    value_at(&scaling.load, &scaling.system, *cpus, rows, key, join)
}

/// Returns the calls per microsecond with each number of CPUs.
fn rates(counts: impl IntoIterator<Item = u16>, scalings: &[&Scaling]) -> Vec<Column> {
    let column = |cpus: u16| {
        let of = |scaling: &&Scaling| {
            let mut rates = scaling.rates.iter();
            let (_, rate) = rates.find(|(own, _)| *own == cpus)?;
            Some(rate / 1e6)
        };
        let values: Vec<Option<f64>> = scalings.iter().map(of).collect();
        let texts = values
            .iter()
            .map(|value| value.map_or(String::new(), |value| format!("{value:.2}")));
        Column {
            metric: "throughput",
            legend: "".into(),
            head: [
                cpus.to_string().into(),
                if cpus == 1 { "CPU" } else { "CPUs" }.into(),
            ],
            better: Better::Higher,
            texts: texts.collect(),
            values,
        }
    };
    counts.into_iter().map(column).collect()
}

fn columns(plan: &Plan, load: &Load, scalings: &[&Scaling], rows: &[Row]) -> Vec<Column> {
    let counts = plan.cpus.iter().filter(|cpus| **cpus >= load.least_cpus());
    let mut columns = rates(counts.copied(), scalings);
    let p99 = |scaling: &&Scaling| at_most(scaling, rows, ("latency", "p99", "allocate"), largest);
    let values: Vec<Option<f64>> = scalings.iter().map(p99).collect();
    columns.push(Column {
        metric: "latency",
        legend: "".into(),
        head: ["p99".into(), "ns".into()],
        better: Better::Lower,
        texts: values
            .iter()
            .map(|value| value.map_or(String::new(), |value| size::count(value.round() as u64)))
            .collect(),
        values,
    });
    if let Load::Trace(_) = load {
        let idle = |scaling: &&Scaling| {
            let share = at_most(scaling, rows, ("idle_share", "value", "all"), mean);
            share.map_or(String::new(), |share| format!("{:.0}", share * 100.0))
        };
        let texts = scalings.iter().map(idle).collect();
        columns.push(plain("idle_share", ["idle", "%"], texts));
    }
    let limits = scalings.iter().map(|scaling| scaling.scales_to());
    columns.push(plain("scaling_limit", ["scales", "to"], limits.collect()));
    let reasons = scalings.iter().map(|scaling| match &scaling.hottest {
        Some((what, share)) => format!("{what}, {:.0}%", share * 100.0),
        None => String::new(),
    });
    columns.push(plain(
        "memory_time_share",
        ["most time", "with memory"],
        reasons.collect(),
    ));
    columns
}
