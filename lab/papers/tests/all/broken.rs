//! Claims against numbers that were broken on purpose.

use everybuddy_measure::claim::{Claim, State};
use everybuddy_measure::rows::Row;
use everybuddy_papers::{Experiment, list, named};
use serde::Deserialize;

/// The tables that a source prints, as the file of an experiment has them.
#[derive(Deserialize)]
struct Printed {
    #[serde(default)]
    printed: Vec<Table>,
    /// The system whose times are printed in units of those of others.
    examined: Option<String>,
}

#[derive(Deserialize)]
struct Table {
    operation: String,
    cpus: Vec<u16>,
    cells: Vec<(String, String, Vec<f64>)>,
}

fn experiment(name: &str) -> Experiment {
    let own = named(&[name.to_string()]).unwrap().remove(0);
    list::run_of(own, false, &[]).unwrap()
}

fn row(own: &Experiment, source: String, system: &str, operation: &str, value: f64) -> Row {
    Row {
        experiment: own.name.clone(),
        source,
        system: system.to_string(),
        operation: operation.to_string().leak(),
        metric: "cycles",
        statistic: "mean",
        value,
        ..Row::default()
    }
}

/// Returns the costs that the source prints. Of a ratio they are in units of the examined system's cost.
fn printed(own: &Experiment) -> Vec<Row> {
    let Printed { printed, examined } = own.parameters.clone().try_into().unwrap();
    let mut rows = Vec::new();
    for table in &printed {
        for (workload, system, values) in &table.cells {
            for (cpus, value) in table.cpus.iter().zip(values) {
                let source = format!("{workload}/{cpus}");
                let cost = examined.as_ref().map_or(*value, |_| 1.0 / value);
                rows.push(row(own, source.clone(), system, &table.operation, cost));
                if let Some(examined) = &examined {
                    rows.push(row(own, source, examined, &table.operation, 1.0));
                }
            }
        }
    }
    rows
}

/// Returns the rows of the experiment about a patch that changes nothing: all systems make as many calls.
fn unchanged(own: &Experiment) -> Vec<Row> {
    let mut rows = Vec::new();
    for workload in &own.workloads {
        for cpus in [8, 16, 32] {
            let systems = own.systems.iter();
            rows.extend(systems.map(|system| Row {
                metric: "throughput",
                statistic: "rate",
                ..row(own, format!("{workload}/{cpus}"), system, "all", 1e6)
            }));
        }
    }
    rows
}

/// Returns the claims that fail, whether the failure is known or not.
fn failures<'c>(own: &'c Experiment, rows: &[Row]) -> Vec<&'c str> {
    let fails = |claim: &&Claim| claim.judge(&own.name, rows).state == State::Fail;
    own.claims
        .iter()
        .filter(fails)
        .map(|claim| claim.text.as_str())
        .collect()
}

#[test]
fn a_system_that_is_ten_times_off_is_noticed() {
    let ibuddy = experiment("table-1");
    let spring = experiment("spring-programs");
    let porter = experiment("lock-variants-simulated");
    let (of_ibuddy, of_spring) = (printed(&ibuddy), printed(&spring));
    let of_porter = unchanged(&porter);
    for (own, rows) in [
        (ibuddy, of_ibuddy),
        (spring, of_spring),
        (porter, of_porter),
    ] {
        // A reproduction that is perfect keeps every claim that its numbers decide.
        assert_eq!(failures(&own, &rows), [""; 0], "{}", own.name);
        let mut systems: Vec<&str> = rows.iter().map(|row| row.system.as_str()).collect();
        systems.sort_unstable();
        systems.dedup();
        assert!(systems.len() >= 3, "{systems:?}");
        for system in systems {
            for factor in [10.0, 0.1] {
                let broken = rows.iter().cloned().map(|row| Row {
                    value: row.value * if row.system == system { factor } else { 1.0 },
                    ..row
                });
                let failures = failures(&own, &broken.collect::<Vec<_>>());
                assert!(
                    !failures.is_empty(),
                    "{}: {system} times {factor}",
                    own.name
                );
            }
        }
    }
}
