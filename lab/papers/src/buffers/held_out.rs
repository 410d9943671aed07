//! A constant of a predicting list, chosen on some traces and tested on another.
//!
//! A constant that was fitted to a paper's figure says nothing about that figure. The same choice, made by a rule on
//! other traces, does.
//!
//! # Invariants
//! What is chosen for a trace does not depend on its own numbers.

use crate::shared::prelude::*;

/// The name of the chosen variant in rows.
const CHOSEN: &str = "chosen elsewhere";

/// What the source's predicting list leaves, in units of what a fixed list leaves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Multiple {
    /// The length of the fixed list, for its name in rows.
    length: u32,
    /// The fixed list.
    system: String,
    allocate: f64,
    free: f64,
}

impl Multiple {
    /// Returns the multiple of a direction.
    fn of(&self, operation: &str) -> f64 {
        match operation {
            "allocate" => self.allocate,
            _ => self.free,
        }
    }
}

/// Returns what a system leaves on average over some traces.
fn left(rows: &[Row], system: &str, operation: &str, traces: &[String]) -> Option<f64> {
    let of_trace = |trace: &String| {
        let is_own = |row: &&Row| {
            (row.metric, row.statistic) == ("residual", "mean")
                && row.operation == operation
                && row.source == *trace
                && row.name() == system
        };
        rows.iter().find(is_own).map(|row| row.value)
    };
    let all: Option<Vec<f64>> = traces.iter().map(of_trace).collect();
    mean(all?.into_iter())
}

/// Returns the mean distance of a variant from the source, as a logarithm.
fn distance(rows: &[Row], variant: &str, multiples: &[Multiple], traces: &[String]) -> Option<f64> {
    let mut distances = Vec::new();
    for multiple in multiples {
        for operation in DIRECTIONS {
            let own = left(rows, variant, operation, traces)?;
            let fixed = left(rows, &multiple.system, operation, traces)?;
            distances.push((own / fixed / multiple.of(operation)).ln().abs());
        }
    }
    mean(distances.into_iter())
}

/// Returns the rows of the variant that is chosen for each trace on the others.
pub(super) fn rows(
    experiment: &Experiment,
    candidates: &[String],
    multiples: &[Multiple],
    rows: &[Row],
) -> Vec<Row> {
    let mut found = Vec::new();
    let traces = experiment.trace_names();
    for trace in &traces {
        let others: Vec<String> = traces.iter().filter(|own| *own != trace).cloned().collect();
        let distances = candidates.iter().filter_map(|variant| {
            let own = distance(rows, variant, multiples, &others)?;
            own.is_finite().then_some((own, variant))
        });
        let Some((_, chosen)) = distances.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            continue;
        };
        let named = |name: String, row: &Row| Row {
            system: name,
            options: String::new(),
            ..row.clone()
        };
        let is_chosen = |row: &&Row| row.source == *trace && row.name() == *chosen;
        let own: Vec<&Row> = rows.iter().filter(is_chosen).collect();
        found.extend(own.iter().map(|row| named(CHOSEN.to_string(), row)));
        for multiple in multiples {
            let name = format!("{CHOSEN} / {}", multiple.length);
            for operation in DIRECTIONS {
                let this = std::slice::from_ref(trace);
                let value = left(rows, chosen, operation, this)
                    .zip(left(rows, &multiple.system, operation, this))
                    .map(|(own, fixed)| own / fixed);
                let base = own.iter().find(|row| row.operation == operation);
                found.extend(base.zip(value).map(|(base, value)| {
                    named(name.clone(), &row(base, "residual_ratio", "value", value))
                        .expecting(Some(multiple.of(operation)))
                }));
            }
        }
    }
    debug_assert!(found.iter().all(|row| row.source != MEAN));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = include_str!("experiment.toml");

    /// Rows of two variants and a fixed list on three traces: `a` is right on the first two, `b` on the third.
    fn measured(on_third: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for (trace, left) in [
            ("gcc_build", 1.0),
            ("dbench_tar", 1.0),
            ("numpy_thp", on_third),
        ] {
            for (system, value) in [("a", 2.0 * left), ("b", 20.0 * left), ("fixed", 1.0)] {
                for operation in DIRECTIONS {
                    rows.push(Row {
                        source: trace.to_string(),
                        system: system.to_string(),
                        operation,
                        metric: "residual",
                        statistic: "mean",
                        value,
                        ..Row::default()
                    });
                }
            }
        }
        rows
    }

    #[test]
    fn what_is_chosen_for_a_trace_does_not_depend_on_it() {
        let experiment = Experiment::parse("buffers", FILE).unwrap();
        let candidates = ["a", "b"].map(String::from);
        let multiples = [Multiple {
            length: 186,
            system: "fixed".to_string(),
            allocate: 2.0,
            free: 2.0,
        }];
        for on_third in [1.0, 0.1, 0.001] {
            let found = rows(&experiment, &candidates, &multiples, &measured(on_third));
            let is_own = |row: &&Row| {
                row.source == "numpy_thp"
                    && row.metric == "residual_ratio"
                    && row.operation == "free"
            };
            let own: Vec<&Row> = found.iter().filter(is_own).collect();
            // The first two choose `a`, whatever the third shows.
            assert_eq!(own.len(), 1);
            assert_eq!(own[0].name(), "chosen elsewhere / 186");
            assert_eq!(own[0].value, 2.0 * on_third);
            assert_eq!(own[0].expected, Some(2.0));
            let copies = found.iter().filter(|row| row.system == CHOSEN);
            assert_eq!(copies.count(), 6, "two directions on three traces");
        }
    }

    #[test]
    fn without_another_trace_nothing_is_chosen() {
        let text = FILE.replacen("memory = ", "traces = [\"gcc_build\"]\nmemory = ", 1);
        let experiment = Experiment::parse("buffers", &text).unwrap();
        let multiples = [Multiple {
            length: 186,
            system: "fixed".to_string(),
            allocate: 2.0,
            free: 2.0,
        }];
        let found = rows(&experiment, &["a".to_string()], &multiples, &measured(1.0));
        assert!(found.is_empty(), "{found:?}");
    }
}
