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
use everybuddy_page::document::{self, Block, Document, Section, Table};
use everybuddy_simulate::machines::{Machine, NUMBERS};
use everybuddy_simulate::rows::{part_of, scalings};
use everybuddy_simulate::{Load, Plan, Scaling, Traced};

use super::curves::Results;
use super::table::{self, Better, Column, plain};
use super::values::{largest, mean, value_at};
use super::waits::Waits;

/// Parts that a table names for a system.
const NAMED: usize = 3;
/// Parts with fewer moves or waits per call are not named.
const LEAST: f64 = 0.005;

/// Returns the section of a load, of the rows and scalings of this load.
pub fn blocks(plan: &Plan, load: &Load, scalings: &[Scaling], rows: &[Row]) -> Vec<Block> {
    let own: Vec<&Scaling> = scalings.iter().collect();
    let names: Vec<String> = own.iter().map(|own| own.system.clone()).collect();
    let waits = match load {
        Load::Trace(traced) => Waits::of(plan, traced, &names, rows),
        Load::Workload(_) => None,
    };
    let columns = columns(plan, load, &own, rows);
    let results = Results {
        plan,
        load,
        scalings: own,
        rows,
    };
    let recorded = waits.as_ref().and_then(|waits| waits.as_ref().ok());
    let mut blocks = vec![
        Block::Section(Section {
            name: load.name().to_string(),
            title: "calls per microsecond of all CPUs, simulated".to_string(),
            source: String::new(),
        }),
        Block::Figure(results.figure(recorded)),
        Block::Table(table::table(&names, &columns, 0..names.len())),
        Block::Space,
    ];
    let refused = refused(load, rows);
    if !refused.is_empty() {
        let text = format!("Refused requests: {}.", refused.join(", "));
        blocks.extend([Block::text(text), Block::Space]);
    }
    if let Load::Trace(traced) = load {
        blocks.extend([Block::text(dealt(plan, traced)), Block::Space]);
    }
    match waits {
        Some(Ok(waits)) => {
            let own = table::table(&waits.names, &waits.columns, 0..waits.names.len());
            let own = Table {
                title: waits.title,
                note: waits.note,
                ..own
            };
            blocks.extend([Block::Table(own), Block::Space]);
        }
        Some(Err(remark)) => blocks.extend([Block::text(remark), Block::Space]),
        None => {}
    }
    blocks.push(Block::Table(causes(&results)).on_page());
    blocks
}

/// Returns what is below all tables, and the machine.
pub fn closing(machine: &Machine, plan: &Plan) -> Vec<Block> {
    let hardware = &plan.hardware;
    let text = format!(
        "Simulated: machine {}, {} CPUs at {} MHz{}; {} cycles between two calls; {}{}. {}{}",
        plan.machine,
        hardware.cpus(),
        hardware.mhz,
        memory(plan),
        plan.think,
        seeds(plan),
        plan.remarks(),
        COLUMNS,
        if plan.stops { LEFT_OUT } else { "" },
    );
    let section = Section {
        name: "machine".to_string(),
        title: format!("The simulated machine: {}", machine.name),
        source: String::new(),
    };
    vec![
        Block::text(text).in_terminal(),
        Block::Section(section).on_page(),
        Block::Table(parameters(machine)).on_page(),
        Block::text(&machine.text).on_page(),
    ]
}

fn seeds(plan: &Plan) -> String {
    match plan.seeds.len() {
        1 => "one seed".to_string(),
        seeds => format!("means of {seeds} seeds"),
    }
}

/// What the columns of the tables of loads are.
const COLUMNS: &str = "`p99`: 99 of 100 allocations took at most this on the largest number of CPUs, in the worst \
                       seed. `scales to`: the number of CPUs beyond which twice as many bring less than 1.2 times the \
                       calls. `most time with memory`: the part of the metadata on which calls spend most of their \
                       time with memory, and its share, on the first number of CPUs beyond the limit, or on the \
                       largest one.";

/// Returns the top of the page.
pub fn about(machine: &Machine, plan: &Plan) -> Document {
    let has_recorded = plan.loads.iter().any(|load| match load {
        Load::Trace(traced) => traced.recorded().is_some_and(|own| {
            let mut cpus = plan.cpus.iter();
            cpus.any(|cpus| u32::from(*cpus) == own.cpus)
        }),
        Load::Workload(_) => false,
    });
    let systems = match plan.specs.len() {
        1 => "One system".to_string(),
        systems => format!("{systems} systems"),
    };
    let measured = if has_recorded {
        "The results on this page are simulated, except the waits labelled recorded."
    } else {
        "Nothing on this page was measured: all results are simulated."
    };
    let lede = format!(
        "{measured} {systems} on up to {} CPUs of {} ({}, {} CPUs at {} MHz{}), with {} cycles between two calls; \
         {}{}. The simulator charges each access to shared memory by a model of caches, which docs/simulator.md \
         describes together with its limits.",
        plan.cpus.last().copied().unwrap_or(0),
        machine.name,
        machine.title,
        machine.hardware.cpus(),
        machine.hardware.mhz,
        memory(plan),
        plan.think,
        seeds(plan),
        plan.remarks(),
    );
    let columns = format!("{COLUMNS}{}", if plan.stops { LEFT_OUT } else { "" });
    Document {
        title: format!("Buddy systems on many CPUs, simulated: {}", machine.name),
        lede,
        remarks: vec![(false, columns)],
        ..Document::default()
    }
}

/// Returns the top of the page of the rows of earlier runs.
pub fn about_rows(machine: &str) -> Document {
    Document {
        title: format!("Where buddy systems stop scaling, simulated: {machine}"),
        lede: format!(
            "Nothing on this page was measured: all results are simulated, on the machine {machine}. The page shows \
             the rows of earlier runs. docs/simulator.md describes the model and its limits."
        ),
        ..Document::default()
    }
}

/// Returns a table of texts.
pub(super) fn texts(heads: &[&str], lines: Vec<Vec<String>>) -> Table {
    let column = |(at, head): (usize, &&str)| document::Column {
        head: [head.to_string(), String::new()],
        texts: lines.iter().map(|line| line[at].clone()).collect(),
        ..document::Column::default()
    };
    Table {
        first: heads.first().map_or(String::new(), ToString::to_string),
        names: lines.iter().map(|line| line[0].clone()).collect(),
        columns: heads.iter().enumerate().skip(1).map(column).collect(),
        competing: 0..lines.len(),
        ..Table::default()
    }
}

/// Returns which lines move, and what CPUs wait for.
fn causes(results: &Results<'_>) -> Table {
    let line = |own: &&Scaling| {
        let most = own.rates.last().map_or(0, |(cpus, _)| *cpus);
        let parts = |metric| parts(results, own, most, metric);
        vec![own.system.clone(), parts("line_moves"), parts("waits")]
    };
    let on = match (results.plan.stops, results.plan.cpus.last()) {
        (false, Some(most)) => size::cpus(u64::from(*most)),
        _ => "the largest number of CPUs with a result".to_string(),
    };
    let lines = results.scalings.iter().map(line).collect();
    Table {
        title: format!("What moves between CPUs, and what is waited for, on {on}, simulated"),
        note: "Times per call. A line moves when it comes from another core, or is taken away from all others that had \
               it. Parts of the metadata on which calls spend less than 1% of their time with memory are left out."
            .to_string(),
        ..texts(&["system", "lines that move most", "waited for"], lines)
    }
}

/// Names the parts of a system's metadata with the largest numbers, means over the seeds.
fn parts(results: &Results<'_>, own: &Scaling, most: u16, metric: &str) -> String {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for row in results.rows {
        if (row.metric, row.cpus) == (metric, most)
            && row.name() == own.system
            && let Some(part) = part_of(&own.load, row)
        {
            *sums.entry(part).or_default() += row.value / results.plan.seeds.len() as f64;
        }
    }
    let mut parts: Vec<(&str, f64)> = sums.into_iter().filter(|own| own.1 >= LEAST).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let named = parts.iter().take(NAMED);
    let texts: Vec<String> = named
        .map(|(part, value)| format!("{part} {value:.2}"))
        .collect();
    texts.join(", ")
}

/// Returns the parameters of a machine, with their sources.
fn parameters(machine: &Machine) -> Table {
    let line = |own: &everybuddy_simulate::machines::Number| {
        let value = own.text(&machine.hardware)?;
        let value = match own.unit {
            "" => value,
            unit => format!("{value} {unit}"),
        };
        let source = machine.source(own.key).unwrap_or_default();
        let texts = [own.key, &value, own.meaning, source];
        Some(texts.map(str::to_string).to_vec())
    };
    let lines = NUMBERS.iter().filter_map(line).collect();
    texts(&["parameter", "value", "meaning", "source"], lines)
}

/// What tables say where systems are not simulated beyond their limits.
pub const LEFT_OUT: &str = " A system that has stopped scaling was not simulated on more CPUs. For it, the largest \
                            number of CPUs is the last one with a result.";

/// Returns a section for each machine and load in the rows of a grid.
pub fn of_grid(rows: &[Row]) -> Vec<Block> {
    let mut machines: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_of_system()) {
        let own = machines.entry(row.platform.to_string()).or_default();
        own.push(row.clone());
    }
    let mut blocks = Vec::new();
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
            let section = Section {
                name: own[0].load.clone(),
                title: format!("calls per microsecond of all CPUs, {machine}"),
                source: String::new(),
            };
            let table = table::table(&names, &rates(counts, &own), 0..names.len());
            blocks.extend([Block::Section(section), Block::Table(table), Block::Space]);
        }
    }
    blocks
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

#[cfg(test)]
mod tests;
