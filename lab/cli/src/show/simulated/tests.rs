//! The section of a load, with the waits that a trace contains.

use std::sync::Arc;

use everybuddy_measure::choice;
use everybuddy_simulate::{Frees, Phases, Program, Services};
use everybuddy_trace::{Acquisition, Event, LockWaits, Op, Trace, resolve};

use super::*;
use everybuddy_page::document::{Figure, Key, Reader};
use everybuddy_simulate::machines;

/// A plan with a trace of 1,000 calls on two CPUs, two of which waited: 2 per 1,000 calls.
fn plan(cpus: &[u16]) -> Plan {
    let machine = everybuddy_simulate::machines::by_name_or_path("x5570").unwrap();
    let mut trace = Trace {
        name: "made".into(),
        ..Trace::default()
    };
    for at in 0..1000 {
        let cpu = (at % 2) as u16;
        let event = Event::new(at * 1000, cpu, 7 + u32::from(cpu), Op::Allocate, at, 0);
        trace.events.push(event);
    }
    trace.acquisitions = [(50_000, 0, 1_500), (90_000, 1, 700)]
        .map(|(time_ns, cpu, wait_ns)| Acquisition {
            time_ns,
            wait_ns,
            hold_ns: 40,
            pid: 7,
            batch: 31,
            cpu,
            source: 1,
        })
        .to_vec();
    let traced = Traced::new("made", &resolve(&trace).unwrap(), None).unwrap();
    let traced = traced.with_recorded(LockWaits::of(&trace));
    Plan {
        machine: machine.name,
        hardware: machine.hardware,
        loads: vec![Load::Trace(Arc::new(traced))],
        specs: choice::parse(&["bs".to_string(), "linux-6".to_string()]).unwrap(),
        cpus: cpus.to_vec(),
        frames: 0,
        start: None,
        think: 100,
        around: 0,
        program: Program::default(),
        shrink: 1,
        phases: Phases::Together,
        frees: Frees::Own,
        zones: everybuddy_simulate::Zones::One,
        slice: 0,
        whole_calls: false,
        services: Services::Callers,
        cut_off: None,
        stops: false,
        seeds: vec![1],
    }
}

/// The rows of a plan: `bs` waits in 3 calls of 1,000 on two CPUs, `linux-6` in none, on so many CPUs only.
fn blocks_up_to(plan: &Plan, most: u16) -> Vec<Block> {
    let (mut rows, mut scalings) = (Vec::new(), Vec::new());
    for (system, rate) in [("bs", 0.003), ("linux-6", 0.0)] {
        let rates = plan.cpus.iter().map(|cpus| (*cpus, 1e6)).collect();
        scalings.push(Scaling {
            load: "made".into(),
            system: system.into(),
            rates,
            limit: None,
            hottest: None,
        });
        let is_there = |cpus: &&u16| system == "bs" || **cpus <= most;
        rows.extend(plan.cpus.iter().filter(is_there).map(|cpus| Row {
            source: "made".into(),
            system: system.into(),
            cpus: *cpus,
            operation: "all",
            metric: "contended_wait",
            statistic: "rate",
            value: if *cpus == 2 { rate } else { 0.0 },
            ..Row::default()
        }));
    }
    blocks(plan, &plan.loads[0], &scalings, &rows)
}

/// The tables that a page has.
fn tables(blocks: &[Block]) -> Vec<&Table> {
    let blocks = blocks.iter();
    let tables = blocks.filter_map(|block| match block.seen_by(Reader::Page) {
        Some(Block::Table(table)) => Some(table),
        _ => None,
    });
    tables.collect()
}

fn figure(blocks: &[Block]) -> &Figure {
    let mut blocks = blocks.iter();
    let figure = blocks.find_map(|block| match block {
        Block::Figure(figure) => Some(figure),
        _ => None,
    });
    figure.unwrap()
}

fn lede(plan: &Plan) -> String {
    about(&machines::by_name_or_path("x5570").unwrap(), plan).lede
}

#[test]
fn a_system_that_was_left_out_has_no_line_of_waits() {
    let blocks = blocks_up_to(&plan(&[1, 2, 4]), 1);
    let table = tables(&blocks)[1];
    assert_eq!(table.names, ["recorded", "bs"]);
    assert!(table.note.contains("are left out"), "{}", table.note);
}

#[test]
fn recorded_waits_are_in_a_table_and_in_the_figure() {
    let plan = plan(&[1, 2, 4]);
    assert!(lede(&plan).contains("except the waits labelled recorded"));
    let blocks = blocks_up_to(&plan, u16::MAX);
    let table = tables(&blocks)[1];
    assert_eq!(
        table.title,
        "made: waits for locks on 2 CPUs, recorded and simulated"
    );
    assert_eq!(table.columns[0].head, ["waits per", "1,000 calls"]);
    assert_eq!(table.names, ["recorded", "bs", "linux-6"]);
    assert_eq!(table.columns[0].texts, ["2.000", "3.000", "0.000"]);
    let recorded = table.columns[2..].iter().map(|own| own.texts[0].as_str());
    assert!(recorded.eq(["700", "1,500", "1,500"]));
    for word in [
        "`recorded`: the kernel's waits",
        "The other lines are simulated",
    ] {
        assert!(table.note.contains(word), "{word}: {}", table.note);
    }
    let figure = figure(&blocks);
    let panel = figure.panels.last().unwrap();
    assert_eq!(panel.title, "Waits for locks, recorded and simulated");
    let points: Vec<_> = panel
        .series
        .iter()
        .map(|own| (own.name.as_str(), own.points.clone()))
        .collect();
    let at = |rate: f64| vec![(1.0, rate.log10())];
    assert_eq!(
        points,
        [("bs", at(3.0)), ("linux-6", vec![]), ("recorded", at(2.0))]
    );
    let own = panel.series.last().unwrap();
    let key = figure.legend.last().unwrap();
    assert_eq!((&*key.name, key.look), ("recorded", own.look));
    let is_other = |other: &Key| other.name == key.name || other.look != key.look;
    assert!(figure.legend.iter().all(is_other));
}

#[test]
fn waits_on_other_numbers_of_cpus_are_a_remark() {
    let plan = plan(&[1, 4]);
    assert!(lede(&plan).starts_with("Nothing on this page was measured"));
    let blocks = blocks_up_to(&plan, u16::MAX);
    assert_eq!(
        (tables(&blocks).len(), figure(&blocks).panels.len()),
        (2, 6)
    );
    let is_remark = |block: &Block| match block {
        Block::Text(own) => own.text.ends_with("add 2 to --cpus."),
        _ => false,
    };
    assert!(blocks.iter().any(is_remark), "{blocks:?}");
}
