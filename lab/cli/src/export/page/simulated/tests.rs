//! Axes and their marks, and the waits that a trace contains.

use std::sync::Arc;

use everybuddy_measure::choice;
use everybuddy_simulate::{Frees, Phases, Program, Services, Traced};
use everybuddy_trace::{Acquisition, Event, LockWaits, Op, Trace, resolve};

use super::*;

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
        loads: vec![simulate::Load::Trace(Arc::new(traced))],
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
        zones: simulate::Zones::One,
        slice: 0,
        whole_calls: false,
        services: Services::Callers,
        cut_off: None,
        stops: false,
        seeds: vec![1],
    }
}

/// The page of a plan: `bs` waits in 3 calls of 1,000 on two CPUs, `linux-6` in none.
fn page(plan: &Plan) -> Simulation {
    page_up_to(plan, u16::MAX)
}

/// The same, with `linux-6` simulated on so many CPUs only.
fn page_up_to(plan: &Plan, most: u16) -> Simulation {
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
    let machine = everybuddy_simulate::machines::by_name_or_path("x5570").unwrap();
    simulation(&machine, plan, &scalings, &rows)
}

#[test]
fn a_system_that_was_left_out_has_no_line_of_waits() {
    let page = page_up_to(&plan(&[1, 2, 4]), 1);
    let table = page.loads[0].tables.last().unwrap();
    let names: Vec<_> = table.lines.iter().map(|line| &line[0]).collect();
    assert_eq!(names, ["recorded", "bs"]);
    assert!(table.note.contains("are left out"), "{}", table.note);
}

#[test]
fn recorded_waits_are_in_a_table_and_in_the_figure() {
    let page = page(&plan(&[1, 2, 4]));
    assert!(
        page.about.contains("except the waits labelled recorded"),
        "{}",
        page.about
    );
    let load = &page.loads[0];
    let table = load.tables.last().unwrap();
    assert_eq!(
        table.title,
        "made: waits for locks on 2 CPUs, recorded and simulated"
    );
    assert_eq!(table.heads[..2], ["system", "waits per 1,000 calls"]);
    let starts: Vec<_> = table.lines.iter().map(|line| &line[..2]).collect();
    assert_eq!(
        starts,
        [["recorded", "2.000"], ["bs", "3.000"], ["linux-6", "0.000"]]
    );
    assert_eq!(table.lines[0][3..], ["700", "1,500", "1,500"]);
    assert!(
        table
            .lines
            .iter()
            .all(|line| line.len() == table.heads.len())
    );
    for word in [
        "recorded: the kernel's waits",
        "The other lines are simulated",
    ] {
        assert!(table.note.contains(word), "{word}: {}", table.note);
    }

    let panel = load.figure.panels.last().unwrap();
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
    let key = load.figure.legend.last().unwrap();
    assert_eq!((&*key.name, key.look), ("recorded", own.look));
    let is_other = |other: &Key| other.name == key.name || other.look != key.look;
    assert!(load.figure.legend.iter().all(is_other));
}

#[test]
fn waits_on_other_numbers_of_cpus_are_a_remark() {
    let mut page = page(&plan(&[1, 4]));
    assert!(
        page.about.starts_with("Nothing on this page was measured"),
        "{}",
        page.about
    );
    let load = page.loads.remove(0);
    assert_eq!((load.tables.len(), load.figure.panels.len()), (2, 6));
    assert!(
        load.remarks.ends_with("add 2 to --cpus."),
        "{}",
        load.remarks
    );
}

fn series(values: &[f64]) -> Vec<Series> {
    vec![Series {
        points: values.iter().map(|value| (0.0, value.log10())).collect(),
        ..Series::default()
    }]
}

#[test]
fn an_axis_includes_all_points_and_has_marks() {
    for values in [&[3.0, 4.0][..], &[0.02, 7e9], &[5.0], &[]] {
        let axis = logarithmic("", &series(values));
        let (least, most) = axis.range;
        assert!(
            values
                .iter()
                .all(|value| (least..most).contains(&value.log10()))
        );
        assert!(axis.marks.iter().all(|(at, _)| (least..=most).contains(at)));
        assert!(values.len() < 2 || !axis.marks.is_empty(), "{values:?}");
    }
}

#[test]
fn marks_are_short() {
    let texts = [0.2, 5.0, 2000.0, 5e6, 1e10].map(few);
    assert_eq!(texts, ["0.2", "5", "2,000", "5M", "10G"]);
}
