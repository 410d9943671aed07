//! Claims against numbers that were broken on purpose. A claim that no number can break says nothing.

use everybuddy_measure::claim::{Claim, State};
use everybuddy_measure::rows::Row;
use everybuddy_papers::{Experiment, list, named};
use serde::Deserialize;

/// The tables that a source prints, as the file of an experiment has them.
#[derive(Deserialize)]
struct Parameters {
    printed: Vec<Table>,
    /// The system with which the others are compared, if the tables compare.
    #[serde(alias = "saver")]
    examined: Option<String>,
}

#[derive(Deserialize)]
struct Table {
    metric: String,
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

/// Returns the costs that the source prints, with those of one system multiplied by a factor. If the source compares,
/// the unit is the cost of the examined system.
fn printed(own: &Experiment, broken: &str, factor: f64) -> Vec<Row> {
    let parameters: Parameters = own.parameters.clone().try_into().unwrap();
    let of = |system: &str| if system == broken { factor } else { 1.0 };
    let examined = parameters.examined.as_deref();
    let mut rows = Vec::new();
    for table in &parameters.printed {
        for (workload, system, values) in &table.cells {
            for (cpus, printed) in table.cpus.iter().zip(values) {
                let row = |system, value| {
                    let source = format!("{workload}/{cpus}");
                    row(own, source, system, &table.operation, value)
                };
                let cost = match table.metric.as_str() {
                    "cycles" => *printed,
                    "saving" => 1.0 / (1.0 - printed),
                    "relative_time" => 1.0 / printed,
                    other => panic!("{other}: what does the table mean?"),
                };
                let cost = cost * of(system);
                rows.push(row(system, cost));
                if let Some(examined) = examined {
                    rows.push(row(examined, of(examined)));
                    rows.push(Row {
                        metric: "relative_time",
                        expected: Some(*printed),
                        ..row(system, of(examined) / cost)
                    });
                }
            }
        }
    }
    rows
}

/// Returns the rows of an experiment whose systems all make as many calls, except for a broken one.
fn alike(own: &Experiment, broken: &str, factor: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for workload in &own.workloads {
        for cpus in [8, 16, 32] {
            let systems = own.systems.iter();
            rows.extend(systems.map(|system| {
                let calls = if system == broken { factor } else { 1.0 };
                Row {
                    metric: "throughput",
                    statistic: "rate",
                    ..row(own, format!("{workload}/{cpus}"), system, "all", calls)
                }
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
    type Rows = fn(&Experiment, &str, f64) -> Vec<Row>;
    for (name, rows) in [
        ("table-1", printed as Rows),
        ("spring-programs", printed),
        ("lock-variants-simulated", alike),
    ] {
        let own = experiment(name);
        // A perfect reproduction keeps every claim that its numbers decide.
        let perfect = rows(&own, "", 1.0);
        assert_eq!(failures(&own, &perfect), [""; 0], "{name}");
        let mut systems: Vec<&str> = perfect.iter().map(|row| row.system.as_str()).collect();
        systems.sort_unstable();
        systems.dedup();
        assert!(systems.len() >= 3, "{systems:?}");
        for system in systems {
            for factor in [10.0, 0.1] {
                let broken = rows(&own, system, factor);
                assert!(
                    !failures(&own, &broken).is_empty(),
                    "{name}: {system} times {factor}"
                );
            }
        }
    }
}
