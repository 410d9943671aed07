//! Plans: which cells there are, in which order, and what names them.

use everybuddy_measure::rows::checked;

use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn plan() -> Plan {
    let machine = crate::machines::by_name_or_path("x5570").unwrap();
    let variants = choice::workloads(&names(&["burst:in-order", "handover"])).unwrap();
    Plan {
        machine: machine.name.clone(),
        hardware: machine.hardware,
        loads: variants.into_iter().map(Load::Workload).collect(),
        specs: choice::parse(&names(&["bs", "is+order=9"])).unwrap(),
        cpus: vec![1, 2, 4],
        frames: 8192,
        start: None,
        think: 100,
        around: 0,
        program: crate::Program::default(),
        shrink: 64,
        phases: Phases::Together,
        frees: Frees::Own,
        zones: Zones::One,
        slice: 10_000,
        whole_calls: false,
        services: Services::Callers,
        cut_off: None,
        stops: false,
        seeds: vec![1, 2],
    }
}

fn jobs(jobs: usize) -> NonZero<usize> {
    NonZero::new(jobs).unwrap()
}

#[test]
fn loads_end_one_after_the_other_and_the_cheapest_cells_first() {
    let plan = plan();
    let cells = plan.cells();
    let mut order = Vec::new();
    let nothing = vec![None; cells.len()];
    let (rows, scalings) = plan
        .run(jobs(1), nothing, &mut |id, _| {
            order.push((id.load, Plan::cost(id)));
            Ok(())
        })
        .unwrap();
    assert_eq!(order.len(), cells.len());
    assert!(order.is_sorted(), "{order:?}");
    // The rows of the loads are those of the run.
    let mut known = vec![None; cells.len()];
    plan.run(jobs(2), known.clone(), &mut |id, rows| {
        let at = cells.iter().position(|own| own == id).unwrap();
        known[at] = rows.map(<[Row]>::to_vec);
        Ok(())
    })
    .unwrap();
    let [first, second] = [0, 1].map(|load| plan.of_load(load, &known));
    assert_eq!([first.0, second.0].concat(), rows);
    assert_eq!([first.1, second.1].concat(), scalings);
    // Of cells that have not ended, there is nothing.
    known.truncate(3);
    known.resize(cells.len(), None);
    assert_eq!(plan.of_load(0, &known).1.len(), 1);
    assert_eq!(plan.of_load(1, &known), (Vec::new(), Vec::new()));
}

#[test]
fn rows_are_defined_and_say_that_they_are_simulated() {
    let plan = plan();
    let cells = plan.cells();
    // `handover` needs two CPUs.
    assert_eq!(cells.len(), 2 * 2 * (3 + 2));
    let mut steps = 0;
    let nothing = vec![None; cells.len()];
    let (rows, scalings) = plan
        .run(jobs(1), nothing, &mut |_, _| {
            steps += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(steps, cells.len());
    checked(&rows).unwrap();
    assert!(rows.iter().all(|row| row.platform.is_simulated()));
    let find = |metric: &str, cpus| {
        let mut found = rows
            .iter()
            .filter(|row| row.metric == metric && row.cpus == cpus);
        found.next().map(|row| row.value)
    };
    assert_eq!(find("linearity", 1), Some(1.0));
    assert!(
        find("linearity", 4).unwrap() < 0.8,
        "one lock serves four CPUs"
    );
    assert!(find("accesses", 1).unwrap() > 5.0);
    assert_eq!(scalings.len(), 4);
    assert_eq!(scalings[0].limit, Some(1));
    assert_eq!(rows::scalings(&rows), scalings, "rows are enough");
    let (hottest, share) = scalings[0].hottest.clone().unwrap();
    assert!(hottest == "zone lock" && share > 0.3, "{hottest} {share}");
    let shares = rows.iter().filter(|row| row.metric == "memory_time_share");
    assert!(
        shares
            .clone()
            .any(|row| row.source == "burst:in-order: zone lock")
    );
    assert!(shares.into_iter().all(|row| row.value <= 1.0));
}

#[test]
fn rows_depend_neither_on_threads_nor_on_earlier_runs() {
    let plan = plan();
    let cells = plan.cells();
    let mut stored: Vec<Option<Vec<Row>>> = vec![None; cells.len()];
    let all = plan.run(jobs(1), stored.clone(), &mut |id, rows| {
        let at = cells.iter().position(|own| own == id).unwrap();
        stored[at] = rows.map(<[Row]>::to_vec);
        Ok(())
    });
    let all = all.unwrap();
    for threads in [2, 5] {
        let again = plan.run(jobs(threads), vec![None; cells.len()], &mut |_, _| Ok(()));
        assert_eq!(again.unwrap(), all);
    }
    // Cells of an earlier run, in any order, are not simulated again.
    let mut half = stored.clone();
    half.iter_mut().step_by(3).for_each(|rows| *rows = None);
    let mut steps = 0;
    let again = plan.run(jobs(2), half, &mut |_, _| {
        steps += 1;
        Ok(())
    });
    assert_eq!(again.unwrap(), all);
    assert_eq!(steps, cells.len().div_ceil(3));
}

#[test]
fn a_system_that_has_stopped_scaling_is_not_simulated_on_more_cpus() {
    let plan = Plan {
        cpus: vec![1, 2, 4, 8],
        ..plan()
    };
    let cells = plan.cells();
    let whole = plan.run(jobs(1), vec![None; cells.len()], &mut |_, _| Ok(()));
    let (_, whole) = whole.unwrap();
    let stops = Plan {
        stops: true,
        ..plan.clone()
    };
    assert_eq!(stops.cells(), cells);
    let run = |threads, known| {
        let (mut stored, mut steps) = (vec![None; cells.len()], 0);
        let rows = stops.run(jobs(threads), known, &mut |id, rows| {
            let at = cells.iter().position(|own| own == id).unwrap();
            stored[at] = rows.map(<[Row]>::to_vec);
            steps += 1;
            Ok(())
        });
        (rows.unwrap(), stored, steps)
    };
    let (rows, stored, steps) = run(1, vec![None; cells.len()]);
    // Cells that are left out are reported, too, so progress counts them.
    assert_eq!(steps, cells.len());
    let scalings = &rows.1;
    for (own, whole) in scalings.iter().zip(&whole) {
        assert_eq!((own.limit, &own.load), (whole.limit, &whole.load));
        let kept = match own.limit {
            // The numbers of CPUs up to the one that brings too little.
            Some(limit) => {
                whole
                    .rates
                    .iter()
                    .position(|(cpus, _)| *cpus > limit)
                    .unwrap()
                    + 1
            }
            None => whole.rates.len(),
        };
        assert_eq!(own.rates, whole.rates[..kept]);
        assert_eq!(
            own.hottest, whole.hottest,
            "that of the first number beyond the limit"
        );
    }
    let left_out = stored.iter().filter(|rows| rows.is_none()).count();
    let rates: usize = scalings.iter().map(|own| own.rates.len()).sum();
    assert_eq!(left_out, cells.len() - 2 * rates);
    assert!(left_out > 0 && left_out < cells.len() / 2, "{left_out}");
    assert_eq!(run(3, vec![None; cells.len()]).0, rows);
    // A run that was interrupted continues.
    for step in [2, 3, 5] {
        let mut half = stored.clone();
        half.iter_mut().step_by(step).for_each(|rows| *rows = None);
        let left = stops.left(&half);
        let (again, new, steps) = run(2, half.clone());
        assert_eq!(again, rows);
        assert!(steps <= left && left < cells.len(), "{steps} of {left}");
        let simulated = |at: &usize| new[*at].is_some();
        let expected = |at: &usize| half[*at].is_none() && stored[*at].is_some();
        let all = 0..cells.len();
        assert!(all.clone().filter(simulated).eq(all.filter(expected)));
    }
    assert_eq!((stops.left(&stored), run(2, stored.clone()).2), (0, 0));
    // A run to the limit leaves out what another run has simulated beyond it.
    let mut beyond = vec![None; cells.len()];
    let all = plan.run(jobs(2), beyond.clone(), &mut |id, rows| {
        let at = cells.iter().position(|own| own == id).unwrap();
        beyond[at] = rows.map(<[Row]>::to_vec);
        Ok(())
    });
    assert_ne!(all.unwrap(), rows);
    assert_eq!(run(2, beyond.clone()).0, rows);
    let by_load: Vec<_> = (0..2).map(|load| stops.of_load(load, &beyond)).collect();
    assert_eq!([&by_load[0].0[..], &by_load[1].0].concat(), rows.0);
    assert_eq!(stops.left(&vec![None; cells.len()]), cells.len());
}

#[test]
fn rows_and_remarks_say_what_is_not_the_default() {
    let mut plan = plan();
    let id = plan.cells()[0];
    let mut seen = |phases, services| {
        (plan.phases, plan.services) = (phases, services);
        (plan.base(&id).experiment, plan.remarks())
    };
    let (name, remarks) = seen(Phases::Together, Services::Callers);
    assert_eq!((name.as_str(), remarks.as_str()), ("simulate", ""));
    let (name, remarks) = seen(Phases::Apart, Services::Own);
    assert_eq!(name, "simulate+phases=apart+services=own");
    assert_eq!(remarks, "; CPUs are apart; services have CPUs of their own");
    let (name, remarks) = seen(Phases::Together, Services::Idle);
    assert_eq!(name, "simulate+services=idle");
    assert_eq!(remarks, "; services run on CPUs that wait");
}

#[test]
fn the_time_between_calls_is_given_in_cycles() {
    let mut plan = plan();
    plan.hardware.work = 250;
    assert_eq!(plan.instructions(100), 400);
    assert_eq!(plan.instructions(u32::MAX), u32::MAX / 2);
}

#[test]
fn what_changes_rows_changes_the_identity_of_a_cell() {
    let plan = plan();
    let id = plan.cells()[0];
    let changes: [fn(&mut Plan); 12] = [
        |plan| plan.machine.push('2'),
        |plan| plan.hardware.mhz += 1,
        |plan| plan.frames *= 2,
        |plan| plan.think += 1,
        |plan| plan.around += 1,
        |plan| plan.shrink += 1,
        |plan| plan.phases = Phases::Apart,
        |plan| plan.frees = Frees::Other,
        |plan| plan.zones = Zones::Socket,
        |plan| plan.slice += 1,
        |plan| plan.services = Services::Own,
        |plan| plan.services = Services::Idle,
    ];
    let changed = changes.iter().map(|change| {
        let mut plan = plan.clone();
        change(&mut plan);
        plan.identity(&id)
    });
    let cells = plan.cells();
    let cells = cells.iter().map(|id| plan.identity(id));
    let mut all: Vec<String> = changed.chain(cells).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn cells_have_different_names() {
    let plan = plan();
    let mut names: Vec<String> = plan.cells().iter().map(|id| plan.name(id)).collect();
    assert_eq!(names[0], "burst:in-order, bs, 1 CPU, seed 1");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), plan.cells().len());
}
